//! What must be refused well: in one line that says what was given and what is
//! allowed, and without harm to anybody else.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use eddy_cli_tests::running::Running;
use eddy_cli_tests::socket::{Socket, framed};
use eddy_client::ClientError;
use eddy_wire::error::Code;
use eddy_wire::event::{Requeue, Waitable};
use eddy_wire::message::{MESSAGE_BYTES_MAX, Message, Type};
use eddy_wire::services::job::SubmitRequest;
use serde_json::{Value, json};
use uuid::Uuid;

type Tested = anyhow::Result<()>;

/// What makes a good jobspec a bad one.
type Change<'a> = &'a dyn Fn(&mut Value);

/// A jobspec of one task.
fn jobspec(instance: &Instance) -> anyhow::Result<Value> {
    instance.json(&["submit", "--dry-run", "--env=-*", "true"])
}

fn request(key: Uuid, jobspec: Value) -> SubmitRequest {
    SubmitRequest {
        key,
        jobspec,
        cc: None,
        urgency: 16,
        waitable: Waitable::No,
        requeue: Requeue::No,
        on_behalf: None,
    }
}

/// Code and text of the refusal of this request.
fn refusal(instance: &Instance, request: &SubmitRequest) -> anyhow::Result<(Code, String)> {
    match instance.submit_request(request) {
        Err(ClientError::Refused(refusal)) => Ok((refusal.code, refusal.text)),
        other => anyhow::bail!("it was to be refused: {other:?}"),
    }
}

#[test]
fn impossible_requests_are_refused_with_the_numbers() -> Tested {
    let instance = Instance::start(&["--fake=nodes=2,cores=64,gpus=1,memory=8G"])?;
    let said = |words: &[&str]| -> anyhow::Result<String> {
        let ran = instance.run(&[&["submit"], words, &["true"]].concat())?;
        let line = ran.refusal()?;
        Ok(line.trim_start_matches("eddy submit: ").to_owned())
    };
    assert_eq!(
        said(&["-c96"])?,
        "resources: asks for 96 cores on one node; the largest has 64"
    );
    assert_eq!(
        said(&["-g2"])?,
        "resources: asks for 2 gpus on one node; the largest has 1"
    );
    assert_eq!(
        said(&["-N3"])?,
        "resources: asks for 3 whole nodes; the instance has 2"
    );
    assert_eq!(
        said(&["--mem=9G"])?,
        "resources: asks for 9663676416 bytes of memory on one node; the largest has 8589934592"
    );
    for (words, named) in [
        (["-n", "-1"], "-1"),
        (["-n", "0"], "0"),
        (["-n", "99999999999"], "99999999999"),
        (["-c", "0"], "0"),
        (["-t", "nan"], "nan"),
        (["-t", "-5"], "-5"),
        (["-t", "0"], "0"),
        (["--urgency", "32"], "0 to 31"),
        (["-q", "none"], "queue"),
        (["--cc", "5-1"], "5-1"),
        (["-n", "70000"], "70000"),
        (["--mem", "4X"], "X"),
    ] {
        let line = said(&words)?;
        assert!(line.contains(named), "{words:?}: {line}");
    }
    assert_eq!(
        instance.ok(&["jobs", "-a", "--json"])?,
        "[]",
        "nothing was taken"
    );
    Ok(())
}

#[test]
fn unknown_keys_and_wrong_types_of_a_jobspec_are_named_by_their_path() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let whole = jobspec(&instance)?;
    let refused = |change: Change| -> anyhow::Result<(Code, String)> {
        let mut spec = whole.clone();
        change(&mut spec);
        refusal(&instance, &request(Uuid::now_v7(), spec))
    };
    let cases: [(&str, Change); 6] = [
        ("bogus", &|spec| spec["bogus"] = json!(1)),
        ("tasks[0].comand", &|spec| {
            spec["tasks"][0]["comand"] = json!([])
        }),
        ("resources[0].with[0].cuont", &|spec| {
            spec["resources"][0]["with"][0]["cuont"] = json!(1)
        }),
        ("attributes.system.duration", &|spec| {
            spec["attributes"]["system"]["duration"] = json!("x")
        }),
        ("tasks[0].command", &|spec| {
            spec["tasks"][0]["command"] = json!("true")
        }),
        ("version", &|spec| spec["version"] = json!(7)),
    ];
    for (path, change) in cases {
        let (code, text) = refused(change)?;
        assert_eq!(code, Code::Invalid, "{text}");
        assert!(
            text.contains(path) && !text.contains('\n'),
            "{path}: {text}"
        );
    }
    let (_, text) = refused(&|spec| {
        spec["attributes"]["system"]["environment"]["A"] = "x".repeat(5 << 20).into();
    })?;
    assert!(text.contains("4194304"), "{text}");
    Ok(())
}

