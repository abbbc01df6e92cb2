//! Who and what a queue lets in, and what it gives.

use std::sync::Arc;

use eddy_wire::account::{Account, Change};
use eddy_wire::event::Event;
use eddy_wire::id::Seq;
use eddy_wire::jobspec::{Ask, Count};
use eddy_wire::queue::{Turn, Turned};
use eddy_wire::time::Time;

use super::*;
use crate::settings::Qos;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn settings(rules: Rules) -> Settings {
    let mut settings = Settings::for_inventory(Arc::default());
    settings.queues = vec![Queue {
        name: "debug".to_owned(),
        rules,
        ..Queue::default()
    }];
    settings
}

fn spec(queue: Option<&str>, nodes: Option<u32>, seconds: i64) -> Spec {
    let ask = Ask {
        command: vec!["true".to_owned()],
        queue: queue.map(str::to_owned),
        nodes: nodes.map(Count::from),
        ntasks: nodes,
        duration: seconds * eddy_wire::time::MICROS,
        ..Ask::default()
    };
    Spec::from_jobspec(ask.jobspec().expect("a jobspec")).expect("a spec")
}

fn text<T: std::fmt::Debug>(outcome: Result<T, Refusal>) -> String {
    outcome.expect_err("it is refused").text
}

#[test]
fn what_a_queue_does_not_allow_is_refused_with_what_it_does() {
    let rules = Rules {
        min_nodes: Some(2),
        max_nodes: Some(4),
        max_time: Some(Span::seconds(1800)),
        qos: Some(BTreeSet::from([name("normal")])),
        users: Some(BTreeSet::from([7])),
        accounts: Some(BTreeSet::from([name("physics")])),
        ..Rules::default()
    };
    let queues = Queues::new(&settings(rules));
    let mut book = Book::default();
    book.apply(&Change::Account {
        name: name("physics"),
        value: Some(Account::default()),
    });
    book.apply(&Change::Account {
        name: name("optics"),
        value: Some(Account {
            parent: Some(name("physics")),
            ..Account::default()
        }),
    });
    let party = |account: Option<&str>, qos: Option<&str>| Party {
        account: account.map(name),
        qos: qos.map(name),
        ..Party::default()
    };
    let asks = |user, party: Party, nodes, seconds| {
        let spec = spec(Some("debug"), nodes, seconds);
        queues.lets((user, &party), &book, &spec, || 1)
    };
    let good = || party(None, Some("normal"));
    assert_eq!(asks(7, good(), Some(2), 60), Ok(()));
    assert_eq!(
        asks(8, party(Some("optics"), Some("normal")), Some(2), 60),
        Ok(())
    );
    assert_eq!(
        text(asks(8, good(), Some(2), 60)),
        "attributes.system.queue: `debug` given, it is not open to user 8; allowed are account physics, user 7"
    );
    assert_eq!(
        text(asks(7, party(None, Some("fast")), Some(2), 60)),
        "attributes.system.qos: `fast` given, queue `debug` allows normal"
    );
    assert_eq!(
        text(asks(7, good(), Some(5), 60)),
        "resources: 5 nodes given, queue `debug` allows at most 4"
    );
    assert_eq!(
        text(asks(7, good(), None, 60)),
        "resources: 1 node given, queue `debug` allows at least 2"
    );
    assert_eq!(
        text(asks(7, good(), Some(2), 3600)),
        "attributes.system.duration: 3600 s given, queue `debug` allows 1800 s"
    );
}

