//! Jobs that span ranks, shells by seat, ranks that come and go.

use std::sync::Arc;

use crate::instance::{Instance, ended, part};
use eddy_broker::{Arrival, ParentWord};
use eddy_wire::event::Kind;
use eddy_wire::grant::Grant;
use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::services::child::{ChildOf, Granted};
use eddy_wire::shell::{FromShell, PartState, Role, ToShell};
use eddy_wire::time::Span;
use serde_json::json;

const OVER: [&str; 4] = ["finish", "release", "free", "clean"];

#[test]
fn a_job_over_three_ranks_starts_when_all_run_and_ends_with_the_worst_of_them() {
    let mut i = Instance::with(3);
    i.submit(3, 7, &json!({}));
    let starts: Vec<_> = i
        .starts()
        .iter()
        .map(|s| (s.shell, s.node_index, s.first_task, s.ntasks, s.job_nnodes))
        .collect();
    let expected = [
        (Epoch(1), 0, 0, 3, 3),
        (Epoch(2), 1, 3, 2, 3),
        (Epoch(3), 2, 5, 2, 3),
    ];
    assert_eq!(starts, expected);
    i.started(1, 0);
    i.started(1, 2);
    assert_eq!(i.life(1, "start"), [""; 0]);
    i.started(1, 1);
    assert_eq!(i.life(1, "start"), ["start"]);
    i.ended(1, 1, ended(3 << 8, None));
    assert_eq!(i.signals(), [], "a task that fails ends no other");
    i.ended(1, 0, ended(0, None));
    i.ended(1, 2, ended(0, None));
    assert_eq!(i.life(1, "finish"), OVER);
    let mut kinds = i.records.iter().map(|record| &record.event.kind);
    assert_eq!(kinds.find_map(Kind::finish), Some(3 << 8));
}

#[test]
fn a_rank_that_cannot_start_its_tasks_ends_the_job_on_the_others() {
    let mut i = Instance::with(3);
    i.submit(3, 3, &json!({}));
    i.clear();
    i.started(1, 0);
    i.ended(1, 1, ended(127 << 8, Some("no such program")));
    let exec = ("exec".to_owned(), "rank 1: no such program".to_owned());
    assert_eq!(i.exceptions(1), [exec]);
    assert_eq!(i.signals(), [(0, 15), (2, 15)]);
    i.ended(1, 0, ended(15, None));
    i.ended(1, 2, ended(15, None));
    assert_eq!(i.life(1, "finish"), OVER);
}

#[test]
fn a_rank_whose_shell_dies_fails_the_job_by_its_name_and_gets_another_shell() {
    let mut i = Instance::with(3);
    i.submit(3, 3, &json!({}));
    (0..3).for_each(|rank| i.started(1, rank));
    i.clear();
    i.act(Arrival::ShellAway(Epoch(3)));
    assert_eq!(i.checked, [Epoch(3)]);
    i.act(Arrival::ShellDead(Epoch(3)));
    assert_eq!(i.exceptions(1)[0].0, "node-failure");
    assert_eq!(i.exceptions(1)[0].1, "the shell on rank 2 died");
    assert_eq!(i.launched, [("2".to_owned(), Epoch(4))]);
    assert_eq!(i.signals(), [(0, 15), (1, 15)]);
}

#[test]
fn a_rank_that_is_not_reached_is_down_and_its_job_is_not_lost() {
    let mut i = Instance::with(2);
    i.submit(2, 2, &json!({}));
    (0..2).for_each(|rank| i.started(1, rank));
    i.clear();
    i.reach("0");
    i.act(Arrival::ShellAway(Epoch(2)));
    assert_eq!(i.checked, [], "nobody there could be asked");
    i.submit(0, 5, &json!({}));
    assert_eq!(i.life(2, "alloc"), [""; 0], "it is given to nobody");
    i.reach("0-1");
    assert_eq!(i.checked, [Epoch(2)]);
    i.hello(2, &[(part(1, 1), PartState::Running { t: i.now })]);
    assert_eq!(i.exceptions(1), []);
    assert_eq!(i.life(2, "alloc"), ["alloc"]);
}

