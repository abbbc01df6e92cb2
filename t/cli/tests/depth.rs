//! Instances over several ranks and several levels, with real processes: what
//! is killed in them, what their time limits end, and what they leave.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::place::Place;
use eddy_cli_tests::process::Process;
use eddy_cli_tests::running::{LIMIT, Running};
use eddy_wire::idset::Idset;
use rustix::process::Signal;

type Tested = anyhow::Result<()>;

/// How many instances are there at once.
const MANY: usize = 100;

/// An instance of four nodes of two cores, and a child over three of them.
struct Tree {
    root: Instance,
    child: String,
}

impl Tree {
    fn start() -> anyhow::Result<Tree> {
        let root = Instance::start(&["--size=4", "--cores=2"])?;
        let child = root.ok(&["alloc", "-N3", "--bg"])?;
        let child = root.ok(&["jobs", "--no-header", "-o", "{id.dec}", &child])?;
        Ok(Tree { root, child })
    }

    /// Starts `eddy` in the child.
    fn begin(&self, words: &[&str]) -> anyhow::Result<Running> {
        self.root.begin(&[&["--at", &self.child], words].concat())
    }

    /// Runs `eddy` in the child; what it printed, in order of its lines.
    fn ok(&self, words: &[&str]) -> anyhow::Result<Vec<String>> {
        Ok(sorted(&self.begin(words)?.wait()?.ok()?))
    }

    /// Starts a job over all ranks of the child whose tasks tell their process, wait and tell
    /// their rank; its `eddy run` and its tasks.
    fn spanning(&self) -> anyhow::Result<(Running, Vec<Process>)> {
        let mut tells = self.root.place.fifo("told")?;
        let script = "echo $$ >told; read line <gate; echo ended $EDDY_TASK_RANK";
        let run = self.begin(&["run", "-N3", "-n3", "sh", "-c", script])?;
        let task = |_| {
            let pid = tells.line()?.trim().parse()?;
            Process::of(pid).context("a task has ended")
        };
        let tasks: anyhow::Result<_> = (0..3).map(task).collect();
        Ok((run, tasks?))
    }

    /// Kills in the middle of a job over all its ranks, which goes on; then another one runs.
    fn goes_on_without(&self, kill: impl Fn() -> Tested) -> Tested {
        let mut gate = self.root.place.fifo("gate")?;
        let (run, tasks) = self.spanning()?;
        kill()?;
        assert!(tasks.iter().all(|task| task.hold().is_some()), "they go on");
        gate.let_go(3)?;
        let ran = run.wait()?;
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(sorted(&ran.out), ["ended 0", "ended 1", "ended 2"]);
        assert_eq!(
            self.ok(&["run", "-N3", "-n3", "echo", "fine"])?,
            ["fine"; 3]
        );
        Ok(())
    }

