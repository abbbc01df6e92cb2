//! Accounts: who is in them, who may submit, what each is due.

use std::fs;

use eddy_cli_tests::contest;
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use serde_json::{Value, json};

type Tested = anyhow::Result<()>;

/// Four cores that are pretended, with tasks that last longer than any test.
const FAKE: [&str; 6] = [
    "--fake",
    "nodes=1,cores=4",
    "-S",
    "exec.test.run_duration=3000s",
    "-S",
    "policy.preset=flux",
];

fn uid() -> String {
    rustix::process::getuid().as_raw().to_string()
}

/// What the command calls him.
fn name() -> anyhow::Result<String> {
    let out = std::process::Command::new("id").arg("-un").output()?;
    Ok(String::from_utf8(out.stdout)?.trim().to_owned())
}

fn refused(instance: &Instance, arguments: &[&str]) -> anyhow::Result<String> {
    let ran = instance.run(arguments)?;
    assert_eq!(ran.code, 1, "{arguments:?}: {}", ran.out);
    Ok(ran.refusal()?.to_owned())
}

#[test]
fn who_is_in_no_account_cannot_submit_and_a_job_is_charged_to_what_it_names() -> Tested {
    let instance = Instance::start(&FAKE)?;
    let (uid, name) = (uid(), name()?);
    let before = instance.submit(&["-B", "anything", "true"])?;
    assert_eq!(instance.row(&before)?["account"], "anything");
    instance.ok(&["account", "add", "physics", "--shares", "3"])?;
    let line = refused(&instance, &["submit", "true"])?;
    let expected = format!("attributes.system.account: user {name} is in no account");
    assert!(line.ends_with(&expected), "{line}");
    instance.ok(&["account", "add-user", &uid, "--account", "physics"])?;
    instance.ok(&["account", "add", "biology"])?;
    let job = instance.submit(&["--qos", "standby", "true"])?;
    let row = instance.row(&job)?;
    assert_eq!(
        (&row["account"], &row["qos"], &row["class"]),
        (&json!("physics"), &json!("standby"), &json!(""))
    );
    for (given, expected) in [
        (
            ["-A", "biology"],
            format!("account: user {name} is not in account `biology`; allowed are physics"),
        ),
        (
            ["-A", "nobody"],
            "account: there is no account `nobody`; there are biology, physics".into(),
        ),
        (
            ["-B", "nobody"],
            "bank: there is no account `nobody`; there are biology, physics".into(),
        ),
        (
            ["--qos", "fast"],
            "qos: `fast` given, there are expedite, normal, standby".into(),
        ),
        (["--class", "fast"], "class: `fast` given, t".into()),
    ] {
        let line = refused(&instance, &["submit", given[0], given[1], "true"])?;
        assert!(line.contains(&expected), "{line}");
    }
    instance.ok(&["account", "add-user", &uid, "--account", "biology"])?;
    let line = refused(&instance, &["submit", "true"])?;
    assert!(
        line.contains("no default; there are biology, physics"),
        "{line}"
    );
    instance.ok(&["account", "edit-user", &uid, "-A", "biology", "--default"])?;
    let job = instance.submit(&["true"])?;
    assert_eq!(instance.row(&job)?["account"], "biology");
    let listed = instance.ok(&[
        "jobs",
        "-A",
        "-n",
        "-o",
        "id.dec,account",
        "--account",
        "biology",
    ])?;
    assert_eq!(listed.lines().count(), 1, "{listed}");
    Ok(())
}

