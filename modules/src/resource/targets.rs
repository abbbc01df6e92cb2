//! Ranks as people name them: by number or by host.

use std::collections::BTreeMap;

use eddy_wire::error::Refusal;
use eddy_wire::hostlist::Hostlist;
use eddy_wire::id::Rank;
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::resource::Targets;

/// The ranks that targets name.
///
/// # Errors
/// There are none of them, or some that the inventory does not have; told by `field`.
pub(crate) fn ranks(field: &str, targets: &Targets, all: &ResourceSet) -> Result<Idset, Refusal> {
    let ranks = match targets {
        Targets::Ranks(ranks) => ranks.clone(),
        Targets::Hosts(text) => of_hosts(field, text, all)?,
    };
    let known = all.ranks();
    let foreign = ranks.difference(&known);
    if !foreign.is_empty() {
        let text = format!("{field}: ranks {foreign} given, the inventory has {known}");
        return Err(Refusal::not_found(text));
    }
    if ranks.is_empty() {
        return Err(Refusal::invalid(format!(
            "{field}: none given, at least one rank is needed"
        )));
    }
    Ok(ranks)
}

/// The ranks of hosts (RFC 29); all of them must be in the inventory.
fn of_hosts(field: &str, text: &str, all: &ResourceSet) -> Result<Idset, Refusal> {
    let hosts: Hostlist = text
        .parse()
        .map_err(|e| Refusal::invalid(format!("{field}: {e}")))?;
    let mut by_host: BTreeMap<&str, Vec<Rank>> = BTreeMap::new();
    for (rank, node) in &all.nodes {
        by_host.entry(&node.host).or_default().push(*rank);
    }
    let mut ranks = Idset::new();
    for host in hosts.hosts() {
        let Some(named) = by_host.get(&*host) else {
            let text = format!("{field}: host `{host}` is not in the inventory");
            return Err(Refusal::not_found(text));
        };
        ranks.extend(named.iter().map(|rank| rank.0));
    }
    Ok(ranks)
}
