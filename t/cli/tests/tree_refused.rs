//! What must be refused well in trees of ranks and instances: who may not knock,
//! what a child may not say, paths that lead nowhere, and a rank without leader.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::Context;
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use eddy_cli_tests::process::Process;
use eddy_cli_tests::running::{LIMIT, Ran, Running};
use eddy_cli_tests::socket::{Socket, framed};
use eddy_wire::error::Code;
use eddy_wire::link::{HELLO_BYTES_MAX, HelloAnswer};
use rustix::process::Signal;
use serde_json::{Value, json};

type Tested = anyhow::Result<()>;

/// Two nodes of this machine with a core each.
fn two() -> anyhow::Result<Instance> {
    Instance::start(&["--size=2", "--cores=1"])
}

/// Where ranks knock at the leader.
fn door(instance: &Instance) -> PathBuf {
    instance.socket().with_file_name("door")
}

fn id(instance: &Instance) -> anyhow::Result<String> {
    let pong = instance.json(&["ping", "--json"])?;
    Ok(pong["instance"].as_str().context("an id")?.to_owned())
}

/// The sockets of rank 1, as `--at` takes them.
fn rank_1(instance: &Instance) -> String {
    format!("{}/ranks/1", instance.state().display())
}

/// Works on both ranks.
fn works(instance: &Instance) -> Tested {
    let out = instance.ok(&["run", "-N2", "-n2", "echo", "fine"])?;
    assert_eq!(out, "fine\nfine");
    Ok(())
}

/// An agent that says what it logs on standard output.
fn agent(instance: &Instance, words: &[&str]) -> std::process::Command {
    let mut command = instance.place.command("/bin/sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh", &instance.place.program()]);
    command.args(["agent", "--statedir", &instance.place.join("other")]);
    command.arg("--leader").arg(door(instance)).args(words);
    command
}

fn hello(instance: &str, rank: u32, protocol: (u16, u16)) -> Value {
    json!({
        "protocol": [protocol.0, protocol.1],
        "instance": instance,
        "rank": rank,
        "life": uuid::Uuid::new_v4(),
        "door": "/tmp/nobody",
    })
}

/// What a door says to this first word.
fn knock(instance: &Instance, word: &[u8]) -> anyhow::Result<(Code, String)> {
    let mut socket = Socket::connect(&door(instance))?;
    socket.send(&framed(word));
    match serde_json::from_slice(&socket.rest()?[4..])? {
        HelloAnswer::Refused(no) => Ok((no.code, no.text)),
        other => anyhow::bail!("it was to be refused: {other:?}"),
    }
}

#[test]
fn whoever_may_not_be_a_rank_is_refused_by_name() -> Tested {
    let instance = two()?;
    let here = id(&instance)?;
    let said = |word: Value| knock(&instance, word.to_string().as_bytes());
    let other = "01234567-0000-4000-8000-000000000000";
    for (word, code, text) in [
        (
            hello(other, 1, (1, 1)),
            Code::NotFound,
            format!("instance {other} is not served here; this is {here}"),
        ),
        (
            hello(&here, 1, (7, 9)),
            Code::Invalid,
            "protocol 7 to 9 is spoken by rank 1; here it is 1 to 1".to_owned(),
        ),
        (
            hello(&here, 0, (1, 1)),
            Code::Conflict,
            "rank 0 is the leader and follows nobody".to_owned(),
        ),
        (
            hello(&here, 1 << 18, (1, 1)),
            Code::TooLarge,
            "rank 262144 is over the limit `ranks` of 262144".to_owned(),
        ),
    ] {
        assert_eq!(said(word)?, (code, text));
    }
    let (code, text) = said(hello(&here, 1, (1, 1)))?;
    assert_eq!(code, Code::Conflict);
    assert!(text.contains("rank 1 is held by life"), "{text}");
    assert!(text.ends_with("two agents for one rank"), "{text}");
    works(&instance)?;
    instance.shut_down()
}

