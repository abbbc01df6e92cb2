//! After the last task of a part: ends what it left behind, so that "ended"
//! means that nothing of it runs. Ground that is killed is cleared: everything
//! within it ends, wherever on the node it hangs.
//!
//! Used by the shell's loop. In nearly all cases tasks left nothing, which one
//! small read tells. What cannot be ended at once is tried again, for ever: a
//! grant whose processes live on is not free.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::time::{Duration, Instant};

use eddy_wire::shell::Part;

use crate::shell::leftover::{self, Patience, Process, Quarry, Unclaimed};
use crate::shell::procfs::Marker;
use crate::shell::reap::Orphans;

/// The first pause before what was killed is looked for again.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How often orphans that ended are taken away while there are some.
const REAP_EVERY: Duration = Duration::from_secs(1);

/// What parts left behind.
#[derive(Debug)]
pub struct Hunt {
    orphans: Orphans,
    unclaimed: Unclaimed<Part>,
    pending: BTreeMap<Part, Chase>,
    reap_at: Option<Instant>,
}

/// What of one part is still to be ended.
#[derive(Debug)]
struct Chase {
    marker: Marker,
    reach: Reach,
    next: Instant,
    pause: Duration,
}

/// Where to look for it.
#[derive(Debug)]
enum Reach {
    /// Below this process: what its tasks left, and trees that are nobody else's.
    Below {
        tasks: BTreeSet<Process>,
        trees: BTreeSet<Process>,
    },
    /// On the whole node, by the marker: an agent started it.
    Node,
}

/// The tasks there are, told by the loop.
pub struct Present<'a> {
    /// Numbers of all tasks not reaped.
    pub pids: &'a HashSet<i32>,
    /// Parts with tasks, the ending one included, what marks them, and whose they are.
    pub parts: BTreeMap<Part, (Marker, u32)>,
}

impl Hunt {
    /// Nothing left behind yet. To be called by the first thread.
    pub fn open() -> Hunt {
        let (orphans, unclaimed) = (Orphans::open(), Unclaimed::default());
        Hunt {
            orphans,
            unclaimed,
            pending: BTreeMap::new(),
            reap_at: None,
        }
    }

    /// Whether anything may be left of any part.
    pub fn has_strays(&self, pids: &HashSet<i32>) -> bool {
        match self.orphans.has_strays(|pid| pids.contains(&pid)) {
            Ok(strays) => strays,
            Err(error) => {
                tracing::error!(%error, "cannot list orphans; looking for left-overs the long way");
                true
            }
        }
    }

    /// Ends what a part left: its marker, its tasks. True when nothing of it is
    /// left, else it is among those of [`Hunt::due`] later.
    pub fn begin(
        &mut self,
        now: Instant,
        part: Part,
        marker: &Marker,
        tasks: BTreeSet<Process>,
        present: &Present<'_>,
    ) -> bool {
        let trees = self.claim(part, &tasks, present).unwrap_or_else(|error| {
            tracing::error!(%part, %error, "cannot look for orphans");
            BTreeSet::new()
        });
        let (next, pause) = (now, PAUSE_MIN);
        let marker = marker.clone();
        let mut chase = Chase {
            marker,
            reach: Reach::Below { tasks, trees },
            next,
            pause,
        };
        let over = chase.step(now, part);
        self.reap(now, present.pids);
        if !over {
            self.pending.insert(part, chase);
        }
        over
    }

    /// Has everything within this marker ended, from the next look on; the part
    /// is then among those of [`Hunt::due`].
    pub fn clear(&mut self, now: Instant, part: Part, marker: Marker) {
        let (reach, pause) = (Reach::Node, PAUSE_MIN);
        self.pending.entry(part).or_insert(Chase {
            marker,
            reach,
            next: now,
            pause,
        });
    }

