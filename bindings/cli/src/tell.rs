//! What goes to standard error, which may have no reader any more.

/// As the macro of this name of the standard library, which panics when nobody reads standard error: a command that is
/// about to end its job (`eddy run 2>&1 | tee`, where one ctrl-C ends both) must come to that. It is under the same
/// name so that there is no other in this program.
macro_rules! eprintln {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _nobody_reads_it = writeln!(std::io::stderr(), $($text)*);
    }};
}
