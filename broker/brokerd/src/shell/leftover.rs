//! Ends what a job leaves behind: children of tasks that outlived them, and
//! daemons that made sessions of their own.
//!
//! Called by the shell's loop when an attempt has ended (or must), and by sweep
//! after an older shell died. It never touches a process that does not belong
//! to what it was given, its own process, or one of its ancestors, and signals
//! by pidfd only, after looking again.
//!
//! What belongs is found by three signs, and then by descent: a task's session;
//! the marker in the environment; for a process that has shed both, that no
//! other attempt can have started it ([`Unclaimed`]).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use eddy_wire::idset::Idset;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::procfs::{self, ExecWait, Marker, Stat};
use super::reap::{self, Delivery};

/// How many processes are signalled before their ends are waited for: each
/// takes a descriptor.
const VOLLEY: usize = 256;

/// How many rounds in a row must find nothing before nothing is there.
const QUIET_ROUNDS: u32 = 2;

/// Which processes are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quarry {
    /// All of one attempt, below this process: those with its marker or in the
    /// session of one of its tasks, and what descends from them.
    Attempt {
        /// As in the tasks' environment.
        marker: Marker,
        /// Its tasks, ended or not.
        tasks: BTreeSet<Process>,
    },
    /// All that the shells of these ranks of one instance ever started and that
    /// still lives, wherever on the node it hangs.
    Ranks {
        /// Instance of the marker.
        instance: String,
        /// Rank of the marker.
        ranks: Idset,
        /// Only processes of this user, if given: on a node where several users
        /// have shells of the same rank, each may take its own only.
        user: Option<u32>,
    },
    /// These processes and what descends from them.
    Trees(BTreeSet<Process>),
}

/// A process, named so that no later one can be mistaken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Clock ticks from boot to its start.
    pub start_time: u64,
}

impl From<&Stat> for Process {
    fn from(stat: &Stat) -> Process {
        Process {
            pid: stat.pid,
            start_time: stat.start_time,
        }
    }
}

/// How long to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How often to look for more before giving up. A process that is forked
    /// while others are being ended is found in the next round.
    pub rounds: u32,
    /// How long to wait in each round for the ends of those signalled.
    pub wait: Duration,
}

impl Patience {
    /// For a shell that starts and has nothing else to do yet.
    pub const THOROUGH: Patience = Patience {
        rounds: 64,
        wait: Duration::from_millis(500),
    };
    /// For the loop of a running shell: does not wait, so that what was killed may
    /// still be told as left; look again later.
    pub const BRIEF: Patience = Patience {
        rounds: 1,
        wait: Duration::ZERO,
    };
}

/// What became of a quarry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Processes that were killed.
    pub ended: BTreeSet<Process>,
    /// Those that were there when patience was out: to be tried again.
    pub left: BTreeSet<Process>,
    /// Those that may not be signalled (another user's), with the error number.
    pub refused: BTreeMap<Process, i32>,
}

/// What was found within some markers and killed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Within {
    /// Those of the markers within which something was found: to be looked at again.
    pub busy: BTreeSet<Marker>,
    /// Processes that may not be signalled (another user's), with the error number.
    pub refused: BTreeMap<Process, i32>,
}

/// Kills once, without waiting, what is within any of these markers: what has
/// one anywhere in its chain, wherever on the node it hangs, and what descends
/// from that. One reading of the node serves all of them.
pub fn end_within(markers: &BTreeSet<Marker>) -> io::Result<Within> {
    let table = Table::of_others()?;
    let mut found = within(&table, markers);
    let mut targets = targets(&table, &found);
    // As in `end`: nothing is there only when two readings say so.
    let quiet: BTreeSet<Marker> = markers
        .iter()
        .filter(|marker| !found.contains_key(marker))
        .cloned()
        .collect();
    if !quiet.is_empty() {
        let table = Table::of_others()?;
        let more = within(&table, &quiet);
        targets.extend(self::targets(&table, &more));
        found.extend(more);
    }
    let mut outcome = Outcome::default();
    for volley in targets.chunks(VOLLEY) {
        kill(volley, Duration::ZERO, &mut outcome)?;
    }
    let refused = outcome.refused;
    found.retain(|_, processes| processes.iter().any(|one| !refused.contains_key(one)));
    Ok(Within {
        busy: found.into_keys().collect(),
        refused,
    })
}

