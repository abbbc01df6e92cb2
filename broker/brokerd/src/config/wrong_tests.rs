//! What is wrong in a configuration, and how it is told.

use super::*;
use crate::users::UserError;

/// What there is at the top.
const TOP: &str = "journal, exec, grant, history, tree, quorum, defaults, limits, access, rank, policy, ingest, \
                   instance, queue, qos, class, pool";

#[test]
fn what_is_unknown_is_told_with_what_is_known_where_it_stands() {
    let text = "queues = 3\n[exec]\ntest.nap = \"5s\"\n[ingest]\nfilters = []\n[rank]\nfanout = 3\n\
                [site]\nname = \"a\"\n[journal.sync.mode]\n";
    assert_eq!(
        lines(text),
        [
            "exec.test.nap: unknown key; in exec.test there is run_duration".to_owned(),
            "ingest.filters: unknown key; in ingest there is filter".to_owned(),
            "journal.sync: is { mode = {} }; allowed is \"full\" or \"normal\"".to_owned(),
            format!("queues: unknown key; there are {TOP}"),
            "rank.fanout: unknown key; there is tree.fanout".to_owned(),
            format!("site: unknown key; there are {TOP}"),
        ]
    );
    assert_eq!(
        lines("journal = 4"),
        ["journal: unknown key; in journal there is sync"]
    );
}

#[test]
fn what_is_right_is_read_beside_what_is_wrong() {
    let text = "[access]\nusers = [\"ann\"]\n[foo]\na = 1\n";
    let (config, errors) = read(text, &[]);
    assert_eq!(
        config.instance.access.users,
        Users::Named(vec!["ann".to_owned()])
    );
    assert_eq!(
        told(text, &errors),
        [format!("line 3: foo: unknown key; there are {TOP}")]
    );
    let errors = [ConfigError::User {
        path: "access.users".to_owned(),
        why: UserError::NoName("ann".to_owned()),
    }];
    assert_eq!(
        told(text, &errors),
        ["line 2: access.users: no user `ann` on this host"]
    );
}

#[test]
fn what_contradicts_itself_is_told_by_its_key() {
    let text = "[[instance]]\nname = \"a\"\nranks = \"1-2\"\n[[instance]]\nname = \"b\"\nranks = \"2-3\"\n\
        [[queue]]\nname = \"q\"\ninstance = \"a\"\nmin_nodes = 3\nmax_nodes = 2\n\
        default_time = \"2h\"\nmax_time = \"1h\"\n";
    let errors = check(text).expect_err("it contradicts itself");
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "instance[1].ranks: is \"2-3\"; allowed is ranks that no other [[instance]] names",
            "queue[0].min_nodes: is 3; allowed is no more than max_nodes",
            "queue[0].default_time: is \"2h\"; allowed is no longer than max_time",
        ]
    );
}

#[test]
fn a_queue_that_could_take_no_job_is_refused() {
    let text = "[[qos]]\nname = \"one\"\n[[qos]]\nname = \"two\"\n\
        [[queue]]\nname = \"q\"\nqos = [\"two\"]\ndefault_qos = \"one\"\nmin_nodes = 4\nmax_cores = 3\n";
    assert_eq!(
        lines(text),
        [
            "queue[0].min_nodes: is 4; allowed is no more than max_cores",
            "queue[0].default_qos: is \"one\"; allowed is one of qos",
        ]
    );
    let right = text.replace("max_cores = 3", "max_cores = 4");
    check(&right.replace("default_qos = \"one\"", "default_qos = \"two\"")).expect("it can be");
}

#[test]
fn each_wrong_entry_of_limits_is_told_with_what_it_takes() {
    let text = "[[queue]]\nname = \"q\"\nmax_time = \"0\"\n\
        limits = { carry = 200, excess = \"maybe\", period = \"hour\", foo = 3, cores = 4 }\n\
        user_limits = { carry = 5 }\n[[qos]]\nname = \"one\"\nlimits = 7\n";
    assert_eq!(
        lines(text),
        [
            "qos[0].limits: is 7; allowed is a table of running_jobs, submitted_jobs, nodes, cores, gpus, memory, job_nodes, job_cores, job_gpus, job_memory, job_time, core_minutes, period, carry and excess",
            "queue[0].max_time: is \"0\"; allowed is a duration longer than 0 such as \"5s\", or seconds",
            "queue[0].limits.carry: is 200; allowed is a whole number from 0 to 100, beside core_minutes",
            "queue[0].limits.excess: is \"maybe\"; allowed is \"hold\", \"refuse\" or \"standby\"",
            "queue[0].limits.foo: unknown key; there are running_jobs, submitted_jobs, nodes, cores, gpus, memory, job_nodes, job_cores, job_gpus, job_memory, job_time, core_minutes, period, carry, excess",
            "queue[0].limits.period: is \"hour\"; allowed is \"day\", \"week\", \"month\", \"quarter\" or \"year\"",
            "queue[0].user_limits.carry: is 5; allowed is a whole number from 0 to 100, beside core_minutes",
        ]
    );
}

