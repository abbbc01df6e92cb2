//! The log: one line an event on standard error, filtered by `EDDY_LOG`.
//!
//! Started once by the leader and by the shell. Who started them decides where
//! standard error goes (`eddy start` makes it the file `log` of the state
//! directory).

use tracing_subscriber::EnvFilter;

/// The variable with the filter.
pub const LOG_VARIABLE: &str = "EDDY_LOG";

/// Begins to log: by `EDDY_LOG`, else by `filter`, else `info`. What is not a
/// filter is as if it were not given.
pub fn start(filter: Option<&str>) {
    let given = std::env::var(LOG_VARIABLE).ok();
    let chosen = [given.as_deref(), filter].into_iter().flatten();
    let filter = chosen
        .filter_map(|text| EnvFilter::try_new(text).ok())
        .next();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|| EnvFilter::new("info")))
        .with_writer(std::io::stderr)
        .with_ansi(false)
        // Standard error may be a pipe that nobody reads any more.
        .log_internal_errors(false);
    // It fails when a log was started before, which then goes on.
    let _ = subscriber.try_init();
}
