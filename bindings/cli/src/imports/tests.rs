//! What becomes of the configurations of others, and that it is one of an instance.

use eddy_brokerd::config::{self, extent::DeclaredExtent};

use super::*;

const SLURM: &str = r#"# ours
ClusterName=eight
KillWait=30
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityDecayHalfLife=14-0
NodeName=n[1-4] Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=1024 State=UNKNOWN
NodeName=g[1-2] CPUs=4 Gres=gpu:a100:2
PartitionName=Batch Nodes=n[1-4] Default=NO MaxTime=2-00:00:00 \
    DefaultTime=60 MaxNodes=4 AllowQos=normal,long State=UP
PartitionName=gpu Nodes=g[1-2] AllowAccounts=physics PriorityJobFactor=7 State=DRAIN OverSubscribe=YES
"#;

const QMGR: &str = r#"#
# Create queues and set their attributes.
#
create queue workq
set queue workq queue_type = Execution
set queue workq Priority = 50
set queue workq resources_max.walltime = 48:00:00
set queue workq resources_default.walltime = 01:00:00
set queue workq resources_max.nodect = 8
set queue workq resources_default.neednodes = bigmem:ib
set queue workq max_run = [u:PBS_GENERIC=5]
set queue workq max_queued = [o:PBS_ALL=100]
set queue workq acl_user_enable = True
set queue workq acl_users = root@*
set queue workq enabled = True
set queue workq started = False
create queue route
set queue route queue_type = Route
set queue route route_destinations = workq
set server default_queue = workq
set server resources_default.walltime = 02:00:00
set server scheduling = True
"#;

fn told(found: &Found) -> Vec<String> {
    let told = |(line, why): &(usize, String)| format!("line {line}: {why}");
    found.notes.iter().map(told).collect()
}

#[test]
fn partitions_become_queues_on_nodes_of_their_own() {
    let found = read(SLURM);
    let text = found.to_toml();
    let config = config::check(&text).unwrap_or_else(|errors| panic!("{errors:?} in {text}"));
    let queues = &config.instance.queues;
    assert_eq!(
        (queues[0].name.as_str(), queues[0].instance.as_str()),
        ("batch", "batch")
    );
    let rules = &queues[0].rules;
    let seconds = |span: Option<eddy_wire::time::Span>| span.map(|span| span.0 / 1_000_000);
    assert_eq!(seconds(rules.max_time), Some(2 * 86_400));
    assert_eq!(seconds(rules.default_time), Some(3600));
    assert_eq!((rules.max_nodes, queues[1].rules.priority), (Some(4), 7.0));
    let extent = config.instance.declared[1].extent.clone();
    let ranks = Some("4-5".parse().expect("ranks"));
    assert_eq!(extent, DeclaredExtent::Fixed { nodes: 2, ranks });
    assert_eq!(config.instance.policy.preset, "slurm-fair-tree");
    assert_eq!(config.instance.kill_grace.0, 30_000_000);
    let nodes = found.nodes.as_ref().expect("there are nodes");
    assert_eq!((nodes.nnodes(), nodes.ncores(), nodes.ngpus()), (6, 40, 4));
    let sockets = nodes.nodes.values().map(|node| node.sockets().len());
    assert_eq!(sockets.collect::<Vec<_>>(), [2, 2, 2, 2, 1, 1]);
    let default = queues[0].rules.default_qos.as_ref();
    assert_eq!(default.map(|name| name.as_str()), Some("normal"));
    assert_eq!(
        told(&found),
        [
            "line 2: ClusterName=eight: is not taken over",
            "line 7: ThreadsPerCore=2: a core is the least that is given out",
            "line 7: State=UNKNOWN: is not taken over",
            "line 9: PartitionName=Batch: the queue is called batch",
            "line 9: AllowQos=normal,long: a job that names none has \"normal\"; in Slurm its user's own",
            "line 11: State=DRAIN: is said to the running instance: `eddy queue disable gpu`",
            "line 11: OverSubscribe=YES: is not taken over",
        ]
    );
}

#[test]
fn partitions_that_share_nodes_are_queues_of_the_root() {
    let found = read(
        "NodeName=n[1-2] CPUs=1\nPartitionName=a Nodes=ALL Default=YES\nPartitionName=b Nodes=n1\n",
    );
    let config = config::check(&found.to_toml()).expect("a configuration");
    assert!(config.instance.declared.is_empty());
    let [a, b] = &config.instance.queues[..] else {
        panic!("two are there")
    };
    assert!(a.default && a.rules.requires.is_empty(), "it has all nodes");
    assert_eq!(b.rules.requires, ["b".to_owned()].into());
    let nodes = found.nodes.as_ref().expect("there are nodes");
    assert_eq!(nodes.ranks_with("b").to_string(), "0");
    assert_eq!(found.notes.len(), 1);
    assert!(told(&found)[0].starts_with("line 3: Nodes of b: other partitions have some of them"));
}

