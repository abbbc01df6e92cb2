//! The descriptors that the shell waits for: epoll with a name for each.
//!
//! A name is never reused while one batch of events is worked off, so an event
//! of a descriptor that was closed a moment ago meets nobody.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use eddy_wire::shell::Part;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

/// How many events one wait brings at most.
const EVENTS_MAX: usize = 256;

/// Which of a task's two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// What a descriptor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The connection to the broker.
    Link,
    /// The pipe from who launched this shell.
    Launcher,
    /// The pool has results.
    Pool,
    /// A task ended.
    Task(Part, u32),
    /// A task wrote.
    Output(Part, u32, Output),
    /// A task reads its input again.
    Input(Part, u32),
}

/// The name of a watched descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(u64);

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// It can be read, or its other end is gone.
    Readable,
    /// It can be written.
    Writable,
    /// Either.
    Either,
}

impl Until {
    fn flags(self) -> EventFlags {
        match self {
            Until::Readable => EventFlags::IN,
            Until::Writable => EventFlags::OUT,
            Until::Either => EventFlags::IN | EventFlags::OUT,
        }
    }
}

/// All watched descriptors.
pub struct Watch {
    epoll: OwnedFd,
    names: Vec<(u32, Option<Watched>)>,
    free: Vec<u32>,
    events: Vec<Event>,
}

impl Watch {
    /// Nothing watched yet.
    pub fn new() -> io::Result<Watch> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let events = Vec::with_capacity(EVENTS_MAX);
        Ok(Watch {
            epoll,
            names: Vec::new(),
            free: Vec::new(),
            events,
        })
    }

    /// Watches a descriptor under a new name.
    pub fn add(&mut self, fd: impl AsFd, until: Until, watched: Watched) -> io::Result<Token> {
        let at = self.free.pop().unwrap_or_else(|| {
            self.names.push((0, None));
            self.names.len() as u32 - 1
        });
        let (life, place) = &mut self.names[at as usize];
        *place = Some(watched);
        let token = Token(u64::from(*life) << 32 | u64::from(at));
        match epoll::add(&self.epoll, fd, EventData::new_u64(token.0), until.flags()) {
            Ok(()) => Ok(token),
            Err(error) => {
                self.forget(token);
                Err(error.into())
            }
        }
    }

    /// Waits for something else of the same descriptor.
    pub fn change(&self, token: Token, fd: impl AsFd, until: Until) -> io::Result<()> {
        Ok(epoll::modify(
            &self.epoll,
            fd,
            EventData::new_u64(token.0),
            until.flags(),
        )?)
    }

    /// The descriptor is watched no more. To be called before it is closed: the
    /// kernel ends a watch with the last copy of a descriptor, and a task
    /// between clone and exec has a copy of each.
    pub fn remove(&mut self, token: Token, fd: impl AsFd) {
        // It fails only for one that is not watched, which is what is wanted.
        let _ = epoll::delete(&self.epoll, fd);
        self.forget(token);
    }

    fn forget(&mut self, token: Token) {
        let at = token.0 as u32;
        let (life, place) = &mut self.names[at as usize];
        if *life == (token.0 >> 32) as u32 && place.take().is_some() {
            *life = life.wrapping_add(1);
            self.free.push(at);
        }
    }

    /// Waits, for ever without a limit, and says what happened. The names are
    /// to be asked one by one, since what one event does may end another.
    pub fn wait(&mut self, limit: Option<std::time::Duration>) -> io::Result<Vec<Token>> {
        let limit = limit.map(|limit| Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: limit.subsec_nanos().into(),
        });
        self.events.clear();
        match epoll::wait(
            &self.epoll,
            spare_capacity(&mut self.events),
            limit.as_ref(),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self
            .events
            .iter()
            .map(|event| Token(event.data.u64()))
            .collect())
    }

    /// What the name belongs to, unless it was forgotten meanwhile.
    pub fn watched(&self, token: Token) -> Option<Watched> {
        let (life, place) = self.names.get(token.0 as u32 as usize)?;
        (*life == (token.0 >> 32) as u32)
            .then_some(*place)
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::stdio;

    #[test]
    fn a_copy_of_a_descriptor_does_not_go_on_with_its_watch() {
        let mut watch = Watch::new().expect("an epoll");
        let (ours, theirs) = stdio::output_pipe().expect("a pipe");
        let copy = ours
            .try_clone()
            .expect("a copy, as a task before its exec has");
        let token = watch
            .add(&ours, Until::Readable, Watched::Link)
            .expect("watched");
        watch.remove(token, &ours);
        drop((ours, theirs));
        let soon = Some(std::time::Duration::from_millis(1));
        assert_eq!(watch.wait(soon).expect("nothing"), []);
        drop(copy);
    }

    #[test]
    fn an_event_of_a_closed_descriptor_meets_nobody() {
        let mut watch = Watch::new().expect("an epoll");
        let (ours, theirs) = stdio::output_pipe().expect("a pipe");
        let token = watch
            .add(&ours, Until::Readable, Watched::Link)
            .expect("watched");
        drop(theirs);
        let events = watch.wait(None).expect("its end");
        assert_eq!(events, [token]);
        watch.remove(token, &ours);
        drop(ours);
        let (again, _theirs) = stdio::output_pipe().expect("a pipe");
        let later = watch
            .add(&again, Until::Readable, Watched::Pool)
            .expect("watched");
        assert_eq!(
            watch.watched(token),
            None,
            "the place is taken, by another life"
        );
        assert_eq!(watch.watched(later), Some(Watched::Pool));
    }
}
