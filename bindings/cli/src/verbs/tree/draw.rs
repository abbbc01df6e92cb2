//! Trees as text: lines with branches before them.
//!
//! Used by `eddy tree` and `eddy overlay status -v`. It knows nothing of what
//! it draws.

use crate::ids::Spelling;

/// Which characters branches are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Of lines.
    Boxes,
    /// Of ASCII.
    Ascii,
}

impl Style {
    /// What the locale of this process can show.
    pub fn of_locale() -> Style {
        match Spelling::of_locale() {
            Spelling::Unicode => Style::Boxes,
            Spelling::Ascii => Style::Ascii,
        }
    }

    /// Before: a branch that goes on, one that ended; at: one of several, the last.
    fn parts(self) -> [&'static str; 4] {
        match self {
            Style::Boxes => ["│   ", "    ", "├── ", "└── "],
            Style::Ascii => ["|   ", "    ", "|-- ", "`-- "],
        }
    }
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Above all others: nothing is drawn before it.
    Top,
    /// One of several, with more behind it.
    Between,
    /// The last of them.
    Last,
}

impl Place {
    /// The place of the node `at`, from 0, among `count`.
    pub fn among(at: usize, count: usize) -> Place {
        match at + 1 < count {
            true => Place::Between,
            false => Place::Last,
        }
    }
}

/// A tree being drawn from the top.
pub struct Lines {
    style: Style,
    places: Vec<Place>,
    done: Vec<String>,
}

impl Lines {
    /// Nothing yet.
    pub fn new(style: Style) -> Lines {
        Lines {
            style,
            places: Vec::new(),
            done: Vec::new(),
        }
    }

    /// The next node is one below, at this place.
    pub fn enter(&mut self, place: Place) {
        self.places.push(place);
    }

    /// Back to the node above.
    pub fn leave(&mut self) {
        self.places.pop();
    }

    /// What stands before the text of this node.
    pub fn branches(&self) -> String {
        let [on, ended, one, last] = self.style.parts();
        let deepest = self.places.len().saturating_sub(1);
        let part = |(at, place): (usize, &Place)| match (place, at == deepest) {
            (Place::Top, _) => "",
            (Place::Between, true) => one,
            (Place::Last, true) => last,
            (Place::Between, false) => on,
            (Place::Last, false) => ended,
        };
        self.places.iter().enumerate().map(part).collect()
    }

    /// The line of this node.
    pub fn push(&mut self, text: String) {
        self.done.push(self.branches() + &text);
    }

    /// All lines.
    pub fn done(self) -> Vec<String> {
        self.done
    }
}
