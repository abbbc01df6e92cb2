//! What of a dump becomes what of a tree.

use super::*;

const DUMP: &str = "\
# To edit this file start with a cluster line for the new cluster
Cluster - 'tux':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'science':Description='a: b':Organization='org':Fairshare=30:GrpTRES=cpu=64,node=4:MaxWall=1-00:00:00
Parent - 'science'
Account - 'physics':Description='physics':Organization='org':Fairshare=parent:QOS='normal,high':DefaultQOS='normal'
Parent - 'physics'
User - '1001':DefaultAccount='physics':Fairshare=10:MaxJobs=3:MaxSubmitJobs=20:MaxTRESPerJob=cpu=16,gres/gpu=2,mem=9,node=2:MaxWallDurationPerJob=90
User - 'nobody-here':Fairshare=2147483647
";

#[test]
fn a_dump_becomes_accounts_and_what_is_left_out_is_said() {
    let mut found = Found::default();
    read(DUMP, &Users::read(), &mut found);
    assert_eq!(found.errors, Vec::<String>::new());
    let lines: Vec<String> = found
        .changes
        .iter()
        .map(|change| serde_json::to_string(change).expect("JSON"))
        .collect();
    assert_eq!(
        lines,
        [
            r#"{"account":{"name":"science","value":{"shares":30,"description":"a: b","limits":{"nodes":4,"cores":64,"job_time":86400}}}}"#,
            r#"{"account":{"name":"physics","value":{"parent":"science","shares":"parent","description":"physics","qos":{"allowed":["high","normal"],"default":"normal"}}}}"#,
            r#"{"member":{"account":"physics","user":1001,"value":{"shares":10,"limits":{"running_jobs":3,"submitted_jobs":20,"job_nodes":2,"job_cores":16,"job_gpus":2,"job_memory":9437184,"job_time":5400}}}}"#,
            r#"{"user":{"user":1001,"value":{"account":"physics"}}}"#,
        ]
    );
    assert_eq!(found.unknown, ["nobody-here"]);
    assert_eq!(
        found.notes,
        [
            "line 2: of cluster tux is left out: QOS",
            "line 4: user root directly under the root is left out",
        ]
    );
}

/// An apostrophe in a value hid all that came after it.
#[test]
fn a_quote_ends_where_its_value_does() {
    let read = |text: &str| pieces(text).map_err(|error| error.to_string());
    let lab = "'a':Description='Bob's lab':Organization=\"o'x:y\":Note=Bob's:Empty='':Fairshare=30";
    let of = |key: &str, value: &str| (key.to_owned(), Some(value.to_owned()));
    let wanted = [
        ("a".to_owned(), None),
        of("Description", "Bob's lab"),
        of("Organization", "o'x:y"),
        of("Note", "Bob's"),
        of("Empty", ""),
        of("Fairshare", "30"),
    ];
    assert_eq!(read(lab).expect("a line"), wanted);
    assert_eq!(
        read("'a':Description='Bob:Fairshare=30").expect_err("it does not end"),
        "a ' is not followed by another before a colon or the end of the line"
    );
}

#[test]
fn nothing_of_a_list_is_dropped_in_silence() {
    let text = "\
Cluster - 'tux':Fairshare=1:QOS='normal,high'
Parent - 'root'
Account - 'a':Fairshare=1:GrpTRES=cpu=8,gres/gpu=4,mem=5,node=-1,billing=3
Account - 'b':Fairshare=1:QOS='+low'
Account - 'c':Fairshare=1:QOS='-low,+high':DefaultQOS='high'
Account - 'd':Fairshare=1:QOS='=low,high'
Parent - 'a'
User - '1001':Fairshare=1:QOS='-normal':GrpTRES=gres/gpu=1
";
    let mut found = Found::default();
    read(text, &Users::read(), &mut found);
    assert_eq!(found.errors, Vec::<String>::new());
    let json = |change| serde_json::to_string(change).expect("JSON");
    let lines: Vec<String> = found.changes.iter().map(json).collect();
    assert_eq!(
        lines,
        [
            r#"{"account":{"name":"a","value":{"shares":1,"limits":{"cores":8,"gpus":4,"memory":5242880}}}}"#,
            r#"{"account":{"name":"b","value":{"shares":1,"qos":{"allowed":["high","low","normal"]}}}}"#,
            r#"{"account":{"name":"c","value":{"shares":1,"qos":{"allowed":["high","normal"],"default":"high"}}}}"#,
            r#"{"account":{"name":"d","value":{"shares":1,"qos":{"allowed":["high","low"]}}}}"#,
            r#"{"member":{"account":"a","user":1001,"value":{"shares":1,"qos":{"allowed":["high"]},"limits":{"gpus":1}}}}"#,
        ]
    );
    assert_eq!(
        found.notes,
        [
            "line 1: of cluster tux is left out: QOS",
            "line 3: of account a is left out: GrpTRES=billing=3",
        ]
    );
}

#[test]
fn a_list_that_changes_one_that_is_not_known_is_left_out() {
    let mut found = Found::default();
    let text = "Cluster - 'tux':Fairshare=1\nParent - 'root'\nAccount - 'b':QOS='+low'";
    read(text, &Users::read(), &mut found);
    assert_eq!(
        found.notes,
        ["line 3: of account b is left out: QOS=+low, which changes the list of its parent"]
    );
}

/// They are of each user there, who says otherwise or nothing.
#[test]
fn jobs_of_each_user_of_an_account_are_handed_down_to_its_users() {
    let text = "\
Cluster - 'tux':Fairshare=1:MaxSubmitJobs=100
Parent - 'root'
Account - 'a':Fairshare=1:MaxJobs=8
Parent - 'a'
Account - 'b':Fairshare=1:MaxSubmitJobs=30
User - '1001':Fairshare=1
Parent - 'b'
User - '1001':Fairshare=1:MaxJobs=2
User - '1002':Fairshare=1:MaxJobs=-1
";
    let mut found = Found::default();
    read(text, &Users::read(), &mut found);
    assert_eq!(found.errors, Vec::<String>::new());
    assert_eq!(found.notes, Vec::<String>::new());
    let json = |change| serde_json::to_string(change).expect("JSON");
    let lines: Vec<String> = found.changes.iter().map(json).collect();
    assert_eq!(
        lines,
        [
            r#"{"account":{"name":"a","value":{"shares":1}}}"#,
            r#"{"account":{"name":"b","value":{"parent":"a","shares":1}}}"#,
            r#"{"member":{"account":"a","user":1001,"value":{"shares":1,"limits":{"running_jobs":8,"submitted_jobs":100}}}}"#,
            r#"{"member":{"account":"b","user":1001,"value":{"shares":1,"limits":{"running_jobs":2,"submitted_jobs":30}}}}"#,
            r#"{"member":{"account":"b","user":1002,"value":{"shares":1,"limits":{"submitted_jobs":30}}}}"#,
        ]
    );
}

#[test]
fn a_line_that_is_none_is_named() {
    let refused = |text: &str| {
        let mut found = Found::default();
        read(text, &Users::read(), &mut found);
        found.errors.join("; ")
    };
    assert!(refused("Cluster - 'a'\nBank - 'b'").starts_with("line 2: bank b: `Bank`"));
    assert!(refused("Account - 'a b'").starts_with("line 1: account a b: `a b` is no name"));
    assert!(refused("Account - 'a':Fairshare=many").contains("Fairshare: `many`"));
}
