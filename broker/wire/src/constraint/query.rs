//! Constraints as people write them (RFC 35): `host:a[0-3] and (fast or not gpu)`.
//!
//! Called through [`Constraint::from_query`](super::Constraint::from_query) and, for the way back, by
//! its `Display`. Words
//! beside each other are joined by and, which binds tighter than or. It reads what
//! the operators of RFC 31 can say and nothing else.

use std::fmt;

use thiserror::Error;

use crate::hostlist::Hostlist;

use super::{CONSTRAINT_DEPTH_MAX, Constraint, ConstraintError, hostlist, properties, ranks};

/// Why a text is not a query. Places count characters from 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QueryError {
    /// Something is missing.
    #[error("query ends; allowed are a term, not and (")]
    End,
    /// Something that cannot be there.
    #[error("query has `{given}` at position {at}; allowed are {allowed}")]
    Unexpected {
        /// As given.
        given: String,
        /// Where.
        at: usize,
        /// What could be there.
        allowed: &'static str,
    },
    /// A quote that does not end.
    #[error("query has no end of the quote at position {at}")]
    Quote {
        /// Where it begins.
        at: usize,
    },
    /// An operator that does not exist.
    #[error(
        "query has the operator `{given}` at position {at}; allowed are properties, host, hosts, hostlist, rank and ranks"
    )]
    Operator {
        /// As given.
        given: String,
        /// Where.
        at: usize,
    },
    /// Nothing behind an operator.
    #[error("query has nothing behind `{operator}:` at position {at}")]
    NoOperand {
        /// The operator.
        operator: String,
        /// Where.
        at: usize,
    },
    /// Deeper than constraints may nest.
    #[error("query nests deeper than {CONSTRAINT_DEPTH_MAX}")]
    TooDeep,
    /// What is behind an operator cannot be read.
    #[error("query has a wrong term at position {at}")]
    Term {
        /// Where.
        at: usize,
        /// Why.
        #[source]
        source: ConstraintError,
    },
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    And,
    Or,
    Not,
    Open,
    Close,
    Term(String),
    /// `-x`
    Without(String),
}

struct Reader {
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
}

pub(super) fn read(text: &str) -> Result<Constraint, QueryError> {
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return Ok(Constraint::And(Vec::new()));
    }
    let mut reader = Reader {
        tokens,
        at: 0,
        depth: 0,
    };
    let all = reader.any()?;
    match reader.tokens.get(reader.at) {
        None => Ok(all),
        Some((at, token)) => Err(unexpected(*at, token, "and, or and a term")),
    }
}

impl Reader {
    /// Terms joined by or.
    fn any(&mut self) -> Result<Constraint, QueryError> {
        self.depth += 1;
        if self.depth > CONSTRAINT_DEPTH_MAX {
            return Err(QueryError::TooDeep);
        }
        let mut parts = vec![self.all()?];
        while matches!(self.tokens.get(self.at), Some((_, Token::Or))) {
            self.at += 1;
            parts.push(self.all()?);
        }
        self.depth -= 1;
        Ok(joined(parts, Constraint::Or))
    }

    /// Terms joined by and, or by nothing.
    fn all(&mut self) -> Result<Constraint, QueryError> {
        let mut parts = vec![self.one()?];
        loop {
            match self.tokens.get(self.at).map(|(_, token)| token) {
                Some(Token::And) => {
                    self.at += 1;
                    parts.push(self.one()?);
                }
                Some(Token::Not | Token::Open | Token::Term(_) | Token::Without(_)) => {
                    parts.push(self.one()?)
                }
                Some(Token::Or | Token::Close) | None => return Ok(joined(parts, Constraint::And)),
            }
        }
    }

    fn one(&mut self) -> Result<Constraint, QueryError> {
        // A row of nots is bounded by the text; each turns the one before.
        let mut nots = 0;
        while matches!(self.tokens.get(self.at), Some((_, Token::Not))) {
            self.at += 1;
            nots += 1;
        }
        let Some((at, token)) = self.tokens.get(self.at).cloned() else {
            return Err(QueryError::End);
        };
        self.at += 1;
        let found = match token {
            Token::Term(text) => term(&text, at)?,
            Token::Without(text) => Constraint::Not(vec![term(&text, at)?]),
            Token::Open => {
                let inner = self.any()?;
                match self.tokens.get(self.at) {
                    Some((_, Token::Close)) => self.at += 1,
                    Some((at, token)) => return Err(unexpected(*at, token, "and, or and )")),
                    None => return Err(QueryError::End),
                }
                inner
            }
            Token::And | Token::Or | Token::Not | Token::Close => {
                return Err(unexpected(at, &token, "a term, not and ("));
            }
        };
        Ok(match nots % 2 {
            1 => Constraint::Not(vec![found]),
            _ => found,
        })
    }
}

fn joined(mut parts: Vec<Constraint>, join: impl Fn(Vec<Constraint>) -> Constraint) -> Constraint {
    match (parts.len(), parts.pop()) {
        (1, Some(only)) => only,
        (_, Some(last)) => {
            parts.push(last);
            join(parts)
        }
        (_, None) => join(parts),
    }
}

fn unexpected(at: usize, token: &Token, allowed: &'static str) -> QueryError {
    let given = match token {
        Token::And => "and".to_owned(),
        Token::Or => "or".to_owned(),
        Token::Not => "not".to_owned(),
        Token::Open => "(".to_owned(),
        Token::Close => ")".to_owned(),
        Token::Term(text) => text.clone(),
        Token::Without(text) => format!("-{text}"),
    };
    QueryError::Unexpected { given, at, allowed }
}

