//! Letters survive the wire, and what is none is refused without a panic.

use bytes::Bytes;
use eddy_wire::access::{Access, Users};
use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::input::Portion;
use eddy_wire::message::{MESSAGE_BYTES_MAX, Message, MessageError, Type};
use eddy_wire::services::child::ChildOf;
use eddy_wire::shell::{FromShell, Part, ToShell};
use eddy_wire::time::Span;
use eddy_wire::tree::{
    Address, Call, ClientLimits, HostOrder, InstanceFacts, Letter, LetterError, Member, Tenure,
    Word,
};
use proptest::prelude::*;
use uuid::Uuid;

fn letter(word: Word) -> Letter {
    Letter {
        to: Address::Rank(Rank(7)),
        from: Rank(3),
        tenure: Tenure {
            leader: Epoch(2),
            number: 9,
        },
        word,
    }
}

fn address() -> impl Strategy<Value = Address> {
    prop_oneof![
        Just(Address::Next),
        Just(Address::Leader),
        any::<u32>().prop_map(|rank| Address::Rank(Rank(rank))),
        Just(Address::Below),
    ]
}

fn message() -> impl Strategy<Value = Option<Box<Message>>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..200);
    (any::<u64>(), "[a-z.]{0,20}", bytes(), bytes()).prop_map(|(matchtag, topic, body, tail)| {
        let mut message = Message::answer(Type::Part, matchtag, &());
        message.topic = topic;
        message.body = body.into();
        Some(Box::new(message.with_tail(tail.into())))
    })
}

fn call() -> impl Strategy<Value = Call> {
    (any::<u64>(), any::<u64>()).prop_map(|(client, matchtag)| Call { client, matchtag })
}

fn part() -> Part {
    Part {
        job: JobId(905),
        attempt: Attempt(1),
        rank: Rank(3),
    }
}

fn portion(data: Vec<u8>, eof: bool) -> Portion {
    Portion {
        number: 1,
        tasks: Idset::new(),
        at: None,
        eof,
        data,
    }
}

fn word() -> impl Strategy<Value = Word> {
    let member = (any::<u128>(), "[ -~]{0,40}").prop_map(|(life, door)| Member {
        life: Uuid::from_u128(life),
        door,
    });
    let reach = proptest::collection::btree_map(any::<u32>().prop_map(Rank), member, 0..20);
    let data = || proptest::collection::vec(any::<u8>(), 0..500);
    let facts = (
        any::<u32>(),
        proptest::option::of(0..1_000_000i64),
        "[0-9/]{0,12}",
    )
        .prop_map(|(owner, mock, path)| InstanceFacts {
            spool_bytes: 1 << 30,
            mock: mock.map(Span),
            owner,
            path,
            access: Access {
                users: Users::Only([owner].into()),
                ..Access::default()
            },
            limits: mock.map(|many| ClientLimits {
                clients: many as u64,
                user_clients: 2,
                user_outstanding: 3,
                user_rate: 4,
                outstanding: 5,
                reply_bytes: 6,
            }),
        });
    prop_oneof![
        reach.prop_map(Word::Reach),
        (any::<u64>(), facts).prop_map(|(events, facts)| Word::Tenure {
            events,
            instance: Box::new(facts)
        }),
        (call(), message()).prop_map(|(call, message)| Word::Request { call, message }),
        (call(), message()).prop_map(|(call, message)| Word::Answer { call, message }),
        any::<u64>().prop_map(|client| Word::Gone { client }),
        any::<u32>().prop_map(|rank| Word::Unreachable { rank: Rank(rank) }),
        any::<u64>().prop_map(|epoch| Word::LaunchShell {
            epoch: Epoch(epoch)
        }),
        any::<u64>().prop_map(|epoch| Word::CheckShell {
            epoch: Epoch(epoch)
        }),
        any::<u64>().prop_map(|epoch| Word::ShellAway {
            epoch: Epoch(epoch)
        }),
        any::<u64>().prop_map(|epoch| Word::ShellDead {
            epoch: Epoch(epoch)
        }),
        (data(), any::<bool>()).prop_map(|(data, eof)| Word::ToShell {
            epoch: Epoch(4),
            word: ToShell::Input {
                part: part(),
                portion: portion(data, eof),
            }
        }),
        (data(), any::<bool>()).prop_map(|(frames, end)| Word::FromShell {
            epoch: Epoch(4),
            word: FromShell::Output {
                read: 3,
                next: 9,
                frames,
                end
            }
        }),
        Just(Word::ToShell {
            epoch: Epoch(4),
            word: ToShell::Forget { part: part() }
        }),
        (any::<u32>(), "[ -~]{0,40}").prop_map(|(rank, door)| Word::Host(Box::new(HostOrder {
            instance: "x".to_owned(),
            job: JobId(5),
            attempt: Attempt(1),
            child: (rank % 2 == 0).then_some(ChildOf {
                job: JobId(4),
                attempt: Attempt(2),
            }),
            name: (rank % 3 == 0).then(|| "batch".to_owned()),
            user: 1000,
            rank: Rank(rank),
            door,
        }))),
        "[a-z]{0,20}".prop_map(|instance| Word::Unhost { instance }),
        "[a-z]{0,20}".prop_map(|one| Word::Hosted(vec![(one, JobId(5), Attempt(2))])),
        any::<u64>().prop_map(|job| Word::Unhosted(JobId(job), Attempt(2))),
        (any::<u64>(), "[a-z]{0,9}", any::<u32>()).prop_map(|(number, topic, rank)| Word::Event {
            number,
            topic,
            body: serde_json::json!({ "rank": rank }),
        }),
        any::<u64>().prop_map(|number| Word::EventsFrom { number }),
    ]
}