    /// Ends the child, then the root; nothing may be left, neither processes nor sockets.
    fn end(self) -> Tested {
        self.root.ok(&["shutdown", &self.child])?;
        assert_eq!(self.root.code(&self.child)?, 0);
        ends_clean(&self.root)
    }
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Where sockets of running instances are.
fn rundirs(place: &Place) -> Vec<String> {
    let found = fs::read_dir(place.path().join("run/eddy"));
    let names = found.into_iter().flatten().flatten();
    let mut names: Vec<String> = names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    names
}

fn ends_clean(root: &Instance) -> Tested {
    root.shut_down()?;
    let none: [String; 0] = [];
    assert_eq!(rundirs(&root.place), none);
    Ok(())
}

/// The agent of that rank of the root.
fn agent(root: &Instance, rank: u32) -> anyhow::Result<Process> {
    agent_in(root, &root.state().join(format!("ranks/{rank}")))
}

/// The agent with that state directory.
fn agent_in(root: &Instance, state: &Path) -> anyhow::Result<Process> {
    let state = state.display().to_string();
    let mut found = root.place.processes();
    found.retain(|one| one.is_eddy("agent") && one.arguments.contains(&state));
    found.pop().with_context(|| format!("no agent in {state}"))
}

/// The highest rank of the root that a job has.
fn last_of(root: &Instance, job: &str) -> anyhow::Result<u32> {
    let set = root.json(&["job", "info", job, "R"])?;
    let ranks = set["execution"]["R_lite"][0]["rank"].as_str();
    let ranks: Idset = ranks.with_context(|| set.to_string())?.parse()?;
    ranks.iter().last().context("a grant has ranks")
}

/// The state directory of the child that this job is.
fn state_of(root: &Instance, job: &str) -> anyhow::Result<PathBuf> {
    let mut nodes = vec![root.state().to_owned()];
    nodes.extend((1..4).map(|rank| root.state().join(format!("ranks/{rank}"))));
    let mut states = nodes
        .iter()
        .map(|node| node.join(format!("children/{job}.1")));
    // Its other ranks have directories of that name, too, without a journal.
    let state = states.find(|state| state.join("journal.db").is_file());
    state.with_context(|| format!("no state of job {job}"))
}

#[test]
fn a_job_of_a_child_runs_on_all_its_ranks_and_is_cancelled_there() -> Tested {
    let tree = Tree::start()?;
    let place = "echo $EDDY_TASK_RANK $EDDY_JOB_NNODES; echo error >&2";
    let ran = tree
        .begin(&["run", "-N3", "-n3", "sh", "-c", place])?
        .wait()?;
    assert_eq!(sorted(&ran.out), ["0 3", "1 3", "2 3"]);
    assert_eq!(ran.err.matches("error").count(), 3);
    let run = tree
        .root
        .eddy(&["--at", &tree.child, "run", "-N3", "-n3", "cat"]);
    let run = Running::start_with_input(run, b"input\n")?.wait()?;
    assert_eq!(sorted(&run.ok()?), ["input"; 3]);
    let four = tree.begin(&["submit", "-N4", "true"])?.wait()?;
    assert!(
        four.refusal()?.contains("the instance has 3"),
        "{}",
        four.err
    );
    let (_gate, (run, tasks)) = (tree.root.place.fifo("gate")?, tree.spanning()?);
    tree.ok(&["cancel", "--all"])?;
    assert_eq!(run.wait()?.code, 128 + 15);
    assert!(tasks.iter().all(|task| task.ends_within(LIMIT)));
    tree.end()
}

#[test]
fn a_job_of_a_child_goes_on_without_an_agent_that_hosts_it() -> Tested {
    let tree = Tree::start()?;
    let last = last_of(&tree.root, &tree.child)?;
    let first = agent(&tree.root, last)?;
    tree.goes_on_without(|| first.kill())?;
    assert_ne!(agent(&tree.root, last)?.pid, first.pid);
    tree.end()
}

#[test]
fn a_job_of_a_child_goes_on_without_the_childs_leader() -> Tested {
    let tree = Tree::start()?;
    let state = state_of(&tree.root, &tree.child)?;
    let first = leader_of(&state)?;
    tree.goes_on_without(|| first.kill())?;
    assert_ne!(leader_of(&state)?, first);
    tree.end()
}

#[test]
fn a_job_of_a_child_goes_on_without_the_leader_of_the_root() -> Tested {
    let tree = Tree::start()?;
    let leader = leader_of(&state_of(&tree.root, &tree.child)?)?;
    tree.goes_on_without(|| {
        leader_of(tree.root.state())?.kill()?;
        tree.root.start_again()
    })?;
    assert_eq!(leader_of(&state_of(&tree.root, &tree.child)?)?, leader);
    tree.end()
}

/// Two tasks that were let go have said so, and ended well.
fn both_went_down(gated: Running) -> Tested {
    let ran = gated.wait()?;
    let seen = (ran.code, ran.out.as_str());
    assert_eq!(seen, (0, "down\ndown\n"), "{}", ran.err);
    Ok(())
}

#[test]
fn an_instance_in_a_child_spans_ranks_and_outlives_every_leader() -> Tested {
    let tree = Tree::start()?;
    let inner = tree.ok(&["alloc", "-N2", "--bg"])?.concat();
    let path = format!("{}/{inner}", tree.child);
    let run = ["--at", &path, "run", "-N2", "-n2", "sh", "-c"];
    let hello = [&run[..], &["echo $EDDY_TASK_RANK"]].concat();
    assert_eq!(sorted(&tree.root.ok(&hello)?), ["0", "1"]);
    let (mut tells, mut gate) = (tree.root.place.fifo("told")?, tree.root.place.fifo("gate")?);
    let gated = [&run[..], &["echo up >told; read line <gate; echo down"]].concat();
    let gated = tree.root.begin(&gated)?;
    tells.line()?;
    tells.line()?;
    let brokers = tree.root.place.processes();
    let brokers: Vec<_> = brokers.iter().filter(|one| one.is_eddy("broker")).collect();
    assert_eq!(brokers.len(), 3);
    for leader in brokers {
        leader.kill()?;
    }
    tree.root.start_again()?;
    gate.let_go(2)?;
    both_went_down(gated)?;
    tree.root.ok(&["shutdown", &path])?;
    tree.end()
}

#[test]
fn an_instance_in_a_child_grows_onto_the_node_of_its_leader() -> Tested {
    let tree = Tree::start()?;
    let first = ["submit", "--wait-event=start", "-N1", "-x", "sleep", "1000"];
    let first = tree.ok(&first)?.concat();
    let inner = tree.ok(&["alloc", "-N1", "--bg"])?.concat();
    tree.ok(&["cancel", &first])?;
    tree.ok(&["job", "wait-event", &first, "clean"])?;
    let path = format!("{}/{inner}", tree.child);
    let at = |words: &[&str]| tree.root.ok(&[&["--at", &path], words].concat());
    let more = at(&["grant", "ask", "--wait", "-N1", "-n2"])?;
    let nodes = tree.ok(&["jobs", "--no-header", "-o", "{nodelist}", &inner, &more])?;
    assert!(nodes[0].ends_with("-0"), "the other is on {nodes:?}");
    let (mut tells, mut gate) = (tree.root.place.fifo("told")?, tree.root.place.fifo("gate")?);
    let run = ["--at", &path, "run", "-N2", "-n2", "sh", "-c"];
    let gated = [&run[..], &["echo up >told; read line <gate; echo down"]].concat();
    let gated = tree.root.begin(&gated)?;
    tells.line()?;
    tells.line()?;
    // What hosts the rank there goes on without the leader beside it, and is not missed for long itself.
    let state = state_of(&tree.root, &tree.child)?;
    let host = agent_in(&tree.root, &state.join("ranks/0"))?;
    leader_of(&state)?.kill()?;
    host.kill()?;
    gate.let_go(2)?;
    both_went_down(gated)?;
    at(&["run", "-N2", "-n2", "true"])?;
    tree.ok(&["cancel", &more])?;
    tree.ok(&["job", "wait-event", &more, "clean"])?;
    tree.ok(&["run", "-N2", "-n2", "-x", "true"])?;
    tree.root.ok(&["shutdown", &path])?;
    tree.end()
}

#[test]
fn a_time_limit_is_inherited_and_ends_everything_in_order() -> Tested {
    let root = Instance::start(&["--size=2", "--cores=2", "-S", "exec.kill_grace=1s"])?;
    let long = root.ok(&["alloc", "-n1", "-t1m", "--bg"])?;
    let ran = root.run(&["--at", &long, "submit", "-t10m", "true"])?;
    let line = ran.refusal()?;
    assert!(line.contains("attributes.system.duration: 600"), "{line}");
    assert!(line.contains("s left for jobs"), "{line}");
    assert_eq!(
        root.ok(&["--at", &long, "run", "-t10s", "echo", "fits"])?,
        "fits"
    );
    root.ok(&["shutdown", &long])?;
    // Two levels and a task that left its session, over two ranks. Each level ends its jobs so
    // long before its own limit as it takes to kill them, two seconds here.
    let mut tells = root.place.fifo("told")?;
    let eddy = root.place.program();
    let inner = format!(
        "{eddy} alloc -N2 {eddy} run -N2 -n2 sh -c 'setsid sleep 1000 & echo $! >told; wait'"
    );
    let alloc = root.begin(&["alloc", "-N2", "-t8s", "sh", "-c", &inner])?;
    let tasks: anyhow::Result<Vec<_>> = (0..2)
        .map(|_| Ok(Process::of(tells.line()?.trim().parse()?)))
        .collect();
    assert_eq!(alloc.wait()?.code, 128 + 15);
    let mut ended = tasks?.into_iter().flatten();
    assert!(ended.all(|task| task.ends_within(LIMIT)));
    let job = root.ok(&["jobs", "-a", "-c1", "--no-header", "-o", "{id.dec}"])?;
    assert_eq!(root.row(&job)?["result"], "TIMEOUT");
    // It ended itself before its parent had to: the reason is in its own history.
    let program = root.json(&["--at", &job, "jobs", "--json", "1"])?;
    let (result, why) = (&program[0]["result"], &program[0]["reason"]);
    assert_eq!(result, "TIMEOUT", "{program}");
    let over = "the time limit of the instance that it runs in is over";
    assert!(
        why.as_str().is_some_and(|why| why.contains(over)),
        "{program}"
    );
    assert_eq!(
        root.ok(&["run", "-N2", "-n2", "echo", "fine"])?,
        "fine\nfine"
    );
    ends_clean(&root)
}

#[test]
fn a_limit_shorter_than_the_grace_leaves_time_to_run() -> Tested {
    let root = Instance::start(&["--cores=2"])?;
    let eddy = root.place.program();
    let script = format!("{eddy} run echo ran; sleep 1000");
    let words = ["batch", "-t3s", "--wait", "--quiet", "--output=out"];
    let ran = root.run(&[&words[..], &["--wrap", &script]].concat())?;
    assert_eq!(ran.code, 128 + 15, "{}", ran.err);
    let out = fs::read_to_string(root.place.path().join("out"))?;
    assert_eq!(out, "ran\n");
    let row = root.json(&["jobs", "-a", "--json"])?;
    assert_eq!(row[0]["result"], "TIMEOUT", "{row}");
    let took = row[0]["t_finish"].as_f64().zip(row[0]["t_run"].as_f64());
    let took = took.map_or(0.0, |(end, begun)| end - begun);
    assert!((3.0..6.0).contains(&took), "{took}");
    ends_clean(&root)
}

#[test]
fn what_a_child_was_can_be_read_when_it_is_over() -> Tested {
    let root = Instance::start(&["--size=3", "--cores=2"])?;
    let eddy = root.place.program();
    let script =
        format!("{eddy} run -N2 -n2 sh -c 'echo inner $EDDY_TASK_RANK'; {eddy} run false; exit 7");
    let words = ["batch", "-N2", "--output=steps.out", "--wrap", &script];
    let job = root.ok(&words)?;
    assert_eq!(root.code(&job)?, 7);
    let listing = [
        "jobs",
        "-a",
        "--no-header",
        "-o",
        "{id.dec} {name} {status}",
    ];
    let rows = root.ok(&[&["--at", &job], &listing[..]].concat())?;
    assert_eq!(
        sorted(&rows),
        ["1 script FAILED", "2 sh COMPLETED", "3 false FAILED"]
    );
    // Output of all its ranks, on whatever node they were.
    let attached = root.run(&["--at", &job, "job", "attach", "2"])?;
    assert_eq!(sorted(&attached.out), ["inner 0", "inner 1"]);
    assert_eq!((attached.code, attached.err.as_str()), (0, ""));
    let log = root.ok(&["--at", &job, "job", "eventlog", "2"])?;
    assert!(log.contains(" start") && log.contains(" clean"), "{log}");
    let spec = root.json(&["--at", &job, "job", "info", "2", "jobspec"])?;
    assert_eq!(spec["tasks"][0]["command"][0], "sh");
    assert_eq!(root.run(&["--at", &job, "job", "status", "3"])?.code, 1);
    ends_clean(&root)
}

#[test]
fn what_waited_in_an_instance_that_is_over_was_cancelled_at_its_end() -> Tested {
    let root = Instance::start(&["--cores=2"])?;
    let job = root.ok(&["alloc", "-n2", "--bg"])?;
    let within = |words: &[&str]| root.run(&[&["--at", &job], words].concat());
    within(&["submit", "--wait-event=start", "-n2", "sleep", "1000"])?.ok()?;
    within(&["submit", "-n2", "true"])?.ok()?;
    within(&["batch", "-n1", "--output=none", "--wrap", "true"])?.ok()?;
    root.ok(&["shutdown", &job])?;
    let rows = ["jobs", "-a", "--no-header", "-o", "{id.dec} {status}"];
    assert_eq!(
        sorted(&within(&rows)?.ok()?),
        ["1 CANCELED", "2 CANCELED", "3 CANCELED"]
    );
    assert_ne!(within(&["job", "status", "2"])?.code, 0);
    assert!(!within(&["tree"])?.ok()?.contains("waiting"));
    ends_clean(&root)
}

#[test]
fn a_job_without_an_end_in_an_instance_that_was_killed_is_no_success() -> Tested {
    let root = Instance::start(&["--cores=2", "-S", "exec.kill_grace=1s"])?;
    let job = root.ok(&["alloc", "-n2", "--bg"])?;
    let within = |words: &[&str]| root.run(&[&["--at", &job], words].concat());
    within(&["submit", "--wait-event=start", "-n2", "sleep", "1000"])?.ok()?;
    let number = root.ok(&["jobs", "--no-header", "-o", "{id.dec}", &job])?;
    let leader = leader_of(&state_of(&root, &number)?)?;
    let inner = format!("{job}/1");
    let waiting = root.begin(&["wait", &inner])?;
    // It cannot record anything any more.
    leader.signal(Signal::STOP)?;
    root.ok(&["cancel", &job])?;
    assert_eq!(root.code(&job)?, 128 + 9);
    // Who waits by its path is told so, and not that nobody is there.
    let waited = waiting.wait()?;
    assert_eq!(waited.code, 125);
    let told = format!("instance {job} ended before its job 1 did: no end of it is recorded");
    assert!(waited.err.contains(&told), "{}", waited.err);
    let why = root.ok(&["why", &inner])?;
    assert!(why.contains("ended before it did"), "{why}");
    let status = within(&["job", "status", "1"])?;
    assert!(
        status.refusal()?.contains("no end of it is recorded"),
        "{}",
        status.err
    );
    // It does not run on in listings, whenever they are asked for.
    let row = "{status} {status_abbrev} {t_unended} {runtime}";
    let listed = || within(&["jobs", "-a", "--no-header", "-o", row])?.ok();
    let first = listed()?;
    assert!(first.starts_with("UNENDED UE 1"), "{first}");
    // To the microsecond.
    assert_eq!(listed()?, first);
    // Who asks until nothing is to come asks no longer.
    let stats = within(&["jobs", "--stats"])?;
    assert_eq!(stats.code, 1);
    let told = "0 pending, 0 running, 0 completed, 0 failed, 0 canceled, 0 timeout, 1 unended";
    assert_eq!(stats.out.trim(), told);
    let tree = root.json(&["tree", "--json", &job])?;
    let figures = ["pending", "running", "unended"].map(|name| tree[name].as_u64());
    assert_eq!(figures, [Some(0), Some(0), Some(1)], "{tree}");
    ends_clean(&root)
}

#[test]
fn what_was_inside_an_instance_that_is_over_can_be_read_at_every_depth() -> Tested {
    let root = Instance::start(&["--cores=2"])?;
    let eddy = root.place.program();
    let inner = format!("{eddy} run -n1 echo innermost; exit 4");
    let outer = format!("{eddy} alloc -n1 sh -c '{inner}'; {eddy} run false");
    let job = root.ok(&["batch", "-n2", "--output=none", "--wrap", &outer])?;
    assert_eq!(root.code(&job)?, 1);
    let at = format!("{job}/2");
    let rows = ["jobs", "-a", "--no-header", "-o", "{id.dec} {name}"];
    let rows = root.ok(&[&["--at", &at], &rows[..]].concat())?;
    assert_eq!(sorted(&rows), ["1 sh", "2 echo"]);
    let shown = root.run(&["--at", &at, "job", "attach", "2"])?;
    assert_eq!((shown.code, shown.out.as_str()), (0, "innermost\n"));
    // A command that asks more than one of what is over, and one of them more than once.
    for (waited, code) in [("1", 4), ("2", 0)] {
        let job = format!("{at}/{waited}");
        let waited = root.run(&["wait", &job])?;
        assert_eq!(waited.code, code, "{}", waited.err);
    }
    assert!(root.ok(&["tree", &at])?.contains("over"));
    let none = root.run(&["--at", &format!("{at}/9"), "jobs"])?;
    assert!(none.refusal()?.ends_with("has no job 9"), "{}", none.err);
    // What is over takes no clients.
    for over in [&job, &at] {
        let uri = root.run(&["uri", over])?;
        assert!(uri.refusal()?.contains("ended with result"), "{}", uri.err);
    }
    ends_clean(&root)
}

#[test]
fn a_program_of_an_instance_that_is_not_there_is_named() -> Tested {
    let root = Instance::start(&["--cores=2"])?;
    let ran = root.run(&["alloc", "-n1", "nonexistent-command"])?;
    let line = "eddy: cannot execute nonexistent-command: No such file or directory (os error 2)";
    assert_eq!((ran.code, ran.refusal()?), (127, line));
    let empty = root.run(&["alloc", "-n1", ""])?;
    let line = empty.refusal()?;
    assert!(
        line.starts_with("eddy alloc: the command is empty"),
        "{line}"
    );
    let late = root.run(&["alloc", "-n1", "-t1s", "sleep", "1000"])?;
    let line = late.refusal()?;
    assert!(
        line.ends_with(" is ended: its time limit of 1 s is over"),
        "{line}"
    );
    let row = root.json(&["jobs", "-a", "--json"])?;
    assert_eq!(row[0]["result"], "TIMEOUT", "{row}");
    ends_clean(&root)
}

#[test]
fn batch_and_alloc_end_as_their_programs_and_write_where_they_are_told() -> Tested {
    let root = Instance::start(&["--cores=2"])?;
    let read = |name: String| fs::read_to_string(root.place.path().join(name));
    let batch = ["batch", "--wait", "--quiet"];
    let to_file = ["--output=out.txt", "--error=err.txt", "--wrap"];
    let script = "echo to out; echo to err >&2; exit 5";
    let ran = root.run(&[&batch[..], &to_file, &[script]].concat())?;
    assert_eq!((ran.code, ran.out.as_str()), (5, ""), "{}", ran.err);
    assert_eq!(
        (read("out.txt".into())?, read("err.txt".into())?),
        ("to out\n".to_owned(), "to err\n".to_owned())
    );
    let job = root.ok(&["batch", "--wrap", "echo by default; kill -9 $$"])?;
    assert_eq!(root.code(&job)?, 128 + 9);
    assert_eq!(root.row(&job)?["name"], "echo");
    let number = root.ok(&["jobs", "--no-header", "-o", "{id.dec}", &job])?;
    assert_eq!(read(format!("eddy-{number}.out"))?, "by default\n");
    let alloc = root.eddy(&["alloc", "-n1", "sh", "-c", "cat; exit 9"]);
    let alloc = Running::start_with_input(alloc, b"given\n")?.wait()?;
    assert_eq!(
        (alloc.code, alloc.out.as_str()),
        (9, "given\n"),
        "{}",
        alloc.err
    );
    assert_ne!(root.run(&["alloc", "/no/such/program"])?.code, 0);
    ends_clean(&root)
}

#[test]
fn a_hundred_instances_at_once_end_well_and_leave_nothing() -> Tested {
    let root = Instance::start(&[&format!("--cores={MANY}")])?;
    let before = rundirs(&root.place);
    let (mut tells, mut gate) = (root.place.fifo("told")?, root.place.fifo("gate")?);
    let eddy = root.place.program();
    let script = format!("{eddy} run sh -c 'echo up >told; read line <gate; echo ran >>ran'");
    let submit = format!(
        "i=0; while [ $i -lt {MANY} ]; do i=$((i+1)); \
         {eddy} batch --output=none --wrap \"$1\" || exit; done"
    );
    let mut command = root.place.command("/bin/sh");
    command.env("EDDY_URI", root.uri());
    command.args(["-c", &submit, "sh", &script]);
    let jobs = Running::start(command)?.wait()?.ok()?;
    let jobs: Vec<&str> = jobs.lines().collect();
    for _ in 0..MANY {
        tells.line()?;
    }
    gate.let_go(MANY)?;
    let ended = root.run(&[&["job", "status"], &jobs[..]].concat())?;
    assert_eq!(ended.code, 0, "{}", ended.err);
    let ran = fs::read_to_string(root.place.path().join("ran"))?;
    assert_eq!((jobs.len(), ran.lines().count()), (MANY, MANY));
    assert_eq!(rundirs(&root.place), before);
    let own: Vec<_> = root.place.processes();
    assert_eq!(own.iter().filter(|one| one.is_eddy("broker")).count(), 1);
    assert_eq!(own.iter().filter(|one| one.is_eddy("shell")).count(), 1);
    ends_clean(&root)
}
