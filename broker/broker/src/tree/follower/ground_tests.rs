//! What a follower promises about ground: nothing is hosted on ground that no
//! shell holds, and who is to hear that it is over hears it last.

use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::shell::{Ended, FromShell, Part, PartState};
use eddy_wire::tree::{HOSTED_MAX, HostOrder};

use super::*;

const SHELL: Epoch = Epoch(2);

fn part(job: u64) -> Part {
    Part {
        job: JobId(job),
        attempt: Attempt(1),
        rank: Rank(4),
    }
}

fn order(job: u64, attempt: u32) -> Word {
    Word::Host(Box::new(HostOrder {
        instance: "inner".to_owned(),
        job: JobId(job),
        attempt: Attempt(attempt),
        child: None,
        name: None,
        user: 0,
        rank: Rank(1),
        door: "/door".to_owned(),
    }))
}

fn running() -> PartState {
    PartState::Running { t: Time(1) }
}

fn over() -> Ended {
    Ended {
        t: Time(2),
        status: 9,
        note: None,
        tasks: Default::default(),
    }
}

/// A follower in a tenure.
struct Bed(Follower);

impl Bed {
    fn new(rank: Rank) -> Bed {
        let mut bed = Bed(Follower::new(Seat {
            instance: "outer".to_owned(),
            job: None,
            rank,
            life: uuid::Uuid::nil(),
            door: "/four".to_owned(),
            leader: "/zero".to_owned(),
            fanout: 2,
        }));
        bed.begins(1);
        bed
    }

    /// One that hosts on ground of job 5.
    fn hosting() -> Bed {
        let mut bed = Bed::new(Rank(4));
        bed.hello(vec![(part(5), running())]);
        assert_eq!(bed.letter(1, order(5, 1)), ["host 5.1"]);
        bed
    }

    fn begins(&mut self, number: u64) -> Vec<String> {
        let word = Word::Tenure {
            events: 0,
            instance: Box::default(),
        };
        self.letter(number, word)
    }

    fn letter(&mut self, number: u64, word: Word) -> Vec<String> {
        self.take(FollowerInput::Letter(Letter {
            to: Address::Leader,
            from: Rank(0),
            tenure: Tenure {
                leader: Epoch(1),
                number,
            },
            word,
        }))
    }

    fn leaves(&mut self) -> Vec<String> {
        let instance = "inner".to_owned();
        self.letter(1, Word::Unhost { instance })
    }

    fn hello(&mut self, parts: Vec<(Part, PartState)>) -> Vec<String> {
        let hello = FromShell::Hello {
            instance: "outer".to_owned(),
            epoch: SHELL,
            pid: 7,
            version: 1,
            parts,
        };
        self.take(FollowerInput::Shell(SHELL, hello))
    }

    fn ends(&mut self, job: u64) -> Vec<String> {
        let (part, ended) = (part(job), over());
        self.take(FollowerInput::Shell(
            SHELL,
            FromShell::Ended { part, ended },
        ))
    }

    fn unhosted(&mut self) -> Vec<String> {
        self.take(FollowerInput::Unhosted("inner".to_owned()))
    }

    fn take(&mut self, input: FollowerInput) -> Vec<String> {
        let mut out = Vec::new();
        self.0.handle(Time(1), input, &mut out);
        out.iter().filter_map(told).collect()
    }
}

fn told(output: &FollowerOutput) -> Option<String> {
    Some(match output {
        FollowerOutput::Host(order) => format!("host {}.{}", order.job.0, order.attempt),
        FollowerOutput::Unhost(instance) => format!("unhost {instance}"),
        FollowerOutput::CloseShell(epoch) => format!("close shell {epoch}"),
        FollowerOutput::Send(letter) => match &letter.word {
            Word::FromShell { word, .. } => match word {
                FromShell::Hello { .. } => "tell hello".to_owned(),
                FromShell::Started { part, .. } => format!("tell start of {}", part.job.0),
                FromShell::Ended { part, .. } => format!("tell end of {}", part.job.0),
                other => format!("tell {other:?}"),
            },
            Word::ShellAway { .. } => "tell away".to_owned(),
            Word::ShellDead { .. } => "tell dead".to_owned(),
            Word::Unhosted(job, attempt) => format!("tell unhosted {}.{attempt}", job.0),
            Word::Hosted(hosted) => {
                let one = |(name, job, attempt): &(String, JobId, Attempt)| {
                    format!(" {name} {}.{attempt}", job.0)
                };
                let list: String = hosted.iter().map(one).collect();
                format!("tell hosted{list}")
            }
            other => format!("tell {other:?}"),
        },
        _ => return None,
    })
}

const NOTHING: [&str; 0] = [];

#[test]
fn an_order_waits_until_its_ground_is_held() {
    let mut bed = Bed::new(Rank(4));
    assert_eq!(bed.letter(1, order(5, 1)), NOTHING);
    let starting = vec![(part(5), PartState::Starting)];
    assert_eq!(bed.hello(starting), ["tell hello"]);
    let (part, t) = (part(5), Time(1));
    let started = FollowerInput::Shell(SHELL, FromShell::Started { part, t });
    assert_eq!(bed.take(started), ["tell start of 5", "host 5.1"]);
    assert_eq!(bed.letter(1, order(5, 1)), ["host 5.1"], "said again");
}

