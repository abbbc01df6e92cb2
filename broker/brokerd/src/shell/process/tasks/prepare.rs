//! All that is decided and opened before one task is spawned.
//!
//! Called for each task that waits, when a spawner is about to be free. A
//! reason that it cannot be started goes to the user, in one line.

use std::ffi::CString;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eddy_broker::shellbook::Spawn;
use eddy_wire::shell::{Role, Start};
use rustix::fs::OFlags;

use super::{Live, Pipe, Source, Surroundings, Tasks, Warned};
use crate::rundir;
use crate::shell::affinity::{Binding, CpuSet, Topology};
use crate::shell::process::program::{
    Affinity, Environment, OutputMode, Place, Program, Sink, Stdin, Why,
};
use crate::shell::rights::{Named, Rights, UMASK};
use crate::shell::spawn::Command;
use crate::shell::stdio::{self, FileUse, OpenMode};

impl Tasks {
    pub(super) fn prepare(&mut self, spawn: &Spawn) -> Result<Command, Why> {
        let (start, task) = (&spawn.start, spawn.task);
        let program = self.program(start.jobspec, &spawn.jobspec)?;
        let rights = Rights::of_task(rustix::process::geteuid().as_raw(), start.user)?;
        let text = &spawn.environment;
        let environment = self
            .environments
            .get(start.environment, || Environment::parse(text))?;
        let cpus = self.binding(&program, start, task);
        let gpus = shares(
            start.gpus.iter().collect(),
            start,
            task,
            program.gpu_affinity,
        );
        let statedir = self.surroundings.statedir(&program, start, rights)?;
        let live = self
            .live
            .get_mut(&start.part)
            .expect("a part that waits is there");
        let uri = start.uri.as_deref().unwrap_or(&self.uri);
        let outer = self.surroundings.outer.as_deref();
        let place = Place {
            start,
            task,
            uri,
            marker: &live.marker,
            outer,
            gpus: &gpus,
            statedir: statedir.as_deref(),
        };
        let env = environment.of_task(&place)?;
        live.statedir.clone_from(&statedir);
        live.program = Some(Arc::clone(&program));
        let argv = program.argv(start, task)?;
        let inherited = self.surroundings.inherited.as_ref();
        let umask = program
            .umask
            .unwrap_or_else(|| self.surroundings.umask_of(rights));
        let opener = Opener { rights, umask };
        let [stdin, stdout, stderr] =
            live.streams(&program, task, opener, &self.null, inherited)?;
        let mut rlimits = program.rlimits.clone();
        if let Some(nofile) = self.surroundings.nofile
            && !rlimits
                .iter()
                .any(|limit| limit.resource == nofile.resource)
        {
            rlimits.push(nofile);
        }
        let cwd = program.cwd.as_os_str().as_bytes();
        let cwd = CString::new(cwd).map_err(|_| "cwd holds a NUL character".to_owned())?;
        Ok(Command {
            argv,
            env,
            cwd,
            rights,
            stdin,
            stdout,
            stderr,
            cpus,
            rlimits,
            umask,
        })
    }

    /// Where the instance is reached now, for tasks started from now on.
    pub fn set_rundir(&mut self, path: &Path) {
        self.uri = rundir::uri(path);
    }

    /// The processors of a task; none when it is not bound, or bound to all.
    pub(super) fn binding(
        &mut self,
        program: &Program,
        start: &Start,
        task: u32,
    ) -> Option<CpuSet> {
        if program.affinity == Affinity::Off {
            return None;
        }
        let topology = self.surroundings.topology.get_or_init(topology).as_ref()?;
        let cores = topology.by_socket(start.cores.iter().collect());
        let cores = shares(cores, start, task, program.affinity);
        match topology.binding(&cores) {
            Binding::Cpus(cpus) => Some(cpus),
            Binding::Unbound { missing } => {
                if !missing.is_empty() && self.unbound == Warned::NotYet {
                    tracing::warn!(
                        ?missing,
                        "tasks on cores that this node lacks are not bound"
                    );
                    self.unbound = Warned::Once;
                }
                None
            }
        }
    }
}

