//! A full disk: new work is refused with figures, what runs is recorded when
//! there is room again, nothing is lost.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use eddy_cli_tests::running::Running;

type Tested = anyhow::Result<()>;

/// A submission that is not answered by then waits for room on the disk. Too short costs a command.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);

/// Many jobs at once, by one who waits for room for as long as it takes.
const SUBMITS: [&str; 5] = [
    "submit",
    "--reconnect=1h",
    "--urgency=0",
    "--cc=1-200",
    "true",
];

/// A file system of its own, in memory; its directory goes after it is unmounted.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount(bytes: u64) -> anyhow::Result<SmallDisk> {
        let folder = tempfile::Builder::new()
            .prefix("eddy-t.")
            .tempdir_in("/tmp")?;
        let mut command = Command::new("mount");
        let options = format!("size={bytes},mode=700");
        command
            .args(["-t", "tmpfs", "-o", &options, "eddy-test"])
            .arg(folder.path());
        let ran = Running::start(command)?.wait()?;
        ensure!(
            ran.code == 0,
            "this test mounts a small disk and so runs as root: {}",
            ran.err.trim()
        );
        Ok(SmallDisk { folder })
    }

    /// Takes all the room there is.
    fn fill(&self) -> anyhow::Result<PathBuf> {
        let path = self.folder.path().join("filler");
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        let mut piece = 1 << 20;
        while piece > 0 {
            // A part of a piece may fit: then the rest does not, and smaller ones are tried.
            if file.write_all(&vec![0; piece]).is_err() {
                piece /= 2;
            }
        }
        Ok(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount")
            .arg("--lazy")
            .arg(self.folder.path())
            .status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{}: is not unmounted", self.folder.path().display());
        }
    }
}

#[test]
fn a_full_disk_refuses_new_work_and_loses_none() -> Tested {
    let place = Place::new()?;
    let disk = SmallDisk::mount(64 << 20)?;
    let state = disk.folder.path().join("state");
    let instance = Instance::start_in(place, state, &["--cores=2"])?;
    let mut gate = instance.place.fifo("gate")?;
    let before = instance.submit(&["true"])?;
    instance.event(&before, "clean")?;
    let running = instance.submit_started(&["sh", "-c", "read line <gate; exit 8"])?;
    let watch = instance.begin(&["job", "attach", &running])?;

    let filler = disk.fill()?;
    let (refused, held) = refused_submission(&instance, &disk)?;
    let state = instance.state().display();
    let why = format!("no space left on the disk of {state}; records wait until there is room");
    assert!(refused.contains(&why), "{refused}");
    // The leader lives and answers.
    assert_eq!(instance.row(&running)?["state"], "RUN");
    gate.let_go(1)?;

    fs::remove_file(filler)?;
    assert_eq!(watch.wait()?.code, 8);
    assert_eq!((instance.code(&running)?, instance.code(&before)?), (8, 0));
    for asked in held {
        assert_eq!(
            asked.wait()?.ok()?.lines().count(),
            200,
            "what waited for room is answered"
        );
    }
    // Taken again as soon as the leader has noticed; a client of today asks until then.
    let after = accepted_submission(&instance)?;
    assert_eq!(instance.code(&after)?, 0);
    instance.kill_leader()?;
    instance.start_again()?;
    assert_eq!((instance.code(&running)?, instance.code(&after)?), (8, 0));
    instance.shut_down()
}

#[test]
fn what_is_not_answered_on_a_full_disk_ends_in_time_with_the_reason() -> Tested {
    let place = Place::new()?;
    let disk = SmallDisk::mount(64 << 20)?;
    let state = disk.folder.path().join("state");
    let instance = Instance::start_in(place, state, &["--cores=2"])?;
    let mut gate = instance.place.fifo("gate")?;
    let running = instance.submit_started(&["sh", "-c", "read line <gate; exit 8"])?;
    let watch = instance.begin(&["--reconnect=1s", "job", "attach", &running])?;
    let filler = disk.fill()?;
    let (_, held) = refused_submission(&instance, &disk)?;
    for words in [
        &["config", "set", "policy.preset=easy"][..],
        &["resource", "drain", "0"],
    ] {
        let ran = instance.run(&[&["--reconnect=1s"], words].concat())?;
        let why = "s: no space left on the disk of";
        assert!(ran.code != 0 && ran.err.contains(why), "{}", ran.err);
    }
    // What was answered before it was to be recorded is so still, or is given up as well.
    instance.run(&["--reconnect=1s", "jobs", "-a"])?;
    fs::remove_file(filler)?;
    for asked in held {
        asked.wait()?.ok()?;
    }
    // What waits for a job is not given up.
    gate.let_go(1)?;
    assert_eq!(watch.wait()?.code, 8);
    instance.shut_down()
}

#[test]
fn a_leader_begun_anew_on_a_full_disk_goes_on_with_the_ballast() -> Tested {
    let place = Place::new()?;
    let disk = SmallDisk::mount(64 << 20)?;
    let state = disk.folder.path().join("state");
    let instance = Instance::start_in(place, state, &["--cores=2"])?;
    let mut gate = instance.place.fifo("gate")?;
    let running = instance.submit_started(&["sh", "-c", "read line <gate; exit 8"])?;
    let filler = disk.fill()?;
    instance.kill_leader()?;
    instance.start_again()?;
    assert_eq!(instance.row(&running)?["state"], "RUN");
    let refused = instance.run(&["submit", "true"])?;
    let why = "eddy submit: no space left on the disk of";
    assert!(refused.refusal()?.starts_with(why), "{}", refused.err);
    // The end of what runs has room.
    gate.let_go(1)?;
    assert_eq!(instance.code(&running)?, 8);
    fs::remove_file(filler)?;
    let after = accepted_submission(&instance)?;
    assert_eq!(instance.code(&after)?, 0);
    instance.shut_down()
}

#[test]
fn a_shutdown_on_a_full_disk_says_what_it_waits_for() -> Tested {
    let place = Place::new()?;
    let disk = SmallDisk::mount(64 << 20)?;
    let state = disk.folder.path().join("state");
    let instance = Instance::start_in(place, state, &["--cores=2"])?;
    let filler = disk.fill()?;
    let (_, held) = refused_submission(&instance, &disk)?;
    let ends = instance.begin(&["shutdown"])?;
    ends.complains("waiting for the end of the instance: no space left on the disk of")?;
    fs::remove_file(filler)?;
    ends.wait()?.ok()?;
    drop(held);
    instance.place.nothing_is_left()
}

/// Submits until it is refused: what is left of the journal's own pages, and then the ballast, is
/// used up first. What was taken before that is not answered until there is room again: those
/// commands are given back as they wait.
fn refused_submission(
    instance: &Instance,
    disk: &SmallDisk,
) -> anyhow::Result<(String, Vec<Running>)> {
    let mut held = Vec::new();
    for _ in 0..200 {
        let asked = instance.begin(&SUBMITS)?;
        if !asked.ends_within(ANSWERS_WITHIN) {
            held.push(asked);
            continue;
        }
        let ran = asked.wait()?;
        if ran.code != 0 {
            return Ok((ran.refusal()?.to_owned(), held));
        }
        disk.fill()?;
    }
    anyhow::bail!("a full disk takes every submission")
}

/// Submits until it is accepted.
fn accepted_submission(instance: &Instance) -> anyhow::Result<String> {
    for _ in 0..2000 {
        let ran = instance.run(&["submit", "true"])?;
        if ran.code == 0 {
            return Ok(ran.out.trim().to_owned());
        }
    }
    anyhow::bail!("a disk with room refuses every submission")
}
