//! Whole trees from seeds, and what single knocks come to.

mod world;

use super::*;
use eddy_wire::error::Code;
use eddy_wire::id::Epoch;
use eddy_wire::tree::{ATTENDANT, Address, Tenure, Word};
use world::World;

fn event(number: u64) -> Letter {
    Letter {
        to: Address::Below,
        from: Rank(0),
        tenure: Tenure::default(),
        word: Word::Event {
            number,
            topic: "rank-reached".to_owned(),
            body: serde_json::Value::Null,
        },
    }
}

fn launch(from: u32, to: u32) -> Letter {
    Letter {
        to: Address::Rank(Rank(to)),
        from: Rank(from),
        tenure: Tenure::default(),
        word: Word::LaunchShell { epoch: Epoch(1) },
    }
}

/// Leader and followers, all come and at rest.
fn tree(seed: u64, size: u32, fanout: u32) -> World {
    let mut world = World::new(seed, fanout);
    for rank in 0..size {
        world.start(rank);
        world.run_for(Span::millis(50));
    }
    whole(&mut world, size);
    world
}

/// Every living rank is reached once, by ways that end at the leader, and
/// letters come through.
fn whole(world: &mut World, size: u32) {
    let leader = world.of(0).expect("leads");
    for rank in 1..size {
        let process = world.of(rank).expect("lives");
        let member = world.processes[leader].reached.get(&Rank(rank));
        let why = &world.processes[process].upstream;
        let member = member.unwrap_or_else(|| panic!("rank {rank} is not reached: {why:?}"));
        assert_eq!(member.life, world.processes[process].life);
        let mut at = process;
        for _ in 0..size {
            if world.processes[at].rank == Rank(0) {
                break;
            }
            let above = match &world.processes[at].upstream {
                Some(Upstream::Linked(above)) => above.0,
                other => panic!("rank {rank}: {other:?}"),
            };
            assert!(above < world.processes[at].rank.0, "no ring");
            at = world.of(above).expect("what one hangs under lives");
        }
        assert_eq!(world.processes[at].rank, Rank(0));
    }
    assert_eq!(world.processes[leader].reached.len(), size as usize - 1);
    (1..size).for_each(|rank| world.write_down(rank));
    world.input(leader, OverlayInput::Send(event(7)));
    world.run_for(Span::seconds(1));
    (1..size).for_each(|rank| world.write_up(rank));
    world.run_for(Span::seconds(1));
    for rank in 1..size {
        for (taken, sent) in [world.down_counts(rank), world.up_counts(rank)] {
            assert!(sent > 0);
            assert_eq!(taken, sent, "rank {rank}");
        }
        let process = world.of(rank).expect("lives");
        let events = std::mem::take(&mut world.processes[process].letters);
        let sevens = events.into_iter().filter(|letter| *letter == event(7));
        assert_eq!(sevens.count(), 1, "rank {rank} hears of an event once");
    }
}

fn strike(world: &mut World, size: u32) {
    let pipe = match world.pipes() {
        0 => 0,
        pipes => world.dice.roll(pipes as u64) as usize,
    };
    let rank = world.dice.roll(u64::from(size)) as u32;
    match world.dice.roll(100) {
        0..40 => world.write_down(rank.max(1)),
        40..80 => world.write_up(rank.max(1)),
        80..90 if world.pipes() > 0 => world.cut(pipe),
        90..92 if world.pipes() > 0 => world.silence(pipe),
        92..96 => {
            let process = world.of(rank).expect("lives");
            world.kill(process);
            world.start(rank);
        }
        _ => {
            let span = Span::millis(world.dice.roll(400) as i64);
            world.run_for(span);
        }
    }
}

fn storm(seed: u64) {
    let size = 2 + (seed % 39) as u32;
    let mut world = World::new(seed, 1 + (seed / 39 % 4) as u32);
    (0..size).for_each(|rank| {
        world.start(rank);
    });
    world.dials_lost = 30;
    for _ in 0..400 {
        strike(&mut world, size);
        let span = Span(world.dice.roll(10_000) as i64);
        world.run_for(span);
    }
    world.dials_lost = 0;
    world.run_for(Span::seconds(60));
    whole(&mut world, size);
}

#[test]
fn a_tree_heals_and_letters_of_a_tenure_come_in_order_and_once() {
    // The last two found a gap in a tenure and a letter of an older one.
    for seed in (0..400).chain([1883, 15_935]) {
        storm(seed);
    }
}

