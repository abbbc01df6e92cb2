//! Whether gangs begin whole: when all their members are there, and with as many as they may begin
//! with, in records of which none is missing; in an instance that they were passed to, all that were
//! passed at once.
//!
//! Knows the records, nothing of who chooses.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::account::Name;
use eddy_wire::event::{Kind, Record, Together};
use eddy_wire::gang::{self, Gang};
use eddy_wire::id::JobId;

type Key = (u32, Name);

/// The gangs of jobs that are not over.
#[derive(Clone, Debug, Default)]
pub struct Ganged {
    of: BTreeMap<JobId, Key>,
    gangs: BTreeMap<Key, Known>,
    /// The gang that begins with these records.
    begins: Option<Key>,
    /// With whom jobs that a parent passed down are to start.
    passed: BTreeMap<JobId, Together>,
    /// Those who start with these records, and how many have.
    start: Option<(Together, u32)>,
    /// Jobs that were taken here: with whom they are to start is not in the records.
    taken: BTreeSet<JobId>,
    /// How many of those start with these records.
    alone: u32,
}

#[derive(Clone, Debug)]
struct Known {
    gang: Gang,
    members: BTreeSet<JobId>,
    /// Those that were ever granted anything.
    granted: BTreeSet<JobId>,
    /// Those that were passed down with others, and have neither begun there nor come back.
    below: BTreeMap<JobId, Together>,
}

impl Known {
    /// A member is passed down.
    fn passed(&mut self, id: JobId, with: Option<Together>) -> Result<(), String> {
        let mut others = self.below.iter().filter(|(_, below)| Some(**below) != with);
        if let Some((other, _)) = others.next() {
            return Err(format!(
                "job {id} is passed without job {other} of its gang, which may come back"
            ));
        }
        self.below.extend(with.map(|with| (id, with)));
        Ok(())
    }
}

impl Ganged {
    /// With how many a job starts that is in a gang: all of one that never began, of one that did those
    /// who do not go on. A name is another gang's once all its members are over.
    pub fn starts_with(&self, id: JobId, goes_on: impl Fn(JobId) -> bool) -> Option<Gang> {
        let known = self.gangs.get(self.of.get(&id)?)?;
        let mut gang = known.gang.clone();
        if !known.granted.is_empty() {
            // Who was passed down with others, and has not begun there, may come back with them.
            let stays = |member: &&JobId| goes_on(**member) && !known.below.contains_key(*member);
            let left = known.members.len() - known.members.iter().filter(stays).count();
            gang.size = u32::try_from(left).unwrap_or(u32::MAX);
            gang.min = gang.size;
        }
        let is_bound = gang.size > 1 || gang.uniform.is_some();
        is_bound.then_some(gang)
    }

    /// Jobs that start with others that are not there, or of which one waits for something else.
    pub fn stuck(&self, waits: impl Fn(JobId) -> bool) -> Vec<JobId> {
        let unbegun = self.gangs.values().filter(|known| known.granted.is_empty());
        let stuck = unbegun.filter(|known| {
            let missing = (known.members.len() as u64) < u64::from(known.gang.size);
            missing || known.members.iter().any(|job| waits(*job))
        });
        stuck
            .flat_map(|known| known.members.iter().copied())
            .collect()
    }

    /// One more record.
    ///
    /// # Errors
    /// A gang began with fewer than it may, before all were there, or has more than its members.
    pub fn apply(&mut self, record: &Record) -> Result<(), String> {
        self.together(record)?;
        let Some(id) = record.event.job else {
            return self.began();
        };
        let key = self.of.get(&id).cloned();
        let goes_on =
            matches!(&record.event.kind, Kind::Alloc(_)) && key.is_some() && key == self.begins;
        let checked = match goes_on {
            true => Ok(()),
            false => self.began(),
        };
        checked.and(self.fold(id, key, &record.event.kind))
    }

