//! Two ranks with the real link over real sockets, cut at random: every payload
//! arrives once and in order, both ways, over both transports.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::link_ends::{BOTH, End, run};
use bytes::Bytes;
use eddy_broker::link::{Link, LinkConfig, LinkOutput};
use eddy_broker::tree::overlay::{OverlayInput, OverlayOutput, PipeId};
use eddy_brokerd::link::{Limits, Transport};
use eddy_wire::link::{Hello, HelloAnswer};
use eddy_wire::time::Time;
use uuid::Uuid;

/// Payloads each way.
const PAYLOADS: u32 = 50_000;
/// Sent at most before the other end has taken them.
const AHEAD: u32 = 500;

/// A generator of cuts and sizes.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// A rank with one link.
struct Side {
    end: End,
    link: Link,
    life: Uuid,
    pipe: Option<PipeId>,
    sent: u32,
    taken: u32,
    begun: u32,
    cuts: u32,
    epoch: Instant,
}

impl Side {
    fn new(end: End, life: u128) -> Side {
        Side {
            end,
            link: Link::new(LinkConfig::LOCAL, 0),
            life: Uuid::from_u128(life),
            pipe: None,
            sent: 0,
            taken: 0,
            begun: 0,
            cuts: 0,
            epoch: Instant::now(),
        }
    }

    fn now(&self) -> Time {
        Time(self.epoch.elapsed().as_micros() as i64)
    }

    fn hello(&self) -> Hello {
        Hello {
            life: self.life,
            heard: self.link.heard(),
            ..self.end.hello()
        }
    }

    /// Payload `n` of either side: its number, then as much as it says.
    fn payload(n: u32) -> Bytes {
        let bytes = match n % 1000 {
            0 => 3 << 20,
            1..=20 => 40_000,
            _ => 4 + (n % 300) as usize,
        };
        let mut payload = n.to_be_bytes().to_vec();
        payload.resize(bytes, n as u8);
        payload.into()
    }

    fn obey(&mut self, outputs: Vec<LinkOutput>) {
        for output in outputs {
            match output {
                LinkOutput::Frame(frame) => {
                    let pipe = self.pipe.expect("a link sends on an open pipe");
                    self.end.ask(OverlayOutput::Frame(pipe, frame));
                }
                LinkOutput::Deliver(payload) => {
                    assert!(
                        payload == Side::payload(self.taken),
                        "{} is next",
                        self.taken
                    );
                    self.taken += 1;
                }
                LinkOutput::Fresh => self.begun += 1,
                LinkOutput::Drop(why) => panic!("the link gave its pipe up: {why}"),
                LinkOutput::Wake(_) => {} // asked by `due` in each turn
            }
        }
        self.end.pipes.flush();
    }

    fn hear(&mut self, input: OverlayInput) {
        let mut out = Vec::new();
        match input {
            OverlayInput::Knock(pipe, hello) => {
                self.cut();
                self.link.meet(hello.life, hello.heard, &mut out);
                self.pipe = Some(pipe);
                let hello = self.hello();
                let welcome = HelloAnswer::Welcome {
                    protocol: 1,
                    hello,
                    endpoint: None,
                };
                self.end.ask(OverlayOutput::Answer(pipe, welcome));
            }
            OverlayInput::Answered(pipe, Ok(HelloAnswer::Welcome { hello, .. })) => {
                assert_eq!(self.pipe, Some(pipe));
                self.link.meet(hello.life, hello.heard, &mut out);
            }
            OverlayInput::Answered(pipe, answer) => {
                // Cut while it was knocking.
                assert_eq!(self.pipe, Some(pipe), "{answer:?}");
                self.pipe = None;
            }
            OverlayInput::Opened(pipe) if self.pipe == Some(pipe) => {
                self.link.opened(self.now(), &mut out);
            }
            OverlayInput::Frame(pipe, frame) if self.pipe == Some(pipe) => {
                self.link.frame(self.now(), frame, &mut out);
            }
            OverlayInput::Closed(pipe, _) if self.pipe == Some(pipe) => {
                self.pipe = None;
                self.link.closed();
            }
            // Of a pipe that was cut from here: it was under way already.
            OverlayInput::Opened(_) | OverlayInput::Frame(..) | OverlayInput::Closed(..) => {}
            OverlayInput::Send(_) | OverlayInput::Tick => panic!("not a driver's to bring"),
        }
        self.obey(out);
    }

