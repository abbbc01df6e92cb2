//! A Rust file taken apart into code and comments, so that a rule about code is not fooled by a string
//! and a rule about comments not by code. Made by `tree`, read by every rule about Rust.
//! A lexer of literals and comments only: it never parses, and text that does not compile still gives
//! an answer.

use std::ops::RangeInclusive;

/// One Rust file. `code` and `notes` have the same lines as `text`.
#[derive(Debug)]
pub struct Source {
    /// Path from the top of the repository.
    pub path: String,
    /// The file as it is.
    pub text: String,
    /// Comments and the insides of string and character literals blanked.
    pub code: String,
    /// All but the comments blanked.
    pub notes: String,
    /// Lines of items under `#[cfg(test)]`, counted from 1.
    pub tests: Vec<RangeInclusive<usize>>,
}

impl Source {
    /// Takes `text` apart.
    #[must_use]
    pub fn new(path: &str, text: &str) -> Self {
        let (code, notes) = Splitter::split(text);
        let tests = test_items(&code);
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code,
            notes,
            tests,
        }
    }

    /// True for a file that holds nothing but tests: `tests.rs`, `*_tests.rs`, or below `tests/`.
    #[must_use]
    pub fn is_test_file(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name == "tests.rs"
            || name.ends_with("_tests.rs")
            || self.path.split('/').any(|part| part == "tests")
    }

    /// True if the line, counted from 1, is part of a test.
    #[must_use]
    pub fn is_test_line(&self, line: usize) -> bool {
        self.is_test_file() || self.tests.iter().any(|lines| lines.contains(&line))
    }

    /// Lines of code, with their numbers counted from 1.
    pub fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }
}

/// Line of a byte offset, counted from 1.
#[must_use]
pub fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

/// Offset of the bracket that closes the `{` at `open`, or the end of the text.
#[must_use]
pub fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return offset,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    code.len()
}

/// Offset of the first `{` or `;` at or after `from` that is in no parenthesis or bracket.
#[must_use]
pub fn body_or_end(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'{' | b';' if depth == 0 => return Some(offset),
            _ => {}
        }
    }
    None
}

/// Byte offsets at which `word` stands alone: no letter, digit or `_` touches an end of it that is one.
pub fn word_offsets<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let touches = |c: Option<char>| c.is_some_and(is_word);
    let first = word.chars().next().is_some_and(is_word);
    let last = word.chars().next_back().is_some_and(is_word);
    code.match_indices(word)
        .map(|(offset, _)| offset)
        .filter(move |offset| {
            let before = code[..*offset].chars().next_back();
            let after = code[offset + word.len()..].chars().next();
            let glued = (first && touches(before)) || (last && touches(after));
            !glued
        })
}

/// True for what an identifier may hold.
#[must_use]
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn test_items(code: &str) -> Vec<RangeInclusive<usize>> {
    let marks = ["#[cfg(test)]", "#[cfg(all(test"];
    let mut ranges = Vec::new();
    for mark in marks {
        for (start, _) in code.match_indices(mark) {
            let from = start + code[start..].find(']').unwrap_or(0) + 1;
            let Some(end) = body_or_end(code, from) else {
                continue;
            };
            if code.as_bytes()[end] == b'{' {
                ranges.push(line_of(code, start)..=line_of(code, closing(code, end)));
            }
        }
    }
    ranges
}

/// Where a character belongs.
#[derive(Clone, Copy)]
enum Part {
    Code,
    Note,
    Literal,
}

struct Splitter {
    chars: Vec<char>,
    at: usize,
    code: String,
    notes: String,
}

impl Splitter {
    fn split(text: &str) -> (String, String) {
        let mut splitter = Self {
            chars: text.chars().collect(),
            at: 0,
            code: String::new(),
            notes: String::new(),
        };
        while let Some(c) = splitter.peek(0) {
            match (c, splitter.peek(1)) {
                ('/', Some('/')) => splitter.line_comment(),
                ('/', Some('*')) => splitter.block_comment(),
                ('"', _) => splitter.string(),
                ('\'', _) => splitter.quote(),
                (c, _) if is_word(c) => splitter.word(),
                _ => splitter.take(Part::Code),
            }
        }
        (splitter.code, splitter.notes)
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// Moves one character to its part; the other part gets a blank, so that lines stay lines.
    fn take(&mut self, part: Part) {
        let Some(c) = self.peek(0) else { return };
        let (code, note) = match (c, part) {
            ('\n', _) => ('\n', '\n'),
            (c, Part::Code) => (c, ' '),
            (c, Part::Note) => (' ', c),
            (_, Part::Literal) => (' ', ' '),
        };
        self.code.push(code);
        self.notes.push(note);
        self.at += 1;
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.take(Part::Note);
        }
    }

