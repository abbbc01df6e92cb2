//! What programs need that drive an instance: all events from one process, many submissions by one, rows and exit
//! codes that tell what became of each job.

use std::collections::BTreeSet;

use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::running::Running;
use rustix::process::Signal;
use serde_json::{Value, json};

type Tested = anyhow::Result<()>;

fn lines_of(text: &str) -> anyhow::Result<Vec<Value>> {
    let lines = text.lines().map(serde_json::from_str);
    Ok(lines.collect::<Result<_, _>>()?)
}

#[test]
fn events_go_on_over_a_restart_without_a_gap_or_a_repeat() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let first = instance.ok(&["submit", "true"])?;
    instance.event(&first, "clean")?;
    let follows = instance.begin(&["events", "--follow"])?;
    follows.prints("\"name\":\"clean\"")?;
    instance.kill_leader()?;
    instance.start_again()?;
    let second = instance.ok(&["submit", "true"])?;
    let number = instance.row(&second)?["id"].clone();
    follows.prints(&format!("\"job\":{number},\"name\":\"clean\""))?;
    follows.signal(Signal::INT)?;
    let ran = follows.wait()?;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let told = lines_of(&ran.out)?;
    let ends = told.iter().filter(|one| one["name"] == "clean");
    assert_eq!(ends.count(), 2);
    // All that there is, as the journal has it when it is asked at once.
    let all = lines_of(&instance.ok(&["events"])?)?;
    assert_eq!(told[..], all[..told.len()]);
    let places = told.iter().map(|one| one["seq"].as_u64());
    assert!(places.is_sorted());
    // One that was done with some goes on behind them.
    let from = told[3]["seq"].as_u64().unwrap_or_default() + 1;
    let rest = lines_of(&instance.ok(&["events", "--from", &from.to_string()])?)?;
    let behind: Vec<&Value> = all
        .iter()
        .filter(|one| one["seq"].as_u64() >= Some(from))
        .collect();
    assert_eq!(rest.iter().collect::<Vec<_>>(), behind);
    instance.shut_down()
}

#[test]
fn a_reader_of_events_that_goes_away_ends_the_command() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let mut command = instance.place.command("sh");
    let piped = format!("{} events --follow | head -n1", instance.place.program());
    command.args(["-c", &piped]).env("EDDY_URI", instance.uri());
    let ran = Running::start(command)?.wait()?;
    assert_eq!((ran.out.lines().count(), ran.err.as_str()), (1, ""));
    instance.shut_down()
}

