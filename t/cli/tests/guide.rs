//! Every example of `doc/guide/nesting.md`, `simulator.md` and `fair-share.md`, run as printed there.
//!
//! A block marked `console` is a directory of its own: lines that begin with
//! `$ ` are commands (`> ` goes on with one), what follows is all that it
//! prints. A block marked `toml` is a configuration that is accepted, and is in
//! the directories of the examples behind it under the name that they say.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use eddy_cli_tests::place::Place;
use eddy_cli_tests::running::Running;

type Tested = anyhow::Result<()>;

/// One command and what it prints.
#[derive(Debug, Default)]
struct Step {
    command: String,
    prints: String,
}

/// The guide's text.
fn guide() -> anyhow::Result<String> {
    page("nesting.md")
}

/// The text of a page of the guide.
fn page(name: &str) -> anyhow::Result<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../doc/guide");
    let path = guide.join(name);
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// The blocks of this kind, each with the number of its first line.
fn blocks(text: &str, kind: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (fence, mut inside) = (format!("```{kind}"), None);
    for (number, line) in text.lines().enumerate() {
        match (&mut inside, line) {
            (None, line) if line == fence => inside = Some((number + 2, String::new())),
            (Some(_), "```") => found.extend(inside.take()),
            (Some((_, block)), line) => *block += &format!("{line}\n"),
            (None, _) => {}
        }
    }
    found
}

/// The commands of a block.
fn steps(block: &str) -> anyhow::Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), line.strip_prefix("> ")) {
            (Some(command), _) => steps.push(Step {
                command: command.to_owned(),
                ..Step::default()
            }),
            (None, more) => {
                let step = steps.last_mut().context("a block begins with `$ `")?;
                match more {
                    Some(more) if step.prints.is_empty() => step.command += &format!("\n{more}"),
                    _ => step.prints += &format!("{line}\n"),
                }
            }
        }
    }
    Ok(steps)
}

/// A shell in that place, in which `eddy` is the one under test.
fn shell(place: &Place, command: &str) -> anyhow::Result<Command> {
    let program = place.program();
    let folder = Path::new(&program).parent().context("it is in a folder")?;
    let path = std::env::var("PATH")?;
    let mut shell = place.command("/bin/sh");
    // People see both streams in one.
    shell.args(["-c", &format!("exec 2>&1\n{command}")]);
    shell.env("PATH", format!("{}:{path}", folder.display()));
    Ok(shell)
}

/// Runs one block; nothing of it may be left, neither processes nor directories.
fn holds(block: &str, configuration: &str) -> Tested {
    let place = Place::new()?;
    let words = block.split_whitespace();
    for name in words.filter(|word| word.ends_with(".toml")) {
        fs::write(place.path().join(name), configuration)?;
    }
    for step in steps(block)? {
        let ran = Running::start(shell(&place, &step.command)?)?.wait()?;
        ensure!(
            ran.out == step.prints,
            "$ {}\nis to print\n{}and prints\n{}",
            step.command,
            step.prints,
            ran.out
        );
    }
    place.nothing_is_left()?;
    for name in ["tmp", "run/eddy"] {
        let folder = fs::read_dir(place.path().join(name));
        let left: Vec<_> = folder.into_iter().flatten().flatten().collect();
        ensure!(left.is_empty(), "left in {name}: {left:?}");
    }
    Ok(())
}

#[test]
fn each_example_of_the_guide_does_what_it_says() -> Tested {
    let text = guide()?;
    let examples = blocks(&text, "console");
    let given = blocks(&text, "toml");
    assert!(examples.len() >= 8, "{} examples", examples.len());
    let mut wrong = Vec::new();
    for (line, block) in examples {
        let before = given.iter().rev().find(|(at, _)| *at < line);
        let configuration = before.map_or("", |(_, block)| block);
        if let Err(error) = holds(&block, configuration) {
            wrong.push(format!("doc/guide/nesting.md:{line}: {error:#}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}

#[test]
fn each_example_of_the_simulator_does_what_it_says() -> Tested {
    let text = page("simulator.md")?;
    let examples = blocks(&text, "console");
    assert_eq!(examples.len(), 3);
    for (line, block) in examples {
        holds(&block, "").with_context(|| format!("doc/guide/simulator.md:{line}"))?;
    }
    Ok(())
}

#[test]
fn each_example_of_fair_share_does_what_it_says() -> Tested {
    let text = page("fair-share.md")?;
    let examples = blocks(&text, "console");
    assert_eq!(examples.len(), 5);
    for (line, block) in examples {
        holds(&block, "").with_context(|| format!("doc/guide/fair-share.md:{line}"))?;
    }
    for (_, block) in blocks(&text, "toml") {
        let place = Place::new()?;
        fs::write(place.path().join("config.toml"), block)?;
        let ran = place.run(&["config", "check", "config.toml"])?;
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    Ok(())
}

#[test]
fn the_examples_of_a_site_do_what_they_say() -> Tested {
    let text = page("site.md")?;
    let examples = blocks(&text, "console");
    let of_queues = examples
        .iter()
        .filter(|(_, block)| block.contains("[[queue]]"));
    for (line, block) in of_queues {
        holds(block, "").with_context(|| format!("doc/guide/site.md:{line}"))?;
    }
    Ok(())
}

#[test]
fn each_example_of_dependencies_does_what_it_says() -> Tested {
    let text = page("dependencies.md")?;
    let examples = blocks(&text, "console");
    assert_eq!(examples.len(), 6);
    let mut wrong = Vec::new();
    for (line, block) in examples {
        if let Err(error) = holds(&block, "") {
            wrong.push(format!("doc/guide/dependencies.md:{line}: {error:#}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}

#[test]
fn the_configuration_in_the_guide_is_accepted() -> Tested {
    let place = Place::new()?;
    let examples = blocks(&guide()?, "toml");
    assert!(!examples.is_empty());
    for (_, block) in examples {
        fs::write(place.path().join("config.toml"), block)?;
        let ran = place.run(&["config", "check", "config.toml"])?;
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    Ok(())
}
