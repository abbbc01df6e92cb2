//! What programs need that drive an instance: all events from one process, many submissions by one, rows and exit
//! codes that tell what became of each job.

use eddy_cli_tests::instance::Instance;
use serde_json::json;

type Tested = anyhow::Result<()>;

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