#[test]
fn an_agent_that_may_not_be_one_says_why_and_the_first_goes_on() -> Tested {
    let instance = two()?;
    let here = id(&instance)?;
    let other = "01234567-0000-4000-8000-000000000000";
    let foreign = agent(&instance, &["--rank=1", "--instance", other]);
    let foreign = Running::start(foreign)?;
    foreign.prints(&format!(
        "instance {other} is not served here; this is {here}"
    ))?;
    foreign.signal(Signal::TERM)?;
    assert_eq!(foreign.wait()?.code, 0);
    // On the same machine it would take the sockets of the first.
    let second = ["--rank=1", "--instance", &here];
    let ran = Running::start(agent(&instance, &second))?.wait()?;
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.out.contains("two agents for one rank"), "{}", ran.out);
    // As one of another host, which only the door tells from the first.
    let mut elsewhere = agent(&instance, &second);
    elsewhere.env("XDG_RUNTIME_DIR", instance.place.join("tmp"));
    let elsewhere = Running::start(elsewhere)?;
    elsewhere.prints("two agents for one rank")?;
    elsewhere.signal(Signal::TERM)?;
    assert_eq!(elsewhere.wait()?.code, 0);
    let ran = Running::start(agent(&instance, &["--rank=0", "--instance", &here]))?.wait()?;
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.out.contains("--rank: 0 given"), "{}", ran.out);
    let at = rank_1(&instance);
    assert_eq!(instance.ok(&["--at", &at, "run", "echo", "here"])?, "here");
    works(&instance)?;
    instance.shut_down()
}

#[test]
fn a_leader_that_is_stopped_is_told_of_and_given_up() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let leader = instance.leader()?;
    leader.signal(Signal::STOP)?;
    let given_up = instance.run(&["--reconnect=2s", "jobs"]);
    let by_path = instance.run(&["--at", "/", "--reconnect=4s", "jobs"]);
    leader.signal(Signal::CONT)?;
    let given_up = given_up?;
    assert_eq!(given_up.code, 1);
    let lines: Vec<&str> = given_up.err.lines().collect();
    assert!(
        lines[0].starts_with("eddy: waiting for the leader of ")
            && lines[0].ends_with(", which does not answer"),
        "{lines:?}"
    );
    assert!(lines[1].contains("no answer for 2.0 s"), "{lines:?}");
    // Asked several times: it is told of all of it.
    let by_path = by_path?.err;
    assert!(by_path.contains("no answer for 4."), "{by_path}");
    instance.shut_down()
}

#[test]
fn garbage_and_silence_at_a_door_hurt_nobody() -> Tested {
    let instance = two()?;
    let leader = instance.leader()?;
    // Says nothing, and says half of a hello: both stay open meanwhile.
    let _silent = UnixStream::connect(door(&instance))?;
    let mut slow = Socket::connect(&door(&instance))?;
    slow.send(&[0, 0]);
    let (code, text) = knock(&instance, b"no hello at all")?;
    assert_eq!(code, Code::Invalid);
    assert!(text.starts_with("first word: "), "{text}");
    let (_, text) = knock(&instance, &vec![b' '; HELLO_BYTES_MAX + 1])?;
    let longer = HELLO_BYTES_MAX + 1;
    let allowed = format!("{longer} bytes; allowed are at most {HELLO_BYTES_MAX}");
    assert!(text.contains(&allowed), "{text}");
    for bytes in [&[0xff; 4096][..], &[0; 4096], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut socket = Socket::connect(&door(&instance))?;
        socket.send(bytes);
        socket.is_closed()?;
    }
    works(&instance)?;
    assert_eq!(instance.leader()?, leader);
    // Who does not finish its hello is told so after a while.
    let said = String::from_utf8_lossy(&slow.rest()?).into_owned();
    assert!(said.contains("hello: nothing came within 5s"), "{said}");
    instance.shut_down()
}

#[test]
fn the_seventeenth_level_is_refused_with_the_limit() -> Tested {
    let place = Place::new()?;
    let script = format!(
        "#!/bin/sh\necho level\nexec {} alloc -n1 {}\n",
        place.program(),
        place.join("deeper")
    );
    let script = place.script("deeper", &script)?;
    let ran = place.run(&["start", "--cores=1", &script])?;
    assert_eq!(ran.out, "level\n".repeat(17), "16 below the root");
    let why = "it would be at depth 17; the limit `nesting` is 16";
    assert_eq!(ran.err.matches(why).count(), 1, "{}", ran.err);
    assert_eq!(ran.code, 1);
    Ok(())
}