#[test]
fn shells_are_launched_as_ranks_are_reached_and_never_twice() {
    let mut i = Instance::asleep(4);
    i.resume();
    assert_eq!(i.launched, [("0".to_owned(), Epoch(1))]);
    i.reach("0-2");
    assert_eq!(
        i.launched[1..],
        [("1".to_owned(), Epoch(2)), ("2".to_owned(), Epoch(3))]
    );
    i.reach("0,2");
    i.reach("0-2");
    assert_eq!(i.launched.len(), 3);
    assert_eq!(i.checked, [Epoch(2)]);
    i.restart();
    assert_eq!(
        (i.launched.len(), i.checked.as_slice()),
        (0, &[Epoch(1)][..])
    );
    i.reach("0-3");
    assert_eq!(i.launched, [("3".to_owned(), Epoch(4))]);
    assert_eq!(i.checked, [Epoch(1), Epoch(2), Epoch(3)]);
}

#[test]
fn a_seat_whose_shells_keep_dying_waits_and_the_others_do_not() {
    let mut i = Instance::with(3);
    for epoch in [2, 4, 5, 6] {
        i.act(Arrival::ShellDead(Epoch(epoch)));
    }
    let last = i.launched.last().cloned();
    assert_eq!(
        last,
        Some(("1".to_owned(), Epoch(6))),
        "the third after the first was the last"
    );
    i.act(Arrival::ShellDead(Epoch(3)));
    assert_eq!(i.launched.last(), Some(&("2".to_owned(), Epoch(7))));
    i.tick_after(61);
    assert_eq!(i.launched.last(), Some(&("1".to_owned(), Epoch(8))));
}

#[test]
fn ground_is_cleared_when_the_leader_has_ended_and_only_then_is_the_job_over() {
    let mut i = Instance::with(3);
    i.submit(3, 3, &json!({"instance": {}}));
    let roles: Vec<_> = i
        .starts()
        .iter()
        .map(|s| (s.role, s.ntasks, s.job_ntasks))
        .collect();
    let expected = [
        (Role::Leader, 1, 1),
        (Role::Ground, 0, 1),
        (Role::Ground, 0, 1),
    ];
    assert_eq!(roles, expected);
    (0..3).for_each(|rank| i.started(1, rank));
    assert_eq!(i.life(1, "start"), ["start"]);
    i.clear();
    i.ended(1, 0, ended(7 << 8, None));
    assert_eq!(i.signals(), [(1, 9), (2, 9)]);
    assert_eq!(i.life(1, "finish"), [""; 0]);
    // Another leader learns the same, in whatever order the shells come.
    i.restart();
    i.reach("0-2");
    i.clear();
    let running = PartState::Running { t: i.now };
    i.hello(3, &[(part(1, 2), running.clone())]);
    assert_eq!(i.signals(), []);
    i.hello(1, &[(part(1, 0), PartState::Ended(ended(7 << 8, None)))]);
    i.hello(2, &[(part(1, 1), running)]);
    assert_eq!(i.signals(), [(1, 9), (2, 9), (1, 9)]);
    i.ended(1, 1, ended(9, None));
    i.ended(1, 2, ended(9, None));
    assert_eq!(i.life(1, "finish"), OVER);
    assert_eq!(i.exceptions(1), []);
    let finish = i
        .records
        .iter()
        .any(|record| record.event.kind == Kind::Finish(7 << 8));
    assert!(finish, "the end of its leader is its end");
}

#[test]
fn an_instance_that_is_cancelled_hears_term_at_its_leader_and_kill_everywhere() {
    let mut i = Instance::with(2);
    i.submit(2, 2, &json!({"instance": {}}));
    (0..2).for_each(|rank| i.started(1, rank));
    i.clear();
    i.call(
        "job.raise",
        &json!({"jobs": {"ranges": [[1, 1]]}, "type": "cancel", "severity": 0}),
    );
    if i.told.is_empty() {
        panic!("not cancelled: {:?}", i.answers);
    }
    assert_eq!(i.signals(), [(0, 15)]);
    i.tick_after(6);
    assert_eq!(i.signals(), [(0, 9), (1, 9)]);
}

