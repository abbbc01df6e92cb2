//! `eddy shell` with a leader that is this test: ground, leaders that die and
//! streams that are handed on.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use eddy_cli_tests::fifo::Fifo;
use eddy_cli_tests::place::Place;
use eddy_cli_tests::process::{Process, readable_within};
use eddy_cli_tests::running::{LIMIT, Running};
use eddy_wire::hash::Hash;
use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::input::{Portion, Taken};
use eddy_wire::message::Message;
use eddy_wire::shell::{Ended, FromShell, Part, Role, Start, ToShell};
use serde_json::{Value, json};

type Tested = anyhow::Result<()>;

const SHELL: Epoch = Epoch(1);
const TOPIC: &str = "shell";

/// A shell and this test as its leader. The shell goes when this does.
struct Leader {
    shell: Running,
    listener: UnixListener,
    stream: UnixStream,
    place: Place,
}

fn part(job: u64, rank: u32) -> Part {
    Part {
        job: JobId(job),
        attempt: Attempt(1),
        rank: Rank(rank),
    }
}

impl Leader {
    /// Starts a shell by this script, in which `$@` is the command.
    fn begin(script: &str) -> anyhow::Result<Leader> {
        let mut leader = Leader::greeted(Place::new()?, script)?;
        leader.say(&ToShell::Welcome { leader: Epoch(1) })?;
        Ok(leader)
    }

    /// The same with a pipe from who launched it, and before anybody has welcomed it.
    fn launched() -> anyhow::Result<(Leader, Fifo)> {
        let place = Place::new()?;
        let launcher = place.fifo("launcher")?;
        let script = format!("exec \"$@\" --launched <{}", launcher.path().display());
        Ok((Leader::greeted(place, &script)?, launcher))
    }

    fn greeted(place: Place, script: &str) -> anyhow::Result<Leader> {
        let listener = UnixListener::bind(place.path().join("run/shell"))?;
        std::fs::create_dir(place.path().join("state"))?;
        let mut command = place.command("/bin/sh");
        command.args(["-c", script, "sh", &place.program(), "shell"]);
        command.args(["--statedir", &place.join("state")]);
        command.args(["--rundir", &place.join("run")]);
        command.args(["--epoch", "1", "--instance", &place.join("state")]);
        let shell = Running::start(command)?;
        let stream = accepted(&listener)?;
        let mut leader = Leader {
            shell,
            listener,
            stream,
            place,
        };
        leader.hear_hello()?;
        Ok(leader)
    }

    /// It is killed, and the next one is there.
    fn again(&mut self) -> Tested {
        self.stream.shutdown(Shutdown::Both)?;
        self.stream = accepted(&self.listener)?;
        self.hear_hello()
    }

    fn hear_hello(&mut self) -> Tested {
        match self.hear()? {
            FromShell::Hello { parts, .. } if parts.is_empty() => Ok(()),
            other => bail!("not the hello of a new shell: {other:?}"),
        }
    }

    fn say(&mut self, word: &ToShell) -> Tested {
        self.send(Message::request(TOPIC, 0, word))
    }

    /// Bytes for the standard input of a part's tasks.
    fn feed(&mut self, part: Part, bytes: &'static [u8]) -> Tested {
        let portion = Portion {
            number: 1,
            tasks: Idset::new(),
            at: None,
            eof: false,
            data: Vec::new(),
        };
        let message = Message::request(TOPIC, 0, &ToShell::Input { part, portion });
        self.send(message.with_tail(Bytes::from_static(bytes)))?;
        match self.hear()? {
            FromShell::Took {
                taken: Taken::Kept, ..
            } => Ok(()),
            other => bail!("not that it was taken: {other:?}"),
        }
    }

    fn send(&mut self, message: Message) -> Tested {
        let bytes = message.encode()?;
        self.stream.write_all(&(bytes.len() as u32).to_be_bytes())?;
        Ok(self.stream.write_all(&bytes)?)
    }

