//! The whole of it: defaults, the documented examples, every error at once.

use super::declared::INSTANCE_NAME;
use super::extent::{DeclaredExtent, Home, Reach};
use eddy_sched::policy::{Rung, preset};
use eddy_wire::id::Rank;
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::{NodeSet, ResourceSet};

use super::*;

#[test]
fn nothing_given_is_the_defaults() {
    assert_eq!(check(""), Ok(Config::default()));
}

#[test]
fn the_documented_example_is_the_defaults() {
    let page = include_str!("../../../../doc/protocol/configuration.md");
    let example = page
        .split("```")
        .find_map(|block| block.strip_prefix("toml\n"));
    let example = example.expect("the page has an example");
    assert_eq!(check(example), Ok(Config::default()));
    for key in KEYS {
        let name = key.path.rsplit('.').next().unwrap_or(key.path);
        assert!(
            example.contains(&format!("{name} = ")),
            "{} is documented",
            key.path
        );
    }
}

#[test]
fn every_key_takes_what_it_gives() {
    let config = load(
        "[journal]\nsync = \"normal\"\n[exec]\nkill_grace = \"2.5s\"\n\
         test.run_duration = 0\n[limits]\nclients = 7\nspool_bytes = \"1M\"\n",
        &[
            "rank.log=debug".to_owned(),
            "history.keep_age=30d".to_owned(),
        ],
    )
    .expect("all keys are known");
    assert_eq!(config.instance.sync, Sync::Normal);
    assert_eq!(config.instance.kill_grace, Span::millis(2500));
    assert_eq!(config.instance.run_duration, Some(Span::ZERO));
    assert_eq!(config.instance.limits.spool_bytes, 1 << 20);
    assert_eq!(config.instance.keep_age, Some(Span::seconds(30 * 86_400)));
    assert_eq!(config.get("limits.clients"), Some(7.into()));
    assert_eq!(config.to_json()["exec"]["test"]["run_duration"], 0.0);
    assert_eq!(config.to_json()["rank"]["log"], "debug");
}

#[test]
fn a_key_that_is_taken_out_is_its_default() {
    let text = "[limits]\nclients = 7\n";
    let given = |all: &[&str]| {
        let all: Vec<String> = all.iter().map(|one| (*one).to_owned()).collect();
        load(text, &all).map(|config| config.instance.limits.clients)
    };
    let default = Config::default().instance.limits.clients;
    assert_eq!(given(&["limits.clients="]), Ok(default));
    assert_eq!(given(&["limits.clients=9", "limits.clients="]), Ok(default));
    assert_eq!(given(&["limits.clients=", "limits.clients=9"]), Ok(9));
}

#[test]
fn all_errors_come_at_once_with_their_keys() {
    let errors = load(
        "sync = \"full\"\n[journal]\nsync = \"maybe\"\n[limits]\nclients = -1\nfoo = { a = 1 }\n",
        &["exec.kill_grace=NaN".to_owned(), "nonsense".to_owned()],
    )
    .expect_err("six things are wrong");
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "-S nonsense: has no `=`; allowed is key=value",
            "exec.kill_grace: is \"NaN\"; allowed is a duration of at most a day such as \"5s\" (RFC 23), or a number of seconds",
            "journal.sync: is \"maybe\"; allowed is \"full\" or \"normal\"",
            "limits.clients: is -1; allowed is a whole number from 1 to 65536",
            "limits.foo: unknown key; in limits there are clients, user_clients, user_outstanding, user_rate, outstanding, reply_bytes, waiting_jobs, user_jobs, user_copies, spool_bytes",
            "sync: unknown key; there is journal.sync",
        ]
    );
}

#[test]
fn what_is_not_toml_is_said_in_one_line() {
    let errors = check("[journal\n").expect_err("a bracket is missing");
    assert!(matches!(&errors[..], [ConfigError::Syntax(line)] if !line.contains('\n')));
}

