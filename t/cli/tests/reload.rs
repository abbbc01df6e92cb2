//! Another configuration while an instance runs: its file read again, keys set over it, and what of that
//! stands after the leader was killed.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::place::Place;
use eddy_cli_tests::running::Running;
use serde_json::json;

type Tested = anyhow::Result<()>;

const BEFORE: &str = r#"
[exec]
kill_grace = "5s"
[exec.test]
run_duration = "3000s"
[limits]
user_rate = 900

[[queue]]
name = "debug"
max_time = "30m"
limits = { running_jobs = 1 }

[[queue]]
name = "old"

[[pool]]
name = "lic"
count = 1
"#;

const AFTER: &str = r#"
[exec]
kill_grace = "9s"
[exec.test]
run_duration = "3000s"

[[queue]]
name = "debug"
max_time = "2h"
limits = { running_jobs = 2 }
priority = 7

[[queue]]
name = "new"
default_time = "10m"

[[pool]]
name = "lic"
count = 3

[[qos]]
name = "fast"
"#;

fn start() -> anyhow::Result<Instance> {
    let place = Place::new()?;
    let file = place.join("eddy.toml");
    fs::write(&file, BEFORE)?;
    let state = place.path().join("state");
    let fake = ["--fake", "nodes=1,cores=8", "--config", &file];
    Instance::start_in(place, state, &fake)
}

