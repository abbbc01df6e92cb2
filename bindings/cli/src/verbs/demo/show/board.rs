//! The tree of instances while a demo goes on: drawn over itself on a terminal, a line now
//! and then elsewhere.
//!
//! Called by `show`. It asks the instances and decides nothing.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::verbs::tree::draw::Style;
use crate::verbs::tree::gather::{Branch, Gatherer};
use crate::verbs::tree::{Width, table};
use crate::when;

use super::say;

/// How often the tree is drawn on a terminal.
const DRAWN_EVERY: Duration = Duration::from_millis(150);
/// How often a line is printed elsewhere.
const TOLD_EVERY: Duration = Duration::from_millis(1000);

/// The tree, drawn over itself on a terminal.
pub struct Board {
    terminal: bool,
    /// Lines to go up before the next drawing.
    drawn: usize,
    told: Option<Instant>,
}

impl Board {
    /// Nothing is drawn yet.
    pub fn new() -> Board {
        Board {
            terminal: std::io::stdout().is_terminal(),
            drawn: 0,
            told: None,
        }
    }

    fn pause(&self) -> Duration {
        if self.terminal {
            DRAWN_EVERY
        } else {
            TOLD_EVERY
        }
    }

    /// What follows is printed below.
    pub fn leave(&mut self) {
        self.drawn = 0;
    }

    /// Draws the tree where it is time to, with so many jobs that have ended.
    ///
    /// # Errors
    /// The reader went away.
    pub async fn draw(&mut self, gatherer: &Arc<Gatherer>, signed: usize) -> anyhow::Result<()> {
        if self.told.is_some_and(|told| told.elapsed() < self.pause()) {
            return Ok(());
        }
        self.told = Some(Instant::now());
        let tree = gatherer.look().await;
        if !self.terminal {
            say(&format!(
                "{signed} jobs have ended; {} instances in {} levels",
                count(&tree),
                depth(&tree)
            ));
            return Ok(());
        }
        let mut text = Vec::new();
        table(&tree, Style::of_locale(), when::now(), Width::Short).write(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let mut out = crate::output::stdout();
        if self.drawn > 0 {
            write!(out, "\x1b[{}A\x1b[J", self.drawn)?;
        }
        write!(out, "{text}")?;
        self.drawn = text.lines().count();
        Ok(out.flush()?)
    }
}

fn count(tree: &Branch) -> usize {
    1 + tree.children.iter().map(count).sum::<usize>()
}

fn depth(tree: &Branch) -> usize {
    1 + tree.children.iter().map(depth).max().unwrap_or(0)
}