    fn hear(&mut self) -> anyhow::Result<FromShell> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut bytes)?;
        let message = Message::decode(&Bytes::from(bytes))?;
        let mut word: FromShell = serde_json::from_slice(&message.body)?;
        if let FromShell::Output { frames, .. } = &mut word {
            *frames = message.tail.to_vec();
        }
        Ok(word)
    }

    /// Starts a part whose tasks are this script.
    fn start(&mut self, part: Part, role: Role, script: &str, system: &Value) -> Tested {
        let mut system = system.clone();
        system["duration"] = json!(0);
        system["cwd"] = json!(self.place.path());
        let jobspec = json!({
            "version": 1,
            "resources": [{"type": "slot", "count": 1, "label": "task",
                "with": [{"type": "core", "count": 1}]}],
            "tasks": [{"command": ["/bin/sh", "-c", script], "slot": "task",
                "count": {"per_slot": 1}}],
            "attributes": {"system": system},
        })
        .to_string();
        let environment = json!({
            "PATH": "/usr/bin:/bin",
            "EDDY_TEST_PLACE": self.place.path(),
        })
        .to_string();
        for text in [&jobspec, &environment] {
            let hash = Hash::of(text.as_bytes());
            let text = text.as_str().into();
            self.say(&ToShell::Payload { hash, text })?;
        }
        self.say(&ToShell::Start(Box::new(Start {
            part,
            shell: SHELL,
            role,
            user: 0,
            jobspec: Hash::of(jobspec.as_bytes()),
            environment: Hash::of(environment.as_bytes()),
            cc: None,
            array: None,
            uri: None,
            first_task: 0,
            ntasks: 1,
            job_ntasks: 1,
            node_index: 0,
            job_nnodes: 1,
            host: "here".to_owned(),
            nodelist: "here".to_owned(),
            cores: Idset::new(),
            gpus: Idset::new(),
            memory: 0,
        })))?;
        match self.hear()? {
            FromShell::Started { part: which, .. } if which == part => Ok(()),
            other => bail!("not the start of {part}: {other:?}"),
        }
    }

    fn ended(&mut self, part: Part) -> anyhow::Result<Ended> {
        match self.hear()? {
            FromShell::Ended { part: which, ended } if which == part => {
                self.say(&ToShell::Forget { part })?;
                Ok(ended)
            }
            other => bail!("not the end of {part}: {other:?}"),
        }
    }

    /// All that the part wrote, as bytes of its spool.
    fn output(&mut self, part: Part) -> anyhow::Result<Vec<u8>> {
        let (read, offset, follow) = (1, 0, false);
        self.say(&ToShell::Read {
            part,
            read,
            offset,
            follow,
        })?;
        let mut all = Vec::new();
        loop {
            match self.hear()? {
                FromShell::Output { frames, end, .. } => {
                    all.extend(frames);
                    if end {
                        return Ok(all);
                    }
                }
                other => bail!("not output: {other:?}"),
            }
        }
    }

    fn end(mut self) -> anyhow::Result<()> {
        self.say(&ToShell::Exit)?;
        let ran = self.shell.wait()?;
        ensure!(ran.code == 0, "the shell: {} {}", ran.code, ran.err);
        Ok(())
    }
}

fn accepted(listener: &UnixListener) -> anyhow::Result<UnixStream> {
    ensure!(readable_within(listener, LIMIT), "no shell connects");
    let (stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(LIMIT))?;
    Ok(stream)
}

fn has(bytes: &[u8], text: &str) -> usize {
    let windows = bytes.windows(text.len());
    windows.filter(|part| *part == text.as_bytes()).count()
}

fn process(line: anyhow::Result<String>) -> anyhow::Result<Process> {
    let pid = line?.trim().parse()?;
    Process::of(pid).with_context(|| format!("process {pid} has ended"))
}

/// A job may have been placed on it, in a record that the leader made before it was killed.
#[test]
fn a_shell_that_said_hello_waits_for_the_next_leader_where_the_first_was_killed() -> Tested {
    let (mut leader, launcher) = Leader::launched()?;
    drop(launcher);
    leader.again()?;
    leader.say(&ToShell::Welcome { leader: Epoch(2) })?;
    leader.start(part(1, 0), Role::Tasks, "exit 3", &json!({}))?;
    assert_eq!(leader.ended(part(1, 0))?.status, 3 << 8);
    leader.end()
}

/// Nobody would come who could tell it to end.
#[test]
fn a_shell_that_nobody_welcomed_goes_with_a_leader_that_ends_in_order() -> Tested {
    let (leader, mut launcher) = Leader::launched()?;
    launcher.let_go(1)?;
    drop(launcher);
    assert_eq!(leader.shell.wait()?.code, 0);
    Ok(())
}

#[test]
fn ground_that_is_killed_takes_along_what_left_sessions_and_what_an_agent_started() -> Tested {
    let mut leader = Leader::begin("exec \"$@\"")?;
    let instance = leader.place.join("state");
    let mut tells = leader.place.fifo("told")?;
    let (ground, other) = (part(5, 1), part(6, 1));
    leader.start(ground, Role::Ground, "never run", &json!({}))?;
    leader.start(other, Role::Ground, "never run", &json!({}))?;
    // As the shell of a rank of an instance that this job is, started by an agent.
    let within = |marker: &str| {
        let script = "echo $$ >told; setsid sh -c 'echo $$ >told; exec sleep 1000' & \
                      setsid env -i sleep 1000 & echo $! >told; wait";
        let mut command = leader.place.command("/bin/sh");
        command.args(["-c", script]).env("EDDY_TASK", marker);
        Running::start(command)
    };
    let nested = within(&format!("outer/1.1.0:{instance}/5.1.1:child/3.1.0"))?;
    let mut inside = Vec::new();
    for _ in 0..3 {
        inside.push(process(tells.line())?);
    }
    let beside = within(&format!("outer/1.1.0:{instance}/6.1.1"))?;
    let spared: Vec<_> = (0..3)
        .map(|_| process(tells.line()))
        .collect::<anyhow::Result<_>>()?;
    let (part, term, kill) = (ground, 15, 9);
    leader.say(&ToShell::signal(part, term))?;
    leader.say(&ToShell::signal(part, kill))?;
    assert_eq!(leader.ended(ground)?.status, 0);
    for one in inside {
        assert!(one.ends_within(LIMIT), "{one}");
    }
    for one in &spared {
        assert!(one.hold().is_some(), "{one} is of another job");
    }
    let (part, signal) = (other, kill);
    leader.say(&ToShell::signal(part, signal))?;
    assert_eq!(leader.ended(other)?.status, 0);
    drop((nested, beside));
    leader.end()
}

