//! `eddy shell`: the small process that parents the tasks of one broker on a
//! node and outlives that broker (doc/protocol/shell.md).
//!
//! Started by the leader under an epoch. One thread waits for the connection,
//! the tasks and their output, gives what happened to the pure book
//! (`eddy_broker::shellbook`) and does what the book says; two more threads
//! spawn. It decides nothing itself and ends when it is told to, when it
//! holds nothing and no broker was there for a minute, or when who launched it
//! is gone before a leader can know of it.

pub mod hunt;
pub mod inherited;
pub mod input;
pub mod intake;
pub mod launcher;
pub mod limits;
pub mod link;
pub mod mock;
pub mod pause;
pub mod program;
pub mod reads;
pub mod tasks;
pub mod watch;

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eddy_broker::shellbook::{Known, ShellBook, ShellEffect, ShellInput, Spawn};
use eddy_wire::id::Epoch;
use eddy_wire::input::{Portion, Taken};
use eddy_wire::shell::{FromShell, Part, PartState, Role, ToShell};
use eddy_wire::time::{Span, Time};

use self::inherited::Streams;
use self::launcher::Parting;
use self::limits::{own_umask, raise_open_files};
use self::link::{Link, Outlook};
use self::mock::Mocks;
use self::program::Mock;
use self::reads::{Reads, Written};
use self::tasks::{Surroundings, Tasks};
use self::watch::{Token, Until, Watch, Watched};
use crate::clock::Clock;
use crate::logging;
use crate::shell::procfs::MARKER_VARIABLE;
use crate::shell::sweep::{LockError, ShellLock};
use crate::shell::{reap, spool};

/// Name of the directory with spools in the state directory.
pub const SPOOL_DIRECTORY: &str = "spool";

/// Name of the directory with state directories of instances in the state directory.
pub const CHILDREN_DIRECTORY: &str = "children";

/// Without a broker and without parts for so long it ends.
const ALONE_MAX: Duration = Duration::from_secs(60);
/// The exit code of a shell that was told to end while something ran: whoever
/// started it looks what is left. With 0 nothing is.
const CODE_HOLDING: i32 = 3;
/// How long the lock of a shell that was just killed may still be held by a
/// task between clone and exec.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at that lock.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// What the leader tells a shell that it starts.
#[derive(Clone, Debug, clap::Args)]
pub struct ShellArgs {
    /// State directory of the rank
    #[arg(long, value_name = "DIR")]
    pub statedir: PathBuf,
    /// Run directory with the broker's sockets
    #[arg(long, value_name = "DIR")]
    pub rundir: PathBuf,
    /// Which life of the shell this is
    #[arg(long, value_name = "N")]
    pub epoch: u64,
    /// Id of the instance
    #[arg(long, value_name = "ID")]
    pub instance: String,
    /// Start no process: tasks are taken to last so many microseconds
    #[arg(long, value_name = "US")]
    pub mock: Option<i64>,
    /// Most bytes of output kept of one job on one rank
    #[arg(long, value_name = "BYTES", default_value_t = spool::LIMIT_BYTES)]
    pub spool_bytes: u64,
    /// Descriptors of this process that stand for 0, 1 and 2 of tasks whose
    /// standard streams are `inherit`, as 3,4,5
    #[arg(long, value_name = "N,N,N")]
    pub inherit: Option<Streams>,
    /// Limit of open files for tasks; what the shell itself began with, if not given
    #[arg(long, value_name = "N")]
    pub nofile: Option<u64>,
    /// Standard input is a pipe from who launched this shell, which ends with it unless a leader
    /// may know of it by then
    #[arg(long)]
    pub launched: bool,
}