fn topology() -> Option<Topology> {
    let no_topology = |error: &io::Error| {
        tracing::warn!(%error, "the cores of this node are not known; tasks are not bound");
    };
    Topology::read().inspect_err(no_topology).ok()
}

/// What of the part's cores or GPUs is for one task: all, or its share in
/// the order given. With fewer of them than tasks, tasks share.
fn shares(ids: Vec<u32>, start: &Start, task: u32, affinity: Affinity) -> Vec<u32> {
    if affinity != Affinity::PerTask || ids.is_empty() {
        return ids;
    }
    let (tasks, at) = (
        start.ntasks.max(1) as usize,
        (task - start.first_task) as usize,
    );
    let (first, last) = (at * ids.len() / tasks, (at + 1) * ids.len() / tasks);
    if first < last {
        ids[first..last].to_vec()
    } else {
        vec![ids[first.min(ids.len() - 1)]]
    }
}

/// As whom a task's files are opened, and which rights those have not that are made so.
#[derive(Clone, Copy)]
struct Opener {
    rights: Rights,
    umask: u32,
}

impl Surroundings {
    /// The umask of tasks whose jobspec says none.
    fn umask_of(&self, rights: Rights) -> u32 {
        match rights {
            Rights::Kept => self.umask,
            Rights::Of(_) => UMASK,
        }
    }

    /// Makes the state directory of an instance that is about to be started. A
    /// declared one finds what it left there; others begin anew with each attempt.
    fn statedir(
        &self,
        program: &Program,
        start: &Start,
        rights: Rights,
    ) -> Result<Option<PathBuf>, Why> {
        if start.role != Role::Leader {
            return Ok(None);
        }
        let name = match &program.instance {
            Some(name) => name.clone(),
            None => format!("{}.{}", start.part.job, start.part.attempt),
        };
        let path = self.children.join(name);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        let made = made.and_then(|()| match rights {
            Rights::Kept => Ok(()),
            // Nobody else makes anything in the directory that it is in.
            Rights::Of(user) => lchown(&path, Some(user), None),
        });
        made.map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        Ok(Some(path))
    }
}

/// Descriptors of this shell for tasks, where it was given any.
type Inherited<'a> = Option<&'a [Arc<OwnedFd>; 3]>;

fn handed_on(inherited: Inherited<'_>, number: usize, option: &str) -> Result<Arc<OwnedFd>, Why> {
    let all = inherited.ok_or_else(|| {
        format!("{option}: is inherit; this instance was given no stream to hand on")
    })?;
    Ok(Arc::clone(&all[number]))
}

impl Live {
    /// Standard input, output and error of a task; those of a leader that is
    /// started again are the ones it had.
    fn streams(
        &mut self,
        program: &Program,
        task: u32,
        opener: Opener,
        null: &Arc<OwnedFd>,
        inherited: Inherited<'_>,
    ) -> Result<[Source; 3], Why> {
        let at = self.at(task);
        if let Some(kept) = &self.tasks[at].kept {
            return Ok(kept.clone());
        }
        // What was handed to this shell is the owner's.
        let inherited = inherited.filter(|_| opener.rights == Rights::Kept);
        let stdin = self.stdin(program, task, opener, null, inherited)?;
        let [stdout, stderr] = self.outputs(program, task, opener, inherited)?;
        let streams = [stdin, stdout, stderr];
        if self.start.role == Role::Leader {
            self.tasks[at].kept = Some(streams.clone());
        }
        Ok(streams)
    }