    /// Closes the pipe from here.
    fn cut(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            self.end.close(pipe);
            self.link.closed();
            self.cuts += 1;
        }
    }

    fn dial(&mut self, door: &std::path::Path) {
        if self.pipe.is_none() {
            let pipe = self.end.dial_with(door, self.hello());
            self.pipe = Some(pipe);
        }
    }

    fn send_more(&mut self, taken_there: u32) {
        if self.begun == 0 {
            return; // what is sent before the ends have met once is dropped then
        }
        let mut out = Vec::new();
        while self.sent < PAYLOADS.min(taken_there + AHEAD) {
            let payload = Side::payload(self.sent);
            self.link
                .send(self.now(), payload, &mut out)
                .expect("far below the backlog");
            self.sent += 1;
        }
        self.obey(out);
    }

    /// Hears everything that happened, or waits for the next thing or tick.
    fn catch_up(&mut self) -> usize {
        let mut heard = VecDeque::new();
        while let Ok(input) = self.end.events.try_recv() {
            heard.push_back(input);
        }
        let count = heard.len();
        heard.into_iter().for_each(|input| self.hear(input));
        if self.link.due().is_some_and(|due| due <= self.now()) {
            let mut out = Vec::new();
            self.link.tick(self.now(), &mut out);
            self.obey(out);
        }
        count
    }
}

async fn soak(one: Transport, other: Transport, folder: &std::path::Path) {
    let mut one = Side::new(End::new(folder, "1", one, Limits::default()), 1);
    let mut other = Side::new(End::new(folder, "0", other, Limits::default()), 2);
    let door = other.end.door();
    let mut dice = Dice(0x5eed);
    while one.taken < PAYLOADS || other.taken < PAYLOADS {
        one.dial(&door);
        one.send_more(other.taken);
        other.send_more(one.taken);
        let before = one.taken + other.taken;
        if one.catch_up() + other.catch_up() == 0 {
            wait(&mut one, &mut other).await;
        } else {
            tokio::task::yield_now().await;
        }
        // Only where payloads flow: a pipe that is cut before would never get there.
        match dice.roll(10) {
            0 if one.taken + other.taken > before => one.cut(),
            1 if one.taken + other.taken > before => other.cut(),
            _ => {}
        }
    }
    assert_eq!(
        (one.begun, other.begun),
        (1, 1),
        "it always went on where it was"
    );
    let cuts = one.cuts + other.cuts;
    assert!(cuts >= 20, "{cuts} cuts are too few to say anything");
}

/// Until something happens at either end, or an acknowledgement may be due.
async fn wait(one: &mut Side, other: &mut Side) {
    let patience = Duration::from_millis(5);
    let happens = tokio::time::timeout(patience, async {
        tokio::select! {
            input = one.end.events.recv() => (input, None),
            input = other.end.events.recv() => (None, input),
        }
    });
    if let Ok((at_one, at_other)) = happens.await {
        at_one.into_iter().for_each(|input| one.hear(input));
        at_other.into_iter().for_each(|input| other.hear(input));
    }
}

#[test]
fn every_payload_arrives_once_and_in_order_through_random_cuts() {
    for transport in BOTH {
        run(async |folder| soak(transport, transport, &folder).await);
    }
}

#[test]
fn so_it_does_where_the_ends_prefer_different_transports() {
    run(async |folder| soak(Transport::Stream, Transport::Zeromq, &folder).await);
}
