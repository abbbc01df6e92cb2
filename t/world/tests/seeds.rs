//! The published examples of orders, through a root and its queue instances that run.

use std::collections::{BTreeMap, BTreeSet};

use eddy_sched::amounts::{Amounts, Kinds, UNIT};
use eddy_sched::policy::TicketFloor;
use eddy_sched::policy::read::read;
use eddy_sched::rounds::{self, Decision, Job, Node, Outcome, Run, State};
use eddy_sched::share::{Account, Members, NodeId, Shares, Tree, Usage, ticket};
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::plan::Explained;
use eddy_wire::time::{Span, Time};
use eddy_world::call::Ask;
use eddy_world::nature::ROOT;
use eddy_world::trial::{Door, Ground, News, Party, Trial, work};

type Tested = Result<(), String>;

const CORES: u32 = 100;
const HOUR: Span = Span::seconds(3600);
const QUEUES: [&str; 2] = ["left", "right"];

type Accounts = Vec<(&'static str, Option<&'static str>, u32)>;

fn trial(policy: &str, accounts: Accounts, members: &[&'static str]) -> Result<Trial, String> {
    sized((1, CORES), policy, accounts, members)
}

fn sized(
    (nodes, cores): (u32, u32),
    policy: &str,
    accounts: Accounts,
    members: &[&'static str],
) -> Result<Trial, String> {
    Trial::new(Ground {
        nodes,
        cores,
        message: Span::ZERO,
        policy: policy.to_owned(),
        queues: QUEUES.to_vec(),
        accounts,
        members: members.iter().map(|account| (*account, 1)).collect(),
    })
}

/// Each has so many cores for an hour, all at the same time, and then the machine is closed.
fn use_up(trial: &mut Trial, cores: &[(usize, u32)]) -> Tested {
    for (party, cores) in cores.iter().filter(|(_, cores)| *cores > 0) {
        trial.submit(Party(*party), Door::Root, &work(*cores, HOUR, HOUR));
    }
    trial.run(Span(HOUR.0 * 2), |_, _| {})?;
    trial.close();
    trial.run(Span(1), |_, _| {})
}

/// A job for all of the machine, to a queue instance or to the root itself.
fn whole(queue: Option<&str>) -> Ask {
    Ask {
        queue: queue.map(str::to_owned),
        ..work(CORES, Span::seconds(10), Span::seconds(10))
    }
}

fn factor(one: &Explained, name: &str) -> f64 {
    let term = one.priority.terms.iter().find(|term| term.name == name);
    term.map_or(f64::NAN, |term| term.factor)
}

/// What is told of each party's one job.
fn told(trial: &mut Trial) -> Result<BTreeMap<Party, Explained>, String> {
    let line = trial.line()?;
    let of = |trial: &Trial, job: JobId| trial.got.of(job).map(|(party, _)| party);
    Ok(line
        .into_iter()
        .filter_map(|one| Some((of(trial, one.job)?, one)))
        .collect())
}

fn near(found: f64, wanted: f64, what: &str) {
    assert!(
        (found - wanted).abs() < 1e-6 * wanted.abs().max(1.0),
        "{what}: {found}, not {wanted}"
    );
}

/// The machine is opened: at each start it is he who was told to be first, whatever was told before.
fn each_is_first_as_he_starts(trial: &mut Trial, jobs: usize) -> Tested {
    let mut opened = false;
    let mut started: Vec<JobId> = Vec::new();
    while started.len() < jobs {
        let line = trial.line()?;
        if !std::mem::replace(&mut opened, true) {
            trial.open();
        }
        let first = line.first().map(|one| one.job);
        let mut next = None;
        for _ in 0..100 {
            trial.run(Span::seconds(1), |_, told| {
                if told.news == News::Began {
                    next.get_or_insert(told.job);
                }
            })?;
            if next.is_some() {
                break;
            }
        }
        let next = next.ok_or("nobody starts")?;
        assert!(first == Some(next), "{first:?}, not {next:?}");
        started.push(next);
    }
    Ok(())
}

/// Tickets: five users of four accounts in two, the published usages, and who waits.
#[test]
fn tickets_are_those_of_the_example() -> Tested {
    let accounts = vec![
        ("a", None, 40),
        ("b", Some("a"), 30),
        ("c", Some("a"), 10),
        ("d", None, 60),
        ("e", Some("d"), 25),
        ("f", Some("d"), 35),
        ("rest", None, 0),
    ];
    let members = ["b", "c", "c", "e", "f", "rest"];
    let mut trial = trial("preset = \"slurm-ticket\"", accounts, &members)?;
    use_up(&mut trial, &[(0, 20), (1, 25), (3, 25), (5, 30)])?;
    // Users 2 and 5 wait: 198.02 of 1,000 tickets are the one's, 801.98 the other's.
    for (party, queue) in [(1, Some("left")), (4, Some("right"))] {
        trial.submit(Party(party), Door::Root, &whole(queue));
    }
    trial.run(Span::seconds(120), |_, _| {})?;
    let two = told(&mut trial)?;
    near(
        factor(&two[&Party(1)], "fair_share"),
        198.019_801_980_2 / 801.980_198_019_8,
        "user 2",
    );
    near(factor(&two[&Party(4)], "fair_share"), 1.0, "user 5");
    // Then all five do, and each is ranked anew.
    for (party, queue) in [(0, None), (2, Some("left")), (3, Some("right"))] {
        trial.submit(Party(party), Door::Root, &whole(queue));
    }
    trial.run(Span::seconds(120), |_, _| {})?;
    let tree = Tree::new(&[
        account(
            "a",
            40,
            vec![
                account("b", 30, vec![user("1")]),
                account("c", 10, vec![user("2"), user("3")]),
            ],
        ),
        account(
            "d",
            60,
            vec![
                account("e", 25, vec![user("4")]),
                account("f", 35, vec![user("5")]),
            ],
        ),
    ])
    .map_err(|wrong| wrong.to_string())?;
    let used = |id: NodeId| match tree.name(id) {
        "1" => 20.0,
        "2" | "4" => 25.0,
        _ => 0.0,
    };
    let usage = Usage::new(&tree, used, Some(100.0));
    let held = ticket::distribute(&tree, &usage, TicketFloor::Overall, 1000.0, &|_| true);
    let priorities = ticket::priorities(&tree, &held);
    let all = told(&mut trial)?;
    assert_eq!(all.len(), 5);
    for (party, name) in ["1", "2", "3", "4", "5"].iter().enumerate() {
        let id = tree.users().iter().find(|id| tree.name(**id) == *name);
        let wanted = priorities[id.expect("a user").0 as usize];
        near(factor(&all[&Party(party)], "fair_share"), wanted, name);
    }
    each_is_first_as_he_starts(&mut trial, 5)
}

fn account(name: &str, shares: i64, members: Vec<Account>) -> Account {
    Account {
        name: name.to_owned(),
        shares: Shares::Of(shares),
        members: Members::Under(members),
    }
}

fn user(name: &str) -> Account {
    Account {
        name: name.to_owned(),
        shares: Shares::Of(1),
        members: Members::User,
    }
}

/// Six factors: a quarter of the longest wait, accounts that had exactly what they are due, a queue.
#[test]
fn six_factors_add_up_as_published() -> Tested {
    let policy = "preset = \"flux\"\n[priority.factors.queues]\nleft = 2\n";
    let accounts = vec![("a", None, 1), ("b", None, 1)];
    let mut trial = sized((10, CORES / 10), policy, accounts, &["a", "b"])?;
    use_up(&mut trial, &[(0, 50), (1, 50)])?;
    let tenth = Ask {
        nodes: Some(1),
        ntasks: CORES / 10,
        ..whole(Some("left"))
    };
    trial.submit(Party(0), Door::Root, &tenth);
    trial.submit(
        Party(1),
        Door::Queue("right"),
        &Ask {
            queue: Some("right".to_owned()),
            ..tenth.clone()
        },
    );
    trial.run(Span::seconds(151_200), |_, _| {})?;
    let told = told(&mut trial)?;
    let (left, right) = (&told[&Party(0)], &told[&Party(1)]);
    for (one, queue) in [(left, 2.0), (right, 0.0)] {
        let wait = factor(one, "wait");
        // Values are made anew once a minute.
        assert!((0.2498..=0.25).contains(&wait), "{wait}");
        for (name, wanted) in [
            ("fair_share", 0.5),
            ("qos", 0.5),
            ("size", 0.1),
            ("user", 1.0),
            ("queue", queue),
        ] {
            near(factor(one, name), wanted, name);
        }
        let sum = 1e6 * 0.5 + 1e5 * 0.5 + 1e4 * queue + 1e3 * wait + 1e2 * 0.1 + 1e3;
        near(one.priority.value, sum, "the sum");
    }
    each_is_first_as_he_starts(&mut trial, 1)
}

/// A queue one higher of a project that used everything, against ten days of eligible time of one that
/// used nothing: 1,000 against 1,001.
#[test]
fn the_order_of_projects_queues_and_eligible_time_is_the_published_one() -> Tested {
    let policy = "preset = \"pbs-it4i\"\n[priority.factors.queues]\nleft = 1\nright = 0\n\
                  [usage.factors]\nright = 0\n";
    let accounts = vec![("p", None, 1), ("q", None, 1)];
    let mut trial = trial(policy, accounts, &["p", "q"])?;
    // What is used in a queue that is not charged is nothing.
    let free = Ask {
        queue: Some("right".to_owned()),
        ..work(20, HOUR, HOUR)
    };
    trial.submit(Party(1), Door::Root, &free);
    use_up(&mut trial, &[(0, 50)])?;
    trial.submit(Party(1), Door::Queue("right"), &whole(Some("right")));
    trial.run(Span::seconds(864_000), |_, _| {})?;
    trial.submit(Party(0), Door::Root, &whole(Some("left")));
    trial.run(Span::seconds(1), |_, _| {})?;
    let told = told(&mut trial)?;
    let (high, low) = (
        told[&Party(0)].priority.value,
        told[&Party(1)].priority.value,
    );
    assert!((1000.0..1000.01).contains(&high), "{high}");
    assert!((1001.0..1001.01).contains(&low), "{low}");
    each_is_first_as_he_starts(&mut trial, 2)
}

/// Six cores and a weight twice the other's: four and two, by cost as by slices.
#[test]
fn accounts_that_take_turns_are_filled_by_their_weights() -> Tested {
    for preset in ["armada", "armada-legacy"] {
        let accounts = vec![("a", None, 2), ("b", None, 1)];
        let policy = format!("preset = \"{preset}\"");
        let mut trial = sized((1, 6), &policy, accounts, &["a", "b"])?;
        trial.close();
        trial.run(Span(1), |_, _| {})?;
        for at in 0..6 {
            for (party, queue) in [(0, "left"), (1, "right")] {
                // Accounts are the parties, not queues.
                let queue = Some(queue).filter(|_| at % 2 == 0);
                let one = Ask {
                    queue: queue.map(str::to_owned),
                    ..work(1, HOUR, HOUR)
                };
                trial.submit(Party(party), Door::Root, &one);
            }
        }
        trial.run(Span::seconds(1), |_, _| {})?;
        trial.open();
        trial.run(Span::seconds(10), |_, _| {})?;
        let now: Time = trial.world.nature.now;
        let second = trial.got.core_seconds(Time(now.0 - 1_000_000), now);
        let had = [Party(0), Party(1)].map(|party| second.get(&party).copied().unwrap_or(0.0));
        assert_eq!(had, [4.0, 2.0], "{preset}");
    }
    Ok(())
}

/// One core.
fn core() -> Amounts {
    let mut one = Amounts::NONE;
    one[0] = UNIT;
    one
}

/// Two accounts on nodes of one core each: who runs, on the nodes from the first on, who waits, and what each has used.
fn state(nodes: u32, runs: &[(JobId, usize)], waits: &[(JobId, usize)], used: [f64; 2]) -> State {
    let job = |(id, party): &(JobId, usize)| Job {
        id: *id,
        account: ACCOUNTS[*party].to_owned(),
        class: "preemptible".to_owned(),
        request: core(),
        ..Job::default()
    };
    let accounts = ACCOUNTS.iter().zip(used);
    State {
        kinds: Kinds::new(["cores"]).expect("one name"),
        nodes: (0..nodes)
            .map(|rank| Node {
                rank,
                capacity: core(),
                ..Node::default()
            })
            .collect(),
        runs: (0..)
            .zip(runs)
            .map(|(node, run)| Run {
                job: job(run),
                node,
                ..Run::default()
            })
            .collect(),
        jobs: waits.iter().map(job).collect(),
        accounts: accounts
            .map(|(name, usage)| rounds::Account {
                usage,
                ..rounds::Account::new(*name)
            })
            .collect(),
        ..State::default()
    }
}

const ACCOUNTS: [&str; 2] = ["a", "b"];

/// Who runs once that is done.
fn left(outcome: &Outcome) -> Vec<JobId> {
    let stays = |decision: &Decision| matches!(decision, Decision::Start { .. } | Decision::Keep);
    let kept = outcome.decisions.iter().filter(|(_, one)| stays(one));
    kept.map(|(id, _)| *id).collect()
}

/// Who holds something of the root, and who of them is of which party.
fn hold(trial: &Trial) -> Vec<(JobId, usize)> {
    let held = trial.world.nature.judge(ROOT).recorded().held.keys();
    let of = |job: &JobId| Some((*job, trial.got.of(*job)?.0.0));
    held.filter_map(of).collect()
}

/// Each of two parties wants so many cores more, through a queue instance of its own.
fn want(trial: &mut Trial, party: usize, cores: u32) -> Result<Vec<(JobId, usize)>, String> {
    let before = trial.got.begun().count();
    let many = Ask {
        cc: Some(Idset::first_ids(cores)),
        class: Some("preemptible".to_owned()),
        queue: Some(QUEUES[party].to_owned()),
        ..work(1, Span(HOUR.0 * 8), Span(HOUR.0 * 9))
    };
    trial.submit(Party(party), Door::Root, &many);
    trial.run(Span::seconds(1), |_, _| {})?;
    let all = trial.got.begun().skip(before);
    Ok(all.map(|(job, party, ..)| (job, party.0)).collect())
}

/// Eight cores that one account has, and another of equal weight comes: half of them are taken back, in one round, from
/// those that the library names, and in the next rounds nothing moves.
#[test]
fn what_an_account_has_beyond_its_share_is_taken_back_as_published() -> Tested {
    const CORES: u32 = 8;
    let text = "preset = \"armada\"\nshare.protected_fraction = 0\n";
    let policy = read(text).map_err(|wrong| format!("{wrong:?}"))?;
    let accounts = ACCOUNTS.map(|name| (name, None, 1)).to_vec();
    let mut trial = sized((CORES, 1), text, accounts, &ACCOUNTS)?;
    let first = want(&mut trial, 0, CORES)?;
    assert_eq!(hold(&trial), first, "all of it is the first one's");
    let second = want(&mut trial, 1, CORES)?;
    let round = rounds::schedule(&state(CORES, &first, &second, [0.0; 2]), &policy);
    let wanted = left(&round);
    let published: Vec<JobId> = first[..4]
        .iter()
        .chain(&second[..4])
        .map(|one| one.0)
        .collect();
    assert_eq!(wanted, published, "the library: 0 to 3 of each");
    for _ in 0..4 {
        // What was asked to end has its grace; rounds are a second apart.
        trial.run(Span::seconds(15), |_, _| {})?;
        let now: Vec<JobId> = hold(&trial).iter().map(|one| one.0).collect();
        assert_eq!(now, wanted);
    }
    Ok(())
}

/// What both had of six cores at once, so long after the first had had all of them for a half-time.
fn after_a_rest(rest: Span) -> Result<[usize; 2], String> {
    let accounts = ACCOUNTS.map(|name| (name, None, 1)).to_vec();
    let mut trial = sized((SLICED, 1), LEGACY, accounts, &ACCOUNTS)?;
    let all = Ask {
        cc: Some(Idset::first_ids(SLICED)),
        ..work(1, HALF, HALF)
    };
    trial.submit(Party(0), Door::Root, &all);
    trial.run(HALF.max(Span::seconds(1)), |_, _| {})?;
    trial.run(Span::seconds(1), |_, _| {})?;
    trial.close();
    trial.run(Span(rest.0), |_, _| {})?;
    for party in [0, 1] {
        want(&mut trial, party, SLICED)?;
    }
    assert_eq!(hold(&trial), [], "nobody starts");
    trial.open();
    trial.run(Span::seconds(1), |_, _| {})?;
    let held = hold(&trial);
    Ok([0, 1].map(|party| held.iter().filter(|one| one.1 == party).count()))
}

const SLICED: u32 = 6;
/// What was used counts half after so long, and what is used half as long after that has begun.
const HALF: Span = Span::seconds(1200);
const LEGACY: &str = "preset = \"armada-legacy\"\nplacement.classes.preemptible.priority = 900\n";

/// What the library may give each, whatever is drawn.
fn sliced(used: f64) -> Result<BTreeSet<[usize; 2]>, String> {
    let policy = read(LEGACY).map_err(|wrong| format!("{wrong:?}"))?;
    let waits =
        |from: u64, party| (from..from + u64::from(SLICED)).map(move |id| (JobId(id), party));
    let all: Vec<(JobId, usize)> = waits(1, 0).chain(waits(101, 1)).collect();
    let given = (0..64).map(|seed| {
        let state = State {
            seed,
            ..state(SLICED, &[], &all, [used, 0.0])
        };
        let has = left(&rounds::schedule(&state, &policy));
        let first = has.iter().filter(|id| id.0 < 100).count();
        [first, has.len() - first]
    });
    Ok(given.collect())
}

/// Slices by the inverse of a usage that fades, never below a half: six cores used for a half-time are three, and after
/// each half-time half of that.
#[test]
fn slices_follow_a_usage_that_fades_as_published() -> Tested {
    let mut seen = Vec::new();
    for rest in [10, 1900, 6000] {
        let halves = f64::from(rest) / 1200.0;
        let used = f64::from(SLICED) * 0.5 * 0.5_f64.powf(halves);
        let allowed = sliced(used)?;
        let had = after_a_rest(Span::seconds(i64::from(rest)))?;
        assert!(
            allowed.contains(&had),
            "after {rest} s: {had:?}, not of {allowed:?}"
        );
        seen.push(had[0]);
    }
    assert!(seen[0] < seen[1] && seen[1] < seen[2], "{seen:?}");
    assert_eq!(seen[2], 3, "who rested long enough is as the other");
    Ok(())
}

/// Nothing is passed ahead of its start, so whoever waits for a queue instance is the root's to order until he begins:
/// also who submitted there, and was first for a week.
#[test]
fn who_waits_in_an_instance_is_ranked_anew_until_he_begins() -> Tested {
    let accounts = vec![("a", None, 1), ("b", None, 1), ("rest", None, 0)];
    let mut trial = sized(
        (10, CORES / 10),
        "preset = \"flux\"",
        accounts,
        &["a", "b", "rest"],
    )?;
    use_up(&mut trial, &[(0, 40), (1, 60)])?;
    for party in [0, 1] {
        let own = Ask {
            nodes: Some(10),
            ..whole(Some("right"))
        };
        trial.submit(Party(party), Door::Queue("right"), &own);
    }
    trial.run(Span::seconds(120), |_, _| {})?;
    let first = |trial: &mut Trial| -> Result<Option<Party>, String> {
        let line = trial.line()?;
        Ok(line
            .first()
            .and_then(|one| trial.got.of(one.job))
            .map(|one| one.0))
    };
    assert_eq!(first(&mut trial)?, Some(Party(0)), "who had less");
    // Shares change, and change back, while both wait there.
    for (shares, wanted) in [(4, Party(1)), (1, Party(0)), (9, Party(1))] {
        trial.share("b", shares);
        trial.run(Span::seconds(120), |_, _| {})?;
        assert_eq!(first(&mut trial)?, Some(wanted), "{shares} shares");
    }
    each_is_first_as_he_starts(&mut trial, 2)
}