/// `operator:operand`, or an operand of properties.
fn term(text: &str, at: usize) -> Result<Constraint, QueryError> {
    let (operator, operand) = text.split_once(':').unwrap_or(("properties", text));
    if operand.is_empty() {
        let operator = operator.to_owned();
        return Err(QueryError::NoOperand { operator, at });
    }
    let found = match operator {
        "properties" => properties(&operand.split(',').collect::<Vec<_>>(), "query"),
        "host" | "hosts" | "hostlist" => hostlist(&[operand], "query"),
        "rank" | "ranks" => ranks(&[operand], "query"),
        other => {
            let given = other.to_owned();
            return Err(QueryError::Operator { given, at });
        }
    };
    found.map_err(|source| QueryError::Term { at, source })
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, QueryError> {
    let characters: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&c) = characters.get(at) {
        let begins = at;
        let doubled = characters.get(at + 1) == Some(&c);
        let (token, wide) = match c {
            c if c.is_whitespace() => {
                at += 1;
                continue;
            }
            '&' => (Token::And, if doubled { 2 } else { 1 }),
            '|' => (Token::Or, if doubled { 2 } else { 1 }),
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '-' => {
                let (word, wide, _) = word(&characters, at + 1)?;
                if word.is_empty() {
                    let given = characters
                        .get(at + 1)
                        .map_or(String::new(), char::to_string);
                    return Err(QueryError::Unexpected {
                        given,
                        at: at + 1,
                        allowed: "a term right behind -",
                    });
                }
                (Token::Without(word), wide + 1)
            }
            _ => {
                let (word, wide, quoted) = word(&characters, at)?;
                let token = match (word.as_str(), quoted) {
                    ("and", Quoted::No) => Token::And,
                    ("or", Quoted::No) => Token::Or,
                    ("not", Quoted::No) => Token::Not,
                    (_, Quoted::No | Quoted::Yes) => Token::Term(word),
                };
                (token, wide)
            }
        };
        tokens.push((begins, token));
        at += wide;
    }
    Ok(tokens)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoted {
    No,
    Yes,
}

/// The word at a position, how many characters it has, and whether any was quoted.
fn word(characters: &[char], from: usize) -> Result<(String, usize, Quoted), QueryError> {
    let (mut word, mut at, mut quoted) = (String::new(), from, Quoted::No);
    while let Some(&c) = characters.get(at) {
        match c {
            '\'' | '"' => {
                let rest = &characters[at + 1..];
                let length = rest
                    .iter()
                    .position(|&other| other == c)
                    .ok_or(QueryError::Quote { at })?;
                word.extend(&rest[..length]);
                at += length + 2;
                quoted = Quoted::Yes;
            }
            '&' | '|' | '(' | ')' => break,
            c if c.is_whitespace() => break,
            c => {
                word.push(c);
                at += 1;
            }
        }
    }
    Ok((word, at - from, quoted))
}

/// What stands for a constraint that allows every node; it is never asked for.
const ANY: &str = "any node";

/// Writes the text that is read as a constraint of the same nodes.
pub(super) fn write(constraint: &Constraint, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match constraint {
        Constraint::Properties(names) if names.is_empty() => f.write_str(ANY),
        Constraint::Properties(names) => write_properties(names, f),
        Constraint::Hostlist(hosts) => {
            let mut list = Hostlist::new();
            let mut all = hosts.iter();
            all.try_for_each(|host| list.push(host))
                .map_err(|_| fmt::Error)?;
            write!(f, "host:{list}")
        }
        Constraint::Ranks(ranks) => write!(f, "rank:{ranks}"),
        Constraint::And(parts) => write_joined(parts, " and ", f),
        Constraint::Or(parts) => write_joined(parts, " or ", f),
        Constraint::Not(parts) => {
            f.write_str("not ")?;
            match parts.as_slice() {
                [only] => write_part(only, f),
                _ => {
                    f.write_str("(")?;
                    write_joined(parts, " and ", f)?;
                    f.write_str(")")
                }
            }
        }
    }
}

fn write_joined(parts: &[Constraint], word: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match parts {
        [] => f.write_str(ANY),
        [only] => write(only, f),
        [first, rest @ ..] => {
            write_part(first, f)?;
            rest.iter().try_for_each(|part| {
                f.write_str(word)?;
                write_part(part, f)
            })
        }
    }
}

/// A part of something: in brackets where it has parts itself.
fn write_part(part: &Constraint, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match part {
        Constraint::And(_) | Constraint::Or(_) => {
            f.write_str("(")?;
            write(part, f)?;
            f.write_str(")")
        }
        Constraint::Properties(_)
        | Constraint::Hostlist(_)
        | Constraint::Ranks(_)
        | Constraint::Not(_) => write(part, f),
    }
}

/// Names with commas between, which is and; quoted where they are words of the text.
fn write_properties(names: &[String], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let text = names.join(",");
    let is_word = ["and", "or", "not"].contains(&text.as_str());
    let quote = match is_word || text.starts_with('-') || text.contains(char::is_whitespace) {
        true => "'",
        false => "",
    };
    // What is before the first colon is an operator.
    let operator = match text.contains(':') {
        true => "properties:",
        false => "",
    };
    write!(f, "{quote}{operator}{text}{quote}")
}
