//! Looks at what may never answer (a file of a network, a database of users), on threads of their own.
//!
//! Called for another configuration. It never ends a thread that hangs, which cannot be done: it is left, and so
//! many may be left at most.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use thiserror::Error;

/// How many that were given up may be left.
const LEFT_MAX: usize = 4;

/// Looks of one kind.
#[derive(Debug)]
pub(super) struct Looks {
    /// Each thread that looks has one.
    each: Arc<()>,
    within: Duration,
}

/// Why there is no look now.
#[derive(Debug, Error)]
pub(super) enum NoLook {
    #[error(
        "{LEFT_MAX} that were given up still wait for an answer, allowed are {LEFT_MAX} (limit `looks`)"
    )]
    Left,
    #[error("no thread for it")]
    Thread(#[source] io::Error),
}

/// There was no answer in time.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("no answer within {} s", .0.as_secs())]
pub(super) struct Late(Duration);

impl Looks {
    /// None yet; each is given up after that time.
    pub(super) fn new(within: Duration) -> Looks {
        Looks {
            each: Arc::default(),
            within,
        }
    }

    /// Looks, and has another thread do what follows of what was found: once, and nothing of it is done by who
    /// was given up.
    ///
    /// # Errors
    /// It cannot be now.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        look: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(Result<T, Late>) + Send + 'static,
    ) -> Result<(), NoLook> {
        if Arc::strong_count(&self.each) > LEFT_MAX {
            return Err(NoLook::Left);
        }
        let (each, within) = (Arc::clone(&self.each), self.within);
        let (sender, found) = sync_channel(1);
        let looks = move || {
            let found = look();
            drop(each);
            // Nobody hears of what comes too late.
            let _ = sender.send(found);
        };
        let follows = move || then(found.recv_timeout(within).map_err(|_| Late(within)));
        let thread = || thread::Builder::new().name("configuration".into());
        thread().spawn(looks).map_err(NoLook::Thread)?;
        thread().spawn(follows).map_err(NoLook::Thread)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn who_does_not_answer_is_given_up_and_so_many_are_left() {
        let looks = Looks::new(Duration::from_millis(1));
        let (told, hears) = channel();
        let mut hung = Vec::new();
        for _ in 0..LEFT_MAX {
            let (release, held) = channel::<()>();
            hung.push(release);
            let told = told.clone();
            let begun = looks.begin(
                move || held.recv().is_ok(),
                move |found| drop(told.send(found)),
            );
            begun.expect("there is room");
            assert_eq!(hears.recv(), Ok(Err(Late(Duration::from_millis(1)))));
        }
        let one_more = looks.begin(|| (), |_| ());
        assert!(matches!(one_more, Err(NoLook::Left)), "{one_more:?}");
    }

    #[test]
    fn what_is_found_follows_and_leaves_room() {
        let looks = Looks::new(Duration::from_secs(60));
        let (told, hears) = channel();
        for number in 0..2 * LEFT_MAX {
            let told = told.clone();
            let begun = looks.begin(move || number, move |found| drop(told.send(found)));
            begun.expect("there is room");
            assert_eq!(hears.recv(), Ok(Ok(number)));
        }
    }
}
