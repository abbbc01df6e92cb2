//! Gangs with real processes: together or not at all, over killed leaders too.

use std::fs;

use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use serde_json::json;

type Tested = anyhow::Result<()>;

fn why(instance: &Instance, job: &str) -> anyhow::Result<String> {
    instance.ok(&["why", job])
}

#[test]
fn a_gang_starts_whole_over_a_killed_leader() -> Tested {
    let instance = Instance::start(&["--cores=3"])?;
    instance.ok(&["config", "set", "policy.preset=easy"])?;
    let mut gate = instance.place.fifo("gate")?;
    let first = instance.submit_started(&["sh", "-c", "read line <gate"])?;
    let member = ["--gang=ring", "--gang-size=3", "sh", "-c", "exit 3"];
    let one = instance.submit(&member)?;
    let two = instance.submit(&member)?;
    let says = why(&instance, &one)?;
    assert!(
        says.contains("waits for its gang `ring`: 2 of its 3 members are ready to start"),
        "{says}"
    );
    let other = instance.run(&["submit", "--gang=ring", "--gang-size=4", "true"])?;
    let text = "attributes.system.gang.size: 4 given, gang `ring` has 3";
    assert!(other.refusal()?.ends_with(text), "{}", other.err);
    instance.kill_leader()?;
    instance.start_again()?;
    let three = instance.submit(&member)?;
    let says = why(&instance, &two)?;
    assert!(
        says.contains("waits for 3 places for members of gang `ring` at once; 2 are free now"),
        "{says}"
    );
    let many = instance.run(&["submit", "--gang=ring", "--gang-size=3", "true"])?;
    let text = "attributes.system.gang.size: gang `ring` has 3 of 3 members, 1 more given";
    assert!(many.refusal()?.ends_with(text), "{}", many.err);
    gate.let_go(1)?;
    for job in [&one, &two, &three] {
        assert_eq!(instance.code(job)?, 3);
    }
    assert_eq!(instance.code(&first)?, 0);
    let began = |job: &str| anyhow::Ok(instance.row(job)?["t_alloc"].as_f64());
    assert_eq!(began(&one)?, began(&three)?);
    assert_eq!(began(&one)?, began(&two)?);
    // The name is free again.
    let again = instance.submit(&["--gang=ring", "--gang-size=1", "true"])?;
    assert_eq!(instance.code(&again)?, 0);
    Ok(())
}

#[test]
fn with_a_minimum_a_gang_begins_with_those_who_fit_and_the_others_fail() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let gang = [
        "submit",
        "--gang=g",
        "--gang-size=3",
        "--gang-min=2",
        "--cc=1-3",
    ];
    let out = instance.ok(&[&gang[..], &["true"]].concat())?;
    let jobs: Vec<&str> = out.split_whitespace().collect();
    assert_eq!(jobs.len(), 3);
    let mut codes = Vec::new();
    for job in &jobs {
        codes.push(instance.code(job)?);
    }
    assert_eq!(codes, [0, 0, 1]);
    let left_out = instance.row(jobs[2])?["reason"].to_string();
    assert!(
        left_out.contains("was left out when its gang `g` began with 2 of 3 members"),
        "{left_out}"
    );
    Ok(())
}

#[test]
fn what_a_gang_may_not_be_is_refused_in_one_line() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    for (options, says) in [
        (
            ["--gang=g", "--gang-size=0"],
            "invalid value '0' for '--gang-size <N>': allowed are 1 to 1024",
        ),
        (
            ["--gang=a b", "--gang-size=2"],
            "attributes.system.gang.name: ",
        ),
    ] {
        let refused = instance.run(&[&["submit"][..], &options, &["true"]].concat())?;
        let text = refused.refusal()?;
        assert!(text.contains(says), "{text}");
    }
    let lonely = instance.run(&["submit", "--gang=g", "true"])?;
    assert!(lonely.err.contains("--gang-size"), "{}", lonely.err);
    Ok(())
}

