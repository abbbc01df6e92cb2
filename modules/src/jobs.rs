//! A table of jobs by number, in the place of a map.
//!
//! Modules keep something of each job that is not over and look it up with every record. Numbers are given in
//! order and most jobs are over in about that order, so those that are there are mostly neighbours: they stand
//! on pages, which are found by number and not by search. A page that is left behind, by jobs that last or by
//! numbers that were drawn elsewhere, goes to a map. It is walked in order, as a map is.

use std::collections::{BTreeMap, VecDeque};
use std::iter;
use std::mem;
use std::ops::{Index, RangeInclusive};

use eddy_wire::id::JobId;

/// Places on a page: so many that a page is seldom made, and so few that one job may have one to itself.
const PAGE: usize = 16;
/// The pages have places for so many times the jobs that are on them, and for [`SPARE`] more. Beyond that the
/// first go to the map.
const PLACES_MAX: usize = 4;
const SPARE: usize = 16 * PAGE;

/// What is kept of each job.
#[derive(Clone, Debug)]
pub(crate) struct Jobs<T> {
    /// Pages of neighbouring numbers, from `first` on; nobody is on those that are not there.
    pages: VecDeque<Option<Page<T>>>,
    first: u64,
    /// How many are on pages.
    paged: usize,
    /// Those that are on none.
    behind: BTreeMap<JobId, T>,
}

#[derive(Clone, Debug)]
struct Page<T> {
    places: Box<[Option<(JobId, T)>; PAGE]>,
    taken: usize,
}

impl<T> Default for Jobs<T> {
    fn default() -> Jobs<T> {
        Jobs {
            pages: VecDeque::new(),
            first: 0,
            paged: 0,
            behind: BTreeMap::new(),
        }
    }
}

impl<T> Jobs<T> {
    /// What is kept of a job.
    pub fn get(&self, job: &JobId) -> Option<&T> {
        let page = self.nth(*job).and_then(|nth| self.pages.get(nth)?.as_ref());
        match page.and_then(|page| page.places[on_page(*job)].as_ref()) {
            Some((_, value)) => Some(value),
            None => self.behind.get(job),
        }
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, job: &JobId) -> Option<&mut T> {
        let nth = self.nth(*job);
        let page = nth.and_then(|nth| self.pages.get_mut(nth)?.as_mut());
        match page.and_then(|page| page.places[on_page(*job)].as_mut()) {
            Some((_, value)) => Some(value),
            None => self.behind.get_mut(job),
        }
    }

    /// Whether something is kept of a job.
    pub fn contains_key(&self, job: &JobId) -> bool {
        self.get(job).is_some()
    }

    /// Keeps this of a job, and gives what was kept of it before.
    pub fn insert(&mut self, job: JobId, value: T) -> Option<T> {
        let behind = match self.behind.is_empty() {
            true => None,
            false => self.behind.remove(&job),
        };
        let pages = self.pages.len();
        let Some(page) = self.page_of(job) else {
            self.behind.insert(job, value);
            return behind;
        };
        let place = &mut page.places[on_page(job)];
        if let Some((_, there)) = place {
            return Some(mem::replace(there, value));
        }
        *place = Some((job, value));
        page.taken += 1;
        self.paged += 1;
        if self.pages.len() > pages {
            self.leave_behind();
        }
        behind
    }

    /// Keeps nothing of a job any more, and gives what was.
    pub fn remove(&mut self, job: &JobId) -> Option<T> {
        let place = self.nth(*job).and_then(|nth| self.pages.get_mut(nth));
        let taken = place.and_then(|place| {
            let page = place.as_mut()?;
            let (_, value) = page.places[on_page(*job)].take()?;
            page.taken -= 1;
            if page.taken == 0 {
                *place = None;
            }
            Some(value)
        });
        let Some(value) = taken else {
            return self.behind.remove(job);
        };
        self.paged -= 1;
        self.leave_behind();
        Some(value)
    }