#[test]
fn a_partition_whose_nodes_cannot_be_read_leaves_the_others_what_they_have() {
    let found = read(
        "NodeName=n[1-2] CPUs=1\nPartitionName=a Nodes=n1\nPartitionName=b Nodes=n[2- State=DRAIN\n",
    );
    let config = config::check(&found.to_toml()).expect("a configuration");
    let queues = config.instance.queues.iter();
    let queues: Vec<(&str, &str)> = queues
        .map(|queue| (queue.name.as_str(), queue.instance.as_str()))
        .collect();
    assert_eq!(queues, [("a", "a")]);
    assert_eq!(
        told(&found),
        ["line 3: PartitionName=b: is not taken over: Nodes=n[2- is no list of hosts"]
    );
}

#[test]
fn a_default_time_that_is_too_long_is_cut_to_what_is_allowed() {
    let found = read(
        "NodeName=n[1-2] CPUs=4\nPartitionName=a Nodes=ALL MaxTime=60 DefaultTime=2:00:00\n\
         PartitionName=b Nodes=ALL MaxTime=60 DefaultTime=60\n",
    );
    let text = found.to_toml();
    let config = config::check(&text).unwrap_or_else(|errors| panic!("{errors:?} in {text}"));
    let queues = config.instance.queues.iter();
    let times = queues.map(|queue| queue.rules.default_time);
    let times: Vec<i64> = times.flatten().map(|time| time.0 / 1_000_000).collect();
    assert_eq!(times, [3600, 3600]);
    assert_eq!(
        told(&found),
        ["line 2: DefaultTime=2:00:00: is longer than MaxTime: it becomes as long as that"]
    );
}

#[test]
fn a_time_beyond_all_numbers_is_named_and_left_out() {
    for time in [
        "1:400000000000000000:0",
        "1-0:400000000000000000",
        "18446744073709551615:0:59",
    ] {
        let found = read(&format!(
            "NodeName=n1 CPUs=4\nPartitionName=a Nodes=ALL MaxTime={time}\n"
        ));
        assert!(
            told(&found)[0].starts_with(&format!("line 2: MaxTime={time}: ")),
            "{:?}",
            told(&found)
        );
    }
}

#[test]
fn defaults_features_and_licenses_are_taken_over() {
    let found = read(
        "Licenses=matlab:10,ansys\nNodeName=DEFAULT CPUs=4 Feature=slow,ib Weight=3\nNodeName=n[1-2]\n\
         NodeName=n3 Feature=fast\nNodeName=DEFAULT CPUs=2\nNodeName=n4\n\
         PartitionName=DEFAULT MaxTime=60 State=UP OverSubscribe=NO\nPartitionName=a Nodes=ALL\n\
         PartitionName=fast Nodes=n1 MaxTime=30\n",
    );
    let text = found.to_toml();
    let config = config::check(&text).unwrap_or_else(|errors| panic!("{errors:?} in {text}"));
    let pools = config.instance.pools.iter();
    let pools: Vec<(&str, u64)> = pools.map(|pool| (pool.name.as_str(), pool.count)).collect();
    assert_eq!(pools, [("matlab", 10), ("ansys", 1)]);
    let nodes = found.nodes.as_ref().expect("there are nodes");
    let cores: Vec<usize> = nodes
        .nodes
        .values()
        .map(|node| node.cores.len() as usize)
        .collect();
    assert_eq!(cores, [4, 4, 4, 2]);
    for (property, ranks) in [("slow", "0-1,3"), ("ib", "0-1,3"), ("fast", "0")] {
        assert_eq!(nodes.ranks_with(property).to_string(), ranks, "{property}");
    }
    let times = config
        .instance
        .queues
        .iter()
        .map(|queue| queue.rules.max_time);
    let times: Vec<i64> = times.flatten().map(|time| time.0 / 1_000_000).collect();
    assert_eq!(times, [3600, 1800]);
    let told = told(&found);
    assert_eq!(
        (told.len(), &told[0][..], &told[1][..]),
        (
            4,
            "line 2: Weight=3: is not taken over",
            "line 7: OverSubscribe=NO: is not taken over"
        ),
        "{told:?}"
    );
    assert!(told[3].starts_with("line 4: Feature=fast: is not taken over: the partition"));
}

