//! Slots that lie in sockets: shapes, options, what is refused.

use eddy_wire::jobspec::{Ask, Jobspec, Sharing, SocketGroup};
use serde_json::{Value, json};

use crate::values_jobspec::{plain, with_resources};

#[test]
fn slots_lie_in_sockets_and_sockets_in_slots() {
    let slot = |count: u32, with: Value| json!({ "type": "slot", "count": count, "label": "task", "with": with });
    let core = json!({ "type": "core", "count": 3 });
    let gpu = json!({ "type": "gpu", "count": 1 });
    let socket = |count: u32, with: Value| {
        let mut socket = json!({ "type": "socket", "count": count });
        if with != json!([]) {
            socket["with"] = with;
        }
        socket
    };
    let slots = slot(2, json!([core, gpu]));
    let mut alone = socket(4, json!([slots]));
    alone["exclusive"] = json!(true);
    let whole = |each: u32, with: Value| slot(5, json!([socket(each, with)]));
    let on = |nodes: u32, with: Value| json!({ "type": "node", "count": nodes, "with": [with] });
    let group = |sockets, slots, cores, gpus, sharing| SocketGroup {
        sockets,
        slots,
        cores,
        gpus,
        sharing,
    };
    let (shared, exclusive) = (Sharing::Shared, Sharing::Exclusive);
    // What is asked for; nodes, slots, those on each node, cores and GPUs of a slot; the group.
    let cases = [
        (
            socket(4, json!([slots])),
            (None, 8, 8, 3, 1),
            group(1, 2, 6, 2, shared),
        ),
        (
            on(2, socket(4, json!([slots]))),
            (Some(2), 16, 8, 3, 1),
            group(4, 8, 6, 2, shared),
        ),
        (alone, (None, 8, 8, 3, 1), group(1, 2, 6, 2, exclusive)),
        (
            whole(2, json!([core])),
            (None, 5, 5, 6, 0),
            group(2, 1, 3, 0, exclusive),
        ),
        (
            whole(1, json!([])),
            (None, 5, 5, 0, 0),
            group(1, 1, 1, 0, exclusive),
        ),
        (
            on(3, whole(2, json!([]))),
            (Some(3), 15, 5, 0, 0),
            group(10, 5, 1, 0, exclusive),
        ),
    ];
    for (resource, (nodes, slots, per_node, cores, gpus), group) in cases {
        let request = with_resources(json!([resource])).expect("it is served");
        let numbers = (request.nodes, request.slots, request.slots_per_node);
        assert_eq!(numbers, (nodes, slots, per_node), "{resource}");
        assert_eq!(
            (request.cores_per_slot, request.gpus_per_slot),
            (cores, gpus),
            "{resource}"
        );
        assert_eq!(request.sockets, Some(group), "{resource}");
        assert_eq!(
            (request.ntasks, request.sharing),
            (slots, shared),
            "{resource}"
        );
    }
}

#[test]
fn sockets_are_asked_for_in_a_few_words() {
    let resource = |ask: Ask| {
        let ask = Ask {
            command: vec!["a".to_owned()],
            ..ask
        };
        let jobspec = ask.jobspec().expect("a jobspec");
        let request = jobspec.request().expect("it is served");
        let group = request.sockets.expect("sockets");
        (group.sockets, group.slots, request.slots, request.ntasks)
    };
    let tasks = |count, most| Ask {
        ntasks: Some(count),
        tasks_per_socket: Some(most),
        ..Ask::default()
    };
    let on_two = |ask: Ask| Ask {
        nodes: Some(2.into()),
        ..ask
    };
    // Sockets and slots of a group; slots and tasks in all.
    assert_eq!(resource(tasks(4, 2)), (1, 2, 4, 4));
    assert_eq!(resource(tasks(5, 4)), (1, 3, 6, 5));
    assert_eq!(resource(tasks(1, 4)), (1, 1, 1, 1));
    assert_eq!(resource(on_two(tasks(8, 2))), (2, 4, 8, 8));
    assert_eq!(resource(on_two(tasks(7, 3))), (2, 4, 8, 7));
}

#[test]
fn memory_for_each_core_of_whole_sockets_is_refused() {
    let whole = json!([{ "type": "slot", "count": 1, "label": "task", "with": [{ "type": "socket", "count": 1 }] }]);
    let asked = |key: &str| {
        let mut document = plain();
        document["resources"] = whole.clone();
        document["attributes"]["system"][key] = json!("1G");
        Jobspec::from_value(document).and_then(|jobspec| jobspec.request())
    };
    assert!(asked("memory_per_node").is_ok());
    assert_eq!(
        asked("memory_per_core").unwrap_err().to_string(),
        "attributes.system.memory_per_core: sockets with memory for each core, where they are whole, are not supported by this scheduler yet"
    );
}