/// What a job was granted last.
fn grant(i: &Instance, job: u64) -> Arc<Grant> {
    let of = i.records.iter().rev();
    let mut of = of.filter(|record| record.event.job == Some(JobId(job)));
    let grant = of.find_map(|record| match &record.event.kind {
        Kind::Alloc(grant) | Kind::GrantChanged(grant) => Some(Arc::clone(grant)),
        _ => None,
    });
    grant.expect("it was granted something")
}

#[test]
fn an_instance_goes_on_without_the_node_that_it_lost_and_gives_it_back() {
    let mut i = Instance::with(2);
    i.submit(2, 2, &json!({"instance": {}}));
    (0..2).for_each(|rank| i.started(1, rank));
    let before = grant(&i, 1);
    i.clear();
    i.act(Arrival::ShellDead(Epoch(2)));
    assert_eq!(i.exceptions(1), []);
    assert_eq!(i.signals(), []);
    let left = grant(&i, 1);
    assert_eq!(left.epoch, Epoch(2));
    assert_eq!(left.set.ranks(), Idset::one(0));
    // What it gave back is for others.
    i.hello(3, &[]);
    i.submit(2, 2, &json!({}));
    assert_eq!(grant(&i, 2).set.nodes[&Rank(1)], before.set.nodes[&Rank(1)]);
    i.ended(1, 0, ended(0, None));
    assert_eq!(i.life(1, "finish"), OVER);
}

#[test]
fn an_instance_that_has_not_begun_needs_all_of_its_nodes() {
    let mut i = Instance::with(2);
    i.submit(2, 2, &json!({"instance": {}}));
    i.started(1, 0);
    i.act(Arrival::ShellDead(Epoch(2)));
    assert_eq!(i.exceptions(1)[0].0, "node-failure");
    assert_eq!(i.signals(), [(0, 15)]);
    i.ended(1, 0, ended(0, None));
    assert_eq!(i.life(1, "finish"), OVER);
}

#[test]
fn ground_that_never_began_is_no_loss_once_the_leader_has_ended() {
    let mut i = Instance::with(2);
    i.submit(2, 2, &json!({"instance": {}}));
    i.clear();
    i.ended(1, 0, ended(0, None));
    assert_eq!(i.signals(), [(1, 9)]);
    let (part, why) = (part(1, 1), "it is not held here".to_owned());
    i.act(Arrival::Shell(Epoch(2), FromShell::NotMine { part, why }));
    assert_eq!(i.life(1, "finish"), OVER);
    assert_eq!(i.exceptions(1), []);
}

#[test]
fn jobs_end_in_time_for_their_instance_to_end() {
    let mut i = Instance::asleep(1);
    i.settings.place.until = Some(i.now.after(Span::seconds(100)));
    i.settings.place.reserve = Span::seconds(6);
    i.restart();
    i.hello(1, &[]);
    i.submit(0, 1, &json!({}));
    i.submit(0, 1, &json!({"duration": 10}));
    (1..3).for_each(|job| i.started(job, 0));
    i.tick_after(11);
    assert_eq!(i.exceptions(2)[0].1, "its time limit of 10 s is over");
    assert_eq!(i.exceptions(1), []);
    // 100 s less what its parent has it keep for its end.
    i.tick_after(84);
    let note = "the time limit of the instance that it runs in is over";
    assert_eq!(i.exceptions(1), [("timeout".to_owned(), note.to_owned())]);
}

#[test]
fn a_parent_that_says_how_much_time_is_left_is_believed() {
    let mut i = Instance::with(1);
    i.submit(0, 1, &json!({}));
    i.started(1, 0);
    let grant = i
        .records
        .iter()
        .find_map(|record| match &record.event.kind {
            Kind::Alloc(grant) => Some(Grant::clone(grant)),
            _ => None,
        });
    let granted = Granted {
        ranks: [(Rank(0), Rank(0))].into(),
        room: None,
        grant: grant.expect("it has a grant"),
        path: "1".to_owned(),
        depth: 1,
        remaining: Some(Span::seconds(20)),
        reserve: Span::seconds(6),
        kill_grace: Span::seconds(5),
        local: Idset::one(0),
        leaving: Idset::new(),
        within: std::collections::BTreeMap::new(),
        beside: Default::default(),
        name: None,
        mock: None,
        access: Default::default(),
        queues: Vec::new(),
        closed: Vec::new(),
    };
    i.act(Arrival::Parent(ParentWord::Granted(Box::new(granted))));
    i.tick_after(13);
    assert_eq!(i.exceptions(1), []);
    i.tick_after(2);
    assert_eq!(i.exceptions(1)[0].0, "timeout");
}