#[test]
fn a_key_is_one_submission() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let spec = jobspec(&instance)?;
    let key = Uuid::now_v7();
    let first = instance.submit_request(&request(key, spec.clone()))?;
    assert_eq!(instance.submit_request(&request(key, spec.clone()))?, first);
    let mut other = spec.clone();
    other["tasks"][0]["command"] = json!(["false"]);
    let (code, text) = refusal(&instance, &request(key, other))?;
    assert_eq!(code, Code::Conflict);
    assert!(text.contains("another jobspec"), "{text}");
    // As long as the job's row is kept: over, and after a restart.
    let job = first.first.to_string();
    assert_eq!(instance.code(&job)?, 0);
    instance.event(&job, "clean")?;
    instance.kill_leader()?;
    instance.start_again()?;
    assert_eq!(instance.submit_request(&request(key, spec))?, first);
    assert_eq!(
        instance
            .json(&["jobs", "-a", "--json"])?
            .as_array()
            .map_or(0, Vec::len),
        1
    );
    Ok(())
}

#[test]
fn arguments_that_are_not_utf8_are_refused_by_place() -> Tested {
    let place = Place::new()?;
    let mut command = place.eddy(&["run", "echo"]);
    command.arg(OsStr::from_bytes(b"a\xffb"));
    let ran = Running::start(command)?.wait()?;
    assert_eq!(ran.code, 2);
    assert!(
        ran.refusal()?.starts_with("eddy run: argument 3 is"),
        "{}",
        ran.err
    );
    for words in [
        vec!["rn"],
        vec!["jobs", "--jso"],
        vec!["submit"],
        vec!["job", "wiat", "1"],
        vec![],
    ] {
        let ran = place.run(&words)?;
        assert_eq!(ran.code, 2, "{words:?}");
        ran.refusal()?;
    }
    Ok(())
}

#[test]
fn an_environment_that_is_not_utf8_is_told_and_left_out() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let mut command = instance.eddy(&["run", "sh", "-c", "echo ${ODD-unset}"]);
    command.env("ODD", OsStr::from_bytes(b"\xff"));
    let ran = Running::start(command)?.wait()?;
    assert_eq!((ran.code, ran.out.as_str()), (0, "unset\n"));
    assert!(ran.err.contains("ODD"), "{}", ran.err);
    Ok(())
}

/// What no client sends.
fn hostile() -> Vec<Vec<u8>> {
    let ask = |topic: &str, body: &Value| {
        let message = Message::request(topic, 9, body).encode().expect("small");
        framed(&message)
    };
    let mut cut = ask("job.list", &json!({}));
    cut.truncate(cut.len() - 3);
    let mut lengths = ask("job.list", &json!({}));
    let header = 4 + 20;
    for byte in &mut lengths[header..header + 10] {
        *byte = 0xff;
    }
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    let mut nested = Message::request("job.submit", 9, &json!(null));
    nested.body = deep.into_bytes().into();
    vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0; 4096],
        vec![0xff; 4096],
        framed(&[0xed]),
        (MESSAGE_BYTES_MAX as u32 + 1).to_be_bytes().to_vec(),
        cut,
        lengths,
        ask("no.such.service", &json!({})),
        ask("job.submit", &json!({"key": 5})),
        ask("job.list", &json!([1, 2, 3])),
        ask("", &json!(null)),
        framed(&nested.encode().expect("under the limit")),
    ]
}

