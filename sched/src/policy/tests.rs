//! Presets are what they say; errors come all at once; what is printed reads back.

use eddy_wire::time::Span;
use proptest::prelude::*;

use super::read::{Draft, read};
use super::*;

fn lines(text: &str) -> Vec<String> {
    let errors = read(text).expect_err("something is wrong");
    errors.iter().map(ToString::to_string).collect()
}

fn warned(text: &str) -> Vec<String> {
    let policy = read(text).expect("a policy");
    warn::warnings(&policy)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn every_preset_is_read_under_its_own_name_and_has_the_name_in_the_list() {
    for known in PRESETS {
        let policy = preset(known.name).expect("it is there");
        assert_eq!(policy.preset, known.name);
        let again = read(&format!("preset = {:?}\n", known.name));
        assert_eq!(again.as_ref(), Ok(&policy));
        assert_eq!(read(&print::print(&policy)), Ok(policy), "{}", known.name);
    }
}

#[test]
fn nothing_given_is_first_come_first_served() {
    assert_eq!(read(""), Ok(preset("fcfs").expect("it is there")));
}

#[test]
fn published_rows_and_any_hybrid_have_their_policies() {
    let walk = |name: &str| preset(name).map(|policy| policy.queue.walk);
    assert_eq!(walk("hybrid-8"), Some(Walk::Reserve { depth: 8 }));
    assert_eq!(
        walk("hybrid-1000000"),
        Some(Walk::Reserve { depth: 1_000_000 })
    );
    for none in [
        "hybrid-0",
        "hybrid-08",
        "hybrid-+8",
        "hybrid-1000001",
        "hybrid-",
        "nobody",
    ] {
        assert_eq!(preset(none), None, "{none}");
    }
    let cons = preset("cons").expect("a row").queue;
    assert_eq!(cons.walk, Walk::Reserve { depth: Walk::ALL });
    assert_eq!(cons.reservations, Reservations::Replanned);
    let compress = preset("cons-compress").expect("a row").queue;
    assert_eq!(compress.reservations, Reservations::Kept);
    let sjbf = preset("easy-sjbf").expect("a row").queue;
    assert_eq!(sjbf.fill_order, FillOrder::Shortest);
    assert_eq!(sjbf.walk, Walk::Reserve { depth: 1 });
}

#[test]
fn flux_has_the_weights_it_is_to_have() {
    let flux = preset("flux").expect("it is there");
    let weights: Vec<(&str, f64)> = flux
        .priority
        .weights
        .iter()
        .map(|(name, &weight)| (name.as_str(), weight))
        .collect();
    assert_eq!(
        weights,
        [
            ("fair_share", 1e5),
            ("qos", 1e6),
            ("queue", 1e4),
            ("size", 1e2),
            ("user", 1e3),
            ("wait", 1e3)
        ]
    );
    assert_eq!(flux.priority.factors.max_wait, Span::seconds(7 * 86_400));
    assert_eq!(flux.priority.factors.size, SizeFavour::Large);
    assert_eq!(flux.share.within_pass, WithinPass::Projected);
}

#[test]
fn static_presets_are_static_and_armada_has_its_defaults() {
    for name in ["slurm-ticket", "pbs-it4i"] {
        let share = preset(name).expect("it is there").share;
        assert_eq!(share.within_pass, WithinPass::Static, "{name}");
    }
    let armada = preset("armada").expect("it is there");
    assert_eq!(armada.queue.lookback, Some(100_000));
    assert_eq!(
        armada.queue.limits.account_rate,
        Some(Rate {
            per_second: 50.0,
            burst: 1000
        })
    );
    let legacy = preset("armada-legacy").expect("it is there");
    assert_eq!(legacy.share.algorithm, Share::PriorityFloor { floor: 0.5 });
    assert_eq!(
        legacy.usage.decay,
        Decay::TowardCurrent {
            half: Span::seconds(1200)
        }
    );
}

#[test]
fn a_part_is_overridden_and_the_rest_stays() {
    let policy = read(
        "preset = \"flux\"\n[usage]\ndecay.half = \"14d\"\n[priority.weights]\nqos = 5\n\
         [share]\nalgorithm = \"ticket\"\ntickets = 50\n",
    )
    .expect("a policy");
    let mut expected = preset("flux").expect("it is there");
    expected.usage.decay = Decay::Exponential {
        half: Span::seconds(14 * 86_400),
    };
    expected.priority.weights.insert("qos".to_owned(), 5.0);
    // What the new algorithm takes and was not given is as in the system it comes from.
    expected.share.algorithm = Share::Ticket {
        floor: TicketFloor::Overall,
        tickets: 50.0,
    };
    assert_eq!(policy, expected);
}

#[test]
fn all_errors_come_at_once_with_line_and_path() {
    let text = "preset = \"flx\"\n\
        [usage]\ndecay = { form = \"exponential\", half = 0, floor = 3 }\n\
        minimun = \"1s\"\nweights = { cores = -1, \"a b\" = 1 }\n\
        [priority.factors]\nmax_wait = \"0s\"\nqos.high = 1.5\n\
        [queue]\nwalk = \"backfill\"\ndepth = 3\nlimits.rate = { per_second = 0, burst = 1 }\n\
        [placement]\ndefault_class = \"none\"\n";
    assert_eq!(
        lines(text),
        [
            "line 1: preset: is \"flx\"; there is no such preset; there is flux",
            "line 3: usage.decay.floor: belongs to form = \"step\"; the policy has form = \"exponential\"",
            "line 3: usage.decay.half: is 0; allowed is a duration longer than 0 such as \"7d\" (RFC 23), or seconds",
            "line 4: usage.minimun: unknown key; there is usage.minimum",
            "line 5: usage.weights: the name \"a b\" is not allowed; allowed is 1 to 64 characters, none of them a blank or a control character",
            "line 5: usage.weights.cores: is -1; allowed is a number from 0 to 1e12",
            "line 7: priority.factors.max_wait: is \"0s\"; allowed is a duration longer than 0 such as \"7d\" (RFC 23), or seconds",
            "line 8: priority.factors.qos.high: is 1.5; allowed is a number from 0 to 1",
            "line 10: queue.walk: is \"backfill\"; allowed is \"stop\", \"skip\" or \"reserve\"",
            "line 11: queue.depth: belongs to walk = \"reserve\"; the policy has walk = \"stop\"",
            "line 12: queue.limits.rate: is a table; allowed is { per_second = a number from 1e-12 to 1e12, burst = a whole number from 1 to 1000000000 }, or \"none\"",
            "line 14: placement.default_class: is \"none\", which needs a table of that name; the policy has default",
        ]
    );
}

#[test]
fn parts_that_do_not_go_together_are_refused() {
    assert_eq!(
        lines("[queue]\nsource = \"per_account_cost\"\nevict = \"fair_share\"\n"),
        [
            "line 2: queue.source: is \"per_account_cost\", which needs share.algorithm = \"drf\"; the policy has share.algorithm = \"none\"",
            "line 3: queue.evict: is \"fair_share\", which needs share.algorithm = \"drf\"; the policy has share.algorithm = \"none\"",
        ]
    );
    assert_eq!(
        lines(
            "preset = \"armada\"\n[share]\nresources = { cores = 0, gpus = 0, memory = 0, disk = 0 }\n"
        ),
        ["line 3: share.resources: is 0 with a multiplier over 0; allowed is 1 to 8 of them"]
    );
}

#[test]
fn formulas_are_checked_with_their_columns() {
    let text = "preset = \"flux\"\n[priority]\norder = [\n  \"w_qos * qos\",\n  \"1 + fairshare\",\n]\nweights = { Qos = 1 }\n";
    let said = lines(text);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].starts_with(
            "line 5: priority.order[1]: column 5: name `fairshare` is given; known are "
        ),
        "{said:?}"
    );
    assert_eq!(
        said[1],
        "line 7: priority.weights.Qos: the name \"Qos\" is not allowed; allowed is letters a-z, digits and _, as a formula can write it"
    );
}

