//! What the process of a child does with a word of its parent: most are for its modules.

use bytes::Bytes;
use eddy_wire::services::child::{FromParent, Granted};

use crate::effect::ParentWord;

/// A word of the parent, by who it is for.
#[derive(Clone, Debug, PartialEq)]
pub enum Saying {
    /// What the child has, for the process and its modules.
    Granted(Box<Granted>),
    /// A request under this number; the message is the tail of the word.
    Request(u64),
    /// Nobody waits for the answer to the request of this number any more.
    Cancel(u64),
    /// For the modules alone: it is of a job that was passed down.
    Modules(ParentWord),
}

impl Saying {
    /// A word, and the `tail` that came with it.
    pub fn new(word: FromParent, tail: &Bytes) -> Saying {
        Saying::Modules(match word {
            FromParent::Granted(granted) => return Saying::Granted(granted),
            FromParent::Request { call } => return Saying::Request(call),
            FromParent::Cancel { call } => return Saying::Cancel(call),
            FromParent::Pass(passed) => ParentWord::Pass(passed, tail.clone()),
            FromParent::Preempted {
                job,
                attempt,
                left,
                preemption,
            } => ParentWord::Preempted(job, attempt, left, preemption),
            FromParent::Shrink {
                job,
                attempt,
                left,
                shrink,
            } => ParentWord::Shrink(job, attempt, left, shrink),
            FromParent::End {
                job,
                attempt,
                exception,
            } => ParentWord::End(job, attempt, Box::new(exception)),
            FromParent::Signal {
                job,
                attempt,
                signal,
            } => ParentWord::Signal(job, attempt, signal),
            FromParent::Program { signal } => ParentWord::Program(signal),
            FromParent::Pause {
                job,
                attempt,
                stop,
                userid,
            } => ParentWord::Pause(job, attempt, stop, userid),
            FromParent::Proceed {
                job,
                attempt,
                cores,
            } => ParentWord::Proceed(job, attempt, cores),
            FromParent::Limit {
                job,
                attempt,
                limit,
            } => ParentWord::Limit(job, attempt, limit),
            FromParent::Forget { job, attempt } => ParentWord::Forget(job, attempt),
        })
    }
}
