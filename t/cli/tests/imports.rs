//! What of other schedulers becomes a configuration or accounts, and what is then said and left as it is.

use std::fs;

use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;

type Tested = anyhow::Result<()>;

#[test]
fn a_configuration_without_nodes_leaves_the_file_of_nodes_and_says_so() -> Tested {
    let place = Place::new()?;
    let (conf, nodes) = (place.join("slurm.conf"), place.join("nodes.json"));
    fs::write(&conf, "PartitionName=a Nodes=ALL\n")?;
    fs::write(&nodes, "of another day")?;
    let words = ["config", "import", "--resources", &nodes, &conf];
    let ran = place.run(&words)?;
    assert_eq!(ran.code, 1, "{}", ran.err);
    let said =
        format!("eddy config import: --resources {nodes}: is not written: {conf} has no nodes");
    assert!(ran.err.starts_with(&said), "{}", ran.err);
    assert_eq!(fs::read_to_string(&nodes)?, "of another day");
    fs::write(&conf, "NodeName=n1\nPartitionName=a Nodes=ALL\n")?;
    assert_eq!(place.run(&words)?.code, 0);
    assert!(fs::read_to_string(&nodes)?.starts_with('{'));
    Ok(())
}

#[test]
fn what_says_nothing_is_refused_and_what_is_included_is_read() -> Tested {
    let place = Place::new()?;
    let (conf, parts) = (place.join("slurm.conf"), place.join("parts.conf"));
    for text in ["", "# of another day\n"] {
        fs::write(&conf, text)?;
        let ran = place.run(&["config", "import", &conf])?;
        let said = format!("eddy config import: {conf}: says nothing; allowed are ");
        assert!(ran.refusal()?.starts_with(&said), "{}", ran.err);
    }
    for text in ["[[queue]]\nname = \"a\"\n", "root:x:0:0\nann:x:7:7\n"] {
        fs::write(&conf, text)?;
        let ran = place.run(&["config", "import", &conf])?;
        let said = format!(
            "eddy config import: {conf}: has nothing that can be taken over; allowed are a slurm.conf and"
        );
        assert!(ran.refusal()?.starts_with(&said), "{}", ran.err);
    }
    fs::write(&conf, "Include parts.conf\n")?;
    fs::write(&parts, "NodeName=n1 Color=red\nPartitionName=a Nodes=ALL\n")?;
    let ran = place.run(&["config", "import", &conf])?;
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("name = \"a\""), "{}", ran.out);
    assert!(
        ran.err.contains(&format!("{parts}: line 1: Color=red")),
        "{}",
        ran.err
    );
    fs::write(&parts, "Include slurm.conf\n")?;
    let ran = place.run(&["config", "import", &conf])?;
    let said = format!("{parts}: line 1: Include slurm.conf: it is included in itself");
    assert!(ran.refusal()?.contains(&said), "{}", ran.err);
    Ok(())
}

#[test]
fn a_queue_whose_users_cannot_be_said_is_closed_and_the_import_fails() -> Tested {
    let place = Place::new()?;
    let conf = place.join("slurm.conf");
    let imported = |key: &str| {
        fs::write(&conf, format!("PartitionName=a Nodes=ALL {key}\n"))?;
        place.run(&["config", "import", &conf])
    };
    let ran = imported("DenyQos=long")?;
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.out.contains("users = [\"root\"]"), "{}", ran.out);
    assert!(
        ran.err
            .contains("line 1: queue a: is closed to all but root"),
        "{}",
        ran.err
    );
    for known in ["RootOnly=YES", "AllowGroups=root"] {
        let ran = imported(known)?;
        assert_eq!(ran.code, 0, "{known}: {}", ran.err);
        assert!(ran.out.contains("users = ["), "{known}: {}", ran.out);
    }
    Ok(())
}

#[test]
fn accounts_stay_where_a_file_has_nothing_or_something_is_wrong_with_it() -> Tested {
    let instance = Instance::start(&["--fake", "nodes=1,cores=4"])?;
    instance.ok(&["account", "add", "a"])?;
    let before = instance.ok(&["account", "export"])?;
    let file = instance.place.join("dump");
    for (text, said) in [
        ("", vec!["has no account and no user in it"]),
        (
            "# a comment\nCluster - 'tux':Fairshare=1\n",
            vec!["has no account and no user in it"],
        ),
        (
            "Parent - 'root'\nAccount - 'b':QOS='nope'\nParent - 'zz'\nAccount - 'c':Fairshare=1\n",
            vec![
                "line 2: account `b`: qos.allowed: `nope` given, there are ",
                "line 4: account `c`: parent: there is no account `zz`",
            ],
        ),
        (
            "Parent - 'root'\nAccount - 'b':Fairshare=x\nAccount - 'c':GrpJobs=y\n",
            vec![
                "line 2: account b: Fairshare: `x`",
                "line 3: account c: GrpJobs: `y`",
            ],
        ),
    ] {
        fs::write(&file, text)?;
        for more in [&[][..], &["--replace"], &["--replace", "--dry-run"]] {
            let words = [
                &["account", "import", "--format=slurm"],
                more,
                &[file.as_str()],
            ]
            .concat();
            let ran = instance.run(&words)?;
            assert_eq!(ran.code, 1, "{text}: {}", ran.out);
            let lines: Vec<&str> = ran.err.lines().collect();
            assert_eq!(lines.len(), said.len(), "{}", ran.err);
            for (line, said) in lines.iter().zip(&said) {
                assert!(
                    line.starts_with(&format!("eddy account import: {file}: {said}")),
                    "{line}"
                );
            }
        }
    }
    assert_eq!(instance.ok(&["account", "export"])?, before);
    Ok(())
}
