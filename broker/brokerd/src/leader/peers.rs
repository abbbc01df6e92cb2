//! The connections that the loop talks through: clients with what they asked
//! for, shells with the epoch they said.
//!
//! Used by the leader's loop and by each hosted rank. It bounds what one client may have outstanding
//! and waiting; who is over a bound is refused by its name, or closed. It does
//! not know what is asked.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use eddy_broker::{ClientId, Reply};
use eddy_wire::access::Access;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::Epoch;
use eddy_wire::message::{Message, Roles, Target, Type};
use eddy_wire::shell::ToShell;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

use super::rates::Rates;
use crate::clients::{Admission, Arrivals, Budget, LinkId, read_client, read_shell};
use crate::config::Limits;
use crate::socket::{self, Outlet};
use crate::speech;

/// Bytes that may wait for a shell that takes nothing for [`SHELL_STANDS`]; with one word more the connection
/// is closed, and what matters is told again after its hello. One that reads keeps it: what is told again may
/// be as much.
const SHELL_BYTES_MAX: u64 = 256 << 20;
const SHELL_STANDS: Duration = Duration::from_secs(5);
/// Bytes that may wait for one that reads: starts of so many jobs, of the longest jobspecs there are, as no node has at
/// a time.
const SHELL_BYTES_MOST: u64 = 2 << 30;

/// All connections of one user may have so many times as much waiting as one: more ends where the host's memory does.
const USER_REPLIES: u64 = 4;

/// All connections.
pub struct Peers {
    admission: Admission,
    limits: Limits,
    rates: Rates,
    budget: Budget,
    arrivals: Arrivals,
    next: u64,
    clients: HashMap<ClientId, Client>,
    links: HashMap<LinkId, Link>,
    by_epoch: HashMap<Epoch, LinkId>,
    /// What waited for all connections of a user when each was last looked at.
    unread: HashMap<u32, u64>,
    /// Outlets with something to flush.
    dirty: Vec<Rc<Outlet>>,
}

struct Client {
    uid: u32,
    roles: Roles,
    outlet: Rc<Outlet>,
    reading: JoinHandle<()>,
    outstanding: HashSet<u64>,
    /// What waited for it when it was last looked at; since then it may have read.
    unread: u64,
}

struct Link {
    outlet: Rc<Outlet>,
    reading: JoinHandle<()>,
    epoch: Option<Epoch>,
}

/// What a message of a client comes to.
pub enum Admitted {
    /// For the broker, stamped.
    Message(Message),
    /// Answered or dropped here.
    Done,
}

impl Peers {
    /// No connections yet.
    pub fn new(admission: Admission, limits: Limits, arrivals: Arrivals) -> Peers {
        Peers {
            admission,
            limits,
            rates: Rates::new(limits),
            budget: Budget::default(),
            arrivals,
            next: 0,
            clients: HashMap::new(),
            links: HashMap::new(),
            by_epoch: HashMap::new(),
            unread: HashMap::new(),
            dirty: Vec::new(),
        }
    }

