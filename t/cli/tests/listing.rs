//! What can be asked of an instance: jobs, their documents, resources, named
//! values, the configuration.

use std::os::unix::fs::PermissionsExt;

use anyhow::Context;
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use serde_json::{Value, json};

type Tested = anyhow::Result<()>;

#[test]
fn jobs_as_json_have_every_documented_field() -> Tested {
    let instance = Instance::start(&["--cores=4"])?;
    let words = ["--job-name=good", "-n2", "-c2", "-t", "5m", "true"];
    let good = instance.submit(&words)?;
    let bad = instance.submit(&["sh", "-c", "exit 3"])?;
    let held = instance.submit(&["--urgency=0", "true"])?;
    assert_eq!((instance.code(&good)?, instance.code(&bad)?), (0, 3));
    let rows = instance.json(&["jobs", "-a", "--json"])?;
    let rows = rows.as_array().map_or(&[][..], Vec::as_slice);
    assert_eq!(rows.len(), 3);
    let of = |job: &str| {
        rows.iter()
            .find(|row| row["f58"] == job)
            .unwrap_or(&Value::Null)
    };
    for field in [
        "id",
        "f58",
        "name",
        "user",
        "userid",
        "state",
        "result",
        "returncode",
        "status",
        "attempt",
        "queue",
        "urgency",
        "priority",
        "reason",
        "nnodes",
        "ncores",
        "ngpus",
        "ntasks",
        "nodelist",
        "duration",
        "t_submit",
        "t_alloc",
        "t_run",
        "t_finish",
        "t_inactive",
    ] {
        assert!(
            of(&good).get(field).is_some(),
            "no field {field} in {}",
            of(&good)
        );
    }
    let row = of(&good);
    assert_eq!(
        (&row["name"], &row["result"]),
        (&json!("good"), &json!("COMPLETED"))
    );
    assert_eq!(
        (&row["ntasks"], &row["ncores"], &row["nnodes"]),
        (&json!(2), &json!(4), &json!(1))
    );
    assert_eq!(
        (&row["returncode"], &row["attempt"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(row["duration"].as_f64(), Some(300.0));
    let times = ["t_submit", "t_alloc", "t_run", "t_finish", "t_inactive"];
    let times: Vec<f64> = times.iter().filter_map(|name| row[name].as_f64()).collect();
    assert!(
        times.len() == 5 && times.is_sorted() && times[0] > 1.7e9,
        "{row}"
    );
    assert_eq!(
        (&of(&bad)["returncode"], &of(&bad)["result"]),
        (&json!(3), &json!("FAILED"))
    );
    let row = of(&held);
    assert_eq!(
        (&row["result"], &row["t_run"]),
        (&Value::Null, &Value::Null)
    );
    assert!(
        row["reason"]
            .as_str()
            .is_some_and(|why| why.contains("held")),
        "{row}"
    );
    Ok(())
}

#[test]
fn jobs_are_chosen_by_state_name_and_id() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let count = |words: &[&str]| -> anyhow::Result<usize> {
        let rows = instance.json(&[&["jobs", "--json"], words].concat())?;
        Ok(rows.as_array().map_or(0, Vec::len))
    };
    assert_eq!(instance.ok(&["jobs", "--json", "-a"])?, "[]");
    let done = instance.submit(&["--job-name=done", "true"])?;
    assert_eq!(instance.code(&done)?, 0);
    let running = instance.submit_started(&["--job-name=now", "sleep", "1000"])?;
    let held = instance.submit(&["--urgency=0", "true"])?;
    assert_eq!(
        (count(&[])?, count(&["-a"])?, count(&["-a", "-c", "2"])?),
        (2, 3, 2)
    );
    assert_eq!(
        (count(&["-f", "running"])?, count(&["-f", "pending"])?),
        (1, 1)
    );
    assert_eq!(
        (count(&["-f", "completed"])?, count(&["-f", "failed"])?),
        (1, 0)
    );
    assert_eq!((count(&["-a", "--name=now"])?, count(&[&done])?), (1, 1));
    assert_eq!(
        count(&["-a", "--since=99999999999"])?,
        2,
        "only active ones are younger than that"
    );
    let listed = instance.ok(&["jobs", "-n", "-o", "{id.f58} {name} {state}"])?;
    assert_eq!(
        listed.lines().collect::<Vec<_>>(),
        [format!("{held} true SCHED"), format!("{running} now RUN")]
    );
    assert_eq!(instance.ok(&["job", "last"])?, held);
    let none = instance.run(&["jobs", "nonsense!"])?;
    assert!(none.refusal()?.contains("nonsense!"));
    Ok(())
}

/// It is kept for who collects its result, and is a row of those that are over at once.
#[test]
fn a_job_whose_result_is_to_be_collected_is_listed_once() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let job = instance.submit(&["--flags=waitable", "true"])?;
    instance.event(&job, "clean")?;
    let listed = |what: &[&str]| -> anyhow::Result<usize> {
        let mut asked = vec!["jobs", "--json"];
        asked.extend(what);
        Ok(instance.json(&asked)?.as_array().context("rows")?.len())
    };
    let ways: [&[&str]; 4] = [&["-a"], &["-f", "completed"], &["--since=-1h"], &[&job]];
    for collected in [false, true] {
        if collected {
            instance.ok(&["job", "wait", &job])?;
        }
        for way in ways {
            assert_eq!(listed(way)?, 1, "{way:?}");
        }
        assert_eq!(listed(&["-f", "pending,running"])?, 0);
    }
    instance.shut_down()
}

#[test]
fn a_long_listing_is_cut_and_says_so_and_counts_are_of_all() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    instance.ok(&["submit", "--quiet", "--cc=1-1200", "--urgency=0", "true"])?;
    let listed = instance.run(&["jobs"])?;
    assert_eq!(listed.out.lines().count(), 1001, "1000 and the headings");
    assert!(listed.err.contains("200 more are not"), "{}", listed.err);
    let object = instance.run(&["jobs", "--stats", "--json"])?;
    let object: Value = serde_json::from_str(&object.out)?;
    assert!(
        object["pending"].is_u64() && object["timeout"] == 0,
        "{object}"
    );
    let counted = instance.run(&["jobs", "--stats"])?;
    assert!(
        counted.out.starts_with("1200 pending, 0 running"),
        "{}",
        counted.out
    );
    assert_eq!(counted.err, "");
    Ok(())
}

