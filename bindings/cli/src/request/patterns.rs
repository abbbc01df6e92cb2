//! Names of files as Slurm has them, `%x-%j.out`, in the words of this system: `{{name}}-{{id}}.out`.
//!
//! Called for the options that name files. The jobspec has tags alone, and a name in it is as it stands.

use anyhow::bail;

use crate::table::escaped;

/// Each letter behind `%` that Slurm knows and that something here is the same as.
const SAME: [(char, &str); 7] = [
    ('j', "{{id}}"),
    ('x', "{{name}}"),
    ('t', "{{taskid}}"),
    ('N', "{{node.name}}"),
    ('n', "{{node.id}}"),
    ('a', "{cc}"),
    ('%', "%"),
];
/// Those that nothing here is the same as: the number of an array, what `%a` ends with, steps, and the user.
const OTHER: &str = "AbJsu";

/// The name with tags in place of patterns. A `%` before anything that is no pattern is one.
///
/// # Errors
/// A pattern that is none here, or has a width: a file of that name is not what anybody wants.
pub fn tags(option: &str, name: &str) -> anyhow::Result<String> {
    let mut made = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('%') {
        made.push_str(before);
        let letter = after.trim_start_matches(|c: char| c.is_ascii_digit());
        let width = &after[..after.len() - letter.len()];
        let mut letters = letter.chars();
        let letter = letters.next().unwrap_or(' ');
        let same = SAME.iter().find(|(known, _)| *known == letter);
        match (same, width) {
            (Some((_, tag)), "") => {
                made.push_str(tag);
                rest = letters.as_str();
            }
            // `50%%` has a width only by accident.
            (Some(('%', _)), _) | (None, _) if !OTHER.contains(letter) => {
                made.push('%');
                rest = after;
            }
            (Some(_) | None, _) => bail!(
                "{option}={}: has %{width}{letter}; known are %j, %x, %t, %N, %n, %a and %% without a width, as {{{{id}}}}, \
                 {{{{name}}}}, {{{{taskid}}}}, {{{{node.name}}}}, {{{{node.id}}}}, {{cc}} and %",
                escaped(name)
            ),
        }
    }
    made.push_str(rest);
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_slurm_become_tags() {
        let made = |name: &str| tags("--output", name).expect("a name");
        assert_eq!(made("%x-%j.out"), "{{name}}-{{id}}.out");
        assert_eq!(
            made("o.%t.%N.%n.%a"),
            "o.{{taskid}}.{{node.name}}.{{node.id}}.{cc}"
        );
        // What is none stays, and so does what is written twice.
        for name in ["plain", "{{id}}", "100%", "5% of", "%", "%d", "a%2F"] {
            assert_eq!(made(name), name);
        }
        assert_eq!(made("%%j"), "%j");
    }

    #[test]
    fn a_pattern_that_nothing_is_the_same_as_is_refused() {
        for (name, pattern) in [("%A_%a", "%A"), ("o.%4t", "%4t"), ("%u", "%u")] {
            let error = tags("--error", name).expect_err("refused").to_string();
            let begin = format!("--error={name}: has {pattern}; known are %j, ");
            assert!(error.starts_with(&begin), "{error}");
            assert!(error.contains("as {{id}}, {{name}}, "), "{error}");
        }
    }
}
