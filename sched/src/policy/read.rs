//! A policy from TOML: a preset, and what is given over it. All errors at once.
//!
//! Called by `eddy policy`, by the configuration with its table `[policy]`, and
//! for the presets themselves. It opens no file and says nothing of what would be
//! unwise: that is `warn`.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::error::{PolicyError, Wrong, nearest};
use super::item::{self, Entries, Given, Item};
use super::kind::{Kind, NAMES, is_name};
use super::visit::Visit;
use super::{Policy, agree, keys, presets};

/// How tables may be within each other in what stands in no text.
const DEPTH_MAX: usize = 16;

/// A policy that is given and not yet read.
#[derive(Clone, Debug)]
pub struct Draft {
    entries: Entries,
    /// Where it stands in a larger document, as `policy`.
    place: String,
    /// The preset of a draft that names none; none where it must be complete by itself.
    start: Option<Policy>,
}

/// The policy that a text of TOML is.
///
/// # Errors
/// All there are, by line.
pub fn read(text: &str) -> Result<Policy, Vec<PolicyError>> {
    let entries = item::document(text).map_err(|error| vec![error])?;
    Draft {
        entries,
        place: String::new(),
        start: None,
    }
    .read()
}

impl Draft {
    /// The table `place` of a document; nothing given where it is not there.
    ///
    /// # Errors
    /// The text is not TOML, or there is something else of that name.
    pub fn within(text: &str, place: &str) -> Result<Draft, PolicyError> {
        let mut document = item::document(text)?;
        let entries = match document.remove(place) {
            None => Entries::new(),
            Some(Item {
                value: Given::Table(entries),
                ..
            }) => entries,
            Some(other) => {
                return Err(PolicyError {
                    line: other.line,
                    path: place.to_owned(),
                    wrong: Wrong::Value {
                        given: other.spell(),
                        allowed: "a table".to_owned(),
                    },
                });
            }
        };
        Ok(Draft {
            entries,
            place: place.to_owned(),
            start: None,
        })
    }

    /// Puts one key over what is given; `path` is from the policy on, as `queue.depth`.
    pub fn set(&mut self, path: &str, value: &Value) {
        let mut parts: Vec<&str> = path.splitn(DEPTH_MAX, '.').collect();
        let last = parts.pop().unwrap_or_default();
        let mut entries = &mut self.entries;
        for part in parts {
            let empty = || Item::beside(&Value::Table(Table::new()));
            let item = entries.entry(part.to_owned()).or_insert_with(empty);
            if !matches!(item.value, Given::Table(_)) {
                *item = empty();
            }
            let Given::Table(inner) = &mut item.value else {
                unreachable!("it was made a table");
            };
            entries = inner;
        }
        entries.insert(last.to_owned(), Item::beside(value));
    }

    /// The policy.
    ///
    /// # Errors
    /// All there are, by line; what stands in no text first.
    pub fn read(mut self) -> Result<Policy, Vec<PolicyError>> {
        let mut errors = Vec::new();
        let mut policy = match (self.preset(&mut errors), self.start) {
            (Some(preset), _) | (None, Some(preset)) => preset,
            (None, None) => presets::bare(),
        };
        let mut reader = Reader {
            frames: vec![Frame::new(self.place, self.entries)],
            lines: BTreeMap::new(),
            errors,
        };
        reader.frames[0].known.push("preset".to_owned());
        keys::walk(&mut reader, &mut policy);
        reader.unknown();
        let Reader {
            lines, mut errors, ..
        } = reader;
        let at = |path: &str| lines.get(path).copied().flatten();
        errors.extend(
            agree::errors(&policy)
                .into_iter()
                .map(|(path, wrong)| PolicyError {
                    line: at(&path),
                    path,
                    wrong,
                }),
        );
        errors.sort_by(|a, b| (a.line, &a.path).cmp(&(b.line, &b.path)));
        if errors.is_empty() {
            Ok(policy)
        } else {
            Err(errors)
        }
    }

    /// The preset that is named.
    fn preset(&mut self, errors: &mut Vec<PolicyError>) -> Option<Policy> {
        let item = self.entries.remove("preset")?;
        let found = match &item.value {
            Given::Text(name) => presets::preset(name).ok_or_else(|| Wrong::Preset {
                given: item.spell(),
                nearest: nearest(name, presets::names()).map(str::to_owned),
            }),
            Given::Whole(_)
            | Given::Number(_)
            | Given::Truth(_)
            | Given::List(_)
            | Given::Table(_)
            | Given::Other(_) => Err(Wrong::Value {
                given: item.spell(),
                allowed: "the name of a preset, as `eddy policy list` has them".to_owned(),
            }),
        };
        let path = join(&self.place, "preset");
        let line = item.line;
        found
            .map_err(|wrong| errors.push(PolicyError { line, path, wrong }))
            .ok()
    }
}

/// The text of a preset, which starts from nothing unless it names another, under its own name.
pub(super) fn of_preset(name: &str, text: &str) -> Result<Policy, Vec<PolicyError>> {
    let mut policy = read(text)?;
    name.clone_into(&mut policy.preset);
    Ok(policy)
}