#[test]
fn the_event_log_has_the_order_of_a_life() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let job = instance.submit(&["true"])?;
    instance.event(&job, "clean")?;
    let life = [
        "submit", "validate", "depend", "priority", "alloc", "start", "finish", "release", "free",
        "clean",
    ];
    assert_eq!(instance.events(&job)?, life);
    let followed = instance.ok(&["job", "eventlog", "-F", "--format=json", &job])?;
    assert_eq!(followed, instance.ok(&["job", "info", &job, "eventlog"])?);
    let times: Vec<f64> = followed
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["timestamp"].as_f64())
        .collect();
    assert!(times.len() == life.len() && times.is_sorted(), "{followed}");
    let held = instance.submit(&["--urgency=0", "true"])?;
    instance.ok(&["cancel", &held])?;
    instance.event(&held, "clean")?;
    assert_eq!(
        instance.events(&held)?,
        [
            "submit",
            "validate",
            "depend",
            "priority",
            "exception",
            "clean"
        ]
    );
    let late = instance.run(&["job", "wait-event", "-t", "10s", &held, "start"])?;
    assert!(late.refusal()?.contains("start"), "{}", late.err);
    Ok(())
}

#[test]
fn documents_of_a_job_are_in_the_forms_of_the_rfcs() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let words = ["--job-name=x", "-n2", "--env=-*", "--env=A=b", "true"];
    let job = instance.submit(&words)?;
    assert_eq!(instance.code(&job)?, 0);
    let spec = instance.json(&["job", "info", &job, "jobspec"])?;
    assert_eq!(spec["version"], 1);
    assert_eq!(spec["tasks"][0]["command"], json!(["true"]));
    assert_eq!(
        spec["attributes"]["system"]["environment"],
        json!({"A": "b"})
    );
    let r = instance.json(&["job", "info", &job, "R"])?;
    assert_eq!(r["version"], 1);
    assert_eq!(r["execution"]["R_lite"][0]["children"]["core"], "0-1");
    // What is not run says the same of itself.
    let dry = instance.json(&[&["submit", "--dry-run"], &words[..]].concat())?;
    assert_eq!(dry, spec);
    let held = instance.submit(&["--urgency=0", "true"])?;
    let none = instance.run(&["job", "info", &held, "R"])?;
    assert_ne!(none.code, 0);
    none.refusal()?;
    Ok(())
}

