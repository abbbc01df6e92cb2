//! The log: one line an event on standard error, filtered by `EDDY_LOG`.
//!
//! Started once by the leader and by the shell. Who started them decides where
//! standard error goes (`eddy start` makes it the file `log` of the state
//! directory).

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Name of the log in a state directory.
const LOG_FILE: &str = "log";

/// The variable with the filter.
pub const LOG_VARIABLE: &str = "EDDY_LOG";

/// Begins to log: by `EDDY_LOG`, else by `filter`, else `info`. What is not a
/// filter is as if it were not given.
pub fn start(filter: Option<&str>) {
    start_with(filter, std::io::stderr);
}

/// The same to the file `log` of this directory, for a process whose standard
/// error is somebody else's; to standard error if it cannot be opened.
pub fn start_in(directory: &Path, filter: Option<&str>) {
    let mut how = OpenOptions::new();
    let how = how.create(true).append(true).mode(0o600);
    match how.open(directory.join(LOG_FILE)) {
        Ok(file) => start_with(filter, Mutex::new(file)),
        Err(_) => start(filter),
    }
}

fn start_with<W>(filter: Option<&str>, writer: W)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let given = std::env::var(LOG_VARIABLE).ok();
    let chosen = [given.as_deref(), filter].into_iter().flatten();
    let filter = chosen
        .filter_map(|text| EnvFilter::try_new(text).ok())
        .next();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|| EnvFilter::new("info")))
        .with_writer(writer)
        .with_ansi(false)
        // Standard error may be a pipe that nobody reads any more.
        .log_internal_errors(false);
    // It fails when a log was started before, which then goes on.
    let _ = subscriber.try_init();
}
