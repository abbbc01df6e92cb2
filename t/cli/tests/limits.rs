//! What tasks have of the process that submits them: its soft limits and its umask.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::Context;
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::running::{Ran, Running};

type Tested = anyhow::Result<()>;

/// What prints the umask, and three soft limits.
const SHOW: &str = "umask; ulimit -St; ulimit -Sc; ulimit -Sn";

/// Runs `eddy` with this umask and these soft limits.
fn run(instance: &Instance, limits: &str, arguments: &[&str]) -> anyhow::Result<Ran> {
    let mut shell = instance.place.command("/bin/sh");
    let script = format!("{limits}; exec \"$0\" \"$@\"");
    shell.args(["-c", &script, &instance.place.program()]);
    shell.args(arguments).env("EDDY_URI", instance.uri());
    Running::start(shell)?.wait()
}

const MINE: &str = "umask 027; ulimit -St 5000; ulimit -Sc 0; ulimit -Sn 123";

#[test]
fn tasks_have_the_limits_and_the_umask_of_who_submits() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let shown = |arguments: &[&str]| -> anyhow::Result<String> {
        let ran = run(&instance, MINE, &[arguments, &["sh", "-c", SHOW]].concat())?;
        Ok(ran.ok()?.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    assert_eq!(shown(&["run"])?, "0027 5000 0 123");
    assert_eq!(
        shown(&["run", "--rlimit=nofile=64,-cpu", "-o", "umask=077"])?,
        "0077 unlimited 0 64"
    );
    // What an instance runs has them as well, and so has a job inside that is submitted there.
    assert_eq!(shown(&["alloc", "-n1"])?, "0027 5000 0 123");
    let eddy = instance.place.program();
    let inside = run(
        &instance,
        MINE,
        &["alloc", "-n1", &eddy, "run", "sh", "-c", SHOW],
    )?;
    let inside = inside.ok()?;
    assert_eq!(
        inside.split_whitespace().collect::<Vec<_>>(),
        ["0027", "5000", "0", "123"]
    );
    Ok(())
}

#[test]
fn what_is_above_the_hard_limit_is_cut_and_fails_nobody() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let hard = instance.ok(&["run", "sh", "-c", "ulimit -Hn"])?;
    let run = ["run", "--rlimit=nofile=inf", "sh", "-c", "ulimit -Sn"];
    assert_eq!(instance.ok(&run)?, hard);
    Ok(())
}

#[test]
fn files_of_output_are_made_with_the_umask_of_who_submits() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    for (umask, expected) in [("027", 0o640), ("002", 0o664)] {
        let file = instance.place.join(umask);
        let output = format!("--output={file}");
        run(
            &instance,
            &format!("umask {umask}"),
            &["run", &output, "true"],
        )?
        .ok()?;
        let made = fs::metadata(&file).with_context(|| file.clone())?;
        assert_eq!(made.permissions().mode() & 0o777, expected, "{umask}");
    }
    Ok(())
}

#[test]
fn the_same_limits_are_the_same_text() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let spec = || -> anyhow::Result<String> {
        let job = run(&instance, MINE, &["submit", "true"])?.ok()?;
        instance.ok(&["job", "info", job.trim(), "jobspec"])
    };
    assert_eq!(spec()?, spec()?);
    Ok(())
}
