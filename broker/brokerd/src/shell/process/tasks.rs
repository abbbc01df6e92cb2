//! The tasks of this shell as processes: started, watched, signalled, and swept
//! away when their part has ended.
//!
//! Used by the shell's loop, which asks the book what is owed and calls this to
//! do it. What happened goes back as inputs of the book. It holds no leader, no
//! connection and no memory of parts that have ended.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use eddy_broker::shellbook::{ShellInput, Spawn};
use eddy_wire::hash::Hash;
use eddy_wire::shell::{FromShell, Part, Start};
use eddy_wire::time::Time;

use super::hunt::{Hunt, Present};
use super::input::{Backlog, Supply};
use super::intake::Intake;
use super::link::Outlook;
use super::pause::Pausing;
use super::program::{Environment, Kept, Program, Stdin, Why};
use super::reads::spool_id;
use super::watch::{Output, Token, Until, Watch, Watched};
use crate::rundir;
use crate::shell::affinity::Topology;
use crate::shell::frame::{Frame, Stream};
use crate::shell::leftover::Process;
use crate::shell::pool::{SpawnPool, Spawned};
use crate::shell::procfs::Marker;
use crate::shell::reap;
use crate::shell::rights::Stream as Source;
use crate::shell::spawn::{Child, Rlimit};
use crate::shell::spool;
use crate::shell::stdio::{self, Read, SLICE_BYTES};

mod feed;
mod pace;
mod prepare;
mod waiting;

use waiting::Waiting;

/// Threads that spawn: what two cores can make use of.
const SPAWNERS: usize = 2;
/// Starts of one user handed to the spawners ahead of what they work on. Each holds pipes,
/// so the rest waits without any.
const AHEAD: usize = 8;
/// And of all.
const AHEAD_ALL: usize = 256;
/// Slices read from one pipe when its part has ended: more than a pipe holds.
const LAST_SLICES: usize = 64;

/// What all tasks of this shell have in common.
#[derive(Debug)]
pub struct Surroundings {
    /// The instance, for markers.
    pub instance: String,
    /// The marker of the job that this instance itself is.
    pub outer: Option<String>,
    /// Working directory of jobs that name none.
    pub home: PathBuf,
    /// Where spools are.
    pub spool: PathBuf,
    /// Where the state directories of instances are that are tasks here.
    pub children: PathBuf,
    /// What tasks get as 0, 1 and 2 whose standard streams are `inherit`.
    pub inherited: Option<[Arc<OwnedFd>; 3]>,
    /// The most kept of one part.
    pub spool_bytes: u64,
    /// The limit of open files for tasks, where the shell raised its own.
    pub nofile: Option<Rlimit>,
    /// This process's own umask, which tasks have where nothing else is said.
    pub umask: u32,
    /// The cores of this node, read when the first task is to be bound: a file
    /// or two for each processor. None where they are not known.
    pub topology: OnceCell<Option<Topology>>,
}

/// All tasks.
#[derive(Debug)]
pub struct Tasks {
    surroundings: Surroundings,
    pool: SpawnPool<(Part, u32)>,
    waiting: Waiting,
    live: HashMap<Part, Live>,
    pids: HashSet<i32>,
    hunt: Hunt,
    pausing: Pausing,
    programs: Kept<Program>,
    environments: Kept<Environment>,
    null: Arc<OwnedFd>,
    buffer: Vec<u8>,
    /// Parts that wrote since this was last asked.
    grown: HashSet<Part>,
    /// What became of input that was sent.
    said: Vec<FromShell>,
    unbound: Warned,
    uri: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Warned {
    NotYet,
    Once,
}

/// A part with tasks.
#[derive(Debug)]
struct Live {
    start: Arc<Start>,
    marker: Marker,
    spool: spool::Writer,
    spool_failed: Warned,
    /// What it runs, once a task of it was prepared.
    program: Option<Arc<Program>>,
    /// Files that users named, shared by tasks.
    files: HashMap<String, Source>,
    /// Of the instance that this part leads.
    statedir: Option<PathBuf>,
    supply: Supply,
    intake: Intake,
    tasks: Vec<Task>,
}

#[derive(Debug)]
struct Task {
    /// Set while it runs.
    child: Option<(Child, Token)>,
    /// Which process it is or was, kept for the session it leaves behind.
    process: Option<Process>,
    out: Option<Pipe>,
    err: Option<Pipe>,
    /// None where its standard input is not what clients send.
    input: Option<Backlog>,
    /// The task's own ends of its streams: kept for a leader, which has them
    /// again when it is started again.
    kept: Option<[Source; 3]>,
}

#[derive(Debug)]
struct Pipe {
    fd: OwnedFd,
    token: Option<Token>,
}

/// Inputs for the book, in order.
pub type Inputs = VecDeque<ShellInput>;

impl Tasks {
    /// No tasks yet. To be called by the first thread, before any other is made.
    pub fn new(surroundings: Surroundings, watch: &mut Watch) -> io::Result<Tasks> {
        let pool = SpawnPool::start(SPAWNERS, AHEAD_ALL)?;
        watch.add(pool.wake_fd(), Until::Readable, Watched::Pool)?;
        Ok(Tasks {
            surroundings,
            pool,
            waiting: Waiting::default(),
            live: HashMap::new(),
            pids: HashSet::new(),
            hunt: Hunt::open(),
            pausing: Pausing::default(),
            programs: Kept::default(),
            environments: Kept::default(),
            null: stdio::null()?,
            buffer: vec![0; SLICE_BYTES],
            grown: HashSet::new(),
            said: Vec::new(),
            unbound: Warned::NotYet,
            uri: String::new(),
        })
    }