#[test]
fn a_gang_that_never_fits_together_is_refused_by_the_numbers() -> Tested {
    let instance = Instance::start(&["--fake=nodes=2,cores=4"])?;
    let gang = ["submit", "-n3", "-N1"];
    let whole = ["--gang=g", "--gang-size=3", "--cc=1-3", "true"];
    let refused = instance.run(&[&gang[..], &whole].concat())?;
    let says = "attributes.system.gang: asks for 3 places for members of gang `g` at once; the instance has 2";
    assert!(refused.refusal()?.contains(says), "{}", refused.err);
    // One after the other: the first that makes it too much, and two of three would do.
    let one = ["--gang=h", "--gang-size=3", "true"];
    instance.ok(&[&gang[..], &one].concat())?;
    instance.ok(&[&gang[..], &one].concat())?;
    let refused = instance.run(&[&gang[..], &one].concat())?;
    assert!(
        refused.refusal()?.contains("of gang `h`"),
        "{}",
        refused.err
    );
    let some = [
        "--gang=i",
        "--gang-size=3",
        "--gang-min=2",
        "--cc=1-3",
        "true",
    ];
    instance.ok(&[&gang[..], &some].concat())?;
    instance.ok(&["cancel", "--all"])?;
    instance.shut_down()
}

#[test]
fn many_of_a_gang_run_again_together() -> Tested {
    let members = 96;
    let fake = format!("--fake=nodes={members},cores=1");
    let instance = Instance::start(&[&fake, "-S", "exec.test.run_duration=600s"])?;
    instance.ok(&["config", "set", "policy.preset=easy"])?;
    let size = format!("--gang-size={members}");
    let all = format!("--cc=1-{members}");
    let gang = ["submit", "--gang=g", &size, "--gang-min=2", &all, "true"];
    let out = instance.ok(&gang)?;
    let jobs: Vec<&str> = out.split_whitespace().collect();
    for job in &jobs {
        instance.ok(&["job", "wait-event", job, "start"])?;
    }
    // One node less: those who began once are not left out for good.
    let other = instance.submit(&["--urgency=31", "-N1", "-x", "true"])?;
    instance.ok(&[&["job", "requeue"][..], &jobs].concat())?;
    instance.ok(&["job", "wait-event", &other, "start"])?;
    for job in &jobs {
        let row = instance.row(job)?;
        assert_eq!(row["state"], "SCHED", "{row}");
    }
    instance.ok(&["cancel", &other])?;
    for job in &jobs {
        instance.ok(&["job", "wait-event", "--count=2", job, "start"])?;
    }
    instance.ok(&["cancel", "--all"])?;
    Ok(())
}

#[test]
fn a_limit_that_comes_later_keeps_a_gang_that_has_no_place_and_ends_nobody() -> Tested {
    let instance = Instance::start(&["--cores=4"])?;
    let user = whoami()?;
    instance.ok(&["account", "add", "phys"])?;
    instance.ok(&["account", "add-user", "--account", "phys", &user])?;
    let gang = [
        "submit",
        "-A",
        "phys",
        "--gang=h",
        "--gang-size=3",
        "--cc=1-3",
        "--urgency=0",
        "true",
    ];
    let out = instance.ok(&gang)?;
    instance.ok(&["account", "edit", "phys", "--max-running-jobs", "2"])?;
    let gang: Vec<&str> = out.split_whitespace().collect();
    instance.ok(&[&["release"][..], &gang].concat())?;
    for job in &gang {
        let note = instance.row(job)?["reason"].to_string();
        assert!(
            note.contains("account `phys` has a limit of what may run since"),
            "{note}"
        );
    }
    let plain = instance.submit(&["-A", "phys", "true"])?;
    assert_eq!(instance.code(&plain)?, 0);
    instance.kill_leader()?;
    instance.start_again()?;
    for job in &gang {
        assert_eq!(instance.row(job)?["state"], "PRIORITY");
    }
    instance.ok(&["account", "edit", "phys", "--max-running-jobs", "none"])?;
    for job in &gang {
        assert_eq!(instance.code(job)?, 0);
    }
    Ok(())
}

#[test]
fn who_takes_the_place_of_a_member_that_did_not_fit_starts_with_the_others() -> Tested {
    let instance = Instance::start(&["--fake=nodes=2,cores=4", "-S", "exec.test.run_duration=1s"])?;
    let user = whoami()?;
    let reserve = [
        "reservation",
        "create",
        "one",
        "--duration=1h",
        "--nodes=0",
        "--users",
        &user,
    ];
    instance.ok(&reserve)?;
    let gang = ["-t10m", "--reservation=one", "--gang=g", "--gang-size=2"];
    let one = instance.submit(&[&gang[..], &["-n2", "true"]].concat())?;
    let rows = instance.row(&one)?["reason"].to_string();
    assert!(rows.contains("1 of its 2 members are ready"), "{rows}");
    let wide = instance.submit(&[&gang[..], &["-n4", "true"]].concat())?;
    let says = why(&instance, &wide)?;
    assert!(says.contains("does not fit"), "{says}");
    instance.ok(&["cancel", &wide])?;
    let two = instance.submit(&[&gang[..], &["-n2", "true"]].concat())?;
    assert_eq!((instance.code(&one)?, instance.code(&two)?), (0, 0));
    Ok(())
}

