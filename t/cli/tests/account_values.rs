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