    /// The parsed jobspec of a start.
    pub fn program(&mut self, hash: Hash, text: &str) -> Result<Arc<Program>, Why> {
        let home = &self.surroundings.home;
        self.programs.get(hash, || Program::parse(text, home))
    }

    /// Takes a task to be started, or a leader's to be started again.
    pub fn want(&mut self, spawn: Spawn) {
        let part = spawn.start.part;
        let marker = self.marker(part);
        let program = self.program(spawn.start.jobspec, &spawn.jobspec);
        let is_fed = program.is_ok_and(|program| program.stdin == Stdin::Service);
        let here = &self.surroundings;
        let live = self.live.entry(part).or_insert_with(|| Live {
            start: Arc::clone(&spawn.start),
            marker,
            spool: spool::Writer::new(&here.spool, spool_id(part), here.spool_bytes),
            spool_failed: Warned::NotYet,
            program: None,
            files: HashMap::new(),
            statedir: None,
            supply: Supply::default(),
            intake: Intake::default(),
            tasks: Vec::new(),
        });
        if live.tasks.len() <= live.at(spawn.task) {
            live.tasks.push(Task {
                child: None,
                process: None,
                out: None,
                err: None,
                input: is_fed.then(|| live.supply.backlog()),
                kept: None,
            });
        }
        self.waiting.push(spawn);
    }

    fn marker(&self, part: Part) -> Marker {
        Marker {
            instance: self.surroundings.instance.clone(),
            job: part.job.0,
            attempt: part.attempt.0,
            rank: part.rank.0,
        }
    }

    /// Hands waiting starts to the spawners.
    pub fn pump(&mut self, inputs: &mut Inputs) {
        while let Some(spawn) = self.waiting.pop(AHEAD, AHEAD_ALL) {
            let (part, task) = (spawn.start.part, spawn.task);
            match self.prepare(&spawn) {
                Ok(command) => match self.pool.submit((part, task), command) {
                    Ok(()) => {}
                    Err(full) => unreachable!("the pool takes {AHEAD_ALL}: {full}"),
                },
                Err(why) => {
                    self.waiting.answered(spawn.start.user);
                    self.close_pipes(part, task);
                    inputs.push_back(ShellInput::Failed(part, task, 126 << 8, why));
                }
            }
        }
    }

    /// Starts no more tasks of a part than the spawners are at.
    pub fn give_up(&mut self, part: Part, inputs: &mut Inputs) {
        let Some(live) = self.live.get(&part) else {
            return;
        };
        let user = live.start.user;
        let mut given_up = self.waiting.give_up(part, user);
        for (_, task) in self.pool.withdraw(|(of, _)| *of == part) {
            self.waiting.answered(user);
            self.close_pipes(part, task);
            given_up.push(task);
        }
        let given_up = given_up.into_iter();
        inputs.extend(given_up.map(|task| ShellInput::GivenUp(part, task)));
    }

    /// When a start is to be ended that is held up.
    pub fn start_due(&self) -> Option<Instant> {
        self.pool.due()
    }

    /// Ends starts that users hold up; they are answered as any that failed.
    pub fn end_late(&mut self, now: Instant) {
        self.pool.end_late(now);
    }

    /// Whether answers of spawners are soon to come.
    pub fn outlook(&self) -> Outlook {
        if self.waiting.handed() > 0 {
            Outlook::More
        } else {
            Outlook::Quiet
        }
    }

    /// Takes what the spawners answered.
    pub fn spawned(&mut self, watch: &mut Watch, inputs: &mut Inputs) {
        for Spawned {
            tag: (part, task),
            result,
        } in self.pool.take()
        {
            if let Some(live) = self.live.get(&part) {
                self.waiting.answered(live.start.user);
            }
            let child = result.map_err(|error| (error.exit_code() << 8, error.to_string()));
            match child.and_then(|child| self.adopt(part, task, child, watch)) {
                Ok(()) => inputs.push_back(ShellInput::Spawned(part, task)),
                Err((status, why)) => {
                    self.close_pipes(part, task);
                    inputs.push_back(ShellInput::Failed(part, task, status, why));
                }
            }
        }
    }