#[test]
fn nodes_of_slots_that_lie_anywhere_count_for_limits() -> Tested {
    let instance = Instance::start(&["--fake=nodes=4,cores=8,memory=16G"])?;
    let user = whoami()?;
    instance.ok(&[
        "account",
        "add",
        "phys",
        "--max-cores",
        "8",
        "--max-nodes",
        "1",
    ])?;
    instance.ok(&["account", "add-user", "--account", "phys", &user])?;
    let wide = [
        "submit",
        "-A",
        "phys",
        "-t1m",
        "--place=excl",
        "-n4",
        "--mem-per-task=12G",
        "true",
    ];
    let refused = instance.run(&wide)?;
    let text = refused.refusal()?;
    assert!(
        text.contains("limit `nodes` of account `phys` is 1"),
        "{text}"
    );
    Ok(())
}

/// Who runs this test, as accounts name users.
/// Four nodes of a core each, two in each of two racks.
fn racks() -> anyhow::Result<Instance> {
    let place = Place::new()?;
    let (file, state) = (place.join("R.json"), place.path().join("state"));
    let inventory = json!({"version": 1, "execution": {
        "R_lite": [{"rank": "0-3", "children": {"core": "0"}}],
        "nodelist": ["n[0-3]"],
        "starttime": 0,
        "expiration": 0,
        "properties": {"rack=r0": "0-1", "rack=r1": "2-3"},
    }});
    fs::write(&file, inventory.to_string())?;
    Instance::start_in(place, state, &["--resources", &file])
}

#[test]
fn a_gang_that_is_to_be_uniform_is_on_nodes_of_one_rack() -> Tested {
    let instance = racks()?;
    let mut gate = instance.place.fifo("gate")?;
    // A node of each rack is free beside it, and one more of the second.
    instance.submit_started(&["--requires=rack=r0", "sh", "-c", "read line <gate"])?;
    let of = |gang: &str, cc: &str, command: &[&str]| {
        let gang = format!("--gang={gang}");
        let words = ["submit", &gang, "--gang-size=2", "--gang-uniform=rack", cc];
        let out = instance.ok(&[&words, command].concat())?;
        anyhow::Ok(
            out.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    };
    let ranks = |jobs: &[String]| -> anyhow::Result<Vec<String>> {
        let ranks = jobs.iter().map(|job| {
            assert_eq!(instance.code(job)?, 0);
            Ok(instance.row(job)?["nodelist"]
                .as_str()
                .unwrap_or_default()
                .to_owned())
        });
        ranks.collect()
    };
    let first = of("one", "--cc=1-2", &["true"])?;
    assert_eq!(ranks(&first)?, ["n2", "n3"]);
    // While half of each rack is in use, two that need not be alike would start.
    let other = instance.submit_started(&["--requires=rack=r1", "sh", "-c", "read line <gate"])?;
    let second = of("two", "--cc=1", &["true"])?;
    let differs = instance.run(&["submit", "--gang=two", "--gang-size=2", "true"])?;
    let text = "gang `two` has another label; all members have one";
    assert!(differs.refusal()?.ends_with(text), "{}", differs.err);
    let third = of("two", "--cc=1", &["true"])?;
    let says = why(&instance, &third[0])?;
    assert!(says.contains("gang `two`"), "{says}");
    assert_eq!(instance.row(&second[0])?["state"], "SCHED");
    instance.ok(&["cancel", &other])?;
    assert_eq!(ranks(&[second, third].concat())?, ["n2", "n3"]);
    gate.let_go(1)?;
    // No node has that label, so the first member is refused, and not the last.
    let words = [
        "submit",
        "--gang=h",
        "--gang-size=2",
        "--gang-uniform=row",
        "true",
    ];
    let none = instance.run(&words)?;
    assert_eq!(
        none.refusal()?,
        "eddy submit: attributes.system.gang: asks for 1 place for members of gang `h` at once on nodes of one `row`; the instance has 0"
    );
    let alone = instance.run(&["submit", "--gang-uniform=rack", "true"])?;
    assert!(alone.err.contains("--gang <"), "{}", alone.err);
    Ok(())
}

fn whoami() -> anyhow::Result<String> {
    let out = std::process::Command::new("id").arg("-un").output()?;
    Ok(String::from_utf8(out.stdout)?.trim().to_owned())
}
