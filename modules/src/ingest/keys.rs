//! Which submissions are known by their senders' keys.
//!
//! The journal knows every key as long as the job's row is kept; asking it for
//! each submission would cost a look-up for nothing, since nearly all keys are
//! new. A key is a UUIDv7 and so tells when it was made: a key made after
//! everything this window ever let go of is new if the window does not hold
//! it. For any other the journal is asked.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};

use eddy_broker::effect::KeyFound;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Requeue, Submit, Waitable};
use eddy_wire::hash::Hash;
use eddy_wire::id::{Epoch, JobId};
use eddy_wire::idset::Idset;
use eddy_wire::time::{Span, Time};
use uuid::Uuid;

/// How many keys of submissions that are over the window holds.
const WINDOW_KEYS_MAX: usize = 65_536;

/// A submission as its key finds it.
///
/// Not among it is the environment: whoever repeats a submission from another shell has another one, and is to be told
/// the same jobs. Nor the urgency, which changes while jobs wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its first job.
    pub first: JobId,
    /// How many.
    pub count: u32,
    /// Hash of its jobspec.
    pub jobspec: Hash,
    /// The copies that are known of it: all but those that were over before the last restart. None for one plain job.
    pub copies: Option<Idset>,
    /// Whether its jobs are kept until somebody has waited for them.
    pub waitable: Waitable,
    /// Whether they start again after a lost node.
    pub requeue: Requeue,
}

impl Known {
    /// What of a submission under the same key is other.
    pub fn differs(&self, other: &Known) -> Option<&'static str> {
        let has_others = match (&self.copies, &other.copies) {
            (Some(own), Some(others)) => !others.contains_all(own),
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        };
        let differs = [
            ("jobspec", self.jobspec != other.jobspec),
            ("number of copies", self.count != other.count),
            ("set of copies", has_others),
            ("`waitable`", self.waitable != other.waitable),
            ("`requeue`", self.requeue != other.requeue),
        ];
        let first = differs.into_iter().find(|(_, differs)| *differs);
        first.map(|(what, _)| what)
    }
}

impl From<&KeyFound> for Known {
    fn from(found: &KeyFound) -> Known {
        Known {
            first: found.first,
            count: found.count,
            jobspec: found.jobspec,
            copies: found.cc.map(Idset::one),
            waitable: found.waitable,
            requeue: found.requeue,
        }
    }
}

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is new.
    Never,
    /// It is this submission's.
    As(Known),
    /// Only the journal can tell.
    AskJournal,
}

/// The keys of all submissions that are not over, and of the last that are.
#[derive(Debug)]
pub struct Keys {
    known: BTreeMap<(u32, Uuid), Known>,
    /// Submissions with jobs that are not over, by their first job.
    open: BTreeMap<JobId, Open>,
    /// Submissions all over, the longest so first.
    over: VecDeque<(u32, Uuid)>,
    /// No key made later than this was ever let go of.
    horizon: Time,
    skew: Span,
    age_max: Span,
}

/// A submission with jobs that are not over.
#[derive(Debug)]
struct Open {
    user: u32,
    key: Uuid,
    /// How many of its jobs.
    left: u32,
    /// How many numbers from the first on are its jobs here.
    count: u32,
}

impl Keys {
    /// An empty window. Keys may be at most `skew` ahead of broker time and at
    /// most `age_max` behind it.
    pub fn new(skew: Span, age_max: Span) -> Keys {
        Keys {
            known: BTreeMap::new(),
            open: BTreeMap::new(),
            over: VecDeque::new(),
            horizon: Time(i64::MIN),
            skew,
            age_max,
        }
    }

    /// A leader began at `t`. Keys of finished jobs are not replayed, so all
    /// that an earlier leader may have seen, clocks ahead included, is beyond
    /// this window.
    pub fn leader(&mut self, epoch: Epoch, t: Time) {
        if epoch > Epoch(1) {
            self.horizon = self.horizon.max(t.after(self.skew));
        }
    }

