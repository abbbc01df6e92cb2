//! What a follower promises: its clients and its shell are never left waiting
//! for a tenure that is over, and who asks before there is a leader is answered.

use uuid::Uuid;

use super::*;

fn follower() -> Follower {
    Follower::new(Seat {
        instance: "tree".to_owned(),
        job: None,
        rank: Rank(4),
        life: Uuid::nil(),
        door: "/four".to_owned(),
        leader: "/zero".to_owned(),
        fanout: 2,
    })
}

fn handle(follower: &mut Follower, input: FollowerInput) -> Vec<FollowerOutput> {
    let mut out = Vec::new();
    follower.handle(Time(1), input, &mut out);
    out
}

fn tenure(number: u64) -> Tenure {
    Tenure {
        leader: Epoch(1),
        number,
    }
}

fn begins(follower: &mut Follower, number: u64) -> Vec<FollowerOutput> {
    said(
        follower,
        tenure(number),
        Word::Tenure {
            events: 0,
            instance: Box::default(),
        },
    )
}

fn said(follower: &mut Follower, tenure: Tenure, word: Word) -> Vec<FollowerOutput> {
    let letter = Letter {
        to: Address::Rank(Rank(4)),
        from: Rank(0),
        tenure,
        word,
    };
    handle(follower, FollowerInput::Letter(letter))
}

fn asks(follower: &mut Follower, client: u64, target: Target) -> Vec<FollowerOutput> {
    let message = Message::request(Ping::TOPIC, 1, &PingRequest::default()).to(target);
    handle(follower, FollowerInput::Message(ClientId(client), message))
}

fn texts(out: &[FollowerOutput]) -> Vec<String> {
    out.iter().map(|output| format!("{output:?}")).collect()
}

#[test]
fn what_is_asked_before_there_is_a_leader_goes_when_there_is_one() {
    let mut follower = follower();
    assert!(asks(&mut follower, 7, Target::Service).is_empty());
    let out = begins(&mut follower, 1);
    assert!(
        matches!(
            &out[1..],
            [FollowerOutput::Send(Letter {
                to: Address::Leader,
                word: Word::Request { .. },
                ..
            })]
        ),
        "{:?}",
        texts(&out)
    );
}

#[test]
fn a_new_tenure_sends_those_who_wait_back_to_their_beginning() {
    let mut follower = follower();
    begins(&mut follower, 1);
    asks(&mut follower, 7, Target::Service);
    let hello = FromShell::Hello {
        instance: "tree".to_owned(),
        epoch: Epoch(2),
        pid: 9,
        version: 1,
        parts: Vec::new(),
    };
    handle(&mut follower, FollowerInput::Shell(Epoch(2), hello));
    assert!(begins(&mut follower, 1).is_empty(), "a repetition is none");
    let out = begins(&mut follower, 2);
    assert!(
        matches!(
            &out[1..],
            [
                FollowerOutput::CloseClient(ClientId(7)),
                FollowerOutput::CloseShell(Epoch(2))
            ]
        ),
        "{:?}",
        texts(&out)
    );
}

#[test]
fn a_rank_answers_for_itself_without_a_leader() {
    let mut follower = follower();
    let out = asks(&mut follower, 7, Target::Rank(Rank(4)));
    let [FollowerOutput::Reply(reply)] = &out[..] else {
        panic!("one answer, there is {:?}", texts(&out));
    };
    let pong: Pong = serde_json::from_slice(&reply.body).expect("a pong");
    assert_eq!((pong.rank, pong.phase.as_str()), (Rank(4), "follow"));
    let out = asks(&mut follower, 7, Target::Upstream);
    assert!(texts(&out)[0].contains("Refused"), "{:?}", texts(&out));
}

#[test]
fn who_asked_the_rank_above_hears_that_it_is_lost() {
    let mut follower = follower();
    begins(&mut follower, 1);
    let linked = FollowerInput::Upstream(Upstream::Linked(Rank(0)));
    assert!(handle(&mut follower, linked).is_empty());
    asks(&mut follower, 7, Target::Upstream);
    asks(&mut follower, 8, Target::Service);
    let alone = FollowerInput::Upstream(Upstream::Alone("it is gone".to_owned()));
    let out = handle(&mut follower, alone);
    assert_eq!(out.len(), 1, "the leader's answer is waited for");
    assert!(texts(&out)[0].contains("Refused"), "{:?}", texts(&out));
}

