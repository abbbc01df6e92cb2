//! How large things may be and how they begin: files, functions, lines with comments, headers, and no
//! `bool` among the parameters of a public function. Limits come from doc/style.md.
//! Says nothing about what the code does.

use crate::function::{Kind, Reach, functions, parameters};
use crate::source::{Source, word_offsets};
use crate::tree::Tree;
use crate::{Finding, Rule, depend};

/// Lines of a file, its tests aside. Normal is 400.
pub const FILE_LINES_MAX: usize = 600;
/// Lines of tests in one file.
pub const TEST_LINES_MAX: usize = 1_000;
/// Lines of a function from `fn` to its brace. Normal is 35.
pub const FUNCTION_LINES_MAX: usize = 70;
/// Characters of a line with a comment: what a pair of windows side by side shows.
pub const WIDTH_MAX: usize = 120;

/// Files longer than the limits.
#[must_use]
pub fn file_size(tree: &Tree) -> Vec<Finding> {
    let find = |source: &Source, message: String| Finding {
        file: source.path.clone(),
        line: 1,
        rule: Rule::FileSize,
        what: source.path.clone(),
        message,
    };
    let mut findings = Vec::new();
    for source in &tree.sources {
        let lines = source.text.lines().count();
        let tests = (1..=lines)
            .filter(|line| source.is_test_line(*line))
            .count();
        if lines - tests > FILE_LINES_MAX {
            let message = format!(
                "has {} lines, at most {FILE_LINES_MAX}: split it by noun",
                lines - tests
            );
            findings.push(find(source, message));
        }
        if tests > TEST_LINES_MAX {
            let message = format!(
                "has {tests} lines of tests, at most {TEST_LINES_MAX}: split them by behaviour"
            );
            findings.push(find(source, message));
        }
    }
    findings
}

/// Functions longer than the limit, those of tests aside.
#[must_use]
pub fn function_size(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        let long = functions(source).into_iter().filter(|function| {
            function.kind == Kind::Product && function.lines > FUNCTION_LINES_MAX
        });
        findings.extend(long.map(|function| Finding {
            file: source.path.clone(),
            line: function.line,
            rule: Rule::FunctionSize,
            message: format!(
                "`{}` has {} lines, at most {FUNCTION_LINES_MAX}: let it decide and its leaves compute",
                function.name, function.lines
            ),
            what: function.name,
        }));
    }
    findings
}

/// Lines with a comment that are too wide. An address may be as long as it is.
#[must_use]
pub fn width(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        for (index, (text, note)) in source.text.lines().zip(source.notes.lines()).enumerate() {
            let wide = text.chars().count();
            if wide > WIDTH_MAX && !note.trim().is_empty() && !note.contains("://") {
                findings.push(Finding {
                    file: source.path.clone(),
                    line: index + 1,
                    rule: Rule::Width,
                    what: "width".to_owned(),
                    message: format!(
                        "line has {wide} characters, at most {WIDTH_MAX}: break the comment"
                    ),
                });
            }
        }
    }
    findings
}

/// Rust files that do not begin by saying what they are.
#[must_use]
pub fn header(tree: &Tree) -> Vec<Finding> {
    let bare = tree.sources.iter().filter(|source| {
        let first = source.text.lines().next().unwrap_or_default();
        first
            .strip_prefix("//!")
            .is_none_or(|words| words.trim().is_empty())
    });
    bare.map(|source| Finding {
        file: source.path.clone(),
        line: 1,
        rule: Rule::Header,
        what: "header".to_owned(),
        message: "begin the file with `//!`: what it is, who calls it, what it never does"
            .to_owned(),
    })
    .collect()
}

/// Public functions of pure crates with a `bool` among their parameters.
#[must_use]
pub fn boolean(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pure = |source: &&Source| {
        depend::PURE
            .iter()
            .any(|folder| source.path.starts_with(folder))
    };
    for source in tree.sources.iter().filter(pure) {
        for function in functions(source) {
            let flat: String = parameters(&function.signature).split_whitespace().collect();
            let flagged = word_offsets(&flat, ":bool").next().is_some();
            if flagged && function.reach == Reach::Public && function.kind == Kind::Product {
                findings.push(Finding {
                    file: source.path.clone(),
                    line: function.line,
                    rule: Rule::Boolean,
                    message: format!(
                        "`{}` takes a bool: write two functions or an enum",
                        function.name
                    ),
                    what: function.name,
                });
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    type Check = fn(&Tree) -> Vec<Finding>;

    fn found(check: Check, path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)]))
            .into_iter()
            .map(|f| format!("{}:{}", f.what, f.line))
            .collect()
    }

    #[test]
    fn tests_do_not_count_towards_the_size_of_a_file() {
        let full = "fn a() {}\n".repeat(FILE_LINES_MAX);
        let tail = "#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        assert_eq!(found(file_size, "x.rs", &format!("{full}{tail}")), [""; 0]);
        assert_eq!(
            found(file_size, "x.rs", &format!("{full}//\n{tail}")),
            ["x.rs:1"]
        );
        let most = "fn a() {}\n".repeat(TEST_LINES_MAX);
        assert_eq!(found(file_size, "x/tests.rs", &most), [""; 0]);
        assert_eq!(
            found(file_size, "x/tests.rs", &format!("{most}//\n")),
            ["x/tests.rs:1"]
        );
    }

    #[test]
    fn a_function_of_71_lines_is_one_too_long() {
        let of = |lines: usize| {
            format!(
                "//! X.\nfn long() {{\n{}}}\n",
                "    // } \"\n".repeat(lines - 2)
            )
        };
        assert_eq!(found(function_size, "x.rs", &of(70)), [""; 0]);
        assert_eq!(found(function_size, "x.rs", &of(71)), ["long:2"]);
        let test = of(71).replace("fn long", "#[test]\nfn long");
        assert_eq!(found(function_size, "x.rs", &test), [""; 0]);
    }

    #[test]
    fn wide_comments_are_found_and_wide_code_is_left_to_rustfmt() {
        let comment = format!("    // {}", "ä".repeat(WIDTH_MAX - 7));
        assert_eq!(found(width, "x.rs", &comment), [""; 0]);
        assert_eq!(found(width, "x.rs", &format!("{comment}.")), ["width:1"]);
        assert_eq!(
            found(
                width,
                "x.rs",
                &format!("let a = \"{}\";", "a".repeat(WIDTH_MAX))
            ),
            [""; 0]
        );
        assert_eq!(
            found(
                width,
                "x.rs",
                &format!("// https://{}", "a".repeat(WIDTH_MAX))
            ),
            [""; 0]
        );
    }

    #[test]
    fn a_file_begins_with_words_about_itself() {
        assert_eq!(found(header, "x.rs", "//! The ids.\n"), [""; 0]);
        for bad in [
            "",
            "//!\n",
            "// The ids.\n",
            "\n//! The ids.\n",
            "use std::fmt;\n",
        ] {
            assert_eq!(found(header, "x.rs", bad), ["header:1"]);
        }
    }

    #[test]
    fn a_public_bool_parameter_is_found_in_pure_crates_only() {
        let bad = "pub fn place(&mut self, job: Job, try_again: bool) -> bool {}\n";
        assert_eq!(found(boolean, "sched/src/x.rs", bad), ["place:1"]);
        assert_eq!(found(boolean, "broker/brokerd/src/x.rs", bad), [""; 0]);
        let good = "pub fn free(&self) -> bool {}\nfn inner(a: bool) {}\npub fn each(f: impl Fn(u8) -> bool) {}\n";
        assert_eq!(found(boolean, "sched/src/x.rs", good), [""; 0]);
    }
}