    /// A job of a submission was recorded. After a restart only those that are
    /// not over come back, so any of them stands for the submission.
    pub fn submitted(&mut self, submit: &Submit, job: JobId) {
        let first = JobId(job.0 - u64::from(submit.index));
        let known = || Known {
            first,
            count: submit.count,
            jobspec: submit.sent().jobspec,
            copies: submit.cc.map(|_| Idset::new()),
            waitable: submit.waitable,
            requeue: submit.requeue,
        };
        let name = (submit.user, submit.key);
        let known = match self.known.entry(name) {
            Entry::Vacant(new) => new.insert(known()),
            // The same submission begun under other numbers stands for it from now on.
            Entry::Occupied(of) if of.get().first != first => {
                let of = of.into_mut();
                *of = known();
                of
            }
            Entry::Occupied(of) => of.into_mut(),
        };
        if let Some((copies, cc)) = known.copies.as_mut().zip(submit.cc) {
            copies.insert(cc);
        }
        // Of what was passed down one by one the others may never come.
        let (first, count) = match submit.pass.is_some() && !submit.is_taken_here() {
            true => (job, 1),
            false => (first, submit.count),
        };
        let open = Open {
            user: submit.user,
            key: submit.key,
            left: 0,
            count,
        };
        self.open.entry(first).or_insert(open).left += 1;
    }

    /// A job is over; its submission is, if it was the last.
    pub fn ended(&mut self, job: JobId) {
        let Some((first, open)) = self.open.range_mut(..=job).next_back() else {
            return;
        };
        open.left -= 1;
        if open.left > 0 {
            return;
        }
        let (first, name) = (*first, (open.user, open.key));
        self.open.remove(&first);
        self.over.push_back(name);
        if self.over.len() > WINDOW_KEYS_MAX
            && let Some(oldest) = self.over.pop_front()
        {
            self.known.remove(&oldest);
            self.horizon = self.horizon.max(made(&oldest.1).unwrap_or(self.horizon));
        }
    }

    /// Whose this job is, if it is of a submission with jobs that are not over.
    pub fn user_of(&self, job: JobId) -> Option<u32> {
        let (first, open) = self.open.range(..=job).next_back()?;
        (job.0 - first.0 < u64::from(open.count)).then_some(open.user)
    }

    /// The submission of this key, if the window holds it.
    pub fn recent(&self, user: u32, key: &Uuid) -> Option<Known> {
        self.known.get(&(user, *key)).cloned()
    }

    /// What is known of this key; refused when it is too old to be known, or
    /// from a clock too far ahead to be trusted.
    pub fn seen(&self, now: Time, user: u32, key: &Uuid) -> Result<Seen, Refusal> {
        if let Some(known) = self.recent(user, key) {
            return Ok(Seen::As(known));
        }
        let Some(t) = made(key) else {
            let text = format!("key: {key} given, a UUID of version 7 is needed");
            return Err(Refusal::new(Code::Invalid, text));
        };
        if t > now.after(self.skew) {
            let text = format!("key: {key} is more than {} s in the future", self.skew);
            return Err(Refusal::new(Code::Invalid, text));
        }
        if t.after(self.age_max) < now {
            let text = format!(
                "key: {key} is older than {} s: too old to be known",
                self.age_max
            );
            return Err(Refusal::new(Code::Invalid, text));
        }
        Ok(if t > self.horizon {
            Seen::Never
        } else {
            Seen::AskJournal
        })
    }
}

/// When a UUIDv7 was made; `None` for other versions (RFC 9562).
fn made(key: &Uuid) -> Option<Time> {
    let (seconds, nanos) = key
        .get_timestamp()
        .filter(|_| key.get_version_num() == 7)?
        .to_unix();
    let micros = i64::try_from(seconds).ok()?.checked_mul(1_000_000)?;
    Some(Time(micros.checked_add(i64::from(nanos / 1000))?))
}

#[cfg(test)]
mod tests {
    use uuid::Timestamp;

    use super::*;

    const NOW: Time = Time(1_800_000_000_000_000);

    fn key(seconds_from_now: i64) -> Uuid {
        let seconds = NOW.0 / 1_000_000 + seconds_from_now;
        let context = uuid::NoContext;
        Uuid::new_v7(Timestamp::from_unix(context, seconds as u64, 0))
    }

    fn keys() -> Keys {
        Keys::new(Span::seconds(600), Span::seconds(86_400))
    }

    #[test]
    fn a_fresh_key_of_a_first_leader_is_new_without_a_look_up() {
        assert_eq!(keys().seen(NOW, 0, &key(-1)), Ok(Seen::Never));
    }

    #[test]
    fn after_a_restart_the_journal_is_asked_even_for_keys_a_little_ahead() {
        let mut keys = keys();
        keys.leader(Epoch(2), NOW);
        assert_eq!(keys.seen(NOW, 0, &key(-1)), Ok(Seen::AskJournal));
        assert_eq!(
            keys.seen(NOW.after(Span::seconds(60)), 0, &key(30)),
            Ok(Seen::AskJournal)
        );
        let later = NOW.after(Span::seconds(700));
        assert_eq!(keys.seen(later, 0, &key(601)), Ok(Seen::Never));
    }