#[test]
fn accounts_stand_after_the_leader_was_killed_and_the_records_tell_who_made_them() -> Tested {
    let instance = Instance::start(&FAKE)?;
    let uid = uid();
    instance.ok(&[
        "account",
        "add",
        "science",
        "--shares",
        "7",
        "--description",
        "all of it",
    ])?;
    instance.ok(&[
        "account",
        "add",
        "physics",
        "--parent",
        "science",
        "--max-running-jobs",
        "3",
    ])?;
    instance.ok(&[
        "account",
        "add-user",
        &uid,
        "-A",
        "physics",
        "--shares",
        "2",
        "--default",
    ])?;
    instance.ok(&["account", "add", "gone"])?;
    instance.ok(&["account", "del", "gone"])?;
    let line = refused(&instance, &["account", "del", "science"])?;
    assert!(
        line.contains("has 1 accounts and 0 users under it"),
        "{line}"
    );
    let line = refused(&instance, &["account", "add", "science", "--shares", "8"])?;
    assert!(
        line.contains("account `science` is there already"),
        "{line}"
    );
    let line = refused(
        &instance,
        &["account", "edit", "science", "--parent", "physics"],
    )?;
    assert!(
        line.contains("(science under physics under science)"),
        "{line}"
    );
    let tree = instance.ok(&["account", "tree"])?;
    assert_eq!(tree.lines().count(), 4, "{tree}");
    let exported = instance.ok(&["account", "export"])?;
    instance.kill_leader()?;
    instance.start_again()?;
    assert_eq!(instance.ok(&["account", "export"])?, exported);
    let listed = instance.json(&["account", "list", "--json"])?;
    assert_eq!(listed[0]["limits"], json!({"running_jobs": 3}), "{listed}");
    let shown = instance.json(&["account", "show", "physics", "--json"])?;
    assert_eq!(shown["users"][0]["default"], true, "{shown}");
    let told = instance.json(&["audit", "--event", "account", "--json"])?;
    let told = told.as_array().cloned().unwrap_or_default();
    assert_eq!(told.len(), 6, "{told:?}");
    assert!(
        told.iter()
            .all(|deed| deed["uid"].as_u64() == uid.parse().ok())
    );
    assert_eq!(told[5]["context"]["account"]["value"], Value::Null);
    let table = instance.ok(&["audit", "-n"])?;
    assert!(table.contains("account physics: "), "{table}");
    instance.ok(&["account", "del", "science", "--recursive"])?;
    assert_eq!(instance.ok(&["account", "export"])?.trim(), "");
    Ok(())
}

#[test]
fn accounts_of_other_schedulers_are_taken_as_a_whole() -> Tested {
    let instance = Instance::start(&FAKE)?;
    let dump = instance.place.path().join("dump.cfg");
    let uid = uid();
    let text = format!(
        "Cluster - 'c':Fairshare=1\nParent - 'root'\nAccount - 'a':Fairshare=3:Description='x'\nAccount - 'b':Fairshare=1\nParent - 'a'\nUser - '{uid}':DefaultAccount='a':Fairshare=1\nParent - 'b'\nUser - '{uid}':Fairshare=1\nUser - 'no-such-user':Fairshare=1\n"
    );
    fs::write(&dump, text)?;
    let dump = dump.to_str().unwrap_or_default();
    let line = refused(&instance, &["account", "import", dump])?;
    assert!(
        line.contains("users that this host does not know: no-such-user"),
        "{line}"
    );
    instance.ok(&["account", "import", "--skip-unknown", dump])?;
    let exported = instance.place.path().join("accounts.toml");
    let text = instance.ok(&["account", "export"])?;
    fs::write(&exported, &text)?;
    let exported = exported.to_str().unwrap_or_default();
    assert_eq!(instance.ok(&["account", "import", exported])?, "0 changes");
    instance.ok(&["account", "add", "c", "--parent", "b"])?;
    instance.ok(&["account", "import", "--replace", exported])?;
    assert_eq!(instance.ok(&["account", "export"])?, text);
    let json = instance.json(&["account", "export", "--json"])?;
    assert_eq!(json["account"]["a"]["shares"], 3, "{json}");
    Ok(())
}