#[test]
fn two_that_are_the_default_are_both_named() {
    let text = "[[queue]]\nname = \"a\"\ndefault = true\n[[queue]]\nname = \"b\"\ndefault = true\n\
        [[class]]\nname = \"c\"\ndefault = true\n[[class]]\nname = \"d\"\ndefault = true\n";
    let (_, errors) = read(text, &[]);
    assert_eq!(
        told(text, &errors),
        [
            "line 6: queue[1].default: queue \"b\" is the default one, and so is \"a\"; allowed is one of them",
            "line 12: class[1].default: class \"d\" is the default one, and so is \"c\"; allowed is one of them",
        ]
    );
}

fn lines(text: &str) -> Vec<String> {
    let errors = check(text).expect_err("something is wrong");
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn numbers_whose_products_would_be_infinite_are_refused() {
    let text = "[policy]\npreset = \"flux-accounting\"\npriority.weights.qos = 1e13\n\
        [[qos]]\nname = \"one\"\nusage_factor = 1e13\n\
        [[queue]]\nname = \"q\"\npriority = -1e13\n";
    assert_eq!(
        lines(text),
        [
            "line 3: policy.priority.weights.qos: is 10000000000000.0; allowed is a number from 0 to 1e12",
            "qos[0].usage_factor: is 10000000000000.0; allowed is a number from 0 to 1e12",
            "queue[0].priority: is -10000000000000.0; allowed is a number from -1e12 to 1e12",
        ]
    );
}

#[test]
fn instances_of_a_fixed_size_have_room_beside_each_other() {
    let misfits = |text: &str| -> Vec<String> {
        let declared = check(text).expect("right").instance.declared;
        let misfits = declared::misfits(&declared, &tests::nodes(4));
        misfits.iter().map(ToString::to_string).collect()
    };
    let instance = |(name, of): (&str, &str)| format!("[[instance]]\nname = \"{name}\"\n{of}\n");
    let of = |all: &[(&str, &str)]| misfits(&all.iter().copied().map(instance).collect::<String>());
    let two = "nodes = 2";
    assert_eq!(
        of(&[("a", two), ("b", two), ("e", "elastic = \"all\"")]),
        [""; 0]
    );
    assert_eq!(
        of(&[("a", two), ("b", two), ("c", two), ("d", "share = \"25%\"")]),
        [
            "instance `c`: `nodes` asks for 2 nodes; of 4 others of a fixed size leave 0",
            "instance `d`: `share` asks for 1 nodes; of 4 others of a fixed size leave 0",
        ]
    );
    let named = ("z", "ranks = \"1-2\"");
    assert_eq!(
        of(&[
            ("a", "nodes = 3"),
            named,
            ("h", "hosts = \"n[2-3]\""),
            ("i", "nodes = 5")
        ]),
        [
            "instance `i`: asks for 5 nodes; there are 4",
            "instance `h`: `hosts` asks for ranks 2, which are those of `z`",
            "instance `a`: `nodes` asks for 3 nodes; of 4 others of a fixed size leave 1",
        ],
        "who names his nodes has them first, and who can never be counts for nobody"
    );
}

#[test]
fn what_lacks_ranks_that_were_removed_is_told_from_what_was_never_right() {
    let text = "[[instance]]\nname = \"a\"\nelastic = \"all\"\nhome = \"4\"\n\
        [[instance]]\nname = \"b\"\nranks = \"3-5\"\n[[instance]]\nname = \"c\"\nnodes = 6\n\
        [[instance]]\nname = \"d\"\nnodes = 7\n";
    let declared = check(text).expect("right").instance.declared;
    let misfits = declared::misfits(&declared, &tests::nodes(4));
    let of = |removed: &str| -> Vec<bool> {
        let removed = removed.parse().expect("ranks");
        let each = misfits.iter();
        each.map(|error| error.is_of_removed(&removed)).collect()
    };
    assert_eq!(of("4-5"), [true, true, true, false]);
    assert_eq!(of("4"), [true, false, false, false]);
    assert_eq!(of(""), [false; 4]);
}

#[test]
fn where_a_leader_is_and_what_it_goes_by_is_refused_where_it_would_count_for_nothing() {
    let text = "[[instance]]\nname = \"a\"\nnodes = 1\nleader = \"beside\"\npolicy = 3\n\
        [[instance]]\nname = \"b\"\nelastic = \"all\"\nleader = \"node\"\npolicy = { placement.rank = \"pack\" }\n\
        [[instance]]\nname = \"c\"\nnodes = 1\npolicy = \"easy\"\n\
        [[instance]]\nname = \"d\"\nnodes = 1\npolicy = \"eazy\"\n\
        [[instance]]\nname = \"e\"\nnodes = 1\npolicy = \"fcfs\"\nset = { policy.queue.walk = \"skip\" }\n";
    let lines = lines(text);
    let starts = [
        "instance[0].leader: is \"beside\"; allowed is \"node\" or \"parent\"",
        "instance[0].policy: is 3; allowed is the name of a policy, or a table of its keys",
        "instance[1].leader: is \"node\"; allowed is \"parent\" beside elastic",
        "instance[1].policy: is",
        "instance[2].policy: is \"easy\"; allowed is \"fcfs\", with keys of placement",
        "instance[3].policy.preset: is \"eazy\"; there is no such preset; there is easy",
        "instance[4].policy: is \"fcfs\"; allowed is nothing beside keys of policy in set",
    ];
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
    assert_eq!(lines.len(), starts.len(), "{lines:?}");
}

#[test]
fn who_has_nodes_leads_from_one_of_them_unless_it_is_said() {
    let text = "[[instance]]\nname = \"a\"\nnodes = 1\n\
        [[instance]]\nname = \"b\"\nnodes = 1\nleader = \"parent\"\npolicy = { placement.rank = \"pack\" }\n\
        [[instance]]\nname = \"c\"\nelastic = \"all\"\npolicy = \"fcfs\"\n";
    let config = check(text).expect("it is whole");
    let said = |at: usize| {
        let of = &config.instance.declared[at];
        (of.leader, of.set.clone())
    };
    use eddy_wire::jobspec::Leader;
    let set = |text: &str| vec![text.to_owned()];
    assert_eq!(said(0), (Leader::Node, Vec::new()));
    assert_eq!(
        said(1),
        (Leader::Parent, set("policy.placement.rank=\"pack\""))
    );
    assert_eq!(said(2), (Leader::Parent, set("policy.preset=\"fcfs\"")));
}

#[test]
fn what_is_wrong_with_the_nodes_of_an_instance_hides_nothing_of_its_leader() {
    let text = "[[instance]]\nname = \"a\"\nelastic = \"0-1\"\nhome = \"3\"\nleader = \"node\"\n";
    let lines = lines(text);
    assert!(
        lines[0].starts_with("instance[0].home: is \"3\""),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("instance[0].leader: is \"node\""),
        "{lines:?}"
    );
}

#[test]
fn what_is_to_end_is_left_alone_for_a_day_at_most() {
    let text = "[exec]\nkill_grace = \"1000000d\"\n[[qos]]\nname = \"a\"\ngrace = \"100d\"\n";
    let (config, errors) = read(text, &[]);
    let allowed = "a duration of at most a day such as \"5s\" (RFC 23), or a number of seconds";
    assert_eq!(
        told(text, &errors),
        [
            format!("line 2: exec.kill_grace: is \"1000000d\"; allowed is {allowed}"),
            format!("line 5: qos[0].grace: is \"100d\"; allowed is {allowed}"),
        ]
    );
    assert!(errors.iter().all(ConfigError::is_of_a_later_bound));
    let day = Span::seconds(86_400);
    let instance = &config.instance;
    assert_eq!(
        (instance.kill_grace, instance.qos[0].grace),
        (day, Some(day))
    );
    let (_, errors) = read(
        "[exec]\nkill_grace = \"long\"\n[[qos]]\nname = \"a\"\ngrace = -1\n",
        &[],
    );
    assert_eq!(errors.len(), 2);
    assert!(!errors.iter().any(ConfigError::is_of_a_later_bound));
    check("[exec]\nkill_grace = \"1d\"\n").expect("a day is allowed");
}

#[test]
fn keys_of_lists_are_told_by_name_where_they_were_set_so() {
    let text = "[[queue]]\nname = \"a\"\n[[queue]]\nname = \"b.c\"\nmax_nodes = 0\n\
        [[ingest.filter]]\nname = \"f\"\ncommand = []\n[tree]\nfanout = 0\n";
    let table: Table = text.parse().expect("TOML");
    let named = check(text).expect_err("three are wrong").into_iter();
    let named = named.map(|error| error.by_name(&table).to_string());
    let begins: Vec<String> = named
        .map(|text| text.split(": is ").next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(
        begins
            .iter()
            .filter(|path| path.starts_with("queue.b.c."))
            .count(),
        2,
        "{begins:?}"
    );
    assert!(
        begins.contains(&"ingest.filter.f.command".to_owned()),
        "{begins:?}"
    );
    assert!(begins.contains(&"tree.fanout".to_owned()), "{begins:?}");
}

#[test]
fn no_time_is_no_time_limit() {
    let errors = load("[defaults]\ntime = 0\n", &[]).expect_err("nothing is that short");
    assert_eq!(
        errors[0].to_string(),
        "defaults.time: is 0; allowed is a duration longer than 0 such as \"5s\", or seconds"
    );
}