#[test]
fn ranks_that_come_in_order_hang_by_the_shape_of_the_tree() {
    let world = tree(1, 22, 4);
    let leader = &world.processes[0].overlay;
    for rank in 1..22 {
        let parent = Rank((rank - 1) / 4);
        assert_eq!(leader.parent_of(Rank(rank)), Some(parent));
        let upstream = world.processes[rank as usize].upstream.clone();
        assert_eq!(upstream, Some(Upstream::Linked(parent)));
    }
    assert_eq!(leader.parent_of(Rank(99)), None);
    assert_eq!(leader.links().len(), 4);
}

#[test]
fn ranks_that_come_all_at_once_hang_by_the_shape_of_the_tree() {
    let mut world = World::new(12, 2);
    for rank in std::iter::once(0).chain((1..15).rev()) {
        world.start(rank);
    }
    world.run_for(Span::seconds(1));
    for rank in 1..15 {
        let upstream = world
            .of(rank)
            .map(|at| world.processes[at].upstream.clone());
        assert_eq!(upstream, Some(Some(Upstream::Linked(Rank((rank - 1) / 2)))));
    }
}

#[test]
fn the_agent_of_the_leaders_node_hangs_under_the_leader() {
    let mut world = tree(13, 4, 2);
    let attendant = world.start(ATTENDANT.0);
    world.run_for(Span::seconds(1));
    let upstream = world.processes[attendant].upstream.clone();
    assert_eq!(upstream, Some(Upstream::Linked(Rank(0))));
    assert!(world.processes[0].reached.contains_key(&ATTENDANT));
}

#[test]
fn a_pipe_that_breaks_and_comes_again_loses_and_doubles_nothing() {
    let mut world = tree(2, 8, 2);
    let tenure_starts = world.processes[0].reached.clone();
    for round in 0..200 {
        (1..8).for_each(|rank| world.write_down(rank));
        (1..8).for_each(|rank| world.write_up(rank));
        let before = world.outputs;
        let pipe = (0..world.pipes())
            .filter(|pipe| world.is_whole(*pipe))
            .nth(round % 7);
        world.cut(pipe.expect("seven links"));
        world.run_for(Span::millis(60));
        assert!(world.outputs > before);
        assert_eq!(world.processes[0].reached, tenure_starts);
    }
    world.run_for(Span::seconds(1));
    for rank in 1..8 {
        assert_eq!(
            world.down_counts(rank),
            (201, 201),
            "rank {rank}, one tenure"
        );
        assert_eq!(world.up_counts(rank), (201, 201), "rank {rank}, one tenure");
    }
}

#[test]
fn a_dead_parent_s_children_come_to_the_next_above() {
    let mut world = tree(3, 7, 2);
    world.kill(2);
    world.run_for(Span::seconds(2));
    let leader = &world.processes[0];
    assert!(!leader.reached.contains_key(&Rank(2)));
    for rank in [5, 6] {
        assert!(leader.reached.contains_key(&Rank(rank)), "rank {rank}");
        assert_eq!(leader.overlay.parent_of(Rank(rank)), Some(Rank(0)));
    }
}

#[test]
fn what_hangs_under_a_rank_that_is_cut_off_finds_another_way() {
    let mut world = tree(10, 7, 2);
    world.unheard = world.of(1);
    world.cut(0);
    world.run_for(Span::seconds(9));
    assert_eq!(world.processes[0].reached.len(), 3, "1, 3 and 4 are lost");
    world.run_for(Span::seconds(11));
    let reached: Vec<u32> = world.processes[0].reached.keys().map(|r| r.0).collect();
    assert_eq!(reached, [2, 3, 4, 5, 6]);
    world.unheard = None;
    world.run_for(Span::seconds(7));
    whole(&mut world, 7);
}

#[test]
fn a_parent_that_does_not_answer_is_passed_over() {
    let mut world = tree(11, 3, 2);
    world.deaf = world.of(1);
    let late = world.start(3);
    world.run_for(Span::seconds(6));
    let upstream = world.processes[late].upstream.clone();
    assert_eq!(upstream, Some(Upstream::Linked(Rank(0))));
}

#[test]
fn a_rank_that_takes_nothing_is_given_up_by_name() {
    let mut world = tree(12, 2, 2);
    world.silence(0);
    let mut word = launch(0, 1);
    word.word = Word::Event {
        number: 1,
        topic: String::new(),
        body: "x".repeat(1 << 20).into(),
    };
    for _ in 0..100 {
        world.input(0, OverlayInput::Send(word.clone()));
    }
    let lost = world.lost.last().expect("it is lost");
    assert!(lost.contains("the other end does not keep up"), "{lost}");
    world.run_for(Span::seconds(1));
    whole(&mut world, 2);
}