#[test]
fn a_child_speaks_only_for_itself_and_within_its_grant() -> Tested {
    let instance = Instance::start(&["--cores=4"])?;
    let job = number(&instance, &instance.ok(&["alloc", "-n2", "--bg"])?)?;
    let plain = number(&instance, &instance.submit_started(&["sleep", "1000"])?)?;
    let figures = |used: u64| {
        json!({"pending": 0, "running": 0, "completed": 0, "failed": 0,
            "cores_used": used, "instances": 0})
    };
    let of = |job: u64, attempt: u32| json!({"job": job, "attempt": attempt});
    let report = |of: Value, used| json!({"child": of, "summary": figures(used)});
    let adopt = |of: Value, instance: &str| {
        json!({"child": of, "instance": instance, "uri": "local:///tmp/x/local",
            "door": "/tmp/x/door", "statedir": "/tmp/x", "leader": 9})
    };
    let too_much = format!("cores_used: 3 given, the grant of job {job} has 2");
    let foreign = |job| format!("child.job: {job} given, no instance that is not over is that job");
    let attempt = format!("child.attempt: 7 given, job {job} is in attempt 1");
    let ids = "child.job: a user's own instance counts its jobs itself".to_owned();
    for (topic, body, code, text) in [
        ("child.report", report(of(job, 1), 3), "invalid", too_much),
        (
            "child.report",
            report(of(plain, 1), 1),
            "not-found",
            foreign(plain),
        ),
        (
            "child.report",
            report(of(905, 1), 1),
            "not-found",
            foreign(905),
        ),
        (
            "child.adopt",
            adopt(of(plain, 1), "other"),
            "not-found",
            foreign(plain),
        ),
        (
            "child.adopt",
            adopt(of(job, 7), "other"),
            "conflict",
            attempt,
        ),
        (
            "child.adopt",
            adopt(of(job, 1), "other"),
            "conflict",
            "instance: `other` given".into(),
        ),
        (
            "child.adopt",
            adopt(of(job, 1), "no id"),
            "invalid",
            "instance: `no id` given".into(),
        ),
        (
            "child.ids",
            json!({"child": of(job, 1), "number": 1}),
            "denied",
            ids,
        ),
    ] {
        let said = Socket::connect(&instance.socket())?.ask(topic, &body)?;
        let refusal: Value = serde_json::from_slice(&said.body)?;
        assert_eq!(refusal["code"], code, "{topic} {body}: {refusal}");
        let found = refusal["text"].as_str().unwrap_or_default();
        assert!(found.starts_with(&text), "{topic} {body}: {refusal}");
    }
    let (at, job) = (job.to_string(), job);
    assert_eq!(instance.ok(&["--at", &at, "run", "echo", "fine"])?, "fine");
    assert_eq!(
        instance
            .events(&at)?
            .iter()
            .filter(|name| *name == "adopt")
            .count(),
        1
    );
    instance.ok(&["cancel", &plain.to_string()])?;
    instance.ok(&["shutdown", &job.to_string()])?;
    instance.shut_down()
}

/// The number of a job, however it is spelled.
fn number(instance: &Instance, job: &str) -> anyhow::Result<u64> {
    let text = instance.ok(&["jobs", "--no-header", "-o", "{id.dec}", job])?;
    Ok(text.parse()?)
}

fn refusal(ran: &Ran) -> anyhow::Result<String> {
    let line = ran.refusal()?;
    Ok(line.split_once(": ").context("a verb")?.1.to_owned())
}

#[test]
fn a_path_that_leads_nowhere_names_the_level_that_is_missing() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let job = number(&instance, &instance.ok(&["alloc", "-n1", "--bg"])?)?.to_string();
    let plain = number(&instance, &instance.submit_started(&["sleep", "1000"])?)?.to_string();
    let words = ["batch", "-n2", "--output=none", "--wrap", "true"];
    let waits = number(&instance, &instance.ok(&words)?)?.to_string();
    let at = |path: &str| refusal(&instance.run(&["--at", path, "jobs"])?);
    let (below, deep) = (format!("{plain}/7"), format!("{job}/9/4"));
    assert_eq!(at("905/3/7")?, "905/3/7: this instance has no job 905");
    assert_eq!(at(&deep)?, format!("{deep}: instance {job} has no job 9"));
    let none = format!("{below}: job {plain} of this instance is not an instance");
    assert_eq!(at(&below)?, none);
    let (path, why) = (format!("{waits}/3"), "2 cores; 0 are free now");
    let waiting = format!("{path}: job {waits} of this instance waits for resources: {why}");
    assert_eq!(at(&path)?, waiting);
    let up = refusal(&instance.run(&["--parent", "jobs"])?)?;
    assert!(up.ends_with("is a root and has no parent"), "{up}");
    assert!(up.contains(&id(&instance)?), "{up}");
    instance.ok(&["shutdown", &job])?;
    instance.ok(&["cancel", &plain])?;
    let path = format!("{job}/3");
    assert_eq!(at(&path)?, format!("{path}: instance {job} has no job 3"));
    let late = refusal(&instance.run(&["--at", &job, "submit", "true"])?)?;
    assert!(
        late.starts_with(&format!("instance {job} has ended")),
        "{late}"
    );
    assert_eq!(instance.code(&waits)?, 0);
    instance.shut_down()
}

