//! `eddy uri`: where an instance takes clients.

use std::time::Duration;

use anyhow::bail;
use eddy_client::{LocateError, PathError, meant};

use crate::output;
use crate::session::Global;
use crate::table::escaped;

/// The pause between two looks at an instance that waits.
const LOOK: Duration = Duration::from_millis(200);

/// Print the URI of the instance, or of one inside it
///
/// The URI of the form local:///PATH is what EDDY_URI and --at take.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// The form for this host (the only one so far, so the default)
    #[arg(long, conflicts_with = "remote")]
    local: bool,
    /// The form for other hosts: refused until there is one
    #[arg(long)]
    remote: bool,
    /// Wait until its job has got resources
    #[arg(long)]
    wait: bool,
    /// A path such as 905/3, a job id, jobid:ID, a state directory [default: the instance itself]
    #[arg(value_name = "TARGET")]
    target: Option<String>,
}

const EXAMPLES: &str = "Examples:
  export EDDY_URI=$(eddy uri 905)
  eddy uri /batch
  eddy uri jobid:905/3?local";

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (target, form) = match args.target.as_deref() {
        Some(text) => read(text)?,
        None => (None, None),
    };
    match form {
        Some("remote") => return refuse(),
        Some("local" | "wait") | None => {}
        Some(other) => bail!("?{other}: is not a form of a URI; allowed are local and wait"),
    }
    if args.remote {
        return refuse();
    }
    let wait = args.wait || form == Some("wait");
    let uri = crate::session::block_on(async {
        loop {
            let error = match global.address_of(target).await {
                Ok(uri) => return Ok(uri.to_string()),
                Err(error) => error,
            };
            match error.downcast_ref::<PathError>() {
                Some(PathError::Waiting { .. }) if wait => tokio::time::sleep(LOOK).await,
                _ => return Err(error),
            }
        }
    })?;
    output::lines([escaped(&uri)])?;
    Ok(0)
}

fn refuse() -> anyhow::Result<u8> {
    bail!("the remote form of a URI is not there yet; allowed is local")
}

/// What is named, and the form behind `?`. A form alone is one of the instance itself.
fn read(text: &str) -> anyhow::Result<(Option<&str>, Option<&str>)> {
    let (target, form) = match text.split_once('?') {
        Some((target, form)) => (target, Some(form)),
        None => (text, None),
    };
    if form.is_some() && target.is_empty() {
        return Ok((None, form));
    }
    match meant(target) {
        // It was a variable that is not set.
        Err(error @ LocateError::Empty) => Err(error.into()),
        Ok(_) | Err(_) => Ok((Some(target), form)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_the_forms_of_flux() {
        let read = |text| read(text).expect("a target");
        assert_eq!(
            read("jobid:905/3?local"),
            (Some("jobid:905/3"), Some("local"))
        );
        assert_eq!(read("f2"), (Some("f2"), None));
        assert_eq!(read("?wait"), (None, Some("wait")));
    }

    #[test]
    fn an_empty_target_is_refused() {
        for empty in ["", " ", "jobid:", "jobid:?local"] {
            let error = read(empty).expect_err("refused").to_string();
            assert!(error.contains("is empty"), "{empty}: {error}");
        }
    }
}