#[test]
fn two_agents_for_one_rank_are_told_and_the_first_stays() {
    let mut world = tree(4, 7, 2);
    for rank in [1, 5] {
        let first = world.of(rank).expect("lives");
        let second = world.start(rank);
        world.run_for(Span::seconds(3));
        let reached = world.processes[0].reached[&Rank(rank)].life;
        assert_eq!(reached, world.processes[first].life);
        let Some(Upstream::Alone(text)) = &world.processes[second].upstream else {
            panic!("{:?}", world.processes[second].upstream);
        };
        let (one, two) = (world.processes[first].life, world.processes[second].life);
        let told = format!(
            "rank {rank} is held by life {one}; life {two} knocks: two agents for one rank"
        );
        assert!(text.contains(&told), "{text}");
        world.kill(first);
        world.run_for(Span::seconds(3));
        let reached = world.processes[0].reached[&Rank(rank)].life;
        assert_eq!(reached, two, "when the first is gone the second comes in");
    }
}

#[test]
fn a_reborn_rank_is_lost_before_it_is_reached() {
    let mut world = tree(5, 4, 2);
    world.kill(3);
    world.start(3);
    world.run_for(Span::millis(150));
    whole(&mut world, 4);
}

#[test]
fn a_follower_without_leader_knocks_for_ever_and_says_so() {
    let mut world = World::new(6, 2);
    let alone = world.start(3);
    world.run_for(Span::seconds(60));
    let Some(Upstream::Alone(text)) = &world.processes[alone].upstream else {
        panic!("{:?}", world.processes[alone].upstream);
    };
    assert_eq!(
        text,
        "no way up since 1.000000: the leader's door: nobody is there"
    );
    assert!(
        (60..400).contains(&world.outputs),
        "{} in 60 s",
        world.outputs
    );
    world.start(0);
    world.run_for(Span::seconds(2));
    assert_eq!(
        world.processes[alone].upstream,
        Some(Upstream::Linked(Rank(0)))
    );
}

#[test]
fn a_letter_for_nobody_comes_back() {
    let mut world = tree(7, 7, 2);
    for from in [0u32, 5] {
        world.input(from as usize, OverlayInput::Send(launch(from, 77)));
        world.run_for(Span::seconds(1));
        let letters = &world.processes[from as usize].letters;
        let unreachable = Word::Unreachable { rank: Rank(77) };
        let back = letters.iter().filter(|letter| letter.word == unreachable);
        assert_eq!(back.count(), 1, "to rank {from}");
    }
}

#[test]
fn ranks_write_to_each_other_by_the_nearest_way() {
    let mut world = tree(8, 7, 2);
    world.input(5, OverlayInput::Send(launch(5, 6)));
    world.input(5, OverlayInput::Send(launch(5, 3)));
    let next = Letter {
        to: Address::Next,
        ..launch(5, 0)
    };
    world.input(5, OverlayInput::Send(next.clone()));
    world.run_for(Span::seconds(1));
    assert_eq!(world.processes[6].letters, [launch(5, 6)]);
    assert_eq!(world.processes[3].letters, [launch(5, 3)]);
    assert_eq!(world.processes[2].letters, [next]);
}

#[test]
fn a_letter_over_a_path_that_does_not_hold_is_dropped() {
    let mut world = tree(13, 7, 2);
    world.input(5, OverlayInput::Send(launch(3, 0)));
    world.input(3, OverlayInput::Send(launch(3, 0)));
    world.run_for(Span::seconds(1));
    assert_eq!(world.processes[0].letters, [launch(3, 0)], "rank 3's own");
}

#[test]
fn an_idle_tree_wakes_once_per_five_seconds_and_link() {
    let mut world = tree(9, 7, 2);
    world.run_for(Span::seconds(10));
    let before = world.outputs;
    world.run_for(Span::seconds(100));
    // Each end of six links: a heartbeat and the next wake, twenty times.
    let outputs = world.outputs - before;
    assert!(outputs <= 12 * 20 * 2 + 24, "{outputs} outputs");
}

fn seat(rank: u32) -> Seat {
    Seat {
        instance: "one".to_owned(),
        job: None,
        rank: Rank(rank),
        life: Uuid::from_u128(1),
        door: "here".to_owned(),
        leader: "leader".to_owned(),
        fanout: 16,
    }
}

