//! Commands of scripts about reservations.
//!
//! ```text
//! reserve r from=5 for=20 ranks=0-1 users=1000     ranks=IDSET or count=N; seconds since the beginning
//! reserve r … maintenance  ignore                  for nobody; whatever runs by then
//! unreserve r     usage                            and among the words of a job: reservation=r
//! ```

use eddy_wire::reservation::Purpose;
use eddy_wire::services::reservation::{CreateRequest, Running, Which};
use eddy_wire::services::resource::Targets;
use eddy_wire::time::Span;

use super::number;
use crate::call::Call;
use crate::client::OWNER;
use crate::nature::BEGIN;
use crate::task::span;

/// What the words behind a name ask for.
pub(super) fn reserve(name: &str, words: &[&str]) -> Result<Call, String> {
    let mut request = CreateRequest {
        name: name.parse().map_err(|wrong| format!("{wrong}"))?,
        from: BEGIN,
        span: Span::seconds(60),
        nodes: Which::Count(1),
        purpose: Purpose::Jobs {
            accounts: Vec::new(),
            users: vec![OWNER],
        },
        running: Running::Refuse,
        once: None,
    };
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("from", seconds) => request.from = BEGIN.after(span(seconds)),
            ("for", seconds) => request.span = span(seconds),
            ("count", n) => request.nodes = Which::Count(number(n)?),
            ("ranks", ranks) => {
                let ranks = ranks
                    .parse()
                    .map_err(|_| format!("`{ranks}` is no idset"))?;
                request.nodes = Which::Named(Targets::Ranks(ranks));
            }
            ("users", n) => {
                request.purpose = Purpose::Jobs {
                    accounts: Vec::new(),
                    users: vec![number(n)?],
                };
            }
            ("maintenance", _) => request.purpose = Purpose::Maintenance,
            ("ignore", _) => request.running = Running::Ignore,
            _ => return Err(format!("`{word}` says nothing of a reservation")),
        }
    }
    Ok(Call::reserve(&request))
}
