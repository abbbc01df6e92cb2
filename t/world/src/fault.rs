//! What goes wrong, as data: the verbs of the world that a swarm draws and a script names.

use eddy_wire::time::Span;

use crate::nature::InstanceId;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// kill -9 of the root's leader; it is started again after this time.
    CrashLeader(Span),
    /// kill -9 of every shell of the root.
    CrashShells,
    /// kill -9 of the root's leader and of every shell of it.
    CrashBoth(Span),
    /// The connections between shells and leader are cut, and stay so for this time.
    Partition(Span),
    /// One shell's connection ends; it connects again.
    CutShell,
    /// A start that was sent to an earlier life of a shell reaches the present one.
    LateStart(InstanceId),
    /// One client's connection ends; it connects again.
    CutClient,
    /// One client goes away for good.
    ClientLeaves,
    /// The leader is told to end in order; it is started again this long after.
    StopLeader(Span),
    /// The disk is full for this time.
    DiskFull(Span),
    /// It has room again.
    DiskRoom,
    /// Somebody sets the wall clock by this much.
    StepClock(Span),
    /// The machine is suspended for this time.
    StopClock(Span),
    /// The next leader is given more ranks.
    Grow,
    /// The next shell that is launched dies at once.
    FailLaunch,
    /// The administrator of the root sets this policy.
    Policy(&'static str),
    /// The administrator of the root changes the configuration: so many of the pool, so many of the
    /// limited queue may run, with or without filters; by the file or over it.
    Configure(Drawn),
    /// The administrator of the root takes the node of its leader out of service for this time: what is led
    /// meanwhile is led elsewhere.
    Aside(Span),
    /// And lets it serve again.
    Back,
    /// Something of a tree, drawn when it strikes: nobody knows yet what there will be.
    Tree(TreeFault),
    /// The administrator of the root changes what there is, or what somebody asked for.
    Site(SiteFault),
}

/// What an administrator of a site does. Nothing goes wrong by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteFault {
    /// So many nodes come.
    Add(u32),
    /// A node is to go: nothing more starts there.
    Drain(u32, Holders),
    /// It goes as soon as nothing holds it; asked for so often.
    Remove(u32, u32),
    /// Some node is said to be dead, whether it is heard of or not: one that jobs are on, if there is one; which is
    /// drawn from this.
    Dead(u64, Gone),
    /// Some job that waits has another queue, account or QoS; which is drawn from this.
    Terms(u64),
}

/// What is wrong with a node that is said to be dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Its shell hangs.
    Hangs,
    /// It was switched off a moment before, and is switched on after this time.
    Off(Span),
}

/// What becomes of the jobs on a node that is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holders {
    /// They are waited for.
    Stay,
    /// They are cancelled.
    Cancelled,
}

/// A configuration that is drawn from the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// How much of the pool there is.
    pub pool: u64,
    /// How many of the limited queue may run.
    pub running: u32,
    /// What the queue without a limit requires of nodes.
    pub requires: &'static [&'static str],
    /// How many filters there are.
    pub filters: usize,
    /// Where it is from.
    pub source: Source,
}

/// Where a configuration is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The file, which is read again.
    File,
    /// Keys that are set over it.
    Keys,
}

/// What goes wrong in a world of machines. Who it hits is drawn from what there is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TreeFault {
    /// kill -9 of some leader; that of a root is started again after this time.
    Leader(Span),
    /// kill -9 of some agent; it is started again after this time.
    Agent(Span),
    /// kill -9 of some shell.
    Shell,
    /// kill -9 of all of a machine but the leader of the root; its agent comes again.
    Machine(Span),
    /// Some leader, agent or shell is stopped for this time, then goes on.
    Freeze(Span),
    /// Some leader of an instance inside is stopped, and does not go on.
    Hang,
    /// kill -9 of the root's leader, which is started again after this time; the leaders of its queue instances are
    /// stopped until it has been there for so long.
    Away {
        /// Until it is started.
        down: Span,
        /// And until they go on.
        late: Span,
    },
    /// One connection between ranks is cut: one end sees it now, the other after this time.
    CutLink(Span),
    /// One connection between ranks brings nothing for this time.
    StallLink(Span),
    /// Two machines do not reach each other for this time.
    Part(Span),
    /// One channel between a child and its parent is cut.
    CutChannel,
    /// One connection of some shell is cut.
    CutShell,
}