#[test]
fn instances_and_queues_are_read() {
    let page = include_str!("../../../../doc/protocol/configuration.md");
    let blocks = page
        .split("```")
        .filter_map(|block| block.strip_prefix("toml\n"));
    let mut lists = blocks.filter(|block| block.contains("[[instance]]"));
    let example = lists.next().expect("the page has an example of lists");
    let config = check(example).expect("the example is right");
    let [batch, debug, large, owner] = &config.instance.declared[..] else {
        panic!("four are declared: {:?}", config.instance.declared)
    };
    let fixed = |nodes, ranks| DeclaredExtent::Fixed { nodes, ranks };
    assert_eq!(
        (batch.name.as_str(), &batch.extent),
        ("batch", &fixed(12, None))
    );
    assert_eq!(debug.extent, fixed(2, Some(Idset::range(0, 1))));
    assert!(large.is_picked(), "{large:?}");
    let elastic = DeclaredExtent::Elastic {
        elastic: Reach::All,
        home: Home::Ranks(Idset::range(2, 5)),
        lend_max: Some(Span::seconds(7200)),
    };
    assert_eq!(owner.extent, elastic);
    assert_eq!(
        debug.set,
        [
            "policy.placement.rank=\"pack\"",
            "exec.hung_after=\"2m\"",
            "limits.waiting_jobs=10000"
        ]
    );
    let leads: Vec<Option<String>> = config
        .instance
        .queues
        .iter()
        .map(|queue| queue.to_settings().instance)
        .collect();
    assert_eq!(
        leads,
        [Some("batch".to_owned()), Some("debug".to_owned()), None]
    );
    let json = config.to_json();
    assert_eq!(json["instance"][1]["ranks"], "0-1");
    assert_eq!(json["queue"][2]["instance"], "root");
    assert_eq!(
        load("", &debug.set).map(|c| c.instance.hung_after),
        Ok(Some(Span::seconds(120)))
    );
}

#[test]
fn what_is_wrong_with_lists_comes_at_once() {
    let text = r#"
queue = [{ name = "a", instance = "batch" }, { name = "a", instance = "none" }, 3, {}]
[[instance]]
name = "batch"
nodes = 0
[[instance]]
name = "batch"
ranks = "0-"
set = { "access.private" = true, "exec.kill_grace" = "x", foo = 1 }
size = 3
[[instance]]
name = "root"
nodes = 1
ranks = "0"
[[instance]]
"#;
    let errors = check(text).expect_err("much is wrong");
    let mut lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.sort();
    let queue = "a name of 1 to 64 characters a-z, 0-9 and -, other than root";
    let name = INSTANCE_NAME;
    let span = "a duration of at most a day such as \"5s\" (RFC 23), or a number of seconds";
    assert_eq!(
        lines,
        [
            "instance[0].nodes: is 0; allowed is a whole number from 1 to 65536".to_owned(),
            "instance[1].name: \"batch\" is given twice; each instance has a name of its own".to_owned(),
            "instance[1].ranks: is \"0-\"; allowed is ranks such as \"0-3,7\", at most 65536 of them".to_owned(),
            "instance[1].set.access.private: is true; allowed is nothing: [access] of the root says who may connect".to_owned(),
            format!("instance[1].set.exec.kill_grace: is \"x\"; allowed is {span}"),
            "instance[1].set.foo: unknown key; there are journal, exec, grant, history, tree, quorum, defaults, limits, access, rank, policy".to_owned(),
            "instance[1].size: unknown key; there are name, nodes, ranks, hosts, property, share, elastic, home, lend_max, leader, policy, set".to_owned(),
            format!("instance[2].name: is \"root\", which stands for this instance; allowed is {name}"),
            "instance[2].ranks: is \"0\"; allowed is only one of nodes, ranks, hosts, property, share and elastic".to_owned(),
            format!("instance[3].name: is not given; allowed is {name}"),
            "instance[3].nodes: is not given; allowed is a whole number from 1 to 65536".to_owned(),
            "queue[1].instance: is \"none\"; there are root, batch".to_owned(),
            "queue[1].name: \"a\" is given twice; each queue has a name of its own".to_owned(),
            "queue[2]: is 3; allowed is tables, each under [[instance]], [[queue]], [[qos]] or [[class]]".to_owned(),
            "queue[3].instance: is not given; allowed is the name of an [[instance]], or root".to_owned(),
            format!("queue[3].name: is not given; allowed is {queue}"),
        ]
    );
}

