//! Several users in one instance, with real users and real processes: whose tasks run as whom, who
//! may act on what, and who is let in.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;

use anyhow::{Context, ensure};
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use eddy_cli_tests::process::Process;
use eddy_cli_tests::running::Running;
use eddy_cli_tests::users::{Site, can_make_cgroups, can_make_users, owner_of};
use eddy_wire::id::JobId;
use serde_json::Value;

type Tested = anyhow::Result<()>;

const ANN: usize = 0;
const BOB: usize = 1;
const CYD: usize = 2;
const DAN: usize = 3;

/// An instance of user 0 with four users, with these options of `eddy start`.
pub(crate) fn site(options: &[&str]) -> anyhow::Result<(Site, Instance)> {
    Site::configured("", options)
}

fn mode(path: &Path) -> anyhow::Result<u32> {
    let meta = fs::metadata(path).with_context(|| path.display().to_string())?;
    Ok(meta.permissions().mode() & 0o777)
}

/// Processes of the place that are tasks: neither eddy nor what the test itself runs.
pub(crate) fn tasks(instance: &Instance, program: &str) -> Vec<Process> {
    let mut found = instance.place.processes();
    found.retain(|one| one.arguments.first().is_some_and(|first| first == program));
    found
}

/// Anybody could hold up another's wait by a job in a set of the same name.
#[test]
fn a_set_is_ones_own_though_another_has_one_of_its_name() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let (site, root) = site(&["--cores=2"])?;
    let runs = ["submit", "--job-set=night", "sleep", "1000"];
    let runs = site.ok(&root, BOB, &runs)?;
    site.ok(&root, ANN, &["submit", "--job-set=night", "true"])?;
    assert_eq!(site.run(&root, ANN, &["wait", "--job-set=night"])?.code, 0);
    let used = ["usage", "--job-set=night", "--json"];
    let of = |text: String| anyhow::Ok(serde_json::from_str::<Vec<Value>>(&text)?.len());
    assert_eq!(of(site.ok(&root, ANN, &used)?)?, 1);
    assert_eq!(of(root.ok(&used)?)?, 2, "user 0 acts on all");
    site.ok(&root, BOB, &["cancel", "--job-set=night"])?;
    assert_ne!(root.code(&runs)?, 0);
    root.shut_down()
}

#[test]
fn a_plain_user_serves_himself_and_user_0() -> Tested {
    if !can_make_users() {
        let instance = Instance::start(&["--cores=1"])?;
        let own = rustix::process::geteuid().as_raw().to_string();
        assert_eq!(instance.ok(&["run", "id", "-u"])?, own);
        let socket = instance.socket();
        assert_eq!(mode(&socket)?, 0o600);
        assert_eq!(mode(socket.parent().context("it has one")?)?, 0o700);
        drop(instance);
        let place = Place::new()?;
        let state = place.join("state");
        let refused = place.run(&[
            "start",
            "--background",
            "--statedir",
            &state,
            "-S",
            "access.users=all",
        ])?;
        let line = refused.refusal()?;
        assert!(
            line.contains("access: is given; only what user 0"),
            "{line}"
        );
        return Ok(());
    }
    let (site, root) = site(&["--cores=1"])?;
    // An instance of ann's own, in her home.
    let state = site.users[ANN].home.join("state");
    let state = state.to_str().context("UTF-8")?;
    let start = ["start", "--background", "--cores=1", "--statedir", state];
    let mut starting = site.eddy(&root, ANN, &start);
    starting.env_remove("EDDY_URI");
    let printed = Running::start(starting)?.wait()?.ok()?;
    let uri = printed.trim().strip_prefix("EDDY_URI=").context("a URI")?;
    let ask = |user: usize, arguments: &[&str]| {
        let mut command = site.eddy(&root, user, arguments);
        command.env("EDDY_URI", uri);
        Running::start(command)?.wait()
    };
    let ann = site.users[ANN].uid.to_string();
    assert_eq!(ask(ANN, &["run", "id", "-u"])?.ok()?.trim(), ann);
    assert!(ask(BOB, &["jobs"])?.code != 0, "bob is not let in");
    let mut own = root.eddy(&["run", "id", "-u"]);
    own.env("EDDY_URI", uri);
    let refused = Running::start(own)?.wait()?;
    let line = refused.err.trim();
    let name = &site.users[ANN].name;
    let allowed = format!(
        "as: none given by user root; allowed is {ann}: this instance starts tasks of user {name} only"
    );
    assert!(line.ends_with(&allowed), "{line}");
    let mut all = root.eddy(&["jobs", "-aA", "-n", "-o", "{user}"]);
    all.env("EDDY_URI", uri);
    let all = Running::start(all)?.wait()?.ok()?;
    assert_eq!(all.lines().count(), 1, "it was not taken: {all}");
    // The only one that she has is not ended by who did not name it.
    let mut unnamed = site.eddy(&root, ANN, &["shutdown"]);
    unnamed.env_remove("EDDY_URI");
    let ran = Running::start(unnamed)?.wait()?;
    let line = format!(
        "eddy shutdown: no instance is named, and the only one is {uri}; allowed is `eddy --at {uri} shutdown`, or \
         EDDY_URI"
    );
    assert_eq!(ran.refusal()?, line);
    ask(ANN, &["ping"])?.ok()?;
    ask(ANN, &["shutdown"])?.ok()?;
    root.shut_down()
}

