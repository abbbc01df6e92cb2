//! Two links over pipes that break: order, once, bounds, silence, garbage.

use std::collections::{BTreeSet, VecDeque};

use super::*;

const CONFIG: LinkConfig = LinkConfig::HOSTS;
/// Payloads are this long at least: session and number.
const TAG_BYTES: usize = 16;

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// One end with what a driver and a user of the link keep.
struct End {
    link: Link,
    life: Uuid,
    /// Frames on their way to the other end.
    wire: VecDeque<Bytes>,
    /// What was sent since the link last began anew: session and how many.
    session: u64,
    sent: u64,
    /// Of the other end since then: session and the next number.
    expected: Option<(u64, u64)>,
    seen: BTreeSet<(u64, u64)>,
    wake: Option<Time>,
    dropped: Vec<String>,
}

impl End {
    fn new(life: u128) -> End {
        End {
            link: Link::new(CONFIG, 0),
            life: Uuid::from_u128(life),
            wire: VecDeque::new(),
            session: (life as u64) << 32,
            sent: 0,
            expected: None,
            seen: BTreeSet::new(),
            wake: None,
            dropped: Vec::new(),
        }
    }

    fn digest(&mut self, out: Vec<LinkOutput>) {
        for output in out {
            match output {
                LinkOutput::Frame(bytes) => self.wire.push_back(bytes),
                LinkOutput::Deliver(payload) => self.delivered(&payload),
                LinkOutput::Fresh => {
                    self.session += 1;
                    self.sent = 0;
                    self.expected = None;
                }
                LinkOutput::Drop(why) => self.dropped.push(why),
                LinkOutput::Wake(at) => self.wake = Some(at),
            }
        }
    }

    fn delivered(&mut self, payload: &Bytes) {
        let number =
            |at: usize| u64::from_be_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
        let (session, n) = (number(0), number(8));
        let expected = self.expected.unwrap_or((session, 0));
        assert_eq!((session, n), expected, "in order, from the first");
        assert!(self.seen.insert((session, n)), "once");
        let filler = payload[TAG_BYTES..].iter();
        assert!(filler.into_iter().all(|byte| *byte == n as u8), "whole");
        self.expected = Some((session, n + 1));
    }

    fn send(&mut self, now: Time, filler: usize) -> Result<(), LinkFull> {
        let mut payload = BytesMut::new();
        payload.extend_from_slice(&self.session.to_be_bytes());
        payload.extend_from_slice(&self.sent.to_be_bytes());
        payload.resize(TAG_BYTES + filler, self.sent as u8);
        let mut out = Vec::new();
        self.link.send(now, payload.freeze(), &mut out)?;
        self.sent += 1;
        self.digest(out);
        Ok(())
    }

    fn take(&mut self, now: Time, frame: Bytes) {
        let mut out = Vec::new();
        self.link.frame(now, frame, &mut out);
        self.digest(out);
    }

    fn tick(&mut self, now: Time) {
        let mut out = Vec::new();
        self.link.tick(now, &mut out);
        self.digest(out);
    }

    fn closed(&mut self) {
        self.link.closed();
        self.wire.clear();
        self.wake = None;
    }

    fn meet(&mut self, life: Uuid, heard: Option<Heard>) {
        let mut out = Vec::new();
        self.link.meet(life, heard, &mut out);
        self.digest(out);
    }

    fn opened(&mut self, now: Time) {
        let mut out = Vec::new();
        self.link.opened(now, &mut out);
        self.digest(out);
    }
}

/// How far a new pipe comes before it breaks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Knock {
    Answered,
    AnswerLost,
}

/// `a` knocks at `b`, as the overlay does.
fn knock(now: Time, a: &mut End, b: &mut End, knock: Knock) {
    a.closed();
    b.closed();
    let asked = a.link.heard();
    b.meet(a.life, asked);
    let answered = b.link.heard();
    b.opened(now);
    if knock == Knock::Answered {
        a.meet(b.life, answered);
        a.opened(now);
    }
}

/// Everything on its way arrives until nothing is.
fn settle(now: &mut Time, a: &mut End, b: &mut End) {
    for _ in 0..100_000 {
        if let Some(frame) = a.wire.pop_front() {
            b.take(*now, frame);
        } else if let Some(frame) = b.wire.pop_front() {
            a.take(*now, frame);
        } else if a.link.counts().0 + b.link.counts().0 > 0 {
            *now = *now + ACK_DELAY;
            a.tick(*now);
            b.tick(*now);
        } else {
            return;
        }
    }
    panic!("two links over a whole pipe do not come to rest");
}