#[test]
fn what_an_elastic_instance_says_is_checked() {
    let text = r#"
[[instance]]
name = "a"
elastic = "some"
[[instance]]
name = "b"
elastic = "0-3"
home = "3-4"
lend_max = "x"
[[instance]]
name = "c"
elastic = "all"
lend_max = "1h"
[[instance]]
name = "d"
nodes = 1
home = "0"
[[instance]]
name = "e"
elastic = "all"
home = "0-1"
[[instance]]
name = "f"
elastic = "0"
home = "0"
"#;
    let errors = check(text).expect_err("much is wrong");
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let span = "a duration such as \"2h\" (RFC 23) or a number of seconds, beside home";
    assert_eq!(
        lines,
        [
            "instance[0].elastic: is \"some\"; allowed is \"all\", ranks such as \"0-3,7\" (at most 65536 of them), or one of { hosts = }, { property = }, { share = }".to_owned(),
            "instance[1].home: is \"3-4\"; allowed is some of the ranks of elastic, or { hosts = } or { property = } of them".to_owned(),
            format!("instance[1].lend_max: is \"x\"; allowed is {span}"),
            format!("instance[2].lend_max: is \"1h\"; allowed is {span}"),
            "instance[3].home: is \"0\"; allowed is a key beside elastic only".to_owned(),
            "instance[5].home: is \"0\"; allowed is ranks that are home to no other instance".to_owned(),
        ]
    );
}

#[test]
fn a_policy_is_checked_with_the_rest_and_its_lines_are_told() {
    let text = "[journal]\nsync = 3\n[policy]\npreset = \"fcfs\"\nqueue.dept = 3\n";
    let errors = load(text, &["policy.queue.walk=up".to_owned()]).expect_err("three are wrong");
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "policy.queue.walk: is \"up\"; allowed is \"stop\", \"skip\" or \"reserve\"",
            "line 5: policy.queue.dept: unknown key; there is policy.queue.depth",
            "journal.sync: is 3; allowed is \"full\" or \"normal\"",
        ]
    );
}

#[test]
fn a_policy_that_instances_do_not_obey_yet_is_refused() {
    let errors = check(
        "[policy]\npreset = \"easy\"\nshare.algorithm = \"drf\"\nqueue.evict = \"fair_share\"\n",
    )
    .expect_err("it is not served");
    assert_eq!(
        errors[0].to_string(),
        "policy.preset: is \"easy\", whose queue.evict running instances do not serve yet; `eddy sim` serves it"
    );
    let config = check("policy.preset = \"fcfs\"\n").expect("it is served");
    assert_eq!(config.to_json()["policy"]["queue"]["walk"], "stop");
    // What says nothing of it has it without reading it.
    assert_eq!(config.instance.policy, InstanceConfig::default().policy);
}

#[test]
fn what_a_declared_instance_is_given_of_a_policy_is_checked_as_a_whole() {
    let text = "[[instance]]\nname = \"a\"\nnodes = 1\nset = { \"policy.queue.depth\" = 0, \"policy.queue.walk\" = \"reserve\" }\n";
    let errors = check(text).expect_err("a depth of none");
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "instance[0].set.policy.queue.depth: is 0; allowed is a whole number from 1 to 1000000, or \"all\""
        ]
    );
}

#[test]
fn a_name_that_can_be_read_as_a_job_is_none() {
    let of = |name: &str| check(&format!("[[instance]]\nname = \"{name}\"\nnodes = 1\n"));
    let long = "a".repeat(65);
    for (name, how) in [
        ("1", "is the id of job 1"),
        ("f1", "is the id of job 0"),
        ("f58", "is the id of job 239"),
        ("0x7", "is the id of job 7"),
        ("fast", "is the id of job 113963"),
        ("-a", "does not begin with a letter"),
        ("root", "stands for this instance"),
        ("A", "has another character"),
        ("", "is empty"),
        (&long, "has 65 bytes"),
    ] {
        let errors = of(name).expect_err(name);
        assert_eq!(
            errors[0].to_string(),
            format!("instance[0].name: is \"{name}\", which {how}; allowed is {INSTANCE_NAME}")
        );
    }
    for name in ["batch", "f-1", "fill", "a1"] {
        of(name).expect(name);
    }
    let queue = "[[queue]]\nname = \"fast\"\ninstance = \"root\"\n";
    check(queue).expect("nobody takes the name of a queue for a job");
}

