//! What changes of jobs: time limits of what waits, of what runs, of instances and of what is in them; name, queue
//! and account of what waits.

use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::place::Place;
use eddy_cli_tests::users::{Site, can_make_users};
use rustix::process::Signal;
use serde_json::{Value, json};

type Tested = anyhow::Result<()>;

/// What a job has by now.
fn limit(instance: &Instance, job: &str) -> anyhow::Result<Value> {
    Ok(instance.row(job)?["duration"].clone())
}

#[test]
fn a_limit_is_set_and_shifted_and_ends_what_runs() -> Tested {
    let instance = Instance::start(&["--cores=1", "-S", "exec.kill_grace=0.2s"])?;
    let runs = instance.submit_started(&["sleep", "1000"])?;
    let waits = instance.submit(&["-t", "1h", "true"])?;
    instance.ok(&["update", &waits, "duration=+30m"])?;
    assert_eq!(limit(&instance, &waits)?, 5400.0);
    instance.ok(&["update", &waits, "attributes.system.duration=-1.25h"])?;
    assert_eq!(limit(&instance, &waits)?, 900.0);
    let none = instance.run(&["update", &runs, &waits, "duration=-1h"])?;
    assert_eq!(none.code, 1);
    let said: Vec<&str> = none.err.lines().collect();
    assert!(
        said[0].contains("it has no time limit") || said[1].contains("it has no time limit"),
        "{none:?}"
    );
    assert!(none.err.contains("nothing would be left"), "{none:?}");
    assert_eq!(limit(&instance, &waits)?, 900.0, "nothing has changed");
    instance.ok(&["update", &runs, "duration=1000s"])?;
    // Less than it has run for: that is not how one ends a job.
    let over = instance.run(&["update", &runs, "duration=1ms"])?;
    assert!(over.refusal()?.contains("`cancel` ends it"), "{over:?}");
    let soon = "duration=0.5s";
    // A machine that is slow may have let it run for longer by now.
    let ran = instance.run(&["update", &runs, soon])?;
    if ran.code != 0 {
        instance.ok(&["update", &runs, "duration=20s"])?;
    }
    instance.event(&runs, "clean")?;
    assert_eq!(instance.row(&runs)?["result"], "TIMEOUT");
    assert_eq!(instance.code(&waits)?, 0);
    let gone = instance.run(&["update", &waits, "duration=5m"])?;
    assert!(gone.refusal()?.contains("or it is over"), "{gone:?}");
    let gone = instance.run(&["update", &waits, "duration=+5m"])?;
    assert!(gone.refusal()?.contains("or it is over"), "{gone:?}");
    Ok(())
}

#[test]
fn no_limit_and_the_usual_one_are_asked_for_as_at_the_submission() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let queues = "[defaults]\ntime = \"2h\"\n\
                  [[queue]]\nname = \"debug\"\nmax_time = \"30m\"\ndefault_time = \"10m\"\n\
                  [[queue]]\nname = \"plain\"\ndefault = true\n";
    let (site, instance) = Site::configured(queues, &["--cores=1"])?;
    let submit = |options: &[&str]| site.ok(&instance, 0, &[&["submit"], options].concat());
    let holder = submit(&["sleep", "1000"])?;
    let job = submit(&["true"])?;
    let update = |job: &str, word: &str| site.run(&instance, 0, &["update", job, word]);
    assert_eq!(limit(&instance, &job)?, 7200.0);
    for word in ["duration=inf", "duration=inf", "duration=none"] {
        update(&job, word)?.ok()?;
        assert_eq!(limit(&instance, &job)?, Value::Null, "{word}");
    }
    let log = instance.ok(&["job", "eventlog", &job])?;
    assert_eq!(log.matches("jobspec-update").count(), 1, "{log}");
    update(&job, "duration=default")?.ok()?;
    assert_eq!(limit(&instance, &job)?, 7200.0);
    let bounded = submit(&["-q", "debug", "true"])?;
    let refused = update(&bounded, "duration=inf")?;
    let line = refused.refusal()?;
    assert!(
        line.contains("none given, queue `debug` allows 1800 s"),
        "{line}"
    );
    assert_eq!(limit(&instance, &bounded)?, 600.0);
    update(&job, "duration=inf")?.ok()?;
    leader_of(instance.state())?.kill()?;
    instance.start_again()?;
    assert_eq!(limit(&instance, &job)?, Value::Null);
    instance.ok(&["cancel", &holder, &job, &bounded])?;
    Ok(())
}

