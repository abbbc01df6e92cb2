//! Standard input of running jobs with real processes: it is whole whatever is killed while it flows, nobody keeps
//! what a task does not read, and where some of it is lost that is said.

use std::fs::{self, File};
use std::io::{PipeWriter, Write};
use std::process::Command;
use std::thread::JoinHandle;

use anyhow::Context;
use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::running::{LIMIT, Ran, Running};

type Tested = anyhow::Result<()>;

/// Bytes of a line, so that a hole or a repetition shows where it is.
const LINE: usize = 1_000;
/// Bytes that a task reads between two kills: more than is kept on the way.
const STEP: usize = 2_000_000;

/// A command that reads what the test writes.
fn fed(mut command: Command) -> anyhow::Result<(Running, PipeWriter)> {
    let (read, write) = std::io::pipe()?;
    command.stdin(read);
    Ok((Running::start(command)?, write))
}

fn lines(count: usize) -> Vec<u8> {
    let line = |number| format!("{number:>width$}\n", width = LINE - 1);
    (0..count).map(line).collect::<String>().into_bytes()
}

/// Writes all of it, as it is read, then ends it.
fn written(mut pipe: PipeWriter, bytes: Vec<u8>) -> JoinHandle<std::io::Result<()>> {
    std::thread::spawn(move || pipe.write_all(&bytes))
}

/// A script that keeps its input, and tells each time that it has read another step of it.
fn keeping(steps: usize) -> String {
    format!("for i in $(seq {steps}); do head -c {STEP}; echo $i >told; done >in.txt; cat >>in.txt")
}

/// Sends input by this command while something is killed so many times; all of it arrives.
fn is_whole(
    root: &Instance,
    words: &[&str],
    kills: usize,
    mut kill: impl FnMut() -> Tested,
) -> Tested {
    let mut tells = root.place.fifo("told")?;
    let sent = lines((kills + 1) * STEP / LINE + 7);
    let script = keeping(kills);
    let (run, pipe) = fed(root.eddy(&[words, &["sh", "-c", &script]].concat()))?;
    let writer = written(pipe, sent.clone());
    for _ in 0..kills {
        tells.line()?;
        kill()?;
    }
    let ran = run.wait()?;
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
    writer.join().expect("it does not panic")?;
    let got = fs::read(root.place.join("in.txt"))?;
    let at = got.iter().zip(&sent).position(|(got, sent)| got != sent);
    assert_eq!((got.len(), at), (sent.len(), None));
    Ok(())
}

#[test]
fn input_is_whole_although_the_leader_is_killed_while_it_flows() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    is_whole(&instance, &["run"], 3, || {
        let leader = instance.leader()?;
        leader.kill()?;
        assert!(leader.ends_within(LIMIT));
        instance.start_again()
    })
}

#[test]
fn input_is_whole_although_the_agent_of_its_rank_is_killed() -> Tested {
    let instance = Instance::start(&["--size=2", "--cores=1"])?;
    let words = ["run", "--requires", "rank:1", "-n1"];
    is_whole(&instance, &words, 2, || {
        let state = instance.place.join("state/ranks/1");
        let mut found = instance.place.processes();
        found.retain(|one| one.is_eddy("agent") && one.arguments.contains(&state));
        // One that it has just made has its arguments, too.
        let agent = found.iter().min_by_key(|one| one.pid);
        let agent = agent.context("an agent of rank 1")?;
        agent.kill()?;
        assert!(agent.ends_within(LIMIT));
        Ok(())
    })
}

#[test]
fn input_is_whole_although_the_leader_of_the_instance_it_is_for_is_killed() -> Tested {
    let root = Instance::start(&["--cores=2"])?;
    let child = root.ok(&["alloc", "-n2", "--bg"])?;
    let state = root.state_of("1.1")?;
    is_whole(&root, &["--at", &child, "run"], 2, || {
        let leader = leader_of(&state)?;
        leader.kill()?;
        assert!(leader.ends_within(LIMIT));
        Ok(())
    })
}

