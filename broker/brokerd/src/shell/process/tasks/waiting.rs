//! Starts that no spawner has taken yet: users in turn, each of their starts in order.
//!
//! A start can be held up by its user for seconds. So nobody's are behind all of somebody else's, and of
//! each user only so many are handed over at a time.

use std::collections::{BTreeMap, VecDeque};

use eddy_broker::shellbook::Spawn;
use eddy_wire::shell::Part;

/// Starts that wait, and how many of each user are with the spawners.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    users: BTreeMap<u32, Line>,
    handed: usize,
    /// Whose turn it was last.
    last: u32,
}

/// Those of one user.
#[derive(Debug, Default)]
struct Line {
    starts: VecDeque<Spawn>,
    handed: usize,
}

impl Waiting {
    /// One more.
    pub fn push(&mut self, spawn: Spawn) {
        let line = self.users.entry(spawn.start.user).or_default();
        line.starts.push_back(spawn);
    }

    /// Hands over the next, if fewer than `each` of its user and fewer than `all` are handed over.
    pub fn pop(&mut self, each: usize, all: usize) -> Option<Spawn> {
        if self.handed >= all {
            return None;
        }
        let is_next = |(_, line): &(&u32, &Line)| line.handed < each && !line.starts.is_empty();
        let after = self.users.range(self.last.saturating_add(1)..);
        let user = after
            .chain(&self.users)
            .find(is_next)
            .map(|(user, _)| *user)?;
        self.last = user;
        let line = self.users.get_mut(&user)?;
        line.handed += 1;
        self.handed += 1;
        line.starts.pop_front()
    }

    /// One of this user is with the spawners no more.
    pub fn answered(&mut self, user: u32) {
        self.handed -= 1;
        if let Some(line) = self.users.get_mut(&user) {
            line.handed -= 1;
            if line.handed == 0 && line.starts.is_empty() {
                self.users.remove(&user);
            }
        }
    }

    /// Those of a part wait no more; which tasks they are.
    pub fn give_up(&mut self, part: Part, user: u32) -> Vec<u32> {
        let Some(line) = self.users.get_mut(&user) else {
            return Vec::new();
        };
        let mut tasks = Vec::new();
        line.starts.retain(|spawn| {
            let stays = spawn.start.part != part;
            if !stays {
                tasks.push(spawn.task);
            }
            stays
        });
        tasks
    }

    /// How many are with the spawners.
    pub fn handed(&self) -> usize {
        self.handed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use eddy_wire::hash::Hash;
    use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
    use eddy_wire::idset::Idset;
    use eddy_wire::shell::{Role, Start};

    use super::*;

    fn part(job: u64) -> Part {
        Part {
            job: JobId(job),
            attempt: Attempt(1),
            rank: Rank(0),
        }
    }

    fn spawn(user: u32, job: u64, task: u32) -> Spawn {
        let start = Start {
            part: part(job),
            shell: Epoch(1),
            role: Role::Tasks,
            user,
            jobspec: Hash::of(b"{}"),
            environment: Hash::of(b"{}"),
            cc: None,
            array: None,
            uri: None,
            first_task: 0,
            ntasks: 3,
            job_ntasks: 3,
            node_index: 0,
            job_nnodes: 1,
            host: "n0".to_owned(),
            nodelist: "n0".to_owned(),
            cores: Idset::new(),
            gpus: Idset::new(),
            memory: 0,
        };
        Spawn {
            start: Arc::new(start),
            task,
            jobspec: "{}".into(),
            environment: "{}".into(),
        }
    }

    /// Hands over all that may be: job and task of each.
    fn all(waiting: &mut Waiting) -> Vec<(u64, u32)> {
        let next = std::iter::from_fn(|| waiting.pop(2, 5));
        next.map(|spawn| (spawn.start.part.job.0, spawn.task))
            .collect()
    }

    #[test]
    fn users_take_turns_and_have_so_many_handed_over_at_a_time() {
        let mut waiting = Waiting::default();
        (0..3).for_each(|task| waiting.push(spawn(1001, 7, task)));
        waiting.push(spawn(1002, 8, 0));
        assert_eq!(all(&mut waiting), [(7, 0), (8, 0), (7, 1)]);
        waiting.answered(1001);
        assert_eq!(all(&mut waiting), [(7, 2)]);
        for user in [1001, 1001, 1002] {
            waiting.answered(user);
        }
        assert_eq!(waiting.handed(), 0);
        assert!(waiting.users.is_empty());
    }

    #[test]
    fn what_is_given_up_is_not_handed_over() {
        let mut waiting = Waiting::default();
        (0..2).for_each(|task| waiting.push(spawn(1001, 7, task)));
        waiting.push(spawn(1001, 8, 0));
        assert_eq!(waiting.give_up(part(7), 1001), [0, 1]);
        assert_eq!(all(&mut waiting), [(8, 0)]);
    }
}
