//! Nodes of an `[[instance]]` by what they are: by host, by property, or a share of all.
//!
//! Read by [`super::extent`]. Which ranks they are is known with the inventory: a start looks once, and
//! what is added later is not among them.

use eddy_wire::hostlist::Hostlist;
use eddy_wire::id::Rank;
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::ResourceSet;
use serde::{Serialize, Serializer};
use toml::Value;

/// Whole percent, in hundredths of one.
const WHOLE: u32 = 10_000;

pub(super) const HOSTS: &str = "hosts such as \"n[1-4]\" (RFC 29), at least one";
pub(super) const PROPERTY: &str = "the name of a property of nodes, such as \"gpu\"";
pub(super) const SHARE: &str =
    "a part of all nodes such as \"12.5%\", from 0.01% to 100%, with at most two decimals";

/// Some of the nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pick {
    /// Those of these names.
    Hosts(Hostlist),
    /// Those that have this property.
    Property(String),
    /// So many of all.
    Share(Share),
}

/// A part of all nodes, in hundredths of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u32);

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (whole, rest) = (self.0 / 100, self.0 % 100);
        match rest {
            0 => serializer.collect_str(&format_args!("{whole}%")),
            rest => serializer.collect_str(&format_args!("{whole}.{rest:02}%")),
        }
    }
}

/// Keys of nodes, and what each takes.
pub(super) const KEYS: [(&str, &str); 3] =
    [("hosts", HOSTS), ("property", PROPERTY), ("share", SHARE)];

/// What one of the keys says.
pub(super) fn of(key: &str, value: &Value) -> Option<Pick> {
    let text = value.as_str()?;
    Some(match key {
        "hosts" => {
            let hosts: Hostlist = text.parse().ok()?;
            Pick::Hosts((!hosts.is_empty()).then_some(hosts)?)
        }
        "property" => Pick::Property((!text.trim().is_empty()).then(|| text.to_owned())?),
        "share" => Pick::Share(share(text)?),
        _ => return None,
    })
}

fn share(text: &str) -> Option<Share> {
    let number = text.trim().strip_suffix('%')?.trim();
    let (whole, rest) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if rest.len() > 2 || whole.is_empty() || !is_number(whole) || !is_number(rest) {
        return None;
    }
    let whole: u32 = whole.parse().ok()?;
    let rest: u32 = format!("{rest:0<2}").parse().ok()?;
    let all = whole.checked_mul(100)?.checked_add(rest)?;
    (1..=WHOLE).contains(&all).then_some(Share(all))
}

impl Pick {
    pub(super) fn key(&self) -> &'static str {
        match self {
            Pick::Hosts(_) => "hosts",
            Pick::Property(_) => "property",
            Pick::Share(_) => "share",
        }
    }

    /// How many nodes a share of all is: at least one; none where it is of certain nodes.
    pub(super) fn count(&self, inventory: &ResourceSet) -> Option<u32> {
        let Pick::Share(Share(part)) = self else {
            return None;
        };
        let nodes = inventory.nnodes() * u64::from(*part) / u64::from(WHOLE);
        Some(u32::try_from(nodes.max(1)).unwrap_or(u32::MAX))
    }

    /// The ranks that are meant, of a share the first; those that are not there left out.
    pub(super) fn ranks(&self, inventory: &ResourceSet) -> Idset {
        match self {
            Pick::Hosts(hosts) => {
                let hosts: std::collections::BTreeSet<String> = hosts.hosts().collect();
                let nodes = inventory.nodes.iter();
                let nodes = nodes.filter(|(_, node)| hosts.contains(&*node.host));
                nodes.map(|(Rank(rank), _)| *rank).collect()
            }
            Pick::Property(name) => inventory.ranks_with(name).intersect(&inventory.ranks()),
            Pick::Share(_) => {
                let count = self.count(inventory).unwrap_or(0);
                let ranks = inventory.nodes.keys().take(count as usize);
                ranks.map(|Rank(rank)| *rank).collect()
            }
        }
    }

    /// What of it is not there, in words.
    pub(super) fn lack(&self, inventory: &ResourceSet) -> Option<String> {
        match self {
            Pick::Hosts(hosts) => {
                let there: std::collections::BTreeSet<&str> =
                    inventory.nodes.values().map(|node| &*node.host).collect();
                let missing = hosts.hosts().find(|host| !there.contains(host.as_str()))?;
                Some(format!("host `{missing}`, which is not in the inventory"))
            }
            Pick::Property(name) if self.ranks(inventory).is_empty() => {
                let known: Vec<&str> = inventory.properties.keys().map(String::as_str).collect();
                let known = match known.is_empty() {
                    true => "none".to_owned(),
                    false => known.join(", "),
                };
                Some(format!(
                    "property `{}`, which no node has; there are {known}",
                    name.escape_debug()
                ))
            }
            Pick::Property(_) | Pick::Share(_) => None,
        }
    }
}
