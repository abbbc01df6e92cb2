//! Gangs with real processes: together or not at all, over killed leaders too.

use eddy_cli_tests::instance::Instance;

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
            "attributes.system.gang.size: 0 given, allowed are 1 to 1024",
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