#[test]
fn a_dry_run_refuses_what_the_import_refuses_and_changes_nothing() -> Tested {
    let instance = Instance::start(&FAKE)?;
    let file = instance.place.path().join("accounts.toml");
    let path = file.to_str().unwrap_or_default();
    for (text, expected) in [
        (
            "[account.a]\nshares = -1",
            "account.a.shares: `-1` is given",
        ),
        ("[account.a]\nparent = 'x'", "there is no account `x`"),
        (
            "[account.a]\nparent = 'b'\n[account.b]\nparent = 'a'",
            "(a under b under a)",
        ),
        (
            "[account.a]\n[account.b.limits]\ncarry = 50",
            "account `b`: carry: 50 given",
        ),
        (
            "[account.a.user.4294967295]",
            "user: 4294967295 given, which stands for no user",
        ),
    ] {
        fs::write(&file, text)?;
        let line = refused(&instance, &["account", "import", "--dry-run", path])?;
        assert!(line.contains(expected), "{line}");
        assert_eq!(refused(&instance, &["account", "import", path])?, line);
    }
    instance.ok(&["account", "add", "a"])?;
    instance.ok(&["account", "add-user", &uid(), "-A", "a", "--default"])?;
    let before = instance.ok(&["account", "export"])?;
    fs::write(&file, "[account.b]\nshares = 2")?;
    let replace = ["account", "import", "--replace", "--dry-run", path];
    let told = instance.ok(&replace)?;
    let added = r#"{"account":{"name":"b","value":{"shares":2}}}"#;
    assert_eq!(
        (told.lines().next(), told.lines().count()),
        (Some(added), 4)
    );
    assert_eq!(instance.ok(&["account", "export"])?, before);
    let made = instance.ok(&["account", "import", "--replace", path])?;
    assert_eq!(made, "4 changes");
    assert_eq!(instance.ok(&replace)?, "");
    let nobody = ["account", "add-user", "4294967295", "-A", "b"];
    let line = refused(&instance, &nobody)?;
    assert!(line.contains("user: 4294967295 given"), "{line}");
    Ok(())
}

#[test]
fn shares_are_those_of_the_accounts_and_the_priority_of_a_job_has_their_factor() -> Tested {
    let instance = Instance::start(&FAKE)?;
    let uid = uid();
    for (account, shares) in [("a", "3"), ("b", "1")] {
        instance.ok(&["account", "add", account, "--shares", shares])?;
        instance.ok(&["account", "add-user", &uid, "-A", account])?;
    }
    let holder = instance.submit(&["-n4", "-A", "b", "-t", "10m", "true"])?;
    instance.event(&holder, "start")?;
    let of_b = instance.submit(&["-n4", "-A", "b", "-t", "10m", "true"])?;
    let of_a = instance.submit(&["-n4", "-A", "a", "-t", "10m", "true"])?;
    let told = instance.json(&["priority", "--json"])?;
    let jobs = told["jobs"].as_array().cloned().unwrap_or_default();
    assert_eq!(jobs.len(), 2, "{told}");
    assert_eq!(
        (&jobs[0]["f58"], &jobs[1]["f58"]),
        (&json!(of_a), &json!(of_b))
    );
    let factor = |job: &Value| {
        let terms = job["terms"].as_array().cloned().unwrap_or_default();
        let found = terms.iter().find(|term| term["name"] == "fair_share");
        found
            .and_then(|term| term["factor"].as_f64())
            .unwrap_or(-1.0)
    };
    let shares = instance.json(&["shares", "--json"])?;
    let rows = shares["shares"].as_array().cloned().unwrap_or_default();
    let row = |account: &str| {
        let found = rows
            .iter()
            .find(|row| row["account"] == account && !row["user"].is_null());
        found.cloned().unwrap_or_default()
    };
    for (job, account, normalized) in [(&jobs[0], "a", 0.75), (&jobs[1], "b", 0.25)] {
        let row = row(account);
        assert_eq!(row["normalized"], normalized, "{row}");
        assert_eq!(row["factor"].as_f64(), Some(factor(job)), "{row} {job}");
    }
    assert_eq!(factor(&jobs[0]), 1.0);
    assert!(factor(&jobs[1]) < 0.1);
    assert!(row("b")["planned"].as_f64() > Some(2000.0), "{shares}");
    let tree = instance.ok(&["shares", "--tree"])?;
    assert!(
        tree.lines().any(|line| line.starts_with("    b ")),
        "{tree}"
    );
    Ok(())
}

/// Core-microseconds charged to an account, and of its running jobs.
fn used(instance: &Instance, account: &str) -> anyhow::Result<(u64, u64)> {
    let report = instance.json(&["usage", "--json", "-A", account])?;
    let rows = report["usage"].as_array().cloned().unwrap_or_default();
    let sum = |what: &str| {
        let of = rows.iter().filter_map(|row| row[what]["core_us"].as_u64());
        of.sum::<u64>()
    };
    Ok((sum("charged"), sum("running")))
}

