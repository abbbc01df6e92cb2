//! Texts of jobspecs that are damaged in the journal: a start says which and what to do, one that recovers goes on
//! without them, and of no job is the end lost or made up.

use std::fs;
use std::path::Path;

use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::place::Place;
use eddy_cli_tests::running::{Ran, Running};

type Tested = anyhow::Result<()>;

/// Changes the journal of an instance that nobody leads.
fn edit(state: &Path, sql: &str) -> Tested {
    let journal = rusqlite::Connection::open(state.join("journal.db"))?;
    let changed = journal.execute(sql, [])?;
    anyhow::ensure!(changed > 0, "nothing is to be changed by {sql}");
    Ok(())
}

/// Makes other texts of those that have this one in them.
fn damage(instance: &Instance, text: &str) -> Tested {
    let sql = format!(
        "UPDATE blob SET bytes = CAST(replace(CAST(bytes AS TEXT), '{text}', '?') AS BLOB)
         WHERE instr(CAST(bytes AS TEXT), '{text}')"
    );
    edit(instance.state(), &sql)
}

fn recovered(instance: &Instance) -> anyhow::Result<Ran> {
    let mut recovering = instance.starting();
    recovering.arg("--recover");
    let ran = Running::start(recovering)?.wait()?;
    anyhow::ensure!(ran.code == 0, "{}", ran.err);
    Ok(ran)
}

fn refused(instance: &Instance) -> Tested {
    let ran = Running::start(instance.starting())?.wait()?;
    let line = ran.refusal()?;
    let said = [
        "journal.db: a text of the jobspec of job ",
        "`eddy start --recover`",
    ];
    let says = |part: &str| line.contains(part);
    anyhow::ensure!(said.into_iter().all(says), "{line}");
    Ok(())
}

#[test]
fn a_damaged_jobspec_costs_the_job_that_waits_for_it_and_no_other() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let mut gate = instance.place.fifo("gate")?;
    let runs = instance.submit_started(&["sh", "-c", "read line <gate; exit 9"])?;
    // Its row may not be written when the leader dies.
    let over = instance.submit(&["sh", "-c", "exit 3"])?;
    assert_eq!(instance.code(&over)?, 3);
    let waits = instance.submit(&["-n2", "sh", "-c", "exit 7"])?;
    let held = instance.submit(&["--urgency=hold", "sh", "-c", "exit 6"])?;
    let depends = format!("--dependency=afterany:{runs}");
    let depends = instance.submit(&[&depends, "sh", "-c", "exit 5"])?;
    instance.kill_leader()?;
    damage(&instance, "exit ")?;
    refused(&instance)?;
    let ran = recovered(&instance)?;
    let said = ran.err.lines().next().unwrap_or_default();
    let wanted = format!(
        "eddy start: the texts of the jobspecs of 5 jobs are damaged and lost: 1 over and listed as they are \
         recorded ({over}); 3 waiting, which are ended as `jobspec-lost` ({waits}, {held}, {depends}); \
         1 running, which go on and have no time limit but one that was changed ({runs})"
    );
    assert_eq!(said, wanted);
    for ended in [&waits, &held, &depends] {
        let row = instance.row(ended)?;
        assert_eq!(row["result"], "FAILED", "{row}");
        let log = instance.ok(&["job", "eventlog", ended])?;
        let says = log.contains("jobspec-lost") && log.contains("is lost");
        assert!(says, "{log}");
    }
    let row = instance.row(&over)?;
    assert_eq!(
        (&row["result"], &row["returncode"]),
        (&"FAILED".into(), &3.into())
    );
    // It is as before for who leads next, without a word.
    instance.kill_leader()?;
    instance.start_again()?;
    assert_eq!(instance.row(&runs)?["state"], "RUN");
    gate.let_go(1)?;
    assert_eq!(instance.code(&runs)?, 9);
    // Who submits the same again puts the text back.
    let again = instance.submit(&["sh", "-c", "exit 3"])?;
    assert_eq!(instance.code(&again)?, 3);
    instance.kill_leader()?;
    instance.start_again()?;
    assert_eq!(instance.row(&again)?["returncode"], 3);
    let spec = instance.ok(&["job", "info", &again, "jobspec"])?;
    assert!(spec.contains("exit 3"), "{spec}");
    instance.shut_down()
}

/// What a row is found by is no more than what its job's records say, too.
#[test]
fn a_row_is_listed_as_before_whose_user_name_or_times_are_damaged() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let submit = [
        "submit",
        "--quiet",
        "--wait",
        "--job-name=one",
        "--cc=1-9",
        "true",
    ];
    instance.ok(&submit)?;
    instance
        .ok(&["submit", "--quiet", "--wait", "--job-name=other", "false"])
        .ok();
    let lists = [
        &["jobs", "-a", "--json"][..],
        &["jobs", "-a", "--json", "--name=one"],
        &["jobs", "--json", "--filter=failed"],
        &["jobs", "-a", "-A", "--json"],
        &["jobs", "-a", "--json", "--count=5"],
    ];
    let listed = || -> anyhow::Result<Vec<String>> {
        lists.iter().map(|words| instance.ok(words)).collect()
    };
    let before = listed()?;
    instance.shut_down()?;
    for (id, column, value) in [
        (1, "user", "'x'"),
        (2, "name", "x'ff'"),
        (3, "t_submit", "'x'"),
        (4, "result", "7"),
        (5, "key", "1"),
        (6, "user", "-1"),
        (10, "t_inactive", "'x'"),
    ] {
        edit(
            instance.state(),
            &format!("UPDATE job SET {column} = {value} WHERE id = {id}"),
        )?;
    }
    instance.start_again()?;
    assert_eq!(listed()?, before);
    instance.shut_down()
}

#[test]
fn a_job_in_a_queue_instance_goes_on_whose_jobspec_is_damaged_at_the_root() -> Tested {
    let place = Place::new()?;
    let state = place.path().join("state");
    fs::create_dir_all(&state)?;
    let config =
        "[[instance]]\nname = \"a\"\nnodes = 1\n[[queue]]\nname = \"a\"\ninstance = \"a\"\n";
    fs::write(state.join("config.toml"), config)?;
    let instance = Instance::start_in(place, state, &["--cores=2"])?;
    let mut gate = instance.place.fifo("gate")?;
    let runs = instance.submit_started(&["-q", "a", "sh", "-c", "read line <gate; exit 9"])?;
    leader_of(instance.state())?.kill()?;
    // That of the instance, too.
    edit(instance.state(), "UPDATE blob SET bytes = x'00'")?;
    refused(&instance)?;
    let ran = recovered(&instance)?;
    let said = ran.err.lines().next().unwrap_or_default();
    assert!(said.contains("2 running, which go on"), "{said}");
    gate.let_go(1)?;
    assert_eq!(instance.code(&runs)?, 9);
    assert_eq!(instance.row(&runs)?["attempt"], 1);
    assert_eq!(instance.ok(&["run", "-q", "a", "echo", "fine"])?, "fine");
    instance.shut_down()
}