#[test]
fn tasks_have_the_rights_of_their_user_and_nothing_of_user_0() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let (site, instance) = site(&["--cores=4"])?;
    for (user, of) in site.users.iter().enumerate() {
        assert_eq!(
            site.ok(&instance, user, &["run", "id", "-u"])?,
            of.uid.to_string()
        );
        let cgroups = site.ok(&instance, user, &["run", "cat", "/proc/self/cgroup"])?;
        let cgroup = format!("/eddy/uid-{}", of.uid);
        let his = cgroups.lines().any(|line| line.ends_with(&cgroup));
        assert_eq!(his, can_make_cgroups()?, "{cgroups}");
    }
    let ann = &site.users[ANN];
    let status = "grep -E '^(Uid|Gid|Groups|CapInh|CapPrm|CapEff|CapAmb):' /proc/self/status";
    let status = site.ok(&instance, ANN, &["run", "sh", "-c", status])?;
    for line in status.lines() {
        let (name, values) = line.split_once(':').context("a field")?;
        let expected = match name {
            "Uid" => ann.uid.to_string(),
            "Gid" | "Groups" => ann.gid.to_string(),
            _ => "0000000000000000".to_owned(),
        };
        assert!(
            values.split_whitespace().all(|value| value == expected),
            "{line}"
        );
    }
    // What is open: the three streams, and what ls itself opens.
    let open = site.ok(&instance, ANN, &["run", "ls", "/proc/self/fd"])?;
    assert_eq!(
        open.split_whitespace().collect::<Vec<_>>(),
        ["0", "1", "2", "3"]
    );
    // The submitter's environment and no other; who it is by the host's word.
    let shown = site.ok(&instance, ANN, &["run", "env"])?;
    let has = |entry: &str| shown.lines().any(|line| line == entry);
    assert!(
        has(&format!("LOGNAME={}", ann.name)) && has(&format!("USER={}", ann.name)),
        "{shown}"
    );
    assert!(
        has(&format!("HOME={}", ann.home.display())) && has("SHELL=/bin/sh"),
        "{shown}"
    );
    assert!(
        !shown.contains("XDG_RUNTIME_DIR"),
        "the instance's own: {shown}"
    );
    let made = ann.home.join("masked");
    let output = format!("--output={}", made.display());
    let masked = ["run", "-o", "umask=027", &output, "sh", "-c", "umask"];
    site.ok(&instance, ANN, &masked)?;
    assert_eq!(fs::read_to_string(&made)?, "0027\n");
    assert_eq!((mode(&made)?, fs::metadata(&made)?.uid()), (0o640, ann.uid));
    // Who submits for another hands on nothing of his own.
    let others = instance.ok(&["run", "--as", &ann.name, "--cwd=/", "sh", "-c", "umask"])?;
    assert_eq!(others, "0022");
    let named = site.run(
        &instance,
        ANN,
        &["run", "sh", "-c", "echo said >/dev/stderr"],
    )?;
    assert_eq!((named.code, named.err.trim()), (0, "said"));
    Ok(())
}