#[test]
fn a_task_that_does_not_read_holds_up_who_writes_and_loses_nothing() -> Tested {
    const ALL: usize = 70_000_000;
    let instance = Instance::start(&["--cores=3"])?;
    let mut gate = instance.place.fifo("gate")?;
    // One reads at once; the other sets the pace.
    let script = "test $EDDY_TASK_RANK = 0 || read line <gate; wc -c";
    let (run, mut pipe) = fed(instance.eddy(&["run", "-n2", "sh", "-c", script]))?;
    let sent = vec![b'x'; ALL];
    // So much is taken although one of them reads nothing.
    pipe.write_all(&sent[..1 << 20])?;
    let writer = written(pipe, sent[1 << 20..].to_vec());
    instance.ok(&["run", "true"])?;
    assert!(!writer.is_finished(), "nobody keeps all of it");
    gate.let_go(1)?;
    let ran = run.wait()?;
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.out, format!("{ALL}\n{ALL}\n"));
    Ok(writer.join().expect("it does not panic")?)
}

#[test]
fn the_program_of_an_instance_has_all_of_a_long_input() -> Tested {
    const ALL: usize = 70_000_000;
    let instance = Instance::start(&["--cores=2"])?;
    let mut gate = instance.place.fifo("gate")?;
    let (alloc, pipe) =
        fed(instance.eddy(&["alloc", "-n1", "sh", "-c", "read line <gate; wc -c"]))?;
    let writer = written(pipe, vec![b'x'; ALL]);
    gate.let_go(1)?;
    let ran = alloc.wait()?;
    assert_eq!((ran.code, ran.out), (0, format!("{ALL}\n")), "{}", ran.err);
    Ok(writer.join().expect("it does not panic")?)
}

#[test]
fn who_reads_no_more_ends_it_as_in_a_pipe() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let mut run = instance.eddy(&["run", "head", "-c", "3"]);
    run.stdin(File::open("/dev/zero")?);
    let ran = Running::start(run)?.wait()?;
    assert_eq!((ran.code, ran.out.len(), ran.err.as_str()), (0, 3, ""));
    Ok(())
}

/// Sends `sent` to a job that is requeued once it has read so much of it, and then counts what it reads.
fn requeued(instance: &Instance, sent: Vec<u8>, first: usize) -> anyhow::Result<Ran> {
    let mut tells = instance.place.fifo("told")?;
    let script = format!(
        "test -e began && exec wc -c; touch began; head -c {first} >/dev/null; echo >told; exec sleep 1000"
    );
    let (run, pipe) = fed(instance.eddy(&["run", "sh", "-c", &script]))?;
    let writer = written(pipe, sent);
    tells.line()?;
    let job = instance.ok(&["jobs", "--no-header", "-o", "{id}"])?;
    instance.ok(&["job", "requeue", &job])?;
    let ran = run.wait()?;
    // Of what is lost nobody reads the rest.
    drop(writer);
    Ok(ran)
}

#[test]
fn another_attempt_reads_a_short_input_from_its_beginning() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let ran = requeued(&instance, lines(900), 900 * LINE)?;
    let printed = (ran.code, ran.out.as_str());
    assert_eq!(printed, (0, "900000\n"), "{}", ran.err);
    assert!(!ran.err.contains("cut"), "{}", ran.err);
    Ok(())
}

#[test]
fn another_attempt_after_a_long_input_reads_its_end_and_that_is_said() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let ran = requeued(&instance, lines(9_000), 3_000 * LINE)?;
    assert_eq!((ran.code, ran.out.as_str()), (1, "0\n"), "{}", ran.err);
    let said = "eddy run: standard input is cut: the tasks have 0 bytes of it, and what is kept here begins at ";
    assert!(ran.err.contains(said), "{}", ran.err);
    Ok(())
}

#[test]
fn whose_input_another_ended_is_told() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let mut gate = instance.place.fifo("gate")?;
    let script = "cat; echo ended; read line <gate";
    let (run, mut pipe) = fed(instance.eddy(&["run", "sh", "-c", script]))?;
    pipe.write_all(b"first\n")?;
    run.prints("first")?;
    let job = instance.ok(&["jobs", "--no-header", "-o", "{id}"])?;
    let attach = Running::start_with_input(instance.eddy(&["job", "attach", &job]), b"second\n")?;
    run.prints("second\nended")?;
    pipe.write_all(b"third\n")?;
    run.complains("standard input is cut: somebody else who sends input to the job ended it")?;
    gate.let_go(1)?;
    assert_eq!(run.wait()?.code, 1);
    assert_eq!(attach.wait()?.code, 0);
    Ok(())
}