/// Runs a shell until it is told to end; the process's exit code.
pub fn run_shell(args: ShellArgs) -> i32 {
    // First of all, before anything is opened that could have their numbers.
    let streams = args.inherit.map(Streams::take);
    logging::start(None);
    let _span = tracing::info_span!("shell", epoch = args.epoch).entered();
    // A session of its own: what is typed at the terminal of the leader is not
    // meant for it. It fails only for one that has its own already.
    let _ = rustix::process::setsid();
    let streams = match streams.transpose() {
        Ok(streams) => streams,
        Err(error) => {
            tracing::error!(%error, "this shell does not begin");
            return 1;
        }
    };
    let lock = match take_lock(&args) {
        Ok(lock) => lock,
        Err(error) => {
            tracing::error!(%error, "this shell does not begin");
            return 1;
        }
    };
    let code = match Shell::begin(&args, streams) {
        Ok(shell) => shell.run(),
        Err(error) => {
            tracing::error!(%error, "the shell cannot begin");
            1
        }
    };
    drop(lock);
    code
}

fn take_lock(args: &ShellArgs) -> Result<ShellLock, LockError> {
    let until = Instant::now() + LOCK_PATIENCE;
    loop {
        match ShellLock::take(&args.statedir) {
            Err(LockError::Held { holder: None, .. }) if Instant::now() < until => {
                std::thread::sleep(LOCK_PAUSE);
            }
            answer => return answer,
        }
    }
}

/// The whole of it.
struct Shell {
    book: ShellBook,
    clock: Clock,
    watch: Watch,
    link: Link,
    tasks: Tasks,
    mocks: Mocks,
    reads: Reads,
    /// The pipe from who launched it, until that ends.
    launcher: Option<Token>,
    /// What tasks last that say nothing themselves; none starts processes.
    mock: Option<Mock>,
    inputs: VecDeque<ShellInput>,
    effects: Vec<ShellEffect>,
    course: Course,
    buffer: Vec<u8>,
}

/// Whether it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    Serving,
    Leaving,
}

impl Shell {
    fn begin(args: &ShellArgs, inherited: Option<[Arc<OwnedFd>; 3]>) -> io::Result<Shell> {
        reap::become_subreaper()?;
        let spool = args.statedir.join(SPOOL_DIRECTORY);
        let mut watch = Watch::new()?;
        let surroundings = Surroundings {
            instance: args.instance.clone(),
            outer: std::env::var(MARKER_VARIABLE).ok(),
            home: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            spool_bytes: args.spool_bytes,
            nofile: raise_open_files(args.nofile),
            umask: own_umask(),
            topology: OnceCell::new(),
            spool: spool.clone(),
            children: std::path::absolute(&args.statedir)?.join(CHILDREN_DIRECTORY),
            inherited,
        };
        let launcher = match args.launched {
            true => Some(watch.add(io::stdin(), Until::Readable, Watched::Launcher)?),
            false => None,
        };
        let mut tasks = Tasks::new(surroundings, &mut watch)?;
        tasks.set_rundir(&args.rundir);
        Ok(Shell {
            book: ShellBook::new(args.instance.clone(), Epoch(args.epoch), std::process::id()),
            clock: Clock::start(Time(0)),
            watch,
            link: Link::new(&args.statedir, &args.rundir),
            tasks,
            mocks: Mocks::default(),
            reads: Reads::new(&spool),
            launcher,
            mock: args.mock.map(|micros| Mock {
                duration: Span(micros),
                status: 0,
            }),
            inputs: VecDeque::new(),
            effects: Vec::new(),
            course: Course::Serving,
            buffer: vec![0; 64 << 10],
        })
    }

    fn run(mut self) -> i32 {
        tracing::info!(pid = std::process::id(), "the shell begins");
        loop {
            let now = Instant::now();
            self.turn(now);
            if self.course == Course::Leaving || self.is_forsaken(now) {
                break;
            }
            let limit = self
                .next()
                .map(|at| at.saturating_duration_since(Instant::now()));
            let events = match self.watch.wait(limit) {
                Ok(events) => events,
                Err(error) => {
                    tracing::error!(%error, "the shell cannot wait and ends");
                    return 1;
                }
            };
            for token in events {
                if let Some(watched) = self.watch.watched(token) {
                    self.event(watched);
                }
            }
        }
        tracing::info!("the shell ends");
        let is_over = |state: &PartState| matches!(state, PartState::Ended(_));
        match self.book.parts().iter().all(|(_, state)| is_over(state)) {
            true => 0,
            false => CODE_HOLDING,
        }
    }

