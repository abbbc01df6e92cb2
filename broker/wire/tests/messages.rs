//! Messages of the sockets: what is written is read back, what is not a
//! message is refused by name.

use bytes::Bytes;
use eddy_wire::Time;
use eddy_wire::id::{Attempt, JobId};
use eddy_wire::message::{MESSAGE_BYTES_MAX, Message, MessageError, Roles, Type};
use eddy_wire::services::child::{PassState, ToldOf};
use proptest::prelude::*;

fn kinds() -> impl Strategy<Value = Type> {
    prop_oneof![
        Just(Type::Request),
        Just(Type::Reply),
        Just(Type::Part),
        Just(Type::Refused),
        Just(Type::Cancel),
    ]
}

proptest! {
    #[test]
    fn a_message_survives_the_socket(
        kind in kinds(),
        topic in "[a-z.]{0,40}",
        uid: u32,
        roles: u32,
        matchtag: u64,
        body in prop::collection::vec(any::<u8>(), 0..200),
        tail in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let message = Message {
            target: eddy_wire::message::Target::Service,
            kind, topic, uid, roles: Roles(roles), matchtag, body: body.into(), tail: tail.into(),
        };
        let bytes = message.encode().expect("within the limits");
        prop_assert_eq!(bytes.len(), message.wire_len());
        prop_assert_eq!(Message::decode(&bytes), Ok(message));
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = Message::decode(&bytes.into());
    }
}

fn sample() -> Bytes {
    Message::request("job.list", 7, &())
        .encode()
        .expect("a small message")
}

fn with_byte(at: usize, byte: u8) -> Result<Message, MessageError> {
    let mut bytes = sample().to_vec();
    bytes[at] = byte;
    Message::decode(&bytes.into())
}

#[test]
fn what_is_not_a_message_is_refused_by_name() {
    assert_eq!(with_byte(0, b'G'), Err(MessageError::Magic(b'G')));
    assert_eq!(with_byte(1, 9), Err(MessageError::Version { given: 9 }));
    assert_eq!(with_byte(2, 0), Err(MessageError::Type(0)));
    assert_eq!(with_byte(34, 0xFF), Err(MessageError::Topic));
    let short = Message::decode(&sample().slice(..20));
    assert_eq!(
        short,
        Err(MessageError::Short {
            given: 20,
            needed: 34
        })
    );
    let cut = Message::decode(&sample().slice(..sample().len() - 1));
    assert_eq!(
        cut,
        Err(MessageError::Short {
            given: 45,
            needed: 46
        })
    );
    let mut long = sample().to_vec();
    long.push(0);
    assert_eq!(
        Message::decode(&long.into()),
        Err(MessageError::Trailing(1))
    );
}

#[test]
fn lengths_that_lie_allocate_nothing() {
    let mut bytes = sample().to_vec();
    bytes[26..30].copy_from_slice(&u32::MAX.to_be_bytes());
    bytes[30..34].copy_from_slice(&u32::MAX.to_be_bytes());
    let refused = Message::decode(&bytes.into());
    assert!(
        matches!(refused, Err(MessageError::Short { given: 46, .. })),
        "{refused:?}"
    );
}

#[test]
fn a_message_over_the_limit_is_not_written() {
    let tail = Bytes::from(vec![0; MESSAGE_BYTES_MAX]);
    let refused = Message::request("job.input", 1, &())
        .with_tail(tail)
        .encode();
    assert!(
        matches!(refused, Err(MessageError::TooLarge(_))),
        "{refused:?}"
    );
}

#[test]
fn the_end_of_a_job_is_said_in_the_place_of_its_begin_and_of_nothing_else() {
    let of = |job, attempt, state| ToldOf {
        job: JobId(job),
        attempt: Attempt(attempt),
        state,
        began: Some(Time(5)),
        ended: None,
        begun: None,
        adopted: None,
    };
    let over = |began| PassState::Over {
        began,
        status: Some(0),
        exception: None,
    };
    let mut words = Vec::new();
    for word in [
        of(1, 1, PassState::Running),
        of(2, 1, PassState::Running),
        of(3, 1, PassState::Accepted),
        of(1, 1, over(true)),
        of(2, 2, over(true)),
        of(3, 1, over(false)),
        of(4, 1, PassState::Stopped { stop: 1 }),
        of(4, 1, over(true)),
    ] {
        word.join(&mut words);
    }
    let expected = [
        of(1, 1, over(true)),
        of(2, 1, PassState::Running),
        of(3, 1, over(false)),
        of(2, 2, over(true)),
        of(4, 1, PassState::Stopped { stop: 1 }),
        of(4, 1, over(true)),
    ];
    assert_eq!(words, expected);
}