    fn stdin(
        &mut self,
        program: &Program,
        task: u32,
        opener: Opener,
        null: &Arc<OwnedFd>,
        inherited: Inherited<'_>,
    ) -> Result<Source, Why> {
        match &program.stdin {
            Stdin::Null => Ok(Arc::clone(null).into()),
            Stdin::Inherit => Ok(handed_on(inherited, 0, "input.stdin.type")?.into()),
            Stdin::Service => {
                let at = self.at(task);
                let supply = &self.supply;
                let input = &mut self.tasks[at].input;
                let pipe = input.get_or_insert_with(|| supply.backlog()).open();
                let pipe = pipe.and_then(|pipe| owned(pipe, opener.rights));
                let pipe = pipe.map_err(|error| format!("cannot make a pipe for stdin: {error}"));
                Ok(pipe?.into())
            }
            Stdin::File(template) => {
                let name = program.file_name(template, &self.start, task)?;
                match opener.rights {
                    Rights::Kept => {
                        let file = stdio::open_input(&program.cwd, &name).map_err(chain)?;
                        Ok(file.into())
                    }
                    Rights::Of(_) => {
                        let umask = opener.umask;
                        named(&program.cwd, &name, OFlags::RDONLY, FileUse::Input, umask)
                    }
                }
            }
        }
    }

    fn outputs(
        &mut self,
        program: &Program,
        task: u32,
        opener: Opener,
        inherited: Inherited<'_>,
    ) -> Result<[Source; 2], Why> {
        let handed = |number, option| Ok::<_, Why>(handed_on(inherited, number, option)?.into());
        let (out, stdout) = match &program.stdout {
            Sink::Inherit => (None, handed(1, "output.stdout.type")?),
            sink => self.output(program, sink, task, opener)?,
        };
        let (err, stderr) = match &program.stderr {
            Sink::Inherit => (None, handed(2, "output.stderr.type")?),
            sink => self.output(program, sink, task, opener)?,
        };
        let at = self.at(task);
        let own = &mut self.tasks[at];
        (own.out, own.err) = (out, err);
        Ok([stdout, stderr])
    }

    /// The shell's end, if it has one, and the task's.
    fn output(
        &mut self,
        program: &Program,
        sink: &Sink,
        task: u32,
        opener: Opener,
    ) -> Result<(Option<Pipe>, Source), Why> {
        let Sink::File(template) = sink else {
            let pipe = stdio::output_pipe();
            let pipe = pipe.and_then(|(fd, task)| Ok((fd, owned(task, opener.rights)?)));
            let (fd, task) =
                pipe.map_err(|error| format!("cannot make a pipe for output: {error}"))?;
            return Ok((Some(Pipe { fd, token: None }), task.into()));
        };
        let name = program.file_name(template, &self.start, task)?;
        if let Some(open) = self.files.get(&name) {
            return Ok((None, open.clone()));
        }
        // Only one rank begins the file anew, or ranks would take away what
        // others wrote.
        let mode = match (self.start.node_index, program.output_mode) {
            (0, OutputMode::Truncate) => OpenMode::Truncate,
            (_, OutputMode::Truncate | OutputMode::Append) => OpenMode::Append,
        };
        let file: Source = match opener.rights {
            Rights::Kept => {
                let file = stdio::open_output(&program.cwd, &name, mode, opener.umask);
                file.map_err(chain)?.into()
            }
            Rights::Of(_) => {
                let how = stdio::output_flags(mode);
                named(&program.cwd, &name, how, FileUse::Output, opener.umask)?
            }
        };
        self.files.insert(name, file.clone());
        Ok((None, file))
    }
}

/// A pipe that its task may open by name (`/dev/stderr`), too.
fn owned(pipe: Arc<OwnedFd>, rights: Rights) -> io::Result<Arc<OwnedFd>> {
    if let Rights::Of(user) = rights {
        rustix::fs::fchown(&pipe, Some(rustix::fs::Uid::from_raw(user)), None)?;
    }
    Ok(pipe)
}

/// A file that the task's own rights decide about, when it starts.
fn named(cwd: &Path, name: &str, how: OFlags, purpose: FileUse, umask: u32) -> Result<Source, Why> {
    let named = Named::new(cwd, name, how, purpose, umask)?;
    Ok(Source::Named(Arc::new(named)))
}

/// An error and its causes in one line.
fn chain(error: impl std::error::Error) -> Why {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(": ");
        line.push_str(&error.to_string());
        cause = error.source();
    }
    line
}
