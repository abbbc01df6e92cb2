//! What goes wrong, as data: the verbs of the world that a swarm draws and a script names.

use eddy_wire::time::Span;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// kill -9 of the leader; it is started again after this time.
    CrashLeader(Span),
    /// kill -9 of every shell.
    CrashShells,
    /// kill -9 of the leader and of every shell.
    CrashBoth(Span),
    /// The connections between shells and leader are cut, and stay so for this time.
    Partition(Span),
    /// One shell's connection ends; it connects again.
    CutShell,
    /// A start that was sent to an earlier life of a shell reaches the present one.
    LateStart,
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
}