#[test]
fn each_step_of_the_path_is_traced_with_its_commit() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    // Before the first job the shell may not be there yet, and a job waits for it.
    assert_eq!(instance.run(&["run", "true"])?.code, 0);
    let job = instance.submit(&["true"])?;
    instance.event(&job, "clean")?;
    let steps = instance.json(&["trace", "--json", &job])?;
    let steps = steps.as_array().map_or(&[][..], Vec::as_slice);
    assert_eq!(steps.len(), 10);
    for step in steps {
        assert!(step["durable"].as_f64() >= step["t"].as_f64(), "{step}");
    }
    // One commit carries a job from submit to alloc.
    assert_eq!(steps[0]["commit"], steps[4]["commit"], "{steps:?}");
    assert!(instance.ok(&["trace", &job])?.contains("alloc"));
    Ok(())
}

#[test]
fn resources_are_listed_by_use_and_taken_out_of_service() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let cores = |part: &str| -> anyhow::Result<u64> {
        let list = instance.json(&["resource", "list", "--json"])?;
        Ok(list[part]["ncores"].as_u64().unwrap_or(u64::MAX))
    };
    assert_eq!(
        (
            cores("all")?,
            cores("free")?,
            cores("allocated")?,
            cores("down")?
        ),
        (2, 2, 0, 0)
    );
    let running = instance.submit_started(&["sleep", "1000"])?;
    assert_eq!((cores("free")?, cores("allocated")?), (1, 1));
    instance.ok(&["resource", "drain", "0", "new", "disk"])?;
    let status = instance.json(&["resource", "status", "--json"])?;
    assert_eq!(status[0]["drain"]["reason"], "new disk");
    let waits = instance.submit(&["true"])?;
    let row = instance.row(&waits)?;
    assert!(
        row["reason"]
            .as_str()
            .is_some_and(|why| why.contains("drained")),
        "{row}"
    );
    // What runs goes on.
    assert_eq!(instance.row(&running)?["state"], "RUN");
    instance.ok(&["resource", "undrain", "0"])?;
    assert_eq!(instance.code(&waits)?, 0);
    let none = instance.run(&["resource", "drain", "77", "why"])?;
    assert!(none.refusal()?.contains("77"), "{}", none.err);
    Ok(())
}

#[test]
fn named_values_are_kept_watched_and_bounded() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let watch = instance.begin(&["kvs", "watch", "-c", "2", "a.b"])?;
    watch.prints("null\n")?;
    instance.ok(&["kvs", "put", "a.b={\"x\":1}", "a.c=text"])?;
    assert_eq!(watch.wait()?.ok()?, "null\n{\"x\":1}\n");
    assert_eq!(
        instance.ok(&["kvs", "get", "a.b", "a.c"])?,
        "{\"x\":1}\ntext"
    );
    assert_eq!(instance.ok(&["kvs", "list", "a."])?, "a.b\na.c");
    let unread = instance.run(&["kvs", "put", "a.d=1", "a.e"])?;
    assert!(unread.refusal()?.contains("`a.e` has no `=`"));
    assert_eq!(instance.ok(&["kvs", "list", "a."])?, "a.b\na.c");
    // All that are named or none.
    let mixed = instance.run(&["kvs", "delete", "a.c", "a.d"])?;
    assert!(
        mixed.refusal()?.contains("there is no `a.d`"),
        "{}",
        mixed.err
    );
    assert_eq!(instance.ok(&["kvs", "list", "a."])?, "a.b\na.c");
    instance.ok(&["kvs", "delete", "a.c", "a.c"])?;
    let gone = instance.run(&["kvs", "get", "a.c"])?;
    assert!(gone.refusal()?.contains("a.c"), "{}", gone.err);
    let large = format!("big={}", "x".repeat(70 << 10));
    let refused = instance.run(&["kvs", "put", &large])?;
    assert!(refused.refusal()?.contains("65536"), "{}", refused.err);
    let behind = instance.run(&["kvs", "put", "a.b=2", &large])?;
    assert!(behind.refusal()?.contains("`big`"), "{}", behind.err);
    instance.kill_leader()?;
    instance.start_again()?;
    assert_eq!(instance.ok(&["kvs", "get", "a.b"])?, "{\"x\":1}");
    Ok(())
}