#[test]
fn files_and_directories_are_opened_with_the_rights_of_the_task() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let (site, instance) = site(&["--cores=2"])?;
    site.ok(&instance, ANN, &["run", "--output=out", "id", "-u"])?;
    let out = site.users[ANN].home.join("out");
    assert_eq!(fs::metadata(&out)?.uid(), site.users[ANN].uid);
    assert_eq!(
        fs::read_to_string(&out)?.trim(),
        site.users[ANN].uid.to_string()
    );
    // Two tasks that share a file both write to it.
    site.ok(
        &instance,
        ANN,
        &["run", "-n2", "--output=both", "echo", "line"],
    )?;
    let both = fs::read_to_string(site.users[ANN].home.join("both"))?;
    assert_eq!(both, "line\nline\n");
    let closed = instance.place.path().join("closed");
    fs::create_dir(&closed)?;
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700))?;
    fs::write(closed.join("secret"), "secret")?;
    let program = instance.place.script("closed/program", "#!/bin/sh\n")?;
    let closed = closed.to_str().context("UTF-8")?;
    let (new, secret) = (format!("{closed}/new"), format!("{closed}/secret"));
    let cases = [
        (
            vec!["run", "--output", &new, "true"],
            format!("cannot open {new} for output"),
        ),
        (
            vec!["run", "--input", &secret, "cat"],
            format!("cannot open {secret} for input"),
        ),
        (
            vec!["run", "--cwd", closed, "true"],
            format!("cannot enter the working directory {closed}"),
        ),
        (vec!["run", &program], format!("cannot execute {program}")),
    ];
    for (arguments, why) in cases {
        let refused = site.run(&instance, ANN, &arguments)?;
        assert_eq!(refused.code, 126, "{arguments:?}");
        let line = refused.refusal()?;
        assert!(
            line.contains(&why) && line.contains("Permission denied"),
            "{line}"
        );
    }
    // A link that another has put where the output goes is followed with ann's rights only.
    let shared = instance.place.path().join("tmp/link");
    std::os::unix::fs::symlink(&secret, &shared)?;
    let shared = shared.to_str().context("UTF-8")?;
    assert_eq!(
        site.run(&instance, ANN, &["run", "--output", shared, "true"])?
            .code,
        126
    );
    assert_eq!(fs::read_to_string(&secret)?, "secret");
    Ok(())
}