#[test]
fn usage_outlives_a_leader_that_is_killed_and_all_of_it_is_the_capacity() -> Tested {
    let fake = [
        "--fake",
        "nodes=2,cores=4",
        "-S",
        "exec.test.run_duration=200ms",
    ];
    let instance = Instance::start(&[&fake[..], &["-S", "policy.preset=flux"]].concat())?;
    let uid = uid();
    for (account, shares) in [("a", "3"), ("b", "1")] {
        instance.ok(&["account", "add", account, "--shares", shares])?;
        instance.ok(&["account", "add-user", &uid, "-A", account])?;
    }
    for account in ["a", "b", "a"] {
        let job = instance.submit(&["-n4", "-A", account, "true"])?;
        instance.event(&job, "clean")?;
    }
    let before = (used(&instance, "a")?, used(&instance, "b")?);
    // Three runs of four cores for a fifth of a second.
    assert!(before.0.0 > 1_600_000 && before.1.0 > 800_000, "{before:?}");
    let factor = |instance: &Instance| -> anyhow::Result<Vec<f64>> {
        let shares = instance.json(&["shares", "--json"])?;
        let rows = shares["shares"].as_array().cloned().unwrap_or_default();
        let users = rows.iter().filter(|row| !row["user"].is_null());
        Ok(users.filter_map(|row| row["factor"].as_f64()).collect())
    };
    let due = factor(&instance)?;
    instance.kill_leader()?;
    instance.start_again()?;
    assert_eq!((used(&instance, "a")?, used(&instance, "b")?), before);
    let after = factor(&instance)?;
    for (before, after) in due.iter().zip(&after) {
        assert!((before - after).abs() < 0.01, "{due:?} {after:?}");
    }
    assert!(due[0] > 0.0 && due[0] < 1.0, "{due:?}");
    let report = instance.json(&["usage", "--json"])?;
    let identity = &report["identity"];
    let core = |what: &str| identity[what]["core_us"].as_u64().unwrap_or(0);
    let parts = ["jobs", "instances", "idle", "drained", "down"];
    assert_eq!(
        parts.map(core).iter().sum::<u64>(),
        core("capacity"),
        "{report}"
    );
    assert_eq!(
        core("jobs"),
        core("charged") + core("uncharged"),
        "{report}"
    );
    let table = instance.ok(&["usage", "--identity"])?;
    assert!(
        table.contains("capacity") && table.contains("idle"),
        "{table}"
    );
    Ok(())
}

/// Core-seconds that two accounts got of one node in a while, when both always want all of it.
fn contest(instance: &Instance, rounds: usize) -> anyhow::Result<(u64, u64)> {
    let before = (used(instance, "a")?, used(instance, "b")?);
    // Nobody is to begin before both are there.
    instance.ok(&["resource", "drain", "0"])?;
    for account in ["a", "b"] {
        let copies = format!("1-{rounds}");
        instance.submit(&["--cc", &copies, "-n4", "-t", "1s", "-A", account, "true"])?;
    }
    instance.ok(&["resource", "undrain", "0"])?;
    // The first who has none left is where their turns end.
    loop {
        let queued = instance.ok(&["jobs", "-n", "-o", "account", "-f", "pending"])?;
        let of = |name: &str| queued.lines().filter(|line| *line == name).count();
        if of("a") == 0 || of("b") == 0 {
            break;
        }
    }
    instance.ok(&["cancel", "--all"])?;
    let after = (used(instance, "a")?, used(instance, "b")?);
    let of = |after: (u64, u64), before: (u64, u64)| after.0 + after.1 - before.0 - before.1;
    Ok((of(after.0, before.0), of(after.1, before.1)))
}

#[test]
fn core_seconds_follow_the_shares_and_a_change_of_them() -> Tested {
    let fake = [
        "--fake",
        "nodes=1,cores=4",
        "-S",
        "exec.test.run_duration=20ms",
    ];
    let policy = [
        "-S",
        "policy.preset=flux",
        "-S",
        "policy.usage.decay.half=2s",
        "-S",
        "policy.priority.weights.wait=0",
    ];
    let instance = Instance::start(&[&fake[..], &policy].concat())?;
    let uid = uid();
    for (account, shares) in [("a", "3"), ("b", "1")] {
        instance.ok(&["account", "add", account, "--shares", shares])?;
        instance.ok(&["account", "add-user", &uid, "-A", account])?;
    }
    let is_due = |part: f64| (part / 0.75 - 1.0).abs() <= 0.05;
    let (a, b) = contest(&instance, 120)?;
    let part = a as f64 / (a + b) as f64;
    assert!(is_due(part), "a got {part} of {a} and {b}");
    instance.ok(&["account", "edit", "b", "--shares", "9"])?;
    // First it is also given what it lacked by the shares that count now.
    let (a, b) = contest(&instance, 120)?;
    let part = b as f64 / (a + b) as f64;
    assert!(part > 0.7, "b got {part} of {a} and {b}");
    let (a, b) = contest(&instance, 120)?;
    let part = b as f64 / (a + b) as f64;
    assert!(is_due(part), "b got {part} of {a} and {b}");
    Ok(())
}

