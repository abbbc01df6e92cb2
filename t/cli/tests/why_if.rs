//! What `eddy why` says would be, with real processes: with `--if` of limits, queues, accounts and QoS, and as advice.

use std::fs;

use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use eddy_cli_tests::users::{Site, can_make_users};
use serde_json::json;

type Tested = anyhow::Result<()>;

const CONFIG: &str = r#"
[exec.test]
run_duration = "3000s"

[[qos]]
name = "high"
user_limits = { cores = 2 }

[[qos]]
name = "low"

[[queue]]
name = "batch"
default = true
limits = { cores = 3 }

[[queue]]
name = "debug"
max_time = "30m"

[[queue]]
name = "strict"
limits = { nodes = 1, excess = "refuse" }
"#;

fn start() -> anyhow::Result<Instance> {
    let place = Place::new()?;
    let file = place.join("eddy.toml");
    fs::write(&file, CONFIG)?;
    let state = place.path().join("state");
    Instance::start_in(
        place,
        state,
        &["--fake", "nodes=1,cores=4", "--config", &file],
    )
}

#[test]
fn a_limit_that_would_keep_it_back_is_named_with_its_figures() -> Tested {
    let instance = start()?;
    instance.submit_started(&["-n2", "-t", "1h", "true"])?;
    let why = |job: &str, what: &str| instance.ok(&["why", job, "--if", what]);
    let held = instance.submit(&["-n2", "-t", "1h", "true"])?;
    let by = "limit `cores` of queue `batch` is 3: 2 are taken, 2 asked for";
    let reason = instance.row(&held)?["reason"].to_string();
    assert!(reason.contains(by), "{reason}");
    let fewer = why(&held, "slots=1")?;
    assert!(
        fewer.contains("\n  limit:  none would keep it back\n"),
        "{fewer}"
    );
    let longer = why(&held, "time=2h")?;
    assert!(
        longer.contains(&format!("\n  limit:  it would be kept back: {by}\n")),
        "{longer}"
    );
    // Which of the others it would be within.
    let waits = instance.submit(&["-q", "debug", "-n4", "-t", "10m", "true"])?;
    let other = why(&waits, "queue=batch")?;
    let over = "limit `cores` of queue `batch` is 3: 2 are taken, 4 asked for";
    assert!(other.contains("it asked for -q batch\n"), "{other}");
    assert!(
        other.ends_with(&format!("it would be refused: {over}")),
        "{other}"
    );
    let high = why(&waits, "slots=3,qos=high")?;
    assert!(high.contains("limit `cores` of"), "{high}");
    assert!(high.contains("is 2: 0 are taken, 3 asked for"), "{high}");
    let low = why(&waits, "slots=1,qos=low")?;
    assert!(
        low.ends_with("  start:  at once") || low.contains("  start:  at once\n"),
        "{low}"
    );
    let strict = why(&waits, "queue=strict,slots=2")?;
    assert!(strict.contains("  start:  at once\n"), "{strict}");
    let nowhere = why(&waits, "queue=nowhere")?;
    assert!(
        nowhere.contains("it would be refused: attributes.system.queue: `nowhere` given"),
        "{nowhere}"
    );
    let nobody = why(&waits, "qos=gold")?;
    assert!(
        nobody.contains("it would be refused: attributes.system.qos: `gold` given"),
        "{nobody}"
    );
    let unlimited = why(&waits, "time=inf")?;
    assert!(
        unlimited.contains("it asked for -t inf\n")
            && unlimited
                .contains("attributes.system.duration: none given, queue `debug` allows 1800 s"),
        "{unlimited}"
    );
    let told = instance.json(&["why", &held, "--if", "time=2h", "--json"])?;
    assert_eq!(
        told[0]["bound"],
        json!({"becomes": "held", "why": by}),
        "{told}"
    );
    Ok(())
}