/// A request for so many nodes, under that key.
fn addition(count: u32, key: u128) -> serde_json::Value {
    json!({"count": count, "key": uuid::Uuid::from_u128(key)})
}

#[test]
fn an_addition_that_is_asked_for_again_is_made_once() {
    let mut i = Instance::with(2);
    assert_eq!(i.call("overlay.add", &addition(2, 1)), "[2,3]");
    assert_eq!(i.call("overlay.add", &addition(2, 1)), "[2,3]");
    assert_eq!(i.call("overlay.add", &addition(1, 2)), "[4]");
    let other = i.call("overlay.add", &addition(3, 1));
    assert!(
        other.contains("added 2 nodes, now 3 are asked for"),
        "{other}"
    );
    i.restart();
    assert_eq!(i.call("overlay.add", &addition(2, 1)), "[2,3]");
    assert_eq!(i.call("overlay.add", &addition(1, 3)), "[5]");
}

#[test]
fn an_instance_in_an_instance_neither_grows_nor_shrinks_by_itself() {
    let mut i = Instance::asleep(2);
    let (job, attempt) = (JobId(7), Attempt(1));
    i.settings.place.child = Some(ChildOf { job, attempt });
    i.restart();
    let asked = [
        ("overlay.add", addition(1, 1)),
        ("overlay.remove", json!({"ranks": "1"})),
    ];
    for (topic, request) in asked {
        let refused = i.call(topic, &request);
        assert!(refused.contains("is job f8 of another"), "{refused}");
    }
}

#[test]
fn ranks_that_were_added_stay_and_those_removed_never_come_back() {
    let mut i = Instance::with(2);
    assert_eq!(i.call("overlay.add", &addition(2, 1)), "[2,3]");
    i.reach("0-3");
    assert_eq!(
        i.launched,
        [("2".to_owned(), Epoch(3)), ("3".to_owned(), Epoch(4))]
    );
    i.hello(3, &[]);
    i.hello(4, &[]);
    i.submit(4, 4, &json!({}));
    assert_eq!(i.life(1, "alloc"), ["alloc"]);
    let held = i.call("overlay.remove", &json!({"ranks": "3"}));
    assert!(held.contains("holds rank 3"), "{held}");
    let local = i.call("overlay.remove", &json!({"ranks": "0"}));
    assert!(local.contains("leader's own node"), "{local}");
    (0..4).for_each(|rank| i.started(1, rank));
    (0..4).for_each(|rank| i.ended(1, rank, ended(0, None)));
    i.clear();
    assert_eq!(i.call("overlay.remove", &json!({"ranks": "1,3"})), "null");
    let exits = i.told.iter().filter(|(_, told)| *told == ToShell::Exit);
    assert_eq!(
        exits.map(|(epoch, _)| *epoch).collect::<Vec<_>>(),
        [Epoch(2), Epoch(4)]
    );
    assert_eq!(
        i.call("overlay.remove", &json!({"ranks": "3"})),
        "null",
        "again"
    );
    i.restart();
    let list = i.call("resource.list", &json!(null));
    assert!(list.contains("\"nodelist\":[\"n[0,2]\"]"), "{list}");
    assert_eq!(i.call("overlay.add", &addition(1, 2)), "[4]");
    let none = i.call("overlay.add", &addition(0, 3));
    assert!(none.contains("count: 0 given"), "{none}");
    // Told otherwise than before, what is told counts, but for what was removed.
    i.settings.inventory = Instance::asleep(6).settings.inventory;
    i.restart();
    let list = i.call("resource.list", &json!(null));
    assert!(list.contains("\"nodelist\":[\"n[0,2,4-5]\"]"), "{list}");
}

