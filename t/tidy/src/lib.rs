//! The repository's rules as tests: which crate may use which, what a pure crate may not name, how
//! long a file or function may be. Run by `t/run` with the other tests, and by hand as
//! `cargo run --release -p eddy-tidy`, which prints one line for each finding.
//!
//! Holds no opinion about behaviour, runs no other program than `git ls-files`, changes no file.
//! Reading order: `tree` (what is checked), `source` and `function` (how Rust text is read), then
//! one file for each family of rules, then `allow` (who is excused, and why).

pub mod allow;
pub mod depend;
pub mod function;
pub mod layout;
pub mod markdown;
pub mod purity;
pub mod shape;
pub mod source;
pub mod tree;
pub mod unfinished;
pub mod words;

#[cfg(test)]
mod tests;

use std::fmt;

use tree::Tree;

/// One rule of the repository. Its name in a finding is its `Display` form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A workspace crate uses only the crates its row in [`depend`] names.
    Direction,
    /// Nothing below a pure crate brings in a runtime, a log or a disk.
    Firewall,
    /// Every external crate is explained in doc/architecture.md.
    Purpose,
    /// No clock, randomness, I/O or unordered map in pure code.
    Purity,
    /// A file has at most 600 lines, its tests at most 1,000.
    FileSize,
    /// A function has at most 70 lines.
    FunctionSize,
    /// A line with a comment has at most 120 characters.
    Width,
    /// A Rust file begins with `//!`.
    Header,
    /// Public functions of pure crates take no `bool`.
    Boolean,
    /// `unsafe` only where it is expected, and always with its reason.
    Unsafe,
    /// Nothing is left for later, nothing is switched off.
    Unfinished,
    /// No test waits by sleeping.
    Sleep,
    /// A file is named after what it holds.
    Name,
    /// The top level holds what the design says and nothing else.
    TopLevel,
    /// A link in the documentation leads somewhere.
    Link,
    /// Every protocol page can be reached from doc/architecture.md.
    Protocol,
    /// No path of one person's machine.
    Workplace,
}

impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, out)
    }
}

/// One place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the top of the repository, `/` between its parts.
    pub file: String,
    /// Line, counted from 1; 1 when the whole file is meant.
    pub line: usize,
    /// The rule.
    pub rule: Rule,
    /// The thing that breaks it (a crate, a function, a word): what an allow-list row names.
    pub what: String,
    /// What is wrong and what to do instead, in one line.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}:{}: {} ({})",
            self.file, self.line, self.message, self.rule
        )
    }
}

/// Finds the places of one rule, excused or not.
type Check = fn(&Tree) -> Vec<Finding>;

/// Every rule and who looks for it. A rule that is not here is not checked.
const CHECKS: [(Rule, Check); 17] = [
    (Rule::Direction, depend::direction),
    (Rule::Firewall, depend::firewall),
    (Rule::Purpose, depend::purpose),
    (Rule::Purity, purity::check),
    (Rule::FileSize, shape::file_size),
    (Rule::FunctionSize, shape::function_size),
    (Rule::Width, shape::width),
    (Rule::Header, shape::header),
    (Rule::Boolean, shape::boolean),
    (Rule::Unsafe, unfinished::unsafe_code),
    (Rule::Unfinished, unfinished::check),
    (Rule::Sleep, unfinished::sleep),
    (Rule::Name, layout::name),
    (Rule::TopLevel, layout::top_level),
    (Rule::Link, markdown::link),
    (Rule::Protocol, markdown::protocol),
    (Rule::Workplace, words::workplace),
];

/// Every finding of every rule, ordered by place, without those that [`allow`] excuses. An excuse
/// that is no longer needed is a finding too.
#[must_use]
pub fn findings(tree: &Tree) -> Vec<Finding> {
    let raw = CHECKS.iter().flat_map(|(_, check)| check(tree)).collect();
    let mut kept = allow::excuse(tree, raw, allow::ALLOWED);
    kept.sort();
    kept.dedup();
    kept
}