#[test]
fn an_order_of_an_earlier_tenure_is_not_obeyed() {
    let mut follower = follower();
    begins(&mut follower, 1);
    begins(&mut follower, 2);
    let launch = Word::LaunchShell { epoch: Epoch(5) };
    assert!(said(&mut follower, tenure(1), launch.clone()).is_empty());
    let out = said(&mut follower, tenure(2), launch);
    assert!(matches!(&out[..], [FollowerOutput::LaunchShell(Epoch(5))]));
}

#[test]
fn a_call_to_a_rank_that_is_lost_fails_by_its_name() {
    let mut follower = follower();
    begins(&mut follower, 1);
    let out = asks(&mut follower, 7, Target::Rank(Rank(9)));
    assert!(matches!(
        &out[..],
        [FollowerOutput::Send(Letter {
            to: Address::Rank(Rank(9)),
            ..
        })]
    ));
    let event = |number, rank| Word::Event {
        number,
        topic: RANKS_LOST.to_owned(),
        body: serde_json::json!(Idset::one(rank)),
    };
    let ahead = said(&mut follower, tenure(1), event(2, 9));
    assert!(
        matches!(
            &ahead[..],
            [FollowerOutput::Send(Letter {
                word: Word::EventsFrom { number: 1 },
                ..
            })]
        ),
        "events are taken in order"
    );
    assert!(said(&mut follower, tenure(1), event(1, 8)).is_empty());
    let out = said(&mut follower, tenure(1), event(2, 9));
    let [FollowerOutput::Reply(reply)] = &out[..] else {
        panic!("one refusal, there is {:?}", texts(&out));
    };
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert!(text.contains("rank 9 was lost"), "{text}");
}

#[test]
fn who_is_admitted_is_heard_in_turn_with_all_else() {
    let mut follower = follower();
    begins(&mut follower, 1);
    let event = |number, body| Word::Event {
        number,
        topic: ADMITTED.to_owned(),
        body,
    };
    let access = Access {
        users: eddy_wire::access::Users::All,
        ..Access::default()
    };
    let told = said(
        &mut follower,
        tenure(1),
        event(1, serde_json::json!(access)),
    );
    assert!(
        matches!(&told[..], [FollowerOutput::Admitted(heard)] if *heard == access),
        "{:?}",
        texts(&told)
    );
    // What cannot be read lets nobody in, and is counted all the same.
    assert!(said(&mut follower, tenure(1), event(2, serde_json::json!(7))).is_empty());
    let lost = Word::Event {
        number: 3,
        topic: RANKS_LOST.to_owned(),
        body: serde_json::json!(Idset::one(9)),
    };
    assert!(said(&mut follower, tenure(1), lost).is_empty());
}

#[test]
fn what_waits_for_a_leader_is_bounded_and_goes_with_its_client() {
    let mut follower = follower();
    for matchtag in 0..held::HELD_MAX as u64 {
        let message = Message::request(Ping::TOPIC, matchtag, &PingRequest::default());
        let input = FollowerInput::Message(ClientId(7), message);
        assert!(handle(&mut follower, input).is_empty());
    }
    let out = asks(&mut follower, 8, Target::Service);
    assert!(texts(&out)[0].contains("Refused"), "{:?}", texts(&out));
    handle(&mut follower, FollowerInput::Gone(ClientId(7)));
    assert!(asks(&mut follower, 8, Target::Service).is_empty());
    assert_eq!(
        begins(&mut follower, 1).len(),
        2,
        "the facts and one request"
    );
}

#[test]
fn what_is_too_large_for_a_letter_is_refused_and_not_lost() {
    let mut follower = follower();
    begins(&mut follower, 1);
    let large = vec![0; eddy_wire::message::MESSAGE_BYTES_MAX - 100];
    for target in [Target::Service, Target::Rank(Rank(9))] {
        let message = Message::request("kvs.put", 1, &())
            .with_tail(large.clone().into())
            .to(target);
        message.encode().expect("a client may send it");
        let out = handle(&mut follower, FollowerInput::Message(ClientId(7), message));
        let [FollowerOutput::Reply(reply)] = &out[..] else {
            panic!("it is answered here, there is {:?}", texts(&out))
        };
        let refusal: Refusal = serde_json::from_slice(&reply.body).expect("a refusal");
        assert_eq!((reply.kind, refusal.code), (Type::Refused, Code::TooLarge));
    }
}