#[test]
fn an_empty_name_of_an_instance_is_not_the_one_that_is_there() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let empty: [&[&str]; 8] = [
        &["--at", "", "jobs"],
        &["--at", "jobid:", "jobs"],
        &["uri", ""],
        &["uri", "jobid:"],
        &["tree", ""],
        &["tree", "jobid:"],
        &["shutdown", ""],
        &["shutdown", "jobid:"],
    ];
    for words in empty {
        let ran = instance.run(words)?;
        assert!(ran.refusal()?.contains("is empty"), "{}", ran.err);
    }
    let with = |value: &OsStr| {
        let mut command = instance.eddy(&["jobs"]);
        command.env("EDDY_URI", value);
        Running::start(command)?.wait()
    };
    let ran = with(OsStr::new(""))?;
    assert!(ran.refusal()?.contains("EDDY_URI is set and empty"));
    let ran = with(OsStr::from_bytes(b"\xff"))?;
    assert!(ran.refusal()?.contains("is not UTF-8"), "{}", ran.err);
    let job = number(&instance, &instance.ok(&["alloc", "-n1", "--bg"])?)?;
    let named = format!("jobid:{job}");
    assert_eq!(
        instance.ok(&["--at", &named, "run", "echo", "in it"])?,
        "in it"
    );
    instance.ok(&["tree", &named])?;
    instance.ok(&["shutdown", &named])?;
    instance.shut_down()
}

#[test]
fn a_rank_without_leader_waits_and_says_so() -> Tested {
    let instance = two()?;
    let at = rank_1(&instance);
    instance.kill_leader()?;
    let pong = instance.json(&["--at", &at, "ping", "--json", "1"])?;
    assert_eq!(
        (&pong["rank"], &pong["phase"]),
        (&json!(1), &json!("follow"))
    );
    let up = instance.run(&["--at", &at, "ping", "upstream"])?;
    assert!(up.err.contains("rank 1 has no way up: "), "{}", up.err);
    let waits = instance.begin(&["--at", &at, "submit", "--wait", "true"])?;
    let log = std::fs::read_to_string(format!("{at}/log"))?;
    assert!(log.contains("there is no way to the leader"), "{log}");
    instance.start_again()?;
    let ran = waits.wait()?;
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        instance.ok(&["jobs", "-a", "--no-header"])?.lines().count(),
        1
    );
    instance.shut_down()
}

#[test]
fn a_wrong_declaration_is_refused_with_all_that_is_wrong() -> Tested {
    let place = Place::new()?;
    let text = "[[instance]]\nname = \"a\"\nnodes = 1\n\
                [[instance]]\nname = \"a\"\nnodes = 1\n\
                [[instance]]\nname = \"Bad Name\"\nnodes = 0\n\
                [[queue]]\nname = \"q\"\ninstance = \"nope\"\n\
                [[queue]]\nname = \"q\"\ninstance = \"a\"\n\
                [tree]\nfanout = 0\n";
    std::fs::write(place.path().join("config.toml"), text)?;
    let named = [
        "instance[1].name: \"a\" is given twice",
        "instance[2].name: ",
        "instance[2].nodes: ",
        "queue[0].instance: is \"nope\"; there are root, a",
        "queue[1].name: \"q\" is given twice",
        "tree.fanout: is 0",
    ];
    for words in [
        &["start", "--config", "config.toml", "true"][..],
        &["config", "check", "config.toml"],
    ] {
        let ran = place.run(words)?;
        assert_ne!(ran.code, 0);
        for error in named {
            assert!(ran.err.contains(error), "{error}: {}", ran.err);
        }
    }
    Ok(())
}

#[test]
fn nothing_of_a_killed_tree_is_left_after_its_next_end() -> Tested {
    let instance = two()?;
    let mut tells = instance.place.fifo("told")?;
    let script = "setsid sleep 1000 & echo $! >told; wait";
    instance.submit(&["-N2", "-n2", "sh", "-c", script])?;
    let tasks: anyhow::Result<Vec<Process>> = (0..2)
        .map(|_| {
            let pid = tells.line()?.trim().parse()?;
            Process::of(pid).context("it has ended")
        })
        .collect();
    let mut kinds = BTreeMap::new();
    for verb in ["broker", "agent", "shell"] {
        for one in instance
            .place
            .processes()
            .iter()
            .filter(|one| one.is_eddy(verb))
        {
            one.kill()?;
            *kinds.entry(verb).or_insert(0) += 1;
        }
    }
    assert_eq!((kinds["broker"], kinds["agent"]), (1, 1));
    instance.start_again()?;
    assert!(tasks?.iter().all(|task| task.ends_within(LIMIT)));
    works(&instance)?;
    instance.shut_down()
}