#[test]
fn an_instance_that_asks_for_more_than_there_is_never_fits() {
    let node = NodeSet {
        host: "n".into(),
        cores: Idset::one(0),
        gpus: Idset::new(),
        memory: 0,
        ..NodeSet::default()
    };
    let there = ResourceSet {
        nodes: (0..2).map(|rank| (Rank(rank), node.clone())).collect(),
        ..ResourceSet::default()
    };
    let text = "[[instance]]\nname = \"a\"\nnodes = 9\n[[instance]]\nname = \"b\"\nranks = \"1-2\"\n[[instance]]\nname = \"c\"\nnodes = 2\n";
    let config = check(text).expect("it is a configuration");
    let said = |at: usize| {
        let fits = config.instance.declared[at].fits(&there);
        fits.map_err(|error| error.to_string())
    };
    let nodes = "instance `a`: asks for 9 nodes; there are 2";
    let ranks = "instance `b`: asks for ranks 1-2; there are 0-1";
    assert_eq!(said(0), Err(nodes.to_owned()));
    assert_eq!(said(1), Err(ranks.to_owned()));
    assert_eq!(said(2), Ok(()));
}

#[test]
fn the_documented_queue_is_right_and_wrong_ones_are_told_by_key() {
    let page = include_str!("../../../../doc/protocol/configuration.md");
    let blocks = page
        .split("```")
        .filter_map(|block| block.strip_prefix("toml\n"));
    let mut lists = blocks.filter(|block| block.contains("max_time"));
    let config = check(lists.next().expect("the page has an example of rules"));
    let config = config.expect("the example is right");
    let rules = &config.instance.queues[0].rules;
    assert_eq!(rules.max_time, Some(Span::seconds(1800)));
    assert_eq!(rules.users.as_ref().map(|users| users.len()), Some(2));
    let required = rules.required().map(|required| required.to_string());
    assert_eq!(required.as_deref(), Some("^old,fast"));
    let factors = &config.instance.policy.priority.factors.queues;
    assert_eq!(factors.get("debug"), Some(&100.0));
    let text = "[[queue]]\nname = \"a\"\ndefault = true\nmax_nodes = 0\nlimits = { core_minutes = \"3\" }\n\
                default_qos = \"none\"\nusers = [\"nobody-of-that-name\"]\nmaxtime = 3\nrequires = [\"a|b\"]\n\
                [[queue]]\nname = \"b\"\ndefault = true\n";
    let errors = check(text).expect_err("much is wrong");
    let mut lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.sort();
    let wrong = |key: &str, rest: &str| format!("queue[0].{key}: {rest}");
    let known = queue::KEYS.join(", ");
    assert_eq!(
        lines,
        [
            wrong(
                "default_qos",
                "is \"none\"; allowed is the name of a [[qos]], or of one of the policy"
            ),
            wrong(
                "limits.core_minutes",
                "is \"3\"; allowed is a whole number of at least 0"
            ),
            wrong(
                "max_nodes",
                "is 0; allowed is a whole number from 1 to 65536"
            ),
            wrong("maxtime", &format!("unknown key; there are {known}")),
            wrong(
                "requires",
                "is [\"a|b\"]; allowed is names of properties of nodes, those that they must not have with ^ before, none of them both"
            ),
            wrong(
                "users",
                "no user `nobody-of-that-name` on this host"
            ),
            "queue[1].default: queue \"b\" is the default one, and so is \"a\"; allowed is one of them"
                .to_owned(),
        ]
    );
}

#[test]
fn a_property_that_a_queue_requires_and_excludes_is_refused() {
    let text = "[[queue]]\nname = \"a\"\nrequires = [\"x\", \"^x\"]\n";
    let errors = check(text).expect_err("no node has it and has it not");
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "queue[0].requires: is [\"x\", \"^x\"]; allowed is names of properties of nodes, those that they must not have with ^ before, none of them both"
        ]
    );
}

