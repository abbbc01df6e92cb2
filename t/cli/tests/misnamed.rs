//! What is named and is nowhere: a mistyped name is an error and no empty listing.

use std::fs;

use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use eddy_cli_tests::users::can_make_users;

type Tested = anyhow::Result<()>;

fn refused(instance: &Instance, arguments: &[&str]) -> anyhow::Result<String> {
    let ran = instance.run(arguments)?;
    // Of one that waits 1 is the end of a job.
    let code = match arguments.first() {
        Some(&"wait") => 125,
        _ => 1,
    };
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (code, ""),
        "{arguments:?}: {}",
        ran.err
    );
    Ok(ran.refusal()?.to_owned())
}

#[test]
fn a_set_that_no_job_is_of_is_an_error_and_one_whose_jobs_are_over_is_not() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let job = instance.submit(&["--job-set=night", "true"])?;
    assert_eq!(instance.code(&job)?, 0);
    for verb in ["wait", "jobs", "usage"] {
        let line = refused(&instance, &[verb, "--job-set=nigth"])?;
        assert_eq!(
            line,
            format!("eddy {verb}: --job-set: `nigth` given, there are no jobs of that set")
        );
        instance.ok(&[verb, "--job-set=night"])?;
    }
    assert_eq!(
        refused(&instance, &["cancel", "--dry-run", "--job-set=nigth"])?,
        "eddy cancel: --job-set: `nigth` given, there are no jobs of that set"
    );
    assert_eq!(
        instance.ok(&["cancel", "--dry-run", "--job-set=night"])?,
        ""
    );
    for verb in ["cancel", "hold", "release", "suspend", "resume"] {
        assert_eq!(
            refused(&instance, &[verb, "--job-set=nigth"])?,
            format!("eddy {verb}: --job-set: `nigth` given, there are no jobs of that set")
        );
        instance.ok(&[verb, "--job-set=night"])?;
    }
    for verb in [
        "cancel", "hold", "release", "suspend", "resume", "usage", "wait", "jobs",
    ] {
        let ran = instance.run(&[verb, "--job-set="])?;
        let text = "invalid value '' for '--job-set <NAME>': allowed is a word of 1 to 255 bytes";
        assert!(
            ran.code != 0 && ran.err.contains(text),
            "{verb}: {}",
            ran.err
        );
    }
    refused(&instance, &["jobs", "-R", "--job-set=nigth"])?;
    instance.ok(&["jobs", "-R", "--job-set=night"])?;
    Ok(())
}

#[test]
fn who_waits_for_a_set_hears_of_jobs_that_had_failed_before() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let job = instance.submit(&["--job-set=night", "sh", "-c", "exit 3"])?;
    assert_eq!(instance.code(&job)?, 3);
    instance.submit(&["--job-set=night", "true"])?;
    let ran = instance.run(&["wait", "--job-set=night"])?;
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert_eq!(ran.refusal()?, format!("eddy wait: job {job}: exit code 3"));
    Ok(())
}

#[test]
fn a_qos_or_an_account_that_is_nowhere_is_refused_where_it_is_named() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    assert_eq!(
        refused(&instance, &["account", "add", "physics", "--qos", "fast"])?,
        "eddy account add: --qos: `fast` given, there are expedite, normal, standby"
    );
    let made = [
        "reservation",
        "create",
        "disks",
        "--start=+1h",
        "--duration=1h",
        "--nodes=0",
    ];
    assert_eq!(
        refused(&instance, &[&made[..], &["--accounts=physics"]].concat())?,
        "eddy reservation create: accounts: there is no account `physics`; there are none"
    );
    instance.ok(&["account", "add", "physics"])?;
    let none = ["account", "edit", "physics", "--default-qos", "fast"];
    assert_eq!(
        refused(&instance, &none)?,
        "eddy account edit: --default-qos: `fast` given, there are expedite, normal, standby"
    );
    instance.ok(&[&made[..], &["--accounts=physics"]].concat())?;
    Ok(())
}

