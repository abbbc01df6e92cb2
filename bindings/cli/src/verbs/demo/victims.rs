//! Whose leader is killed next, and how: by SIGKILL, as the kernel might.
//!
//! Called by `survive`. A shell starts a leader again only so often in a minute; then its
//! instance ends. Whose leader has been killed so often has its turn later.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::Context;
use eddy_client::Client;
use eddy_wire::services::instance::{Ping, PingRequest};
use eddy_wire::shell::{RESTART_WINDOW, RESTARTS_MAX};

use super::dice::Dice;
use super::ground::Ground;

/// How much longer than its shell this command remembers a kill: they count from the leader's end.
const MARGIN: Duration = Duration::from_secs(2);

/// An instance in the root.
struct Child {
    name: &'static str,
    client: Client,
    killed: Vec<Instant>,
}

impl Child {
    /// Whether its shell would start it again.
    fn comes_back(&self) -> bool {
        within_limit(&self.killed, Instant::now())
    }
}

/// Whether a leader that was killed at these times may be killed now.
fn within_limit(killed: &[Instant], now: Instant) -> bool {
    let window = Duration::from_micros(RESTART_WINDOW.0.unsigned_abs()) + MARGIN;
    let recent = killed.iter().filter(|at| now - **at < window);
    recent.count() < RESTARTS_MAX
}

/// Who of them is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Root,
    Child(usize),
}

/// All leaders of a tree.
pub struct Victims {
    root: Client,
    killed: usize,
    children: Vec<Child>,
    dice: Dice,
    /// Each has a turn before any has another.
    round: Vec<Turn>,
}

impl Victims {
    /// The root's and those of these instances.
    pub fn new(
        root: Client,
        children: impl IntoIterator<Item = (&'static str, Client)>,
    ) -> Victims {
        let child = |(name, client)| Child {
            name,
            client,
            killed: Vec::new(),
        };
        Victims {
            root,
            killed: 0,
            children: children.into_iter().map(child).collect(),
            dice: Dice::any(),
            round: Vec::new(),
        }
    }

    /// Kills one, waits until it is back, and says so.
    ///
    /// # Errors
    /// It does not come back.
    pub async fn strike(&mut self, ground: &mut Ground) -> anyhow::Result<String> {
        let (who, pid, died, client) = match self.next() {
            Turn::Root => {
                let (pid, died) = (ground.leader().pid(), Instant::now());
                ground.strike()?;
                self.killed += 1;
                ("root", pid, died, &self.root)
            }
            Turn::Child(at) => {
                let child = &mut self.children[at];
                let pid = kill(&child.client).await.context(child.name)?;
                let died = Instant::now();
                child.killed.push(died);
                (child.name, pid, died, &child.client)
            }
        };
        let pong = client.call::<Ping>(&PingRequest::default()).await;
        let pong = pong.with_context(|| format!("{who} after its leader was killed"))?;
        Ok(format!(
            "killed leader {pid} of {who}; epoch {} answered after {:.0} ms",
            pong.epoch,
            died.elapsed().as_secs_f64() * 1e3
        ))
    }

    /// How often each was killed.
    pub fn struck(&self) -> String {
        let children = self
            .children
            .iter()
            .map(|child| (child.name, child.killed.len()));
        let all = [("root", self.killed)].into_iter().chain(children);
        let parts: Vec<String> = all.map(|(name, times)| format!("{name} {times}")).collect();
        parts.join(", ")
    }

    fn next(&mut self) -> Turn {
        if self.round.is_empty() {
            let children = (0..self.children.len()).map(Turn::Child);
            self.round = [Turn::Root].into_iter().chain(children).collect();
            self.dice.shuffle(&mut self.round);
        }
        match self.round.pop() {
            Some(Turn::Child(at)) if self.children[at].comes_back() => Turn::Child(at),
            // The root's leader is started again by this command, as often as need be.
            _ => Turn::Root,
        }
    }
}

/// Kills the leader at the other end of a fresh connection: its number.
async fn kill(client: &Client) -> anyhow::Result<u32> {
    // One that is just being started again has nobody to accept.
    client.call::<Ping>(&PingRequest::default()).await?;
    let socket = UnixStream::connect(client.uri().path()).context("cannot reach the instance")?;
    let pid = rustix::net::sockopt::socket_peercred(&socket)?.pid;
    rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    Ok(pid.as_raw_nonzero().get().cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_leader_is_killed_oftener_than_its_shell_starts_it() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut killed: Vec<Instant> = Vec::new();
        for second in 0..600 {
            if within_limit(&killed, at(second)) {
                killed.push(at(second));
            }
        }
        let most = killed.windows(RESTARTS_MAX + 1);
        assert!(killed.len() > RESTARTS_MAX);
        for times in most {
            assert!(times[RESTARTS_MAX] - times[0] > Duration::from_secs(60));
        }
    }
}
