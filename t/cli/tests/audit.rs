//! What `eddy audit` says of who changed what, with real processes.

use anyhow::Context;
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::users::{Site, can_make_users};
use serde_json::{Value, json};

type Tested = anyhow::Result<()>;

/// Of each deed with this name: who did it, and what it was.
fn told(instance: &Instance, event: &str) -> anyhow::Result<Vec<(Value, String)>> {
    let deeds = instance.json(&["audit", "--event", event, "--json"])?;
    let deeds = deeds.as_array().context("an array")?.iter();
    let said = deeds.map(|deed| {
        let what = deed["what"].as_str().unwrap_or_default();
        (deed["uid"].clone(), what.to_owned())
    });
    Ok(said.collect())
}

#[test]
fn values_nodes_and_the_end_of_an_instance_are_somebodys() -> Tested {
    let instance = Instance::start(&["--size=3", "--cores=1"])?;
    let own = json!(rustix::process::geteuid().as_raw());
    instance.ok(&["kvs", "put", "a.b=7"])?;
    instance.ok(&["kvs", "delete", "a.b"])?;
    let by = |what: &str| (own.clone(), what.to_owned());
    assert_eq!(told(&instance, "put")?, [by("a.b = 7")]);
    assert_eq!(told(&instance, "delete")?, [by("a.b deleted")]);
    instance.ok(&["resource", "add", "2"])?;
    instance.ok(&["run", "-N5", "-n5", "true"])?;
    instance.ok(&["resource", "remove", "1,4"])?;
    let nodes = told(&instance, "resource-define")?;
    let own_nodes: Vec<_> = nodes.into_iter().filter(|(uid, _)| *uid == own).collect();
    assert_eq!(
        own_nodes,
        [by("ranks 3-4 added"), by("ranks 1,4 removed")],
        "not as JSON"
    );
    instance.ok(&["shutdown", "-m", "a new roof"])?;
    instance.start_again()?;
    assert_eq!(told(&instance, "memo")?, [by("shut down: a new roof")]);
    let table = instance.ok(&["audit", "-n", "--event", "memo,put"])?;
    assert!(table.lines().all(|line| !line.contains('{')), "{table}");
    Ok(())
}

#[test]
fn what_was_done_since_a_time_is_told_as_if_all_were_read() -> Tested {
    let instance = Instance::start(&["--size=3", "--cores=1"])?;
    let job = instance.submit(&["--urgency=0", "true"])?;
    instance.ok(&["resource", "add", "2"])?;
    instance.ok(&["kvs", "put", "a=1"])?;
    let all = |options: &[&str]| instance.json(&[&["audit", "--json"], options].concat());
    let before = all(&[])?;
    let last = before.as_array().and_then(|deeds| deeds.last());
    let since = last.map_or(0.0, |deed| deed["t"].as_f64().unwrap_or_default());
    instance.ok(&["resource", "remove", "1"])?;
    instance.ok(&["kvs", "put", "a=2"])?;
    instance.ok(&["cancel", &job])?;
    let later = all(&["--since", &format!("{since:.6}")])?;
    let whole = all(&[])?;
    let whole = whole.as_array().cloned().unwrap_or_default();
    let is_later = |deed: &&Value| deed["t"].as_f64() >= Some(since);
    let expected: Vec<Value> = whole.iter().filter(is_later).cloned().collect();
    assert_eq!(later, Value::Array(expected));
    assert!(later.to_string().contains("ranks 1 removed"), "{later}");
    assert!(!later[3]["owner"].is_null(), "{later}");
    Ok(())
}

#[test]
fn whoever_declares_a_node_dead_is_told_of() -> Tested {
    let instance = Instance::start(&["--size=2", "--cores=1"])?;
    let own = json!(rustix::process::geteuid().as_raw());
    instance.ok(&["resource", "dead", "--force", "1", "it", "hangs"])?;
    // Whether it begins before that or after: when it is over the shell was ended.
    instance.ok(&["resource", "undrain", "1"])?;
    instance.run(&["run", "-N2", "-n2", "true"])?;
    let dead = told(&instance, "shell-lost")?;
    assert_eq!(dead, [(own, "ranks 1 declared dead: it hangs".to_owned())]);
    Ok(())
}