#[test]
fn what_is_not_a_change_is_refused_by_its_word() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let job = instance.submit_started(&["sleep", "1000"])?;
    for (words, why) in [
        (
            vec!["update", &job],
            "no change given; allowed are duration=",
        ),
        (
            vec!["update", "duration=1h"],
            "no jobs given; allowed are ids and --job-set NAME",
        ),
        (
            vec!["update", &job, "urgency=3"],
            "`urgency` given; allowed are duration",
        ),
        (
            vec!["update", &job, "queue=x"],
            "attributes.system.queue: it has begun; only the time limit",
        ),
        (
            vec!["update", &job, "duration=none", "name=x"],
            "attributes.system.job.name: it has begun; only the time limit",
        ),
        (
            vec!["update", &job, "duration=inf"],
            "attributes.system.duration: none given, it has begun; allowed is a time",
        ),
        (
            vec!["update", &job, "duration=1000000d"],
            "86400000000 s given, allowed is more than 0 and at most 4294967295 s, or 0 for none",
        ),
        (
            vec!["update", &job, "duration=1h", "duration=2h"],
            "given beside another of the same",
        ),
        (
            vec!["update", "--job-set=none", "duration=1h"],
            "`none` given, there are no jobs of that set",
        ),
    ] {
        let ran = instance.run(&words)?;
        let line = ran.refusal()?;
        assert!(line.contains(why), "{words:?}: {line}");
    }
    assert_eq!(limit(&instance, &job)?, Value::Null);
    Ok(())
}

#[test]
fn all_of_a_set_have_another_limit_and_it_is_known_who_asked() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    instance.submit_started(&["sleep", "1000"])?;
    for limit in ["10m", "20m"] {
        instance.submit(&["--job-set=s", "-t", limit, "true"])?;
    }
    instance.ok(&["update", "--job-set=s", "duration=+5m"])?;
    let rows = instance.json(&["jobs", "--job-set=s", "--json"])?;
    let limits = rows.as_array().into_iter().flatten();
    let limits: Vec<f64> = limits.filter_map(|row| row["duration"].as_f64()).collect();
    assert_eq!(limits, [900.0, 1500.0]);
    instance.ok(&["update", "--job-set=s", "duration=7m"])?;
    let rows = instance.json(&["jobs", "--job-set=s", "--json"])?;
    assert!(
        rows.as_array()
            .into_iter()
            .flatten()
            .all(|row| row["duration"] == 420.0),
        "{rows}"
    );
    let audit = instance.ok(&["audit"])?;
    assert_eq!(audit.matches("time limit 7m").count(), 2, "{audit}");
    Ok(())
}

#[test]
fn an_instance_is_given_more_time_and_its_jobs_are_not() -> Tested {
    let instance = Instance::start(&["--cores=2", "-S", "exec.kill_grace=0.2s"])?;
    let child = instance.ok(&["alloc", "--bg", "-n1", "-t", "5m"])?;
    let inside = |job: &str| format!("{child}/{job}");
    let job = instance.ok(&[
        "--at",
        &child,
        "submit",
        "-t",
        "2m",
        "--wait-event=start",
        "sleep",
        "1000",
    ])?;
    let long = instance.run(&["--at", &child, "submit", "-t", "20m", "true"])?;
    assert!(long.refusal()?.contains("s left for jobs"), "{long:?}");
    let more = instance.run(&["update", &inside(&job), "duration=20m"])?;
    assert!(more.refusal()?.contains("s left for jobs"), "{more:?}");
    instance.ok(&["update", &child, "duration=1h"])?;
    instance.ok(&["update", &inside(&job), "duration=20m"])?;
    instance.ok(&["--at", &child, "submit", "-t", "20m", "true"])?;
    let rows = instance.json(&["--at", &child, "jobs", "--json"])?;
    let rows: Vec<&Value> = rows.as_array().into_iter().flatten().collect();
    assert!(
        rows.iter()
            .any(|row| row["f58"] == job.as_str() && row["duration"] == 1200.0),
        "{rows:?}"
    );
    Ok(())
}