#[test]
fn what_takes_nothing_starts_at_once_beside_a_full_queue() {
    let mut i = Instance::with(3);
    i.submit(3, 12, &json!({}));
    i.submit(3, 12, &json!({}));
    i.call(
        "resource.drain",
        &json!({"targets": {"ranks": "2"}, "reason": "r"}),
    );
    i.clear();
    i.submit(
        2,
        2,
        &json!({"beside": true, "constraints": {"ranks": ["1-2"]}}),
    );
    let starts = i.starts();
    let ranks: Vec<_> = starts
        .iter()
        .map(|s| (s.part.rank.0, s.ntasks, s.cores.len()))
        .collect();
    assert_eq!(ranks, [(1, 1, 0), (2, 1, 0)]);
    let list = i.call("resource.list", &json!(null));
    assert!(
        list.contains("\"allocated\":{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"0-2\"")
    );
    i.restart();
    assert_eq!(
        i.life(3, "alloc"),
        ["alloc"],
        "the record of nothing is read again"
    );
}

#[test]
fn input_reaches_the_rank_that_has_the_task_and_its_end_all() {
    let mut i = Instance::with(3);
    i.submit(3, 6, &json!({}));
    i.clear();
    i.call("job.input", &json!({"id": 1, "tasks": "2-3"}));
    let epochs = |i: &mut Instance| -> Vec<u64> {
        let told = std::mem::take(&mut i.told).into_iter();
        let input = told.filter(|(_, told)| matches!(told, ToShell::Input { .. }));
        input.map(|(epoch, _)| epoch.0).collect()
    };
    assert_eq!(epochs(&mut i), [2]);
    i.call("job.input", &json!({"id": 1, "tasks": "0-2147483647"}));
    assert_eq!(epochs(&mut i), [1, 2, 3]);
    i.call("job.input", &json!({"id": 1, "eof": true}));
    assert_eq!(epochs(&mut i), [1, 2, 3]);
}

#[test]
fn output_is_read_on_each_rank_from_where_the_reader_is() {
    let mut i = Instance::with(3);
    i.submit(3, 3, &json!({}));
    i.clear();
    i.call(
        "job.output",
        &json!({"id": 1, "offsets": [10, 20], "follow": true}),
    );
    let reads: Vec<_> = std::mem::take(&mut i.told)
        .into_iter()
        .filter_map(|(epoch, told)| match told {
            ToShell::Read { read, offset, .. } => Some((epoch.0, read, offset)),
            _ => None,
        })
        .collect();
    let places: Vec<_> = reads
        .iter()
        .map(|(epoch, _, offset)| (*epoch, *offset))
        .collect();
    assert_eq!(places, [(1, 10), (2, 20), (3, 0)]);
    for (epoch, read, offset) in reads {
        i.answers.clear();
        let (next, frames, end) = (offset + 5, vec![0; 5], true);
        let output = FromShell::Output {
            read,
            next,
            frames,
            end,
        };
        i.act(Arrival::Shell(Epoch(epoch), output));
        let body = format!("\"node_index\":{},\"next\":{next}", epoch - 1);
        assert!(i.answers[0].contains(&body), "{:?}", i.answers);
    }
    assert_eq!(i.answers.len(), 2, "the last part and the end");
}