#[test]
fn the_configuration_is_checked_shown_and_set() -> Tested {
    let instance = Instance::start(&["--cores=2", "-S", "exec.kill_grace=3s"])?;
    assert_eq!(instance.ok(&["config", "get", "exec.kill_grace"])?, "3.0");
    assert_eq!(instance.ok(&["config", "get", "journal.sync"])?, "full");
    let unknown = instance.run(&["config", "get", "journal.sink"])?;
    assert!(
        unknown.refusal()?.contains("journal.sink"),
        "{}",
        unknown.err
    );
    let state = instance.state().display().to_string();
    instance.ok(&["--at", &state, "config", "set", "journal.sync", "normal"])?;
    let mode = std::fs::metadata(instance.state().join("config.toml"))?.permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let refused = instance.run(&["--at", &state, "config", "set", "limits.clients", "no"])?;
    assert!(
        refused.refusal()?.contains("limits.clients"),
        "{}",
        refused.err
    );
    instance.shut_down()?;
    instance.start_again()?;
    assert_eq!(instance.ok(&["config", "get", "journal.sync"])?, "normal");
    let place = Place::new()?;
    let file = place.join("wrong.toml");
    std::fs::write(
        &file,
        "[journal]\nsink = 1\nsync = \"some\"\n[exec]\nkill_grace = \"NaN\"\n",
    )?;
    let checked = place.run(&["config", "check", &file])?;
    assert_ne!(checked.code, 0);
    for key in [
        "journal.sink: unknown key",
        "journal.sync: is \"some\"",
        "exec.kill_grace",
    ] {
        assert!(checked.err.contains(key), "{key}: {}", checked.err);
    }
    Ok(())
}

#[test]
fn ping_says_who_answers() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let pong = instance.json(&["ping", "--json"])?;
    assert_eq!((&pong["epoch"], &pong["phase"]), (&json!(1), &json!("run")));
    instance.kill_leader()?;
    instance.start_again()?;
    let after = instance.json(&["ping", "--json"])?;
    assert_eq!(
        (&after["epoch"], &after["instance"]),
        (&json!(2), &pong["instance"])
    );
    Ok(())
}

#[test]
fn a_job_that_is_not_there_is_named_and_the_others_are_listed() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let job = instance.submit(&["--job-name=there", "true"])?;
    instance.code(&job)?;
    let words = ["jobs", "--no-header", "-o", "{name}"];
    let ran = instance.run(&[&words[..], &["999999", &job, "f9,5-9"]].concat())?;
    assert_eq!((ran.code, ran.out.as_str()), (1, "there\n"));
    assert_eq!(ran.refusal()?, "eddy jobs: no such job here: 999999 f9");
    // What an option leaves out is known all the same.
    let ran = instance.run(&["jobs", "--json", "-f", "running", &job])?;
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (0, "[]\n", "")
    );
    Ok(())
}

#[test]
fn control_characters_in_names_reach_no_terminal() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let job = instance.submit(&["--job-name=a\rb\u{1b}[2Jc", "true"])?;
    for format in ["id,name", "{name}"] {
        let text = instance.ok(&["jobs", "-a", "--no-header", "-o", format, &job])?;
        assert!(text.ends_with("a\\rb\\u{1b}[2Jc"), "{text:?}");
        assert_eq!(text.lines().count(), 1);
    }
    let words = ["alloc", "--bg", "--job-name=x\u{1b}[31my"];
    let child = instance.ok(&words)?;
    let tree = instance.ok(&["tree"])?;
    assert!(tree.contains("x\\u{1b}[31my"), "{tree:?}");
    assert!(!tree.contains('\u{1b}'), "{tree:?}");
    instance.ok(&["shutdown", &child])?;
    Ok(())
}

/// More than are asked for at a time, which ended together.
#[test]
fn all_jobs_that_are_over_are_listed_however_many_they_are() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let count = 45_000;
    let all = format!("--cc=1-{count}");
    instance.ok(&["submit", "--quiet", "--urgency=hold", &all, "true"])?;
    instance.ok(&["cancel", "--quiet", "--all"])?;
    let ids = instance.ok(&["jobs", "-a", "-c", "0", "-n", "-o", "{id}"])?;
    let lines: Vec<&str> = ids.lines().collect();
    let different: std::collections::BTreeSet<&str> = lines.iter().copied().collect();
    assert_eq!((lines.len(), different.len()), (count, count));
    let few = instance.ok(&["jobs", "-a", "-c", "20001", "-n", "-o", "{id}"])?;
    assert_eq!(few.lines().collect::<Vec<&str>>(), lines[..20_001]);
    let stats = instance.run(&["jobs", "--stats"])?;
    let told = format!("0 pending, 0 running, 0 completed, 0 failed, {count} canceled, 0 timeout");
    assert_eq!(stats.out.trim(), told);
    Ok(())
}
