//! Commands that an instance names in what it says, as `eddy release f4`: with the way to it they may be typed as they
//! stand.
//!
//! Used by `why`, `jobs` and `alloc`; jobs that are named beside are given the path of their instance likewise. It
//! knows no instance.

use eddy_wire::id::JobId;

/// Before a command in a text, and behind it.
const BEGINS: &str = "`eddy ";
const ENDS: char = '`';

/// The same text, in which commands of one verb and one job lead `at` the instance, and to the job by the `path` of
/// its instance from there.
pub fn with_way(text: &str, at: &str, path: Option<&str>) -> String {
    let mut parts = text.split(BEGINS);
    let mut told = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        told.push_str(BEGINS);
        let command = part.split_once(ENDS);
        let words = command.and_then(|(command, rest)| Some((command.split_once(' ')?, rest)));
        match words {
            Some(((verb, job), rest)) if !job.contains([' ', '/']) => {
                let path = path.map_or_else(String::new, |path| {
                    format!("{}/", path.trim_end_matches('/'))
                });
                told.push_str(&format!("{at}{verb} {path}{job}{ENDS}{rest}"));
            }
            Some(_) | None => told.push_str(part),
        }
    }
    told
}

/// The same text, in which jobs of an instance that has this path are named with it, as other commands take them.
pub fn with_path(text: &str, path: &str) -> String {
    let mut names = false;
    let word = |word: &str| {
        let bare = word.trim_end_matches([',', ';', ':', ')']);
        let is_job = names && bare.starts_with('f') && bare.parse::<JobId>().is_ok();
        // A list goes on behind each of its commas.
        names = matches!(bare, "job" | "jobs") || is_job && word.ends_with(',');
        match is_job {
            true => format!("{path}/{word}"),
            false => word.to_owned(),
        }
    };
    let words: Vec<String> = text.split(' ').map(word).collect();
    words.join(" ")
}

/// As a shell takes it for one word.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._:-+,@%".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_named_leads_to_the_instance() {
        let held = "is held: its urgency is 0 (`eddy release f4` lets it go), and waits for job f3";
        assert_eq!(with_way(held, "", None), held);
        assert_eq!(
            with_way(held, "--at /tmp/x ", None),
            held.replace("eddy release f4", "eddy --at /tmp/x release f4")
        );
        assert_eq!(
            with_way(held, "--parent ", Some("905/3")),
            held.replace("eddy release f4", "eddy --parent release 905/3/f4")
        );
        for other in [
            "`eddy start` begins it",
            "a ` and `eddy ",
            "waits for `nodes`",
        ] {
            assert_eq!(with_way(other, "--at x ", Some("9")), other);
        }
    }

    #[test]
    fn jobs_that_are_named_are_those_of_the_instance() {
        let said = |text| with_path(text, "905/3");
        for (text, told) in [
            (
                "waits behind job f6, which waits for 2 cores; 0 are free now",
                "waits behind job 905/3/f6, which waits for 2 cores; 0 are free now",
            ),
            (
                "waits for jobs f6, f7 and 2 of others, making room",
                "waits for jobs 905/3/f6, f7 and 2 of others, making room",
            ),
            ("waits for the job of fred", "waits for the job of fred"),
            ("job 7 failed; from f6 on", "job 7 failed; from f6 on"),
        ] {
            assert_eq!(said(text), told.replace(" f7", " 905/3/f7"));
        }
    }

    #[test]
    fn a_way_is_one_word_of_a_shell() {
        assert_eq!(quoted("local:///tmp/x/local"), "local:///tmp/x/local");
        assert_eq!(quoted("/tmp/it's a"), "'/tmp/it'\\''s a'");
    }
}
