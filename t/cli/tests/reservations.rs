//! Nodes that are reserved by the command line: for whom, and where jobs still run.

use eddy_cli_tests::instance::Instance;
use serde_json::json;

type Tested = anyhow::Result<()>;

/// Two nodes of a core that are pretended, with tasks that last longer than any test.
const FAKE: [&str; 4] = [
    "--fake",
    "nodes=2,cores=1",
    "-S",
    "exec.test.run_duration=3000s",
];

#[test]
fn a_reservation_for_accounts_is_for_their_jobs_and_those_of_accounts_under_them() -> Tested {
    let instance = Instance::start(&FAKE)?;
    let uid = rustix::process::getuid().as_raw().to_string();
    for (account, parent) in [
        ("science", None),
        ("physics", Some("science")),
        ("arts", None),
    ] {
        let parent = parent.map_or(vec![], |parent| vec!["--parent", parent]);
        instance.ok(&[&["account", "add", account], &parent[..]].concat())?;
        instance.ok(&["account", "add-user", &uid, "-A", account])?;
    }
    let create = ["reservation", "create", "lab", "--duration=1h", "--nodes=0"];
    let unknown = instance.run(&[&create[..], &["--accounts=science,music"]].concat())?;
    assert!(
        unknown
            .refusal()?
            .contains("accounts: there is no account `music`"),
        "{}",
        unknown.err
    );
    instance.ok(&[&create[..], &["--accounts", "science"]].concat())?;
    let listed = instance.json(&["reservation", "list", "--json"])?;
    assert_eq!(listed[0]["accounts"][0], "science", "{listed}");
    let of = |account: &'static str| ["-t10m", "-A", account, "--reservation=lab", "true"];
    let arts = instance.run(&[&["submit"], &of("arts")[..]].concat())?;
    assert!(arts.refusal()?.contains("reservation: "), "{}", arts.err);
    // Beside it is one node for all others.
    let beside = instance.submit_started(&["-t10m", "-A", "physics", "true"])?;
    assert_eq!(instance.row(&beside)?["nodelist"], "fake1");
    let waits = instance.submit(&["-t10m", "-A", "arts", "true"])?;
    let under = instance.submit_started(&of("physics"))?;
    assert_eq!(instance.row(&under)?["nodelist"], "fake0");
    assert_eq!(instance.row(&waits)?["state"], "SCHED");
    // All that are named or none.
    let mixed = instance.run(&["reservation", "delete", "lab", "gone"])?;
    assert!(
        mixed.refusal()?.contains("`gone` given, there are lab"),
        "{}",
        mixed.err
    );
    instance.ok(&["reservation", "delete", "lab", "lab"])?;
    assert_eq!(
        instance.json(&["reservation", "list", "--json"])?,
        json!([])
    );
    Ok(())
}

#[test]
fn nodes_on_which_jobs_still_run_are_reserved_if_those_are_to_be_ignored() -> Tested {
    let instance = Instance::start(&FAKE)?;
    let user = rustix::process::getuid().as_raw().to_string();
    let runs = instance.submit_started(&["-t10m", "true"])?;
    assert_eq!(instance.row(&runs)?["nodelist"], "fake0");
    let create = [
        "reservation",
        "create",
        "soon",
        "--duration=1h",
        "--users",
        &user,
    ];
    for nodes in ["--nodes=0", "--count=2"] {
        let refused = instance.run(&[&create[..], &[nodes]].concat())?;
        refused.refusal()?;
    }
    let named = instance.run(&[&create[..], &["--nodes=0"]].concat())?;
    let text = format!("start: jobs {runs} would still run on ranks 0 then");
    assert!(named.refusal()?.contains(&text), "{}", named.err);
    let made = instance.ok(&[&create[..], &["--count=2", "--ignore-running"]].concat())?;
    assert!(made.starts_with("soon: ranks 0-1 from "), "{made}");
    assert_eq!(instance.row(&runs)?["state"], "RUN", "it goes on");
    let waits = instance.submit(&["-t10m", "true"])?;
    let in_it = instance.submit_started(&["-t10m", "--reservation=soon", "true"])?;
    assert_eq!(instance.row(&in_it)?["nodelist"], "fake1", "the free one");
    assert_eq!(instance.row(&waits)?["state"], "SCHED");
    Ok(())
}

#[test]
fn a_reservation_lists_the_nodes_that_are_there() -> Tested {
    let instance = Instance::start(&["--size=2", "--cores=1"])?;
    let create = [
        "reservation",
        "create",
        "lab",
        "--duration=1h",
        "--nodes=0-1",
    ];
    instance.ok(&[&create[..], &["--maintenance"]].concat())?;
    instance.ok(&["resource", "remove", "1"])?;
    let listed = instance.json(&["reservation", "list", "--json"])?;
    assert_eq!(listed[0]["ranks"], "0", "{listed}");
    Ok(())
}

#[test]
fn who_deletes_a_reservation_is_told_whom_that_ends() -> Tested {
    let instance = Instance::start(&FAKE)?;
    let user = rustix::process::getuid().as_raw().to_string();
    let create = [
        "reservation",
        "create",
        "--users",
        &user,
        "--nodes=0",
        "--start=+1h",
    ];
    let refused = instance.run(&[&create[..], &["lab", "--duration=11s"]].concat())?;
    let said = "eddy reservation create: duration: 11 s given, allowed is more than 11 s, or maintenance: so long before its end \
                its jobs begin to end";
    assert_eq!(refused.refusal()?, said);
    instance.ok(&[&create[..], &["lab", "--duration=1h"]].concat())?;
    let waits = instance.submit(&["-t10m", "--reservation=lab", "true"])?;
    let told = instance.ok(&["reservation", "delete", "lab"])?;
    assert_eq!(
        told,
        format!("lab: 1 job that waits for it is ended: {waits}")
    );
    assert_ne!(instance.code(&waits)?, 0);
    Ok(())
}