#[test]
fn tasks_and_scripts_are_warned_before_they_are_ended() -> Tested {
    let instance = Instance::start(&["--cores=2", "-S", "exec.kill_grace=0.5s"])?;
    let mut told = instance.place.fifo("told")?;
    let waits =
        "trap 'echo warned >told; exit 7' USR2; echo ready >told; while :; do sleep 0.01; done";
    let job = instance.submit(&["-t", "1h", "--signal=USR2@50m", "sh", "-c", waits])?;
    assert_eq!(told.line()?, "ready");
    instance.ok(&["update", &job, "duration=40m"])?;
    assert_eq!(
        told.line()?,
        "warned",
        "it has less time now than it wanted to know of"
    );
    assert_eq!(instance.code(&job)?, 7);
    let script = format!("#!/bin/sh\n# eddy: -t 1h --signal=USR2@50m\n{waits}\n");
    std::fs::write(instance.place.path().join("script"), script)?;
    let job = instance.ok(&["batch", "./script"])?;
    assert_eq!(told.line()?, "ready");
    instance.ok(&["update", &job, "duration=40m"])?;
    assert_eq!(told.line()?, "warned");
    assert_eq!(instance.code(&job)?, 7);
    for (signal, why) in [
        ("--signal=NO", "`NO` is not a signal"),
        ("--signal=@0", "behind @ allowed is a time"),
        (
            "-osignal.signum=99",
            "signal.signum: 99 given, allowed are 1 to 64",
        ),
    ] {
        let ran = instance.run(&["submit", signal, "true"])?;
        assert!(ran.refusal()?.contains(why), "{signal}: {ran:?}");
    }
    let nobody = instance.run(&["alloc", "--bg", "-n1", "--signal=USR1"])?;
    assert!(nobody.refusal()?.contains("nobody to warn"), "{nobody:?}");
    Ok(())
}

#[test]
fn who_adds_at_the_same_time_adds_all() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    instance.submit_started(&["sleep", "1000"])?;
    let job = instance.submit(&["-t", "1h", "true"])?;
    let adding = (0..12).map(|_| instance.begin(&["update", &job, "duration=+1m"]));
    let adding: Vec<_> = adding.collect::<anyhow::Result<_>>()?;
    for one in adding {
        one.wait()?.ok()?;
    }
    assert_eq!(limit(&instance, &job)?, 4320.0);
    Ok(())
}

#[test]
fn a_warning_ends_no_command_that_waits_beside_what_is_warned() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let (mut told, mut gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let run = instance.begin(&[
        "run",
        "sh",
        "-c",
        "echo ready >told; read line <gate; exit 3",
    ])?;
    assert_eq!(told.line()?, "ready");
    run.signal(Signal::USR1)?;
    run.signal(Signal::USR2)?;
    gate.let_go(1)?;
    assert_eq!(run.wait()?.code, 3);
    Ok(())
}

/// Two queues, one of an instance; an account that may use one of them only.
const SITE: &str = r#"
[[instance]]
name = "batch"
nodes = 1

[[queue]]
name = "batch"
instance = "batch"

[[queue]]
name = "debug"
instance = "root"
max_time = "30m"
limits = { submitted_jobs = 2 }

[[queue]]
name = "closed"
instance = "root"
accounts = ["physics"]

[[qos]]
name = "high"
"#;

fn site() -> anyhow::Result<Instance> {
    let place = Place::new()?;
    let config = place.join("site.toml");
    std::fs::write(&config, SITE)?;
    let state = place.path().join("state");
    let fake = [
        "--fake",
        "nodes=2,cores=1",
        "-S",
        "exec.test.run_duration=3000s",
    ];
    Instance::start_in(place, state, &[&fake[..], &["--config", &config]].concat())
}

/// What a row says of these.
fn fields(instance: &Instance, job: &str, names: [&str; 4]) -> anyhow::Result<[Value; 4]> {
    let row = instance.row(job)?;
    Ok(names.map(|name| row[name].clone()))
}

