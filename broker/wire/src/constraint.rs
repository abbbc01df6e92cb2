//! Which nodes a job may use: RFC 31 as data, read from a jobspec or from the text
//! of a query (RFC 35, `query`).
//!
//! Evaluated once for each request, into a set of nodes: of an inventory here, of a graph of
//! resources in the scheduler. It knows nothing of what is free.

mod query;

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::hostlist::{Hostlist, HostlistError};
use crate::idset::{Idset, IdsetError};
use crate::resource_set::ResourceSet;

pub use query::QueryError;

/// How deep constraints may nest.
pub const CONSTRAINT_DEPTH_MAX: usize = 24;

/// What a node must be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// Has each of these; one that begins with `^` it must not have.
    Properties(Vec<String>),
    /// Is one of these hosts.
    Hostlist(Vec<String>),
    /// Is one of these ranks.
    Ranks(Idset),
    /// Each of these holds; of none that is so.
    And(Vec<Constraint>),
    /// One of these holds; none at all is taken as no condition (RFC 31).
    Or(Vec<Constraint>),
    /// Not all of these hold.
    Not(Vec<Constraint>),
}

/// Why constraints cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConstraintError {
    /// Something else than what belongs there.
    #[error("{path}: is not {allowed}")]
    Type {
        /// Where.
        path: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// An operator that does not exist.
    #[error(
        "{path}: has the operator `{given}`; allowed are properties, hostlist, ranks, and, or, not"
    )]
    Operator {
        /// Where.
        path: String,
        /// As given.
        given: String,
    },
    /// Several operators in one object.
    #[error("{path}: has {given} operators; allowed is one")]
    Operators {
        /// Where.
        path: String,
        /// How many.
        given: usize,
    },
    /// Deeper than [`CONSTRAINT_DEPTH_MAX`].
    #[error("{path}: nests deeper than {CONSTRAINT_DEPTH_MAX}")]
    TooDeep {
        /// Where.
        path: String,
    },
    /// A property that can be none.
    #[error(
        "{path}: has the property `{given}`; allowed are names without ! & ' \" ` | ( ) and inner ^"
    )]
    Property {
        /// Where.
        path: String,
        /// As given.
        given: String,
    },
    /// Not a list of hosts.
    #[error("{path}: is not a hostlist")]
    Hostlist {
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: HostlistError,
    },
    /// Not a set of ranks.
    #[error("{path}: is not an idset")]
    Ranks {
        /// Where.
        path: String,
        /// Why.
        #[source]
        source: IdsetError,
    },
}

impl Constraint {
    /// Reads `attributes.system.constraints`; an empty object allows all.
    ///
    /// # Errors
    /// [`ConstraintError`] with the path of what is wrong.
    pub fn from_map(map: &Map<String, Value>) -> Result<Constraint, ConstraintError> {
        read_object(map, "attributes.system.constraints", 0)
    }

    /// Reads a constraint.
    ///
    /// # Errors
    /// As [`Constraint::from_map`].
    pub fn from_value(value: &Value) -> Result<Constraint, ConstraintError> {
        read(value, "constraints", 0)
    }

    /// Reads the text of a query (RFC 35); words without an operator are properties.
    ///
    /// # Errors
    /// [`QueryError`] with the position of what is wrong.
    pub fn from_query(text: &str) -> Result<Constraint, QueryError> {
        query::read(text)
    }

    /// The object of RFC 31.
    pub fn to_value(&self) -> Value {
        let list =
            |all: &[Constraint]| -> Vec<Value> { all.iter().map(Constraint::to_value).collect() };
        match self {
            Constraint::Properties(names) => json!({"properties": names}),
            Constraint::Hostlist(hosts) => json!({"hostlist": hosts}),
            Constraint::Ranks(ranks) => json!({"ranks": [ranks.to_string()]}),
            Constraint::And(all) => json!({"and": list(all)}),
            Constraint::Or(all) => json!({"or": list(all)}),
            Constraint::Not(all) => json!({"not": list(all)}),
        }
    }

    /// The nodes of a set for which it holds, by rank.
    pub fn ranks(&self, set: &ResourceSet) -> Idset {
        let all = || set.ranks();
        match self {
            Constraint::Properties(names) => {
                let mut ranks = all();
                for name in names {
                    ranks = match name.strip_prefix('^') {
                        Some(name) => ranks.difference(&set.ranks_with(name)),
                        None => ranks.intersect(&set.ranks_with(name)),
                    };
                }
                ranks
            }
            Constraint::Hostlist(hosts) => {
                let hosts: BTreeSet<&str> = hosts.iter().map(String::as_str).collect();
                let nodes = set.nodes.iter();
                let meant = nodes.filter(|(_, node)| hosts.contains(&*node.host));
                meant.map(|(rank, _)| rank.0).collect()
            }
            Constraint::Ranks(ranks) => all().intersect(ranks),
            Constraint::And(every) => all_of(every, set),
            Constraint::Or(some) if some.is_empty() => all(),
            Constraint::Or(some) => some
                .iter()
                .fold(Idset::new(), |ranks, one| ranks.union(&one.ranks(set))),
            Constraint::Not(every) => all().difference(&all_of(every, set)),
        }
    }

