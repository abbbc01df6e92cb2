//! `eddy demo`, `eddy demo survive` and `eddy demo tree-tax`: what they count and show, and that
//! nothing is left of them.

use std::fs;
use std::str::FromStr;

use anyhow::Context;
use eddy_cli_tests::place::Place;
use eddy_cli_tests::running::Running;
use rustix::process::Signal;

type Tested = anyhow::Result<()>;

/// The number that stands before this word in a line.
fn before(line: &str, word: &str) -> anyhow::Result<u64> {
    parsed_before(line, word)
}

/// The same with places behind the point.
fn figure(line: &str, word: &str) -> anyhow::Result<f64> {
    parsed_before(line, word)
}

fn parsed_before<N>(line: &str, word: &str) -> anyhow::Result<N>
where
    N: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    let (head, _) = line
        .split_once(word)
        .with_context(|| format!("no `{word}` in {line}"))?;
    let number = head.trim_end().rsplit(' ').next().unwrap_or_default();
    number
        .parse()
        .with_context(|| format!("before `{word}` in {line}"))
}

/// Neither a process nor a file.
fn nothing_is_left(place: &Place) -> Tested {
    place.nothing_is_left()?;
    for folder in ["tmp", "run/eddy"] {
        let path = place.path().join(folder);
        let kept: Vec<_> = fs::read_dir(&path).into_iter().flatten().collect();
        assert!(kept.is_empty(), "{folder}: {kept:?}");
    }
    Ok(())
}

/// The line in which this stands.
fn line<'a>(out: &'a str, part: &str) -> anyhow::Result<&'a str> {
    let mut lines = out.lines();
    let line = lines.find(|line| line.contains(part));
    line.with_context(|| format!("no `{part}` in {out}"))
}

/// Sums of figures that were rounded to a tenth each.
fn adds_up(parts: &[f64], all: f64) -> bool {
    (parts.iter().sum::<f64>() - all).abs() < 0.051 * (parts.len() + 1) as f64
}

/// The wide job is promised a start, and begins no later.
fn the_claim_is_kept(out: &str) -> Tested {
    let promised = line(out, "it is promised to begin ")?;
    let latest = figure(promised, "s after it came, at the latest")?;
    let begun = line(out, "its claim was kept")?;
    let waited = figure(begun, "s after it came, ")?;
    let early = figure(begun, "s before the time that was promised")?;
    assert!(waited >= 0.0 && early >= 0.0, "{begun}");
    assert!(adds_up(&[waited, early], latest), "{promised}\n{begun}");
    assert!(out.find(promised) < out.find(begun), "{out}");
    Ok(())
}

/// One instance alone held cores of a node, later the other.
fn a_node_moves(out: &str) -> Tested {
    let moves = line(out, " moves from ")?;
    let (from, to) = match moves.contains(" moves from batch to debug: ") {
        true => ("batch", "debug"),
        false => ("debug", "batch"),
    };
    let held = format!(" to {to}: {from} held ");
    let holds = format!(" later {to} holds ");
    for words in [held, holds] {
        let (_, rest) = moves.split_once(&words).context(words)?;
        let cores: String = rest.chars().take_while(char::is_ascii_digit).collect();
        assert!((1..=4).contains(&cores.parse::<u32>()?), "{moves}");
    }
    let counted = line(out, " between batch and debug ")?;
    assert!(counted.ends_with(" seen"), "{counted}");
    Ok(())
}

/// What each account used is all that jobs had, and what all cores were for is all there was.
fn all_is_accounted_for(out: &str) -> Tested {
    let physics = line(out, ": physics: shares 3, due 75.0 %")?;
    let chemistry = line(out, ": chemistry: shares 1, due 25.0 %")?;
    let parts = [figure(physics, "%: ")?, figure(chemistry, "%: ")?];
    assert!(adds_up(&parts, 100.0), "{physics}\n{chemistry}");
    let word = "core-seconds";
    let theirs = [figure(physics, word)?, figure(chemistry, word)?];
    let together = line(out, ": together ")?;
    let sum = figure(together, "core-seconds, exactly")?;
    assert!(adds_up(&theirs, sum), "{physics}\n{chemistry}\n{together}");
    let identity = line(out, "not one is missing or there twice")?;
    let jobs = figure(identity, "of jobs,")?;
    let instance = figure(identity, "of the workflow's instance,")?;
    let rest = figure(identity, "idle or down;")?;
    assert!(adds_up(&[jobs, instance], sum), "{together}\n{identity}");
    let capacity = figure(identity, "core-seconds:")?;
    assert!(adds_up(&[jobs, instance, rest], capacity), "{identity}");
    Ok(())
}

