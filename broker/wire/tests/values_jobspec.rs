//! Jobspecs: Flux's form out, JSON and YAML in, what they come down to, and
//! what is refused with its path.

use eddy_wire::jobspec::{Ask, AskError, Jobspec, JobspecError, MemoryNeed, Request, Sharing};
use serde_json::{Value, json};

pub fn ask() -> Ask {
    Ask {
        command: vec!["/bin/hostname".to_owned()],
        ..Ask::default()
    }
}

pub fn request(ask: &Ask) -> Request {
    ask.jobspec().unwrap().request().unwrap()
}

/// `slot>core`, one of everything, as Flux writes it.
pub fn plain() -> Value {
    json!({
        "resources": [
            { "type": "slot", "count": 1, "with": [{ "type": "core", "count": 1 }], "label": "task" },
        ],
        "tasks": [{ "command": ["/bin/hostname"], "slot": "task", "count": { "per_slot": 1 } }],
        "attributes": { "system": { "duration": 0 } },
        "version": 1,
    })
}

pub fn with_resources(resources: Value) -> Result<Request, JobspecError> {
    let mut document = plain();
    document["resources"] = resources;
    Jobspec::from_value(document)?.request()
}

#[test]
fn an_ask_makes_the_document_that_flux_makes() {
    let jobspec = ask().jobspec().unwrap();
    assert_eq!(serde_json::to_value(&jobspec).unwrap(), plain());
    let expected = r#"{"resources":[{"type":"slot","count":1,"with":[{"type":"core","count":1}],"label":"task"}],"tasks":[{"command":["/bin/hostname"],"slot":"task","count":{"per_slot":1}}],"attributes":{"system":{"duration":0}},"version":1}"#;
    assert_eq!(jobspec.to_json(), expected);
    let many = Ask {
        nodes: Some(2.into()),
        ntasks: Some(5),
        cores_per_task: 4,
        gpus_per_task: 1,
        duration: 90_500_000,
        name: Some("try".to_owned()),
        cwd: Some("/tmp".to_owned()),
        environment: [
            ("A".to_owned(), Some("1".to_owned())),
            ("B".to_owned(), None),
        ]
        .into(),
        queue: Some("batch".to_owned()),
        memory: MemoryNeed::PerNode(4 << 30),
        shell_options: vec![("output.stdout.path".to_owned(), json!("out"))],
        attributes: vec![
            ("user.tag".to_owned(), json!(7)),
            ("x.y".to_owned(), json!([])),
        ],
        ..ask()
    };
    let expected = json!({
        "resources": [{ "type": "node", "count": 2, "with": [
            { "type": "slot", "count": 3, "label": "task", "with": [
                { "type": "core", "count": 4 }, { "type": "gpu", "count": 1 },
            ] },
        ] }],
        "tasks": [{ "command": ["/bin/hostname"], "slot": "task", "count": { "total": 5 } }],
        "attributes": {
            "system": {
                "duration": 90.5, "cwd": "/tmp", "environment": { "A": "1", "B": null },
                "queue": "batch", "job": { "name": "try" }, "memory_per_node": "4G",
                "shell": { "options": { "output": { "stdout": { "path": "out" } } } },
                "x": { "y": [] },
            },
            "user": { "tag": 7 },
        },
        "version": 1,
    });
    let jobspec = many.jobspec().unwrap();
    assert_eq!(serde_json::to_value(&jobspec).unwrap(), expected);
    assert_eq!(jobspec.name(), "try");
    assert_eq!(
        jobspec.shell_option("output.stdout.path"),
        Some(&json!("out"))
    );
    assert_eq!(jobspec.shell_option("output.stdout.path.more"), None);
    assert_eq!(
        Jobspec::from_json(jobspec.to_json().as_bytes()).unwrap(),
        jobspec
    );
}

