//! What programs need that drive an instance: all events from one process, many submissions by one, rows and exit
//! codes that tell what became of each job.

use eddy_cli_tests::instance::Instance;

type Tested = anyhow::Result<()>;

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