    /// Takes away ended orphans and finds those only this part can have made.
    fn claim(
        &mut self,
        part: Part,
        tasks: &BTreeSet<Process>,
        present: &Present<'_>,
    ) -> io::Result<BTreeSet<Process>> {
        let is_task = |pid: i32| present.pids.contains(&pid);
        self.orphans.reap(is_task)?;
        let orphans = self.orphans.list(is_task)?;
        let known = tasks
            .iter()
            .map(|task| task.pid)
            .chain(present.pids.iter().copied())
            .collect();
        let held = present.parts.values().cloned().collect();
        let silent = leftover::without_sign(&orphans, &held, &known);
        self.unclaimed.retain(&silent);
        for process in silent {
            self.unclaimed
                .observe(process, present.parts.keys().copied());
        }
        Ok(self.unclaimed.ended(&part))
    }

    /// Parts of which nothing is left now, having been chased.
    pub fn due(&mut self, now: Instant, pids: &HashSet<i32>) -> Vec<Part> {
        let mut over = self.cleared(now);
        for (part, chase) in &mut self.pending {
            if chase.next <= now && chase.step(now, *part) {
                over.push(*part);
            }
        }
        for part in &over {
            self.pending.remove(part);
        }
        if self.reap_at.is_some_and(|at| at <= now) || !over.is_empty() {
            self.reap(now, pids);
        }
        over
    }

    /// Ends what is within the ground that is due, all of it by one look at the
    /// node; the parts within which nothing is left.
    fn cleared(&mut self, now: Instant) -> Vec<Part> {
        let is_due = |chase: &&mut Chase| chase.next <= now && matches!(chase.reach, Reach::Node);
        let mut due: Vec<(Part, &mut Chase)> = self
            .pending
            .iter_mut()
            .map(|(part, chase)| (*part, chase))
            .filter(|(_, chase)| is_due(chase))
            .collect();
        if due.is_empty() {
            return Vec::new();
        }
        let markers: BTreeSet<Marker> = due.iter().map(|(_, chase)| chase.marker.clone()).collect();
        let busy = leftover::end_within(&markers).map_or_else(
            |error| {
                tracing::error!(%error, "cannot look for what is within ground");
                markers
            },
            |within| {
                warn_of(&within.refused);
                within.busy
            },
        );
        for (_, chase) in &mut due {
            chase.rest(now);
        }
        due.retain(|(_, chase)| !busy.contains(&chase.marker));
        due.into_iter().map(|(part, _)| part).collect()
    }

    /// When to look again.
    pub fn next(&self) -> Option<Instant> {
        self.pending
            .values()
            .map(|chase| chase.next)
            .chain(self.reap_at)
            .min()
    }

    fn reap(&mut self, now: Instant, pids: &HashSet<i32>) {
        let is_task = |pid: i32| pids.contains(&pid);
        if let Err(error) = self.orphans.reap(is_task) {
            tracing::error!(%error, "cannot take away orphans that ended");
        }
        let left = self.orphans.has_strays(is_task).unwrap_or(true);
        self.reap_at = left.then_some(now + REAP_EVERY);
    }
}

impl Chase {
    /// Kills what is found; true when nothing was.
    fn step(&mut self, now: Instant, part: Part) -> bool {
        let Reach::Below { tasks, trees } = &self.reach else {
            return false;
        };
        let attempt = Quarry::Attempt {
            marker: self.marker.clone(),
            tasks: tasks.clone(),
        };
        let over = match end(&attempt, trees) {
            Ok(over) => over,
            Err(error) => {
                tracing::error!(%part, %error, "cannot look for what the part left behind");
                false
            }
        };
        self.rest(now);
        over
    }

    /// Looks again after a pause, the next time after a longer one.
    fn rest(&mut self, now: Instant) {
        self.next = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

fn end(attempt: &Quarry, trees: &BTreeSet<Process>) -> io::Result<bool> {
    let mut over = end_one(attempt)?;
    if !trees.is_empty() {
        over &= end_one(&Quarry::Trees(trees.clone()))?;
    }
    Ok(over)
}

fn end_one(quarry: &Quarry) -> io::Result<bool> {
    let outcome = leftover::end(quarry, Patience::BRIEF)?;
    warn_of(&outcome.refused);
    Ok(outcome.left.is_empty())
}

fn warn_of(refused: &BTreeMap<Process, i32>) {
    for (process, errno) in refused {
        tracing::warn!(
            pid = process.pid,
            errno,
            "a left-over may not be signalled; it stays"
        );
    }
}
