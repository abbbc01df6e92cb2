//! Graphs in a line of text: `cluster[1] rack[8] node[32] socket[2] core[24] gpu[2]
//! memory[64GiB]`.
//!
//! For tests, benches and simulations, and for sites that would rather write a
//! line than a document. The form is in doc/protocol/resource-graph.md. It reads
//! text and makes a draft, nothing else.

use std::collections::BTreeMap;

use eddy_wire::idset::Idset;
use eddy_wire::jobspec::parse_bytes;
use petgraph::graph::NodeIndex;
use std::sync::Arc;
use thiserror::Error;

use super::containment::Graph;
use super::draft::{Draft, GraphError, Size, Thing, VERTICES_MAX};

/// How deep braces may nest.
const DEPTH_MAX: usize = 32;

/// Why a text does not make a graph. Places count bytes from 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GeneratorError {
    /// Not what belongs there.
    #[error("position {at}: has `{given}`; allowed is {allowed}")]
    Unexpected {
        /// Where.
        at: usize,
        /// What is there.
        given: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A count of nothing, or of too much.
    #[error("position {at}: count `{given}`; allowed are 1 to {VERTICES_MAX}")]
    Count {
        /// Where.
        at: usize,
        /// As given.
        given: String,
    },
    /// A size that is none.
    #[error(
        "position {at}: size `{given}`; allowed is a whole number, or one with a unit of bytes"
    )]
    Size {
        /// Where.
        at: usize,
        /// As given.
        given: String,
    },
    /// More vertices than a graph may have.
    #[error("comes to more than {VERTICES_MAX} vertices")]
    TooMany,
    /// Braces in braces in braces.
    #[error("position {at}: braces nest deeper than {DEPTH_MAX}")]
    TooDeep {
        /// Where.
        at: usize,
    },
    /// What it makes is not a graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// One word: so many of a type, and what is in each.
#[derive(Debug)]
struct Word {
    kind: String,
    count: u32,
    size: Size,
    properties: BTreeMap<String, String>,
    inner: Vec<Word>,
    form: Form,
}

/// How what is in a word is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Whatever follows is within.
    Open,
    /// It is in braces.
    Braced,
    /// Nothing is within.
    Leaf,
}

impl Graph {
    /// The graph that a line makes.
    ///
    /// # Errors
    /// [`GeneratorError`] with the position of what is wrong.
    pub fn generate(text: &str) -> Result<Graph, GeneratorError> {
        let mut reader = Reader { text, at: 0 };
        let words = reader.words(0)?;
        reader.end()?;
        let mut maker = Maker {
            draft: Draft::new(),
            next: BTreeMap::new(),
        };
        for word in &words {
            maker.word(word, None)?;
        }
        Ok(maker.draft.finish()?)
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        let space = rest
            .find(|c: char| !c.is_whitespace())
            .unwrap_or(rest.len());
        self.at += space;
    }