    fn adopt(
        &mut self,
        part: Part,
        task: u32,
        child: Child,
        watch: &mut Watch,
    ) -> Result<(), (i32, Why)> {
        let token = match watch.add(&child.pidfd, Until::Readable, Watched::Task(part, task)) {
            Ok(token) => token,
            Err(error) => {
                // Its end would never be seen: better it has one now.
                let _ = reap::signal_group(child.pidfd.as_fd(), child.pid, libc::SIGKILL);
                let _ = reap::wait(child.pidfd.as_fd());
                return Err((126 << 8, format!("cannot watch the task: {error}")));
            }
        };
        self.pids.insert(child.pid);
        let own = self
            .task(part, task)
            .expect("a part has its tasks until it is swept");
        own.process = Some(Process {
            pid: child.pid,
            start_time: child.start_time,
        });
        own.child = Some((child, token));
        if let Some(input) = &mut own.input {
            input.pump(part, task, watch);
        }
        for (pipe, output) in [(&mut own.out, Output::Out), (&mut own.err, Output::Err)] {
            if let Some(pipe) = pipe
                && pipe.token.is_none()
            {
                // Without a watch it is read when the part ends.
                let name = Watched::Output(part, task, output);
                pipe.token = watch.add(&pipe.fd, Until::Readable, name).ok();
            }
        }
        Ok(())
    }

    fn task(&mut self, part: Part, task: u32) -> Option<&mut Task> {
        let live = self.live.get_mut(&part)?;
        let at = task.checked_sub(live.start.first_task)?;
        live.tasks.get_mut(at as usize)
    }

    fn close_pipes(&mut self, part: Part, task: u32) {
        if let Some(own) = self.task(part, task)
            && own.kept.is_none()
        {
            (own.out, own.err) = (None, None);
        }
    }

    /// A task has ended, or seems to have.
    pub fn ended(&mut self, part: Part, task: u32, watch: &mut Watch, inputs: &mut Inputs) {
        let Some(own) = self.task(part, task) else {
            return;
        };
        let Some((child, token)) = &own.child else {
            return;
        };
        let status = match reap::try_wait(child.pidfd.as_fd()) {
            Ok(Some(exit)) => exit.status,
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%part, task, %error, "the task's end cannot be read; taken as killed");
                libc::SIGKILL
            }
        };
        watch.remove(*token, &child.pidfd);
        if own.kept.is_none()
            && let Some(input) = &mut own.input
        {
            input.close(watch);
        }
        if let Some((child, _)) = own.child.take() {
            self.pids.remove(&child.pid);
        }
        self.release(part);
        inputs.push_back(ShellInput::Exited(part, task, status));
    }

    /// A task wrote, or closed an output.
    pub fn wrote(&mut self, part: Part, task: u32, output: Output, watch: &mut Watch, t: Time) {
        let Some(live) = self.live.get_mut(&part) else {
            return;
        };
        let Some(at) = task.checked_sub(live.start.first_task) else {
            return;
        };
        if live.read(at as usize, output, 1, &mut self.buffer, watch, t) {
            self.grown.insert(part);
        }
    }

    /// A signal to the process group of each task of a part that runs.
    pub fn signal(&mut self, part: Part, signal: i32) {
        let Some(live) = self.live.get(&part) else {
            return;
        };
        for (child, _) in live.tasks.iter().filter_map(|task| task.child.as_ref()) {
            if let Err(error) = reap::signal_group(child.pidfd.as_fd(), child.pid, signal) {
                tracing::warn!(%part, signal, %error, "the signal cannot be sent");
            }
        }
    }

    /// Ends the process of a leader, which hangs. What it started lives on.
    pub fn end_leader(&mut self, part: Part) {
        let Some(live) = self.live.get(&part) else {
            return;
        };
        for (child, _) in live.tasks.iter().filter_map(|task| task.child.as_ref()) {
            tracing::warn!(%part, pid = child.pid, "the leader hangs; it is ended and started again");
            if let Err(error) = reap::signal(child.pidfd.as_fd(), libc::SIGKILL) {
                tracing::warn!(%part, %error, "the leader cannot be ended");
            }
        }
    }

    /// Whether the part has processes here.
    pub fn has(&self, part: &Part) -> bool {
        self.live.contains_key(part)
    }

    /// All tasks of the part have ended: ends what they left, writes out what
    /// they wrote, and says so, now or later.
    pub fn sweep(&mut self, part: Part, watch: &mut Watch, t: Time, inputs: &mut Inputs) {
        if !self.hunt.has_strays(&self.pids) {
            return self.finish(part, watch, t, inputs);
        }
        let live = &self.live[&part];
        let tasks: BTreeSet<Process> = live.tasks.iter().filter_map(|task| task.process).collect();
        let present = Present {
            pids: &self.pids,
            parts: self
                .live
                .iter()
                .map(|(part, live)| (*part, (live.marker.clone(), live.start.user)))
                .collect(),
        };
        if self
            .hunt
            .begin(Instant::now(), part, &live.marker, tasks, &present)
        {
            self.finish(part, watch, t, inputs);
        }
    }

    /// Ground was killed: ends everything within it, and says so later.
    pub fn clear(&mut self, part: Part) {
        let marker = self.marker(part);
        self.hunt.clear(Instant::now(), part, marker);
    }

    /// Looks again for what parts left behind.
    pub fn hunt(&mut self, now: Instant, watch: &mut Watch, t: Time, inputs: &mut Inputs) {
        for part in self.hunt.due(now, &self.pids) {
            self.finish(part, watch, t, inputs);
        }
    }

    /// When to do that.
    pub fn next_hunt(&self) -> Option<Instant> {
        self.hunt.next()
    }

    fn finish(&mut self, part: Part, watch: &mut Watch, t: Time, inputs: &mut Inputs) {
        self.pausing.forget(part);
        if let Some(mut live) = self.live.remove(&part) {
            for at in 0..live.tasks.len() {
                let own = &mut live.tasks[at];
                // An output has no end as long as its other end is kept.
                own.kept = None;
                if let Some(input) = &mut own.input {
                    input.close(watch);
                }
                for output in [Output::Out, Output::Err] {
                    live.read(at, output, LAST_SLICES, &mut self.buffer, watch, t);
                    live.close(at, output, watch);
                }
            }
            self.said.extend(live.owed(part));
            self.grown.insert(part);
            // Whoever was killed in it left its sockets.
            if let Some(statedir) = live.statedir {
                rundir::remove_of(&statedir);
            }
        } else {
            // Ground: a rank of an instance was hosted here, and what that rank held.
            let name = format!("{}.{}", part.job, part.attempt);
            rundir::remove_of(&self.surroundings.children.join(name));
        }
        inputs.push_back(ShellInput::Swept(part));
    }

    /// Parts that wrote since this was last asked.
    pub fn take_grown(&mut self) -> HashSet<Part> {
        std::mem::take(&mut self.grown)
    }
}

