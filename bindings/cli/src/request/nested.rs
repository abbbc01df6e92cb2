//! From the options of `batch` and `alloc` to a job that is an instance.
//!
//! The command of such a job is this program, leading a child (`eddy broker
//! --child`); what the user wants to run is the child's initial program, or a
//! script that comes with the jobspec.

use anyhow::{Context, bail, ensure};
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser};
use eddy_brokerd::config;
use eddy_wire::id::JobId;
use eddy_wire::jobspec::{JOBSPEC_BYTES_MAX, Jobspec, Work};
use eddy_wire::services::job::SubmitRequest;
use serde_json::json;

use super::directives::{self, Word};
use super::eligible::Array;
use super::{Slots, Stdin, Terms};
use crate::number::{self, COUNTS, COUNTS_OR_NONE, number};
use crate::when;

/// The mode of a script's file: its owner may read, write and run it.
const SCRIPT_MODE: u32 = 0o700;

/// The options that say what a sub-instance has.
#[derive(Args, Clone, Debug, Default)]
pub struct InstanceOptions {
    /// Number of slots; with -N none means whole nodes [default: 1]
    #[arg(
        short = 'n',
        long,
        visible_alias = "ntasks",
        value_name = "N",
        value_parser = number(COUNTS),
        help_heading = "Resources"
    )]
    pub nslots: Option<u32>,
    /// Cores of each slot [default: 1]
    #[arg(
        short = 'c',
        long,
        visible_alias = "cores-per-task",
        value_name = "N",
        value_parser = number(COUNTS),
        help_heading = "Resources"
    )]
    pub cores_per_slot: Option<u32>,
    /// GPUs of each slot [default: 0]
    #[arg(
        short = 'g',
        long,
        visible_alias = "gpus-per-task",
        value_name = "N",
        value_parser = number(COUNTS_OR_NONE),
        help_heading = "Resources"
    )]
    pub gpus_per_slot: Option<u32>,
    /// Set a key of the new instance's configuration
    #[arg(long, value_name = "KEY=VALUE", action = ArgAction::Append, help_heading = "Instance")]
    pub conf: Vec<String>,
    /// Give nodes back by itself on which nothing ran for so long (30s, 5m) while no job waits inside
    #[arg(long, value_name = "FSD", help_heading = "Instance")]
    pub release_idle: Option<String>,
    /// With --release-idle: so many nodes stay, the leader's among them [default: 1]
    #[arg(
        long,
        value_name = "N",
        value_parser = number(1..=262_144_u32),
        requires = "release_idle",
        help_heading = "Instance"
    )]
    pub keep_nodes: Option<u32>,
    #[command(flatten)]
    pub terms: Terms,
}

/// What the new instance runs first, and whose end is its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// Nothing: it stays until it is shut down.
    None,
    /// A program and its arguments.
    Command(Vec<String>),
    /// A script that comes with the job.
    Script {
        /// Its text.
        text: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
}

/// What directives may say: options, and nothing else.
#[derive(Parser)]
#[command(
    no_binary_name = true,
    disable_help_flag = true,
    disable_version_flag = true
)]
struct Directives {
    #[command(flatten)]
    options: InstanceOptions,
}

impl InstanceOptions {
    /// The options that the directives of a script give.
    pub fn of_script(script: &str) -> anyhow::Result<InstanceOptions> {
        let words = directives::words(script)?;
        let texts = words.iter().map(|word| word.text.as_str());
        let command = number::with_minus(Directives::command(), texts.clone());
        let matches = command.try_get_matches_from(texts);
        match matches.and_then(|matches| Directives::from_arg_matches(&matches)) {
            Ok(parsed) => Ok(parsed.options),
            Err(error) => bail!(
                "line {}: {}",
                place(&words),
                crate::arguments::one_line(&error)
            ),
        }
    }

    /// These options, and where they say nothing those of `under`.
    pub fn over(self, under: InstanceOptions) -> InstanceOptions {
        InstanceOptions {
            nslots: self.nslots.or(under.nslots),
            cores_per_slot: self.cores_per_slot.or(under.cores_per_slot),
            gpus_per_slot: self.gpus_per_slot.or(under.gpus_per_slot),
            conf: joined(under.conf, self.conf),
            release_idle: self.release_idle.or(under.release_idle),
            keep_nodes: self.keep_nodes.or(under.keep_nodes),
            terms: self.terms.over(under.terms),
        }
    }

    /// The request for this instance, with a key of its own.
    pub fn request(&self, program: &Program, stdin: Stdin) -> anyhow::Result<SubmitRequest> {
        self.terms.request(&self.jobspec(program, stdin)?, None)
    }

    /// The request to have the instance that this job is grow by these nodes.
    pub fn ground(&self, of: JobId) -> anyhow::Result<SubmitRequest> {
        let given = [
            ("--conf", !self.conf.is_empty()),
            ("--release-idle", self.release_idle.is_some()),
        ];
        for (option, is_given) in given {
            ensure!(
                !is_given,
                "{option}: no instance is begun, the one that grows has its configuration"
            );
        }
        let slots = Slots {
            count: self.nslots,
            cores: self.cores_per_slot,
            gpus: self.gpus_per_slot,
        };
        let mut terms = self.terms.clone();
        terms.job_name.get_or_insert_with(|| "grant".to_owned());
        let command = ["grant".to_owned()];
        let mut ask = terms.ask(slots, &command, Stdin::Empty)?;
        ask.work = Work::Ground { of };
        terms.request(&ask.jobspec()?, None)
    }