#[test]
fn nobody_acts_on_anothers_job_and_admins_do() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let (site, instance) = Site::configured("[access]\nadmins = [\"{3}\"]\n", &["--cores=2"])?;
    let runs = site.ok(
        &instance,
        ANN,
        &["submit", "--wait-event=start", "sleep", "600"],
    )?;
    let waits = site.ok(&instance, ANN, &["submit", "-n2", "true"])?;
    let running = tasks(&instance, "sleep");
    assert_eq!(running.len(), 1, "{running:?}");
    assert_eq!(owner_of(running[0].pid)?, site.users[ANN].uid);
    let forbidden: [(&str, &[&str]); 13] = [
        ("another user's", &["cancel", &runs]),
        ("another user's", &["cancel", &waits]),
        ("another user's", &["hold", &waits]),
        ("another user's", &["release", &waits]),
        ("another user's", &["job", "urgency", &waits, "31"]),
        ("another user's", &["job", "kill", "-s", "KILL", &runs]),
        ("another user's", &["job", "kill", &waits]),
        ("another user's", &["job", "raise", &runs]),
        ("may not ask", &["job", "attach", &runs]),
        ("may not ask", &["job", "info", &runs, "jobspec"]),
        ("may not ask", &["kvs", "put", "a=1"]),
        ("may not ask", &["shutdown"]),
        (
            "may not ask for this; the owner and admins may",
            &["resource", "drain", "0", "broken"],
        ),
    ];
    for (why, arguments) in forbidden {
        let refused = site.run(&instance, BOB, arguments)?;
        let line = refused.refusal()?;
        assert!(line.contains(why), "{arguments:?}: {line}");
    }
    // Of everybody's jobs only bob's own: there are none.
    let all = site.run(&instance, BOB, &["cancel", "--all"])?;
    ensure!(
        owner_of(running[0].pid)? == site.users[ANN].uid,
        "it lives: {all:?}"
    );
    assert_eq!(
        instance.events(&waits)?.last().map(String::as_str),
        Some("priority")
    );
    // All jobs are those of who says it, also where he may act on others'.
    let own = site.run(&instance, DAN, &["cancel", "--all"])?;
    ensure!(own.err.contains("0 jobs"), "{own:?}");
    let his = [
        "cancel",
        "--all",
        "--dry-run",
        "--user",
        &site.users[ANN].name,
    ];
    let his = site.ok(&instance, DAN, &his)?;
    assert_eq!(his.lines().collect::<Vec<&str>>(), [&runs, &waits]);
    let would = |of: &[&str]| {
        let dry_run = [&["cancel", "--dry-run"], of].concat();
        site.run(&instance, BOB, &dry_run)
    };
    let all = would(&["--all", "--user=all"])?;
    assert_eq!((all.code, &*all.out), (0, ""), "{all:?}");
    assert!(all.err.contains("2 more are other users'"), "{all:?}");
    let named = would(&[&runs])?;
    assert_eq!((named.code, &*named.out), (1, ""), "{named:?}");
    assert!(named.err.contains("it is another user's"), "{named:?}");
    let not_his = site.run(
        &instance,
        BOB,
        &["hold", "--all", "-u", &site.users[ANN].name],
    )?;
    assert!(not_his.refusal()?.contains("are not yours"), "{not_his:?}");
    let held = site.run(&instance, DAN, &["hold", "--all", "-u", "all"])?;
    assert!(held.err.contains("1 jobs"), "{held:?}");
    // Listings are open, and name the user.
    let rows = site.ok(
        &instance,
        BOB,
        &["jobs", "-A", "--no-header", "-o", "{user}"],
    )?;
    assert!(
        rows.lines().all(|row| row.trim() == site.users[ANN].name),
        "{rows}"
    );
    assert_eq!(rows.lines().count(), 2);
    assert_eq!(site.ok(&instance, BOB, &["jobs", "--no-header"])?, "");
    site.ok(&instance, DAN, &["job", "urgency", &waits, "0"])?;
    site.ok(&instance, DAN, &["cancel", &runs, &waits])?;
    assert_eq!(
        site.run(&instance, ANN, &["job", "status", &runs])?.code,
        143
    );
    // The output of a job that is over is its user's, too.
    let told = site.ok(&instance, ANN, &["submit", "--wait", "echo", "mine"])?;
    let refused = site.run(&instance, BOB, &["job", "attach", &told])?;
    assert!(refused.refusal()?.contains("may not ask"), "{refused:?}");
    assert_eq!(site.ok(&instance, DAN, &["job", "attach", &told])?, "mine");
    Ok(())
}