#[test]
fn a_time_limit_is_the_qoss_else_the_queues_else_the_instances_cut_to_what_is_left() {
    let rules = |default: Option<i64>, most: Option<i64>| Rules {
        default_time: default.map(Span::seconds),
        max_time: most.map(Span::seconds),
        ..Rules::default()
    };
    let time = |rules: Rules, instance: Option<i64>, qos: Option<i64>, left: Option<i64>| {
        let mut settings = settings(rules);
        settings.default_time = instance.map(Span::seconds);
        settings.qos = vec![Qos {
            default_time: qos.map(Span::seconds),
            ..Qos::named(name("fast"))
        }];
        let party = Party {
            qos: Some(name("fast")),
            ..Party::default()
        };
        let left = left.map(Span::seconds);
        let spec = spec(Some("debug"), None, 0);
        let time = Queues::new(&settings).time(&party, &spec, left);
        time.map(|time| time.0 / eddy_wire::time::MICROS)
    };
    assert_eq!(time(rules(Some(3), None), Some(2), Some(4), None), Some(4));
    assert_eq!(time(rules(Some(3), None), Some(2), None, None), Some(3));
    assert_eq!(time(rules(None, None), Some(2), None, None), Some(2));
    assert_eq!(time(rules(None, Some(9)), None, None, None), Some(9));
    assert_eq!(time(rules(Some(30), Some(9)), None, None, None), Some(9));
    assert_eq!(time(rules(Some(30), None), None, None, Some(8)), Some(8));
    assert_eq!(time(rules(None, None), None, None, Some(8)), None);
    let queues = Queues::new(&settings(rules(Some(3), None)));
    let own = spec(Some("debug"), None, 60);
    assert_eq!(queues.time(&Party::default(), &own, None), None);
}

#[test]
fn who_asks_for_no_limit_is_given_none_and_refused_where_the_longest_is_bounded() {
    let unlimited = |seconds: i64| {
        let mut jobspec = spec(Some("debug"), None, seconds).jobspec;
        let other = &mut jobspec.attributes.system.other;
        other.insert("unlimited".to_owned(), true.into());
        Spec::from_jobspec(jobspec).expect("a spec")
    };
    let queues = |default: Option<i64>, most: Option<i64>| {
        let mut settings = settings(Rules {
            default_time: default.map(Span::seconds),
            max_time: most.map(Span::seconds),
            ..Rules::default()
        });
        settings.default_time = Some(Span::seconds(2));
        Queues::new(&settings)
    };
    let party = Party::default();
    for open in [queues(Some(3), None), queues(None, None)] {
        assert_eq!(open.time(&party, &unlimited(0), None), None);
    }
    let bounded = queues(Some(3), Some(9));
    let lets = |seconds| {
        let spec = unlimited(seconds);
        assert_eq!(bounded.time(&party, &spec, None), None);
        bounded.lets((7, &party), &Book::default(), &spec, || 1)
    };
    assert_eq!(
        text(lets(0)),
        "attributes.system.duration: none given, queue `debug` allows 9 s"
    );
    assert_eq!(lets(9), Ok(()), "it asks for one");
}

#[test]
fn who_takes_what_time_is_left_has_no_more_of_it() {
    let queues = Queues::new(&settings(Rules::default()));
    let asked = spec(Some("debug"), None, 60);
    let mut jobspec = asked.jobspec.clone();
    let other = &mut jobspec.attributes.system.other;
    other.insert("fit_remaining".to_owned(), true.into());
    let fits = Spec::from_jobspec(jobspec).expect("a spec");
    let time = |spec: &Spec, left: i64| {
        let left = Some(Span::seconds(left));
        let time = queues.time(&Party::default(), spec, left);
        time.map(|time| time.0 / eddy_wire::time::MICROS)
    };
    assert_eq!(time(&fits, 8), Some(8));
    assert_eq!(time(&fits, 60), None);
    assert_eq!(time(&asked, 8), None, "it is refused");
    assert_eq!(
        time(&fits, 0),
        None,
        "and so is this one where nothing is left"
    );
}

#[test]
fn a_queue_that_is_not_there_or_takes_nothing_is_named() {
    let mut queues = Queues::new(&settings(Rules::default()));
    assert_eq!(
        text(queues.takes(&spec(Some("fast"), None, 0))),
        "attributes.system.queue: `fast` given, there are debug"
    );
    let turned = Turned {
        queue: "debug".to_owned(),
        turn: Turn::Disable,
        reason: "the fan".to_owned(),
        userid: 0,
    };
    let event = Event {
        t: Time(1),
        job: None,
        kind: Kind::Queue(Box::new(turned)),
    };
    queues.apply(&Record { seq: Seq(1), event });
    assert_eq!(
        text(queues.takes(&spec(Some("debug"), None, 0))),
        "attributes.system.queue: `debug` given, it takes no submissions now: the fan"
    );
    assert_eq!(queues.takes(&spec(None, None, 0)), Ok(()));
}
