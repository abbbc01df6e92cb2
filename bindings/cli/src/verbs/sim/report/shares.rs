//! What users were due by their shares, against what they had.

use eddy_sched::sim::{Fairness, Scene};

use super::{key, patch};
use crate::verbs::sim::Played;
use crate::verbs::sim::chart::{Axis, COLOURS, Chart, fitting};

/// Bars that can be told apart, and users whose names can be read.
const BARS: usize = 72;
const USERS: usize = 16;

/// The chart; nothing where there is nobody to share with.
pub fn compared(scene: Scene<'_>, played: &[Played]) -> String {
    let all = scene.workload.owners.len();
    if all < 2 || played.is_empty() {
        return String::new();
    }
    let fair = played
        .iter()
        .map(|one| Fairness::new(scene.workload, scene.machine, &one.course));
    let fair: Vec<Fairness> = fair.collect();
    let owners = heaviest(&fair[0], (BARS / fair.len()).clamp(2, USERS));
    let name = |owner: usize| scene.workload.owners[owner].name();
    let all_parts = fair
        .iter()
        .flat_map(|one| owners.iter().map(|&owner| parts(one, owner).0));
    let most = all_parts.fold(0.0, f64::max);
    let ticks = owners.iter().enumerate();
    let ticks = ticks.map(|(at, &owner)| (at as f64 + 0.5, fitting(&name(owner), owners.len())));
    let x = Axis::even("user", (0.0, owners.len() as f64), ticks.collect());
    let mut chart = Chart::new(x, Axis::from_zero("of all that was due (%)", most), 280.0);
    let width = 0.8 / fair.len() as f64;
    for (at, &owner) in owners.iter().enumerate() {
        for (policy, (one, fair)) in played.iter().zip(&fair).enumerate() {
            let (due, had) = parts(fair, owner);
            let left = at as f64 + 0.1 + width * policy as f64;
            let (user, right) = (name(owner), left + width);
            let text = format!(
                "{user}, {}: due {due:.2} %, had {had:.2} % of it while due",
                one.name
            );
            chart.area((left, 0.0), (right, due), "due", &text);
            let class = format!("f{}", policy % COLOURS);
            chart.area((left, 0.0), (right, had), &class, &text);
        }
    }
    let policies = played.iter().enumerate();
    let policies = policies.map(|(at, one)| (patch(&format!("f{}", at % COLOURS)), &*one.name));
    let due = [(patch("due"), "due and not had")];
    let shown = match owners.len() {
        shown if shown < all => format!("The {shown} of {all} users who used most, in that order."),
        _ => "The heaviest user is first.".to_owned(),
    };
    format!(
        "<h2>Share against usage</h2><p>A whole bar is the processor time that a user was due by its shares while it \
         wanted that; its coloured part is what it had of it. What others left over is not in it. {shown}</p>{}{}",
        key(policies.chain(due)),
        chart.svg("share against usage of each user")
    )
}

/// Who used most.
fn heaviest(fair: &Fairness, most: usize) -> Vec<usize> {
    let mut owners: Vec<usize> = (0..fair.owners.len()).collect();
    owners.sort_by(|a, b| fair.owners[*b].used.total_cmp(&fair.owners[*a].used));
    owners.truncate(most);
    owners
}

/// What an owner was due and had, of a hundred that all were due.
fn parts(fair: &Fairness, owner: usize) -> (f64, f64) {
    let sum: f64 = fair.owners.iter().map(|owner| owner.due).sum();
    let standing = &fair.owners[owner];
    let part = |amount: f64| 100.0 * amount / sum.max(1e-9);
    (part(standing.due), part(standing.due - standing.short))
}
