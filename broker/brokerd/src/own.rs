//! This very program, as what other processes of the instance are started from.
//!
//! Used wherever a shell, an agent or a reader is started. A package that is upgraded puts another file in this
//! program's place while it runs. What it starts stays of its own version: that is what speaks its protocol.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The kernel's name of the program that asks, which has no other where its file was replaced.
const RUNNING: &str = "/proc/self/exe";
/// What the kernel puts behind the name of a file that is not there any more.
const GONE: &[u8] = b" (deleted)";

/// Where this program is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// What is executed.
    pub file: PathBuf,
    /// The name that people know it by.
    pub name: PathBuf,
}

impl Own {
    /// As it is now.
    ///
    /// # Errors
    /// The system does not say.
    pub fn find() -> io::Result<Own> {
        let said = std::env::current_exe()?;
        let running = fs::metadata(RUNNING)?;
        Ok(Own::of(&said, |path| {
            fs::metadata(path)
                .is_ok_and(|there| (there.dev(), there.ino()) == (running.dev(), running.ino()))
        }))
    }

    fn of(said: &Path, is_running: impl Fn(&Path) -> bool) -> Own {
        if is_running(said) {
            let file = said.to_owned();
            return Own {
                name: file.clone(),
                file,
            };
        }
        let bytes = said.as_os_str().as_bytes();
        let name = bytes.strip_suffix(GONE).unwrap_or(bytes);
        Own {
            file: RUNNING.into(),
            name: OsStr::from_bytes(name).into(),
        }
    }

    /// What starts it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        command.arg0(&self.name);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(said: &str, running: &str) -> (String, String) {
        let own = Own::of(Path::new(said), |path| path == Path::new(running));
        let text = |path: PathBuf| path.display().to_string();
        (text(own.file), text(own.name))
    }

    fn both(file: &str, name: &str) -> (String, String) {
        (file.to_owned(), name.to_owned())
    }

    #[test]
    fn a_program_whose_file_is_there_is_started_by_its_name() {
        assert_eq!(of("/bin/eddy", "/bin/eddy"), both("/bin/eddy", "/bin/eddy"));
    }

    #[test]
    fn one_whose_file_was_replaced_is_still_itself() {
        let replaced = both("/proc/self/exe", "/bin/eddy");
        assert_eq!(of("/bin/eddy (deleted)", "/other"), replaced);
        assert_eq!(
            of("/bin/eddy", "/other"),
            replaced,
            "at that name there is another"
        );
    }

    #[test]
    fn what_is_started_is_this_program() {
        let own = Own::find().expect("the system says");
        assert_eq!(
            own.file,
            std::env::current_exe().expect("it says that, too")
        );
    }
}