#[test]
fn nodes_and_tasks_follow_the_arithmetic_of_flux() {
    let one = request(&ask());
    assert_eq!(
        (one.nodes, one.slots, one.ntasks, one.duration),
        (None, 1, 1, None)
    );

    let even = request(&Ask {
        nodes: Some(2.into()),
        ntasks: Some(8),
        ..ask()
    });
    assert_eq!(
        (even.nodes, even.slots_per_node, even.slots, even.ntasks),
        (Some(2), 4, 8, 8)
    );
    assert_eq!(even.sharing, Sharing::Shared);

    let odd = request(&Ask {
        nodes: Some(3.into()),
        ntasks: Some(4),
        ..ask()
    });
    assert_eq!((odd.slots_per_node, odd.slots, odd.ntasks), (2, 6, 4));

    let whole = request(&Ask {
        nodes: Some(3.into()),
        ..ask()
    });
    assert_eq!(
        (whole.sharing, whole.slots, whole.ntasks),
        (Sharing::Exclusive, 3, 3)
    );

    let few = Ask {
        nodes: Some(3.into()),
        ntasks: Some(2),
        ..ask()
    };
    assert_eq!(
        few.jobspec(),
        Err(AskError::MoreNodesThanTasks { nodes: 3, tasks: 2 })
    );
    let lone = Ask {
        sharing: Sharing::Exclusive,
        ..ask()
    };
    assert_eq!(lone.jobspec(), Err(AskError::ExclusiveWithoutNodes));
}

#[test]
fn nothing_can_be_asked_for_zero_times_or_too_often() {
    for ask in [
        Ask {
            ntasks: Some(0),
            ..ask()
        },
        Ask {
            nodes: Some(0.into()),
            ..ask()
        },
        Ask {
            nodes: Some(0.into()),
            ntasks: Some(0),
            ..ask()
        },
        Ask {
            cores_per_task: 0,
            ..ask()
        },
        Ask {
            command: vec![],
            ..ask()
        },
        Ask {
            command: vec![String::new()],
            ..ask()
        },
        Ask {
            command: vec!["a\0b".to_owned()],
            ..ask()
        },
        Ask {
            duration: -1,
            ..ask()
        },
        Ask {
            ntasks: Some(u32::MAX),
            ..ask()
        },
    ] {
        assert!(ask.jobspec().is_err(), "{ask:?}");
    }
    let many = Ask {
        ntasks: Some(65_537),
        ..ask()
    }
    .jobspec()
    .unwrap();
    assert!(many.request().is_err());
    assert!(
        Ask {
            ntasks: Some(65_536),
            ..ask()
        }
        .jobspec()
        .unwrap()
        .request()
        .is_ok()
    );
}

#[test]
fn dotted_keys_lead_only_through_tables() {
    let through = |key: &str| {
        let attributes = vec![("a".to_owned(), json!(1)), (key.to_owned(), json!(2))];
        Ask {
            attributes,
            ..ask()
        }
        .jobspec()
    };
    assert!(
        matches!(through("a.b"), Err(AskError::Through { through, .. }) if through == "system.a")
    );
    for key in ["", "a..b", ".", &"x.".repeat(20)] {
        assert!(matches!(through(key), Err(AskError::Key { .. })), "{key}");
    }
    assert!(matches!(through("queue"), Err(AskError::Jobspec(_))));
    assert_eq!(
        through(".user.z").unwrap().attributes.user,
        *json!({ "z": 2 }).as_object().unwrap()
    );
}