#[test]
fn a_threshold_that_holds_all_is_said() {
    let text = "preset = \"flux\"\n[priority]\nthreshold = 1102100\n";
    assert_eq!(
        warned(text),
        [
            "priority.threshold: is 1102100, and the best that factors can make is 1102100: all jobs are held back"
        ]
    );
    let more = "preset = \"flux\"\n[priority]\nthreshold = 1102099\n";
    // A queue of which nothing is said has priority 0, so its weight adds nothing.
    assert_eq!(warned(&format!("{more}factors.queues.fast = 1\n")), [""; 0]);
}

#[test]
fn weights_say_what_they_outweigh() {
    let said = |name: &str| outweigh::outweighs(&preset(name).expect("it is there"));
    assert_eq!(
        said("flux"),
        [
            "a full qos factor (1000000) outweighs all of fair_share, user, wait, size together (102100); 0.0001 of it is as much as a day of wait",
            "a full fair_share factor (100000) outweighs all of user, wait, size together (2100); 0.0014 of it is as much as a day of wait",
            "a full user factor (1000) does not outweigh all of wait, size together (1100); 0.1429 of it is as much as a day of wait",
            "a full wait factor (1000) outweighs all of size (100); each day adds 142.9, up to 7d",
            "a full size factor (100) is the lightest; it is as much as 16.8h of wait",
            "each point of queue priority weighs 10000, as much as 0.0100 of qos, more than any wait",
        ]
    );
    // The site's own rule: ten days are a point, a point of the queue is all of fair share.
    assert_eq!(
        said("pbs-it4i"),
        [
            "a full fair_share factor (1000) is the lightest",
            "each point of queue priority weighs 1000, as much as 1.0000 of fair_share",
            "each day of eligible time weighs 0.1, as much as 0.0001 of fair_share",
        ]
    );
    assert_eq!(said("fcfs"), [""; 0]);
}