    #[test]
    fn keys_from_far_ahead_far_behind_or_without_time_are_refused() {
        let keys = keys();
        assert!(keys.seen(NOW, 0, &key(601)).is_err());
        assert!(keys.seen(NOW, 0, &key(-86_402)).is_err());
        assert!(keys.seen(NOW, 0, &Uuid::nil()).is_err());
    }

    fn submit(key: Uuid, index: u32, count: u32) -> Submit {
        let jobspec = serde_json::json!({
            "version": 1,
            "resources": [{"type": "slot", "count": 1, "label": "task",
                           "with": [{"type": "core", "count": 1}]}],
            "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {"system": {"duration": 0}},
        });
        let jobspec = eddy_wire::jobspec::Jobspec::from_value(jobspec).expect("a plain jobspec");
        let spec = eddy_wire::spec::Spec::from_jobspec(jobspec).expect("a plain request");
        Submit {
            key,
            index,
            count,
            ..Submit::plain(0, std::sync::Arc::new(spec))
        }
    }

    fn copies(key: Uuid, ids: &[u32]) -> Vec<Submit> {
        let count = ids.len() as u32;
        let copy = |(index, cc): (u32, &u32)| Submit {
            cc: Some(*cc),
            ..submit(key, index, count)
        };
        (0..).zip(ids).map(copy).collect()
    }

    /// What is known of a submission of these copies after these of them were recorded.
    fn known(of: &[u32], recorded: &[usize]) -> Known {
        let (mut keys, key) = (keys(), key(-1));
        let all = copies(key, of);
        for at in recorded {
            keys.submitted(&all[*at], JobId(10 + *at as u64));
        }
        keys.recent(0, &key).expect("it was just recorded")
    }

    #[test]
    fn other_copies_under_the_same_key_are_another_submission() {
        let first = known(&[1, 2, 3], &[0, 1, 2]);
        assert_eq!(first.differs(&first.clone()), None);
        for other in [&[5, 6, 7], &[1, 2, 4]] {
            let other = known(other, &[0, 1, 2]);
            assert_eq!(first.differs(&other), Some("set of copies"));
        }
        let fewer = known(&[1, 2], &[0, 1]);
        assert_eq!(first.differs(&fewer), Some("number of copies"));
        let (mut keys, key) = (keys(), key(-1));
        keys.submitted(&submit(key, 0, 3), JobId(10));
        let plain = keys.recent(0, &key).expect("it was just recorded");
        assert_eq!(first.differs(&plain), Some("set of copies"));
    }

    /// After a restart those that are over do not come back.
    #[test]
    fn what_is_left_of_copies_is_held_against_all_that_are_sent() {
        let left = known(&[1, 2, 3], &[1]);
        assert_eq!(left.differs(&known(&[1, 2, 3], &[0, 1, 2])), None);
        let other = known(&[1, 5, 6], &[0, 1, 2]);
        assert_eq!(left.differs(&other), Some("set of copies"));
    }

    #[test]
    fn the_same_submission_under_other_numbers_stands_for_it() {
        let (mut keys, key) = (keys(), key(-1));
        keys.submitted(&submit(key, 0, 1), JobId(10));
        keys.submitted(&submit(key, 0, 1), JobId(3000));
        assert_eq!(first(&keys, &key), Some(JobId(3000)));
    }

    fn first(keys: &Keys, key: &Uuid) -> Option<JobId> {
        keys.recent(0, key).map(|known| known.first)
    }

    #[test]
    fn a_submission_is_known_as_long_as_any_of_its_jobs_is_not_over() {
        let mut keys = keys();
        let old = key(-100);
        keys.submitted(&submit(old, 0, 2), JobId(1));
        keys.submitted(&submit(old, 1, 2), JobId(2));
        keys.ended(JobId(1));
        let many = WINDOW_KEYS_MAX as u64 + 1;
        for n in 0..many {
            let other = Uuid::from_u128(key(0).as_u128() + u128::from(n));
            keys.submitted(&submit(other, 0, 1), JobId(3 + n));
            keys.ended(JobId(3 + n));
        }
        assert_eq!(first(&keys, &old), Some(JobId(1)), "job 2 still waits");
        keys.ended(JobId(2));
        assert_eq!(
            first(&keys, &old),
            Some(JobId(1)),
            "it is the newest of those over"
        );
        assert_eq!(keys.over.len(), WINDOW_KEYS_MAX);
    }

    #[test]
    fn what_is_left_of_a_submission_after_a_restart_stands_for_it() {
        let mut keys = keys();
        let key = key(-1);
        keys.submitted(&submit(key, 7, 10), JobId(17));
        assert_eq!(first(&keys, &key), Some(JobId(10)));
    }
}