#[test]
fn one_that_waits_is_given_another_name_queue_and_time_and_stays_so() -> Tested {
    let instance = site()?;
    let holder = instance.submit_started(&["true"])?;
    let inside = instance.submit_started(&["-q", "batch", "true"])?;
    let job = instance.submit(&["-t", "1h", "--urgency=14", "true"])?;
    let words = ["name=one two", "queue=debug", "duration=20m"];
    instance.ok(&[&["update", &job], &words[..]].concat())?;
    let names = ["name", "queue", "duration", "urgency"];
    let is = [json!("one two"), json!("debug"), json!(1200.0), json!(14)];
    assert_eq!(fields(&instance, &job, names)?, is);
    // The same again is nothing new.
    instance.ok(&[&["update", &job], &words[..]].concat())?;
    let log = instance.ok(&["job", "eventlog", &job])?;
    assert_eq!(log.matches("jobspec-update").count(), 1, "{log}");
    assert!(
        log.contains("attributes.system.job.name=\"one two\""),
        "{log}"
    );
    leader_of(instance.state())?.kill()?;
    instance.start_again()?;
    assert_eq!(fields(&instance, &job, names)?, is);
    let listed = instance.json(&["jobs", "-q", "debug", "--name=one two", "--json"])?;
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    // Another that leads elsewhere: it begins there.
    instance.ok(&["update", &job, "queue=batch", "duration=none"])?;
    assert_eq!(limit(&instance, &job)?, Value::Null);
    instance.ok(&["cancel", &inside])?;
    instance.event(&job, "start")?;
    assert_eq!(
        instance.row(&job)?["nodelist"],
        instance.row(&inside)?["nodelist"]
    );
    // And back, of one that was in none.
    let none = instance.submit(&["-t", "1h", "true"])?;
    instance.ok(&["update", &none, "queue=batch"])?;
    instance.ok(&["cancel", &job])?;
    instance.event(&none, "start")?;
    instance.ok(&["cancel", &holder, &none])?;
    Ok(())
}

#[test]
fn who_named_no_qos_has_that_of_the_queue_that_it_goes_to() -> Tested {
    let place = Place::new()?;
    let config = place.join("qos.toml");
    let queue = |name, qos| {
        format!(
            "[[queue]]\nname = \"{name}\"\nqos = [\"{qos}\", \"any\"]\ndefault_qos = \"{qos}\"\n"
        )
    };
    let qos = ["high", "low", "any"].map(|name| format!("[[qos]]\nname = \"{name}\"\n"));
    let text = [queue("own", "high"), queue("guests", "low"), qos.concat()].concat();
    std::fs::write(&config, text)?;
    let state = place.path().join("state");
    let options = ["--fake", "nodes=1,cores=1", "--config", &config];
    let instance = Instance::start_in(place, state, &options)?;
    let words = ["submit", "-q", "own", "--urgency=0"];
    let unnamed = instance.ok(&[&words[..], &["true"]].concat())?;
    let named = instance.ok(&[&words[..], &["--qos=any", "true"]].concat())?;
    for (job, qos) in [(unnamed.trim(), "low"), (named.trim(), "any")] {
        instance.ok(&["update", job, "queue=guests"])?;
        assert_eq!(instance.row(job)?["qos"], qos);
    }
    instance.shut_down()
}

#[test]
fn what_could_not_be_submitted_like_that_is_refused_by_the_field() -> Tested {
    let instance = site()?;
    let uid = rustix::process::getuid().as_raw().to_string();
    for account in ["physics", "arts", "closed"] {
        instance.ok(&["account", "add", account])?;
    }
    for account in ["arts", "physics"] {
        instance.ok(&["account", "add-user", &uid, "-A", account])?;
    }
    let holder = instance.submit_started(&["-A", "arts", "true"])?;
    let job = instance.submit(&["-A", "arts", "-t", "1h", "true"])?;
    for (change, why) in [
        (
            "queue=nowhere",
            "attributes.system.queue: `nowhere` given, there are batch, ",
        ),
        ("account=music", "attributes.system.account: "),
        ("account=closed", "attributes.system.account: "),
        ("qos=top", "attributes.system.qos: `top` given, there are"),
    ] {
        let ran = instance.run(&["update", &job, change])?;
        let line = ran.refusal()?;
        assert!(line.contains(why), "{change}: {line}");
    }
    instance.ok(&["update", &job, "account=physics"])?;
    let row = instance.row(&job)?;
    assert_eq!(
        (&row["account"], &row["qos"]),
        (&json!("physics"), &json!(""))
    );
    let removed = instance.run(&["account", "del", "physics"])?;
    assert!(removed.refusal()?.contains("physics"), "{removed:?}");
    instance.ok(&["cancel", &holder])?;
    instance.event(&job, "start")?;
    let usage = instance.json(&["usage", "--json"])?;
    assert!(usage.to_string().contains("physics"), "{usage}");
    Ok(())
}