#[test]
fn what_a_running_instance_obeys_is_said_by_part() {
    let served = |name: &str| preset(name).expect("it is there").served();
    for name in [
        "fcfs",
        "easy",
        "conservative",
        "hybrid",
        "flux",
        "pbs-it4i",
        "slurm-ticket",
        "armada",
        "armada-legacy",
    ] {
        assert_eq!(served(name), Ok(()), "{name}");
    }
    let taken = read("share.algorithm = \"drf\"\nqueue.evict = \"fair_share\"").expect("a policy");
    assert_eq!(taken.served().expect_err("a walk").part, "queue.evict");
    let spread = read("[placement]\nrank = \"spread\"\n").expect("a policy");
    assert_eq!(spread.served(), Ok(()));
    // What only the simulator charges by.
    let requested = read("preset = \"easy\"\nusage.time = \"requested\"").expect("a policy");
    assert_eq!(requested.served().expect_err("a time").part, "usage.time");
    let minimum = read("preset = \"easy\"\nusage.minimum = 10").expect("a policy");
    assert_eq!(minimum.served().expect_err("a time").part, "usage.minimum");
}

#[test]
fn what_is_not_toml_says_where() {
    let said = lines("preset = \"easy\"\n[queue\n");
    assert_eq!(said.len(), 1);
    assert!(
        said[0].starts_with("line 2: policy is not TOML: "),
        "{said:?}"
    );
}

#[test]
fn a_table_of_a_larger_document_is_read_with_its_lines_and_what_is_set_over_it() {
    let text = "[journal]\nsync = \"full\"\n[policy]\npreset = \"easy\"\nqueue.dept = 3\n";
    let mut draft = Draft::within(text, "policy").expect("a table");
    draft.set("queue.walk", &"backwards".into());
    let errors = draft.read().expect_err("two things are wrong");
    let said: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "policy.queue.walk: is \"backwards\"; allowed is \"stop\", \"skip\" or \"reserve\"",
            "line 5: policy.queue.dept: unknown key; there is policy.queue.depth",
        ]
    );
    let mut draft = Draft::within("", "policy").expect("nothing");
    draft.set("preset", &"hybrid-8".into());
    assert_eq!(draft.read().ok(), preset("hybrid-8"));
}

