//! What must be true across instances and across ranks.

use std::collections::{BTreeMap, VecDeque};

use eddy_wire::id::Rank;
use eddy_wire::services::child::ChildOf;
use eddy_wire::tree::{Address, Letter, Tenure};

use crate::nature::InstanceId;

/// Which way letters go between the leader and a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Up,
    Down,
}

/// The judge of what is between instances and between ranks.
#[derive(Debug, Default)]
pub struct Kin {
    parents: BTreeMap<InstanceId, (InstanceId, ChildOf)>,
    /// Letters of the present tenure of each rank that have not come.
    letters: BTreeMap<(InstanceId, Rank, Way), (Tenure, VecDeque<Letter>)>,
    finding: Option<String>,
}

impl Kin {
    /// The first broken promise.
    pub fn finding(&self) -> Option<&str> {
        self.finding.as_deref()
    }

    fn fail(&mut self, sentence: String) {
        self.finding.get_or_insert(sentence);
    }

    /// An instance came up as this job of its parent.
    pub fn born(&mut self, id: InstanceId, parent: InstanceId, child: ChildOf) {
        self.parents.insert(id, (parent, child));
    }

    /// A rank hands a letter to its overlay.
    pub fn sent(&mut self, id: InstanceId, letter: &Letter) {
        let Some(key) = way(id, letter) else { return };
        let (tenure, waiting) = self.letters.entry(key).or_default();
        if *tenure < letter.tenure {
            (*tenure, *waiting) = (letter.tenure, VecDeque::new());
        }
        if *tenure == letter.tenure {
            waiting.push_back(letter.clone());
        }
    }

    /// An overlay hands a letter to its rank: the next of its tenure.
    pub fn came(&mut self, id: InstanceId, rank: Rank, letter: &Letter) {
        let Some(key) = way(id, letter) else { return };
        let Some((tenure, waiting)) = self.letters.get_mut(&key) else {
            return self.fail(format!("a letter came to rank {rank} that nobody sent"));
        };
        if *tenure != letter.tenure {
            return;
        }
        match waiting.pop_front() {
            Some(next) if next == *letter => {}
            Some(next) => {
                let (given, expected) = (&letter.word, &next.word);
                let sentence = format!(
                    "letters of one tenure came to rank {rank} out of order or with a hole: \
                     {given:?}, not {expected:?}"
                );
                self.fail(sentence);
            }
            None => self.fail(format!(
                "a letter came to rank {rank} a second time: {:?}",
                letter.word
            )),
        }
    }
}

/// The way of a letter between the leader and a rank within a tenure.
fn way(id: InstanceId, letter: &Letter) -> Option<(InstanceId, Rank, Way)> {
    match letter.to {
        _ if letter.tenure.number == 0 => None,
        Address::Rank(rank) => Some((id, rank, Way::Down)),
        Address::Leader => Some((id, letter.from, Way::Up)),
        Address::Next | Address::Below => None,
    }
}
