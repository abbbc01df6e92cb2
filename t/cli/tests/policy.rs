//! `eddy policy`: the presets, a policy that reads back, errors with their lines.

use std::fs;

use eddy_cli_tests::place::Place;

type Tested = anyhow::Result<()>;

#[test]
fn every_preset_that_is_listed_is_shown_and_reads_back() -> Tested {
    let place = Place::new()?;
    let list = place.run(&["policy", "list"])?.ok()?;
    let names: Vec<&str> = list
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(
        names.contains(&"flux") && names.contains(&"armada"),
        "{list}"
    );
    for name in names {
        let shown = place.run(&["policy", "show", name])?.ok()?;
        fs::write(place.join("shown.toml"), &shown)?;
        assert_eq!(
            place.run(&["policy", "check", "shown.toml"])?.code,
            0,
            "{name}"
        );
        let again = place.run(&["policy", "show", "shown.toml"])?.ok()?;
        assert_eq!(again, shown, "{name}");
    }
    Ok(())
}

#[test]
fn each_error_of_a_file_is_a_line_that_says_where() -> Tested {
    let place = Place::new()?;
    let text = "preset = \"easy\"\n[queue]\nwalk = \"run\"\nfoo = 1\n";
    fs::write(place.join("bad.toml"), text)?;
    let ran = place.run(&["policy", "check", "bad.toml"])?;
    assert_eq!(ran.code, 1);
    let lines: Vec<&str> = ran.err.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ran.err);
    for (line, said) in lines
        .iter()
        .zip(["line 3: queue.walk", "line 4: queue.foo"])
    {
        let begin = format!("eddy policy check: bad.toml: {said}");
        assert!(line.starts_with(&begin), "{line}");
    }
    let ran = place.run(&["sim", "none.swf", "--policy", "bad.toml"])?;
    let line = ran.refusal()?;
    assert!(line.contains("line 3") && line.contains("1 more"), "{line}");
    Ok(())
}