    /// All that is due, to the end; then one write to the broker.
    fn turn(&mut self, now: Instant) {
        if self.link.try_connect(now, &mut self.watch) {
            self.tasks.set_rundir(self.link.rundir());
            self.inputs.push_back(ShellInput::Connected);
        }
        self.mocks.expire(now, &mut self.inputs);
        self.tasks.end_late(now);
        let t = self.clock.now();
        self.tasks.hunt(now, &mut self.watch, t, &mut self.inputs);
        self.tasks.stop_more(now, &mut self.inputs);
        self.settle();
        let grown = self.tasks.take_grown();
        if !self.reads.is_empty() {
            grown.into_iter().for_each(|part| self.reads.grew(part));
            let book = &self.book;
            self.reads
                .pump(&mut self.link, |part| match book.state(&part) {
                    None | Some(PartState::Ended(_)) => Written::Out,
                    Some(PartState::Starting | PartState::Running { .. }) => Written::On,
                });
        }
        let said = self.tasks.take_said().into_iter();
        said.for_each(|word| self.link.say(word));
        let outlook = match self.course {
            Course::Serving => self.tasks.outlook(),
            Course::Leaving => Outlook::Quiet,
        };
        if let Err(error) = self.link.flush(now, outlook, &self.watch) {
            self.lost(&error);
        }
    }

    /// Gives inputs to the book and does what it says until there are none.
    fn settle(&mut self) {
        loop {
            while let Some(input) = self.inputs.pop_front() {
                let ends = matches!(input, ShellInput::Swept(_));
                let now = self.clock.now();
                if let ShellInput::Swept(part) = input
                    && ends
                {
                    self.reads.grew(part);
                }
                if let ShellInput::Broker(ToShell::Welcome { .. }) = input {
                    self.tasks.forget_owed();
                }
                let mut effects = std::mem::take(&mut self.effects);
                self.book.handle(now, input, &mut effects);
                for effect in effects.drain(..) {
                    self.act(now, effect);
                }
                self.effects = effects;
            }
            self.tasks.pump(&mut self.inputs);
            if self.inputs.is_empty() {
                break;
            }
        }
    }

    fn act(&mut self, t: Time, effect: ShellEffect) {
        match effect {
            ShellEffect::Send(word) => self.link.say(word),
            ShellEffect::Spawn(spawn) => self.spawn(spawn),
            ShellEffect::GiveUp(part) => self.tasks.give_up(part, &mut self.inputs),
            ShellEffect::Signal(part, signal) => {
                self.tasks.signal(part, signal);
                self.mocks.signal(part, signal, &mut self.inputs);
            }
            ShellEffect::Pause(part, stop) => {
                let now = Instant::now();
                self.mocks.pause(now, (part, stop), &mut self.inputs);
                self.tasks.pause(now, part, stop);
            }
            ShellEffect::Proceed(part, cores) => {
                self.mocks.proceed(Instant::now(), part);
                self.tasks.proceed(part, &cores);
            }
            ShellEffect::EndLeader(part) => self.tasks.end_leader(part),
            ShellEffect::Sweep(part) if self.tasks.has(&part) => {
                self.tasks.sweep(part, &mut self.watch, t, &mut self.inputs);
            }
            ShellEffect::Sweep(part) if self.book.role(&part) == Some(Role::Ground) => {
                self.tasks.clear(part);
            }
            ShellEffect::Sweep(part) => self.inputs.push_back(ShellInput::Swept(part)),
            // Nothing is kept beside the book but the spool, which stays until
            // the job is purged.
            ShellEffect::Forget(_) => {}
            ShellEffect::Input(part, portion) => self.feed(part, portion),
            ShellEffect::Read(part, read, offset, follow) => {
                let from = (offset, follow);
                self.reads.begin(t, (part, read), from, &mut self.link);
            }
            ShellEffect::StopRead(read) => self.reads.stop(read),
            ShellEffect::Drop => {
                tracing::warn!("the leader is not the one to follow; its connection is closed");
                self.disconnect();
            }
            ShellEffect::Exit => self.course = Course::Leaving,
        }
    }