#[test]
fn a_start_that_a_restart_overtook_is_sent_again_and_an_end_is_recorded_once() {
    let mut i = Instance::with(2);
    i.submit(2, 2, &json!({}));
    // Granted, nothing heard: both are sent again to the shells that know nothing.
    i.restart();
    i.reach("0-1");
    i.hello(1, &[]);
    i.hello(2, &[(part(1, 1), PartState::Running { t: i.now })]);
    let ranks: Vec<_> = i.starts().iter().map(|s| s.part.rank.0).collect();
    assert_eq!(ranks, [0]);
    i.started(1, 0);
    assert_eq!(i.life(1, "start"), ["start"]);
    i.ended(1, 0, ended(0, None));
    // Started: one has ended meanwhile, the other tells of its end to the next leader.
    i.restart();
    i.reach("0-1");
    i.hello(2, &[(part(1, 1), PartState::Ended(ended(0, None)))]);
    assert_eq!(i.life(1, "finish"), [""; 0]);
    i.hello(1, &[(part(1, 0), PartState::Ended(ended(0, None)))]);
    assert_eq!(i.life(1, "finish"), OVER);
    // Over: what a shell still holds is forgotten.
    i.restart();
    i.reach("0-1");
    i.clear();
    i.hello(2, &[(part(1, 1), PartState::Ended(ended(0, None)))]);
    let forgets = i
        .told
        .iter()
        .any(|(_, told)| *told == ToShell::Forget { part: part(1, 1) });
    assert!(forgets, "{:?}", i.told);
}

#[test]
fn ground_is_asked_for_where_the_instance_is_not_and_ends_with_it() {
    let mut i = Instance::with(3);
    i.submit(1, 1, &json!({"instance": {}}));
    i.submit(1, 1, &json!({"grows": 1}));
    // It waits until the instance runs, and lies beside it though there is room.
    i.started(1, 0);
    assert_eq!(grant(&i, 2).set.ranks(), Idset::one(1));
    i.submit(1, 1, &json!({"grows": 1}));
    assert_eq!(grant(&i, 3).set.ranks(), Idset::one(2));
    let roles: Vec<_> = i.starts().into_iter().map(|start| start.role).collect();
    assert_eq!(roles, [Role::Leader, Role::Ground, Role::Ground]);
    let full = i.submit(1, 1, &json!({"grows": 1}));
    assert!(full.starts_with("{\"first\":4"), "{full}");
    i.started(2, 1);
    i.clear();
    i.ended(1, 0, ended(0, None));
    assert_eq!(i.life(1, "finish"), OVER);
    // One began and one did not: both are cleared; who waited is told why.
    assert_eq!(i.signals(), [(1, 9), (2, 9)]);
    i.ended(2, 1, ended(9, None));
    i.ended(3, 2, ended(9, None));
    assert_eq!(i.life(2, "finish"), OVER);
    assert_eq!(i.life(3, "finish"), OVER);
    i.tick_after(0);
    let why = "job 1, which was to grow by it, is over";
    assert_eq!(i.exceptions(4), [("cancel".to_owned(), why.to_owned())]);
}

#[test]
fn ground_that_loses_a_node_before_it_has_begun_fails() {
    let mut i = Instance::with(3);
    i.submit(1, 1, &json!({"instance": {}}));
    i.started(1, 0);
    i.submit(2, 2, &json!({"grows": 1}));
    assert_eq!(grant(&i, 2).set.ranks().len(), 2);
    i.started(2, 1);
    i.act(Arrival::ShellDead(Epoch(3)));
    let (kind, note) = i.exceptions(2).pop().expect("it is told");
    assert_eq!(kind, "node-failure", "{note}");
}

#[test]
fn ground_for_what_is_no_instance_of_his_is_refused_by_name() {
    let mut i = Instance::with(3);
    i.submit(1, 1, &json!({}));
    i.submit(1, 1, &json!({"instance": {}}));
    for (system, why) in [
        (json!({"grows": 1}), "that is no instance of user"),
        (json!({"grows": 3}), "that is no instance of user"),
        (json!({"grows": "x"}), "the number of a job"),
        (json!({"grows": 2, "beside": true}), "ground of nobody"),
    ] {
        let refused = i.submit(1, 1, &system);
        assert!(refused.contains(why), "{system}: {refused}");
    }
    let wide = i.submit(3, 3, &json!({"grows": 2}));
    assert!(wide.contains("asks for 3 nodes"), "{wide}");
    i.sender.0 = 1000;
    // Nor is it said that another has one.
    let others = i.submit(1, 1, &json!({"grows": 2}));
    let nobodys = i.submit(1, 1, &json!({"grows": 9}));
    assert!(others.contains("no instance of user 1000"), "{others}");
    assert_eq!(others.replace("2 given", "9 given"), nobodys);
}