/// What is within each of these markers, where there is anything.
fn within(table: &Table, markers: &BTreeSet<Marker>) -> BTreeMap<Marker, BTreeSet<Process>> {
    let mut roots: BTreeMap<Marker, Vec<i32>> = BTreeMap::new();
    let mut wait = ExecWait::default();
    for pid in table.select(|_| true) {
        for marker in procfs::markers(pid, &mut wait) {
            if markers.contains(&marker) {
                roots.entry(marker).or_default().push(pid);
            }
        }
    }
    roots
        .into_iter()
        .map(|(marker, roots)| (marker, table.with_descendants(roots)))
        .collect()
}

/// All of them once, in the order of [`find_in_order`].
fn targets(table: &Table, found: &BTreeMap<Marker, BTreeSet<Process>>) -> Vec<Process> {
    let all: BTreeSet<Process> = found.values().flatten().copied().collect();
    let mut targets: Vec<Process> = all.into_iter().collect();
    table.order(&mut targets);
    targets
}

/// Finds what is meant, without those that have ended and wait to be reaped.
pub fn find(quarry: &Quarry) -> io::Result<BTreeSet<Process>> {
    Ok(find_in_order(quarry)?.into_iter().collect())
}

/// The same, who started something before what it started: a shell that is still there when a task
/// of its is killed would take that for the task's own end, and say so.
fn find_in_order(quarry: &Quarry) -> io::Result<Vec<Process>> {
    let own = std::process::id() as i32;
    let mut table = Table::of_others()?;
    let mut wait = ExecWait::default();
    let roots = match quarry {
        Quarry::Attempt { marker, tasks } => {
            table.keep_descendants(own);
            let sessions = table.sessions_of(tasks);
            table.select(|stat| {
                sessions.contains(&stat.session)
                    || procfs::markers(stat.pid, &mut wait).contains(marker)
            })
        }
        Quarry::Ranks {
            instance,
            ranks,
            user,
        } => table.select(|stat| {
            let ours =
                |marker: &Marker| marker.instance == *instance && ranks.contains(marker.rank);
            procfs::markers(stat.pid, &mut wait).iter().any(ours)
                && user.is_none_or(|user| procfs::user(stat.pid) == Some(user))
        }),
        Quarry::Trees(trees) => table.select(|stat| trees.contains(&Process::from(stat))),
    };
    let mut found: Vec<Process> = table.with_descendants(roots).into_iter().collect();
    table.order(&mut found);
    Ok(found)
}

/// Kills what is meant, round after round until nothing is left or patience is
/// out. Reaps nobody: statuses of tasks stay for the loop, orphans for
/// [`reap::Orphans::reap`].
pub fn end(quarry: &Quarry, patience: Patience) -> io::Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut quiet = 0;
    for _ in 0..patience.rounds {
        let found = find_in_order(quarry)?;
        let targets: Vec<Process> = found
            .into_iter()
            .filter(|process| !outcome.refused.contains_key(process))
            .collect();
        if targets.is_empty() {
            // The table is not read in one instant: a process that forks and
            // ends meanwhile can slip through one reading.
            quiet += 1;
            if quiet == QUIET_ROUNDS {
                return Ok(outcome);
            }
            continue;
        }
        quiet = 0;
        for volley in targets.chunks(VOLLEY) {
            kill(volley, patience.wait, &mut outcome)?;
        }
    }
    outcome.left = find(quarry)?;
    outcome
        .left
        .retain(|process| !outcome.refused.contains_key(process));
    Ok(outcome)
}

/// Sends a signal once to everything that is meant, such as TERM, and returns
/// to how many.
pub fn signal(quarry: &Quarry, number: i32) -> io::Result<usize> {
    let mut sent = 0;
    for process in find(quarry)? {
        let Some(pidfd) = reap::open_exact(process.pid, process.start_time)? else {
            continue;
        };
        // One that may not be signalled is reported when it must end.
        sent += usize::from(reap::signal(pidfd.as_fd(), number).is_ok_and(|d| d == Delivery::Sent));
    }
    Ok(sent)
}

fn kill(targets: &[Process], wait: Duration, outcome: &mut Outcome) -> io::Result<()> {
    let mut dying = Vec::new();
    for target in targets {
        let Some(pidfd) = reap::open_exact(target.pid, target.start_time)? else {
            continue;
        };
        match reap::signal(pidfd.as_fd(), libc::SIGKILL) {
            Ok(Delivery::Sent) => {
                outcome.ended.insert(*target);
                dying.push(pidfd);
            }
            Ok(Delivery::Gone) => {}
            Err(error) => {
                outcome
                    .refused
                    .insert(*target, error.raw_os_error().unwrap_or(0));
            }
        }
    }
    wait_for_ends(dying, wait)
}