#[test]
fn only_whom_the_configuration_names_is_let_in_and_private_hides_jobs() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let config = "[access]\nusers = [\"{0}\", \"{1}\"]\nadmins = [\"{3}\"]\nprivate = true\n";
    let (site, instance) = Site::configured(config, &["--cores=2"])?;
    let over = site.ok(&instance, ANN, &["submit", "--wait", "true"])?;
    let script = site.script(ANN, "inner", "#!/bin/sh\nsleep 600\n")?;
    let inner = site.ok(&instance, ANN, &["batch", "-n1", &script])?;
    site.ok(&instance, ANN, &["job", "wait-event", &inner, "start"])?;
    let job = site.ok(
        &instance,
        ANN,
        &["submit", "--wait-event=start", "sleep", "600"],
    )?;
    let refused = site.run(&instance, CYD, &["jobs"])?;
    let line = refused.refusal()?;
    let cyd = &site.users[CYD].name;
    assert!(
        line.contains(&format!("user {cyd} is not admitted")),
        "{line}"
    );
    let rows = |user: usize| {
        site.ok(
            &instance,
            user,
            &["jobs", "-A", "--no-header", "-o", "{id}"],
        )
    };
    // Not even an admin is let into an instance of somebody's own.
    let denied = site.run(&instance, DAN, &["--at", &inner, "jobs"])?;
    let line = denied.refusal()?;
    let advice = "serves that user and root only; be root there, or ask of its job in the instance around it";
    assert!(line.contains(advice), "{line}");
    let both = format!("{job}\n{inner}");
    assert_eq!(rows(ANN)?.trim(), both);
    assert_eq!(rows(BOB)?, "");
    assert_eq!(rows(DAN)?.trim(), both);
    // Nor who uses how much, or has an instance.
    let ann = site.users[ANN].name.as_str();
    for (verb, word) in [("usage", ann), ("shares", ann), ("tree", inner.as_str())] {
        let shows = |user| anyhow::Ok(site.ok(&instance, user, &[verb])?.contains(word));
        let shown = (shows(ANN)?, shows(BOB)?, shows(DAN)?);
        assert_eq!(shown, (true, false, true), "{verb}");
    }
    // Nor whether a number is a job: one that runs, an instance, one that is over, as one that nobody has.
    let nobodys = JobId(9999).f58_ascii().to_string();
    for verb in [
        &["job", "eventlog"][..],
        &["trace"],
        &["cancel"],
        &["hold"],
        &["release"],
        &["job", "kill"],
        &["job", "requeue"],
        &["job", "attach"],
        &["job", "status"],
        &["job", "info"],
        &["why"],
        &["uri"],
    ] {
        let more: &[&str] = match verb {
            ["job", "info"] => &["jobspec"],
            _ => &[],
        };
        let told = |id: &str| {
            let ran = site.run(&instance, BOB, &[verb, &[id], more].concat())?;
            assert_ne!(ran.code, 0, "{verb:?} {id}: {ran:?}");
            let number: JobId = id.parse()?;
            let numbered = format!("job {}", number.0);
            let beside = format!("N ({})", number.0);
            let unnamed = |text: &str| {
                let text = text.replace(id, "N").replace(&numbered, "job N");
                text.replace(&beside, "N")
            };
            anyhow::Ok((ran.code, unnamed(&ran.out), unnamed(&ran.err)))
        };
        let none = told(&nobodys)?;
        for id in [&job, &inner, &over] {
            assert_eq!(told(id)?, none, "{verb:?} {id}");
        }
    }
    // What is in use is everybody's to see.
    let used = site.ok(&instance, BOB, &["resource", "list"])?;
    assert!(used.contains("allocated"), "{used}");
    site.ok(&instance, ANN, &["cancel", &job, &inner])?;
    // Other doors are closed to all of them.
    let rundir = instance.socket();
    let rundir = rundir.parent().context("it has one")?;
    assert_eq!((mode(&instance.socket())?, mode(rundir)?), (0o666, 0o711));
    for entry in fs::read_dir(rundir)?.chain(fs::read_dir(instance.state())?) {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if !["local", "uri", "children", "ranks"].contains(&name) {
            assert_eq!(mode(&path)? & 0o077, 0, "{}", path.display());
        }
    }
    let state = instance.state().to_str().context("UTF-8")?.to_owned();
    let listed = site.command(&instance.place, ANN, Path::new("ls"));
    let mut listed = listed;
    listed.arg(&state);
    assert!(Running::start(listed)?.wait()?.code != 0);
    Ok(())
}

#[test]
fn owner_and_admins_submit_for_others_and_it_is_recorded() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let (site, instance) = Site::configured("[access]\nadmins = [\"{3}\"]\n", &["--cores=1"])?;
    let ann = &site.users[ANN];
    let submit = ["submit", "--as", &ann.name, "--cwd=/", "--wait", "id", "-u"];
    let refused = site.run(&instance, BOB, &submit)?;
    let line = refused.refusal()?;
    assert!(line.contains("may submit for nobody else"), "{line}");
    for nobody in ["nobody-at-all", "4000000007"] {
        let nobody = ["submit", "--as", nobody, "--cwd=/", "id", "-u"];
        let refused = site.run(&instance, DAN, &nobody)?;
        let line = refused.refusal()?;
        assert!(line.contains("--as: no user `"), "{line}");
    }
    let as_root = ["submit", "--as", "root", "--cwd=/", "id", "-u"];
    let refused = site.run(&instance, DAN, &as_root)?;
    let line = refused.refusal()?;
    assert!(line.ends_with("nobody but root submits as root"), "{line}");
    let job = site.ok(&instance, DAN, &submit)?;
    assert_eq!(
        site.ok(&instance, ANN, &["job", "attach", &job])?,
        ann.uid.to_string()
    );
    let log = instance.ok(&["job", "eventlog", "--format=json", &job])?;
    let asked = format!("\"asked_by\":{}", site.users[DAN].uid);
    let first = log.lines().next().context("a submit record")?;
    assert!(first.replace(": ", ":").contains(&asked), "{first}");
    let environment = ["run", "--as", &ann.name, "--cwd=/", "env"];
    let shown = site.ok(&instance, DAN, &environment)?;
    assert!(
        shown.contains(&format!("HOME={}", ann.home.display())),
        "{shown}"
    );
    Ok(())
}