    fn feed(&mut self, part: Part, portion: Portion) {
        match self.book.state(&part) {
            Some(_) => self.tasks.input(part, portion, &mut self.watch),
            // Its start is yet to come, or to come again.
            None => self.link.say(FromShell::Took {
                part,
                portion: portion.number,
                next: 0,
                taken: Taken::Later,
            }),
        }
    }

    fn spawn(&mut self, spawn: Spawn) {
        let (part, task) = (spawn.start.part, spawn.task);
        let program = self.tasks.program(spawn.start.jobspec, &spawn.jobspec);
        let pretended = match (spawn.start.role, &program) {
            // Nodes may be made up; the instance on them is not, nor the program
            // that it was started for.
            (Role::Leader, _) => None,
            (_, Ok(program)) if program.inherits() => None,
            _ => self.mock,
        };
        match (program.map(|program| program.mock), pretended) {
            (Err(why), _) => {
                self.inputs
                    .push_back(ShellInput::Failed(part, task, 126 << 8, why));
            }
            (Ok(Some(mock)), _) | (Ok(None), Some(mock)) => {
                self.mocks
                    .start(Instant::now(), part, task, mock, &mut self.inputs);
            }
            (Ok(None), None) => self.tasks.want(spawn),
        }
    }

    fn event(&mut self, watched: Watched) {
        match watched {
            Watched::Link => self.hear(),
            Watched::Launcher => self.launcher_gone(),
            Watched::Pool => self.tasks.spawned(&mut self.watch, &mut self.inputs),
            Watched::Task(part, task) => {
                self.tasks
                    .ended(part, task, &mut self.watch, &mut self.inputs);
            }
            Watched::Output(part, task, output) => {
                let t = self.clock.now();
                self.tasks.wrote(part, task, output, &mut self.watch, t);
            }
            Watched::Input(part, task) => self.tasks.hungry(part, task, &mut self.watch),
        }
    }

    /// Before its first welcome perhaps nobody knows of it who could tell it to end: whoever launched it was to tell
    /// the leader, and in an end of the instance does not. One that has said hello may have been given a job, though,
    /// in a record of a leader that was killed before it could welcome it; the next one looks for it here.
    fn launcher_gone(&mut self) {
        if let Some(token) = self.launcher.take() {
            self.watch.remove(token, io::stdin());
        }
        match (self.book.known(), Parting::read()) {
            (Known::Surely, _) | (Known::Perhaps, Parting::Cut) => {}
            (Known::Perhaps, Parting::InOrder) | (Known::ToNobody, _) => {
                tracing::info!("who launched this shell is gone, and no leader knows of it");
                self.course = Course::Leaving;
            }
        }
    }

    fn hear(&mut self) {
        let mut words = Vec::new();
        let heard = self.link.hear(&mut self.buffer, &mut words);
        self.inputs
            .extend(words.into_iter().map(ShellInput::Broker));
        if let Err(error) = heard {
            // What it said before it went still counts.
            self.settle();
            self.lost(&error);
        }
    }

    fn lost(&mut self, error: &link::LinkError) {
        tracing::info!(%error, "no broker");
        self.disconnect();
    }

    fn disconnect(&mut self) {
        if self.link.is_up() {
            self.link.close(Instant::now(), &mut self.watch);
            self.reads.stop_all();
            self.inputs.push_back(ShellInput::Disconnected);
        }
    }

    /// When something is due although nothing happens.
    fn next(&self) -> Option<Instant> {
        let busy = (!self.inputs.is_empty()).then(Instant::now);
        let (retry, flush) = (self.link.retry_at(), self.link.flush_at());
        [
            busy,
            retry,
            flush,
            self.reads.next(&self.link, Instant::now()),
            self.mocks.next(),
            self.tasks.next_hunt(),
            self.tasks.next_stop(),
            self.tasks.start_due(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether it holds nothing that anybody could come back for.
    fn is_forsaken(&self, now: Instant) -> bool {
        self.link.down_for(now) > ALONE_MAX && self.book.parts().is_empty()
    }
}
