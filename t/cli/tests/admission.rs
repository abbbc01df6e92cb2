//! Who is let in, changed while a root, its other ranks and its queue instance run, with real users.

use anyhow::ensure;
use eddy_cli_tests::instance::leader_of;
use eddy_cli_tests::running::Running;
use eddy_cli_tests::users::{Site, can_make_users};

type Tested = anyhow::Result<()>;

const ANN: usize = 0;
const BOB: usize = 1;
const CYD: usize = 2;
const DAN: usize = 3;

#[test]
fn who_is_admitted_changes_while_all_instances_run() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let config = "[access]\nusers = [\"{0}\"]\n[[instance]]\nname = \"batch\"\nelastic = \"all\"\n\
                  [[queue]]\nname = \"batch\"\ninstance = \"batch\"\n";
    let (site, instance) = Site::configured(config, &["--size=2", "--cores=1"])?;
    let name = |user: usize| site.users[user].name.clone();
    let set = |key: &str, users: &[usize]| {
        let names: Vec<String> = users
            .iter()
            .map(|user| format!("{:?}", name(*user)))
            .collect();
        format!("{key}=[{}]", names.join(","))
    };
    let refused = |user: usize, at: &[&str]| -> Tested {
        let ran = site.run(&instance, user, &[at, &["jobs"]].concat())?;
        let line = ran.refusal()?;
        ensure!(line.contains("is not admitted"), "{line}");
        Ok(())
    };
    // It serves.
    instance.ok(&["run", "-q", "batch", "true"])?;
    let everywhere: [&[&str]; 2] = [&[], &["--at", "batch"]];
    for at in everywhere {
        site.ok(&instance, ANN, &[at, &["jobs"]].concat())?;
        refused(BOB, at)?;
    }
    // An unknown name changes nothing.
    let ran = instance.run(&["config", "set", "access.admins=[\"eddy-nobody\"]"])?;
    ensure!(
        ran.refusal()?
            .contains("access.admins: no user `eddy-nobody`"),
        "{ran:?}"
    );
    let ran = instance.run(&["--at", "batch", "config", "set", "access.users=all"])?;
    ensure!(
        ran.refusal()?.contains("the root says who may connect"),
        "{ran:?}"
    );

    instance.ok(&[
        "config",
        "set",
        &set("access.users", &[BOB]),
        &set("access.admins", &[DAN]),
    ])?;
    let job = site.ok(
        &instance,
        BOB,
        &["submit", "--wait-event=start", "sleep", "600"],
    )?;
    for at in everywhere {
        refused(ANN, at)?;
        site.ok(&instance, BOB, &[at, &["jobs"]].concat())?;
        site.ok(&instance, DAN, &[at, &["jobs"]].concat())?;
    }
    // It stands in an instance whose leader begins anew while the root is gone.
    let uri = instance.ok(&["uri", "batch"])?;
    leader_of(instance.state())?.kill()?;
    leader_of(&instance.state_of("batch")?)?.kill()?;
    refused(ANN, &["--at", &uri])?;
    site.ok(&instance, BOB, &["--at", &uri, "jobs"])?;
    instance.start_again()?;
    // It stands over a death of the leader, and an admin may act on jobs of others.
    leader_of(instance.state())?.kill()?;
    instance.start_again()?;
    refused(ANN, &[])?;
    site.ok(&instance, DAN, &["cancel", &job])?;
    site.ok(&instance, BOB, &["job", "wait-event", &job, "clean"])?;

    // Who is admitted no more is told so where he waits.
    let job = site.ok(
        &instance,
        BOB,
        &["submit", "sh", "-c", "echo up; exec sleep 600"],
    )?;
    let attached = Running::start(site.eddy(&instance, BOB, &["job", "attach", &job]))?;
    attached.prints("up")?;
    instance.ok(&[
        "config",
        "set",
        "access.private=true",
        &set("access.users", &[CYD]),
    ])?;
    ensure!(
        attached.wait()?.refusal()?.contains("is not admitted"),
        "it goes on"
    );
    let rows = |user: usize| {
        site.ok(
            &instance,
            user,
            &["jobs", "-A", "--no-header", "-o", "{id}"],
        )
    };
    assert_eq!(rows(CYD)?, "");
    assert!(rows(DAN)?.contains(&job));
    // His job goes on all the same, and the file counts again when it is read again.
    instance.ok(&["config", "reload"])?;
    refused(BOB, &[])?;
    assert!(rows(ANN)?.contains(&job));
    instance.ok(&["cancel", &job])?;
    Ok(())
}

#[test]
fn an_admin_sets_no_program_that_runs_as_the_owner() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let (site, instance) = Site::configured("[access]\nadmins = [\"{3}\"]\n", &["--cores=1"])?;
    let filter = "ingest.filter=[{name=\"x\", command=[\"/bin/cat\"]}]";
    let (dan, set) = (&site.users[DAN].name, ["config", "set", filter]);
    let why = format!("ingest.filter: set by user {dan}, and its programs run as user root");
    for dry in [&[][..], &["--dry-run"]] {
        let line = site.run(&instance, DAN, &[&set, dry].concat())?;
        ensure!(line.refusal()?.contains(&why), "{line:?}");
    }
    // Other keys are his to set, also beside a filter that root has set.
    site.ok(&instance, DAN, &["config", "set", "history.keep_jobs=5000"])?;
    instance.ok(&set)?;
    site.ok(&instance, DAN, &["config", "set", "history.keep_jobs=6000"])?;
    let ran = site.run(&instance, DAN, &["config", "set", "ingest.filter=[]"])?;
    ensure!(ran.refusal()?.contains(&why), "{ran:?}");
    Ok(())
}
