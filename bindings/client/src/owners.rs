//! Requests that name jobs of several instances.
//!
//! A request is served by one instance, which is that of the jobs it names. When
//! it is refused the instance is asked whose they are (`child.owners`), and each
//! part asked for alone. Used by the feed of ends and by commands that name many
//! jobs; nothing is asked beyond the request itself as long as all are of one.

use eddy_wire::error::Code;
use eddy_wire::services::child::Owners;
use eddy_wire::services::job::JobSet;

use crate::client::Client;
use crate::error::ClientError;

/// The parts of `jobs` that may be named together, after a request that named
/// all of them got `error`.
///
/// # Errors
/// That same error, if it is another than that the jobs are of several instances.
pub async fn owners(
    client: &Client,
    jobs: &JobSet,
    error: ClientError,
) -> Result<Vec<JobSet>, ClientError> {
    if error.code() != Some(Code::Invalid) || jobs.is_empty() {
        return Err(error);
    }
    match client.call::<Owners>(jobs).await {
        Ok(parts) if parts.len() > 1 => Ok(parts),
        // What is wrong is something else, or nobody knows.
        Ok(_) | Err(ClientError::Refused(_)) => Err(error),
        Err(other) => Err(other),
    }
}