/// More wait than are put in order at each start. `eddy-cli-tests shares` is the same for a minute.
#[test]
fn core_seconds_follow_the_shares_through_two_queue_instances() -> Tested {
    let played = contest::play(7)?;
    for had in [played.before, played.after] {
        assert!(had.off() <= 0.05, "{played:?}");
    }
    Ok(())
}

#[test]
fn a_limit_keeps_a_job_back_with_its_name_and_lets_it_go_when_there_is_room() -> Tested {
    let instance = Instance::start(&FAKE)?;
    let uid = uid();
    instance.ok(&[
        "account",
        "add",
        "a",
        "--max-running-jobs",
        "1",
        "--max-cores",
        "3",
    ])?;
    instance.ok(&["account", "add-user", &uid, "-A", "a"])?;
    let first = instance.submit(&["true"])?;
    instance.event(&first, "start")?;
    let second = instance.submit(&["true"])?;
    let third = instance.submit(&["true"])?;
    let kept = |job: &str| -> anyhow::Result<()> {
        let row = instance.row(job)?;
        let reason = row["reason"].as_str().unwrap_or_default();
        assert_eq!(row["state"], "PRIORITY", "{row}");
        assert!(
            reason.contains("limit `running_jobs` of account `a` is 1: 1 is taken"),
            "{reason}"
        );
        Ok(())
    };
    kept(&second)?;
    let why = instance.ok(&["why", &second])?;
    assert!(why.contains("limit `running_jobs` of account `a`"), "{why}");
    let line = refused(&instance, &["submit", "-n4", "true"])?;
    assert!(line.contains("limit `cores` of account `a` is 3"), "{line}");
    instance.kill_leader()?;
    instance.start_again()?;
    kept(&second)?;
    instance.ok(&["cancel", &first])?;
    instance.event(&second, "start")?;
    kept(&third)?;
    instance.ok(&["account", "edit", "a", "--max-running-jobs", "none"])?;
    instance.event(&third, "start")?;
    instance.ok(&[
        "account",
        "edit",
        "a",
        "--max-running-jobs",
        "1",
        "--excess",
        "refuse",
    ])?;
    let line = refused(&instance, &["submit", "true"])?;
    assert!(line.contains("2 are taken, 1 asked for"), "{line}");
    Ok(())
}

/// Core-microseconds that the objects of an array have at these places.
fn core_time(objects: &Value, places: &[&str]) -> u64 {
    let objects = objects.as_array().map_or(&[][..], Vec::as_slice);
    let amounts = objects
        .iter()
        .flat_map(|object| places.iter().map(|place| &object[*place]["core_us"]));
    amounts.filter_map(Value::as_u64).sum()
}

#[test]
fn usage_by_job_is_the_ledgers_and_tells_what_an_instance_did_with_it() -> Tested {
    let instance = Instance::start(&["--cores=4"])?;
    let outer = instance.ok(&["alloc", "--bg", "-n2", "--job-set=w"])?;
    let outer = outer.trim_end();
    instance.ok(&["--at", outer, "run", "-n1", "sleep", "0.1"])?;
    instance.ok(&["run", "--job-set=w", "sleep", "0.1"])?;
    let running = instance.json(&["usage", "--instances", "--json"])?;
    let used = core_time(&running, &["used"]);
    let held = core_time(&running, &["charged", "running"]);
    assert!(used > 100_000 && held > 2 * used, "{running}");
    instance.ok(&["cancel", outer])?;
    instance.event(outer, "clean")?;
    let by_job = instance.json(&["usage", "--job-set=w", "--json"])?;
    assert_eq!(by_job.as_array().map(Vec::len), Some(2), "{by_job}");
    assert_eq!(core_time(&by_job, &["used"]), used, "its history says it");
    let ledger = &instance.json(&["usage", "--json"])?["usage"];
    assert_eq!(
        core_time(&by_job, &["charged"]),
        core_time(ledger, &["charged"]),
        "each core-microsecond"
    );
    let inner = instance.json(&["usage", &format!("{outer}/1"), "--json"])?;
    assert_eq!(core_time(&inner, &["charged"]), used, "of what it ran");
    let unknown = instance.run(&["usage", "99"])?;
    assert!(unknown.err.contains("no such job here: 99"), "{unknown:?}");
    instance.shut_down()
}

