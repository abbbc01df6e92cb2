//! Leaders of children that hang: when their shells are told, and how often they may.

use eddy_broker::{Arrival, Effect};
use eddy_modules::Settings;
use eddy_wire::event::Kind;
use eddy_wire::id::{Attempt, Epoch, Rank};
use eddy_wire::services::child::{Adopt, AdoptRequest};
use eddy_wire::shell::{FromShell, Part, PartState, ToShell};
use eddy_wire::time::{Span, Time};

use crate::nest_stand::*;

const CHANNEL: u64 = 2;
/// How often the child says that it is there, and after how long it is away.
const EVERY: Span = Span::seconds(2);
const SILENT: Span = Span::seconds(6);
/// How long it may say nothing beyond that, and how often that is looked at.
const HUNG_AFTER: Span = Span::seconds(40);
const STEP: Span = Span::seconds(5);
/// The shell of its leader.
const SHELL: Epoch = Epoch(3);
const LEADER: Part = Part {
    job: BATCH,
    attempt: Attempt(1),
    rank: Rank(2),
};

fn watching() -> Settings {
    Settings {
        hung_after: Some(HUNG_AFTER),
        ..with_batch()
    }
}

/// The shell of the child's leader is there, which it started.
fn shell_comes(stand: &mut Stand) {
    let hello = FromShell::Hello {
        instance: "parent".to_owned(),
        epoch: SHELL,
        pid: 1,
        version: 1,
        parts: vec![(LEADER, PartState::Running { t: Time(0) })],
    };
    stand.tell(Arrival::Shell(SHELL, hello));
}

fn beating(stand: &mut Stand, beat: Option<Span>) {
    let hello = AdoptRequest {
        beat,
        ..hello(BATCH)
    };
    stand.call::<Adopt>(CHANNEL, 0, &hello);
}

/// A child whose shell is there, and of which nothing is heard since its hello for as long as makes it away.
fn away(settings: &Settings) -> Stand {
    let mut stand = Stand::with_children(settings);
    shell_comes(&mut stand);
    beating(&mut stand, Some(EVERY));
    assert_eq!(later(&mut stand, SILENT), []);
    stand
}

/// For how long its shell is told that it was silent, a time later.
fn later(stand: &mut Stand, span: Span) -> Vec<Span> {
    stand.now = stand.now.after(span);
    let told = stand.tell(Arrival::Tick);
    let word = |effect: &Effect| match effect {
        Effect::Shell(SHELL, ToShell::Restart { part, silent }) => {
            assert_eq!(*part, LEADER);
            Some(*silent)
        }
        _ => None,
    };
    told.iter().filter_map(word).collect()
}

/// What its shell is told in so many steps of listening.
fn listened(stand: &mut Stand, steps: usize) -> Vec<Span> {
    (0..steps).flat_map(|_| later(stand, STEP)).collect()
}

fn notes(stand: &Stand) -> Vec<(u8, &str)> {
    let told = stand
        .records
        .iter()
        .filter_map(|record| match &record.event.kind {
            Kind::Exception(e) if e.kind == "hung" => Some((e.severity, e.note.as_str())),
            _ => None,
        });
    told.collect()
}

#[test]
fn a_leader_that_is_not_heard_for_so_long_is_started_again() {
    let mut stand = away(&watching());
    assert_eq!(listened(&mut stand, 7), []);
    assert_eq!(listened(&mut stand, 1), [HUNG_AFTER]);
    // Its shell may not have heard it. How long it was says which life of the leader is meant.
    assert_eq!(listened(&mut stand, 8), [Span(HUNG_AFTER.0 * 2)]);
    let restarted = FromShell::Restarted {
        part: LEADER,
        silent: HUNG_AFTER,
    };
    stand.tell(Arrival::Shell(SHELL, restarted));
    let note = "its leader hung, silent for 40 s, and was started again";
    assert_eq!(notes(&stand), [(1, note)]);
    assert_eq!(listened(&mut stand, 100), [], "it begins");
    beating(&mut stand, Some(EVERY));
    assert_eq!(later(&mut stand, SILENT), []);
    assert_eq!(listened(&mut stand, 8), [HUNG_AFTER]);
}

#[test]
fn who_was_stopped_itself_or_heard_no_shell_has_not_listened() {
    let mut stand = away(&watching());
    assert_eq!(later(&mut stand, Span::seconds(86_400)), []);
    assert_eq!(listened(&mut stand, 6), [], "one step, however long");
    stand.tell(Arrival::ShellAway(SHELL));
    assert_eq!(listened(&mut stand, 20), []);
    shell_comes(&mut stand);
    assert_eq!(listened(&mut stand, 7), [], "both come back");
    assert_eq!(listened(&mut stand, 1), [HUNG_AFTER]);
    beating(&mut stand, Some(EVERY));
    assert_eq!(listened(&mut stand, 8), [], "it was heard");
}

#[test]
fn the_next_leader_of_the_parent_counts_anew_for_who_was_there() {
    let mut stand = away(&watching()).again(&watching());
    shell_comes(&mut stand);
    assert_eq!(listened(&mut stand, 7), []);
    assert_eq!(listened(&mut stand, 1), [HUNG_AFTER]);
    let mut stand = Stand::with_children(&watching());
    shell_comes(&mut stand);
    assert_eq!(listened(&mut stand, 100), [], "it has not begun so far");
    beating(&mut stand, None);
    stand.tell(Arrival::Gone(eddy_broker::ClientId(CHANNEL)));
    assert_eq!(listened(&mut stand, 100), [], "it begins");
}

#[test]
fn nobody_hangs_where_that_is_off() {
    let mut stand = away(&Settings {
        hung_after: None,
        ..watching()
    });
    assert_eq!(listened(&mut stand, 10_000), []);
}

#[test]
fn a_queue_instance_whose_leader_hangs_too_often_is_down() {
    let mut stand = away(&watching());
    let hang = |stand: &mut Stand| {
        stand.now = stand.now.after(Span::seconds(100));
        let (part, silent) = (LEADER, HUNG_AFTER);
        let restarted = FromShell::Restarted { part, silent };
        stand.tell(Arrival::Shell(SHELL, restarted));
        notes(stand)
            .iter()
            .filter(|(severity, _)| *severity == 0)
            .count()
    };
    for _ in 0..4 {
        assert_eq!(hang(&mut stand), 0);
    }
    stand.now = stand.now.after(Span::seconds(500));
    assert_eq!(hang(&mut stand), 0, "some are long ago");
    for _ in 0..3 {
        assert_eq!(hang(&mut stand), 0);
    }
    assert_eq!(hang(&mut stand), 1);
    let why = "its leader hung 5 times within 10 minutes";
    assert_eq!(notes(&stand).last(), Some(&(0, why)));
    let refused = stand.submit(CHANNEL + 1, 0, serde_json::json!({"queue": "long"}));
    let refused = told(&refused, CHANNEL + 1)[0].refusal().to_owned();
    let down = format!("instance `batch` is down: {why}, last job {BATCH}");
    assert!(refused.contains(&down), "{refused}");
}