fn answer(to: &Call) -> Word {
    Word::Answer {
        call: *to,
        message: Some(Box::new(Message::answer(Type::Reply, to.matchtag, &7))),
    }
}

#[test]
fn an_answer_of_an_earlier_tenure_is_nobodys() {
    let mut follower = follower();
    begins(&mut follower, 1);
    begins(&mut follower, 2);
    // The numbers of a client that asked in the first tenure, of this life or another.
    asks(&mut follower, 1, Target::Service);
    let call = Call {
        client: 1,
        matchtag: 1,
    };
    assert!(said(&mut follower, tenure(1), answer(&call)).is_empty());
    let out = said(&mut follower, tenure(2), answer(&call));
    assert!(matches!(&out[..], [FollowerOutput::Reply(_)]));
}

#[test]
fn a_late_unreachable_fails_no_call_of_this_tenure() {
    let mut follower = follower();
    begins(&mut follower, 1);
    begins(&mut follower, 2);
    let out = asks(&mut follower, 1, Target::Rank(Rank(9)));
    let [FollowerOutput::Send(question)] = &out[..] else {
        panic!("one letter, there is {:?}", texts(&out));
    };
    assert_eq!(question.tenure, tenure(2), "what comes of it names it");
    let unreachable = Word::Unreachable { rank: Rank(9) };
    assert!(said(&mut follower, tenure(1), unreachable.clone()).is_empty());
    let out = said(&mut follower, tenure(2), unreachable);
    assert!(texts(&out)[0].contains("Refused"), "{:?}", texts(&out));
}

#[test]
fn another_rank_is_told_of_this_ones_links() {
    let mut follower = follower();
    begins(&mut follower, 1);
    let call = Call {
        client: 3,
        matchtag: 5,
    };
    for from in [Rank(0), Rank(9)] {
        let message = Some(Box::new(Message::request(Links::TOPIC, 5, &())));
        let question = Letter {
            to: Address::Rank(Rank(4)),
            from,
            tenure: tenure(1),
            word: Word::Request { call, message },
        };
        let out = handle(&mut follower, FollowerInput::Letter(question));
        let [FollowerOutput::AskLinks(asker)] = &out[..] else {
            panic!("the links are looked up, there is {:?}", texts(&out));
        };
        let out = handle(&mut follower, FollowerInput::Links(*asker, Vec::new()));
        let [FollowerOutput::Send(letter)] = &out[..] else {
            panic!("one letter, there is {:?}", texts(&out));
        };
        assert_eq!(letter.tenure, tenure(1));
        let Word::Answer { call: to, message } = &letter.word else {
            panic!("{letter:?}");
        };
        let message = message.as_ref().expect("an answer");
        assert_eq!((*to, message.kind), (call, Type::Reply));
        assert_eq!(message.body.as_ref(), b"[]");
    }
}

#[test]
fn a_child_hears_at_once_that_its_parent_is_out_of_reach() {
    let mut follower = follower();
    begins(&mut follower, 1);
    let linked = FollowerInput::Upstream(Upstream::Linked(Rank(0)));
    handle(&mut follower, linked);
    let adopt = Message::request("child.adopt", 1, &());
    handle(&mut follower, FollowerInput::Message(ClientId(7), adopt));
    asks(&mut follower, 8, Target::Service);
    let alone = || FollowerInput::Upstream(Upstream::Alone("it is gone".to_owned()));
    let out = handle(&mut follower, alone());
    assert!(
        matches!(&out[..], [FollowerOutput::CloseClient(ClientId(7))]),
        "who asks waits for the next leader: {:?}",
        texts(&out)
    );
    assert!(handle(&mut follower, alone()).is_empty());
    // It comes again and is kept until there is a leader.
    let adopt = Message::request("child.adopt", 1, &());
    handle(&mut follower, FollowerInput::Message(ClientId(9), adopt));
    let out = begins(&mut follower, 2);
    let closed: Vec<u64> = out
        .iter()
        .filter_map(|output| match output {
            FollowerOutput::CloseClient(client) => Some(client.0),
            _ => None,
        })
        .collect();
    assert_eq!(closed, [8, 9]);
}
