//! `eddy broker`: the process that leads an instance.
//!
//! Opens the state directory, folds the journal, listens, and drives the pure
//! broker from then on. In the order of a start: arguments and configuration,
//! [`start`] (journal, inventory, replay, sockets), [`turn`] (the loop). It
//! decides nothing about jobs.

pub mod access;
pub mod answers;
pub mod channel;
pub mod child;
pub mod configured;
pub mod filters;
pub mod granted;
pub mod lack;
pub mod left;
mod look;
pub mod lost;
mod no_begin;
pub mod nodes;
pub mod own;
pub mod peers;
pub mod planner;
pub mod program;
pub mod queued;
pub mod rates;
pub mod ready;
pub mod reload;
pub mod replay;
pub mod rows;
mod settings;
pub mod shells;
pub mod spools;
pub mod start;
pub mod store;
pub mod texts;
pub mod tree;
pub mod turn;

use std::fs;
use std::io::Write;
use std::os::fd::{OwnedFd, RawFd};
use std::path::PathBuf;

use eddy_broker::effect::QueryTag;
use eddy_broker::{Answer, Caller};
use eddy_modules::settings::Damage;
use eddy_wire::id::Epoch;
use tokio::sync::mpsc::UnboundedSender;

use self::configured::Configured;
use self::lack::Patience;
use crate::inventory::Source;
use crate::journal::Committed;
use crate::logging;
use crate::shell::process::inherited::inherited;

/// The exit code of a leader that could not begin.
const CODE_NO_BEGIN: i32 = 1;
/// The exit code of a leader whose arguments or configuration are wrong.
const CODE_USAGE: i32 = 2;
/// The exit code after a fatal error: who started it may start it again.
pub const CODE_FATAL: i32 = 70;

/// The most nodes of [`BrokerArgs::size`].
pub const SIZE_MAX: i64 = 1024;

/// What a leader is started with.
#[derive(Clone, Debug, clap::Args)]
pub struct BrokerArgs {
    /// State directory of the instance; made if it is not there
    #[arg(long, value_name = "DIR", required_unless_present = "child")]
    pub statedir: Option<PathBuf>,
    /// Lead the instance that this process's job is, as its environment says
    #[arg(long, conflicts_with_all = ["statedir", "resources", "fake", "cores", "size", "ready_fd"])]
    pub child: bool,
    /// Inventory: a file with R version 1 (RFC 20)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fake", "cores"])]
    pub resources: Option<PathBuf>,
    /// Inventory: nodes that do not exist, as nodes=8,cores=32,gpus=4,memory=256G
    #[arg(long, value_name = "SPEC", conflicts_with = "cores")]
    pub fake: Option<String>,
    /// Inventory: this node with so many cores, whatever it has
    #[arg(long, value_name = "N")]
    pub cores: Option<u32>,
    /// So many nodes, each with an agent of its own on this machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=SIZE_MAX))]
    pub size: Option<u32>,
    /// Configuration (TOML) [default: config.toml in the state directory, else what was given last]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Keep what is whole of a damaged journal and begin with that
    #[arg(long)]
    pub recover: bool,
    /// The state directory was copied to where it is, and what it was copied from is not used any more
    #[arg(long, conflicts_with = "child")]
    pub moved: bool,
    /// Descriptor to write the URI to once work is taken, or why it is not
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<RawFd>,
    /// Configuration key, over that of the file
    #[arg(short = 'S', value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// What a child is started for: its first job, with whose end it ends
    #[arg(last = true, value_name = "COMMAND", requires = "child")]
    pub command: Vec<String>,
}

impl BrokerArgs {
    /// What it does where its journal is damaged, and has its declared instances do.
    fn damage(&self) -> Damage {
        match self.recover {
            true => Damage::Cut,
            false => Damage::Refuse,
        }
    }

    fn source(&self) -> Source {
        match (&self.resources, &self.fake, self.cores) {
            (Some(path), _, _) => Source::File(path.clone()),
            (None, Some(text), _) => Source::Fake(text.clone()),
            (None, None, Some(cores)) => Source::Cores(cores),
            (None, None, None) => Source::Found,
        }
    }
}