#[test]
fn nothing_of_a_node_or_a_partition_is_dropped_in_silence() {
    let found = read(
        "include /etc/slurm/nodes.conf\nInclude x.conf\nNodeName=n1 CPUs=0 RealMemory=3T\nNodeName=n2 CPUs=70000 RealMemory=abc\n\
         NodeName=n3 Sockets=two CoresPerSocket=4 stray\n\
         PartitionName=a Nodes=ALL PriorityJobFactor=7 PriorityTier=2\nPartitionName=b Nodes=ALL PriorityTier=3 PriorityJobFactor=9\n\
         PartitionName=c Nodes=ALL PriorityJobFactor=5 Default=perhaps\n",
    );
    let config = config::check(&found.to_toml()).expect("a configuration");
    let queues = config.instance.queues.iter();
    let priorities: Vec<f64> = queues.map(|queue| queue.rules.priority).collect();
    assert_eq!(priorities, [2.0, 3.0, 5.0]);
    let tier = "becomes the priority, which weighs beside all else; in Slurm it goes before it";
    assert_eq!(
        told(&found),
        [
            "line 1: include /etc/slurm/nodes.conf: is not read: put what it has in the place of the line".to_owned(),
            "line 2: include x.conf: is not read: put what it has in the place of the line".to_owned(),
            "line 3: CPUs=0: is not taken over".to_owned(),
            "line 3: RealMemory=3T: is not taken over".to_owned(),
            "line 4: RealMemory=abc: is not taken over".to_owned(),
            "line 4: 70000 cores of a node are taken for 65536, the most it may have".to_owned(),
            "line 5: Sockets=two: is not taken over".to_owned(),
            "line 5: stray: is not taken over".to_owned(),
            format!("line 6: PriorityTier=2: {tier}"),
            "line 6: PriorityJobFactor=7: is not taken over: the tier is the priority".to_owned(),
            format!("line 7: PriorityTier=3: {tier}"),
            "line 7: PriorityJobFactor=9: is not taken over: the tier is the priority".to_owned(),
            "line 8: Default=perhaps: is not taken over".to_owned(),
        ]
    );
}

#[test]
fn queues_of_qmgr_are_read_with_their_limits() {
    let found = read(QMGR);
    let text = found.to_toml();
    let config = config::check(&text).unwrap_or_else(|errors| panic!("{errors:?} in {text}"));
    let [queue] = &config.instance.queues[..] else {
        panic!("one is there: {text}")
    };
    let rules = &queue.rules;
    assert_eq!(
        (queue.default, rules.priority, rules.max_nodes),
        (true, 50.0, Some(8))
    );
    let required = rules.required().map(|required| required.to_string());
    assert_eq!(required.as_deref(), Some("bigmem,ib"));
    assert_eq!(rules.user_limits.running_jobs, Some(5));
    assert_eq!(rules.limits.submitted_jobs, Some(100));
    assert_eq!(rules.users.as_ref().map(|users| users.len()), Some(1));
    assert_eq!(
        config.instance.default_time.map(|time| time.0),
        Some(7_200_000_000)
    );
    assert_eq!(
        told(&found),
        [
            "line 16: set queue workq started = False: is said to the running instance: `eddy queue stop workq`",
            "line 18: queue route: a queue that routes to others is not taken over",
            "line 19: set queue route route_destinations = workq: is not taken over",
            "line 22: set server scheduling = True: is not taken over",
        ]
    );
}

#[test]
fn the_examples_of_the_documentation_are_configurations() {
    for (name, text) in [
        (
            "laptop",
            include_str!("../../../../doc/examples/laptop.toml"),
        ),
        (
            "four-nodes",
            include_str!("../../../../doc/examples/four-nodes.toml"),
        ),
        (
            "batch-and-debug",
            include_str!("../../../../doc/examples/batch-and-debug.toml"),
        ),
        ("condo", include_str!("../../../../doc/examples/condo.toml")),
    ] {
        if let Err(errors) = config::check(text) {
            panic!("{name}: {}", config::told(text, &errors).join("\n"));
        }
    }
}

#[test]
fn errors_are_told_by_their_lines() {
    let text = "[limits]\nclients = 0\n\n[[queue]]\nname = \"a\"\nmax_nodes = 0\n[[queue]]\ninstance = \"root\"\n[policy]\npreset = \"none\"\n";
    let errors = config::check(text).expect_err("four are wrong");
    let lines = config::told(text, &errors);
    let places: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split(": ").next())
        .collect();
    assert_eq!(
        places,
        ["line 2", "line 6", "line 7", "line 10"],
        "{lines:?}"
    );
}
