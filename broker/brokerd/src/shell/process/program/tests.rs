//! What a jobspec becomes for each task, and what its environment holds.

use std::path::Path;

use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::shell::Part;
use serde_json::json;

use super::*;

fn program(command: &[&str], system: Value) -> Result<Program, Why> {
    let mut system = system;
    system["duration"] = json!(0);
    let text = json!({
        "version": 1,
        "resources": [{"type": "slot", "count": 1, "label": "task",
            "with": [{"type": "core", "count": 1}]}],
        "tasks": [{"command": command, "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": system},
    });
    Program::parse(&text.to_string(), Path::new("/home"))
}

fn start(cc: Option<u32>) -> Start {
    Start {
        role: eddy_wire::shell::Role::Tasks,
        part: Part {
            job: JobId(905),
            attempt: Attempt(2),
            rank: Rank(0),
        },
        shell: Epoch(1),
        user: 0,
        jobspec: Hash::of(b""),
        environment: Hash::of(b""),
        cc,
        array: cc.map(|_| JobId(900)),
        uri: None,
        first_task: 4,
        ntasks: 4,
        job_ntasks: 8,
        node_index: 1,
        job_nnodes: 2,
        host: "n1".to_owned(),
        nodelist: "n[0-1]".to_owned(),
        cores: Idset::first_ids(4),
        gpus: Idset::new(),
        memory: 0,
    }
}

fn spelled(words: Vec<CString>) -> Vec<String> {
    words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

#[test]
fn words_are_filled_in_for_each_task_and_foreign_braces_are_left() {
    let program =
        program(&["run", "{{id}}.{{taskid}}.{cc}", "{{print}}"], json!({})).expect("read");
    let words = spelled(program.argv(&start(Some(7)), 5).expect("words"));
    assert_eq!(words, ["run", "905.5.7", "{{print}}"]);
    let words = spelled(program.argv(&start(None), 5).expect("words"));
    assert_eq!(
        words[1], "905.5.{cc}",
        "without --cc it is a text like any other"
    );
}

#[test]
fn errors_follow_output_to_its_file() {
    let shell = json!({"shell": {"options": {"output": {"stdout": {"path": "o.{{id}}"}}}}});
    let program = program(&["true"], shell).expect("read");
    assert_eq!(program.stderr, program.stdout);
    let name = program.file_name("o.{{id}}.{{node.id}}", &start(None), 4);
    assert_eq!(name, Ok("o.905.1".to_owned()));
    assert!(program.file_name("{{nothing}}", &start(None), 4).is_err());
}

#[test]
fn input_is_null_unless_asked_for() {
    let of = |input: Value| {
        let shell = json!({"shell": {"options": {"input": {"stdin": input}}}});
        program(&["cat"], shell).expect("read").stdin
    };
    assert_eq!(
        program(&["cat"], json!({})).expect("read").stdin,
        Stdin::Null
    );
    assert_eq!(of(json!({"type": "service"})), Stdin::Service);
    assert_eq!(
        of(json!({"type": "file", "path": "in"})),
        Stdin::File("in".to_owned())
    );
}

#[test]
fn a_mock_task_says_how_long_and_how_it_ends() {
    let of = |test: Value| program(&["x"], json!({"exec": {"test": test}})).map(|p| p.mock);
    let mock = |duration, status| Ok(Some(Mock { duration, status }));
    assert_eq!(
        of(json!({"run_duration": "1.5s"})),
        mock(Span::millis(1500), 0)
    );
    assert_eq!(
        of(json!({"run_duration": 2, "wait_status": 256})),
        mock(Span::seconds(2), 256)
    );
    assert!(of(json!({"run_duration": "soon"})).is_err());
}

#[test]
fn the_environment_is_the_jobspecs_and_the_shells_own_names() {
    let text = json!({"PATH": "/bin", "GONE": null, "N": "x{cc}", "EDDY_JOB_ID": "1"}).to_string();
    let environment = Environment::parse(&text).expect("read");
    let start = start(Some(3));
    let marker = Marker {
        instance: "abc".to_owned(),
        job: 905,
        attempt: 2,
        rank: 0,
    };
    let place = Place {
        start: &start,
        task: 5,
        uri: "local:///run/local",
        marker: &marker,
        outer: Some("root/1.1.0"),
        statedir: None,
        gpus: &[0, 2],
    };
    let all = spelled(environment.of_task(&place).expect("variables"));
    for expected in [
        "PATH=/bin",
        "N=x3",
        "EDDY_URI=local:///run/local",
        "EDDY_JOB_ID=905",
        "EDDY_JOB_ATTEMPT=2",
        "EDDY_TASK_RANK=5",
        "EDDY_TASK_LOCAL_ID=1",
        "FLUX_JOB_SIZE=8",
        "CUDA_VISIBLE_DEVICES=0,2",
        "EDDY_TASK=root/1.1.0:abc/905.2.0",
    ] {
        assert!(
            all.iter().any(|variable| variable == expected),
            "{expected} in {all:?}"
        );
    }
    assert!(!all.iter().any(|variable| variable.starts_with("GONE")));
    assert_eq!(
        all.iter()
            .filter(|variable| variable.starts_with("EDDY_JOB_ID="))
            .count(),
        1
    );
}

#[test]
fn a_text_is_made_into_something_once() {
    let mut kept = Kept::default();
    let hash = Hash::of(b"a");
    assert_eq!(kept.get(hash, || Ok(1)), Ok(Arc::new(1)));
    assert_eq!(kept.get(hash, || panic!("it is kept")), Ok(Arc::new(1)));
    for n in 0..KEPT_MAX {
        let made = kept.get(Hash::of(n.to_string().as_bytes()), || Ok(2));
        assert_eq!(made, Ok(Arc::new(2)));
    }
    assert_eq!(
        kept.get(hash, || Ok(3)),
        Ok(Arc::new(3)),
        "the oldest was let go"
    );
}
