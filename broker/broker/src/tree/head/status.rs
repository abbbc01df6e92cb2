//! How the ranks of the instance are, for people.
//!
//! Part of [`super::Head`]. It changes nothing.

use eddy_wire::id::Rank;
use eddy_wire::services::overlay::{RankLink, Reach};

use super::{Head, State};

impl Head {
    /// Each of these ranks (with its host) in the tree; who is above whom is
    /// the overlay's to say.
    pub fn status(&self, ranks: &[(Rank, String)]) -> Vec<RankLink> {
        let link = |(rank, host): &(Rank, String)| {
            let (state, since, why) = match self.ranks.get(rank) {
                _ if self.local.contains(rank.0) => (Reach::Full, None, String::new()),
                None => (Reach::Absent, None, String::new()),
                Some(ranked) => match &ranked.state {
                    State::Reached => (Reach::Full, Some(ranked.since), String::new()),
                    State::Lost(why) => (Reach::Lost, Some(ranked.since), why.clone()),
                },
            };
            RankLink {
                rank: *rank,
                host: host.clone(),
                parent: None,
                state,
                since,
                why,
            }
        };
        ranks.iter().map(link).collect()
    }
}