fn jobspec(command: &[&str]) -> Value {
    let core = json!([{"type": "core", "count": 1}]);
    json!({
        "version": 1,
        "resources": [{"type": "slot", "count": 1, "label": "task", "with": core}],
        "tasks": [{"command": command, "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 0}},
    })
}

#[test]
fn many_jobs_come_by_lines_each_once_whatever_becomes_of_the_leader() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let mut input = String::new();
    for n in 0..300 {
        let key = instance.ok(&["job", "key"])?;
        let line = json!({"jobspec": jobspec(&["true", &n.to_string()]), "key": key});
        input.push_str(&format!("{line}\n"));
    }
    let submit = || instance.eddy(&["job", "submit", "--lines", "--urgency=hold"]);
    let first = Running::start_with_input(submit(), input.as_bytes())?;
    first.prints("\n")?;
    instance.kill_leader()?;
    instance.start_again()?;
    let ids = first.wait()?.ok()?;
    let again = Running::start_with_input(submit(), input.as_bytes())?
        .wait()?
        .ok()?;
    assert_eq!(ids, again);
    let different: BTreeSet<&str> = ids.lines().collect();
    assert_eq!(different.len(), 300);
    let held = instance.ok(&["jobs", "-c0", "--no-header", "-o", "{id.dec}"])?;
    assert_eq!(held.lines().count(), 300, "no job more");
    // In the order of the lines.
    for (at, id) in [(0, ids.lines().next()), (299, ids.lines().last())] {
        let spec = instance.json(&["job", "info", id.unwrap_or_default(), "jobspec"])?;
        assert_eq!(spec["tasks"][0]["command"][1], at.to_string());
    }
    instance.ok(&["cancel", "--all"])?;
    instance.shut_down()
}

#[test]
fn lines_are_taken_in_their_order() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    // Another leader may have known their keys: its journal is asked.
    instance.kill_leader()?;
    instance.start_again()?;
    let mut input = String::new();
    for n in 0..300 {
        // Some are long.
        let word = "x".repeat(if n % 7 == 0 { 30_000 } else { 1 });
        input.push_str(&format!("{}\n", jobspec(&["true", &word])));
    }
    let submit = || instance.eddy(&["job", "submit", "--lines", "--urgency=hold"]);
    let ids = Running::start_with_input(submit(), input.as_bytes())?
        .wait()?
        .ok()?;
    let rows = instance.json(&["jobs", "-c0", "--json"])?;
    let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
    let number = |id: &str| {
        let row = rows.iter().find(|row| row["f58"] == id);
        row.and_then(|row| row["id"].as_u64())
    };
    let numbers: Vec<Option<u64>> = ids.lines().map(number).collect();
    assert!(numbers.len() == 300 && numbers.iter().all(Option::is_some));
    assert!(numbers.is_sorted(), "{numbers:?}");
    // So the first of a key counts.
    let key = instance.ok(&["job", "key"])?;
    let line = |word: &str| json!({"jobspec": jobspec(&[word]), "key": key});
    let input = format!("{}\n{}\n", line("true"), line("false"));
    let ran = Running::start_with_input(submit(), input.as_bytes())?.wait()?;
    let taken: Vec<bool> = ran.out.lines().map(str::is_empty).collect();
    assert_eq!(taken, [false, true], "{}", ran.err);
    instance.ok(&["cancel", "--all"])?;
    instance.shut_down()
}

#[test]
fn a_line_that_there_is_no_room_for_is_taken_once_there_is() -> Tested {
    let instance = Instance::start(&["--cores=1", "-S", "limits.waiting_jobs=2"])?;
    instance.ok(&["submit", "--cc=1-2", "--urgency=hold", "true"])?;
    let input: String = (0..5)
        .map(|n| format!("{}\n", jobspec(&["true", &n.to_string()])))
        .collect();
    let submit = instance.eddy(&["job", "submit", "--lines"]);
    let submit = Running::start_with_input(submit, input.as_bytes())?;
    submit.complains("waiting for the instance to take more jobs: ")?;
    instance.ok(&["cancel", "--all"])?;
    let ids = submit.wait()?.ok()?;
    let mut numbers = Vec::new();
    for (at, id) in ids.lines().enumerate() {
        let spec = instance.json(&["job", "info", id, "jobspec"])?;
        assert_eq!(spec["tasks"][0]["command"][1], at.to_string());
        numbers.push(instance.row(id)?["id"].as_u64());
    }
    assert!(numbers.len() == 5 && numbers.is_sorted(), "{numbers:?}");
    // It is not borne for ever.
    instance.ok(&["submit", "--cc=1-2", "--urgency=hold", "true"])?;
    let submit = instance.eddy(&["--reconnect=100ms", "job", "submit", "--lines"]);
    let ran = Running::start_with_input(submit, input.as_bytes())?.wait()?;
    assert_eq!((ran.code, ran.out.as_str()), (1, "\n\n\n\n\n"));
    let why = "eddy job submit: line 5: the instance has 2 jobs that are not over; the limit `waiting_jobs` is 2";
    assert_eq!(ran.err.lines().last(), Some(why));
    instance.ok(&["cancel", "--all"])?;
    instance.shut_down()
}

