//! The nodes of an `[[instance]]`: its own, or what its jobs may be given of all.
//!
//! Read by [`super::declared`]; every error there is, each with its path.

use eddy_modules::settings::{Elastic, Extent};
use eddy_wire::idset::{ID_MAX, Idset};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Span;
use serde::Serialize;
use toml::Value;

use super::ConfigError;
use super::declared::{DeclaredInstance, Entry};
use super::keys::{count, span};
use super::pick::{self, Pick};

const NODES: &str = "a whole number from 1 to 65536";
const RANKS: &str = "ranks such as \"0-3,7\", at most 65536 of them";
const ELASTIC: &str = "\"all\", ranks such as \"0-3,7\" (at most 65536 of them), or one of { hosts = }, { property = }, { share = }";
const ONE_OF: &str = "only one of nodes, ranks, hosts, property, share and elastic";
const OF_ELASTIC: &str = "a key beside elastic only";
const HOME: &str = "some of the ranks of elastic, or { hosts = } or { property = } of them";
const ONE_HOME: &str = "ranks that are home to no other instance";
const ONE_OWNER: &str = "ranks that no other [[instance]] names";
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
    /// Whole nodes of its own, by what they are: as many or those, once the inventory is known.
    Picked(Pick),
    /// None of its own; what its jobs ask for of these.
    Elastic {
        /// `elastic`: which.
        elastic: Reach,
        /// `home`: those of them that others' jobs are lent only.
        home: Home,
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
    /// Those that are this, once the inventory is known.
    #[serde(untagged)]
    Picked(Pick),
}

/// The value of `home`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Home {
    /// These ranks; maybe none.
    Ranks(Idset),
    /// Those that are this, once the inventory is known.
    Picked(Pick),
}

impl Reach {
    fn ranks(&self) -> Option<&Idset> {
        match self {
            Reach::All | Reach::Picked(_) => None,
            Reach::Ranks(ranks) => Some(ranks),
        }
    }
}

impl Home {
    fn ranks(&self) -> Option<&Idset> {
        match self {
            Home::Ranks(ranks) => Some(ranks),
            Home::Picked(_) => None,
        }
    }
}

impl DeclaredExtent {
    /// How many nodes there must be, and which.
    pub(super) fn asks(&self) -> (u32, Option<&Idset>) {
        match self {
            DeclaredExtent::Fixed { nodes, ranks } => (*nodes, ranks.as_ref()),
            DeclaredExtent::Picked(_) => (1, None),
            DeclaredExtent::Elastic { elastic, home, .. } => {
                let home = home.ranks().filter(|home| !home.is_empty());
                (1, elastic.ranks().or(home))
            }
        }
    }

    /// Which ranks jobs of an elastic one may be given, where it names them.
    pub(super) fn reach(&self) -> Option<&Idset> {
        match self {
            DeclaredExtent::Elastic { elastic, .. } => elastic.ranks(),
            DeclaredExtent::Fixed { .. } | DeclaredExtent::Picked(_) => None,
        }
    }

    /// The key that says which nodes, or how many.
    pub(super) fn key(&self) -> &'static str {
        match self {
            DeclaredExtent::Fixed { ranks: None, .. } => "nodes",
            DeclaredExtent::Fixed { ranks: Some(_), .. } => "ranks",
            DeclaredExtent::Picked(pick) => pick.key(),
            DeclaredExtent::Elastic { .. } => "elastic",
        }
    }

    fn picks(&self) -> impl Iterator<Item = &Pick> {
        let (first, second) = match self {
            DeclaredExtent::Fixed { .. } => (None, None),
            DeclaredExtent::Picked(pick) => (Some(pick), None),
            DeclaredExtent::Elastic { elastic, home, .. } => {
                let reach = match elastic {
                    Reach::Picked(pick) => Some(pick),
                    Reach::All | Reach::Ranks(_) => None,
                };
                let home = match home {
                    Home::Picked(pick) => Some(pick),
                    Home::Ranks(_) => None,
                };
                (reach, home)
            }
        };
        first.into_iter().chain(second)
    }

    /// Whether which ranks it is of is known with the inventory only.
    pub(super) fn is_picked(&self) -> bool {
        self.picks().next().is_some()
    }

    /// What it asks for that is not there, in words.
    pub(super) fn lack(&self, inventory: &ResourceSet) -> Option<String> {
        let lack = self.picks().find_map(|pick| pick.lack(inventory));
        lack.or_else(|| match self.resolved(inventory) {
            DeclaredExtent::Elastic {
                elastic: Reach::Ranks(ranks),
                home: Home::Ranks(home),
                ..
            } if self.is_picked() && !ranks.contains_all(&home) => Some(format!(
                "home on ranks {home}, of which it may have {ranks} only"
            )),
            _ => None,
        })
    }

    /// With ranks, or how many, in place of what they are. What is not there is left out; where all
    /// of it is not, what comes out is of a rank that never is.
    pub(super) fn resolved(&self, inventory: &ResourceSet) -> DeclaredExtent {
        let ranks = |pick: &Pick| match pick.ranks(inventory) {
            ranks if ranks.is_empty() => Idset::one(ID_MAX - 1),
            ranks => ranks,
        };
        match self {
            DeclaredExtent::Fixed { .. } => self.clone(),
            DeclaredExtent::Picked(pick) => match pick.count(inventory) {
                Some(nodes) => DeclaredExtent::Fixed { nodes, ranks: None },
                None => {
                    let ranks = ranks(pick);
                    DeclaredExtent::Fixed {
                        nodes: ranks.len() as u32,
                        ranks: Some(ranks),
                    }
                }
            },
            DeclaredExtent::Elastic {
                elastic,
                home,
                lend_max,
            } => DeclaredExtent::Elastic {
                elastic: match elastic {
                    Reach::Picked(pick) => Reach::Ranks(ranks(pick)),
                    other => other.clone(),
                },
                home: match home {
                    Home::Picked(pick) => Home::Ranks(pick.ranks(inventory)),
                    other => other.clone(),
                },
                lend_max: *lend_max,
            },
        }
    }

    /// As the modules take it, once it is resolved.
    pub(super) fn to_settings(&self) -> Extent {
        match self {
            DeclaredExtent::Fixed { nodes, ranks } => Extent::Fixed {
                nodes: *nodes,
                ranks: ranks.clone(),
            },
            DeclaredExtent::Picked(_) => Extent::Fixed {
                nodes: 1,
                ranks: None,
            },
            DeclaredExtent::Elastic {
                elastic,
                home,
                lend_max,
            } => Extent::Elastic(Elastic {
                ranks: elastic.ranks().cloned(),
                home: home.ranks().cloned().unwrap_or_default(),
                lend_max: *lend_max,
            }),
        }
    }
}