#[test]
fn qos_that_take_from_each_other_in_a_ring_are_refused() {
    let qos = |name: &str, preempts: &str| {
        format!("[[qos]]\nname = \"{name}\"\npreempts = [\"{preempts}\"]\n")
    };
    let ring = [qos("a", "b"), qos("b", "c"), qos("c", "a")].concat();
    let errors = check(&ring).expect_err("each is taken from by whom it takes from");
    assert_eq!(errors.len(), 3, "{errors:?}");
    // Who only looks on is right.
    let beside = [ring, qos("d", "a")].concat();
    assert_eq!(check(&beside).expect_err("the same").len(), 3);
    let line = [
        qos("a", "b"),
        qos("b", "c"),
        "[[qos]]\nname = \"c\"\n".to_owned(),
    ]
    .concat();
    check(&line).expect("a takes from b, and that from c");
}

#[test]
fn a_qos_takes_from_none_that_takes_from_it_by_a_mode_that_there_is() {
    let text = "[[qos]]\nname = \"a\"\npreempts = [\"b\"]\n[[qos]]\nname = \"b\"\npreempts = [\"a\"]\n\
                [[qos]]\nname = \"c\"\npreempts = [\"c\"]\nmode = \"shrink\"\nshrink = 1\n";
    let errors = check(text).expect_err("each is taken from by whom it takes from");
    let mut lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.sort();
    let above =
        "allowed is names of [[qos]], neither its own nor of one that preempts it, also by others";
    assert_eq!(
        lines,
        [
            format!("qos[0].preempts: is [\"b\"]; {above}"),
            format!("qos[1].preempts: is [\"a\"]; {above}"),
            format!("qos[2].preempts: is [\"c\"]; {above}"),
            "qos[2].mode: is \"shrink\"; allowed is \"requeue\", \"cancel\" or \"suspend\""
                .to_owned(),
            "qos[2].shrink: is 1; allowed is true or false".to_owned(),
        ]
        .into_iter()
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect::<Vec<_>>()
    );
}

#[test]
fn a_class_that_may_be_taken_from_puts_that_on_the_ladder() {
    let text = "[[class]]\nname = \"soft\"\nurgency_preemptible = true\n";
    let config = check(text).expect("it is a configuration");
    let ladder = &config.instance.policy.placement.ladder;
    assert!(ladder.contains(&Rung::Urgency), "{ladder:?}");
}

pub(super) fn nodes(count: u32) -> ResourceSet {
    let node = |rank: u32| NodeSet {
        host: format!("n{rank}").into(),
        cores: Idset::one(0),
        gpus: Idset::new(),
        memory: 0,
        ..NodeSet::default()
    };
    ResourceSet {
        nodes: (0..count).map(|rank| (Rank(rank), node(rank))).collect(),
        ..ResourceSet::default()
    }
}

#[test]
fn nodes_by_what_they_are_are_ranks_of_the_inventory() {
    let text = r#"
[[instance]]
name = "a"
hosts = "n[1-2]"

[[instance]]
name = "b"
property = "big"

[[instance]]
name = "c"
share = "50%"

[[instance]]
name = "d"
elastic = { property = "gpu" }
home = { hosts = "n3" }

[[instance]]
name = "e"
elastic = { share = "12.5%" }
home = "3"
"#;
    let mut there = nodes(5);
    there
        .properties
        .insert("big".to_owned(), Idset::range(3, 4));
    let node = there.nodes.get_mut(&Rank(3)).expect("there");
    node.gpus = Idset::first_ids(2);
    let mut config = check(text).expect("right");
    let declared = &config.instance.declared;
    let fits = declared
        .iter()
        .map(|one| one.fits(&there).map_err(|e| e.to_string()));
    let fits: Vec<Result<(), String>> = fits.collect();
    assert_eq!(
        fits,
        [
            Ok(()),
            Ok(()),
            Ok(()),
            Ok(()),
            Err("instance `e`: asks for home on ranks 3, of which it may have 0 only".to_owned()),
        ]
    );
    let apart = declared::homes_apart(declared, &there).map_err(|error| error.to_string());
    assert_eq!(
        apart,
        Err("instance `e`: is at home on ranks 3, where another is, too".to_owned())
    );
    let lacks = declared
        .iter()
        .map(|one| one.fits(&nodes(2)).map_err(|e| e.to_string()));
    let lacks: Vec<String> = lacks.filter_map(Result::err).collect();
    assert_eq!(
        lacks[..3],
        [
            "instance `a`: asks for host `n2`, which is not in the inventory",
            "instance `b`: asks for property `big`, which no node has; there are none",
            "instance `d`: asks for property `gpu`, which no node has; there are none",
        ]
    );
    config.instance.resolve(&there);
    let said = &config.to_json()["instance"];
    assert_eq!(
        said.as_array().map(|all| all
            .iter()
            .map(|one| {
                let (nodes, ranks) = (&one["nodes"], &one["ranks"]);
                format!("{nodes} {ranks} {} {}", one["elastic"], one["home"])
            })
            .collect::<Vec<String>>()),
        Some(vec![
            "2 \"1-2\" null null".to_owned(),
            "2 \"3-4\" null null".to_owned(),
            "2 null null null".to_owned(),
            "null null \"3\" \"3\"".to_owned(),
            "null null \"0\" \"3\"".to_owned(),
        ])
    );
}