    /// The request for an array of this instance, with a key of its own.
    pub fn array_request(&self, program: &Program, array: &Array) -> anyhow::Result<SubmitRequest> {
        let jobspec = array.of(self.jobspec(program, Stdin::Empty)?)?;
        self.terms.request(&jobspec, Some(array.ids.clone()))
    }

    /// The jobspec of this instance.
    pub fn jobspec(&self, program: &Program, stdin: Stdin) -> anyhow::Result<Jobspec> {
        for set in &self.conf {
            ensure!(
                set.split_once('=').is_some_and(|(key, _)| !key.is_empty()),
                "--conf={set}: is not KEY=VALUE"
            );
        }
        // The instance would end as it begins, and say why only in its log.
        if let Err(errors) = config::load("", &self.conf) {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            bail!("--conf: {}", errors.join("; "));
        }
        let slots = Slots {
            count: self.nslots,
            cores: self.cores_per_slot,
            gpus: self.gpus_per_slot,
        };
        let mut ask = self.terms.ask(slots, &self.command(program)?, stdin)?;
        ask.work = Work::Instance { name: None };
        let mut jobspec = ask.jobspec()?;
        if let Program::Script { text, .. } = program {
            let file = json!({ "data": text, "mode": SCRIPT_MODE });
            let files = &mut jobspec.attributes.system.files;
            files.insert("script".to_owned(), file);
        }
        let given = jobspec.to_json().len();
        ensure!(
            given <= JOBSPEC_BYTES_MAX,
            "the jobspec with its script has {given} bytes; allowed are at most {JOBSPEC_BYTES_MAX} (limit `jobspec`)"
        );
        // What no instance takes is refused here, in the words it would use.
        jobspec.request()?;
        jobspec.needs()?;
        jobspec.job_set()?;
        Ok(jobspec)
    }

    /// What its configuration has that says something else than the default.
    fn settings(&self) -> anyhow::Result<Vec<String>> {
        let mut sets = self.conf.clone();
        if let Some(text) = &self.release_idle {
            when::length("--release-idle", text)?;
            sets.push(format!("grant.release_idle={text}"));
        }
        sets.extend(
            self.keep_nodes
                .map(|keep| format!("grant.keep_nodes={keep}")),
        );
        Ok(sets)
    }

    /// The command of its leader.
    fn command(&self, program: &Program) -> anyhow::Result<Vec<String>> {
        let eddy = std::env::current_exe().context("cannot find the program of this command")?;
        let eddy = eddy.into_os_string().into_string();
        let eddy = eddy.map_err(|path| anyhow::anyhow!("the path {path:?} is not UTF-8"))?;
        let mut command = vec![eddy, "broker".to_owned(), "--child".to_owned()];
        for set in self.settings()? {
            command.extend(["-S".to_owned(), set]);
        }
        let first = match program {
            Program::None => return Ok(command),
            Program::Command(words) => words,
            Program::Script { arguments, .. } => arguments,
        };
        command.push("--".to_owned());
        command.extend(first.iter().cloned());
        Ok(command)
    }
}

/// The lines that directives stand on, as `2` or `2-5`.
fn place(words: &[Word]) -> String {
    let lines = words.iter().map(|word| word.line);
    match (lines.clone().min(), lines.max()) {
        (Some(first), Some(last)) if first < last => format!("{first}-{last}"),
        (first, _) => first.unwrap_or(1).to_string(),
    }
}

fn joined(mut first: Vec<String>, then: Vec<String>) -> Vec<String> {
    first.extend(then);
    first
}