#[test]
fn a_line_that_is_no_submission_is_named_and_holds_up_nobody() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let mut wrong = jobspec(&["true"]);
    wrong["attributes"]["system"]["duration"] = json!("long");
    let mut wide = jobspec(&["true"]);
    wide["resources"][0]["count"] = json!(99);
    let good = jobspec(&["true"]);
    let input = format!("{good}\n{wrong}\n{good}\n{wide}\n{good}\n\n");
    let submit = instance.eddy(&["job", "submit", "--lines"]);
    let ran = Running::start_with_input(submit, input.as_bytes())?.wait()?;
    assert_eq!(ran.code, 1);
    let ids: Vec<bool> = ran.out.lines().map(str::is_empty).collect();
    assert_eq!(ids, [false, true, false, true, false, true]);
    let mut said = ran.err.lines();
    let mut starts = |text| said.next().is_some_and(|line| line.starts_with(text));
    assert!(
        starts("eddy job submit: line 2: attributes.system.duration: "),
        "{}",
        ran.err
    );
    assert!(starts("eddy job submit: line 4: "), "{}", ran.err);
    assert!(starts("eddy job submit: line 6: is blank; "), "{}", ran.err);
    assert!(said.next().is_none(), "{}", ran.err);
    instance.shut_down()
}

#[test]
fn a_row_says_what_ended_a_job_what_it_waits_for_its_key_and_where_it_runs() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let (key, here) = (
        instance.ok(&["job", "key"])?,
        instance.place.path().to_owned(),
    );
    let first = instance.submit_started(&["--key", &key, "--cwd=/", "sleep", "1000"])?;
    let after = format!("--dependency=afterok:{first}");
    let second = instance.submit(&[&after, "true"])?;
    let row = instance.row(&first)?;
    assert_eq!(row["exception"], json!({"occurred": false}));
    assert_eq!((&row["key"], &row["cwd"]), (&json!(key), &json!("/")));
    assert_eq!(row["dependencies"], json!([]));
    let row = instance.row(&second)?;
    assert_eq!(
        row["dependencies"],
        json!([format!("after-success={}", first.replace('ƒ', "f"))])
    );
    assert_eq!(row["cwd"], json!(here));
    instance.ok(&["cancel", "-m", "enough", &first])?;
    instance.event(&second, "clean")?;
    let ended = json!({"occurred": true, "severity": 0, "type": "cancel", "note": "enough"});
    assert_eq!(instance.row(&first)?["exception"], ended);
    // However it is asked for.
    for verb in [&["wait", "--json"][..], &["job", "status", "--json"]] {
        let ends: Value = serde_json::from_str(&instance.run(&[verb, &[&first]].concat())?.out)?;
        assert_eq!(ends[0]["exception"], ended);
    }
    let well = instance.submit(&["--urgency=31", "true"])?;
    let ends = instance.json(&["wait", "--json", &well])?;
    let none = json!({"occurred": false});
    let end =
        json!({"id": ends[0]["id"], "result": "COMPLETED", "returncode": 0, "exception": none});
    assert_eq!(ends, json!([end]));
    assert_eq!(instance.row(&second)?["exception"]["type"], "dependency");
    // As it was, also where it is read from the journal by another leader.
    instance.kill_leader()?;
    instance.start_again()?;
    let row = instance.row(&first)?;
    assert_eq!((&row["exception"], &row["key"]), (&ended, &json!(key)));
    instance.shut_down()
}

#[test]
fn who_waits_tells_the_ends_of_jobs_from_his_own_failure() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let code = |words: &[&str]| anyhow::Ok(instance.run(words)?.code);
    let failed = instance.submit(&["sh", "-c", "exit 1"])?;
    assert_eq!(code(&["wait", &failed])?, 1);
    for wrong in [
        &["wait", "f99999"][..],
        &["wait", "--job-set=no"],
        &["wait"],
    ] {
        assert_eq!(code(wrong)?, 125, "{wrong:?}");
    }
    assert_eq!(code(&["wait", "--bogus"])?, 2);
    let job = instance.submit_started(&["sleep", "1000"])?;
    let waits = instance.begin(&["--reconnect=0.1s", "wait", &job])?;
    instance.kill_leader()?;
    assert_eq!(waits.wait()?.code, 125);
    instance.start_again()?;
    instance.shut_down()
}