#[test]
fn shapes_that_come_down_to_slots_are_served() {
    let core = json!({ "type": "core", "count": 4 });
    let node_in_slot = json!([{ "type": "slot", "count": 3, "label": "task", "with": [
        { "type": "node", "count": 1, "with": [core] },
    ] }]);
    let request = with_resources(node_in_slot).unwrap();
    assert_eq!(
        (request.nodes, request.slots, request.sharing),
        (Some(3), 3, Sharing::Exclusive)
    );

    let memory_in_slot = json!([{ "type": "slot", "count": "[2]", "label": "task", "with": [
        core, { "type": "memory", "count": 4, "unit": "GB" },
    ] }]);
    let request = with_resources(memory_in_slot).unwrap();
    assert_eq!(
        (request.slots, request.memory),
        (2, MemoryNeed::PerTask(4 << 30))
    );

    let memory_on_node = json!([{ "type": "node", "count": { "min": 2, "max": 2 }, "exclusive": true, "with": [
        { "type": "memory", "count": 1, "unit": "T" },
        { "type": "slot", "count": 1, "label": "task", "with": [core] },
    ] }]);
    let request = with_resources(memory_on_node).unwrap();
    assert_eq!(
        (request.nodes, request.memory),
        (Some(2), MemoryNeed::PerNode(1 << 40))
    );
    assert_eq!(request.sharing, Sharing::Exclusive);
}

#[test]
fn shapes_that_are_not_served_yet_are_named() {
    let slot = json!({ "type": "slot", "count": 1, "label": "task", "with": [{ "type": "core", "count": 1 }] });
    let in_slot =
        |with: Value| json!([{ "type": "slot", "count": 1, "label": "task", "with": with }]);
    let cases = [
        (
            json!([{ "type": "rack", "count": 1, "with": [slot] }]),
            "resources[0]: type `rack` is not supported here by this scheduler yet; it serves node, socket, slot, core, gpu and memory",
        ),
        (
            json!([{ "type": "node", "count": 1, "with": [{ "type": "numa", "count": 1, "with": [slot] }] }]),
            "resources[0].with[0]: type `numa` is not supported here by this scheduler yet; it serves node, socket, slot, core, gpu and memory",
        ),
        (
            json!([{ "type": "socket", "count": 1, "with": [{ "type": "l3cache", "count": 1, "with": [slot] }] }]),
            "resources[0].with[0]: type `l3cache` is not supported here by this scheduler yet; it serves node, socket, slot, core, gpu and memory",
        ),
        (
            json!([{ "type": "socket", "count": "1-2", "with": [slot] }]),
            "resources[0].count: count `1-2` leaves a choice, which this scheduler does not support yet but for nodes",
        ),
        (
            json!([{ "type": "socket", "count": 1, "with": [slot, { "type": "gpu", "count": 1 }] }]),
            "resources[0].with: 2 resources side by side are not supported by this scheduler yet; it serves one",
        ),
        (
            in_slot(json!([{ "type": "socket", "count": 1 }, { "type": "core", "count": 1 }])),
            "resources[0].with: something beside a socket in a slot is not supported by this scheduler yet",
        ),
        (
            in_slot(
                json!([{ "type": "socket", "count": 1, "with": [{ "type": "memory", "count": 1 }] }]),
            ),
            "resources[0].with[0]: memory of a socket is not supported by this scheduler yet; allowed is that of a node or an attribute",
        ),
        (
            in_slot(json!([{ "type": "socket", "count": 1, "exclusive": false }])),
            "resources[0].with[0].exclusive: sharing what is in a slot is not supported by this scheduler",
        ),
        (
            json!([slot, { "type": "core", "count": 1 }]),
            "resources: 2 resources side by side are not supported by this scheduler yet; it serves one",
        ),
        (
            json!([{ "type": "slot", "count": "2+", "label": "task", "with": [{ "type": "core", "count": 1 }] }]),
            "resources[0].count: count `2+` leaves a choice, which this scheduler does not support yet but for nodes",
        ),
        (
            in_slot(json!([{ "type": "gpu", "count": 1 }])),
            "resources[0]: a slot without cores is supported on whole nodes only",
        ),
        (
            in_slot(json!([{ "type": "core", "count": 1 }, { "type": "core", "count": 1 }])),
            "resources[0].with[1]: type `core` is there a second time",
        ),
        (
            in_slot(
                json!([{ "type": "node", "count": 2, "with": [{ "type": "core", "count": 1 }] }]),
            ),
            "resources[0].with[0]: a slot of 2 nodes is not supported by this scheduler yet; allowed is 1",
        ),
        (
            in_slot(json!([{ "type": "core", "count": 1, "id": "3" }])),
            "resources[0].with[0].id: choosing by id is not supported by this scheduler yet",
        ),
        (
            in_slot(
                json!([{ "type": "core", "count": 1 }, { "type": "memory", "count": 1, "unit": "pages" }]),
            ),
            "resources[0].with[1]: 1 of unit `pages` are not an amount of memory",
        ),
    ];
    for (resources, line) in cases {
        assert_eq!(with_resources(resources).unwrap_err().to_string(), line);
    }
}