/// What one `[[instance]]` says of its nodes.
pub(super) fn of(entry: &Entry, errors: &mut Vec<ConfigError>) -> Option<DeclaredExtent> {
    let keys = ["nodes", "ranks", "hosts", "property", "share", "elastic"];
    let given = keys.map(|key| (key, entry.table.get(key)));
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
        "ranks" => (named(value), RANKS),
        key => {
            let allowed = pick::KEYS.iter().find(|(one, _)| *one == key);
            let picked = pick::of(key, value).map(DeclaredExtent::Picked);
            (picked, allowed.map_or(NODES, |(_, allowed)| *allowed))
        }
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
    let reach = reach.or_else(|| picked(value).map(Reach::Picked));
    if reach.is_none() {
        errors.push(entry.wrong("elastic", value, ELASTIC));
    }
    let within = |home: &Idset| {
        let ranks = reach.as_ref().and_then(Reach::ranks);
        ranks.is_none_or(|ranks| ranks.contains_all(home))
    };
    let home = entry.table.get("home").map(|value| {
        let home = ranks_of(value).filter(within).map(Home::Ranks);
        let is_share = |pick: &Pick| matches!(pick, Pick::Share(_));
        let of_them = || picked(value).filter(|pick| !is_share(pick));
        let home = home.or_else(|| of_them().map(Home::Picked));
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
        home: home.unwrap_or(Some(Home::Ranks(Idset::new())))?,
        lend_max: lend_max.flatten(),
    })
}

/// No node is home to two, and none is two's own.
pub(super) fn apart(declared: &[(&Entry, DeclaredInstance)], errors: &mut Vec<ConfigError>) {
    let (mut homes, mut own) = (Idset::new(), Idset::new());
    for (entry, instance) in declared {
        let (key, ranks, all, allowed) = match &instance.extent {
            DeclaredExtent::Elastic {
                home: Home::Ranks(home),
                ..
            } => ("home", home, &mut homes, ONE_HOME),
            DeclaredExtent::Fixed {
                ranks: Some(ranks), ..
            } => ("ranks", ranks, &mut own, ONE_OWNER),
            _ => continue,
        };
        if !all.is_disjoint(ranks) {
            let given = Value::String(ranks.to_string());
            errors.push(entry.wrong(key, &given, allowed));
        }
        *all = all.union(ranks);
    }
}

/// `{ hosts = "n[1-4]" }`, and nothing else in it.
fn picked(value: &Value) -> Option<Pick> {
    let table = value.as_table().filter(|table| table.len() == 1)?;
    let (key, value) = table.iter().next()?;
    pick::of(key, value)
}

fn ranks_of(value: &Value) -> Option<Idset> {
    let ranks: Idset = match value {
        // One rank, as whoever types `home=2` says it.
        Value::Integer(rank) => {
            Idset::one(u32::try_from(*rank).ok().filter(|rank| *rank < ID_MAX)?)
        }
        value => value.as_str()?.parse().ok()?,
    };
    (1..=NODES_MAX).contains(&ranks.len()).then_some(ranks)
}