#[test]
fn a_node_that_came_again_is_hosted_as_the_rank_that_it_is_now() {
    let mut bed = Bed::hosting();
    let Word::Host(mut again) = order(5, 1) else {
        unreachable!("it is one")
    };
    again.rank = Rank(6);
    assert_eq!(bed.letter(1, Word::Host(again)), ["unhost inner"]);
    assert_eq!(bed.unhosted(), ["host 5.1"]);
}

#[test]
fn the_end_of_ground_is_told_after_what_was_hosted_there_has_ended() {
    let mut bed = Bed::hosting();
    assert_eq!(bed.ends(5), ["unhost inner"]);
    assert_eq!(bed.letter(1, order(5, 1)), NOTHING, "it comes too late");
    assert_eq!(bed.ends(6), NOTHING, "it waits for the one before it");
    assert_eq!(bed.unhosted(), ["tell end of 5", "tell end of 6"]);
    assert_eq!(bed.begins(2), ["close shell 2"], "nothing is hosted");
}

#[test]
fn an_end_that_only_a_hello_says_waits_likewise() {
    for parts in [vec![(part(5), PartState::Ended(over()))], Vec::new()] {
        let mut bed = Bed::hosting();
        bed.take(FollowerInput::ShellAway(SHELL));
        assert_eq!(bed.hello(parts), ["unhost inner"]);
        assert_eq!(bed.unhosted(), ["tell hello"]);
    }
}

#[test]
fn a_dead_shell_is_told_after_what_was_hosted_on_its_ground_has_ended() {
    let mut bed = Bed::hosting();
    assert_eq!(bed.take(FollowerInput::ShellAway(SHELL)), ["tell away"]);
    assert_eq!(bed.take(FollowerInput::ShellDead(Epoch(1))), ["tell dead"]);
    let dead = FollowerInput::ShellDead(SHELL);
    assert_eq!(bed.take(dead), ["unhost inner"]);
    assert_eq!(bed.letter(1, order(5, 1)), NOTHING);
    assert_eq!(bed.unhosted(), ["tell dead"]);
}

#[test]
fn an_end_waits_for_what_the_leader_ordered_to_end_before() {
    let mut bed = Bed::hosting();
    assert_eq!(bed.leaves(), ["unhost inner"]);
    assert_eq!(bed.leaves(), NOTHING, "it ends already");
    assert_eq!(bed.ends(5), NOTHING);
    assert_eq!(bed.unhosted(), ["tell end of 5"]);
}

#[test]
fn an_order_for_ground_that_is_over_begins_nothing() {
    let mut bed = Bed::new(Rank(4));
    bed.hello(vec![(part(5), PartState::Ended(over()))]);
    assert_eq!(bed.letter(1, order(5, 1)), NOTHING);
    assert_eq!(bed.begins(2), ["tell hosted inner 5.1", "close shell 2"]);
    assert_eq!(
        bed.hello(vec![(part(5), PartState::Ended(over()))]),
        ["tell hello"]
    );
    assert_eq!(bed.begins(3), ["close shell 2"], "its end was heard");
}

#[test]
fn what_is_hosted_goes_on_in_the_next_tenure_and_is_said_there() {
    let mut bed = Bed::hosting();
    assert_eq!(bed.begins(2), ["tell hosted inner 5.1", "close shell 2"]);
    assert_eq!(bed.hello(vec![(part(5), running())]), ["tell hello"]);
    assert_eq!(bed.letter(2, order(5, 1)), ["host 5.1"]);
}

#[test]
fn another_attempt_is_hosted_when_the_one_before_has_ended() {
    let mut bed = Bed::hosting();
    let mut second = part(5);
    second.attempt = Attempt(2);
    assert_eq!(bed.letter(1, order(5, 2)), ["unhost inner"]);
    assert_eq!(bed.unhosted(), NOTHING);
    let (part, t) = (second, Time(1));
    let started = FollowerInput::Shell(SHELL, FromShell::Started { part, t });
    assert_eq!(bed.take(started), ["tell start of 5", "host 5.2"]);
}

#[test]
fn beside_the_leader_its_orders_are_enough() {
    let mut bed = Bed::new(ATTENDANT);
    assert_eq!(bed.letter(1, order(5, 1)), ["host 5.1"]);
    assert_eq!(bed.leaves(), ["unhost inner"]);
    assert_eq!(bed.unhosted(), ["tell unhosted 5.1"]);
}

#[test]
fn orders_and_words_that_wait_are_bounded() {
    let mut bed = Bed::new(Rank(4));
    for job in 0..HOSTED_MAX as u64 + 9 {
        let Word::Host(mut order) = order(job, 1) else {
            continue;
        };
        order.instance = format!("inner-{job}");
        bed.letter(1, Word::Host(order));
    }
    let mut out = Vec::new();
    bed.0.begin(
        Time(1),
        Tenure {
            leader: Epoch(1),
            number: 2,
        },
        (0, InstanceFacts::default()),
        &mut out,
    );
    let listed = out.iter().find_map(|output| match output {
        FollowerOutput::Send(Letter {
            word: Word::Hosted(list),
            ..
        }) => Some(list.len()),
        _ => None,
    });
    assert_eq!(listed, Some(HOSTED_MAX));
    let mut bed = Bed::hosting();
    let said: Vec<String> = (0..2000).flat_map(|_| bed.ends(5)).collect();
    assert_eq!(said[..2], ["unhost inner", "close shell 2"]);
    bed.hello(vec![(part(5), PartState::Ended(over()))]);
    let told = bed.unhosted();
    assert!(
        told.len() < 1100 && told.contains(&"tell hello".to_owned()),
        "{told:?}"
    );
}
