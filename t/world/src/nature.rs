//! What all parts of a world share: time, chance, the queue of what is to happen, the connections,
//! and the judge. Decides nothing: it only says how long things take.

use eddy_broker::effect::QueryTag;
use eddy_broker::shellbook::Spawn;
use eddy_broker::{Answer, Query};
use eddy_wire::id::Epoch;
use eddy_wire::message::Message;
use eddy_wire::plan::{Delta, Outcome};
use eddy_wire::shell::{FromShell, Part, ToShell};
use eddy_wire::time::{Span, Time};

use crate::broken::Rule;
use crate::call::About;
use crate::clock::Machine;
use crate::fault::Fault;
use crate::oracle::Oracle;
use crate::pipe::{PipeId, Pipes, Side};
use crate::queue::Queue;
use crate::random::Random;

/// One life of a leader, counted from 1.
pub type Life = u64;

/// Something that happens.
#[derive(Clone, Debug)]
pub enum Happening {
    /// Something sent over a connection arrives.
    Arrives(PipeId, Side, Parcel),
    /// The other end of a connection has closed.
    Ends(PipeId, Side),
    /// A leader is started, if none runs.
    LeaderStarts,
    /// The writer looks whether there is something to commit.
    CommitBegins(Life),
    /// The commit under way is on disk.
    Commits(Life),
    /// The planner takes its next request.
    Plans(Life, Vec<Delta>),
    /// And answers it.
    Planned(Life, Outcome),
    /// The journal reads for a question.
    Reads(Life, QueryTag, Query),
    /// And answers it.
    Answers(Life, QueryTag, Answer),
    /// A wake-up asked for is due at this broker time.
    Ticks(Life, Time),
    /// The leader looks whether a shell lives.
    Checks(Life, Epoch),
    /// It does not, and what it left has been ended.
    ShellDead(Life, Epoch),
    /// A shell tries to connect.
    ShellConnects(Epoch),
    /// A task's process is there.
    Spawns(Epoch, Spawn),
    /// A task ends by itself or by a signal, if this is still how it ends.
    TaskEnds(Epoch, Part, u32, u64),
    /// Nothing of a part is left.
    Swept(Epoch, Part),
    /// A client tries to connect.
    ClientConnects(usize),
    /// A client does the next thing it has in mind.
    ClientActs(usize),
    /// Something goes wrong.
    Strikes(Fault),
    /// The leader makes a mark.
    Marks(Life),
    /// The faults are over: everything is repaired.
    Calms,
}

/// What goes over connections.
#[derive(Clone, Debug)]
pub enum Parcel {
    /// From a client, with what it is about.
    FromClient(Message, About),
    /// To a client.
    ToClient(Message),
    /// From a shell.
    FromShell(FromShell),
    /// To a shell.
    ToShell(ToShell),
}

/// What takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// A message on its way.
    Net,
    /// A commit.
    Disk,
    /// A pass of the planner.
    Plan,
    /// A question to the journal.
    Query,
    /// Starting or ending a process.
    Process,
    /// Waiting before the next attempt to connect.
    Retry,
}

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// No time at all, for scripts: what follows from a cause has its time.
    Exact,
    /// Something random, longer by this factor on slow machines.
    Random(i64),
}

/// What all parts share.
#[derive(Debug)]
pub struct Nature {
    /// The true time; nobody in the world can see it.
    pub now: Time,
    /// What is to happen.
    pub queue: Queue<Happening>,
    /// Chance.
    pub random: Random,
    /// How long things take.
    pub pace: Pace,
    /// The connections.
    pub pipes: Pipes,
    /// The clocks of the machine.
    pub machine: Machine,
    /// The judge.
    pub oracle: Oracle,
    /// The rule broken on purpose, if one is.
    pub broken: Option<Rule>,
    transcript: Transcript,
}

/// Whether what happens is written down.
#[derive(Debug)]
enum Transcript {
    Off,
    On(Vec<String>),
}

/// When every world begins: no world is so old that a key of its clients looks old.
pub const BEGIN: Time = Time(1_800_000_000_000_000);

impl Nature {
    /// Of this seed.
    pub fn new(seed: u64, pace: Pace, grace: Span) -> Nature {
        Nature {
            now: BEGIN,
            queue: Queue::default(),
            random: Random::new(seed),
            pace,
            pipes: Pipes::default(),
            machine: Machine::default(),
            oracle: Oracle::new(grace),
            broken: None,
            transcript: Transcript::Off,
        }
    }

    /// Whether this rule is the broken one.
    pub fn breaks(&self, rule: Rule) -> bool {
        self.broken == Some(rule)
    }

    /// How long this takes now.
    pub fn delay(&mut self, what: Delay) -> Span {
        match self.pace {
            Pace::Exact => match what {
                Delay::Retry => Span::seconds(1),
                _ => Span::ZERO,
            },
            Pace::Random(slow) => {
                let most = match what {
                    Delay::Net => 300,
                    Delay::Disk | Delay::Process => 4_000,
                    Delay::Plan | Delay::Query => 2_000,
                    Delay::Retry => 200_000,
                };
                // Now and then something takes a hundred times as long.
                let spike = if self.random.chance(2) { 100 } else { 1 };
                Span(self.random.between(10, most) * slow * spike)
            }
        }
    }

    /// Something that happens after a while.
    pub fn later(&mut self, delay: Delay, what: Happening) {
        let at = self.now.after(self.delay(delay));
        self.queue.push(at, what);
    }

    /// Sends something over a connection.
    pub fn send(&mut self, pipe: PipeId, to: Side, parcel: Parcel) {
        let at = self.now.after(self.delay(Delay::Net));
        let at = self.pipes.arrival(pipe, to, at);
        self.queue.push(at, Happening::Arrives(pipe, to, parcel));
    }

    /// Closes one end; the other hears of it after what was sent before.
    pub fn close(&mut self, pipe: PipeId, side: Side) {
        if !self.pipes.is_open(pipe, side) {
            return;
        }
        let at = self.now.after(self.delay(Delay::Net));
        let at = self.pipes.arrival(pipe, side.other(), at);
        self.queue.push(at, Happening::Ends(pipe, side.other()));
        self.pipes.close(pipe, side);
    }

    /// Begins to write down what happens.
    pub fn write_down(&mut self) {
        self.transcript = Transcript::On(Vec::new());
    }

    /// Whether what happens is written down.
    pub fn is_written_down(&self) -> bool {
        matches!(self.transcript, Transcript::On(_))
    }

    /// Whether chance strikes, in so many of 100 cases; never in a script.
    pub fn chance(&mut self, percent: u64) -> bool {
        matches!(self.pace, Pace::Random(_)) && self.random.chance(percent)
    }

    /// Notes that something happened, if that is written down.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Transcript::On(lines) = &mut self.transcript {
            let seconds = (self.now - BEGIN).0 as f64 / 1e6;
            lines.push(format!("{seconds:>7} {}", line()));
        }
    }

    /// What was written down since it was last taken.
    pub fn take_notes(&mut self) -> Vec<String> {
        match &mut self.transcript {
            Transcript::Off => Vec::new(),
            Transcript::On(lines) => std::mem::take(lines),
        }
    }
}
