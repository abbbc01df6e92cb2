//! What `eddy why` tells of jobs that did not end well.

use eddy_cli_tests::instance::Instance;

type Tested = anyhow::Result<()>;

#[test]
fn who_did_not_end_well_is_told_how_where_and_by_whom_and_where_its_output_is() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let coded = instance.submit(&["--output=out.{{id}}", "sh", "-c", "exit 3"])?;
    let struck = instance.submit(&["sh", "-c", "kill -SEGV $$"])?;
    let late = instance.submit(&["-t", "1s", "sleep", "1000"])?;
    for job in [&coded, &struck, &late] {
        instance.event(job, "clean")?;
    }
    let cancelled = instance.submit_started(&["sleep", "1000"])?;
    instance.ok(&["cancel", "-m", "not needed", &cancelled])?;
    instance.event(&cancelled, "clean")?;
    let host = instance.row(&coded)?["nodelist"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let told = |job: &str| -> anyhow::Result<Vec<String>> {
        let text = instance.ok(&["why", job])?;
        Ok(text.lines().map(str::to_owned).collect())
    };
    let begins = |line: &str, how: &str| {
        let begins = format!("  ended:  {how} on {host} at 2");
        assert!(
            line.starts_with(&begins) && line.ends_with(" after it began)"),
            "{line}"
        );
    };
    let lines = told(&coded)?;
    begins(&lines[1], "as its task ended with exit code 3");
    assert!(
        lines[2].starts_with("  output: /")
            && lines[2].contains("/out.")
            && !lines[2].contains("{{"),
        "{lines:?}"
    );
    let lines = told(&struck)?;
    begins(&lines[1], "as its task was ended by signal 11 (SEGV)");
    assert_eq!(lines[2..], [format!("  output: eddy job attach {struck}")]);
    let lines = told(&late)?;
    assert!(lines[1].starts_with("  reason: timeout"), "{lines:?}");
    begins(&lines[2], "at its time limit of 1s");
    let lines = told(&cancelled)?;
    assert_eq!(lines[1], "  reason: cancel: not needed");
    begins(&lines[2], "cancelled by user root");
    let data = instance.json(&["why", "--json", &cancelled])?;
    assert_eq!(data[0]["ended"]["by"], 0);
    // Of what ended well there is nothing to tell.
    let well = instance.submit(&["true"])?;
    instance.event(&well, "clean")?;
    assert_eq!(told(&well)?.len(), 1);
    instance.shut_down()
}

#[test]
fn of_many_jobs_it_is_told_how_each_ended() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let ran = instance.run(&["submit", "--wait", "--cc=1-40", "sh", "-c", "exit 3"])?;
    assert_eq!(ran.code, 3, "{}", ran.err);
    let ids: Vec<&str> = ran.out.lines().collect();
    let range = format!("{}-{}", ids[0], ids[39]);
    let text = instance.ok(&["why", &range])?;
    let how = "  ended:  as its task ended with exit code 3 ";
    let told = text.lines().filter(|line| line.starts_with(how));
    assert_eq!(told.count(), 40, "{text}");
    let data = instance.json(&["why", "--json", &range])?;
    let codes = data.as_array().into_iter().flatten();
    let codes: Vec<_> = codes.map(|one| &one["ended"]["returncode"]).collect();
    assert_eq!(codes, [3; 40]);
    instance.shut_down()
}
