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

/// A host with two users and a group.
struct Known;

impl Host for Known {
    fn user(&self, name: &str) -> Option<String> {
        let users = [("root", "\"root\""), ("ann", "1001"), ("bob", "1002")];
        let found = users.iter().find(|(known, _)| *known == name);
        found.map(|(_, text)| (*text).to_owned())
    }

    fn members(&self, group: &str) -> Option<BTreeSet<String>> {
        (group == "staff").then(|| ["ann", "bob"].map(str::to_owned).into())
    }
}

fn read(text: &str) -> Found {
    super::read(text, &Known)
}

/// What is written of a text, which a check takes, and what is said.
fn written(text: &str) -> (config::Config, Found, Vec<String>) {
    let found = read(text);
    let toml = found.to_toml();
    let config = config::check(&toml).unwrap_or_else(|errors| panic!("{errors:?} in {toml}"));
    let told = told(&found);
    (config, found, told)
}

fn users(config: &config::Config, queue: usize) -> Option<Vec<u32>> {
    let users = config.instance.queues[queue].rules.users.as_ref();
    users.map(|users| users.iter().copied().collect())
}

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
    // It would go before the user's own.
    assert_eq!(queues[0].rules.default_qos, None);
    assert_eq!(
        told(&found),
        [
            "line 2: ClusterName=eight: is not taken over",
            "line 7: ThreadsPerCore=2: a core is the least that is given out",
            "line 7: State=UNKNOWN: is not taken over",
            "line 9: PartitionName=Batch: the queue is called batch",
            "line 9: AllowQos=normal,long: becomes no default_qos: a job that names none needs one of them as the default of its user in its account, or is refused",
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
        "# one\n# two\nNodeName=n1 CPUs=0 RealMemory=3T\nNodeName=n2 CPUs=70000 RealMemory=abc\n\
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
fn no_partition_is_open_to_more_than_before() {
    let of = |more: &str| format!("NodeName=n1 CPUs=4\nPartitionName=a Nodes=ALL {more}\n");
    for (more, expected, closed) in [
        (
            "AllowGroups=ALL AllowAccounts=ALL RootOnly=NO ReqResv=NO",
            None,
            0,
        ),
        ("RootOnly=YES", Some(vec![0]), 0),
        ("AllowGroups=staff", Some(vec![1001, 1002]), 0),
        ("AllowGroups=staff,ghosts", Some(vec![1001, 1002]), 0),
        (
            "AllowGroups=staff RootOnly=YES AllowAccounts=physics",
            Some(vec![0]),
            1,
        ),
        ("AllowGroups=ghosts", Some(vec![0]), 1),
        ("AllowGroups=staff AllowAccounts=physics", Some(vec![0]), 1),
        ("DenyAccounts=guests", Some(vec![0]), 1),
        ("AllowAccounts=ALL DenyAccounts=guests", Some(vec![0]), 1),
        ("DenyQos=long", Some(vec![0]), 1),
        ("AllocNodes=login1", Some(vec![0]), 1),
        ("ReqResv=YES", Some(vec![0]), 1),
        ("RootOnly=perhaps", Some(vec![0]), 1),
        ("AllowAccounts=physics DenyAccounts=guests", None, 0),
    ] {
        let (config, found, told) = written(&of(more));
        assert_eq!(
            (users(&config, 0), found.closed),
            (expected, closed),
            "{more}: {told:?}"
        );
    }
    let (config, found, _) = written(&of("AllowAccounts=physics DenyAccounts=guests"));
    let accounts = config.instance.queues[0].rules.accounts.as_ref();
    assert_eq!(accounts.map(|accounts| accounts.len()), Some(1));
    assert!(!found.to_toml().contains("closed"));
    let toml = read(&of("DenyQos=long")).to_toml();
    assert!(
        toml.contains("# closed: DenyQos=long has no counterpart\nusers = [\"root\"]"),
        "{toml}"
    );
    let (_, _, told) = written(&of("DenyQos=long"));
    assert_eq!(
        told,
        ["line 2: queue a: is closed to all but root: DenyQos=long has no counterpart"]
    );
}

#[test]
fn no_queue_of_qmgr_is_open_to_more_than_before() {
    let of = |more: &[&str]| {
        let lines = more.iter().map(|line| format!("set queue a {line}\n"));
        format!(
            "create queue a\nset queue a queue_type = Execution\n{}",
            lines.collect::<String>()
        )
    };
    for (more, expected, closed) in [
        (&["acl_users = ann@*"][..], None, 0),
        (
            &[
                "acl_user_enable = True",
                "acl_users = ann@*",
                "acl_users += bob",
            ],
            Some(vec![1001, 1002]),
            0,
        ),
        (
            &["acl_user_enable = True", "acl_users = ann@*,-bob@*"],
            Some(vec![1001]),
            0,
        ),
        (
            &["acl_user_enable = True", "acl_users = ann,ghost"],
            Some(vec![1001]),
            0,
        ),
        (
            &["acl_user_enable = True", "acl_users = ghost"],
            Some(vec![0]),
            1,
        ),
        (&["acl_user_enable = True"], Some(vec![0]), 1),
        (
            &["acl_group_enable = True", "acl_groups = staff"],
            Some(vec![1001, 1002]),
            0,
        ),
        (
            &["acl_group_enable = True", "acl_groups = ghosts"],
            Some(vec![0]),
            1,
        ),
        (
            &[
                "acl_group_enable = True",
                "acl_groups = staff",
                "acl_user_enable = True",
                "acl_users = bob,root",
            ],
            Some(vec![1002]),
            0,
        ),
        (
            &["acl_host_enable = True", "acl_hosts = login1"],
            Some(vec![0]),
            1,
        ),
        (&["acl_host_enable = False", "acl_hosts = login1"], None, 0),
    ] {
        let (config, found, told) = written(&of(more));
        assert_eq!(
            (users(&config, 0), found.closed),
            (expected, closed),
            "{more:?}: {told:?}"
        );
    }
    let routed = "create queue r\nset queue r queue_type = Route\nset queue r acl_user_enable = True\n\
                  set queue r acl_users = ann\ncreate queue a\nset queue a from_route_only = True\n";
    let (config, found, _) = written(routed);
    assert_eq!((users(&config, 0), found.closed), (Some(vec![0]), 1));
}

#[test]
fn who_may_use_a_server_and_see_its_jobs_is_taken_over() {
    let (config, _, told) = written(
        "create queue a\nset server acl_user_enable = True\nset server acl_users = ann@*\n\
         set server acl_users += ghost@*\nset server managers = bob@head,root@*\nset server query_other_jobs = False\n",
    );
    let access = &config.instance.access;
    assert_eq!(access.users, config::Users::Named(vec!["ann".to_owned()]));
    assert_eq!(
        (&access.admins[..], access.private),
        (&["bob".to_owned(), "root".to_owned()][..], true)
    );
    assert_eq!(
        told,
        [
            "line 4: access.users: user ghost is left out: this host does not know him",
            "line 5: bob@head: counts on every host",
        ]
    );
    let (config, _, told) = written("PrivateData=jobs,nodes\nPartitionName=a Nodes=ALL\n");
    assert!(config.instance.access.private);
    assert_eq!(told, ["line 1: PrivateData=nodes: is not taken over"]);
}

#[test]
fn a_bound_that_cannot_be_read_leaves_what_default_says() {
    let text = "PartitionName=DEFAULT Nodes=ALL MaxTime=60 MaxNodes=4 MinNodes=2\n\
                PartitionName=a MaxTime=soon MaxNodes=UNLIMITED MinNodes=3\n";
    let (config, _, told) = written(text);
    let rules = &config.instance.queues[0].rules;
    assert_eq!(rules.max_time, Some(eddy_wire::time::Span::seconds(3600)));
    assert_eq!((rules.min_nodes, rules.max_nodes), (Some(3), None));
    assert_eq!(told, ["line 2: MaxTime=soon: is not taken over"]);
}

#[test]
fn of_several_qos_it_is_said_that_none_is_the_default() {
    let (.., told) = written("PartitionName=a Nodes=ALL AllowQos=normal,long\n");
    assert_eq!(
        told,
        [
            "line 1: AllowQos=normal,long: becomes no default_qos: a job that names none needs one of them as the default \
          of its user in its account, or is refused"
        ]
    );
}

#[test]
fn a_queue_has_a_default_qos_only_where_no_other_is_allowed() {
    let default = |allowed: &str| {
        let (config, ..) = written(&format!("PartitionName=a Nodes=ALL AllowQos={allowed}\n"));
        config.instance.queues[0]
            .rules
            .default_qos
            .as_ref()
            .map(ToString::to_string)
    };
    assert_eq!(default("normal,long"), None);
    assert_eq!(default("long").as_deref(), Some("long"));
}

#[test]
fn nodes_have_the_cores_that_are_said_and_not_their_threads() {
    for (given, cores, sockets, said) in [
        ("CPUs=8 ThreadsPerCore=2", 4, 1, 1),
        ("CPUs=8", 8, 1, 0),
        ("Boards=2 SocketsPerBoard=2 CoresPerSocket=4", 16, 4, 0),
        ("SocketsPerBoard=2 CoresPerSocket=4", 8, 2, 0),
        ("Boards=2 Sockets=2 CoresPerSocket=4", 16, 4, 0),
        (
            "CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2",
            8,
            2,
            1,
        ),
        (
            "CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2",
            8,
            2,
            1,
        ),
        ("CPUs=16 CoresPerSocket=4 ThreadsPerCore=2", 8, 2, 1),
        ("CPUs=4 Sockets=2 CoresPerSocket=32", 4, 1, 1),
        ("CPUs=128 Sockets=2 CoresPerSocket=4", 8, 1, 1),
        ("Sockets=2", 2, 2, 0),
    ] {
        let found = read(&format!("NodeName=n1 {given}\n"));
        let nodes = found.nodes.as_ref().expect("there is one");
        let node = nodes.nodes.values().next().expect("there is one");
        let all = (node.cores.len(), node.sockets().len(), found.notes.len());
        assert_eq!(all, (cores, sockets, said), "{given}: {:?}", told(&found));
    }
    let found = read("NodeName=n1 CPUs=4 Sockets=2 CoresPerSocket=32\n");
    assert_eq!(
        told(&found),
        ["line 1: CPUs=4: are not the 64 cores that its sockets have: a node is taken for 4"]
    );
}

#[test]
fn queues_that_would_be_called_the_same_are_numbered() {
    let (config, _, told) = written(
        "NodeName=n[1-3] CPUs=4\nPartitionName=GPU.test Nodes=n1\nPartitionName=gpu-test Nodes=n2\n\
         PartitionName=gpu_test Nodes=n3 Default=YES\nPartitionName=1 Nodes=n1\nPartitionName=on-1 Nodes=n1 Default=YES\n",
    );
    let queues = config
        .instance
        .queues
        .iter()
        .map(|queue| queue.name.as_str());
    assert_eq!(
        queues.collect::<Vec<_>>(),
        ["gpu-test", "gpu-test-2", "gpu-test-3", "1", "on-1"]
    );
    let defaults = config.instance.queues.iter().filter(|queue| queue.default);
    assert_eq!(
        defaults
            .map(|queue| queue.name.as_str())
            .collect::<Vec<_>>(),
        ["on-1"]
    );
    assert_eq!(
        told[0],
        "line 2: PartitionName=GPU.test: the queue is called gpu-test"
    );
    let other = "line 3: PartitionName=gpu-test: the queue is called gpu-test-2, since there is another gpu-test";
    assert_eq!(told[1], other);
    let (config, ..) =
        written("create queue GPU.test\ncreate queue gpu-test\nset queue gpu-test Priority = 3\n");
    let priorities = config
        .instance
        .queues
        .iter()
        .map(|queue| queue.rules.priority);
    assert_eq!(priorities.collect::<Vec<_>>(), [0.0, 3.0]);
}

#[test]
fn notes_say_what_can_be_done_and_what_was_not() {
    let (_, _, told) = written("PartitionName=a Nodes=ALL State=FOO\n");
    assert_eq!(told, ["line 1: State=FOO: is not taken over"]);
    let (config, _, told) = written(
        "create queue a\nset queue a max_run = [u:PBS_GENERIC=5], [g:staff=3]\nset queue a resources_max.ngpus = 2\n\
         set queue a resources_max.walltime = 01:00:00\nset queue a resources_default.walltime = 02:00:00\n\
         create queue r\nset queue r started = False\nset queue r queue_type = Route\n",
    );
    let rules = &config.instance.queues[0].rules;
    assert_eq!(
        (rules.user_limits.running_jobs, rules.limits.job_gpus),
        (Some(5), Some(2))
    );
    assert_eq!(rules.default_time, rules.max_time);
    assert_eq!(
        told,
        [
            "line 2: max_run = [g:staff=3]: is not taken over",
            "line 5: set queue a resources_default.walltime = 02:00:00: is longer than resources_max.walltime: it becomes as long as that",
            "line 7: set queue r started = False: is not taken over",
            "line 8: queue r: a queue that routes to others is not taken over",
        ]
    );
}

#[test]
fn every_limit_of_a_queue_is_written() {
    let limits = r#"{"running_jobs":1,"submitted_jobs":2,"nodes":3,"cores":4,"gpus":5,"job_nodes":6,"job_cores":7,"job_gpus":8,"job_time":5400,"core_minutes":9,"period":"week","carry":10,"excess":"refuse"}"#;
    let limits: Limits = serde_json::from_str(limits).expect("limits");
    let queue = Queue {
        name: "a".to_owned(),
        limits,
        ..Queue::default()
    };
    let config = config::check(&queue.to_toml()).expect("a configuration");
    assert_eq!(config.instance.queues[0].rules.limits, limits);
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