/// The whole line said of the plain jobspec when the value at `pointer` is replaced.
fn refusal(pointer: &str, value: Value) -> String {
    let mut document = plain();
    *document.pointer_mut(pointer).unwrap() = value;
    let error = Jobspec::from_value(document).unwrap_err();
    match std::error::Error::source(&error) {
        None => error.to_string(),
        Some(cause) => format!("{error}: {cause}"),
    }
}

#[test]
fn a_refusal_names_the_path() {
    let core = "/resources/0/with/0";
    let system = "/attributes/system";
    let cases = [
        (
            "",
            json!([]),
            "the document: is an array; allowed is an object",
        ),
        ("", json!({}), "version: is missing; allowed is 1"),
        ("/version", json!(2), "version: is 2; allowed are 1 to 1"),
        (
            "/resources",
            json!([]),
            "resources: is empty; allowed is at least one vertex",
        ),
        (
            core,
            json!({ "type": "core", "cuont": 1 }),
            "resources[0].with[0].cuont: unknown key, allowed: type, count, unit, exclusive, with, label, id",
        ),
        (
            core,
            json!({ "type": "core" }),
            "resources[0].with[0].count: is missing; allowed is a whole number, a string or an object",
        ),
        (
            "/resources/0/with/0/count",
            json!(0),
            "resources[0].with[0].count: is 0; allowed are 1 to 2147483647",
        ),
        (
            "/resources/0/with/0/count",
            json!(-1),
            "resources[0].with[0].count: is -1; allowed are 1 to 2147483647",
        ),
        (
            "/resources/0/with/0/count",
            json!(1u64 << 40),
            "resources[0].with[0].count: is 1099511627776; allowed are 1 to 2147483647",
        ),
        (
            "/resources/0/with/0/count",
            json!(1.5),
            "resources[0].with[0].count: is a number with a fraction; allowed is a whole number",
        ),
        (
            "/resources/0/with/0/count",
            json!("3-1"),
            "resources[0].with[0].count: is not a count: idset has the range 3-1 at position 0; the last must not be below the first",
        ),
        (
            "/resources/0/with/0/count",
            json!("0-3"),
            "resources[0].with[0].count: is not a count: count holds 0; allowed are 1 to 2147483647",
        ),
        (
            "/resources/0/with/0/count",
            json!({ "min": 0 }),
            "resources[0].with[0].count.min: is 0; allowed are 1 to 2147483647",
        ),
        (
            "/resources/0/with/0/count",
            json!({ "max": 1 }),
            "resources[0].with[0].count.min: is missing; allowed is a whole number",
        ),
        (
            "/resources/0/with/0/count",
            json!({ "min": 1, "operator": "-" }),
            "resources[0].with[0].count.operator: is not a count: range has the operator `-`; allowed are +, * and ^",
        ),
        (
            "/resources/0/label",
            json!("else"),
            "tasks[0].slot: no slot has the label \"task\"",
        ),
        (
            "/resources/0/with",
            json!(null),
            "resources[0].with: is null; allowed is an array",
        ),
        (
            "/tasks/0/command",
            json!("true"),
            "tasks[0].command: is a string; allowed is an array",
        ),
        (
            "/tasks/0/command",
            json!([]),
            "tasks[0].command: is empty; allowed is at least the program",
        ),
        (
            "/tasks/0/command/0",
            json!("a\u{0}"),
            "tasks[0].command[0]: holds a NUL character",
        ),
        (
            "/tasks/0/count",
            json!({ "total": 65537 }),
            "tasks[0].count.total: is 65537; allowed are 1 to 65536",
        ),
        (
            "/tasks/0/count",
            json!({}),
            "tasks[0].count: is \"none or several\"; allowed is exactly one of per_slot, per_resource and total",
        ),
        (
            "/attributes",
            json!({ "sytsem": {} }),
            "attributes.sytsem: unknown key, allowed: system, user",
        ),
        (
            "/attributes/system/duration",
            json!(-1),
            "attributes.system.duration: is not a duration: duration `-1` is negative; allowed are 0 and more",
        ),
        (
            "/attributes/system/duration",
            json!("1h"),
            "attributes.system.duration: is a string; allowed is a number of seconds",
        ),
        (
            "/attributes/system/duration",
            json!(1e30),
            "attributes.system.duration: is not a duration: duration `1000000000000000000000000000000` is over 4294967295 seconds",
        ),
        (
            system,
            json!({ "queue": 3 }),
            "attributes.system.queue: is a whole number; allowed is a string",
        ),
        (
            system,
            json!({ "environment": { "A": 3 } }),
            "attributes.system.environment.A: is a whole number; allowed is a string",
        ),
        (
            system,
            json!({ "memory_per_node": "4X" }),
            "attributes.system.memory_per_node: is not an amount of memory: `X` is not a unit; allowed are B, K, M, G, T, P and E, as K, KB or KiB",
        ),
        (
            system,
            json!({ "memory_per_node": 0 }),
            "attributes.system.memory_per_node: is 0; allowed are 1 to 9223372036854775807",
        ),
        (
            system,
            json!({ "memory_per_node": 1, "memory_per_task": 1 }),
            "attributes.system.memory_per_task: is given beside another of memory_per_node, memory_per_core, memory_per_task",
        ),
        (
            system,
            json!({ "dependencies": [{ "scheme": "afterok" }] }),
            "attributes.system.dependencies[0].value: is missing; allowed is a string",
        ),
        (
            system,
            json!({ "shell": { "options": [] } }),
            "attributes.system.shell.options: is an array; allowed is an object",
        ),
    ];
    for (pointer, value, line) in cases {
        assert_eq!(refusal(pointer, value), line);
    }
}