fn pair(now: Time) -> (End, End) {
    let (mut a, mut b) = (End::new(1), End::new(2));
    knock(now, &mut a, &mut b, Knock::Answered);
    (a, b)
}

/// A life of an end that knows nothing of the one before.
fn reborn(end: &mut End, life: u128) {
    let seen = std::mem::take(&mut end.seen);
    *end = End::new(life);
    end.seen = seen;
}

/// The same life with a link of which nothing is remembered but its turn.
fn forgetful(end: &mut End) {
    end.closed();
    end.link = Link::new(CONFIG, end.link.turn());
    (end.session, end.sent, end.expected) = (end.session + 1, 0, None);
}

fn storm(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut now = Time(1_000_000);
    let (mut a, mut b) = pair(now);
    let mut lives = 10;
    for _ in 0..400 {
        now = now + Span(dice.roll(3_000) as i64);
        let (one, other) = match dice.roll(2) {
            0 => (&mut a, &mut b),
            _ => (&mut b, &mut a),
        };
        match dice.roll(100) {
            0..40 => one.send(now, dice.roll(300) as usize).expect("room"),
            40..41 => one.send(now, (5 << 20) / 2).expect("room"),
            41..86 => {
                if let Some(frame) = one.wire.pop_front() {
                    other.take(now, frame);
                }
            }
            86..90 => one.tick(now),
            90..92 => one.closed(),
            92..94 => knock(now, &mut a, &mut b, Knock::AnswerLost),
            94..98 => knock(now, &mut a, &mut b, Knock::Answered),
            98 if dice.roll(3) == 0 => {
                lives += 1;
                reborn(one, lives);
            }
            98 => {}
            _ => forgetful(one),
        }
        // Frames of a half-open pipe are refused; else nothing may be.
        if !(a.dropped.is_empty() && b.dropped.is_empty()) {
            a.dropped.clear();
            b.dropped.clear();
            a.closed();
            b.closed();
        }
    }
    knock(now, &mut a, &mut b, Knock::Answered);
    settle(&mut now, &mut a, &mut b);
    for _ in 0..3 {
        a.send(now, 0).expect("room");
        b.send(now, 0).expect("room");
    }
    settle(&mut now, &mut a, &mut b);
    assert!(
        a.dropped.is_empty() && b.dropped.is_empty(),
        "a whole pipe is not dropped"
    );
    assert_eq!(
        b.expected,
        Some((a.session, a.sent)),
        "seed {seed}: all arrived"
    );
    assert_eq!(
        a.expected,
        Some((b.session, b.sent)),
        "seed {seed}: all arrived"
    );
}

#[test]
fn within_one_life_of_both_ends_payloads_come_in_order_and_once() {
    for seed in 1..1_500 {
        storm(seed);
    }
}

#[test]
fn what_was_not_acknowledged_comes_again_over_the_next_pipe() {
    let mut now = Time(0);
    let (mut a, mut b) = pair(now);
    settle(&mut now, &mut a, &mut b);
    for _ in 0..10 {
        a.send(now, 5).expect("room");
    }
    for _ in 0..4 {
        let frame = a.wire.pop_front().expect("sent");
        b.take(now, frame);
    }
    let session = a.session;
    knock(now, &mut a, &mut b, Knock::Answered);
    settle(&mut now, &mut a, &mut b);
    assert_eq!(a.session, session, "it did not begin anew");
    assert_eq!(b.expected, Some((session, 10)));
}

#[test]
fn what_is_sent_without_a_pipe_waits_for_one() {
    let mut now = Time(0);
    let (mut a, mut b) = pair(now);
    settle(&mut now, &mut a, &mut b);
    a.closed();
    a.send(now, 5).expect("room");
    assert!(a.wire.is_empty() && a.link.due().is_none());
    knock(now, &mut a, &mut b, Knock::Answered);
    settle(&mut now, &mut a, &mut b);
    assert_eq!(b.expected, Some((a.session, 1)));
}

