//! On how many nodes a job lies that names none, where nodes are limited.
//!
//! Part of [`Ingest`]. Nobody can know on how many nodes slots will lie that may lie anywhere, and who lets
//! a job through has to: so it is taken as if it had named the fewest that will do. Where its queue limits
//! only how many one job may have, that is left alone which cannot have more.

use eddy_wire::account::Party;
use eddy_wire::error::Refusal;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::queue::Rules;
use eddy_wire::spec::Spec;

use super::Ingest;

/// How many pieces a job is made of that may lie anywhere; `None` where it says on how many nodes they do.
pub(super) fn anywhere(spec: &Spec) -> Option<u32> {
    let request = &spec.request;
    let is_own = match request.work {
        Work::Tasks | Work::Instance { name: None } => true,
        // What an instance is to grow by lies on one node, and the configuration says where declared ones are.
        Work::Ground { .. } | Work::Instance { name: Some(_) } => false,
    };
    let is_anywhere = is_own && request.nodes.is_none() && request.takes == Takes::Resources;
    let pieces = is_anywhere.then(|| spec.jobspec.pieces())?;
    Some(pieces).filter(|pieces| *pieces > 1)
}

impl Ingest {
    /// The same on the fewest nodes that will do, where it names none and they are limited.
    ///
    /// # Errors
    /// It fits, but with no number of nodes that could be named.
    pub(super) fn on_counted_nodes(
        &self,
        of: (u32, &Party),
        spec: &Spec,
        rules: Option<&Rules>,
    ) -> Result<Option<Spec>, Refusal> {
        let Some(pieces) = anywhere(spec) else {
            return Ok(None);
        };
        let is_wide = rules
            .and_then(|rules| rules.max_nodes)
            .is_some_and(|most| pieces > most);
        let whose = self.parties.of_nodes(of, spec);
        if !is_wide && whose.is_none() || self.fits(spec).is_err() {
            return Ok(None);
        }
        for nodes in self.parties.numbers_of_nodes(spec, pieces) {
            let named = spec.on_nodes(nodes).map_err(Refusal::invalid)?;
            if self.fits(&named).is_ok() {
                return Ok(Some(named));
            }
        }
        let by = match whose {
            Some(whose) => whose.to_string(),
            None => "its queue".to_owned(),
        };
        let text = format!(
            "resources: {pieces} slots on any nodes given, {by} limits nodes and they do not lie evenly on those there \
             are; allowed is to name nodes"
        );
        Err(Refusal::invalid(text))
    }

    /// Whether one that waits may come under limits of nodes as it is.
    ///
    /// # Errors
    /// It names no nodes, and they would count.
    pub(super) fn names_nodes(
        &self,
        of: (u32, &Party),
        spec: &Spec,
        rules: Option<&Rules>,
    ) -> Result<(), Refusal> {
        match self.on_counted_nodes(of, spec, rules)? {
            None => Ok(()),
            Some(_) => Err(Refusal::invalid(
                "resources: slots on any nodes given, nodes are limited there; allowed is to submit it anew",
            )),
        }
    }
}
