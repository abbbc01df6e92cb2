//! What a leader's end promises: one client at another rank is one client,
//! what is of an earlier tenure is dropped, what waits on a lost rank fails.

use eddy_wire::services::Service;
use eddy_wire::services::instance::{Ping, PingRequest};
use eddy_wire::shell::ToShell;
use uuid::Uuid;

use super::*;

const CLIENTS: u64 = 1 << 40;

fn head() -> Head {
    Head::new(Epoch(3), Idset::one(0), InstanceFacts::default(), CLIENTS)
}

fn member() -> Member {
    Member {
        life: Uuid::nil(),
        door: "/run/door".to_owned(),
    }
}

#[test]
fn what_clients_are_held_to_is_told_to_all_ranks_where_it_changes() {
    let mut head = head();
    reach(&mut head, 1);
    let limits = ClientLimits {
        clients: 1,
        user_clients: 2,
        user_outstanding: 3,
        user_rate: 4,
        outstanding: 5,
        reply_bytes: 6,
    };
    let told = head.limit(limits);
    assert!(
        matches!(
            &told.letters[..],
            [Letter { to: Address::Below, word: Word::Event { topic, body, .. }, .. }]
                if topic == LIMITS && body["user_rate"] == 4
        ),
        "{told:?}"
    );
    assert!(head.limit(limits).letters.is_empty());
    let begun = head.reached(Time(2), Rank(2), &member());
    let Word::Tenure { instance, .. } = &begun.letters[0].word else {
        panic!("a tenure, there is {begun:?}");
    };
    assert_eq!(instance.limits, Some(limits));
}

#[test]
fn who_is_admitted_is_told_to_all_ranks_and_to_those_that_come() {
    let mut head = head();
    reach(&mut head, 1);
    let access = Access {
        admins: [7].into(),
        ..Access::default()
    };
    let told = head.admit(&access);
    assert!(
        matches!(
            &told.letters[..],
            [Letter { to: Address::Below, word: Word::Event { number: 1, topic, .. }, .. }]
                if topic == ADMITTED
        ),
        "{told:?}"
    );
    let begun = head.reached(Time(2), Rank(2), &member());
    let Word::Tenure {
        events: 1,
        instance,
    } = &begun.letters[0].word
    else {
        panic!("a tenure after that event, there is {begun:?}");
    };
    assert_eq!(instance.access, access);
}

fn reach(head: &mut Head, rank: u32) -> Tenure {
    let out = head.reached(Time(1), Rank(rank), &member());
    out.letters[0].tenure
}

fn from(rank: u32, tenure: Tenure, word: Word) -> Letter {
    Letter {
        to: Address::Leader,
        from: Rank(rank),
        tenure,
        word,
    }
}

fn request(client: u64, matchtag: u64) -> Word {
    let message = Message::request(Ping::TOPIC, matchtag, &PingRequest::default());
    Word::Request {
        call: Call { client, matchtag },
        message: Some(Box::new(message)),
    }
}

fn client_of(out: &HeadOutput) -> ClientId {
    match &out.arrivals[..] {
        [Arrival::Message(client, _)] => *client,
        other => panic!("one message was to arrive, there is {other:?}"),
    }
}

#[test]
fn a_rank_is_reached_with_a_tenure_of_its_own() {
    let mut head = head();
    assert_eq!(head.reached_ranks().to_string(), "0");
    let one = reach(&mut head, 1);
    let two = reach(&mut head, 2);
    assert!(one < two);
    assert_eq!(head.reached_ranks().to_string(), "0-2");
    let again = reach(&mut head, 1);
    assert!(again > two, "reached anew is another tenure");
}

#[test]
fn a_client_elsewhere_is_one_client_and_its_answer_finds_it() {
    let mut head = head();
    let tenure = reach(&mut head, 5);
    let first = client_of(&head.letter(Time(2), from(5, tenure, request(9, 1))));
    let second = client_of(&head.letter(Time(2), from(5, tenure, request(9, 2))));
    let other = client_of(&head.letter(Time(2), from(5, tenure, request(10, 1))));
    assert_eq!(first, second);
    assert_ne!(first, other);
    let to = Caller {
        client: first,
        matchtag: 2,
    };
    let Routed::Sent(letters) = head.route(Effect::Reply(Reply::new(to, Type::Reply, &7))) else {
        panic!("a client elsewhere is answered by letter");
    };
    let [
        Letter {
            to: Address::Rank(Rank(5)),
            word: Word::Answer { call, .. },
            ..
        },
    ] = &letters[..]
    else {
        panic!("one answer goes to rank 5, there is {letters:?}");
    };
    assert_eq!((call.client, call.matchtag), (9, 2));
}