#[test]
fn an_attribute_that_nothing_reads_is_taken_and_named() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let mut spec = jobspec(&["true"]);
    spec["attributes"]["system"]["duratoin"] = json!(5);
    let submit = instance.eddy(&["job", "submit"]);
    let ran = Running::start_with_input(submit, spec.to_string().as_bytes())?.wait()?;
    let said = "eddy: attributes.system: `duratoin` given, which does nothing here\n";
    assert_eq!((ran.code, ran.err.as_str()), (0, said));
    instance.shut_down()
}

#[test]
fn what_an_earlier_attempt_wrote_is_shown_and_may_be_in_a_file_of_its_own() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let mut told = instance.place.fifo("told")?;
    let script = "echo by {{attempt}}; echo ready >told; sleep 1000";
    let kept = instance.submit(&["sh", "-c", script])?;
    assert_eq!(told.line()?, "ready");
    instance.ok(&["job", "requeue", &kept])?;
    assert_eq!(told.line()?, "ready");
    assert_eq!(
        instance.ok(&["job", "attach", "--attempt=1", &kept])?,
        "by 1"
    );
    let ran = instance.run(&["job", "attach", "--attempt=3", &kept])?;
    assert!(
        ran.refusal()?.ends_with("has had attempts 1 to 2"),
        "{}",
        ran.err
    );
    instance.ok(&["cancel", &kept])?;
    assert_eq!(
        instance.ok(&["job", "attach", "--attempt=2", &kept])?,
        "by 2"
    );
    // Of one that is over as well.
    let ran = instance.run(&["job", "attach", "--attempt=9", &kept])?;
    let said = format!("eddy job attach: attempt: 9 given, job {kept} has had attempts 1 to 2");
    assert_eq!(ran.refusal()?, said);
    let named = instance.submit(&["--output=out.{{attempt}}", "sh", "-c", script])?;
    assert_eq!(told.line()?, "ready");
    instance.ok(&["job", "requeue", &named])?;
    assert_eq!(told.line()?, "ready");
    for attempt in ["1", "2"] {
        let text = std::fs::read_to_string(instance.place.path().join(format!("out.{attempt}")))?;
        assert_eq!(text, format!("by {attempt}\n"));
    }
    instance.ok(&["cancel", &named])?;
    instance.shut_down()
}

#[test]
fn keys_come_by_the_number() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let keys = instance.ok(&["job", "key", "-n", "50"])?;
    let different: BTreeSet<&str> = keys.lines().collect();
    assert_eq!(different.len(), 50);
    let ran = instance.run(&["job", "key", "-n", "0"])?;
    assert!(ran.refusal()?.contains("allowed are 1 to "), "{}", ran.err);
    instance.shut_down()
}

#[test]
fn a_job_that_is_not_there_is_named_as_it_was_given() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    for (verb, field) in [
        (&["wait"][..], "jobs"),
        (&["job", "attach"], "id"),
        (&["job", "status"], "jobs"),
    ] {
        let ran = instance.run(&[verb, &["99999999"]].concat())?;
        let name = verb.join(" ");
        let said = format!("eddy {name}: {field}: there is no job f9qXWv (99999999)");
        assert_eq!(ran.refusal()?, said);
    }
    instance.shut_down()
}

#[test]
fn the_attempt_of_an_exception_is_named_behind_the_first() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let job = instance.submit_started(&["sleep", "1000"])?;
    instance.ok(&["job", "requeue", &job])?;
    instance.ok(&["job", "wait-event", "--quiet", "--count=2", &job, "start"])?;
    instance.ok(&["cancel", "-m", "enough", &job])?;
    instance.event(&job, "clean")?;
    let ran = instance.run(&["job", "attach", &job])?;
    let said = format!("job {job}, attempt 2: exception type=cancel severity=0 enough");
    assert!(ran.err.contains(&said), "{}", ran.err);
    instance.shut_down()
}
