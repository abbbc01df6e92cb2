//! What is set of accounts and users: what of it is shown, and that nothing to set is an error.

use eddy_cli_tests::instance::Instance;

type Tested = anyhow::Result<()>;

#[test]
fn limits_over_all_accounts_are_shown_and_nothing_to_change_is_an_error() -> Tested {
    let instance = Instance::start(&["--fake", "nodes=1,cores=4"])?;
    let uid = "70001";
    instance.ok(&["account", "add", "physics"])?;
    instance.ok(&[
        "account",
        "add-user",
        uid,
        "-A",
        "physics",
        "--max-cores",
        "3",
        "--default",
    ])?;
    instance.ok(&["account", "edit-user", uid, "--max-running-jobs", "7"])?;
    instance.ok(&["account", "edit-user", "70002", "--max-nodes", "1"])?;
    let show = instance.ok(&["account", "show", "physics"])?;
    let line = "  user 70001: shares 1, default, cores=3; over all accounts running_jobs=7";
    assert_eq!(show.lines().last(), Some(line));
    let data = instance.json(&["account", "show", "physics", "--json"])?;
    assert_eq!(data["users"][0]["over_all"]["running_jobs"], 7);
    let users = instance.ok(&["account", "list", "--users", "-n"])?;
    let words: Vec<Vec<&str>> = users
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        words,
        [
            vec!["70001", "physics", "physics", "running_jobs=7"],
            vec!["70002", "-", "-", "nodes=1"]
        ]
    );
    for (words, options) in [
        (
            &["edit", "physics"][..],
            "--shares, --under, --description, --qos",
        ),
        (&["edit-user", uid], "--shares, --default, --qos"),
        (
            &["edit-user", uid, "-A", "physics"],
            "--shares, --default, --qos",
        ),
    ] {
        let refused = instance.run(&[&["account"], words].concat())?;
        let text = format!(
            "eddy account {}: nothing is given that is to change; allowed are {options}",
            words[0]
        );
        assert!(refused.refusal()?.starts_with(&text), "{}", refused.err);
    }
    instance.shut_down()
}

#[test]
fn what_one_job_may_have_is_its_longest_time_and_refuses_more() -> Tested {
    let instance = Instance::start(&["--fake", "nodes=2,cores=4"])?;
    let uid = "0";
    instance.ok(&["account", "add", "physics", "--max-job-time", "2h"])?;
    let wrong = instance.run(&["account", "edit", "physics", "--max-job-time", "0"])?;
    assert!(wrong.refusal()?.contains("--max-job-time"), "{}", wrong.err);
    let member = ["account", "add-user", uid, "-A", "physics", "--default"];
    let limits = ["--max-job-time", "90", "--max-job-nodes", "1"];
    instance.ok(&[&member[..], &limits].concat())?;
    let show = instance.ok(&["account", "show", "physics"])?;
    let words = "job_nodes=1 job_time=1:30:00";
    assert!(show.contains(words), "{show}");

    let open = instance.ok(&["submit", "true"])?;
    let row = instance.row(open.trim())?;
    assert_eq!(row["duration"], 5400.0, "{row}");
    for (asked, text) in [
        (
            &["-t", "91"][..],
            "limit `job_time` of user root in account `physics` is 5400 s: 5460 s asked for",
        ),
        (
            &["-N", "2"],
            "limit `job_nodes` of user root in account `physics` is 1: 2 asked for",
        ),
    ] {
        let refused = instance.run(&[&["submit"], asked, &["true"]].concat())?;
        assert!(refused.refusal()?.contains(text), "{}", refused.err);
    }
    // What is exported says the same again.
    let text = instance.ok(&["account", "export"])?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("accounts.toml");
    std::fs::write(&file, text)?;
    let file = file.to_str().expect("UTF-8");
    assert_eq!(
        instance.ok(&["account", "import", file])?.trim(),
        "0 changes"
    );
    let none = [
        "account",
        "edit-user",
        uid,
        "-A",
        "physics",
        "--max-job-time",
        "none",
    ];
    instance.ok(&none)?;
    instance.ok(&["submit", "-t", "119", "true"])?;
    instance.shut_down()
}

#[test]
fn a_list_of_qos_has_the_default_that_is_inherited() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let above = [
        "account",
        "add",
        "a",
        "--qos=normal,standby",
        "--default-qos=normal",
    ];
    instance.ok(&above)?;
    instance.ok(&["account", "add", "b", "--under=a"])?;
    for option in ["--under", "--parent"] {
        let ran = instance.run(&["account", "add", "c", option, "nope"])?;
        let line =
            format!("eddy account add: {option}: there is no account `nope`; there are a, b");
        assert_eq!(ran.refusal()?, line);
    }
    let refused = instance.run(&["account", "edit", "b", "--qos=standby"])?;
    assert_eq!(
        refused.refusal()?,
        "eddy account edit: --qos: standby given, without `normal`, which is the default of account `a` and so of \
         jobs here; allowed is a list with it, or another default beside it"
    );
    instance.ok(&[
        "account",
        "edit",
        "b",
        "--qos=standby",
        "--default-qos=standby",
    ])?;
    Ok(())
}