fn lines(instance: &Instance, arguments: &[&str]) -> anyhow::Result<Vec<String>> {
    let text = instance.ok(&[&["config"][..], arguments].concat())?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// What is printed on standard error by one that changes nothing.
fn refused(instance: &Instance, arguments: &[&str]) -> anyhow::Result<Vec<String>> {
    let ran = instance.run(&[&["config"][..], arguments].concat())?;
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    Ok(ran.err.lines().map(str::to_owned).collect())
}

fn get(instance: &Instance, key: &str) -> anyhow::Result<String> {
    Ok(instance.ok(&["config", "get", key])?.trim().to_owned())
}

const CHANGES: [&str; 8] = [
    "queue.old: removed",
    "qos.fast: added",
    "queue.new: added",
    "limits.user_rate: 900 -> unset",
    "pool.lic.count: 1 -> 3",
    "queue.debug.limits.running_jobs: 1 -> 2",
    "queue.debug.max_time: \"30m\" -> \"2h\"",
    "queue.debug.priority: unset -> 7",
];

#[test]
fn a_file_read_again_counts_at_once_and_after_a_kill() -> Tested {
    let instance = start()?;
    let file = instance.place.join("eddy.toml");
    let unchanged = format!("nothing changed (given: {file})");
    assert_eq!(lines(&instance, &["reload"])?, [unchanged.as_str()]);
    let first = instance.submit_started(&["-q", "debug", "-t", "10m", "true"])?;
    let second = instance.submit(&["-q", "debug", "-t", "10m", "true"])?;
    let reason = instance.row(&second)?["reason"].to_string();
    assert!(reason.contains("limit `running_jobs`"), "{reason}");
    fs::write(instance.place.join("eddy.toml"), AFTER)?;
    let mut told: Vec<String> = CHANGES.iter().map(|line| (*line).to_owned()).collect();
    told.push("exec.kill_grace: \"5s\" -> \"9s\" (from the next start on)".to_owned());
    assert_eq!(lines(&instance, &["reload", "--dry-run"])?, told);
    assert_eq!(get(&instance, "limits.user_rate")?, "900");
    assert_eq!(lines(&instance, &["reload"])?, told);
    instance.event(&second, "start")?;
    assert_eq!(get(&instance, "limits.user_rate")?, "1000");
    assert_eq!(get(&instance, "exec.kill_grace")?, "5.0");
    let new = instance.submit(&["-q", "new", "--qos", "fast", "--pool", "lic=2", "true"])?;
    assert_eq!(instance.row(&new)?["duration"], json!(600.0));
    let gone = instance.run(&["submit", "-q", "old", "true"])?;
    assert_eq!(
        gone.refusal()?,
        "eddy submit: attributes.system.queue: `old` given, there are debug, new"
    );
    // Who needs a queue keeps it, and nothing of the rest is changed then.
    fs::write(instance.place.join("eddy.toml"), BEFORE)?;
    let hindered = refused(&instance, &["reload"])?;
    assert_eq!(
        hindered,
        [
            format!(
                "eddy config reload: queue `new`: is to be no more, and jobs that are not over need it as it is: {new}"
            ),
            format!(
                "eddy config reload: QoS `fast`: is to be no more, and jobs that are not over need it as it is: {new}"
            ),
            format!(
                "eddy config reload: pool `lic`: is to have 1, and jobs that are not over need it as it is: {new}"
            ),
        ]
    );
    let path = instance.place.join("eddy.toml");
    fs::write(
        &path,
        "[[queue]]\nname = \"UP\"\nmax_nodes = 0\n[tree]\nfan = 1\n",
    )?;
    let wrong = refused(&instance, &["reload"])?;
    assert_eq!(wrong.len(), 3, "{wrong:?}");
    let prefix = format!("eddy config reload: {path}: line 2: queue[0].name: is \"UP\"");
    assert!(wrong[0].starts_with(&prefix), "{wrong:?}");
    fs::write(&path, AFTER)?;
    instance.kill_leader()?;
    instance.start_again()?;
    assert_eq!(instance.row(&first)?["state"], json!("RUN"));
    assert_eq!(get(&instance, "exec.kill_grace")?, "9.0");
    assert_eq!(lines(&instance, &["reload"])?, [unchanged.as_str()]);
    let more = instance.submit(&["-q", "debug", "-t", "90m", "true"])?;
    let reason = instance.row(&more)?["reason"].to_string();
    assert!(reason.contains("is 2: 2 are taken"), "{reason}");
    Ok(())
}

#[test]
fn what_counts_from_the_next_start_on_does_where_nothing_else_changed() -> Tested {
    let instance = start()?;
    let file = instance.place.join("eddy.toml");
    fs::write(&file, BEFORE.replace("5s", "9s"))?;
    let told = "exec.kill_grace: \"5s\" -> \"9s\" (from the next start on)";
    assert_eq!(lines(&instance, &["reload"])?, [told]);
    assert_eq!(get(&instance, "exec.kill_grace")?, "5.0");
    instance.ok(&["shutdown"])?;
    // A start that is given nothing has what was read last.
    fs::remove_file(&file)?;
    let state = instance.state().display().to_string();
    instance.ok(&["start", "--background", "--statedir", &state])?;
    assert_eq!(get(&instance, "exec.kill_grace")?, "9.0");
    instance.shut_down()
}

#[test]
fn which_of_two_files_is_read_is_said() -> Tested {
    let instance = start()?;
    let file = instance.place.join("eddy.toml");
    let state = instance.state().display().to_string();
    let ran = instance
        .place
        .run(&["--at", &state, "config", "set", "exec.kill_grace", "3s"])?;
    let line = format!(
        "eddy config set: {state}/config.toml is read by starts without --config, instead of what an earlier \
         start was given"
    );
    assert_eq!(ran.err.trim_end(), line);
    let said = format!("{file} is read, which was given, and not {state}/config.toml");
    let ran = instance.run(&["config", "reload"])?;
    assert_eq!(
        ran.err.trim_end(),
        format!("eddy config reload: warning: {said}")
    );
    instance.ok(&["shutdown"])?;
    let start = ["start", "--background", "--statedir", &state];
    let ran = instance
        .place
        .run(&[&start[..], &["--config", &file]].concat())?;
    assert!(ran.err.contains(&said), "{}", ran.err);
    assert_eq!(get(&instance, "exec.kill_grace")?, "5.0");
    instance.ok(&["shutdown"])?;
    let ran = instance.place.run(&start)?;
    let said = format!(
        "{state}/config.toml is read, and not what was given to an earlier start ({state}/config.kept.toml)"
    );
    assert!(ran.err.contains(&said), "{}", ran.err);
    assert_eq!(get(&instance, "exec.kill_grace")?, "3.0");
    instance.shut_down()
}

#[test]
fn a_file_that_is_a_pipe_is_refused_and_keeps_nothing_from_being_changed() -> Tested {
    let instance = start()?;
    let file = instance.place.join("eddy.toml");
    let mode = || -> anyhow::Result<u32> {
        let kept = instance.state().join("config.kept.toml");
        Ok(fs::metadata(kept)?.permissions().mode() & 0o777)
    };
    fs::write(&file, AFTER)?;
    lines(&instance, &["reload"])?;
    assert_eq!(mode()?, 0o600);
    fs::remove_file(&file)?;
    let _pipe = instance.place.fifo("eddy.toml")?;
    let is_pipe = "is a pipe; allowed are a regular file and /dev/null";
    for more in [&["reload", "--dry-run"][..], &["reload"]] {
        let line = format!("eddy config reload: {file}: {is_pipe}");
        assert_eq!(refused(&instance, more)?, [line]);
    }
    lines(&instance, &["set", "defaults.time=2m"])?;
    let checked = instance.place.run(&["config", "check", &file])?;
    assert!(checked.refusal()?.contains(is_pipe), "{}", checked.err);
    let state = instance.place.join("other");
    let start = ["start", "--background", "--statedir", &state, "--config"];
    let begun = instance.place.run(&[&start[..], &[&file]].concat())?;
    assert!(begun.refusal()?.contains(is_pipe), "{}", begun.err);
    instance.shut_down()
}

#[test]
fn a_node_that_is_removed_keeps_no_start_and_no_reload() -> Tested {
    let place = Place::new()?;
    let file = place.join("home.toml");
    fs::write(
        &file,
        "[[instance]]\nname = \"a\"\nelastic = \"all\"\nhome = \"1-2\"\n[[queue]]\nname = \"a\"\ninstance = \"a\"\n",
    )?;
    let state = place.path().join("state");
    let options = ["--size=3", "--cores=1", "--config", &file];
    let instance = Instance::start_in(place, state, &options)?;
    let ran = instance.run(&["resource", "remove", "2"])?;
    let line = "eddy resource remove: instance `a`: `home` names ranks 2, which are removed: take them out of \
                the configuration, too";
    assert_eq!((ran.code, ran.err.trim_end()), (0, line));
    let said = "instance `a`: asks for ranks 1-2; there are 0-1";
    let ran = instance.run(&["config", "reload"])?;
    assert!(ran.code == 0 && ran.err.contains(said), "{}", ran.err);
    leader_of(instance.state())?.kill()?;
    let state = instance.state().display().to_string();
    let start = ["start", "--background", "--statedir", &state, "--config"];
    let ran = instance.place.run(&[&start[..], &[&file]].concat())?;
    assert!(ran.code == 0 && ran.err.contains(said), "{}", ran.err);
    // What was never right is refused.
    fs::write(&file, fs::read_to_string(&file)?.replace("1-2", "1-7"))?;
    let refused = instance.run(&["config", "reload"])?;
    assert!(
        refused.err.contains("asks for ranks 1-7"),
        "{}",
        refused.err
    );
    instance.shut_down()
}

#[test]
fn jobs_of_a_queue_that_a_start_left_out_can_be_let_go() -> Tested {
    let instance = start()?;
    instance.ok(&["queue", "stop", "old"])?;
    let job = instance.submit(&["-q", "old", "--cwd=/", "true"])?;
    instance.ok(&["shutdown"])?;
    let file = instance.place.join("other.toml");
    fs::write(&file, AFTER)?;
    let state = instance.state().display().to_string();
    let other = ["--statedir", &state, "--config", &file];
    let started = instance.run(&[&["start", "--background"], &other[..]].concat())?;
    assert_eq!(started.code, 0, "{}", started.err);
    let said = format!(
        "eddy start: queue `old` is no more in this configuration; its jobs stay in it, without rules of it, until \
         they are over or moved: {job}\n"
    );
    assert_eq!(started.err, said);
    assert_eq!(instance.row(&job)?["state"], "SCHED");
    let audit = instance.ok(&["audit", "--event", "memo", "--json"])?;
    for line in CHANGES {
        let line = serde_json::to_string(line)?;
        assert!(audit.contains(&line), "{line}: {audit}");
    }
    let listed = instance.ok(&["queue", "list", "old"])?;
    assert!(listed.contains("gone"), "{listed}");
    instance.ok(&["queue", "start", "old"])?;
    instance.event(&job, "start")?;
    instance.shut_down()
}

#[test]
fn a_key_that_is_set_counts_until_the_file_is_read_again() -> Tested {
    let instance = start()?;
    let set = |given: &[&str]| lines(&instance, &[&["set"][..], given].concat());
    assert_eq!(
        set(&["queue.debug.limits.running_jobs=3", "limits.user_rate=77"])?,
        [
            "limits.user_rate: 900 -> 77",
            "queue.debug.limits.running_jobs: 1 -> 3"
        ]
    );
    assert_eq!(get(&instance, "limits.user_rate")?, "77");
    assert_eq!(
        set(&["queue.debug.max_time="])?,
        ["queue.debug.max_time: \"30m\" -> unset"]
    );
    assert_eq!(set(&["limits.user_rate=77"])?, ["nothing changed"]);
    let errors = refused(&instance, &["set", "queue.none.max_nodes=3"])?;
    assert_eq!(
        errors,
        ["eddy config set: queue.none.max_nodes: there is no such [[queue]]; there are debug, old"]
    );
    let errors = refused(&instance, &["set", "queue.debug.max_nodes=no"])?;
    assert_eq!(
        errors,
        [
            "eddy config set: queue.debug.max_nodes: is \"no\"; allowed is a whole number from 1 to 65536"
        ]
    );
    let errors = refused(&instance, &["set", "tree.fanout=3", "limits.clients=1"])?;
    let file = instance.place.join("eddy.toml");
    let line = format!(
        "eddy config set: tree.fanout: counts from a start on; write it in {file}, which this start was given"
    );
    assert_eq!(errors, [line]);
    assert_eq!(get(&instance, "origin")?, format!("given: {file}"));
    let wrong = [
        "defaults.time=-1",
        "limits.clients=0",
        "tree.fanout=3",
        "foo=1",
        "queue.none.max_nodes=3",
    ];
    let errors = refused(&instance, &[&["set"][..], &wrong].concat())?;
    let keys: Vec<&str> = errors
        .iter()
        .filter_map(|line| line.split(": ").nth(1))
        .collect();
    assert_eq!(
        keys,
        [
            "tree.fanout",
            "foo",
            "queue.none.max_nodes",
            "defaults.time",
            "limits.clients"
        ],
        "{errors:?}"
    );
    let errors = refused(&instance, &["set", "tree.fan=3"])?;
    assert_eq!(
        errors,
        ["eddy config set: tree.fan: unknown key; in tree there is fanout"]
    );
    assert_eq!(get(&instance, "queue.debug.limits.running_jobs")?, "3");
    let told = set(&["policy.preset=easy"])?;
    let preset = "policy.preset: \"fcfs\" -> \"easy\"".to_owned();
    assert!(told.contains(&preset), "{told:?}");
    assert_eq!(
        set(&["queue.debug.priority=5"])?,
        ["queue.debug.priority: unset -> 5"]
    );
    let preset = get(&instance, "policy.preset")?;
    assert_eq!(preset, "easy", "what was set of the policy goes on");
    instance.kill_leader()?;
    instance.start_again()?;
    assert_eq!(get(&instance, "limits.user_rate")?, "77");
    assert_eq!(get(&instance, "policy.preset")?, "easy");
    let long = instance.submit(&["-q", "debug", "-t", "9h", "true"])?;
    instance.event(&long, "start")?;
    assert_eq!(
        lines(&instance, &["reload"])?,
        [
            "limits.user_rate: 77 -> 900",
            "queue.debug.limits.running_jobs: 3 -> 1",
            "queue.debug.max_time: unset -> \"30m\"",
            "queue.debug.priority: 5 -> unset",
            "policy.preset: \"easy\" -> \"fcfs\"",
            "policy: what was set by `eddy config set policy.KEY=VALUE` is undone",
        ]
    );
    assert_eq!(get(&instance, "policy.preset")?, "fcfs");
    let audit = instance.ok(&["audit", "--event", "memo", "--json"])?;
    assert!(audit.contains("limits.user_rate: 77 -> 900"), "{audit}");
    let table = instance.ok(&["audit", "--event", "memo", "-n"])?;
    let last = table.lines().last().unwrap_or_default();
    assert!(last.contains("limits.user_rate: 77 -> 900"), "{last}");
    assert!(!last.contains("\"live\""), "{last}");
    Ok(())
}

#[test]
fn what_a_start_is_given_stands_over_what_was_set_for_that_key_alone() -> Tested {
    let instance = start()?;
    lines(
        &instance,
        &["set", "limits.user_rate=77", "queue.debug.max_time=1h"],
    )?;
    lines(&instance, &["set", "policy.preset=easy"])?;
    let again = |given: &[&str]| -> anyhow::Result<String> {
        instance.kill_leader()?;
        let mut command = instance.starting();
        command.args(given);
        let ran = Running::start(command)?.wait()?;
        assert_eq!(ran.code, 0, "{}", ran.err);
        Ok(ran.err)
    };
    let in_force = || -> anyhow::Result<[String; 4]> {
        let keys = [
            "limits.user_rate",
            "queue.debug.max_time",
            "defaults.time",
            "policy.preset",
        ];
        let got: Result<Vec<String>, _> = keys.iter().map(|key| get(&instance, key)).collect();
        Ok(got?.try_into().expect("as many"))
    };
    assert_eq!(again(&["-S", "defaults.time=5m"])?, "");
    assert_eq!(in_force()?, ["77", "3600.0", "300.0", "easy"]);
    let told = again(&[
        "-S",
        "queue.debug.max_time=2h",
        "-S",
        "queue.debug.priority=3",
    ])?;
    assert_eq!(
        told.lines().collect::<Vec<_>>(),
        [
            "eddy start: -S stands over what `eddy config set` put in force, as long as it is given: queue.debug.max_time=1h"
        ]
    );
    assert_eq!(in_force()?, ["77", "7200.0", "null", "easy"]);
    let long = instance.submit(&["-q", "debug", "-t", "90m", "true"])?;
    assert_eq!(instance.row(&long)?["duration"], json!(5400.0));
    assert_eq!(again(&[])?, "");
    assert_eq!(in_force()?, ["77", "3600.0", "null", "easy"]);
    // One that was taken out is out after a restart, too, and takes no other with it.
    lines(&instance, &["set", "limits.user_rate=", "defaults.time="])?;
    assert_eq!(again(&[])?, "");
    assert_eq!(in_force()?, ["1000", "3600.0", "null", "easy"]);
    Ok(())
}

#[test]
fn what_was_set_of_the_policy_is_what_a_reload_undoes() -> Tested {
    let place = Place::new()?;
    let file = place.join("eddy.toml");
    fs::write(&file, "[policy]\npreset = \"fcfs\"\n")?;
    let state = place.path().join("state");
    let instance = Instance::start_in(place, state, &["--cores=1", "--config", &file])?;
    instance.ok(&["config", "set", "policy.preset=easy"])?;
    fs::write(&file, "[policy]\npreset = \"conservative\"\n")?;
    let told = lines(&instance, &["reload"])?;
    let preset = "policy.preset: \"easy\" -> \"conservative\"".to_owned();
    assert!(told.contains(&preset), "{told:?}");
    instance.shut_down()
}

#[test]
fn a_home_that_is_set_leaves_who_waits_for_its_nodes_waiting() -> Tested {
    let place = Place::new()?;
    let file = place.join("eddy.toml");
    let text =
        "[exec.test]\nrun_duration = \"3000s\"\n[[instance]]\nname = \"own\"\nelastic = \"all\"\n";
    fs::write(&file, text)?;
    let state = place.path().join("state");
    let fake = ["--fake", "nodes=4,cores=1", "--config", &file];
    let instance = Instance::start_in(place, state, &fake)?;
    let all = instance.submit(&["-N4", "-t9h", "true"])?;
    instance.event(&all, "start")?;
    let wide = instance.submit(&["-N3", "-t9h", "true"])?;
    let keys = ["instance.own.home=1-2", "instance.own.lend_max=1m"];
    let concerned = format!(
        "eddy config set: warning: jobs that wait would fit no more, and wait until that is otherwise: {wide}\n"
    );
    let tried = instance.run(&[&["config", "set", "--dry-run"][..], &keys].concat())?;
    assert_eq!((tried.code, tried.err), (0, concerned.clone()));
    let set = instance.run(&[&["config", "set"][..], &keys].concat())?;
    assert_eq!((set.code, set.err), (0, concerned));
    instance.ok(&["cancel", &all])?;
    instance.event(&all, "clean")?;
    let row = instance.row(&wide)?;
    assert_eq!(row["state"], "SCHED", "{row}");
    let why = row["reason"].as_str().unwrap_or_default();
    assert!(
        why.starts_with("does not fit beside the home of instance `own` (ranks 1-2)"),
        "{why}"
    );
    leader_of(instance.state())?.kill()?;
    instance.start_again()?;
    assert_eq!(instance.row(&wide)?["state"], "SCHED");
    assert_eq!(
        lines(&instance, &["set", "instance.own.home=2"])?,
        ["instance.own.home: \"1-2\" -> 2"]
    );
    instance.event(&wide, "start")?;
    instance.shut_down()
}

#[test]
fn an_instance_without_a_file_says_so() -> Tested {
    let instance = Instance::start(&["--fake", "nodes=1,cores=1"])?;
    assert_eq!(
        refused(&instance, &["reload"])?,
        [
            "eddy config reload: there is no configuration file: the instance was started without one"
        ]
    );
    let set = lines(&instance, &["set", "limits.clients=100"])?;
    assert_eq!(set, ["limits.clients: unset -> 100"]);
    Ok(())
}

#[test]
fn a_pool_that_a_start_has_no_more_is_named_and_holds_up_nobody() -> Tested {
    let place = Place::new()?;
    let file = place.join("eddy.toml");
    let policy = "[policy]\npreset = \"fcfs\"\n";
    let with_pool = format!("{policy}[[pool]]\nname = \"lic\"\ncount = 2\n");
    fs::write(&file, &with_pool)?;
    let state = place.path().join("state");
    let options = ["--cores=1", "--config", &file];
    let instance = Instance::start_in(place, state, &options)?;
    let first = instance.submit_started(&["sleep", "1000"])?;
    let takes = instance.submit(&["--pool", "lic=2", "true"])?;
    let behind = instance.submit(&["true"])?;
    instance.ok(&["shutdown"])?;
    fs::write(&file, policy)?;
    let started = Running::start(instance.starting())?.wait()?;
    let line = format!(
        "pool `lic`: there are 0, and jobs that wait for more never start as things are: {takes}"
    );
    assert!(
        started.code == 0 && started.err.contains(&line),
        "{}",
        started.err
    );
    assert_eq!(
        (instance.code(&first)? != 0, instance.code(&behind)?),
        (true, 0)
    );
    let why = instance.ok(&["why", &takes])?;
    let reason = "  reason: asks for 2 of pool `lic`; the instance has none of it, so that it never starts as things are";
    assert!(why.contains(reason), "{why}");
    fs::write(&file, with_pool)?;
    instance.ok(&["config", "reload"])?;
    assert_eq!(instance.code(&takes)?, 0);
    instance.shut_down()
}

#[test]
fn changes_of_the_configuration_at_the_same_time_are_all_made() -> Tested {
    let instance = start()?;
    let set =
        |clients: u32| instance.begin(&["config", "set", &format!("limits.clients={clients}")]);
    let asked: Vec<Running> = (100..108).map(set).collect::<anyhow::Result<_>>()?;
    for asked in asked {
        asked.wait()?.ok()?;
    }
    instance.shut_down()
}

#[test]
fn accounts_and_nodes_that_are_not_there_are_refused_where_they_are_set() -> Tested {
    let place = Place::new()?;
    let file = place.join("eddy.toml");
    let shared = "[[instance]]\nname = \"own\"\nelastic = \"all\"\nhome = \"1\"\n";
    let queue = "[[queue]]\nname = \"own\"\ninstance = \"own\"\naccounts = [\"later\"]\n";
    fs::write(&file, format!("{shared}{queue}"))?;
    let state = place.path().join("state");
    let fake = ["--fake", "nodes=2,cores=2", "--config", &file];
    let instance = Instance::start_in(place, state, &fake)?;
    assert_eq!(
        refused(
            &instance,
            &[
                "set",
                "queue.own.accounts=[\"gone\",\"later\"]",
                "queue.own.default_account=no"
            ]
        )?,
        [
            "eddy config set: queue.own.accounts: there is no account `gone`; there are no accounts",
            "eddy config set: queue.own.default_account: there is no account `no`; there are no accounts",
        ]
    );
    assert_eq!(
        refused(
            &instance,
            &["set", "instance.own.home={ hosts = \"fake7\" }"]
        )?,
        ["eddy config set: instance `own`: asks for host `fake7`, which is not in the inventory"]
    );
    instance.ok(&["account", "add", "gone"])?;
    instance.ok(&["config", "set", "queue.own.accounts=[\"gone\"]"])?;
    // A file may come before the accounts that it names.
    let reload = instance.run(&["config", "reload"])?;
    assert_eq!(reload.code, 0, "{}", reload.err);
    let warned = "queue.own.accounts: there is no account `later`; there are gone";
    assert!(
        format!("{}{}", reload.out, reload.err).contains(warned),
        "{}{}",
        reload.out,
        reload.err
    );
    Ok(())
}