#[test]
fn what_was_used_of_an_instance_that_ran_again_is_of_all_its_attempts() -> Tested {
    let instance = Instance::start(&["--cores=2", "-S", "exec.kill_grace=0.5s"])?;
    runs_again(&instance, &["batch", "-n1"])?;
    instance.shut_down()
}

#[test]
fn what_was_used_of_an_instance_that_ran_again_in_a_queue_is_of_all_its_attempts() -> Tested {
    let place = Place::new()?;
    let config = place.join("queue.toml");
    let text = "[exec]\nkill_grace = \"0.5s\"\n[[instance]]\nname = \"batch\"\nelastic = \"all\"\n\
                [[queue]]\nname = \"batch\"\ninstance = \"batch\"\n";
    fs::write(&config, text)?;
    let state = place.path().join("state");
    let instance = Instance::start_in(place, state, &["--cores=2", "--config", &config])?;
    runs_again(&instance, &["batch", "-n1", "-q", "batch"])?;
    instance.shut_down()
}

/// An instance that is requeued has used what both its attempts did, as long as it runs and when it is over.
fn runs_again(instance: &Instance, batch: &[&str]) -> Tested {
    let mut ran = instance.place.fifo("ran")?;
    let (place, eddy) = (instance.place.path().display(), instance.place.program());
    let script = format!(
        "cd {place}; {eddy} run sleep 0.2; echo ran > ran; [ -e again ] && read line < go && exit; : > again; \
         exec sleep 600"
    );
    let mut go = instance.place.fifo("go")?;
    let job = instance.ok(&[batch, &["--output=none", "--wrap", &script]].concat())?;
    ran.line()?;
    instance.ok(&["job", "requeue", &job])?;
    ran.line()?;
    let running = instance.json(&["usage", &job, "--json"])?;
    assert!(core_time(&running, &["used"]) >= 400_000, "{running}");
    go.let_go(1)?;
    assert_eq!(instance.code(&job)?, 0);
    let by_job = instance.json(&["usage", &job, "--json"])?;
    let (used, charged) = (
        core_time(&by_job, &["used"]),
        core_time(&by_job, &["charged"]),
    );
    assert!(used >= 400_000 && used < charged, "{by_job}");
    Ok(())
}

#[test]
fn who_goes_on_beyond_a_budget_has_one_place_whatever_his_qos_waives() -> Tested {
    let place = Place::new()?;
    let config = place.join("standby.toml");
    fs::write(
        &config,
        "[[qos]]\nname = \"standby\"\nlimits_waived = true\n",
    )?;
    let state = place.path().join("state");
    let options = [&FAKE[..], &["--config", &config]].concat();
    let instance = Instance::start_in(place, state, &options)?;
    let budget = ["--max-core-minutes=10", "--excess=standby"];
    instance.ok(&[&["account", "add", "physics"][..], &budget].concat())?;
    instance.ok(&["account", "add-user", &uid(), "--account=physics"])?;
    let within = instance.submit(&["-t10m", "true"])?;
    let beyond = instance.submit(&["-t10m", "true"])?;
    instance.event(&beyond, "start")?;
    assert_eq!(instance.row(&within)?["qos"], "");
    assert_eq!(instance.row(&beyond)?["qos"], "standby");
    let log = instance.ok(&["job", "eventlog", &beyond])?;
    assert_eq!(log.matches(" jobspec-update ").count(), 1, "{log}");
    assert_eq!(log.matches(" priority ").count(), 1, "{log}");
    instance.shut_down()
}

