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
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    Between,
    Last,
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

    /// The next node is one below; whether it is the last there, and whether it
    /// stands at the top.
    pub fn enter(&mut self, is_last: bool, is_top: bool) {
        self.places.push(match (is_top, is_last) {
            (true, _) => Place::Top,
            (false, true) => Place::Last,
            (false, false) => Place::Between,
        });
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