#[test]
fn a_queue_or_account_that_is_nowhere_is_an_error_until_a_job_has_it() -> Tested {
    let plain = Instance::start(&["--cores=2"])?;
    assert_eq!(
        refused(&plain, &["jobs", "-q", "debug"])?,
        "eddy jobs: --queue: `debug` given, this instance has no named queues"
    );
    let place = Place::new()?;
    let file = place.path().join("eddy.toml");
    fs::write(
        &file,
        "[[queue]]\nname = \"debug\"\n[[queue]]\nname = \"night\"\n",
    )?;
    let (file, state) = (file.display().to_string(), place.path().join("state"));
    let instance = Instance::start_in(place, state, &["--config", &file, "--cores=2"])?;
    let job = instance.submit(&["-q", "debug", "-A", "gone", "true"])?;
    assert_eq!(instance.code(&job)?, 0);
    assert_eq!(
        refused(&instance, &["jobs", "-a", "-q", "nihgt"])?,
        "eddy jobs: --queue: `nihgt` given, there are debug, night"
    );
    instance.ok(&["account", "add", "physics"])?;
    assert_eq!(
        refused(&instance, &["jobs", "--account", "phsyics"])?,
        "eddy jobs: --account: there is no account `phsyics`; there are physics"
    );
    assert_eq!(
        refused(&instance, &["shares", "--account", "phsyics"])?,
        "eddy shares: --account: there is no account `phsyics`; there are physics"
    );
    for known in [
        ["-q", "night"],
        ["--account", "physics"],
        ["--account", "gone"],
    ] {
        assert_eq!(instance.ok(&["jobs", "-n", known[0], known[1]])?, "");
    }
    // A queue that was taken out of the configuration has jobs that are over.
    fs::write(
        instance.place.path().join("eddy.toml"),
        "[[queue]]\nname = \"night\"\n",
    )?;
    instance.ok(&["config", "reload"])?;
    let listed = instance.ok(&["jobs", "-a", "-n", "-q", "debug"])?;
    assert_eq!(listed.lines().count(), 1, "{listed}");
    instance.ok(&["jobs", "-q", "debug"])?;
    Ok(())
}

#[test]
fn an_argument_that_names_no_job_is_refused_and_is_not_all_of_them() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let job = instance.submit_started(&["sleep", "60"])?;
    let verbs: [&[&str]; 15] = [
        &["job", "raise"],
        &["job", "requeue"],
        &["job", "kill"],
        &["job", "status"],
        &["job", "wait"],
        &["cancel"],
        &["cancel", "-S", "active"],
        &["hold"],
        &["release"],
        &["suspend"],
        &["order"],
        &["why"],
        &["jobs"],
        &["usage"],
        &["priority"],
    ];
    for verb in verbs {
        for text in ["", " ", ",", "/", "f6/"] {
            let line = refused(&instance, &[verb, &[text]].concat())?;
            assert!(
                line.contains(": no jobs given: `"),
                "{verb:?} `{text}`: {line}"
            );
        }
    }
    refused(&instance, &["job", "urgency", "", "5"])?;
    refused(&instance, &["cancel", &job, ""])?;
    let row = instance.json(&["jobs", "--json", &job])?;
    assert_eq!(
        (&row[0]["state"], &row[0]["attempt"]),
        (&"RUN".into(), &1.into())
    );
    instance.ok(&["cancel", "--all"])?;
    assert_ne!(instance.code(&job)?, 0);
    Ok(())
}

#[test]
fn a_check_of_the_configuration_names_all_whom_the_host_does_not_know() -> Tested {
    let place = Place::new()?;
    let file = place.join("site.toml");
    fs::write(
        &file,
        "[access]\nusers = [\"root\", \"eddy-x\", \"eddy-y\"]\nadmins = [\"eddy-z\"]\n[foo]\na = 1\n",
    )?;
    let checked = place.run(&["config", "check", &file])?;
    assert_eq!(checked.code, 1);
    let lines: Vec<&str> = checked.err.lines().collect();
    let said = |line: u8, field: &str, user: &str| {
        format!("eddy config check: {file}: line {line}: {field}: no user `{user}`")
    };
    let unknown = [
        (2, "access.users", "eddy-x"),
        (2, "access.users", "eddy-y"),
        (3, "access.admins", "eddy-z"),
    ];
    assert_eq!(lines.len(), 4, "{}", checked.err);
    for (line, (at, field, user)) in lines.iter().zip(unknown) {
        assert!(line.starts_with(&said(at, field, user)), "{line}");
    }
    // What else is wrong is told beside.
    let last = format!("eddy config check: {file}: line 4: foo: unknown key; there are journal, ");
    assert!(lines[3].starts_with(&last), "{}", lines[3]);
    Ok(())
}

#[test]
fn names_that_nobody_has_are_refused_by_field() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let place = Place::new()?;
    let state = place.join("state");
    for (key, why) in [
        (
            "access.users=[\"eddy-nobody\"]",
            "access.users: no user `eddy-nobody`",
        ),
        (
            "access.admins=[\"eddy-nobody\"]",
            "access.admins: no user `eddy-nobody`",
        ),
        (
            "access.users=some",
            "access.users: is \"some\"; allowed is \"all\" or a list",
        ),
        (
            "access.private=1",
            "access.private: is 1; allowed is true or false",
        ),
    ] {
        let start = ["start", "--background", "--statedir", &state, "-S", key];
        let refused = place.run(&start)?;
        let line = refused.refusal()?;
        assert!(line.contains(why), "{line}");
    }
    Ok(())
}