    /// These limits count from now on; whoever is there stays.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.rates.set_limits(limits);
    }

    /// These are admitted from now on: what each client may do is what they may. Returns those who may
    /// nothing any more, whom the caller closes; none where the same were admitted before.
    pub fn readmit(&mut self, access: &Access) -> Option<Vec<ClientId>> {
        self.admission.learn(access).then(|| {
            for client in self.clients.values_mut() {
                client.roles = self.admission.roles(client.uid);
            }
            let out = self.clients.iter();
            let out = out.filter(|(_, client)| client.roles == Roles::NONE);
            out.map(|(id, _)| *id).collect()
        })
    }

    /// A client connected; refused over the limit `clients`.
    pub fn add_client(&mut self, stream: UnixStream, uid: u32) {
        let most = self.limits.clients;
        if self.clients.len() as u64 >= most {
            let text = format!("limit `clients` of {most} connections is reached");
            tracing::warn!(uid, "{text}");
            let refusal = Refusal::new(Code::Busy, text);
            tokio::task::spawn_local(async move {
                crate::clients::refuse(&stream, &refusal).await;
            });
            return;
        }
        let roles = self.admission.roles(uid);
        if let Err(text) = self.rates.connects(uid, roles) {
            tracing::warn!(uid, "{text}");
            let refusal = Refusal::new(Code::Denied, text);
            tokio::task::spawn_local(async move {
                crate::clients::refuse(&stream, &refusal).await;
            });
            return;
        }
        let (inlet, outlet) = match socket::both(stream) {
            Ok(both) => both,
            Err(error) => {
                self.rates.leaves(uid, 0);
                return tracing::error!(%error, "a client cannot be watched");
            }
        };
        self.next += 1;
        let id = ClientId(self.next);
        let purse = self.budget.of(uid, roles);
        let reading = read_client(id, inlet, purse, self.arrivals.clone());
        let outstanding = HashSet::new();
        self.clients.insert(
            id,
            Client {
                uid,
                roles,
                outlet,
                reading,
                outstanding,
                unread: 0,
            },
        );
    }

    /// A shell connected; it is nobody's until its hello.
    pub fn add_shell(&mut self, stream: UnixStream) {
        let (inlet, outlet) = match socket::both(stream) {
            Ok(both) => both,
            Err(error) => return tracing::error!(%error, "a shell cannot be watched"),
        };
        self.next += 1;
        let id = LinkId(self.next);
        let reading = read_shell(id, inlet, self.arrivals.clone());
        self.links.insert(
            id,
            Link {
                outlet,
                reading,
                epoch: None,
            },
        );
    }

    /// Stamps a client's message with what the kernel said of it, and holds it
    /// against the limit `outstanding`.
    pub fn admit(&mut self, id: ClientId, mut message: Message) -> Admitted {
        let Some(client) = self.clients.get_mut(&id) else {
            return Admitted::Done;
        };
        (message.uid, message.roles) = (client.uid, client.roles);
        let most = self.limits.outstanding;
        match message.kind {
            Type::Request if client.outstanding.len() as u64 >= most => {
                let text = format!("limit `outstanding` of {most} unanswered requests is reached");
                let refusal = Refusal::new(Code::Busy, text);
                self.refuse(id, message.matchtag, &refusal);
                Admitted::Done
            }
            Type::Request if !client.outstanding.insert(message.matchtag) => {
                let text = format!("match number {} is outstanding already", message.matchtag);
                self.refuse(id, message.matchtag, &Refusal::invalid(text));
                Admitted::Done
            }
            Type::Request => match self.rates.asks(Instant::now(), client.uid, client.roles) {
                Ok(()) => Admitted::Message(message),
                Err(text) => {
                    client.outstanding.remove(&message.matchtag);
                    let refusal = Refusal::new(Code::Busy, text);
                    self.refuse(id, message.matchtag, &refusal);
                    Admitted::Done
                }
            },
            Type::Cancel => {
                if client.outstanding.remove(&message.matchtag) {
                    self.rates.answered(client.uid);
                }
                Admitted::Message(message)
            }
            Type::Reply | Type::Part | Type::Refused => Admitted::Message(message),
        }
    }

    fn refuse(&mut self, id: ClientId, matchtag: u64, refusal: &Refusal) {
        let message = Message::answer(Type::Refused, matchtag, refusal);
        if let Some(client) = self.clients.get(&id) {
            // A refusal is far below any limit.
            let _ = client.outlet.put(&message);
            self.dirty.push(Rc::clone(&client.outlet));
        }
    }

    /// Sends an answer. A client that does not read and must be closed: one for which so much waits already
    /// that it has not taken, or the one of a user for whose connections too much waits together. What was put in
    /// this turn it was not sent yet.
    pub fn reply(&mut self, reply: Reply) -> Option<ClientId> {
        let Reply {
            to,
            kind,
            body,
            tail,
        } = reply;
        let client = self.clients.get_mut(&to.client)?;
        if matches!(kind, Type::Reply | Type::Refused) && client.outstanding.remove(&to.matchtag) {
            self.rates.answered(client.uid);
        }
        let message = Message {
            kind,
            topic: String::new(),
            uid: u32::MAX,
            roles: Roles::NONE,
            matchtag: to.matchtag,
            target: Target::Service,
            body,
            tail,
        };
        let most = self.limits.reply_bytes;
        let waiting = waiting(&client.outlet, most);
        if let Err(error) = client.outlet.put(&message) {
            if client.outstanding.remove(&to.matchtag) {
                self.rates.answered(client.uid);
            }
            let refusal = Refusal::new(Code::TooLarge, format!("the answer: {error}"));
            self.refuse(to.client, to.matchtag, &refusal);
            return None;
        }
        self.dirty.push(Rc::clone(&client.outlet));
        if waiting > most {
            tracing::warn!(
                client = to.client.0,
                waiting,
                "limit `reply_bytes` of {most} is reached; the client does not read and is closed"
            );
            client.outlet.discard();
            return Some(to.client);
        }
        self.hold_user(to.client)
    }

    /// Counts what waits for a user's connections after one of them was sent something; which of them is to be
    /// closed where that is too much: the one for which most waits. What others have read is looked up only when
    /// it seems to be. The owner and admins are not held to it.
    fn hold_user(&mut self, id: ClientId) -> Option<ClientId> {
        let client = self.clients.get_mut(&id)?;
        if client.roles.may_administer() {
            return None;
        }
        let uid = client.uid;
        let total = self.unread.entry(uid).or_default();
        client.count(total);
        let most = self.limits.reply_bytes.saturating_mul(USER_REPLIES);
        if *total <= most {
            return None;
        }
        let own = self.clients.iter_mut().filter(|(_, one)| one.uid == uid);
        let mut largest = (0, id);
        for (id, client) in own {
            // The reading end tells of an error.
            let _ = client.outlet.flush();
            client.count(total);
            largest = largest.max((client.unread, *id));
        }
        let (waiting, closed) = (*total, largest.1);
        if waiting <= most {
            return None;
        }
        tracing::warn!(
            uid,
            client = closed.0,
            waiting,
            "limit `user reply bytes` of {most} is reached; the client for which most waits is closed"
        );
        if let Some(client) = self.clients.get(&closed) {
            client.outlet.discard();
        }
        Some(closed)
    }

    /// The connection is over; true if it was not known to be before.
    pub fn remove_client(&mut self, id: ClientId) -> bool {
        let client = self.clients.remove(&id);
        if let Some(client) = &client {
            client.reading.abort();
            self.rates.leaves(client.uid, client.outstanding.len());
            if let Some(total) = self.unread.get_mut(&client.uid) {
                *total -= client.unread;
                if *total == 0 {
                    self.unread.remove(&client.uid);
                }
            }
        }
        client.is_some()
    }

    /// A shell said which life it is. Returns the connection that said the same
    /// before, which is over.
    pub fn hello(&mut self, id: LinkId, epoch: Epoch) -> Option<LinkId> {
        if let Some(link) = self.links.get_mut(&id) {
            link.epoch = Some(epoch);
        }
        self.by_epoch
            .insert(epoch, id)
            .filter(|earlier| *earlier != id)
    }

    /// Which life of a shell speaks on this connection.
    pub fn epoch_of(&self, id: LinkId) -> Option<Epoch> {
        self.links.get(&id)?.epoch
    }

    /// The connection of that life of a shell.
    pub fn link_of(&self, epoch: Epoch) -> Option<LinkId> {
        self.by_epoch.get(&epoch).copied()
    }

    /// Whether a connection of that life of a shell stands.
    pub fn has_shell(&self, epoch: Epoch) -> bool {
        self.by_epoch.contains_key(&epoch)
    }

    /// The connection is over; which life of a shell is now without one.
    pub fn remove_shell(&mut self, id: LinkId) -> Option<Epoch> {
        let link = self.links.remove(&id)?;
        link.reading.abort();
        let epoch = link.epoch?;
        if self.by_epoch.get(&epoch) == Some(&id) {
            self.by_epoch.remove(&epoch);
            return Some(epoch);
        }
        None
    }

    /// Tells a shell; lost when it is not connected. The connection to close
    /// when the shell does not read.
    pub fn tell_shell(&mut self, epoch: Epoch, word: ToShell) -> Option<LinkId> {
        let id = *self.by_epoch.get(&epoch)?;
        let link = self.links.get(&id)?;
        let waiting = waiting(&link.outlet, SHELL_BYTES_MAX);
        let most = match link.outlet.stands() < SHELL_STANDS {
            true => SHELL_BYTES_MOST,
            false => SHELL_BYTES_MAX,
        };
        match link.outlet.put_with(|out| speech::put_to_shell(out, word)) {
            Ok(_) if waiting <= most => {
                self.dirty.push(Rc::clone(&link.outlet));
                None
            }
            Ok(_) => {
                tracing::error!(
                    epoch = epoch.0,
                    waiting,
                    "the shell does not read and is closed"
                );
                link.outlet.discard();
                Some(id)
            }
            Err(error) => {
                tracing::error!(epoch = epoch.0, %error, "a word to the shell is dropped");
                None
            }
        }
    }

    /// Sends what was put since the last time: once for each connection.
    pub fn flush(&mut self) {
        for outlet in self.dirty.drain(..) {
            // Those put several times are empty the second time. An error is
            // seen by the reading end, which tells.
            if outlet.waiting() > 0 {
                let _ = outlet.flush();
            }
        }
    }

    /// Bytes that wait for anybody.
    pub fn waiting(&self) -> usize {
        let clients = self.clients.values().map(|client| client.outlet.waiting());
        clients
            .chain(self.links.values().map(|link| link.outlet.waiting()))
            .sum()
    }
}