/// What threads tell the loop. There is no bound because each is an answer to
/// something the loop asked, which is bounded.
#[derive(Debug)]
pub enum Inner {
    /// The planner's thread worked off a slice.
    Planned(planner::Slice),
    /// The journal's writer.
    Committed(Committed),
    /// The journal's reader, or a filter.
    Answer(QueryTag, Answer),
    /// That life of a shell is over and nothing of it runs.
    ShellDead(Epoch),
    /// The thread that looks at another configuration, for who asked: what is wrong, else that.
    Candidate(Caller, Result<Box<reload::Candidate>, Vec<String>>),
    /// The spools that there are, some of which may be of jobs that were forgotten.
    Spools(spools::Listed),
    /// A signal asks for the end.
    Stop,
}

/// The way from threads to the loop.
pub type Inside = UnboundedSender<Inner>;

/// Leads an instance until it ends; the process's exit code.
pub fn run_broker(args: BrokerArgs) -> i32 {
    let ready = Ready::new(args.ready_fd);
    let child = args.child.then(child::Told::read).transpose();
    let both = child.and_then(|child| Ok((Configured::read(&args, child.as_ref())?, child)));
    let (configured, child) = match both {
        Ok(both) => both,
        Err(lines) => {
            for line in &lines {
                eprintln!("eddy broker: {line}");
            }
            let file = configured::file_of(&args);
            ready.tell(&configured::in_short(&lines, file.as_deref()));
            return CODE_USAGE;
        }
    };
    let log = configured.config.rank.log.as_deref();
    match &child {
        // Standard error is the job's.
        Some(child) => logging::start_in(&child.statedir, log),
        None => logging::start(log),
    }
    tracing::info!(
        origin = configured.config.origin,
        "the configuration is read"
    );
    for line in &configured.remarks {
        tracing::warn!("{line}; it counts as far as that");
    }
    let starter = match args.child {
        true => Starter::Shell,
        false => Starter::Other,
    };
    end_on_panic(starter);
    let mut patience = Patience::new(start::statedir(&args, child.as_ref()), starter);
    let told = child.clone();
    match start::lead(&args, child, &configured, ready, &mut patience) {
        Ok(code) => code,
        Err(failure) => {
            let (ready, error) = *failure;
            tracing::error!("{}", chain(&error));
            let line = patience.line(&error);
            if let Some(told) = &told {
                eprintln!("eddy broker: {line}");
                if patience.is_final(&error) {
                    no_begin::tell(told, &error, &line);
                }
            }
            if let Some(ready) = ready {
                ready.tell(&line);
            }
            patience.code(&error, CODE_NO_BEGIN)
        }
    }
}

/// A bug on any thread ends the process: what the loop would go on with is not
/// what was recorded. A restart folds the journal anew.
fn end_on_panic(starter: Starter) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        tracing::error!("{panic}");
        starter.end_fatally();
    }));
}

/// Who started this leader, and starts it again when it died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starter {
    /// A shell, of which this leader is a task.
    Shell,
    /// Somebody else.
    Other,
}

impl Starter {
    /// Ends this process at once, so that it is started again. To a shell every
    /// exit code is that of the instance's program: it is told by a signal.
    pub fn end_fatally(self) -> ! {
        if self == Starter::Shell {
            let own = rustix::process::getpid();
            let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        }
        std::process::exit(CODE_FATAL)
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // A transparent cause says the same again.
        if !line.ends_with(&text) {
            line = format!("{line}: {text}");
        }
        cause = error.source();
    }
    line
}

/// The descriptor of whoever waits for this leader to take work.
#[derive(Debug)]
pub struct Ready {
    fd: Option<OwnedFd>,
}

impl Ready {
    fn new(fd: Option<RawFd>) -> Ready {
        let fd = fd.and_then(inherited);
        if let Some(fd) = &fd {
            // Shells must not keep it open after us.
            let _ = rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC);
        }
        Ready { fd }
    }

    /// Writes one line and closes the descriptor.
    pub fn tell(self, line: &str) {
        if let Some(fd) = self.fd {
            // Whoever waited and is gone does not want to know.
            let _ = fs::File::from(fd).write_all(format!("{line}\n").as_bytes());
        }
    }
}