#[test]
fn what_is_no_extent_is_told_by_its_key() {
    let text = r#"
[[instance]]
name = "a"
hosts = ""
[[instance]]
name = "b"
share = "0%"
[[instance]]
name = "c"
share = "101%"
[[instance]]
name = "d"
elastic = { hosts = "n1", share = "5%" }
[[instance]]
name = "e"
elastic = "all"
home = { share = "5%" }
[[instance]]
name = "f"
hosts = "n1"
property = "gpu"
[[instance]]
name = "g"
share = "33.333%"
"#;
    let errors =
        check(text).map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>());
    let errors = errors.expect_err("all are wrong");
    let paths: Vec<&str> = errors
        .iter()
        .filter_map(|line| line.split(": ").next())
        .collect();
    assert_eq!(
        paths,
        [
            "instance[0].hosts",
            "instance[1].share",
            "instance[2].share",
            "instance[3].elastic",
            "instance[4].home",
            "instance[5].property",
            "instance[6].share",
        ]
    );
    assert_eq!(
        errors.last().map(String::as_str),
        Some(
            "instance[6].share: is \"33.333%\"; allowed is a part of all nodes such as \"12.5%\", from 0.01% to 100%, with at most two decimals"
        )
    );
}

#[test]
fn another_preset_keeps_what_the_lists_of_the_site_say() {
    let text = "[policy]\npreset = \"easy\"\nqueue.walk = \"stop\"\n[[qos]]\nname = \"high\"\npriority = 0.9\n\
        usage_factor = 0.5\n[[queue]]\nname = \"q\"\npriority = 0.7\n[[class]]\nname = \"hot\"\npriority = 10\n\
        default = true\nurgency_preemptible = true\n";
    let before = check(text).expect("it is a configuration").instance.policy;
    let given = ["policy.preset=flux".to_owned()];
    let policy = policy_over(&before, &given).expect("it is a policy");
    assert_eq!(policy.preset, "flux");
    assert_eq!(policy.queue.walk, preset("flux").unwrap().queue.walk);
    let factors = &policy.priority.factors;
    assert_eq!((factors.qos["high"], factors.queues["q"]), (0.9, 0.7));
    assert_eq!(policy.usage.qos_factors["high"], 0.5);
    let placement = &policy.placement;
    assert_eq!(
        (
            placement.default_class.as_str(),
            placement.classes["hot"].priority
        ),
        ("hot", 10)
    );
    assert!(placement.ladder.contains(&Rung::Urgency), "{placement:?}");
}

#[test]
fn one_rank_may_be_said_as_a_number() {
    let text = "[[instance]]\nname = \"a\"\nelastic = \"all\"\n";
    let set = ["instance.a.home=2".to_owned()];
    let config = load(text, &set).expect("it is a configuration");
    let home = |config: &Config| match &config.instance.declared[0].extent {
        DeclaredExtent::Elastic { home, .. } => home.clone(),
        other => panic!("{other:?}"),
    };
    let text = ["instance.a.home=\"2\"".to_owned()];
    let same = load("[[instance]]\nname = \"a\"\nelastic = \"all\"\n", &text).expect("likewise");
    assert_eq!(home(&config), home(&same));
    for wrong in ["-1", "4294967296"] {
        let text = format!("[[instance]]\nname = \"a\"\nranks = {wrong}\n");
        assert_eq!(load(&text, &[]).expect_err("no rank").len(), 1);
    }
}