    /// Block comments nest in Rust.
    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => {
                    self.take(Part::Note);
                    continue;
                }
            }
            self.take(Part::Note);
            self.take(Part::Note);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.take(Part::Code);
        while let Some(c) = self.peek(0) {
            match c {
                '\\' => {
                    self.take(Part::Literal);
                    self.take(Part::Literal);
                }
                '"' => return self.take(Part::Code),
                _ => self.take(Part::Literal),
            }
        }
    }

    /// A raw string whose quote is `hashes` characters ahead.
    fn raw_string(&mut self, hashes: usize) {
        for _ in 0..=hashes {
            self.take(Part::Code);
        }
        while let Some(c) = self.peek(0) {
            let ends = c == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            if ends {
                for _ in 0..=hashes {
                    self.take(Part::Code);
                }
                return;
            }
            self.take(Part::Literal);
        }
    }

    /// A character literal, or the tick of a lifetime or label.
    fn quote(&mut self) {
        let escaped = self.peek(1) == Some('\\');
        if !escaped && self.peek(2) != Some('\'') {
            return self.take(Part::Code);
        }
        self.take(Part::Code);
        if escaped {
            self.take(Part::Literal);
        }
        self.take(Part::Literal);
        while self.peek(0).is_some_and(|c| c != '\'' && c != '\n') {
            self.take(Part::Literal);
        }
        self.take(Part::Code);
    }

    /// An identifier or number, and the raw string it may be the prefix of.
    fn word(&mut self) {
        let start = self.at;
        while self.peek(0).is_some_and(is_word) {
            self.take(Part::Code);
        }
        let word: String = self.chars[start..self.at].iter().collect();
        if !matches!(word.as_str(), "r" | "br" | "cr") {
            return;
        }
        let hashes = self.chars[self.at..]
            .iter()
            .take_while(|c| **c == '#')
            .count();
        if self.peek(hashes) == Some('"') {
            self.raw_string(hashes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new("x.rs", text)
            .code
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn comments_leave_the_code_and_fill_the_notes() {
        let source = Source::new(
            "x.rs",
            "a(); // one { \"two\nb(); /* three /* four */ } */ c();",
        );
        assert_eq!(
            source.code.lines().map(str::trim).collect::<Vec<_>>()[0],
            "a();"
        );
        assert!(source.code.contains("b();") && source.code.contains("c();"));
        assert!(!source.code.contains('{') && !source.code.contains('}'));
        assert!(source.notes.contains("one { \"two") && source.notes.contains("four */ } */"));
        assert!(!source.notes.contains("c();"));
    }

    #[test]
    fn strings_are_emptied_but_keep_their_lines() {
        assert_eq!(code(r#"f("}{ \" // no", 1);"#), r#"f(" ", 1);"#);
        assert_eq!(
            code("f(r#\"} \" {\"#, br\"\\\", c\"{\");"),
            "f(r#\" \"#, br\" \", c\" \");"
        );
        let source = Source::new("x.rs", "let a = \"one\ntwo\";\nlet b;");
        assert_eq!(source.code.lines().count(), 3);
        assert!(source.code.ends_with("let b;"));
    }

    #[test]
    fn characters_and_lifetimes_are_told_apart() {
        assert_eq!(
            code("if c == '{' || c == '\\'' || c == b'\"' {}"),
            "if c == ' ' || c == ' ' || c == b' ' {}"
        );
        assert_eq!(
            code("'outer: loop { f::<'a, 'b>('\\u{7d}') }"),
            "'outer: loop { f::<'a, 'b>(' ') }"
        );
    }

    #[test]
    fn a_raw_identifier_is_no_raw_string() {
        assert_eq!(code("let r#type = a; \"{\""), "let r#type = a; \" \"");
    }

    #[test]
    fn items_under_cfg_test_are_test_lines() {
        let text = "fn a() {\n}\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod more {\n  fn b() {}\n}\nfn c() {}\n";
        let source = Source::new("x.rs", text);
        let lines: Vec<usize> = (1..=9).filter(|line| source.is_test_line(*line)).collect();
        assert_eq!(lines, [5, 6, 7, 8]);
    }

    #[test]
    fn files_of_tests_are_known_by_name_or_folder() {
        let of = |path| Source::new(path, "").is_test_file();
        assert!(
            of("sched/src/tests.rs") && of("t/cli/tests/run.rs") && of("sched/src/plan_tests.rs")
        );
        assert!(!of("sched/src/contests.rs") && !of("sched/src/plan.rs"));
    }

    #[test]
    fn a_word_stands_alone() {
        assert_eq!(
            word_offsets("HashMap MyHashMap HashMapper x::HashMap", "HashMap").count(),
            2
        );
        assert_eq!(
            word_offsets("println!() eprintln!()", "println!").count(),
            1
        );
    }
}