fn knock(overlay: &mut Overlay, change: impl Fn(&mut Hello)) -> HelloAnswer {
    let mut hello = Hello {
        protocol: (PROTOCOL_MIN, PROTOCOL_MAX),
        instance: "one".to_owned(),
        job: None,
        rank: Rank(5),
        life: Uuid::from_u128(2),
        door: "there".to_owned(),
        heard: None,
    };
    change(&mut hello);
    let mut out = Vec::new();
    overlay.handle(Time(0), OverlayInput::Knock(PipeId(2), hello), &mut out);
    let answer = out.into_iter().find_map(|output| match output {
        OverlayOutput::Answer(PipeId(2), answer) => Some(answer),
        _ => None,
    });
    answer.expect("every knock is answered")
}

#[test]
fn who_may_not_come_in_is_told_why() {
    let refused = |rank, change: fn(&mut Hello)| {
        let mut overlay = Overlay::new(seat(rank));
        match knock(&mut overlay, change) {
            HelloAnswer::Refused(refusal) => (refusal.code, refusal.text),
            other => panic!("{other:?}"),
        }
    };
    type Case = (u32, fn(&mut Hello), Code, &'static str);
    let cases: [Case; 6] = [
        (
            0,
            |hello| hello.instance = "other".to_owned(),
            Code::NotFound,
            "instance other is not served here; this is one",
        ),
        (
            0,
            |hello| hello.protocol = (2, 3),
            Code::Invalid,
            "protocol 2 to 3 is spoken by rank 5; here it is 1 to 1",
        ),
        (
            0,
            |hello| hello.rank = Rank(0),
            Code::Conflict,
            "rank 0 is the leader and follows nobody",
        ),
        (
            7,
            |_| {},
            Code::Invalid,
            "rank 5 cannot hang under rank 7: only larger ranks do",
        ),
        (
            0,
            |hello| hello.rank = Rank(u32::MAX),
            Code::TooLarge,
            "rank 4294967295 is over the limit `ranks` of 262144",
        ),
        (3, |_| {}, Code::NotReady, "rank 3 has no way up"),
    ];
    for (rank, change, code, text) in cases {
        assert_eq!(refused(rank, change), (code, text.to_owned()));
    }
}

#[test]
fn who_is_of_another_job_of_the_same_instance_is_refused_by_name() {
    let job = |job, attempt| Some((JobId(job), Attempt(attempt)));
    let leads = |own| {
        Overlay::new(Seat {
            job: own,
            ..seat(0)
        })
    };
    let refused = |given| match knock(&mut leads(job(905, 1)), |hello| hello.job = given) {
        HelloAnswer::Refused(refusal) => (refusal.code, refusal.text),
        other => panic!("{other:?}"),
    };
    let this = format!("of instance one; this is attempt 1 of job {}", JobId(905));
    let earlier = format!("rank 5 is of attempt 2 of job {} {this}", JobId(7));
    assert_eq!(refused(job(7, 2)), (Code::Conflict, earlier));
    let none = format!("rank 5 is of no job {this}");
    assert_eq!(refused(None), (Code::Conflict, none));
    let answer = knock(&mut leads(job(905, 1)), |hello| hello.job = job(905, 1));
    assert!(matches!(answer, HelloAnswer::Welcome { .. }), "{answer:?}");
}

#[test]
fn a_rank_that_is_in_no_inventory_is_refused_by_name() {
    let mut overlay = Overlay::new(seat(0));
    overlay.set_ranks("0-3,7".parse().expect("ranks"));
    let mut refused = |rank: Rank| match knock(&mut overlay, |hello| hello.rank = rank) {
        HelloAnswer::Refused(refusal) => Some((refusal.code, refusal.text)),
        HelloAnswer::Welcome { .. } => None,
        other => panic!("{other:?}"),
    };
    let text = "rank 5 is not in the inventory, which has 0-3,7".to_owned();
    assert_eq!(refused(Rank(5)), Some((Code::NotFound, text)));
    assert_eq!(refused(Rank(7)), None);
    assert_eq!(refused(ATTENDANT), None);
}

#[test]
fn pauses_grow_to_a_second_and_differ() {
    let pauses: Vec<i64> = (1..12).map(|n| upward::pause(Rank(3), n).0).collect();
    assert!((7_500..12_500).contains(&pauses[0]), "{pauses:?}");
    assert!((750_000..=1_250_000).contains(&pauses[10]), "{pauses:?}");
    let others = (1..40).map(|rank| upward::pause(Rank(rank), 8).0);
    let different: std::collections::BTreeSet<i64> = others.collect();
    assert!(different.len() > 30, "{different:?}");
}