    /// The same of jobs that a parent passed down.
    fn together(&mut self, record: &Record) -> Result<(), String> {
        let with = record
            .event
            .job
            .and_then(|id| self.passed.get(&id).copied());
        let starts = with.filter(|_| matches!(&record.event.kind, Kind::Alloc(_)));
        let is_taken = record.event.job.is_some_and(|id| self.taken.contains(&id));
        if is_taken && matches!(&record.event.kind, Kind::Alloc(_)) {
            self.alone += 1;
            return Ok(());
        }
        let ended = self.start.take_if(|(all, _)| Some(*all) != starts);
        let alone = match (ended, starts) {
            (None, Some(_)) => 0,
            (Some(_), _) | (None, None) => std::mem::take(&mut self.alone),
        };
        match (&record.event.kind, record.event.job) {
            (Kind::Submit(submit), Some(id)) => {
                let with = submit.pass.as_ref().and_then(|pass| pass.with);
                self.passed.extend(with.map(|with| (id, with)));
                self.taken.extend(submit.is_taken_here().then_some(id));
            }
            (Kind::Clean, Some(id)) => {
                self.passed.remove(&id);
                self.taken.remove(&id);
            }
            _ => {}
        }
        if let Some(all) = starts {
            let (_, begun) = self.start.get_or_insert((all, 0));
            *begun += 1;
        }
        match ended {
            Some((Together { first, count }, begun)) if begun > count || begun + alone < count => {
                Err(format!(
                    "{begun} start of {count} that were passed down with job {first}"
                ))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn fold(&mut self, id: JobId, key: Option<Key>, kind: &Kind) -> Result<(), String> {
        match (kind, key) {
            (Kind::Submit(submit), None) if submit.pass.is_none() => {
                let Ok(Some(gang)) = gang::of(&submit.spec) else {
                    return Ok(());
                };
                let key = (submit.user, gang.name.clone());
                self.of.insert(id, key.clone());
                let known = self.gangs.entry(key).or_insert_with(|| Known {
                    gang,
                    members: BTreeSet::new(),
                    granted: BTreeSet::new(),
                    below: BTreeMap::new(),
                });
                known.members.insert(id);
                let (name, size) = (&known.gang.name, known.gang.size);
                match known.members.len() as u64 > u64::from(size) {
                    true => Err(format!(
                        "job {id} is in gang `{name}`, which has its {size}"
                    )),
                    false if !known.granted.is_empty() => {
                        Err(format!("job {id} is in gang `{name}`, which has begun"))
                    }
                    false => Ok(()),
                }
            }
            (Kind::Alloc(_), Some(key)) => {
                let Some(known) = self.gangs.get_mut(&key) else {
                    return Ok(());
                };
                if let Some(to) = kind.passed_to() {
                    known.passed(id, to.with)?;
                }
                let is_first = known.granted.is_empty();
                known.granted.insert(id);
                let (there, Gang { name, size, .. }) = (known.members.len(), &known.gang);
                if is_first && there as u64 != u64::from(*size) {
                    return Err(format!(
                        "gang `{name}` begins with job {id} when {there} of its {size} are there"
                    ));
                }
                if is_first {
                    self.begins = Some(key);
                }
                Ok(())
            }
            (Kind::Start | Kind::Requeue(_) | Kind::Finish(_) | Kind::Release(..), Some(key)) => {
                if let Some(known) = self.gangs.get_mut(&key) {
                    known.below.remove(&id);
                }
                Ok(())
            }
            (Kind::Clean, Some(key)) => {
                self.of.remove(&id);
                if let Some(known) = self.gangs.get_mut(&key) {
                    known.below.remove(&id);
                    known.members.remove(&id);
                    if known.members.is_empty() {
                        self.gangs.remove(&key);
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The records of a gang that begins are over.
    fn began(&mut self) -> Result<(), String> {
        let Some(known) = self.begins.take().and_then(|key| self.gangs.get(&key)) else {
            return Ok(());
        };
        let Gang { name, min, .. } = &known.gang;
        let granted = known.granted.len();
        match granted as u64 >= u64::from(*min) {
            true => Ok(()),
            false => Err(format!(
                "gang `{name}` began with {granted} of its members, fewer than {min}"
            )),
        }
    }
}