impl Terms {
    /// These, and where they say nothing those of `under`.
    fn over(self, under: Terms) -> Terms {
        let (account, bank) = match (self.account, self.bank) {
            (None, None) => (under.account, under.bank),
            own => own,
        };
        let (mem, mem_per_task) = match (self.mem, self.mem_per_task) {
            (None, None) => (under.mem, under.mem_per_task),
            own => own,
        };
        Terms {
            nodes: self.nodes.or(under.nodes),
            mem,
            mem_per_task,
            exclusive: self.exclusive || under.exclusive,
            place: self.place.or(under.place),
            requires: match self.requires.is_empty() {
                true => under.requires,
                false => self.requires,
            },
            time_limit: self.time_limit.or(under.time_limit),
            signal: self.signal.or(under.signal),
            queue: self.queue.or(under.queue),
            account,
            bank,
            qos: self.qos.or(under.qos),
            class: self.class.or(under.class),
            urgency: self.urgency.or(under.urgency),
            eligible: self.eligible.over(under.eligible),
            as_user: self.as_user.or(under.as_user),
            requeue: self.requeue || under.requeue,
            flags: joined(under.flags, self.flags),
            job_name: self.job_name.or(under.job_name),
            cwd: self.cwd.or(under.cwd),
            env: joined(under.env, self.env),
            env_remove: joined(under.env_remove, self.env_remove),
            rlimit: joined(under.rlimit, self.rlimit),
            output: self.output.or(under.output),
            error: self.error.or(under.error),
            open_mode: self.open_mode.or(under.open_mode),
            input: self.input.or(under.input),
            label_io: self.label_io || under.label_io,
            setopt: joined(under.setopt, self.setopt),
            setattr: joined(under.setattr, self.setattr),
            dry_run: self.dry_run || under.dry_run,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> InstanceOptions {
        let parsed = Directives::try_parse_from(line.split_whitespace());
        parsed.expect("options").options
    }

    #[test]
    fn the_command_line_wins_over_directives() {
        let script =
            "#!/bin/sh\n# flux: -N2 -t 1h --mem=1G --env=A=1\n# flux: --job-name=x -S a.b=1\n";
        let under = InstanceOptions::of_script(script).expect("directives");
        assert_eq!(under.terms.nodes, Some(2.into()));
        let both = options("-N 4 --mem-per-task=2M --env=A=2 -n8").over(under);
        assert_eq!((both.terms.nodes, both.nslots), (Some(4.into()), Some(8)));
        assert_eq!(
            (both.terms.mem, both.terms.mem_per_task),
            (None, Some(2 << 20))
        );
        assert_eq!(both.terms.env, ["A=1", "A=2"]);
        assert_eq!(both.terms.job_name.as_deref(), Some("x"));
    }

    #[test]
    fn how_files_are_opened_is_one_option_wherever_it_is_said() {
        let under = InstanceOptions::of_script("# eddy: --open-mode=append\n").expect("directives");
        let mode = |line: &str| {
            let both = options(line).over(under.clone());
            let jobspec = both.jobspec(&Program::None, Stdin::Empty);
            let jobspec = jobspec.expect("a jobspec");
            jobspec.shell_option("output.mode").cloned()
        };
        assert_eq!(mode("-n1"), Some(json!("append")));
        assert_eq!(mode("--open-mode=truncate"), Some(json!("truncate")));
        assert_eq!(mode("-o output.mode=truncate"), Some(json!("truncate")));
    }

    #[test]
    fn what_a_directive_may_not_say_is_named_with_its_line() {
        let refused = |script: &str| {
            let error = InstanceOptions::of_script(script).expect_err("refused");
            format!("{error:#}")
        };
        let text = refused("#!/bin/sh\n# flux: --frobnicate\n");
        assert!(
            text.starts_with("line 2: unexpected argument '--frobnicate'"),
            "{text}"
        );
        assert!(refused("#!/bin/sh\n# eddy: -N2\n# eddy: hostname\n").starts_with("line 2-3: "));
        assert!(refused("# eddy: --mem=4X\n").contains("4X"));
    }

    #[test]
    fn an_instance_is_one_task_of_this_program_that_leads_a_child() {
        let script = Program::Script {
            text: "#!/bin/sh\n".to_owned(),
            arguments: vec!["-x".to_owned()],
        };
        let jobspec = options("-N2 -n4 --conf exec.kill_grace=9s")
            .jobspec(&script, Stdin::Empty)
            .expect("a jobspec");
        let value = serde_json::to_value(&jobspec).expect("JSON");
        let system = &value["attributes"]["system"];
        assert_eq!(system["instance"], json!({}));
        assert_eq!(
            system["files"]["script"],
            json!({ "data": "#!/bin/sh\n", "mode": 0o700 })
        );
        let command = jobspec.tasks[0].command[1..].to_vec();
        assert_eq!(
            command,
            ["broker", "--child", "-S", "exec.kill_grace=9s", "--", "-x"]
        );
        let request = jobspec.request().expect("a request");
        assert_eq!(
            (request.nodes, request.slots, request.ntasks),
            (Some(2), 4, 1)
        );
        assert_eq!(request.work, Work::Instance { name: None });
    }

    #[test]
    fn a_configuration_that_its_leader_would_refuse_is_refused() {
        let refused = |conf: &str| {
            let options = options(&format!("-n1 --conf {conf}"));
            let error = options.jobspec(&Program::None, Stdin::Empty);
            error.expect_err("refused").to_string()
        };
        assert!(
            refused("foo=1").starts_with("--conf: foo"),
            "{}",
            refused("foo=1")
        );
        assert!(refused("exec.kill_grace=xx").contains("exec.kill_grace"));
    }

    #[test]
    fn a_script_larger_than_a_jobspec_may_be_is_refused_by_the_limit() {
        let script = Program::Script {
            text: "#".repeat(JOBSPEC_BYTES_MAX),
            arguments: Vec::new(),
        };
        let error = options("-n1")
            .jobspec(&script, Stdin::Empty)
            .expect_err("refused");
        assert!(error.to_string().contains("(limit `jobspec`)"), "{error}");
        assert!(
            options("--conf x")
                .jobspec(&Program::None, Stdin::Empty)
                .is_err()
        );
    }
}
