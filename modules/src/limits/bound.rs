//! What keeps a job from being let through, as whoever asks is told.

use eddy_wire::account::Excess;
use eddy_wire::plan::Reason;

use super::Whose;

/// Why a job is not let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    /// By whose limit.
    pub whose: Whose,
    /// In words and numbers.
    pub text: String,
    /// What is to become of it.
    pub excess: Excess,
    /// Whether it would be over it alone.
    pub alone: Alone,
    /// What becomes of what is taken of it.
    pub taken: Taken,
}

/// What becomes of what is taken of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Who has it gives it back.
    Held,
    /// It is used up until a period ends.
    Spent,
}

impl Bound {
    /// Whether it is refused, and not only kept back.
    pub fn refuses(&self) -> bool {
        self.excess == Excess::Refuse || self.alone == Alone::Over
    }

    /// Whether those behind it wait for it: its turn comes as others give back what they hold. What is
    /// spent nobody gives back, and who asks for more than there is has no turn.
    pub fn holds_up(&self) -> bool {
        self.taken == Taken::Held && self.alone == Alone::Within
    }

    /// Why a job waits that it keeps back. Who asks for more than there is of a limit waits for nothing.
    pub fn reason(self) -> Reason {
        let what = match self.alone {
            Alone::Within => self.text,
            Alone::Over => format!(
                "{}, so that it never starts as things are: it has to ask for less, or the limit to be more",
                self.text
            ),
        };
        Reason::Dependency { what }
    }
}

/// Whether a job would be over a limit even if nobody else were there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alone {
    Over,
    Within,
}