    /// Keeps those of which this is so.
    pub fn retain(&mut self, mut keeps: impl FnMut(&JobId, &mut T) -> bool) {
        let all = self.iter().map(|(job, _)| *job);
        for job in all.collect::<Vec<JobId>>() {
            let value = self.get_mut(&job).expect("it was just there");
            if !keeps(&job, value) {
                self.remove(&job);
            }
        }
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&JobId, &T)> {
        in_order(on(self.pages.iter()), self.behind.iter())
    }

    /// Those from one number to another, in order.
    pub fn range(&self, jobs: RangeInclusive<JobId>) -> impl Iterator<Item = (&JobId, &T)> {
        let page_of = |job: &JobId| job.0 / PAGE as u64;
        let nth = |page: u64| page.saturating_sub(self.first).min(self.pages.len() as u64) as usize;
        let (from, to) = (nth(page_of(jobs.start())), nth(page_of(jobs.end()) + 1));
        let behind = self.behind.range(jobs.clone());
        let paged = on(self.pages.range(from..to));
        in_order(paged.filter(move |(job, _)| jobs.contains(job)), behind)
    }

    /// The numbers of all, in order.
    pub fn keys(&self) -> impl Iterator<Item = &JobId> {
        self.iter().map(|(job, _)| job)
    }

    /// What is kept of all, in order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, value)| value)
    }

    /// Which page is a job's; `None` for numbers before the first.
    fn nth(&self, job: JobId) -> Option<usize> {
        let nth = (job.0 / PAGE as u64).checked_sub(self.first)?;
        usize::try_from(nth).ok()
    }

    /// The page that a job is to stand on, made where there is none; none for numbers before the first.
    fn page_of(&mut self, job: JobId) -> Option<&mut Page<T>> {
        let is_far = |nth: usize| nth > self.pages.len() + SPARE / PAGE;
        if self.nth(job).is_some_and(is_far) {
            while self.leave_first() {}
        }
        if self.pages.is_empty() {
            self.first = job.0 / PAGE as u64;
        }
        let nth = self.nth(job)?;
        if nth >= self.pages.len() {
            self.pages.resize_with(nth + 1, || None);
        }
        let page = self.pages[nth].get_or_insert_with(|| Page {
            places: Box::new([const { None }; PAGE]),
            taken: 0,
        });
        Some(page)
    }

    /// The first pages go that nobody is on, or too few for how many pages there are.
    fn leave_behind(&mut self) {
        let is_wide = |jobs: &Jobs<T>| jobs.pages.len() * PAGE > PLACES_MAX * jobs.paged + SPARE;
        while matches!(self.pages.front(), Some(None)) || is_wide(self) {
            self.leave_first();
        }
    }

    /// Whether there was a first page, which is gone now.
    fn leave_first(&mut self) -> bool {
        let Some(page) = self.pages.pop_front() else {
            return false;
        };
        self.first += 1;
        if let Some(page) = page {
            self.paged -= page.taken;
            self.behind.extend(page.places.into_iter().flatten());
        }
        true
    }
}

impl<T> Index<&JobId> for Jobs<T> {
    type Output = T;

    fn index(&self, job: &JobId) -> &T {
        self.get(job).expect("something is kept of it")
    }
}

/// Which place on its page is a job's.
fn on_page(job: JobId) -> usize {
    (job.0 % PAGE as u64) as usize
}

/// Those who are on pages.
fn on<'p, T: 'p>(
    pages: impl Iterator<Item = &'p Option<Page<T>>>,
) -> impl Iterator<Item = (&'p JobId, &'p T)> {
    let places = pages
        .flatten()
        .flat_map(|page| page.places.iter().flatten());
    places.map(|(job, value)| (job, value))
}

/// Both, of which each is in order.
fn in_order<'t, T: 't>(
    one: impl Iterator<Item = (&'t JobId, &'t T)>,
    other: impl Iterator<Item = (&'t JobId, &'t T)>,
) -> impl Iterator<Item = (&'t JobId, &'t T)> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some((job, _)), Some((of, _))) if of < job => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}

#[cfg(test)]
mod tests;