#[test]
fn who_has_whole_nodes_is_advised_to_ask_for_fewer_and_for_nothing_else() -> Tested {
    let nodes = ["--fake", "nodes=2,cores=2"];
    let for_long = ["-S", "exec.test.run_duration=3000s"];
    let instance = Instance::start(&[nodes, for_long].concat())?;
    instance.submit_started(&["-N1", "-t", "1h", "true"])?;
    let waits = instance.submit(&["-N2", "-t", "1h", "true"])?;
    let told = instance.ok(&["why", &waits])?;
    let advice = "  sooner: with -N 1 it would start at once";
    assert!(told.lines().any(|line| line == advice), "{told}");
    Ok(())
}

/// Each in a line of its own, of which only the other is free.
#[test]
fn what_would_be_in_a_queue_with_nodes_of_its_own_is_reckoned_there() -> Tested {
    let instance = |rank: u32| {
        format!(
            "[[instance]]\nname = \"i{rank}\"\nranks = \"{rank}\"\n\
             [[queue]]\nname = \"q{rank}\"\ninstance = \"i{rank}\"\n"
        )
    };
    let place = Place::new()?;
    let file = place.join("eddy.toml");
    fs::write(&file, [instance(0), instance(1)].concat())?;
    let state = place.path().join("state");
    let nodes = [
        "--fake",
        "nodes=2,cores=2",
        "-S",
        "exec.test.run_duration=3000s",
    ];
    let root = Instance::start_in(place, state, &[&nodes[..], &["--config", &file]].concat())?;
    root.submit_started(&["-q", "q0", "-n2", "-t", "1h", "true"])?;
    let waits = root.submit(&["-q", "q0", "-n1", "-t", "5m", "true"])?;
    let there = root.ok(&["why", &waits, "--if", "queue=q1"])?;
    assert!(there.contains("start:  at once"), "{there}");
    root.submit_started(&["-q", "q1", "-n2", "-t", "2h", "true"])?;
    let there = root.json(&["why", "--json", &waits, "--if", "queue=q1"])?;
    let here = root.json(&["why", "--json", &waits])?;
    let at = |told: &serde_json::Value| told[0]["start"]["latest"].as_f64();
    assert!(at(&there) > at(&here), "{there} {here}");
    root.shut_down()
}

#[test]
fn of_what_would_be_refused_it_is_not_told_when_it_would_start() -> Tested {
    let instance = start()?;
    let later = instance.submit(&["--begin-time=+1h", "-n1", "true"])?;
    let let_go = "if kept back by nothing else: it would start at once";
    let high = instance.ok(&["why", &later, "--if", "qos=high"])?;
    assert!(high.contains(let_go), "{high}");
    let refused = instance.ok(&["why", &later, "--if", "queue=nowhere"])?;
    assert!(
        refused
            .contains("  start:  never: it would be refused: attributes.system.queue: `nowhere`")
            && !refused.contains("if kept back"),
        "{refused}"
    );
    let told = instance.json(&["why", &later, "--if", "queue=nowhere", "--json"])?;
    assert_eq!(told[0]["bound"]["becomes"], "refused", "{told}");
    assert_eq!(told[0]["let_go"], json!(null), "{told}");
    Ok(())
}

#[test]
fn an_urgency_that_its_user_may_not_ask_for_is_no_promise() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    const ANN: usize = 0;
    let (site, instance) = Site::configured("", &["--cores=1"])?;
    instance.submit_started(&["-t", "1h", "sleep", "3000"])?;
    let job = site.ok(&instance, ANN, &["submit", "-t", "1h", "true"])?;
    let act = site.run(&instance, ANN, &["job", "urgency", &job, "20"])?;
    let words = "urgency 20 given, its user may ask for 0 to 16";
    assert!(act.refusal()?.ends_with(words), "{act:?}");
    let own = site.ok(&instance, ANN, &["why", &job, "--if", "urgency=20"])?;
    let never = format!("\n  start:  never: it would be refused: {words}");
    assert!(own.ends_with(&never), "{own}");
    let may = site.ok(&instance, ANN, &["why", &job, "--if", "urgency=10"])?;
    assert!(
        may.contains("  start:  ") && !may.contains("never"),
        "{may}"
    );
    let owner = instance.ok(&["why", &job, "--if", "urgency=20"])?;
    assert!(!owner.contains("never"), "{owner}");
    instance.shut_down()
}