#[test]
fn who_submits_for_another_or_ends_anothers_job_is_told_of() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let (site, instance) = Site::configured("", &["--cores=1"])?;
    let ann = &site.users[0];
    let job = instance.submit(&["--as", &ann.name, "--cwd=/", "sleep", "600"])?;
    instance.ok(&["cancel", &job])?;
    let submitted = told(&instance, "submit")?;
    let what = format!("submitted as {}", ann.name);
    assert_eq!(submitted, [(json!(0), what)]);
    let deeds = instance.json(&["audit", "--event", "exception", "--json"])?;
    assert_eq!(
        (&deeds[0]["uid"], &deeds[0]["owner"]),
        (&json!(0), &json!(ann.uid))
    );
    let table = instance.ok(&["audit", "-n", "--event", "exception"])?;
    assert!(table.contains("cancel"), "{table}");
    assert!(table.contains("(job of "), "{table}");
    Ok(())
}

#[test]
fn a_signal_to_anothers_job_is_told_and_ones_own_is_not() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let (site, instance) = Site::configured("", &["--cores=2"])?;
    let sleep = ["submit", "--wait-event=start", "sleep", "1000"];
    let job = site.ok(&instance, 0, &sleep)?;
    site.ok(&instance, 0, &["job", "kill", "-s", "WINCH", &job])?;
    instance.ok(&["job", "kill", "-s", "WINCH", &job])?;
    let ann = &site.users[0];
    let what = "signal WINCH sent".to_owned();
    assert_eq!(told(&instance, "memo")?, [(json!(0), what)]);
    let table = instance.ok(&["audit", "-n", "--event", "memo"])?;
    assert!(
        table.ends_with(&format!("signal WINCH sent (job of {})", ann.name)),
        "{table}"
    );
    let log = site.ok(&instance, 0, &["job", "eventlog", &job])?;
    assert_eq!(log.matches("signum").count(), 1, "{log}");
    instance.ok(&["cancel", &job])?;
    Ok(())
}

#[test]
fn who_is_asked_about_anew_has_done_nothing() -> Tested {
    let queues = "queue=[{name=\"all\"}, {name=\"one\", limits={running_jobs=1}}]";
    let instance = Instance::start(&["--cores=1", "-S", queues])?;
    instance.submit(&["-q", "all", "--wait-event=start", "sleep", "600"])?;
    let first = instance.submit(&["-q", "one", "--wait-event=priority", "true"])?;
    let second = instance.submit(&["-q", "one", "true"])?;
    instance.ok(&["job", "urgency", &second, "20"])?;
    // The place of the first, which only waits, is the second's.
    instance.ok(&["job", "wait-event", &second, "priority"])?;
    let asked = instance.events(&first)?;
    assert!(asked.iter().any(|event| event == "urgency"), "{asked:?}");
    let own = json!(rustix::process::geteuid().as_raw());
    assert_eq!(
        told(&instance, "urgency")?,
        [(own.clone(), "urgency 20".to_owned())]
    );
    instance.ok(&["hold", &second])?;
    instance.ok(&["release", &second])?;
    let of_both =
        ["held (urgency 0)", "released (urgency 20)"].map(|what| (own.clone(), what.to_owned()));
    assert_eq!(told(&instance, "urgency")?[1..], of_both);
    Ok(())
}

#[test]
fn a_user_sees_the_steps_of_his_job() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let (site, instance) = Site::configured("", &["--cores=1"])?;
    let job = site.ok(&instance, 0, &["submit", "--wait", "true"])?;
    let ran = site.run(&instance, 0, &["trace", "--json", &job])?;
    assert!(ran.err.contains("owner and admins alone"), "{ran:?}");
    let steps: Vec<Value> = serde_json::from_str(&ran.out)?;
    assert!(
        steps.iter().all(|step| step["durable"].is_null()),
        "{ran:?}"
    );
    let of_owner = instance.json(&["trace", "--json", &job])?;
    let of_owner = of_owner.as_array().context("an array")?;
    assert_eq!(steps.len(), of_owner.len());
    assert!(
        of_owner.iter().all(|step| step["durable"].is_number()),
        "{of_owner:?}"
    );
    Ok(())
}
