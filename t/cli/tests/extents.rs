//! Instances that are declared by what their nodes are: by host, by property, a share of all.

use std::fs;

use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use eddy_wire::hostlist::Hostlist;
use serde_json::Value;

type Tested = anyhow::Result<()>;

/// Starts an instance of four nodes that are pretended, with this configuration.
fn start(text: &str) -> anyhow::Result<Instance> {
    start_on(&["--fake", "nodes=4,cores=1,gpus=1"], text)
}

/// The same on the nodes that these options say.
fn start_on(nodes: &[&str], text: &str) -> anyhow::Result<Instance> {
    let place = Place::new()?;
    let file = place.join("eddy.toml");
    fs::write(&file, text)?;
    let state = place.path().join("state");
    Instance::start_in(place, state, &[nodes, &["--config", &file]].concat())
}

/// The hosts of the instance, in the order of their ranks.
fn hosts() -> anyhow::Result<Vec<String>> {
    let instance = Instance::start(&["--fake", "nodes=4,cores=1"])?;
    let rows = instance.json(&["resource", "status", "--json"])?;
    let rows = rows.as_array().cloned().unwrap_or_default();
    let host = |row: &Value| row["host"].as_str().unwrap_or_default().to_owned();
    Ok(rows.iter().map(host).collect())
}

#[test]
fn hosts_properties_and_shares_are_looked_up_at_the_start() -> Tested {
    let hosts = hosts()?;
    let mut two = Hostlist::default();
    two.push(&hosts[1])?;
    two.push(&hosts[2])?;
    let text = format!(
        "[[instance]]\nname = \"a\"\nhosts = \"{two}\"\n\
         [[instance]]\nname = \"b\"\nshare = \"25%\"\n\
         [[instance]]\nname = \"c\"\nelastic = {{ property = \"gpu\" }}\nhome = {{ hosts = \"{}\" }}\n\
         [[queue]]\nname = \"c\"\ninstance = \"c\"\n",
        hosts[3]
    );
    let instance = start(&text)?;
    let declared = instance.json(&["config", "get", "instance"])?;
    assert_eq!(
        (&declared[0]["ranks"], &declared[1]["nodes"]),
        (&Value::from("1-2"), &Value::from(1))
    );
    assert_eq!(
        (&declared[2]["elastic"], &declared[2]["home"]),
        (&Value::from("0-3"), &Value::from("3"))
    );
    let rows = instance.json(&["jobs", "--json"])?;
    let rows = rows.as_array().cloned().unwrap_or_default();
    let first = rows.iter().find(|row| row["name"] == "a");
    let first = first.map(|row| row["id"].to_string()).unwrap_or_default();
    instance.event(&first, "alloc")?;
    let nodes = instance.row(&first)?["nodelist"].clone();
    assert_eq!(nodes, Value::from(two.to_string()));
    // What differs is told, and stays until the next start.
    let path = instance.place.join("eddy.toml");
    fs::write(&path, text.replace("25%", "50%"))?;
    assert_eq!(
        instance.ok(&["config", "reload"])?,
        "instance.b.share: \"25%\" -> \"50%\" (from the next start on)"
    );
    Ok(())
}

#[test]
fn a_host_that_is_not_there_is_told_by_the_instance() -> Tested {
    let started = start("[[instance]]\nname = \"a\"\nhosts = \"nowhere[7-8]\"\n");
    let error = started.map(|_| ()).expect_err("it has no such host");
    let told = format!("{error:#}");
    let line = "instance `a`: asks for host `nowhere7`, which is not in the inventory";
    assert!(told.contains(line), "{told}");
    Ok(())
}

#[test]
fn what_instances_of_a_fixed_size_hold_is_asked_for_by_nobody_else() -> Tested {
    let instance = start(
        "[[instance]]\nname = \"own\"\nranks = \"1-2\"\n[[instance]]\nname = \"all\"\nelastic = \"all\"\n\
         [[queue]]\nname = \"own\"\ninstance = \"own\"\n[[queue]]\nname = \"all\"\ninstance = \"all\"\n",
    )?;
    instance.ok(&["run", "-q", "own", "-N2", "true"])?;
    for words in [
        &["submit", "-N3", "true"][..],
        &["submit", "-q", "all", "-n3", "true"],
    ] {
        let refused = instance.run(words)?;
        let line = refused.refusal()?;
        assert!(
            line.ends_with("has 2 beside those of instances of a fixed size"),
            "{line}"
        );
    }
    instance.ok(&["run", "-q", "all", "-N2", "-t", "1m", "true"])?;
    instance.shut_down()
}

#[test]
fn who_became_too_large_beside_a_fixed_instance_is_told_so_and_holds_up_nobody() -> Tested {
    let instance = start_on(
        &["--size=4", "--cores=1"],
        "[policy]\npreset = \"fcfs\"\n[[instance]]\nname = \"own\"\nranks = \"1\"\n[[queue]]\nname = \"own\"\n\
         instance = \"own\"\n[[queue]]\nname = \"all\"\ninstance = \"root\"\ndefault = true\n",
    )?;
    instance.ok(&["run", "-q", "own", "true"])?;
    let first = instance.submit_started(&["-N1", "--exclusive", "sleep", "1000"])?;
    let large = instance.submit(&["-N3", "--exclusive", "true"])?;
    let behind = instance.submit(&["-N1", "true"])?;
    instance.ok(&["resource", "remove", "3"])?;
    instance.event(&behind, "clean")?;
    let reason = "asks for 3 whole nodes; there are 2 beside those of instances of a fixed size (ranks 1), so that \
                  it never starts as things are";
    assert_eq!(instance.row(&large)?["reason"], reason);
    let why = instance.ok(&["why", &large])?;
    assert!(why.contains(&format!("  reason: {reason}")), "{why}");
    let fewer = instance.ok(&["why", &large, "--if", "nodes=1"])?;
    assert!(
        fewer.contains("  if kept back by nothing else: it would start at once"),
        "{fewer}"
    );
    instance.ok(&["cancel", &first])?;
    instance.ok(&["resource", "add", "1"])?;
    instance.event(&large, "clean")?;
    assert_eq!(instance.code(&large)?, 0);
    instance.shut_down()
}

#[test]
fn a_node_that_is_nobodys_is_for_jobs_that_are_lent_none() -> Tested {
    let instance = start(
        "[[instance]]\nname = \"own\"\nranks = \"1\"\n[[instance]]\nname = \"home\"\nelastic = \"2-3\"\nhome = \"2-3\"\nlend_max = \"1m\"\n\
         [[queue]]\nname = \"own\"\ninstance = \"own\"\n[[queue]]\nname = \"home\"\ninstance = \"home\"\n",
    )?;
    instance.ok(&["run", "-q", "own", "true"])?;
    let long = instance.ok(&["submit", "--wait", "-t", "5m", "true"])?;
    let row = instance.row(long.trim_end())?;
    assert_eq!(row["nodelist"], "fake0", "{row}");
    instance.shut_down()
}