#[test]
fn show_marks_what_is_not_as_in_the_preset() {
    let policy = read("preset = \"easy\"\n[queue]\ndepth = 7\n[usage.weights]\ncores = 1\n")
        .expect("a policy");
    let text = print::print(&policy);
    let marked: Vec<&str> = text.lines().filter(|line| line.contains("  # ")).collect();
    assert_eq!(
        marked,
        [
            "cores = 1  # added to easy",
            "depth = 7  # overridden; easy has 1"
        ]
    );
}

#[test]
fn presets_are_warned_about_only_where_that_is_their_nature() {
    for known in PRESETS {
        let policy = preset(known.name).expect("it is there");
        let paths: Vec<String> = warn::warnings(&policy)
            .into_iter()
            .map(|warning| warning.path)
            .collect();
        let expected: &[&str] = match known.name {
            "slurm-ticket" => &["share.algorithm", "share.algorithm"],
            _ => &[],
        };
        assert_eq!(paths, expected, "{}", known.name);
    }
}

#[test]
fn queues_under_project_ratio_are_to_be_two_apart() {
    let text = "preset = \"pbs-it4i\"\n[priority.factors.queues]\na = 1\nb = 2\nc = 4\nd = 4\n";
    assert_eq!(
        warned(text),
        [
            "priority.factors.queues.b: 2 is less than 2 over a, 1: fair share and waiting can put a job of a first"
        ]
    );
}

#[test]
fn what_is_seldom_meant_is_said() {
    let text = "preset = \"hybrid-8\"\n[queue]\nlookback = 4\ndisplace_margin = 0.5\nwindow = \"1h\"\n\
        default_limit = \"1d\"\n[queue.limits]\nrate = { per_second = 1, burst = 4 }\n\
        [priority.weights]\nqos = 3\n[placement]\nladder = [\"urgency\"]\n";
    assert_eq!(
        warned(text),
        [
            "priority.weights.qos: no formula names w_qos",
            "queue.lookback: 4 jobs are tried, so 8 reservations are never made",
            "queue.displace_margin: counts only where queue.reservations is \"kept\"",
            "queue.window: 1h is shorter than queue.default_limit, 1d: behind a job without a limit nothing is planned",
            "queue.limits.rate: a gang of more than 4 jobs never starts",
            "placement.ladder: has no \"free\": a job is started only where another is taken from",
            "placement.ladder: has \"urgency\", and all classes have the same priority: nobody takes from anybody",
        ]
    );
    assert_eq!(
        warned("preset = \"conservative\"\n[queue]\nreplan_every = \"1m\"\n"),
        ["queue.replan_every: counts only where queue.reservations is \"replanned\""]
    );
    assert_eq!(
        warned("preset = \"flux\"\n[usage.decay]\nhalf = \"30s\"\n"),
        [
            "usage.decay.half: 30s is shorter than priority.refresh, 1m: priorities are old when they are used",
            "usage.decay.half: 30s is far shorter than the 7d in which waits grow: who used much waits a little, not less",
        ]
    );
    assert_eq!(
        warned("preset = \"flux\"\n[usage.decay]\nform = \"none\"\n"),
        [
            "usage.decay.form: usage is never forgotten: who used much once is behind for ever; a reset or a half-life is usual"
        ]
    );
}