#[test]
fn hostile_bytes_on_the_socket_for_clients_harm_nobody() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let leader = instance.leader()?;
    for bytes in hostile() {
        let mut socket = Socket::connect(&instance.socket())?;
        socket.send(&bytes);
        drop(socket);
    }
    // What is no frame ends its own connection, at once.
    let mut socket = Socket::connect(&instance.socket())?;
    socket.send(&u32::MAX.to_be_bytes());
    socket.is_closed()?;
    let mut socket = Socket::connect(&instance.socket())?;
    socket.send(&framed(b"not an eddy message at all, whatever its length"));
    socket.is_closed()?;
    // A request that is wrong is refused, and its connection goes on.
    let mut socket = Socket::connect(&instance.socket())?;
    assert_eq!(
        socket.ask("no.such.service", &json!({}))?.kind,
        Type::Refused
    );
    assert_eq!(
        socket.ask("job.submit", &json!({"key": 5}))?.kind,
        Type::Refused
    );
    assert_eq!(
        socket.ask("instance.ping", &json!({"pad": ""}))?.kind,
        Type::Reply
    );
    assert_eq!(instance.leader()?, leader, "the leader lives");
    assert_eq!(instance.ok(&["run", "echo", "fine"])?, "fine");
    Ok(())
}

#[test]
fn hostile_bytes_on_the_socket_for_shells_harm_nobody() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let leader = instance.leader()?;
    let mut gate = instance.place.fifo("gate")?;
    let job = instance.submit_started(&["sh", "-c", "read line <gate; exit 4"])?;
    let socket = instance.socket().with_file_name("shell");
    for bytes in hostile() {
        let mut socket = Socket::connect(&socket)?;
        socket.send(&bytes);
        drop(socket);
    }
    // One that says it is this instance's shell is not believed.
    let pong = instance.json(&["ping", "--json"])?;
    let hello =
        json!({"hello": {"instance": pong["instance"], "epoch": 99, "pid": 1, "parts": []}});
    let mut liar = Socket::connect(&socket)?;
    liar.send(&framed(&Message::request("shell", 0, &hello).encode()?));
    drop(liar);
    gate.let_go(1)?;
    assert_eq!(instance.code(&job)?, 4);
    assert_eq!(instance.leader()?, leader, "the leader lives");
    assert_eq!(instance.ok(&["run", "echo", "fine"])?, "fine");
    Ok(())
}

#[test]
fn memory_grows_with_what_was_sent_and_not_with_what_was_claimed() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let leader = instance.leader()?;
    let before = leader.kib("VmRSS");
    let mut held = Vec::new();
    for _ in 0..64 {
        // Each claims the largest message there is, 1 GiB in all, and sends a little of it.
        let mut socket = Socket::connect(&instance.socket())?;
        socket.send(&(MESSAGE_BYTES_MAX as u32).to_be_bytes());
        socket.send(&[0xed; 1000]);
        held.push(socket);
    }
    assert_eq!(instance.run(&["ping"])?.code, 0);
    let grown = leader.kib("VmHWM").saturating_sub(before);
    assert!(grown < 32 << 10, "grew by {grown} KiB");
    Ok(())
}

#[test]
fn a_message_over_the_limit_is_refused_by_the_client_and_by_the_leader() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let mut spec = jobspec(&instance)?;
    spec["attributes"]["user"] = json!({"large": "x".repeat(MESSAGE_BYTES_MAX)});
    match instance.submit_request(&request(Uuid::now_v7(), spec)) {
        Err(error) => {
            let text = format!("{:#}", anyhow::Error::from(error));
            assert!(text.contains("16777216"), "{text}");
        }
        Ok(submitted) => anyhow::bail!("{submitted:?}"),
    }
    let mut socket = Socket::connect(&instance.socket())?;
    socket.send(&(MESSAGE_BYTES_MAX as u32 + 1).to_be_bytes());
    socket.is_closed()?;
    assert_eq!(instance.run(&["ping"])?.code, 0);
    Ok(())
}