#[test]
fn attributes_of_others_are_kept() {
    let mut document = plain();
    document["attributes"] = json!({
        "system": { "duration": 0, "preemptible-after": 60.5, "shell": { "options": { "pty": 1 }, "x": 1 } },
        "user": { "anything": { "at": ["all"] } },
    });
    let jobspec = Jobspec::from_value(document.clone()).unwrap();
    assert_eq!(serde_json::to_value(&jobspec).unwrap(), document);
    assert_eq!(jobspec.name(), "hostname");
}

#[test]
fn yaml_is_read_and_json_is_written() {
    let yaml = "
version: 1
resources:
  - type: node
    count: 2
    with:
      - {type: slot, count: 2, label: default, with: [{type: core, count: 3}]}
tasks:
  - command: [hostname, -f]
    slot: default
    count: {per_slot: 1}
attributes:
  system:
    duration: 3600.
    memory_per_core: 512M
";
    let jobspec = Jobspec::parse(yaml.as_bytes()).unwrap();
    let request = jobspec.request().unwrap();
    assert_eq!(
        (request.nodes, request.slots, request.cores_per_slot),
        (Some(2), 4, 3)
    );
    assert_eq!(request.duration, Some(3_600_000_000));
    assert_eq!(request.memory, MemoryNeed::PerCore(512 << 20));
    assert_eq!(
        Jobspec::parse(jobspec.to_json().as_bytes()).unwrap(),
        jobspec
    );
    let nan = yaml.replace("3600.", ".nan");
    assert!(Jobspec::parse(nan.as_bytes()).is_err());
    assert!(Jobspec::parse(yaml.replace("3600.", ".inf").as_bytes()).is_err());
}