/// Waits until all have ended or time is up.
fn wait_for_ends(mut dying: Vec<OwnedFd>, wait: Duration) -> io::Result<()> {
    let until = Instant::now() + wait;
    while !dying.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let left = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut polled: Vec<PollFd<'_>> = dying
            .iter()
            .map(|pidfd| PollFd::new(pidfd, PollFlags::IN))
            .collect();
        match poll(&mut polled, Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut alive = polled
            .iter()
            .map(|fd| fd.revents().is_empty())
            .collect::<Vec<_>>()
            .into_iter();
        dying.retain(|_| alive.next().unwrap_or(false));
    }
    Ok(())
}

/// The processes of the node at one moment, those that count.
struct Table {
    processes: BTreeMap<i32, Stat>,
    children: BTreeMap<i32, Vec<i32>>,
    spared: BTreeSet<i32>,
}

impl Table {
    /// As it is now, without this process and those that it hangs from.
    fn of_others() -> io::Result<Table> {
        let mut table = Table::new(procfs::all()?);
        table.spare_with_ancestors(std::process::id() as i32);
        Ok(table)
    }

    fn new(all: Vec<Stat>) -> Table {
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for process in &all {
            children.entry(process.ppid).or_default().push(process.pid);
        }
        let processes = all
            .into_iter()
            .map(|process| (process.pid, process))
            .collect();
        Table {
            processes,
            children,
            spared: BTreeSet::new(),
        }
    }

    /// Puts each behind all that it hangs from. Numbers do not say that: they begin anew at the largest.
    fn order(&self, processes: &mut [Process]) {
        processes.sort_by_cached_key(|process| (self.depth(process.pid), *process));
    }

    /// How many processes it hangs from.
    fn depth(&self, pid: i32) -> usize {
        let parent = |pid: &i32| self.processes.get(pid).map(|process| process.ppid);
        // No further than all there are: see `spare_with_ancestors`.
        std::iter::successors(parent(&pid), parent)
            .take(self.processes.len())
            .count()
    }

    /// Nothing may end this process, or one that it hangs from.
    fn spare_with_ancestors(&mut self, pid: i32) {
        let mut next = Some(pid);
        while let Some(pid) = next {
            // A set, since a table read while processes move can hold a circle.
            if !self.spared.insert(pid) {
                break;
            }
            next = self.processes.get(&pid).map(|process| process.ppid);
        }
    }

    /// Forgets everything that does not hang from this process.
    fn keep_descendants(&mut self, pid: i32) {
        let below = self.descendants([pid]);
        self.processes.retain(|pid, _| below.contains(pid));
    }

    /// The sessions of these tasks. The kernel gives a number to nobody else as
    /// long as a process of its session lives; so if somebody else has it, that
    /// task left nothing in its session.
    fn sessions_of(&self, tasks: &BTreeSet<Process>) -> BTreeSet<i32> {
        let is_another = |task: &&Process| {
            self.processes
                .get(&task.pid)
                .is_some_and(|stat| stat.start_time != task.start_time)
        };
        tasks
            .iter()
            .filter(|task| !is_another(task))
            .map(|task| task.pid)
            .collect()
    }

    fn select(&self, mut is_meant: impl FnMut(&Stat) -> bool) -> Vec<i32> {
        let candidates = self.processes.values();
        let candidates = candidates.filter(|p| !self.spared.contains(&p.pid) && !p.is_ended());
        candidates.filter(|p| is_meant(p)).map(|p| p.pid).collect()
    }

    /// These and all that hangs from them, as far as it lives and is not spared.
    fn with_descendants(&self, roots: Vec<i32>) -> BTreeSet<Process> {
        let meant = self.descendants(roots);
        let meant = meant.iter().filter(|pid| !self.spared.contains(pid));
        let meant = meant.filter_map(|pid| self.processes.get(pid));
        meant
            .filter(|process| !process.is_ended())
            .map(Process::from)
            .collect()
    }

    fn descendants(&self, roots: impl IntoIterator<Item = i32>) -> BTreeSet<i32> {
        let mut found = BTreeSet::new();
        let mut next: Vec<i32> = roots.into_iter().collect();
        while let Some(pid) = next.pop() {
            if found.insert(pid) {
                next.extend(self.children.get(&pid).into_iter().flatten());
            }
        }
        found
    }
}