impl Task {
    fn pipe(&mut self, output: Output) -> &mut Option<Pipe> {
        match output {
            Output::Out => &mut self.out,
            Output::Err => &mut self.err,
        }
    }
}

impl Live {
    /// The place of a task among those here.
    fn at(&self, task: u32) -> usize {
        task.saturating_sub(self.start.first_task) as usize
    }

    /// Reads at most so many slices of one output into the spool; whether
    /// anything was written there.
    fn read(
        &mut self,
        at: usize,
        output: Output,
        slices: usize,
        buffer: &mut [u8],
        watch: &mut Watch,
        t: Time,
    ) -> bool {
        let mut wrote = false;
        for _ in 0..slices {
            let Some(task) = self.tasks.get_mut(at) else {
                break;
            };
            let Some(pipe) = task.pipe(output) else { break };
            match stdio::read_slice(&pipe.fd, buffer) {
                Ok(Read::Bytes(bytes)) => {
                    self.write(at, stream(output), &buffer[..bytes], t);
                    wrote = true;
                }
                Ok(Read::Later) => break,
                Ok(Read::End) | Err(_) => {
                    if let Some(token) = pipe.token {
                        watch.remove(token, &pipe.fd);
                    }
                    *task.pipe(output) = None;
                    self.write(at, end(output), &[], t);
                    wrote = true;
                }
            }
        }
        wrote
    }

    /// Closes an output that may not have come to its end.
    fn close(&mut self, at: usize, output: Output, watch: &mut Watch) {
        if let Some(Pipe {
            token: Some(token),
            fd,
        }) = self.tasks[at].pipe(output).take()
        {
            watch.remove(token, &fd);
        }
    }

    fn write(&mut self, at: usize, stream: Stream, bytes: &[u8], t: Time) {
        let task = self.start.first_task + at as u32;
        let written = self.spool.write(&Frame {
            task,
            stream,
            time: t.0,
            bytes,
        });
        if let Err(error) = written
            && std::mem::replace(&mut self.spool_failed, Warned::Once) == Warned::NotYet
        {
            // The task goes on: its work is worth more than what it says.
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::error!(part = %self.start.part, %error, cause, "output is lost");
        }
    }
}

fn stream(output: Output) -> Stream {
    match output {
        Output::Out => Stream::Stdout,
        Output::Err => Stream::Stderr,
    }
}

fn end(output: Output) -> Stream {
    match output {
        Output::Out => Stream::StdoutEnd,
        Output::Err => Stream::StderrEnd,
    }
}
