//! The nodes of an `[[instance]]`: its own, or what its jobs may be given of all.
//!
//! Read by [`super::declared`]; every error there is, each with its path.

use eddy_modules::settings::{Elastic, Extent};
use eddy_wire::idset::Idset;
use eddy_wire::time::Span;
use serde::Serialize;
use toml::Value;

use super::ConfigError;
use super::declared::{DeclaredInstance, Entry};
use super::keys::{count, span};

const NODES: &str = "a whole number from 1 to 65536";
const RANKS: &str = "ranks such as \"0-3,7\", at most 65536 of them";
const ELASTIC: &str = "\"all\", or ranks such as \"0-3,7\", at most 65536 of them";
const ONE_OF: &str = "only one of nodes, ranks and elastic";
const OF_ELASTIC: &str = "a key beside elastic only";
const HOME: &str = "some of the ranks of elastic";
const ONE_HOME: &str = "ranks that are home to no other instance";
const SPAN: &str = "a duration such as \"2h\" (RFC 23) or a number of seconds, beside home";
const NODES_MAX: u64 = 65_536;

/// The nodes of an `[[instance]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum DeclaredExtent {
    /// Whole nodes of its own.
    Fixed {
        /// `nodes`, or as many as `ranks` has.
        nodes: u32,
        /// `ranks`: these and no others.
        ranks: Option<Idset>,
    },
    /// None of its own; what its jobs ask for of these.
    Elastic {
        /// `elastic`: which.
        elastic: Reach,
        /// `home`: those of them that others' jobs are lent only.
        home: Idset,
        /// `lend_max`: to jobs of which limit at most.
        lend_max: Option<Span>,
    },
}

/// The value of `elastic`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// `"all"` that there are.
    All,
    /// These ranks.
    #[serde(untagged)]
    Ranks(Idset),
}

impl Reach {
    fn ranks(&self) -> Option<&Idset> {
        match self {
            Reach::All => None,
            Reach::Ranks(ranks) => Some(ranks),
        }
    }
}

impl DeclaredExtent {
    /// How many nodes there must be, and which.
    pub(super) fn asks(&self) -> (u32, Option<&Idset>) {
        match self {
            DeclaredExtent::Fixed { nodes, ranks } => (*nodes, ranks.as_ref()),
            DeclaredExtent::Elastic { elastic, home, .. } => {
                let home = Some(home).filter(|home| !home.is_empty());
                (1, elastic.ranks().or(home))
            }
        }
    }

    /// As the modules take it.
    pub(super) fn to_settings(&self) -> Extent {
        match self {
            DeclaredExtent::Fixed { nodes, ranks } => Extent::Fixed {
                nodes: *nodes,
                ranks: ranks.clone(),
            },
            DeclaredExtent::Elastic {
                elastic,
                home,
                lend_max,
            } => Extent::Elastic(Elastic {
                ranks: elastic.ranks().cloned(),
                home: home.clone(),
                lend_max: *lend_max,
            }),
        }
    }
}

/// What one `[[instance]]` says of its nodes.
pub(super) fn of(entry: &Entry, errors: &mut Vec<ConfigError>) -> Option<DeclaredExtent> {
    let given = ["nodes", "ranks", "elastic"].map(|key| (key, entry.table.get(key)));
    let given: Vec<(&str, &Value)> = given
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
        .collect();
    let (key, value) = match given[..] {
        [one] => one,
        [] => {
            errors.push(entry.missing("nodes", NODES));
            return None;
        }
        [_, (key, value), ..] => {
            errors.push(entry.wrong(key, value, ONE_OF));
            return None;
        }
    };
    if key == "elastic" {
        return elastic(entry, value, errors);
    }
    for key in ["home", "lend_max"] {
        let given = entry.table.get(key);
        errors.extend(given.map(|value| entry.wrong(key, value, OF_ELASTIC)));
    }
    let (extent, allowed) = match key {
        "nodes" => (fixed(value), NODES),
        _ => (named(value), RANKS),
    };
    if extent.is_none() {
        errors.push(entry.wrong(key, value, allowed));
    }
    extent
}

fn fixed(nodes: &Value) -> Option<DeclaredExtent> {
    let nodes = count(nodes, 1, NODES_MAX)? as u32;
    Some(DeclaredExtent::Fixed { nodes, ranks: None })
}

fn named(ranks: &Value) -> Option<DeclaredExtent> {
    let ranks = ranks_of(ranks)?;
    Some(DeclaredExtent::Fixed {
        nodes: ranks.len() as u32,
        ranks: Some(ranks),
    })
}

fn elastic(entry: &Entry, value: &Value, errors: &mut Vec<ConfigError>) -> Option<DeclaredExtent> {
    let reach = match value.as_str() {
        Some("all") => Some(Reach::All),
        _ => ranks_of(value).map(Reach::Ranks),
    };
    if reach.is_none() {
        errors.push(entry.wrong("elastic", value, ELASTIC));
    }
    let within = |home: &Idset| {
        let ranks = reach.as_ref().and_then(Reach::ranks);
        ranks.is_none_or(|ranks| ranks.contains_all(home))
    };
    let home = entry.table.get("home").map(|value| {
        let home = ranks_of(value).filter(within);
        if home.is_none() {
            errors.push(entry.wrong("home", value, HOME));
        }
        home
    });
    let lend_max = entry.table.get("lend_max").map(|value| {
        let most = span(value).filter(|_| home.is_some());
        if most.is_none() {
            errors.push(entry.wrong("lend_max", value, SPAN));
        }
        most
    });
    Some(DeclaredExtent::Elastic {
        elastic: reach?,
        home: home.unwrap_or(Some(Idset::new()))?,
        lend_max: lend_max.flatten(),
    })
}

/// No node is home to two.
pub(super) fn homes(declared: &[(&Entry, DeclaredInstance)], errors: &mut Vec<ConfigError>) {
    let mut all = Idset::new();
    for (entry, instance) in declared {
        let DeclaredExtent::Elastic { home, .. } = &instance.extent else {
            continue;
        };
        if !all.is_disjoint(home) {
            let given = Value::String(home.to_string());
            errors.push(entry.wrong("home", &given, ONE_HOME));
        }
        all = all.union(home);
    }
}

fn ranks_of(value: &Value) -> Option<Idset> {
    let ranks: Idset = value.as_str()?.parse().ok()?;
    (1..=NODES_MAX).contains(&ranks.len()).then_some(ranks)
}
