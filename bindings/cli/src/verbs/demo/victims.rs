//! Whose leader is killed next, or which node's agent, and how: by SIGKILL, as the kernel might.
//!
//! Called by `survive`. A shell starts a leader again only so often in a minute; then its
//! instance ends. Whose leader has been killed so often has its turn later, and so has an agent.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use eddy_brokerd::agent::LOCK_NAME;
use eddy_client::Client;
use eddy_wire::id::Rank;
use eddy_wire::message::Target;
use eddy_wire::services::instance::{Ping, PingRequest};
use eddy_wire::shell::{RESTART_WINDOW, RESTARTS_MAX};

use super::dice::Dice;
use super::ground::{Ground, LOOK};
use super::processes;

/// How long a node may take until its rank answers again.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
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

/// The agent of a node of the root.
struct Agent {
    rank: u32,
    statedir: PathBuf,
    killed: Vec<Instant>,
}

/// Whether a leader or an agent that was killed at these times may be killed now.
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
    Agent(usize),
}

/// All leaders of a tree, and the agents of its nodes.
pub struct Victims {
    root: Client,
    killed: usize,
    children: Vec<Child>,
    agents: Vec<Agent>,
    dice: Dice,
    /// Each has a turn before any has another.
    round: Vec<Turn>,
}

impl Victims {
    /// The root's, those of these instances, and agents on these nodes by their state directories.
    pub fn new(
        root: Client,
        children: impl IntoIterator<Item = (&'static str, Client)>,
        nodes: impl IntoIterator<Item = (u32, PathBuf)>,
    ) -> Victims {
        let agent = |(rank, statedir)| Agent {
            rank,
            statedir,
            killed: Vec::new(),
        };
        let child = |(name, client)| Child {
            name,
            client,
            killed: Vec::new(),
        };
        Victims {
            root,
            killed: 0,
            children: children.into_iter().map(child).collect(),
            agents: nodes.into_iter().map(agent).collect(),
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
            Turn::Agent(at) => return self.agents[at].strike(&self.root, ground).await,
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
        let leaders: Vec<String> = all.map(|(name, times)| format!("{name} {times}")).collect();
        let agent = |one: &Agent| format!("node {} {}", one.rank, one.killed.len());
        let agents: Vec<String> = self.agents.iter().map(agent).collect();
        format!(
            "leaders killed: {}; agents killed: {}",
            leaders.join(", "),
            agents.join(", ")
        )
    }

    fn next(&mut self) -> Turn {
        if self.round.is_empty() {
            let children = (0..self.children.len()).map(Turn::Child);
            let agents = (0..self.agents.len()).map(Turn::Agent);
            self.round = [Turn::Root]
                .into_iter()
                .chain(children)
                .chain(agents)
                .collect();
            self.dice.shuffle(&mut self.round);
        }
        match self.round.pop() {
            Some(Turn::Child(at)) if self.children[at].comes_back() => Turn::Child(at),
            Some(Turn::Agent(at)) if self.agents[at].comes_back() => Turn::Agent(at),
            // The root's leader is started again by this command, as often as need be.
            _ => Turn::Root,
        }
    }
}

impl Agent {
    /// Whether the leader would start it again at once.
    fn comes_back(&self) -> bool {
        within_limit(&self.killed, Instant::now())
    }

    /// Kills it, waits until the next one's rank answers, and says so. Its tasks are its shell's, and go on.
    async fn strike(&mut self, root: &Client, ground: &Ground) -> anyhow::Result<String> {
        let (rank, until) = (self.rank, Instant::now() + ANSWERS_WITHIN);
        let pid = self.pid()?;
        ensure!(
            processes::kill(pid, ground.path()),
            "agent {pid} of node {rank} is not there"
        );
        let died = Instant::now();
        self.killed.push(died);
        while !self.answers_anew(pid, root).await {
            ensure!(
                Instant::now() < until,
                "node {rank} did not come back after its agent was killed"
            );
            tokio::time::sleep(LOOK).await;
        }
        Ok(format!(
            "killed agent {pid} of node {rank}; the next one answered after {:.0} ms",
            died.elapsed().as_secs_f64() * 1e3
        ))
    }

    /// The process that has the lock of the rank.
    fn pid(&self) -> anyhow::Result<u32> {
        pid_in(&self.statedir.join(LOCK_NAME))
    }

    /// Whether another than this one hosts the rank, and the leader reaches it.
    async fn answers_anew(&self, before: u32, root: &Client) -> bool {
        let request = PingRequest::default();
        let asked = Target::Rank(Rank(self.rank));
        self.pid().is_ok_and(|pid| pid != before)
            && root
                .call_target::<Ping>(&request, asked)
                .await
                .is_ok_and(|pong| pong.rank == Rank(self.rank))
    }
}

/// The number at the beginning of a lock.
fn pid_in(lock: &Path) -> anyhow::Result<u32> {
    let text = std::fs::read_to_string(lock).with_context(|| lock.display().to_string())?;
    let pid = text.split_whitespace().next().unwrap_or_default();
    pid.parse().with_context(|| lock.display().to_string())
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