fn join(outer: &str, name: &str) -> String {
    if outer.is_empty() {
        name.to_owned()
    } else {
        format!("{outer}.{name}")
    }
}

/// A table that is being read.
struct Frame {
    path: String,
    /// What is not taken yet.
    entries: Entries,
    /// What could be in it.
    known: Vec<String>,
}

impl Frame {
    fn new(path: String, entries: Entries) -> Frame {
        Frame {
            path,
            entries,
            known: Vec::new(),
        }
    }
}

struct Reader {
    /// From the outermost; never empty.
    frames: Vec<Frame>,
    /// The line of each key that was taken.
    lines: BTreeMap<String, Option<u32>>,
    errors: Vec<PolicyError>,
}

impl Reader {
    fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("the outermost table stays")
    }

    /// Takes a key out of the table: its path and what is there.
    fn take(&mut self, name: &str) -> Option<(String, Item)> {
        let frame = self.frame();
        frame.known.push(name.to_owned());
        let path = join(&frame.path, name);
        let item = frame.entries.remove(name)?;
        // Formulas are judged one by one, later.
        if let Given::List(list) = &item.value {
            let inner = list.iter().enumerate();
            self.lines
                .extend(inner.map(|(at, item)| (format!("{path}[{at}]"), item.line)));
        }
        self.lines.insert(path.clone(), item.line);
        Some((path, item))
    }

    fn wrong(&mut self, path: String, line: Option<u32>, wrong: Wrong) {
        self.errors.push(PolicyError { line, path, wrong });
    }

    fn value<K: Kind>(&mut self, path: String, item: &Item, kind: &K) -> Option<K::Value> {
        let value = kind.read(item);
        if value.is_none() {
            let (given, allowed) = (item.spell(), kind.allowed());
            self.wrong(path, item.line, Wrong::Value { given, allowed });
        }
        value
    }

    /// What is left of the table are keys that it does not have.
    fn unknown(&mut self) {
        let frame = self.frames.pop().expect("a table is being read");
        for (name, item) in frame.entries {
            let known = frame.known.iter().map(String::as_str);
            let nearest = nearest(&name, known).map(|near| join(&frame.path, near));
            self.wrong(
                join(&frame.path, &name),
                item.line,
                Wrong::Unknown { nearest },
            );
        }
    }

    fn name(&mut self, name: &str, line: Option<u32>) -> bool {
        let allowed = is_name(name);
        if !allowed {
            let path = self.frame().path.clone();
            let given = format!("{:?}", name.chars().take(80).collect::<String>());
            self.wrong(
                path,
                line,
                Wrong::Name {
                    given,
                    allowed: NAMES,
                },
            );
        }
        allowed
    }
}

impl Visit for Reader {
    fn table(&mut self, name: &str, _meaning: &str, body: impl FnOnce(&mut Reader)) {
        let path = join(&self.frame().path, name);
        let entries = match self.take(name) {
            None => Entries::new(),
            Some((
                _,
                Item {
                    value: Given::Table(entries),
                    ..
                },
            )) => entries,
            Some((path, item)) => {
                let (given, allowed) = (item.spell(), "a table".to_owned());
                self.wrong(path, item.line, Wrong::Value { given, allowed });
                Entries::new()
            }
        };
        self.frames.push(Frame::new(path, entries));
        body(self);
        self.unknown();
    }

    fn key<K: Kind>(&mut self, name: &str, _meaning: &str, kind: &K, value: &mut K::Value) {
        if let Some((path, item)) = self.take(name)
            && let Some(read) = self.value(path, &item, kind)
        {
            *value = read;
        }
    }

    fn entries<K: Kind>(&mut self, kind: &K, map: &mut BTreeMap<String, K::Value>) {
        let names: Vec<String> = self.frame().entries.keys().cloned().collect();
        for name in names {
            let Some((path, item)) = self.take(&name) else {
                continue;
            };
            if self.name(&name, item.line)
                && let Some(value) = self.value(path, &item, kind)
            {
                map.insert(name, value);
            }
        }
    }

    fn names(&mut self) -> Vec<String> {
        let given: Vec<(String, Option<u32>)> = self
            .frame()
            .entries
            .iter()
            .map(|(name, item)| (name.clone(), item.line))
            .collect();
        let mut names = Vec::new();
        for (name, line) in given {
            if self.name(&name, line) {
                names.push(name);
            } else {
                self.frame().entries.remove(&name);
            }
        }
        names
    }

    fn foreign(&mut self, others: &[(&str, &str)], here: &str) {
        for (name, of) in others {
            self.frame().known.push((*name).to_owned());
            let Some(item) = self.frame().entries.remove(*name) else {
                continue;
            };
            let path = join(&self.frame().path, name);
            let (of, here) = ((*of).to_owned(), here.to_owned());
            self.wrong(path, item.line, Wrong::Foreign { of, here });
        }
    }
}