proptest! {
    #[test]
    fn a_letter_survives_the_wire(to in address(), from in any::<u32>(), number in any::<u64>(), word in word()) {
        let tenure = Tenure { leader: Epoch(1), number };
        let sent = Letter { to, from: Rank(from), tenure, word };
        let bytes = sent.encode().expect("a small letter");
        prop_assert_eq!(Letter::decode(&bytes).expect("its own bytes"), sent);
    }

    #[test]
    fn garbage_is_no_letter_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Letter::decode(&Bytes::from(bytes)).is_err());
    }

    #[test]
    fn a_spoiled_letter_does_not_panic(word in word(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut bytes = letter(word).encode().expect("a small letter").to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = Letter::decode(&Bytes::from(bytes.clone()));
        bytes.truncate(cut.index(bytes.len()));
        prop_assert!(Letter::decode(&Bytes::from(bytes)).is_err());
    }
}

#[test]
fn raw_bytes_are_not_in_the_json() {
    let data = vec![0xFE; 1000];
    let input = ToShell::Input {
        part: part(),
        portion: portion(data.clone(), false),
    };
    let word = Word::ToShell {
        epoch: Epoch(1),
        word: input,
    };
    let bytes = letter(word).encode().expect("a small letter");
    let message = Message::decode(&bytes).expect("a message");
    assert_eq!(message.topic, "tree");
    assert_eq!(message.tail, data);
    assert!(message.body.len() < 300, "{:?}", message.body);
}

#[test]
fn a_request_without_its_message_is_refused_at_both_ends() {
    let call = Call {
        client: 1,
        matchtag: 2,
    };
    let word = Word::Request {
        call,
        message: None,
    };
    let empty = letter(word);
    assert!(matches!(
        empty.encode(),
        Err(MessageError::Short { given: 0, .. })
    ));
    let bytes = Message::request("tree", 0, &empty).encode().expect("small");
    assert!(matches!(
        Letter::decode(&bytes),
        Err(LetterError::Carried(_))
    ));
}

#[test]
fn a_tail_behind_a_word_that_has_none_is_refused() {
    let gone = letter(Word::Gone { client: 1 });
    let message = Message::request("tree", 0, &gone).with_tail(Bytes::from_static(b"xyz"));
    let bytes = message.encode().expect("small");
    let error = Letter::decode(&bytes).expect_err("a tail too many");
    assert_eq!(
        error.to_string(),
        "letter has a tail of 3 bytes behind a word that has none"
    );
}

#[test]
fn another_topic_and_too_many_bytes_are_refused() {
    let bytes = Message::request("shell", 0, &()).encode().expect("small");
    assert!(matches!(
        Letter::decode(&bytes),
        Err(LetterError::Topic { .. })
    ));
    let word = Word::FromShell {
        epoch: Epoch(1),
        word: FromShell::Output {
            read: 1,
            next: 2,
            frames: vec![0; MESSAGE_BYTES_MAX],
            end: false,
        },
    };
    assert!(matches!(
        letter(word).encode(),
        Err(MessageError::TooLarge(_))
    ));
}