    /// Whether it holds for every node, whatever those are like.
    pub fn allows_all(&self) -> bool {
        match self {
            Constraint::Properties(names) => names.is_empty(),
            Constraint::And(every) => every.iter().all(Constraint::allows_all),
            Constraint::Or(some) => some.is_empty() || some.iter().any(Constraint::allows_all),
            Constraint::Hostlist(_) | Constraint::Ranks(_) | Constraint::Not(_) => false,
        }
    }
}

fn all_of(every: &[Constraint], set: &ResourceSet) -> Idset {
    let every = every.iter();
    every.fold(set.ranks(), |ranks, one| ranks.intersect(&one.ranks(set)))
}

impl fmt::Display for Constraint {
    /// The text of a query (RFC 35) that asks for the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        query::write(self, f)
    }
}

fn read(value: &Value, path: &str, depth: usize) -> Result<Constraint, ConstraintError> {
    let object = value.as_object().ok_or_else(|| ConstraintError::Type {
        path: path.to_owned(),
        allowed: "an object",
    })?;
    read_object(object, path, depth)
}

fn read_object(
    object: &Map<String, Value>,
    path: &str,
    depth: usize,
) -> Result<Constraint, ConstraintError> {
    if depth > CONSTRAINT_DEPTH_MAX {
        return Err(ConstraintError::TooDeep {
            path: path.to_owned(),
        });
    }
    if object.len() > 1 {
        let path = path.to_owned();
        return Err(ConstraintError::Operators {
            path,
            given: object.len(),
        });
    }
    let Some((operator, values)) = object.iter().next() else {
        return Ok(Constraint::And(Vec::new()));
    };
    let path = format!("{path}.{operator}");
    let known = ["properties", "hostlist", "ranks", "and", "or", "not"];
    if !known.contains(&operator.as_str()) {
        let given = operator.chars().take(64).collect();
        return Err(ConstraintError::Operator { path, given });
    }
    let Some(values) = values.as_array() else {
        return Err(ConstraintError::Type {
            path,
            allowed: "an array",
        });
    };
    let inner = || -> Result<Vec<Constraint>, ConstraintError> {
        let numbered = values.iter().enumerate();
        numbered
            .map(|(at, value)| read(value, &format!("{path}[{at}]"), depth + 1))
            .collect()
    };
    match operator.as_str() {
        "and" => inner().map(Constraint::And),
        "or" => inner().map(Constraint::Or),
        "not" => inner().map(Constraint::Not),
        "properties" => properties(&texts(values, &path)?, &path),
        "hostlist" => hostlist(&texts(values, &path)?, &path),
        _ => ranks(&texts(values, &path)?, &path),
    }
}

fn texts<'v>(values: &'v [Value], path: &str) -> Result<Vec<&'v str>, ConstraintError> {
    let text = |(at, value): (usize, &'v Value)| {
        value.as_str().ok_or_else(|| ConstraintError::Type {
            path: format!("{path}[{at}]"),
            allowed: "a string",
        })
    };
    values.iter().enumerate().map(text).collect()
}

fn properties(names: &[&str], path: &str) -> Result<Constraint, ConstraintError> {
    for name in names {
        let bare = name.strip_prefix('^').unwrap_or(name);
        if bare.is_empty() || bare.contains(['!', '&', '\'', '"', '^', '`', '|', '(', ')']) {
            let (path, given) = (path.to_owned(), name.chars().take(64).collect());
            return Err(ConstraintError::Property { path, given });
        }
    }
    Ok(Constraint::Properties(
        names.iter().map(|&name| name.to_owned()).collect(),
    ))
}

fn hostlist(texts: &[&str], path: &str) -> Result<Constraint, ConstraintError> {
    let mut hosts = Vec::new();
    for text in texts {
        let list: Hostlist = text.parse().map_err(|source| ConstraintError::Hostlist {
            path: path.to_owned(),
            source,
        })?;
        hosts.extend(list.hosts());
    }
    Ok(Constraint::Hostlist(hosts))
}

fn ranks(texts: &[&str], path: &str) -> Result<Constraint, ConstraintError> {
    let mut ranks = Idset::new();
    for text in texts {
        let set: Idset = text.parse().map_err(|source| ConstraintError::Ranks {
            path: path.to_owned(),
            source,
        })?;
        ranks = ranks.union(&set);
    }
    Ok(Constraint::Ranks(ranks))
}
