//! A small world of overlays: processes, doors, and pipes that delay, break and
//! fall silent, all from one seed.

use std::collections::BTreeMap;

use super::super::*;
use eddy_wire::id::Epoch;
use eddy_wire::tree::{Address, Tenure, Word};

/// Numbers that look random and are the same each time.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// One life of a rank.
pub struct Process {
    pub rank: Rank,
    pub life: Uuid,
    pub overlay: Overlay,
    pub alive: bool,
    pub upstream: Option<Upstream>,
    pub reached: BTreeMap<Rank, Member>,
    /// Every letter delivered but the counted ones.
    pub letters: Vec<Letter>,
    /// Of the leader: tenure and letters sent and received of each rank; of
    /// another rank: its own under rank 0.
    tenure: BTreeMap<Rank, u64>,
    sent: BTreeMap<(Rank, u64), u64>,
    taken: BTreeMap<(Rank, u64), u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    Whole,
    /// Frames vanish, nobody is told.
    Silent,
    Cut,
}

struct Pipe {
    ends: [(usize, PipeId); 2],
    health: Health,
    /// When the last thing arrives at each end.
    last: [Time; 2],
}

pub enum What {
    Input(OverlayInput),
    /// It came over a pipe, which may be cut by then.
    Over(usize, OverlayInput),
    Arrive(String, PipeId, Box<Hello>),
}

pub struct World {
    pub now: Time,
    pub dice: Dice,
    pub fanout: u32,
    pub processes: Vec<Process>,
    queue: BTreeMap<(Time, u64), (usize, What)>,
    order: u64,
    pipes: Vec<Pipe>,
    by_end: BTreeMap<(usize, PipeId), usize>,
    /// One in so many dials vanishes; 0 for none.
    pub dials_lost: u64,
    /// The knocks of this process are never heard.
    pub unheard: Option<usize>,
    /// This process hears no knocks.
    pub deaf: Option<usize>,
    /// Why ranks were lost.
    pub lost: Vec<String>,
    pub outputs: u64,
}

impl World {
    pub fn new(seed: u64, fanout: u32) -> World {
        World {
            now: Time(1_000_000),
            dice: Dice::new(seed),
            fanout,
            processes: Vec::new(),
            queue: BTreeMap::new(),
            order: 0,
            pipes: Vec::new(),
            by_end: BTreeMap::new(),
            dials_lost: 0,
            unheard: None,
            deaf: None,
            lost: Vec::new(),
            outputs: 0,
        }
    }

    /// A new life of a rank.
    pub fn start(&mut self, rank: u32) -> usize {
        let at = self.processes.len();
        let life = Uuid::from_u128(at as u128 + 1000);
        let seat = Seat {
            instance: "one".to_owned(),
            job: None,
            rank: Rank(rank),
            life,
            door: format!("door {at}"),
            leader: match rank {
                0 => String::new(),
                _ => "leader".to_owned(),
            },
            fanout: self.fanout,
        };
        self.processes.push(Process {
            rank: Rank(rank),
            life,
            overlay: Overlay::new(seat),
            alive: true,
            upstream: None,
            reached: BTreeMap::new(),
            letters: Vec::new(),
            tenure: BTreeMap::new(),
            sent: BTreeMap::new(),
            taken: BTreeMap::new(),
        });
        self.at(self.now, at, What::Input(OverlayInput::Tick));
        at
    }

    /// The living process of a rank.
    pub fn of(&self, rank: u32) -> Option<usize> {
        let lives = |p: &Process| p.rank == Rank(rank) && p.alive;
        self.processes.iter().rposition(lives)
    }

    pub fn kill(&mut self, process: usize) {
        self.processes[process].alive = false;
        for pipe in 0..self.pipes.len() {
            if self.pipes[pipe].ends.iter().any(|end| end.0 == process) {
                self.cut(pipe);
            }
        }
    }

    pub fn pipes(&self) -> usize {
        self.pipes.len()
    }

    pub fn is_whole(&self, pipe: usize) -> bool {
        self.pipes[pipe].health == Health::Whole
    }

    /// Ends a pipe; each end hears of it in its time.
    pub fn cut(&mut self, pipe: usize) {
        if self.pipes[pipe].health == Health::Cut {
            return;
        }
        self.pipes[pipe].health = Health::Cut;
        for (process, id) in self.pipes[pipe].ends {
            let at = self.now + self.delay();
            let closed = OverlayInput::Closed(id, "it broke".to_owned());
            self.at(at, process, What::Input(closed));
        }
    }