impl Client {
    /// Looks how much waits for it now, which is a part of the total.
    fn count(&mut self, total: &mut u64) {
        let unread = self.outlet.waiting() as u64;
        *total = *total - self.unread + unread;
        self.unread = unread;
    }
}

/// How much waits for one who may have so much waiting. What it was not sent yet it cannot have taken: it is sent
/// that first.
fn waiting(outlet: &Rc<Outlet>, most: u64) -> u64 {
    if outlet.waiting() as u64 > most {
        // The reading end tells of an error.
        let _ = outlet.flush();
    }
    outlet.waiting() as u64
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use eddy_broker::Caller;
    use eddy_wire::access::Users;
    use tokio::io::AsyncReadExt;
    use tokio::sync::mpsc;

    use super::*;

    const BYTES: usize = 1 << 20;
    const OWNER: u32 = 0;
    const USER: u32 = 1001;

    /// An instance that admits everybody, where 4 MiB may wait for a connection.
    fn peers(home: &Path) -> Peers {
        let admission = Admission::own(OWNER, home, home);
        let limits = Limits {
            reply_bytes: 4 * BYTES as u64,
            ..Limits::default()
        };
        let (arrivals, _) = mpsc::channel(1);
        let mut peers = Peers::new(admission, limits, arrivals);
        peers.readmit(&Access {
            users: Users::All,
            ..Access::default()
        });
        peers
    }

    fn connect(peers: &mut Peers, uid: u32) -> UnixStream {
        let (here, there) = UnixStream::pair().expect("two sockets");
        peers.add_client(here, uid);
        there
    }

    /// An answer of 1 MiB for that client; who is closed for it.
    fn answer(peers: &mut Peers, client: u64) -> Option<ClientId> {
        let to = Caller {
            client: ClientId(client),
            matchtag: 1,
        };
        let mut reply = Reply::new(to, Type::Part, &());
        reply.tail = vec![0; BYTES].into();
        let closed = peers.reply(reply);
        peers.flush();
        closed
    }

    fn in_a_loop(check: impl AsyncFnOnce(Peers)) {
        let home = tempfile::tempdir().expect("a directory");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime.expect("a runtime"), async {
            check(peers(home.path())).await;
        });
    }

    #[test]
    fn what_waits_for_all_connections_of_a_user_is_held_to_a_limit() {
        in_a_loop(async |mut peers| {
            let mut idle: Vec<UnixStream> = (0..8).map(|_| connect(&mut peers, USER)).collect();
            let _other = connect(&mut peers, USER + 1);
            let _owner = connect(&mut peers, OWNER);
            assert_eq!(answer(&mut peers, 1), None);
            let closed = (0..20).find_map(|number| answer(&mut peers, 1 + number % 8));
            assert_eq!(
                closed,
                Some(ClientId(1)),
                "16 MiB may wait for the user, and it has most"
            );
            assert!(peers.remove_client(ClientId(1)));
            let mut got = Vec::new();
            let read = idle[0].read_to_end(&mut got).await;
            read.expect("an end: what waited was not kept");
            assert!(got.len() < BYTES, "what the kernel had already");
            // Nobody else is concerned.
            for client in [9, 10, 9, 10] {
                assert_eq!(answer(&mut peers, client), None);
            }
        });
    }

    #[test]
    fn who_reads_is_not_counted_with_what_was_read() {
        in_a_loop(async |mut peers| {
            let mut there = connect(&mut peers, USER);
            let mut read = vec![0; 64 << 10];
            for _ in 0..40 {
                assert_eq!(answer(&mut peers, 1), None);
                let mut left = BYTES;
                while left > 0 {
                    left = left.saturating_sub(there.read(&mut read).await.expect("a socket"));
                }
            }
        });
    }
}