#[test]
fn a_leader_that_is_killed_comes_back_with_its_streams_three_times_a_minute() -> Tested {
    let mut leader = Leader::begin("exec \"$@\"")?;
    let mut tells = leader.place.fifo("told")?;
    let script = "echo life; echo $$ >told; read line; echo heard $line; \
                  setsid sleep 1000 & echo $! >told; wait";
    let service = json!({"shell": {"options": {"input": {"stdin": {"type": "service"}}}},
        "instance": {}});
    let leads = part(5, 0);
    leader.start(leads, Role::Leader, script, &service)?;
    let first = process(tells.line())?;
    let statedir = leader.place.path().join("state/children/5.1");
    let mode = std::fs::metadata(&statedir)?.permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    first.kill()?;
    let second = process(tells.line())?;
    leader.feed(leads, b"word\n")?;
    let stray = process(tells.line())?;
    second.kill()?;
    process(tells.line())?.kill()?;
    process(tells.line())?.kill()?;
    let ended = leader.ended(leads)?;
    assert_eq!(ended.status, 9);
    assert_eq!(
        ended.note.as_deref(),
        Some("its leader died 4 times within 60 s, the last time by signal 9")
    );
    assert!(stray.ends_within(LIMIT), "what it left goes with its part");
    let output = leader.output(leads)?;
    let found = (has(&output, "life\n"), has(&output, "heard word\n"));
    assert_eq!(found, (4, 1));
    leader.end()
}

#[test]
fn a_leader_is_told_its_state_directory_and_a_declared_one_has_its_own() -> Tested {
    let mut leader = Leader::begin("exec \"$@\"")?;
    let script = "echo =$EDDY_JOB_STATEDIR=";
    let state = leader.place.join("state");
    for (job, system, name) in [
        (5, json!({"instance": {}}), "5.1"),
        (6, json!({"instance": {"name": "debug"}}), "debug"),
    ] {
        leader.start(part(job, 0), Role::Leader, script, &system)?;
        assert_eq!(leader.ended(part(job, 0))?.status, 0);
        let output = leader.output(part(job, 0))?;
        assert_eq!(has(&output, &format!("={state}/children/{name}=\n")), 1);
    }
    leader.start(part(7, 0), Role::Tasks, script, &json!({}))?;
    assert_eq!(leader.ended(part(7, 0))?.status, 0);
    assert_eq!(has(&leader.output(part(7, 0))?, "==\n"), 1);
    leader.end()
}

#[test]
fn tasks_inherit_what_the_shell_was_given_for_them() -> Tested {
    let given = "echo input >in; exec \"$@\" --inherit 3,4,5 3<in 4>out 5>err";
    let mut leader = Leader::begin(given)?;
    let inherit = json!({"type": "inherit"});
    let streams = json!({"shell": {"options": {"input": {"stdin": inherit},
        "output": {"stdout": inherit, "stderr": inherit}}}});
    let script = "cat; echo error >&2; exec 3>&1 && ls /proc/self/fd | wc -l";
    leader.start(part(5, 0), Role::Tasks, script, &streams)?;
    assert_eq!(leader.ended(part(5, 0))?.status, 0);
    let read = |name: &str| std::fs::read_to_string(leader.place.path().join(name));
    // 0, 1, 2, its own 3 and the directory it lists.
    assert_eq!(
        (read("out")?, read("err")?),
        ("input\n5\n".into(), "error\n".into())
    );
    leader.end()
}

#[test]
fn a_shell_without_streams_to_hand_on_says_so() -> Tested {
    let mut leader = Leader::begin("exec \"$@\"")?;
    let streams = json!({"shell": {"options": {"output": {"stdout": {"type": "inherit"}}}}});
    let refused = leader.start(part(5, 0), Role::Tasks, "true", &streams);
    let text = refused.err().map(|error| error.to_string());
    leader.say(&ToShell::Forget { part: part(5, 0) })?;
    let why = "output.stdout.type: is inherit; this instance was given no stream to hand on";
    assert!(
        text.as_deref().is_some_and(|text| text.contains(why)),
        "{text:?}"
    );
    leader.end()
}
