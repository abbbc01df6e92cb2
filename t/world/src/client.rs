//! A client program: makes calls, outlives leaders, repeats what was not answered.

use std::collections::BTreeMap;

use eddy_wire::id::{JobId, Rank};
use eddy_wire::message::{Message, Roles, Type};
use eddy_wire::services::job::Submitted;
use uuid::Uuid;

use crate::broken;
use crate::call::{About, Call, Extent, Repeat};
use crate::nature::{Delay, Happening, InstanceId, Nature, Parcel};
use crate::pipe::{PipeId, Side};

/// User id of the instance's owner.
pub const OWNER: u32 = 1000;

/// One client.
#[derive(Debug)]
pub struct Client {
    /// Its number.
    pub number: usize,
    /// Its user.
    pub user: u32,
    /// The instance it talks to.
    pub instance: InstanceId,
    /// At which rank.
    pub rank: Rank,
    /// Whether it is there to put things right.
    pub is_keeper: bool,
    /// The jobs it was told of.
    pub jobs: Vec<JobId>,
    /// Jobs in instances that are jobs of its own (which, and which job there) that others of its user were
    /// told of.
    pub inside: Vec<(JobId, JobId)>,
    /// What it was told of why jobs wait and what was used, until somebody takes it.
    pub heard: Vec<Message>,
    /// Submissions it made, to be made again now and then.
    pub submissions: Vec<Call>,
    link: Link,
    calls: BTreeMap<u64, Call>,
    next_tag: u64,
}

/// Its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    None,
    Up(PipeId),
    /// It went away for good.
    Gone,
}

impl Client {
    /// A client that has not connected.
    pub fn new(number: usize, user: u32, instance: InstanceId) -> Client {
        Client {
            number,
            user,
            instance,
            rank: Rank(0),
            is_keeper: false,
            jobs: Vec::new(),
            inside: Vec::new(),
            heard: Vec::new(),
            submissions: Vec::new(),
            link: Link::None,
            calls: BTreeMap::new(),
            next_tag: 0,
        }
    }

    /// Whether it went away for good.
    pub fn is_gone(&self) -> bool {
        self.link == Link::Gone
    }

    /// Whether it has no connection and wants one.
    pub fn wants_link(&self) -> bool {
        self.link == Link::None
    }

    /// Its connection.
    pub fn pipe(&self) -> Option<PipeId> {
        match self.link {
            Link::Up(pipe) => Some(pipe),
            Link::None | Link::Gone => None,
        }
    }

    /// Calls that should end and have not.
    pub fn unanswered(&self) -> impl Iterator<Item = &Call> {
        self.calls
            .values()
            .filter(|call| call.extent == Extent::Ends)
    }

    /// Makes a call; sent now or once there is a connection.
    pub fn call(&mut self, nature: &mut Nature, call: Call) {
        if self.is_gone() {
            return;
        }
        self.next_tag += 1;
        let tag = self.next_tag;
        self.send(nature, tag, &call);
        self.calls.insert(tag, call);
    }

    /// The same, with a key of its own if it may have one.
    pub fn call_once(&mut self, nature: &mut Nature, call: Call) {
        let key = u128::from(self.number as u64) << 64 | u128::from(self.next_tag + 1);
        self.call(nature, call.once(Uuid::from_u128(key)));
    }

    fn send(&self, nature: &mut Nature, tag: u64, call: &Call) {
        let Link::Up(pipe) = self.link else { return };
        let roles = match self.user {
            OWNER => Roles::OWNER.or(Roles::USER),
            _ if broken::is_open(nature.broken, call.topic) => Roles::OWNER.or(Roles::USER),
            _ => Roles::USER,
        };
        let mut message = Message::answer(Type::Request, tag, &());
        message.topic = call.topic.to_owned();
        message.body = call.body.clone();
        // As the driver stamps them from the kernel's word.
        (message.uid, message.roles) = (self.user, roles);
        nature.send(
            pipe,
            Side::Server,
            Parcel::FromClient(message, call.about.clone()),
        );
    }

    /// It takes one call back.
    pub fn cancel(&mut self, nature: &mut Nature) {
        let Some((tag, call)) = self.calls.pop_first() else {
            return;
        };
        if let (Link::Up(pipe), Repeat::Again) = (self.link, call.repeat) {
            let message = Message::answer(Type::Cancel, tag, &());
            nature.send(
                pipe,
                Side::Server,
                Parcel::FromClient(message, About::Other),
            );
        }
    }

    /// It takes a call back that was not heard.
    pub fn take_back(&mut self, matchtag: u64) {
        self.calls.remove(&matchtag);
    }

    /// Its connection stands: everything unanswered is asked again.
    pub fn connected(&mut self, nature: &mut Nature, pipe: PipeId) {
        self.link = Link::Up(pipe);
        for (tag, call) in &self.calls {
            self.send(nature, *tag, call);
        }
    }

    /// Its connection ended.
    pub fn lost(&mut self, nature: &mut Nature) {
        if let Link::Up(_) = self.link {
            self.link = Link::None;
            self.calls.retain(|_, call| call.repeat == Repeat::Again);
            nature.later(Delay::Retry, Happening::ClientConnects(self.number));
        }
    }

    /// It goes away for good.
    pub fn leave(&mut self) {
        self.link = Link::Gone;
        self.calls.clear();
    }

    /// The call that an answer is to.
    pub fn asked(&self, message: &Message) -> Option<&Call> {
        self.calls.get(&message.matchtag)
    }

    /// An answer came: the last one ends its call.
    pub fn receive(&mut self, message: &Message) {
        if message.kind == Type::Part {
            return;
        }
        let Some(call) = self.calls.remove(&message.matchtag) else {
            return;
        };
        if let (About::Why | About::Usage, Type::Reply) = (&call.about, message.kind) {
            self.heard.push(message.clone());
        }
        if let (About::Submit { .. }, Type::Reply) = (&call.about, message.kind)
            && let Ok(told) = message.parse::<Submitted>()
        {
            for index in 0..u64::from(told.count) {
                let job = JobId(told.first.0 + index);
                if !self.jobs.contains(&job) {
                    self.jobs.push(job);
                }
            }
        }
    }
}