#[test]
fn nobody_goes_on_beyond_a_budget_as_what_his_queue_does_not_allow() -> Tested {
    let place = Place::new()?;
    let config = place.join("lists.toml");
    let text = "[[qos]]\nname = \"normal\"\n[[queue]]\nname = \"plain\"\nqos = [\"normal\"]\ndefault_qos = \"normal\"\n\
                [[queue]]\nname = \"any\"\nqos = [\"normal\", \"standby\"]\ndefault_qos = \"normal\"\n[[qos]]\nname = \"standby\"\n";
    fs::write(&config, text)?;
    let state = place.path().join("state");
    let options = [&FAKE[..], &["--config", &config]].concat();
    let instance = Instance::start_in(place, state, &options)?;
    let budget = ["--max-core-minutes=10", "--excess=standby"];
    instance.ok(&[&["account", "add", "physics"][..], &budget].concat())?;
    instance.ok(&["account", "add-user", &uid(), "--account=physics"])?;
    let within = instance.submit(&["-q", "plain", "-t10m", "true"])?;
    instance.event(&within, "start")?;
    let barred = instance.submit(&["-q", "plain", "-t10m", "true"])?;
    let allowed = instance.submit(&["-q", "any", "-t10m", "true"])?;
    instance.event(&allowed, "start")?;
    assert_eq!(instance.row(&allowed)?["qos"], "standby");
    let row = instance.row(&barred)?;
    let reason = row["reason"].to_string();
    assert_eq!(row["qos"], "normal", "{row}");
    assert!(reason.contains("limit `core_minutes`"), "{reason}");
    instance.shut_down()
}

#[test]
fn a_job_that_names_no_account_is_charged_to_that_of_its_queue() -> Tested {
    let place = Place::new()?;
    let config = place.join("queues.toml");
    fs::write(
        &config,
        "[[queue]]\nname = \"open\"\ndefault = true\n[[queue]]\nname = \"lab\"\ndefault_account = \"biology\"\n",
    )?;
    let state = place.path().join("state");
    let options = [&FAKE[..], &["--config", &config]].concat();
    let instance = Instance::start_in(place, state, &options)?;
    let (uid, name) = (uid(), name()?);
    for account in ["physics", "biology"] {
        instance.ok(&["account", "add", account])?;
    }
    instance.ok(&["account", "add", "cells", "--parent", "biology"])?;
    let add = ["account", "add-user", &uid, "-A", "cells", "--default"];
    instance.ok(&add)?;
    let job = instance.submit(&["-q", "lab", "true"])?;
    assert_eq!(instance.row(&job)?["account"], "cells", "it is below");
    instance.ok(&["account", "add-user", &uid, "-A", "physics", "--default"])?;
    let line = refused(&instance, &["submit", "-q", "lab", "true"])?;
    let expected =
        format!("account: user {name} is not in account `biology`; allowed are cells, physics");
    assert!(line.contains(&expected), "{line}");
    instance.ok(&["account", "add-user", &uid, "-A", "biology"])?;
    for (words, account) in [
        (&["-q", "lab", "true"][..], "biology"),
        (&["-q", "open", "true"], "physics"),
        (&["true"], "physics"),
        (&["-q", "lab", "-A", "physics", "true"], "physics"),
        (&["-q", "lab", "-B", "physics", "true"], "physics"),
    ] {
        let job = instance.submit(words)?;
        assert_eq!(instance.row(&job)?["account"], account, "{words:?}");
    }
    Ok(())
}

#[test]
fn an_account_goes_when_its_jobs_have_ended() -> Tested {
    let instance = Instance::start(&FAKE)?;
    let uid = uid();
    instance.ok(&["account", "add", "physics", "--max-running-jobs", "1"])?;
    instance.ok(&["account", "add-user", &uid, "-A", "physics"])?;
    instance.submit_started(&["true"])?;
    let waits = instance.submit(&["true"])?;
    let charged = "that are not over are charged to account `physics`; they have to end or be cancelled first";
    let line = refused(&instance, &["account", "del-user", &uid, "-A", "physics"])?;
    let jobs = format!("user: {uid} given, 2 jobs of that user {charged}");
    assert!(line.ends_with(&jobs), "{line}");
    let line = refused(&instance, &["account", "del", "physics", "--recursive"])?;
    assert!(line.ends_with(charged), "{line}");
    let held = instance.row(&waits)?;
    assert_eq!(held["state"], "PRIORITY", "by its limit: {held}");
    instance.ok(&["cancel", "--all"])?;
    instance.ok(&["job", "wait", "--all"])?;
    instance.ok(&["account", "del", "physics", "--recursive"])?;
    Ok(())
}