/// Where a task is to run the host decides whom it knows, so he is not refused before.
#[test]
fn a_user_whom_the_host_does_not_know_is_told_so_and_nothing_runs() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    const NOBODYS: u32 = 4_000_000_001;
    let (site, instance) = site(&["--cores=1"])?;
    let ask = |arguments: &[&str]| {
        let mut command = site.eddy(&instance, ANN, arguments);
        command.uid(NOBODYS).gid(NOBODYS).current_dir("/");
        Running::start(command)?.wait()
    };
    let ran = ask(&["run", "sleep", "600"])?;
    let line = ran.refusal()?;
    assert!(
        line.ends_with(&format!("no user {NOBODYS} on this host")),
        "{line}"
    );
    assert_eq!(ran.code, 126, "{line}");
    assert!(tasks(&instance, "sleep").is_empty());
    let own = ask(&["jobs", "-a", "-n", "-o", "{userid} {contextual_info}"])?.ok()?;
    let told = format!("{NOBODYS} exec: no user {NOBODYS} on this host");
    assert_eq!(own.trim(), told);
    // Before that he has what others have.
    let waiting = ask(&["submit", "--urgency=hold", "true"])?.ok()?;
    let refused = site.run(&instance, BOB, &["cancel", waiting.trim()])?;
    assert!(refused.refusal()?.contains("another user's"), "{refused:?}");
    ask(&["cancel", waiting.trim()])?.ok()?;
    site.ok(&instance, BOB, &["run", "true"])?;
    instance.shut_down()
}

#[test]
fn a_user_who_asks_without_end_is_told_so_and_others_are_served() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let config = "[limits]\nuser_rate = 1\n";
    let (site, instance) = Site::configured(config, &["--cores=1"])?;
    let over = (0..40).find_map(|_| {
        let ran = site.run(&instance, ANN, &["resource", "list"]).ok()?;
        (ran.code != 0).then_some(ran)
    });
    let over = over.context("ann is to be over the limit at last")?;
    let line = over.refusal()?;
    assert!(
        line.contains("limit `user_rate` of 1 requests a second"),
        "{line}"
    );
    assert!(line.contains("ask again in"), "{line}");
    site.ok(&instance, BOB, &["resource", "list"])?;
    instance.ok(&["resource", "list"]).map(drop)
}

/// In /tmp anybody may be first.
#[test]
fn where_sockets_are_to_be_nobody_else_has_put_anything() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let (site, root) = site(&["--cores=1"])?;
    let ann = site.users[ANN].uid;
    let shared = format!("/tmp/eddy-{ann}");
    let [ann, bob] = [ANN, BOB].map(|user| &site.users[user].name);
    let as_ann = |words: &[&str], runtime: Option<&Path>| {
        let mut command = site.eddy(&root, ANN, words);
        command.env_remove("EDDY_URI");
        runtime.map(|runtime| command.env("XDG_RUNTIME_DIR", runtime));
        Running::start(command)?.wait()
    };
    for (puts, kind, mode) in [
        (["mkdir", "-m", "700"], "directory", "700"),
        (["ln", "-s", "/tmp"], "symbolic link", "777"),
    ] {
        let mut squat = site.command(&root.place, BOB, Path::new(puts[0]));
        squat.args(&puts[1..]).arg(&shared);
        Running::start(squat)?.wait()?.ok()?;
        let ran = as_ann(&["start", "--cores=1", "true"], None)?;
        let line = format!(
            "run directory {shared}: is a {kind} of user {bob} with mode {mode}; allowed is a directory of user {ann} \
             with mode 700 or 711, or another place by XDG_RUNTIME_DIR or rank.rundir"
        );
        assert!(ran.refusal()?.ends_with(&line), "{}", ran.err);
        let ran = as_ann(&["jobs"], None)?;
        let line = format!("; {shared} is not looked at: not a directory of yours alone");
        assert!(ran.refusal()?.ends_with(&line), "{}", ran.err);
        // A place of her own, as a login gives her one.
        as_ann(&["start", "--cores=1", "true"], Some(&site.users[ANN].home))?.ok()?;
        let mut gone = site.command(&root.place, BOB, Path::new("rm"));
        gone.args(["-r", &shared]);
        Running::start(gone)?.wait()?.ok()?;
    }
    root.shut_down()
}
