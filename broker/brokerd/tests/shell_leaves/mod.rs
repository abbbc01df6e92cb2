//! Real processes for the tests of the shell's leaves: started from the thread
//! of the test, so that the kernel ends them with it whatever happens.
#![allow(dead_code, reason = "each test file uses a part")]

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use eddy_brokerd::shell::reap::{self, Exit};
use eddy_brokerd::shell::rights::Rights;
use eddy_brokerd::shell::spawn::{Child, Command, SpawnError, Spawner};
use eddy_brokerd::shell::stdio;

/// A command with no input or output, `PATH` and nothing else in its environment.
pub fn command(argv: &[&str]) -> Command {
    let text = |text: &&str| CString::new(*text).unwrap();
    let null = stdio::null().unwrap();
    Command {
        argv: argv.iter().map(text).collect(),
        env: vec![c"PATH=/usr/bin:/bin".to_owned()],
        cwd: c"/".to_owned(),
        rights: Rights::Kept,
        stdin: Arc::clone(&null).into(),
        stdout: Arc::clone(&null).into(),
        stderr: null.into(),
        cpus: None,
        rlimits: Vec::new(),
        umask: 0o22,
    }
}

/// A script for sh, marked as a task.
pub fn script(text: &str, marker: &str) -> Command {
    let mut command = command(&["/bin/sh", "-c", text]);
    command
        .env
        .push(CString::new(format!("EDDY_TASK={marker}")).unwrap());
    command
}

pub fn spawn(command: &Command) -> Result<Child, SpawnError> {
    Spawner::new(Arc::default(), Arc::default())
        .unwrap()
        .spawn(command)
}

/// Starts it with a pipe for output, whose shell end is given, waiting to read.
pub fn spawn_piped(mut command: Command) -> (Child, File) {
    let (ours, task) = stdio::output_pipe().unwrap();
    rustix::fs::fcntl_setfl(&ours, rustix::fs::OFlags::empty()).unwrap();
    command.stdout = task.into();
    let child = spawn(&command).unwrap();
    (child, File::from(ours))
}

/// Runs it to its end: exit and output.
pub fn run(command: Command) -> (Exit, String) {
    let (child, mut output) = spawn_piped(command);
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    (reap::wait(child.pidfd.as_fd()).unwrap(), text)
}

/// Reads one line, which tells that the process has come so far.
pub fn line(output: &mut File) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while output.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// An instance name no other test or run has.
pub fn instance(test: &str) -> String {
    format!(
        "{test}-{}-{:?}",
        std::process::id(),
        std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap()
    )
}

/// Whether the process named by this pidfd has ended, waiting for it if need be.
pub fn has_ended(pidfd: &OwnedFd) -> bool {
    let mut polled = [rustix::event::PollFd::new(
        pidfd,
        rustix::event::PollFlags::IN,
    )];
    let ten = rustix::event::Timespec {
        tv_sec: 10,
        tv_nsec: 0,
    };
    rustix::event::poll(&mut polled, Some(&ten)).unwrap() == 1
}