#[test]
fn accounts_and_instances_share_a_tree_and_nothing_is_lost_of_it() -> Tested {
    let place = Place::new()?;
    let out = place.run(&["demo"])?.ok()?;
    the_claim_is_kept(&out)?;
    a_node_moves(&out)?;
    for whose in ["queue instance batch", "the root"] {
        let killed = format!(" of {whose} with SIGKILL");
        assert!(before(line(&out, &killed)?, &killed)? > 0, "{out}");
    }
    // The root, a queue's instance, and the three of the workflow.
    line(&out, " in 5 levels")?;
    all_is_accounted_for(&out)?;
    let last = out.lines().last().context("no output")?;
    assert_eq!(before(last, "jobs accepted")?, 49, "{last}");
    assert_eq!(before(last, "ran,")?, 49, "{last}");
    nothing_is_left(&place)
}

#[test]
fn a_tree_whose_leaders_and_agents_are_killed_loses_nothing_and_leaves_nothing() -> Tested {
    let place = Place::new()?;
    let out = place.run(&["demo", "survive", "--seconds", "20"])?.ok()?;
    let last = out.lines().last().context("no output")?;
    let submitted = before(last, "jobs submitted")?;
    assert!(
        submitted >= 32,
        "each instance has a batch from each feeder: {last}"
    );
    assert_eq!(before(last, "ran,")?, submitted, "{last}");
    for word in ["lost,", "doubled,", "orphaned processes;"] {
        assert_eq!(before(last, word)?, 0, "{last}");
    }
    let kills: Vec<&str> = out
        .lines()
        .filter(|line| line.contains(": killed "))
        .collect();
    // The root, its queue instance, the two of the workflow, and two hosts: each has a turn.
    assert_eq!(kills.len(), 6, "{out}");
    let agents = kills.iter().filter(|line| line.contains(": killed agent "));
    assert_eq!(agents.count(), 2, "{out}");
    // Who is told at the end to have been killed is who was killed.
    for kill in kills {
        let name = kill
            .split(" of ")
            .nth(1)
            .and_then(|rest| rest.split(';').next());
        let name = name.context("whose leader")?;
        assert!(!last.contains(&format!("{name} 0")), "{last}");
    }
    nothing_is_left(&place)
}

#[test]
fn a_job_that_is_lost_is_counted_and_named() -> Tested {
    let place = Place::new()?;
    // What the tasks call `sleep` kills the first of them.
    fs::create_dir(place.path().join("bin"))?;
    let once = place.join("once");
    let text =
        format!("#!/bin/sh\nmkdir {once} 2>/dev/null && kill -9 $PPID\nexec /bin/sleep \"$@\"\n");
    place.script("bin/sleep", &text)?;
    let mut command = place.eddy(&["demo", "survive", "--seconds", "6"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", place.join("bin")));
    let ran = Running::start(command)?.wait()?;
    assert_eq!(ran.code, 1, "{}", ran.out);
    let lost = "eddy demo survive: a promise is broken: lost: ";
    assert!(ran.refusal()?.starts_with(lost), "{}", ran.err);
    let last = ran.out.lines().last().context("no output")?;
    assert_eq!(before(last, "lost,")?, 1, "{last}");
    assert_eq!(before(last, "doubled,")?, 0, "{last}");
    nothing_is_left(&place)
}

#[test]
fn a_demo_that_is_interrupted_takes_everything_with_it() -> Tested {
    let place = Place::new()?;
    let demo = Running::start(place.eddy(&["demo", "survive", "--seconds", "600"]))?;
    demo.prints(": killed ")?;
    demo.signal(Signal::INT)?;
    let ran = demo.wait()?;
    assert_eq!((ran.code, ran.err.as_str()), (130, ""), "{}", ran.out);
    let last = ran.out.lines().last().unwrap_or_default();
    assert!(last.starts_with("eddy demo: told to end: "), "{last}");
    assert_eq!(before(last, "processes outlived")?, 0);
    nothing_is_left(&place)
}

#[test]
fn the_same_jobs_wait_longest_where_each_group_has_its_half() -> Tested {
    let place = Place::new()?;
    let out = place.run(&["demo", "tree-tax"])?.ok()?;
    let ratio = |name: &str| -> anyhow::Result<f64> {
        let mut lines = out.lines().filter(|line| line.contains("mean wait"));
        let line = lines.find(|line| line.contains(name));
        let line = line.with_context(|| format!("no `{name}` in {out}"))?;
        let head = line.strip_suffix(" of one queue's").context("a ratio")?;
        Ok(head.rsplit(' ').next().unwrap_or_default().parse()?)
    };
    // Whatever else this machine does: what that costs is in what they are held against, too.
    for name in ["one queue:", "elastic"] {
        let ratio = ratio(name)?;
        assert!((0.8..1.2).contains(&ratio), "{out}");
    }
    let (elastic, halves) = (ratio("elastic")?, ratio("halves")?);
    assert!(halves > elastic && halves > 1.2, "{out}");
    nothing_is_left(&place)
}