    pub fn silence(&mut self, pipe: usize) {
        if self.pipes[pipe].health == Health::Whole {
            self.pipes[pipe].health = Health::Silent;
        }
    }

    fn delay(&mut self) -> Span {
        Span(20 + self.dice.roll(3_000) as i64)
    }

    fn at(&mut self, time: Time, process: usize, what: What) {
        self.order += 1;
        self.queue.insert((time, self.order), (process, what));
    }

    /// What comes over a pipe keeps its order.
    fn over(&mut self, pipe: usize, to: usize, input: OverlayInput) {
        let at = (self.now + self.delay()).max(self.pipes[pipe].last[to]);
        self.pipes[pipe].last[to] = at;
        let process = self.pipes[pipe].ends[to].0;
        self.at(at, process, What::Over(pipe, input));
    }

    pub fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        while let Some((&(time, order), _)) = self.queue.first_key_value() {
            if time > end {
                break;
            }
            let (process, what) = self.queue.remove(&(time, order)).expect("it is first");
            self.now = self.now.max(time);
            match what {
                What::Input(input) => self.input(process, input),
                What::Over(pipe, input) => {
                    if self.pipes[pipe].health == Health::Whole {
                        self.input(process, input);
                    }
                }
                What::Arrive(door, pipe, hello) => self.arrive(process, &door, pipe, *hello),
            }
        }
        self.now = end;
    }

    fn arrive(&mut self, from: usize, door: &str, pipe: PipeId, hello: Hello) {
        let to = match door.strip_prefix("door ") {
            Some(number) => number.parse().ok(),
            None => self.of(0),
        };
        let alive = to.filter(|to: &usize| self.processes[*to].alive);
        let Some(to) = alive else {
            let nobody = OverlayInput::Answered(pipe, Err("nobody is there".to_owned()));
            return self.input(from, nobody);
        };
        if self.unheard == Some(from) || self.deaf == Some(to) {
            return;
        }
        if self.dials_lost > 0 && self.dice.roll(self.dials_lost) == 0 {
            return;
        }
        let number = self.pipes.len();
        let theirs = PipeId(2 * number as u64 + 2);
        self.pipes.push(Pipe {
            ends: [(from, pipe), (to, theirs)],
            health: Health::Whole,
            last: [self.now; 2],
        });
        self.by_end.insert((from, pipe), number);
        self.by_end.insert((to, theirs), number);
        self.input(to, OverlayInput::Knock(theirs, hello));
    }

    pub fn input(&mut self, process: usize, input: OverlayInput) {
        if !self.processes[process].alive {
            return;
        }
        let mut out = Vec::new();
        self.processes[process]
            .overlay
            .handle(self.now, input, &mut out);
        self.outputs += out.len() as u64;
        for output in out {
            self.output(process, output);
        }
    }

    fn output(&mut self, process: usize, output: OverlayOutput) {
        match output {
            OverlayOutput::Answer(id, answer) => self.answer((process, id), answer),
            OverlayOutput::Dial(id, door, hello) => {
                assert_eq!(id.0 % 2, 1, "ours to give are odd");
                let at = self.now + self.delay();
                self.at(at, process, What::Arrive(door, id, hello));
            }
            OverlayOutput::Frame(id, bytes) => {
                let pipe = self.by_end[&(process, id)];
                let to = self.other(pipe, (process, id));
                let id = self.pipes[pipe].ends[to].1;
                self.over(pipe, to, OverlayInput::Frame(id, bytes));
            }
            OverlayOutput::Close(id, _) => {
                if let Some(pipe) = self.by_end.get(&(process, id)).copied() {
                    self.cut(pipe);
                }
            }
            OverlayOutput::Deliver(letter) => self.delivered(process, letter),
            OverlayOutput::Reached(rank, member) => {
                let one = &mut self.processes[process];
                let before = one.reached.insert(rank, member);
                assert!(before.is_none(), "rank {rank} is reached twice");
                // A later life of the leader counts on from higher numbers.
                *one.tenure.entry(rank).or_insert((process as u64) << 32) += 1;
            }
            OverlayOutput::Lost(rank, why) => {
                self.lost.push(why);
                let before = self.processes[process].reached.remove(&rank);
                assert!(before.is_some(), "rank {rank} is lost twice");
            }
            OverlayOutput::Upstream(upstream) => {
                self.processes[process].upstream = Some(upstream);
            }
            OverlayOutput::Wake(at) => {
                self.at(at.max(self.now), process, What::Input(OverlayInput::Tick));
            }
        }
    }

    fn other(&self, pipe: usize, end: (usize, PipeId)) -> usize {
        usize::from(self.pipes[pipe].ends[0] == end)
    }

    fn answer(&mut self, end: (usize, PipeId), answer: HelloAnswer) {
        let pipe = self.by_end[&end];
        let (theirs, ours) = (self.pipes[pipe].ends[0].1, end.1);
        let welcome = matches!(answer, HelloAnswer::Welcome { .. });
        self.over(pipe, 0, OverlayInput::Answered(theirs, Ok(answer)));
        if welcome {
            self.over(pipe, 0, OverlayInput::Opened(theirs));
            self.over(pipe, 1, OverlayInput::Opened(ours));
        }
    }

    /// The leader writes to a rank, in the tenure of its own count.
    pub fn write_down(&mut self, rank: u32) {
        let Some(leader) = self.of(0) else { return };
        let one = &mut self.processes[leader];
        if !one.reached.contains_key(&Rank(rank)) {
            return;
        }
        let tenure = one.tenure[&Rank(rank)];
        self.write(leader, Rank(rank), tenure);
    }

    /// A rank writes to the leader, in the tenure it heard of last.
    pub fn write_up(&mut self, rank: u32) {
        let Some(process) = self.of(rank) else { return };
        let one = &self.processes[process];
        if let Some(((_, tenure), _)) = one.taken.last_key_value() {
            self.write(process, Rank(0), *tenure);
        }
    }

    fn write(&mut self, process: usize, to: Rank, tenure: u64) {
        let one = &mut self.processes[process];
        let count = one.sent.entry((to, tenure)).or_default();
        let letter = Letter {
            to: Address::Rank(to),
            from: one.rank,
            tenure: Tenure {
                leader: Epoch(0),
                number: tenure,
            },
            word: Word::Gone { client: *count },
        };
        *count += 1;
        self.input(process, OverlayInput::Send(letter));
    }

    fn delivered(&mut self, process: usize, letter: Letter) {
        let now = self.now;
        let one = &mut self.processes[process];
        let Word::Gone { client: count } = letter.word else {
            one.letters.push(letter);
            return;
        };
        let (from, tenure) = (letter.from, letter.tenure.number);
        if from != Rank(0) && one.tenure.get(&from) != Some(&tenure) {
            return;
        }
        if from == Rank(0) {
            let newest = one.taken.last_key_value().map_or(0, |((_, t), _)| *t);
            // Under way for long, by a path that broke and came again, or meant for the
            // life before: like a follower, one takes nothing of an older tenure and
            // nothing before the first word of one.
            let known = one.taken.contains_key(&(from, tenure));
            if tenure < newest || count > 0 && !known {
                return;
            }
        }
        let expected = one.taken.entry((from, tenure)).or_default();
        assert_eq!(
            count, *expected,
            "{now}: {} hears {from} in tenure {tenure} without a gap",
            one.rank
        );
        *expected += 1;
    }

    /// How many letters of its present tenure a rank took, and the leader sent.
    pub fn down_counts(&self, rank: u32) -> (u64, u64) {
        let (leader, process) = (self.of(0).expect("leads"), self.of(rank).expect("lives"));
        let tenure = self.processes[leader].tenure[&Rank(rank)];
        let count = |from: &BTreeMap<(Rank, u64), u64>, who| from.get(&(who, tenure)).copied();
        let taken = count(&self.processes[process].taken, Rank(0)).unwrap_or(0);
        let sent = count(&self.processes[leader].sent, Rank(rank)).unwrap_or(0);
        (taken, sent)
    }

    /// Likewise the other way.
    pub fn up_counts(&self, rank: u32) -> (u64, u64) {
        let (leader, process) = (self.of(0).expect("leads"), self.of(rank).expect("lives"));
        let tenure = self.processes[leader].tenure[&Rank(rank)];
        let count = |from: &BTreeMap<(Rank, u64), u64>, who| from.get(&(who, tenure)).copied();
        let taken = count(&self.processes[leader].taken, Rank(rank)).unwrap_or(0);
        let sent = count(&self.processes[process].sent, Rank(0)).unwrap_or(0);
        (taken, sent)
    }
}