    fn end(&self) -> Result<(), GeneratorError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("a word like rack[8]")),
        }
    }

    fn unexpected(&self, allowed: &'static str) -> GeneratorError {
        let given = self.peek().map_or("its end".to_owned(), |c| c.to_string());
        GeneratorError::Unexpected {
            at: self.at,
            given,
            allowed,
        }
    }

    /// Words up to the end or a closing brace. Each open word contains all behind it.
    fn words(&mut self, depth: usize) -> Result<Vec<Word>, GeneratorError> {
        let mut flat = Vec::new();
        loop {
            self.skip_space();
            match self.peek() {
                None | Some('}') => break,
                Some(_) => flat.push(self.word(depth)?),
            }
        }
        // From the back: what follows an open word goes into it.
        let mut words: Vec<Word> = Vec::new();
        for mut word in flat.into_iter().rev() {
            if word.form == Form::Open {
                word.inner = std::mem::take(&mut words);
            }
            words.insert(0, word);
        }
        Ok(words)
    }

    fn word(&mut self, depth: usize) -> Result<Word, GeneratorError> {
        let kind = self.take(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if kind.is_empty() || !kind.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(self.unexpected("the name of a type"));
        }
        self.expect('[')?;
        let begins = self.at;
        let inside = self.take(|c| c != ']' && c != '[');
        self.expect(']')?;
        let (count, size) = counted(&inside, begins, &kind)?;
        let properties = self.properties();
        let leaf =
            matches!(kind.as_str(), "core" | "gpu" | "memory" | "pu") || size != Size::Pieces;
        let mut word = Word {
            kind,
            count,
            size,
            properties,
            inner: Vec::new(),
            form: if leaf { Form::Leaf } else { Form::Open },
        };
        if self.peek() == Some('{') {
            if depth >= DEPTH_MAX {
                return Err(GeneratorError::TooDeep { at: self.at });
            }
            self.at += 1;
            word.inner = self.words(depth + 1)?;
            self.expect('}')?;
            word.form = Form::Braced;
        }
        Ok(word)
    }

    fn properties(&mut self) -> BTreeMap<String, String> {
        let mut properties = BTreeMap::new();
        if self.peek() != Some(':') {
            return properties;
        }
        self.at += 1;
        let list = self.take(|c| !c.is_whitespace() && c != '{' && c != '}');
        for part in list.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            properties.insert(key.to_owned(), value.to_owned());
        }
        properties
    }

    fn take(&mut self, of: impl Fn(char) -> bool) -> String {
        let rest = &self.text[self.at..];
        let length = rest.find(|c| !of(c)).unwrap_or(rest.len());
        self.at += length;
        rest[..length].to_owned()
    }

    fn expect(&mut self, c: char) -> Result<(), GeneratorError> {
        if self.peek() != Some(c) {
            return Err(self.unexpected(match c {
                '[' => "[ and a count",
                ']' => "]",
                _ => "}",
            }));
        }
        self.at += c.len_utf8();
        Ok(())
    }
}

/// `8`, `4x64GiB`, or for memory `64GiB`.
fn counted(inside: &str, at: usize, kind: &str) -> Result<(u32, Size), GeneratorError> {
    let bytes = |given: &str| {
        let wrong = || GeneratorError::Size {
            at,
            given: given.to_owned(),
        };
        parse_bytes(given).map(Size::Amount).map_err(|_| wrong())
    };
    let (count, size) = match inside.split_once('x') {
        Some((count, size)) => (count, bytes(size)?),
        None if kind == "memory" => ("1", bytes(inside)?),
        None => (inside, Size::Pieces),
    };
    let number = count
        .parse()
        .ok()
        .filter(|count| (1..=VERTICES_MAX as u32).contains(count));
    let given = count.to_owned();
    Ok((number.ok_or(GeneratorError::Count { at, given })?, size))
}

struct Maker {
    draft: Draft,
    /// The next number of each type: in a node its own, else one over all.
    next: BTreeMap<String, u32>,
}

impl Maker {
    fn word(&mut self, word: &Word, parent: Option<NodeIndex>) -> Result<(), GeneratorError> {
        let leaf = word.inner.is_empty() && word.form == Form::Leaf && word.size == Size::Pieces;
        if leaf {
            let next = self.next.entry(word.kind.clone()).or_insert(0);
            let first = *next;
            *next = first
                .checked_add(word.count)
                .ok_or(GeneratorError::TooMany)?;
            let run = Thing {
                properties: word.properties.clone(),
                ..Thing::run(&word.kind, Idset::range(first, *next - 1))
            };
            return self.put(run, parent).map(drop);
        }
        for _ in 0..word.count {
            let next = self.next.entry(word.kind.clone()).or_insert(0);
            let id = *next;
            *next += 1;
            let mut thing = Thing {
                size: word.size,
                properties: word.properties.clone(),
                ..Thing::one(&word.kind, id)
            };
            let is_node = word.kind == "node";
            if is_node {
                thing.name = Some(Arc::from(format!("node{id}")));
                thing.rank = Some(id);
            }
            let at = self.put(thing, parent)?;
            // In a node numbers begin anew.
            let outer = is_node.then(|| std::mem::take(&mut self.next));
            for inner in &word.inner {
                self.word(inner, Some(at))?;
            }
            if let Some(outer) = outer {
                self.next = outer;
            }
        }
        Ok(())
    }

    fn put(
        &mut self,
        thing: Thing,
        parent: Option<NodeIndex>,
    ) -> Result<NodeIndex, GeneratorError> {
        if self.draft.tree.node_count() >= VERTICES_MAX {
            return Err(GeneratorError::TooMany);
        }
        Ok(match parent {
            Some(parent) => self.draft.within(parent, thing),
            None => self.draft.add(thing),
        })
    }
}
