//! What is the same on every thread: schedules, which are functions of their input.

use std::thread;

use eddy_sched::policy::{PRESETS, preset};
use eddy_sched::sim::{Course, Events, Foresight, Machine, Scene, play, read_json};
use eddy_wire::resource_set::ResourceSet;

const NODES: &str = r#"{"version": 1, "execution": {"starttime": 0, "expiration": 0,
    "R_lite": [{"rank": "0-3", "children": {"core": "0-3"}}], "nodelist": ["node[0-3]"]}}"#;

/// Forty jobs of five users, of sizes and lengths that differ.
fn workload() -> String {
    let job = |id: u64| {
        format!(
            r#"{{"id": {id}, "submit": {}, "run": {}, "limit": {}, "procs": {}, "user": "u{}"}}"#,
            id / 3,
            1 + id * 7 % 13,
            1 + id * 7 % 13 + id % 4,
            1 + id * 5 % 9,
            id % 5
        )
    };
    let jobs: Vec<String> = (1..=40).map(job).collect();
    format!(r#"{{"jobs": [{}]}}"#, jobs.join(","))
}

fn played(name: &str) -> Course {
    let workload = read_json(workload().as_bytes()).expect("a workload");
    let machine = Machine::of(&ResourceSet::parse(NODES).expect("nodes"));
    let policy = preset(name).expect("a preset");
    let scene = Scene {
        workload: &workload,
        machine: &machine,
        foresight: Foresight::Requested,
        events: Events::Batch,
    };
    play(scene, &policy, |_| {}).expect("it is replayed")
}

#[test]
fn every_preset_schedules_alike_on_every_thread() {
    for preset in PRESETS {
        let here = played(preset.name);
        let there = thread::spawn(|| played(preset.name)).join();
        assert_eq!(here, there.expect("it ends"), "{}", preset.name);
    }
}
