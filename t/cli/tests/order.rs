//! The order in which a user wants his own jobs, with real users.

use anyhow::Context;
use eddy_cli_tests::users::can_make_users;

use crate::users::site;

type Tested = anyhow::Result<()>;

const ANN: usize = 0;
const BOB: usize = 1;

#[test]
fn a_user_puts_his_own_jobs_in_order_and_nobody_else_waits_longer_by_it() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let (site, instance) = site(&["--cores=1", "-S", "policy.preset=flux"])?;
    let holder = instance.submit_started(&["sleep", "1000"])?;
    let submit = |user| site.ok(&instance, user, &["submit", "-t1m", "true"]);
    let [first, second, third] = [submit(ANN)?, submit(ANN)?, submit(ANN)?];
    let others = submit(BOB)?;
    let turns = || -> anyhow::Result<Vec<(String, f64)>> {
        let told = instance.json(&["priority", "--json"])?;
        let jobs = told["jobs"].as_array().context("jobs")?;
        let turn = |job: &serde_json::Value| {
            let (id, value) = (job["f58"].as_str(), job["value"].as_f64());
            Some((id?.to_owned(), value?))
        };
        jobs.iter().map(|job| turn(job).context("a turn")).collect()
    };
    let before = turns()?;

    let order = |jobs: &[&str]| site.run(&instance, ANN, &[&["order"], jobs].concat());
    let refused = order(&[&first, &others])?;
    let line = refused.refusal()?;
    let not_his = format!(
        "job {others} is of user {}; user {}",
        site.users[BOB].name, site.users[ANN].name
    );
    assert!(line.contains(&not_his), "{line}");
    let ids = |turns: &[(String, f64)]| turns.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
    assert_eq!(
        ids(&before),
        ids(&turns()?),
        "of what is refused nothing is done"
    );
    order(&[&third, &first, &second])?.ok()?;

    // None of his is worth more than before, and the other's is worth as much and has its turn.
    let after = turns()?;
    for (job, value) in &after {
        let was = before
            .iter()
            .find(|(id, _)| id == job)
            .context("it waited")?;
        assert!(*value < was.1 + 0.1, "{job}: {before:?} {after:?}");
        assert!(
            *job != others || *value > was.1 - 0.1,
            "{before:?} {after:?}"
        );
    }
    let ahead = after.iter().take_while(|(id, _)| *id != others);
    assert!(ahead.count() <= 1, "they take turns: {after:?}");
    instance.ok(&["cancel", &holder])?;
    let began = |job: &str| -> anyhow::Result<f64> {
        instance.event(job, "clean")?;
        instance.row(job)?["t_run"].as_f64().context("it ran")
    };
    let times = [began(&third)?, began(&first)?, began(&second)?];
    assert!(times.is_sorted(), "{times:?}");
    assert!(began(&others)? < times[1], "{times:?}");
    Ok(())
}
