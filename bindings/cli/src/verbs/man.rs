//! `eddy man`: the man pages, made from the same text as `--help`.

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::Man;

/// Write the man pages to a directory
#[derive(clap::Args)]
pub struct Args {
    /// Where to
    #[arg(value_name = "DIR")]
    directory: String,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let directory = Path::new(&args.directory);
    fs::create_dir_all(directory).with_context(|| args.directory.clone())?;
    for (name, page) in pages()? {
        let path = directory.join(&name);
        fs::write(&path, page).with_context(|| path.display().to_string())?;
    }
    Ok(0)
}

/// Every page with its file name.
fn pages() -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut pages = Vec::new();
    // Builds global options and names into every verb.
    let mut command = crate::Cli::command();
    command.build();
    collect(&command, "eddy", &mut pages)?;
    Ok(pages)
}

fn collect(
    command: &Command,
    name: &str,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> anyhow::Result<()> {
    let mut page = Vec::new();
    Man::new(command.clone())
        .title(name.to_uppercase())
        .date(" ")
        .source("eddy")
        .manual("eddy manual")
        .render(&mut page)?;
    // Lines that end in blanks make a diff hard to read.
    let text = String::from_utf8_lossy(&page);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    pages.push((format!("{name}.1"), (lines.join("\n") + "\n").into_bytes()));
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        collect(verb, &format!("{name}-{}", verb.get_name()), pages)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE=1 cargo test -p eddy-cli` writes them anew.
    #[test]
    fn the_committed_man_pages_are_what_the_command_would_write() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../doc/man");
        let pages = pages().expect("pages");
        if std::env::var_os("UPDATE").is_some() {
            fs::create_dir_all(&directory).expect("made");
            for (name, page) in &pages {
                fs::write(directory.join(name), page).expect("written");
            }
        }
        for (name, page) in &pages {
            let committed = fs::read(directory.join(name)).unwrap_or_default();
            assert!(
                committed == *page,
                "doc/man/{name} is old: UPDATE=1 cargo test -p eddy-cli"
            );
        }
        let there = fs::read_dir(&directory).expect("a directory").count();
        assert_eq!(
            there,
            pages.len(),
            "doc/man has pages of verbs that are no more"
        );
    }

    /// A full stop at the end of a help text is taken off, also where it was what the text is about; and what
    /// an option is where it is not given is not the same for a verb that adds as for one that edits.
    #[test]
    fn no_help_breaks_off_or_tells_an_edit_of_defaults() {
        fn look(command: &Command, name: &str) {
            let texts = command.get_arguments().map(|argument| {
                let text = argument.get_long_help().or(argument.get_help());
                (argument.get_id().as_str(), text)
            });
            let own = ("itself", command.get_long_about().or(command.get_about()));
            for (what, text) in texts.chain([own]) {
                let text = text.map(ToString::to_string).unwrap_or_default();
                let last = text.split_whitespace().next_back().unwrap_or_default();
                let breaks_off = ["and", "or", "-", ":"].contains(&last) || last.ends_with(',');
                assert!(!breaks_off, "eddy {name}: {what}: `{text}`");
                let is_edit = name.contains(" edit") && text.contains("[default");
                assert!(!is_edit, "eddy {name}: {what}: `{text}`");
            }
            for verb in command.get_subcommands() {
                look(verb, format!("{name} {}", verb.get_name()).trim_start());
            }
        }
        let mut command = crate::Cli::command();
        command.build();
        look(&command, "");
    }

    #[test]
    fn every_verb_can_be_parsed() {
        crate::Cli::command().debug_assert();
    }
}