/// Orphans that show neither session nor marker of any attempt, and which
/// attempts may have started each: those that lived when it was first seen. Once
/// all of these have ended it is nobody's and must end too.
///
/// Pure. `K` names an attempt.
#[derive(Clone, Debug)]
pub struct Unclaimed<K> {
    suspects: BTreeMap<Process, BTreeSet<K>>,
}

impl<K> Default for Unclaimed<K> {
    fn default() -> Unclaimed<K> {
        Unclaimed {
            suspects: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Unclaimed<K> {
    /// Takes note of an orphan; `live` are the attempts that have tasks, the
    /// one just ending included. Later sightings change nothing.
    pub fn observe(&mut self, process: Process, live: impl IntoIterator<Item = K>) {
        self.suspects
            .entry(process)
            .or_insert_with(|| live.into_iter().collect());
    }

    /// An attempt has ended: returns the orphans that only it, or attempts that
    /// ended before, can have started, and forgets them.
    pub fn ended(&mut self, attempt: &K) -> BTreeSet<Process> {
        for suspects in self.suspects.values_mut() {
            suspects.remove(attempt);
        }
        let (free, kept) = std::mem::take(&mut self.suspects)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(_, suspects)| suspects.is_empty());
        self.suspects = kept;
        free.into_keys().collect()
    }

    /// Forgets orphans that have ended; `alive` are those there are.
    pub fn retain(&mut self, alive: &BTreeSet<Process>) {
        self.suspects.retain(|process, _| alive.contains(process));
    }
}

/// Those of the orphans of this process that show no sign of an attempt: they
/// have no marker of one that is held here of their own user, and are in none of these sessions
/// (numbers of the tasks that live, and of those that just ended). Of another
/// attempt a marker says nothing, nor of another user's: a process sets its own environment.
/// `held` has the user of each marker.
pub fn without_sign(
    orphans: &[i32],
    held: &BTreeMap<Marker, u32>,
    sessions: &BTreeSet<i32>,
) -> BTreeSet<Process> {
    let mut wait = ExecWait::default();
    let mut is_of = |pid: i32| {
        let markers = procfs::markers(pid, &mut wait);
        let mut users = markers.iter().filter_map(|marker| held.get(marker));
        users.any(|user| procfs::user(pid) == Some(*user))
    };
    let stats = orphans.iter().filter_map(|pid| procfs::stat(*pid));
    let silent = stats
        .filter(|stat| !stat.is_ended() && !sessions.contains(&stat.session) && !is_of(stat.pid));
    silent.map(|stat| Process::from(&stat)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32) -> Process {
        Process { pid, start_time: 1 }
    }

    #[test]
    fn an_unclaimed_orphan_ends_with_the_last_attempt_that_may_have_made_it() {
        let mut unclaimed = Unclaimed::default();
        unclaimed.observe(process(7), ["a", "b"]);
        unclaimed.observe(process(7), ["c"]);
        unclaimed.observe(process(8), ["b"]);
        assert_eq!(unclaimed.ended(&"b"), BTreeSet::from([process(8)]));
        assert_eq!(unclaimed.ended(&"c"), BTreeSet::new());
        assert_eq!(unclaimed.ended(&"a"), BTreeSet::from([process(7)]));
        assert_eq!(unclaimed.ended(&"a"), BTreeSet::new());
    }

    #[test]
    fn a_shell_is_killed_before_its_tasks_whatever_their_numbers() {
        let stat = |(pid, ppid)| Stat {
            pid,
            ppid,
            session: pid,
            state: b'S',
            start_time: 1,
        };
        // An agent, a shell of it, tasks with numbers from the beginning again.
        let table = Table::new([(900, 1), (950, 900), (20, 950), (21, 20)].map(stat).into());
        let mut order: Vec<Process> = table.with_descendants(vec![20, 900]).into_iter().collect();
        table.order(&mut order);
        assert_eq!(order, [900, 950, 20, 21].map(process));
    }

    #[test]
    fn own_process_and_its_ancestors_are_spared() {
        let own = procfs::stat(std::process::id() as i32).unwrap();
        let parent = procfs::stat(own.ppid).unwrap();
        let quarry = Quarry::Trees([&own, &parent].map(Process::from).into());
        assert!(!find(&quarry).unwrap().contains(&Process::from(&own)));
        assert!(!find(&quarry).unwrap().contains(&Process::from(&parent)));
    }
}
