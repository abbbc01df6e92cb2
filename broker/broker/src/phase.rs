//! What a rank is doing, from replay to its end: one total match.

/// The phases of a leader, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Folds what the journal holds; answers nobody.
    Replay,
    /// Takes work.
    Run,
    /// Ends what runs; takes no new work, answers questions.
    Stop,
    /// Has recorded its end; nothing more is recorded.
    Stopped,
}

/// What moves a rank from one phase to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Replay is over.
    Resume,
    /// Somebody asked for the end.
    Stop,
    /// The end is recorded.
    Stopped,
}

impl Phase {
    /// The phase after `step`; `None` when the step changes nothing.
    pub fn next(self, step: Step) -> Option<Phase> {
        match (self, step) {
            (Phase::Replay, Step::Resume) => Some(Phase::Run),
            (Phase::Run, Step::Stop) => Some(Phase::Stop),
            (Phase::Stop, Step::Stopped) => Some(Phase::Stopped),
            (Phase::Replay, Step::Stop | Step::Stopped) => None,
            (Phase::Run, Step::Resume | Step::Stopped) => None,
            (Phase::Stop, Step::Resume | Step::Stop) => None,
            (Phase::Stopped, Step::Resume | Step::Stop | Step::Stopped) => None,
        }
    }

    /// The word that `ping` shows.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Replay => "replay",
            Phase::Run => "run",
            Phase::Stop => "stop",
            Phase::Stopped => "stopped",
        }
    }
}