#[test]
fn what_is_of_an_earlier_tenure_is_dropped() {
    let mut head = head();
    let old = reach(&mut head, 5);
    let new = reach(&mut head, 5);
    assert!(
        head.letter(Time(2), from(5, old, request(9, 1)))
            .arrivals
            .is_empty()
    );
    client_of(&head.letter(Time(2), from(5, new, request(9, 1))));
    assert!(
        head.letter(Time(2), from(6, new, request(9, 1)))
            .arrivals
            .is_empty(),
        "rank 6 was never reached"
    );
}

#[test]
fn a_lost_rank_takes_its_clients_and_shells_with_it() {
    let mut head = head();
    let tenure = reach(&mut head, 5);
    let client = client_of(&head.letter(Time(2), from(5, tenure, request(9, 1))));
    let hello = FromShell::Hello {
        instance: "i".to_owned(),
        epoch: Epoch(8),
        pid: 1,
        version: 1,
        parts: Vec::new(),
    };
    let word = Word::FromShell {
        epoch: Epoch(8),
        word: hello,
    };
    head.letter(Time(2), from(5, tenure, word));
    let out = head.lost(Time(3), Rank(5), "its link broke");
    assert!(matches!(
        &out.arrivals[..],
        [Arrival::Gone(gone), Arrival::ShellAway(Epoch(8)), Arrival::Ranks(ranks)]
            if *gone == client && ranks.to_string() == "0"
    ));
    let Routed::Sent(letters) = head.route(Effect::Shell(Epoch(8), ToShell::Exit)) else {
        panic!("that shell is not on this node");
    };
    assert!(letters.is_empty(), "nobody is there to be told");
}

#[test]
fn a_call_to_a_rank_fails_by_its_name_when_the_rank_is_lost() {
    let mut head = head();
    reach(&mut head, 5);
    let ping = |rank| {
        Message::request(Ping::TOPIC, 4, &PingRequest::default()).to(Target::Rank(Rank(rank)))
    };
    let sent = head.request(ClientId(1), ping(5)).expect("rank 5 is asked");
    assert_eq!(sent.letters.len(), 1);
    let refused = head.request(ClientId(1), ping(6)).expect("rank 6 is named");
    let text = String::from_utf8_lossy(&refused.replies[0].body).into_owned();
    assert!(text.contains("rank 6 is not reached"), "{text}");
    head.set_ranks(&"0-5".parse().expect("ranks"));
    let refused = head.request(ClientId(1), ping(6)).expect("rank 6 is named");
    let text = String::from_utf8_lossy(&refused.replies[0].body).into_owned();
    assert!(
        text.contains("no rank 6 in this instance, whose ranks are 0-5"),
        "{text}"
    );
    assert!(
        head.request(ClientId(1), ping(0)).is_err(),
        "0 is the leader"
    );
    let out = head.lost(Time(3), Rank(5), "its link broke");
    let text = String::from_utf8_lossy(&out.replies[0].body).into_owned();
    assert!(text.contains("rank 5 was lost: its link broke"), "{text}");
    assert_eq!(out.replies[0].to.matchtag, 4);
}

#[test]
fn effects_for_this_node_are_given_back() {
    let mut head = head();
    reach(&mut head, 5);
    let here = |routed| matches!(routed, Routed::Here(_));
    assert!(here(
        head.route(Effect::LaunchShell(Idset::one(0), Epoch(1)))
    ));
    assert!(here(head.route(Effect::Shell(Epoch(1), ToShell::Exit))));
    assert!(here(head.route(Effect::Wake(Time(1)))));
    let to = Caller {
        client: ClientId(7),
        matchtag: 1,
    };
    assert!(here(head.route(Effect::Reply(Reply::new(
        to,
        Type::Reply,
        &()
    )))));
    assert!(!here(
        head.route(Effect::LaunchShell(Idset::one(5), Epoch(2)))
    ));
    assert!(!here(head.route(Effect::Shell(Epoch(2), ToShell::Exit))));
}