/// Overrides of every key, each allowed under some preset or other variant.
const OVERRIDES: &[(&str, &str)] = &[
    ("usage.charge", "'max_of_node'"),
    ("usage.time", "'requested'"),
    ("usage.minimum", "12.345678"),
    ("usage.weights.gpus", "0.1"),
    ("usage.weights.cores", "1e12"),
    ("usage.factors.night", "0"),
    ("usage.qos_factors.night", "0.5"),
    ("usage.decay.form", "'step'"),
    ("usage.decay.form", "'bins'"),
    ("usage.decay.form", "'reset'"),
    ("usage.decay.form", "'none'"),
    ("usage.decay.half", "'90m'"),
    ("usage.decay.floor", "0.25"),
    ("usage.decay.count", "7"),
    ("usage.decay.at", "'quarterly'"),
    ("share.within_pass", "'projected'"),
    ("share.algorithm", "'classic'"),
    ("share.algorithm", "'pbs_tree'"),
    ("share.algorithm", "'none'"),
    ("share.algorithm", "'drf'"),
    ("share.shape", "'linear'"),
    ("share.damping", "5"),
    ("share.blend", "'part'"),
    ("share.floor", "'siblings'"),
    ("share.minimum_usage", "0.75"),
    ("share.resources.nvme", "2"),
    ("priority.order", "['urgency', 'w_qos * qos']"),
    ("priority.threshold", "-0.1"),
    ("priority.refresh", "'1ms'"),
    ("priority.weights.qos", "1e-7"),
    ("priority.factors.wait_from", "'eligible'"),
    ("priority.factors.size", "'small'"),
    ("priority.factors.qos.'Grüße \"\\x'", "0.125"),
    ("priority.factors.qos.high", "0.3333333333333333"),
    ("priority.factors.queues.low", "-1024"),
    ("queue.source", "'by_queue'"),
    ("queue.source", "'per_account_slices'"),
    ("queue.slice_basis", "'offered'"),
    ("queue.walk", "'skip'"),
    ("queue.walk", "'reserve'"),
    ("queue.depth", "'all'"),
    ("queue.reservations", "'kept'"),
    ("queue.lookback", "3"),
    ("queue.reserve_after", "'1d'"),
    ("queue.default_limit", "3600"),
    ("queue.limits.rate", "{ per_second = 0.5, burst = 9 }"),
    ("queue.limits.pass_fraction.cores", "0.5"),
    ("queue.limits.account_fraction.default.gpus", "0.25"),
    ("placement.rank", "'locality'"),
    ("placement.ladder", "['free', 'urgency']"),
    ("placement.classes.high.priority", "-9223372036854775808"),
    ("placement.classes.high.fair_share_preemptible", "true"),
    ("placement.default_class", "'high'"),
];

fn draft(start: usize, overrides: &[(&str, &str)]) -> Draft {
    let mut draft = Draft::within("", "policy").expect("nothing");
    draft.set("preset", &PRESETS[start].name.into());
    for (path, value) in overrides {
        let table: toml::Table = format!("value = {value}").parse().expect("TOML");
        draft.set(&path.replace('\'', ""), &table["value"]);
    }
    draft
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_printed_reads_back_to_the_same_policy(
        start in 0..PRESETS.len(),
        overrides in proptest::sample::subsequence(OVERRIDES, 0..12),
    ) {
        // One at a time, as far as they go together: each that is refused is left out.
        let mut taken: Vec<(&str, &str)> = Vec::new();
        for one in overrides {
            taken.push(one);
            if draft(start, &taken).read().is_err() {
                taken.pop();
            }
        }
        let policy = draft(start, &taken).read().expect("what was refused is left out");
        let text = print::print(&policy);
        prop_assert_eq!(read(&text), Ok(policy), "{}", text);
    }

    #[test]
    fn damaged_text_is_read_or_refused(
        start in 0..PRESETS.len(),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), 0..4usize), 1..6),
    ) {
        let mut text: Vec<char> = print::print(&preset(PRESETS[start].name).expect("there")).chars().collect();
        for (at, what) in cuts {
            // Never empty: there is a place to spoil.
            let at = at.index(text.len());
            match what {
                0 if text.len() > 1 => { text.remove(at); }
                1 => text.insert(at, '9'),
                2 => text.insert(at, '"'),
                _ => text.truncate(at.max(1)),
            }
        }
        let text: String = text.into_iter().collect();
        match read(&text) {
            Ok(policy) => prop_assert_eq!(read(&print::print(&policy)), Ok(policy)),
            Err(errors) => prop_assert!(!errors.is_empty()),
        }
    }
}

#[test]
fn a_preset_that_is_like_no_other_is_refused_with_all_there_are() {
    let errors = read("preset = \"nix\"").expect_err("there is none");
    let told = errors[0].to_string();
    assert!(told.contains("there are fcfs, easy, "), "{told}");
}