#[test]
fn another_life_begins_anew_at_both_ends() {
    let now = Time(0);
    let (mut a, mut b) = pair(now);
    a.send(now, 5).expect("room");
    reborn(&mut b, 7);
    let session = a.session;
    knock(now, &mut a, &mut b, Knock::Answered);
    assert_eq!(a.session, session + 1, "told to begin anew");
    assert_eq!(a.wire.len(), 1, "nothing of before is sent");
}

#[test]
fn a_peer_that_never_acknowledges_costs_a_bounded_amount() {
    for filler in [0, 1000, PIECE_BYTES_MAX, 3 * PIECE_BYTES_MAX] {
        let now = Time(0);
        let (mut a, _) = pair(now);
        a.wire.clear();
        let (mut frames, mut bytes) = (0, 0);
        let full = (0..10_000_000).find_map(|_| {
            let result = a.send(now, filler).err();
            frames += a.wire.len();
            bytes += a.wire.drain(..).map(|frame| frame.len()).sum::<usize>();
            result
        });
        let full = full.expect("it is full at last");
        assert!(frames <= WINDOW_FRAMES, "{frames} frames under way");
        assert!(bytes <= WINDOW_BYTES + WINDOW_FRAMES * FRAME_HEADER_BYTES);
        assert!(a.link.held_bytes() <= WINDOW_BYTES + BACKLOG_BYTES_MAX);
        assert!(full.to_string().contains("does not keep up"), "{full}");
    }
}

#[test]
fn the_window_opens_as_it_is_acknowledged() {
    let mut now = Time(0);
    let (mut a, mut b) = pair(now);
    for _ in 0..WINDOW_FRAMES * 3 {
        a.send(now, 10).expect("room");
    }
    settle(&mut now, &mut a, &mut b);
    assert_eq!(b.expected, Some((a.session, WINDOW_FRAMES as u64 * 3)));
    assert_eq!(a.link.held_bytes(), 0);
}

#[test]
fn a_payload_of_the_largest_size_comes_in_pieces_and_whole() {
    let mut now = Time(0);
    let (mut a, mut b) = pair(now);
    a.send(now, MESSAGE_BYTES_MAX - TAG_BYTES).expect("room");
    assert_eq!(a.wire.len(), 1 + 16, "a beginning and pieces of 1 MiB");
    assert!(
        a.wire
            .iter()
            .all(|frame| frame.len() <= PIECE_BYTES_MAX + FRAME_HEADER_BYTES)
    );
    a.send(now, 0).expect("room");
    settle(&mut now, &mut a, &mut b);
    assert_eq!(b.expected, Some((a.session, 2)));
}

#[test]
fn an_idle_link_beats_each_five_seconds_and_does_nothing_else() {
    let mut now = Time(0);
    let (mut a, mut b) = pair(now);
    settle(&mut now, &mut a, &mut b);
    let mut ticks = 0;
    while now < Time(0) + Span::seconds(100) {
        now = a.wake.min(b.wake).expect("both wait for something");
        for end in [&mut a, &mut b] {
            if end.wake.is_some_and(|at| at <= now) {
                end.wake = None;
                end.tick(now);
                ticks += 1;
            }
        }
        let (to_b, to_a) = (std::mem::take(&mut a.wire), std::mem::take(&mut b.wire));
        to_b.into_iter().for_each(|frame| b.take(now, frame));
        to_a.into_iter().for_each(|frame| a.take(now, frame));
    }
    assert!(
        (38..=44).contains(&ticks),
        "{ticks} ticks of two links in 100 s"
    );
    assert!(a.dropped.is_empty() && b.dropped.is_empty());
}

#[test]
fn a_silent_peer_is_given_up_after_twenty_seconds() {
    let mut now = Time(0);
    let (mut a, _) = pair(now);
    while a.dropped.is_empty() {
        now = a.wake.take().expect("it waits for something");
        a.tick(now);
    }
    assert_eq!(now, Time(0) + CONFIG.silence);
    assert_eq!(
        a.dropped,
        ["nothing heard for 20.000000 s; the limit is 20.000000"]
    );
    assert!(a.link.due().is_none() && !a.link.is_open());
}