#[test]
fn what_is_hosted_on_this_node_is_ordered_again_of_its_agent() {
    let mut head = head();
    let order = Box::new(eddy_wire::tree::HostOrder {
        instance: "child".to_owned(),
        job: eddy_wire::id::JobId(4),
        attempt: eddy_wire::id::Attempt(1),
        child: None,
        name: None,
        user: 0,
        rank: Rank(1),
        door: "/d".to_owned(),
    });
    let Routed::Sent(letters) = head.route(Effect::Host(Rank(0), order)) else {
        panic!("hosting is the agent's");
    };
    assert!(letters.is_empty(), "it is not there yet");
    let out = head.reached(Time(1), ATTENDANT, &member());
    assert!(matches!(out.letters[1].word, Word::Host(_)));
    assert_eq!(
        head.reached_ranks().to_string(),
        "0",
        "it is no rank of the inventory"
    );
    let _ = head.route(Effect::Unhost(Rank(0), "child".to_owned()));
    assert_eq!(head.reached(Time(2), ATTENDANT, &member()).letters.len(), 1);
}

#[test]
fn events_that_were_missed_are_repeated_in_order() {
    let mut head = head();
    let tenure = reach(&mut head, 1);
    for rank in 2..6 {
        reach(&mut head, rank);
        head.lost(Time(2), Rank(rank), "gone");
    }
    let out = head.letter(Time(3), from(1, tenure, Word::EventsFrom { number: 3 }));
    let numbers: Vec<u64> = out
        .letters
        .iter()
        .map(|letter| match &letter.word {
            Word::Event { number, .. } => *number,
            other => panic!("events are repeated, there is {other:?}"),
        })
        .collect();
    assert_eq!(numbers, [3, 4]);
}

#[test]
fn an_answer_too_large_for_a_letter_is_refused_where_it_is_waited_for() {
    let mut head = head();
    let tenure = reach(&mut head, 5);
    let client = client_of(&head.letter(Time(2), from(5, tenure, request(9, 1))));
    let to = Caller {
        client,
        matchtag: 1,
    };
    let large = vec![0; eddy_wire::message::MESSAGE_BYTES_MAX - 100];
    let reply = Reply {
        tail: large.clone().into(),
        ..Reply::new(to, Type::Reply, &())
    };
    let Routed::Sent(letters) = head.route(Effect::Reply(reply)) else {
        panic!("a client elsewhere is answered by letter");
    };
    let Word::Answer { message, .. } = &letters[0].word else {
        panic!("it is an answer, there is {letters:?}");
    };
    let kind = message.as_ref().map(|message| message.kind);
    assert_eq!(kind, Some(Type::Refused));
    letters[0].encode().expect("it can be sent");
    let ask = Message::request(Ping::TOPIC, 4, &())
        .with_tail(large.into())
        .to(Target::Rank(Rank(5)));
    let out = head.request(ClientId(1), ask).expect("rank 5 is named");
    assert_eq!((out.letters.len(), out.replies.len()), (0, 1));
}

#[test]
fn a_rank_that_missed_too_many_events_is_lost_and_reached_for_all_who_have_orders() {
    let mut head = head();
    let tenure = reach(&mut head, 1);
    for _ in 0..200 {
        reach(&mut head, 2);
        head.lost(Time(2), Rank(2), "gone");
        reach(&mut head, 3);
        head.lost(Time(2), Rank(3), "gone");
    }
    let out = head.letter(Time(3), from(1, tenure, Word::EventsFrom { number: 1 }));
    let ranks: Vec<String> = out
        .arrivals
        .iter()
        .filter_map(|arrival| match arrival {
            Arrival::Ranks(ranks) => Some(ranks.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(ranks, ["0", "0-1"]);
    let last = out.letters.last().expect("a tenure begins");
    assert!(matches!(last.word, Word::Tenure { .. }) && last.tenure > tenure);
}

#[test]
fn a_late_unreachable_fails_no_call_of_the_present_tenure() {
    let mut head = head();
    let old = reach(&mut head, 5);
    let new = reach(&mut head, 5);
    let question = Message::request(Ping::TOPIC, 1, &PingRequest::default());
    let question = question.to(Target::Rank(Rank(5)));
    let asked = head.request(ClientId(7), question).expect("another rank's");
    assert_eq!(asked.letters[0].tenure, new);
    let unreachable = || Word::Unreachable { rank: Rank(5) };
    let out = head.letter(Time(2), from(2, old, unreachable()));
    assert!(out.replies.is_empty(), "{:?}", out.replies);
    let out = head.letter(Time(2), from(2, new, unreachable()));
    assert_eq!(out.replies.len(), 1);
}
