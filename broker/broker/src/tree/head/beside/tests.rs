//! What waits for the agent of the leader's own node, and what does not.

use eddy_wire::id::Attempt;
use eddy_wire::idset::Idset;
use eddy_wire::shell::Ended;
use eddy_wire::tree::{Address, InstanceFacts, Letter, Member, Tenure};
use uuid::Uuid;

use super::*;

const SHELL: Epoch = Epoch(2);
const NOTHING: [&str; 0] = [];

fn part(job: u64) -> Part {
    Part {
        job: JobId(job),
        attempt: Attempt(1),
        rank: Rank(0),
    }
}

fn over() -> Ended {
    Ended {
        t: Time(1),
        status: 0,
        note: None,
        tasks: BTreeMap::new(),
    }
}

/// A leader whose agent hosts on ground of job 5, which that shell of its node holds.
struct Bed {
    head: Head,
    tenure: Tenure,
}

impl Bed {
    fn new() -> Bed {
        let mut head = Head::new(Epoch(3), Idset::one(0), InstanceFacts::default(), 1 << 40);
        let tenure = Bed::reach(&mut head);
        let mut bed = Bed { head, tenure };
        let running = PartState::Running { t: Time(1) };
        assert_eq!(bed.hello(vec![(part(5), running)]), ["hello"]);
        let order = Box::new(HostOrder {
            instance: "inner".to_owned(),
            job: JobId(5),
            attempt: Attempt(1),
            child: None,
            name: None,
            user: 0,
            rank: Rank(1),
            door: "/d".to_owned(),
        });
        let _ = bed.head.route(crate::Effect::Host(Rank(0), order));
        bed
    }

    fn reach(head: &mut Head) -> Tenure {
        let member = Member {
            life: Uuid::nil(),
            door: "/a".to_owned(),
        };
        let out = head.reached(Time(1), ATTENDANT, &member);
        out.letters[0].tenure
    }

    fn leaves(&mut self) {
        let effect = crate::Effect::Unhost(Rank(0), "inner".to_owned());
        let _ = self.head.route(effect);
    }

    fn hello(&mut self, parts: Vec<(Part, PartState)>) -> Vec<String> {
        self.says(FromShell::Hello {
            instance: "outer".to_owned(),
            epoch: SHELL,
            pid: 7,
            version: 1,
            parts,
        })
    }

    fn ends(&mut self, job: u64) -> Vec<String> {
        let (part, ended) = (part(job), over());
        self.says(FromShell::Ended { part, ended })
    }

    fn says(&mut self, word: FromShell) -> Vec<String> {
        self.hear(Arrival::Shell(SHELL, word))
    }

    fn hear(&mut self, arrival: Arrival) -> Vec<String> {
        told(&self.head.own_shell(Time(1), arrival))
    }

    fn unhosted(&mut self) -> Vec<String> {
        let letter = Letter {
            to: Address::Leader,
            from: ATTENDANT,
            tenure: self.tenure,
            word: Word::Unhosted(JobId(5), Attempt(1)),
        };
        told(&self.head.letter(Time(1), letter))
    }
}

fn told(out: &HeadOutput) -> Vec<String> {
    let orders = out.letters.iter().filter_map(|letter| match &letter.word {
        Word::Unhost { instance } => Some(format!("unhost {instance}")),
        _ => None,
    });
    let own = out.own.iter().map(|arrival| match arrival {
        Arrival::Shell(_, FromShell::Hello { .. }) => "hello".to_owned(),
        Arrival::Shell(_, FromShell::Ended { part, .. }) => format!("end of {}", part.job.0),
        Arrival::ShellAway(_) => "away".to_owned(),
        Arrival::ShellDead(_) => "dead".to_owned(),
        other => format!("{other:?}"),
    });
    orders.chain(own).collect()
}

#[test]
fn the_end_of_ground_waits_until_the_agent_hosts_nothing_there() {
    let mut bed = Bed::new();
    bed.leaves();
    assert_eq!(bed.ends(5), NOTHING);
    assert_eq!(bed.ends(6), ["end of 6"]);
    assert_eq!(bed.unhosted(), ["end of 5"]);
}

#[test]
fn an_end_that_nobody_ordered_has_the_agent_host_no_more_first() {
    let mut bed = Bed::new();
    assert_eq!(bed.ends(5), ["unhost inner"]);
    assert_eq!(bed.unhosted(), ["end of 5"]);
    let mut bed = Bed::new();
    let ended = PartState::Ended(over());
    assert_eq!(bed.hello(vec![(part(5), ended)]), ["unhost inner"]);
    assert_eq!(bed.ends(6), NOTHING, "it is said after the hello");
    assert_eq!(bed.unhosted(), ["hello", "end of 6"]);
}

#[test]
fn the_death_of_the_shell_waits_and_what_is_said_of_another_does_not() {
    let mut bed = Bed::new();
    assert_eq!(bed.hear(Arrival::ShellAway(SHELL)), ["away"]);
    assert_eq!(bed.hear(Arrival::ShellDead(Epoch(1))), ["dead"]);
    assert_eq!(bed.hear(Arrival::ShellDead(SHELL)), ["unhost inner"]);
    assert_eq!(bed.unhosted(), ["dead"]);
}

#[test]
fn what_a_shell_says_again_is_told_once() {
    let mut bed = Bed::new();
    bed.leaves();
    assert_eq!(bed.ends(5), NOTHING);
    assert_eq!(bed.hear(Arrival::ShellAway(SHELL)), ["away"]);
    assert_eq!(
        bed.hello(vec![(part(5), PartState::Ended(over()))]),
        NOTHING
    );
    assert_eq!(bed.unhosted(), ["hello"]);
}

#[test]
fn an_agent_that_hangs_is_waited_for_so_long_and_no_longer() {
    let mut bed = Bed::new();
    bed.leaves();
    let ended = FromShell::Ended {
        part: part(5),
        ended: over(),
    };
    let waits = bed.head.own_shell(Time(1), Arrival::Shell(SHELL, ended));
    let until = Time(1).after(PATIENCE);
    assert_eq!(waits.wake, Some(until));
    assert_eq!(told(&bed.head.tick(Time(2))), NOTHING);
    assert_eq!(told(&bed.head.tick(until)), ["end of 5"]);
    assert_eq!(bed.ends(5), ["end of 5"]);
}

#[test]
fn an_agent_that_is_not_reached_is_not_waited_for() {
    let mut bed = Bed::new();
    bed.leaves();
    assert_eq!(bed.ends(5), NOTHING);
    assert_eq!(
        told(&bed.head.lost(Time(1), ATTENDANT, "gone")),
        ["end of 5"]
    );
    assert_eq!(bed.hear(Arrival::ShellDead(SHELL)), ["dead"]);
}

#[test]
fn what_an_earlier_leader_ordered_is_waited_for_by_the_agents_word() {
    let mut bed = Bed::new();
    bed.leaves();
    bed.tenure = Bed::reach(&mut bed.head);
    let hosted = vec![("inner".to_owned(), JobId(5), Attempt(1))];
    let letter = Letter {
        to: Address::Leader,
        from: ATTENDANT,
        tenure: bed.tenure,
        word: Word::Hosted(hosted),
    };
    bed.head.letter(Time(1), letter);
    bed.leaves();
    assert_eq!(bed.ends(5), NOTHING);
    assert_eq!(bed.unhosted(), ["end of 5"]);
}