#[test]
fn an_acknowledgement_rides_on_data_or_goes_after_a_moment() {
    let now = Time(0);
    let (mut a, mut b) = pair(now);
    (0..2).for_each(|_| {
        std::mem::take(&mut a.wire)
            .into_iter()
            .for_each(|frame| b.take(now, frame));
        std::mem::take(&mut b.wire)
            .into_iter()
            .for_each(|frame| a.take(now, frame));
    });
    a.send(now, 0).expect("room");
    b.take(now, a.wire.pop_front().expect("sent"));
    assert!(b.wire.is_empty());
    assert_eq!(b.wake, Some(now + ACK_DELAY));
    b.send(now, 0).expect("room");
    a.take(now, b.wire.pop_front().expect("sent"));
    assert_eq!(a.link.counts().0, 0, "the data acknowledged");
    for _ in 0..ACK_FRAMES {
        a.send(now, 0).expect("room");
        b.take(now, a.wire.pop_front().expect("sent"));
    }
    assert_eq!(b.wire.len(), 1, "many frames are acknowledged at once");
}

fn refused(spoil: impl Fn(&Frame) -> Vec<Bytes>) -> String {
    let mut now = Time(0);
    let (mut a, mut b) = pair(now);
    settle(&mut now, &mut a, &mut b);
    a.send(now, 3).expect("room");
    let good = Frame::decode(&a.wire.pop_front().expect("sent")).expect("a frame");
    for bytes in spoil(&good) {
        b.take(now, bytes);
    }
    let why = b.dropped.pop().expect("dropped");
    knock(now, &mut a, &mut b, Knock::Answered);
    settle(&mut now, &mut a, &mut b);
    assert_eq!(b.expected, Some((a.session, 1)), "the link itself goes on");
    why
}

#[test]
fn a_frame_that_cannot_be_costs_the_pipe_and_not_the_link() {
    let with = |change: fn(&mut Frame)| {
        refused(|good| {
            let mut frame = good.clone();
            change(&mut frame);
            vec![frame.encode()]
        })
    };
    assert!(with(|frame| frame.seq += 1).contains("frames are missing"));
    assert!(with(|frame| frame.seq = u64::MAX).contains("frames are missing"));
    assert!(with(|frame| frame.ack += 1).contains("the last one sent is"));
    assert!(with(|frame| frame.kind = Kind::Heartbeat).contains("no data carries"));
    assert!(
        with(|frame| (frame.kind, frame.payload) = (Kind::Begin, Bytes::new())).contains("twice")
    );
    let large = |frame: &mut Frame| frame.payload = vec![0; PIECE_BYTES_MAX + 1].into();
    assert!(with(large).contains("at most 1048576"));
    assert!(refused(|_| vec![Bytes::from_static(b"short")]).contains("shorter"));
    assert!(refused(|_| vec![Bytes::from_static(&[9; 30])]).contains("kind 9"));
    assert!(
        refused(|_| vec![Bytes::from_static(&[
            1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
        ])])
        .contains("flags")
    );
}

#[test]
fn a_payload_without_an_end_is_bounded() {
    let now = Time(0);
    let (mut a, mut b) = pair(now);
    b.take(now, a.wire.pop_front().expect("its beginning"));
    let begin = b.link.taken.expect("begun");
    for n in 1..=17 {
        let frame = Frame {
            kind: Kind::Data,
            piece: Piece::More,
            seq: begin + n,
            ack: 0,
            payload: vec![0; PIECE_BYTES_MAX].into(),
        };
        b.take(now, frame.encode());
    }
    assert!(b.dropped[0].contains("limit `message`"), "{:?}", b.dropped);
}

#[test]
fn garbage_does_not_panic() {
    let mut dice = Dice(77);
    for round in 0..20_000u64 {
        let now = Time(round as i64);
        let (_, mut b) = pair(now);
        for _ in 0..dice.roll(6) {
            let mut bytes: Vec<u8> = (0..dice.roll(60)).map(|_| dice.roll(256) as u8).collect();
            if let Some(first) = bytes.first_mut().filter(|_| dice.roll(3) > 0) {
                *first = 1 + dice.roll(4) as u8;
            }
            if dice.roll(3) > 0 && bytes.len() >= FRAME_HEADER_BYTES {
                bytes[1] = dice.roll(2) as u8;
                bytes[2..18].copy_from_slice(&[0; 16]);
                bytes[9] = dice.roll(4) as u8;
            }
            b.take(now, bytes.into());
        }
    }
}
