//! Finds the functions of a Rust file and how long they are, by counting braces in code that
//! `source` has freed of strings and comments. Read by `shape`.
//! Knows no types and expands no macros; a body that is not closed ends with the file.

use crate::source::{Source, body_or_end, closing, is_word, line_of, word_offsets};

/// One function with a body, or a declaration of one without.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Line of the word `fn`, counted from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace; 0 for a declaration.
    pub lines: usize,
    /// What stands between the name and the body.
    pub signature: String,
    /// Who may call it.
    pub reach: Reach,
    /// What it is for.
    pub kind: Kind,
}

/// Who may call a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// `pub`
    Public,
    /// Anything less.
    Inside,
}

/// Whether a function ships.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It ships.
    Product,
    /// It has a test attribute or stands in test code.
    Test,
}

/// Every function of the file, in the order they begin; one inside another counts for both.
#[must_use]
pub fn functions(source: &Source) -> Vec<Function> {
    word_offsets(&source.code, "fn")
        .filter_map(|offset| function_at(source, offset))
        .collect()
}

fn function_at(source: &Source, offset: usize) -> Option<Function> {
    let code = source.code.as_str();
    let rest = code[offset + 2..].trim_start();
    let name: String = rest
        .chars()
        .take_while(|c| is_word(*c) || *c == '#')
        .collect();
    if name.is_empty() {
        return None; // the type `fn(A) -> B`
    }
    let after_name = code.len() - rest.len() + name.len();
    let end = body_or_end(code, after_name).unwrap_or(code.len());
    let line = line_of(code, offset);
    let lines = if code.as_bytes().get(end) == Some(&b'{') {
        let last = closing(code, end).min(code.len().saturating_sub(1));
        line_of(code, last) - line + 1
    } else {
        0
    };
    let head = code[..offset]
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .trim_start();
    Some(Function {
        name,
        line,
        lines,
        signature: code[after_name..end].to_owned(),
        reach: if head.starts_with("pub ") {
            Reach::Public
        } else {
            Reach::Inside
        },
        kind: if source.is_test_line(line) || has_test_attribute(code, line) {
            Kind::Test
        } else {
            Kind::Product
        },
    })
}

/// Looks at the attributes directly above a line; blanked doc comments between them do not end them.
fn has_test_attribute(code: &str, line: usize) -> bool {
    let above: Vec<&str> = code.lines().take(line.saturating_sub(1)).collect();
    above
        .iter()
        .rev()
        .map(|line| line.trim())
        .take_while(|line| line.is_empty() || line.starts_with("#[") || line.ends_with(")]"))
        .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
}

/// The parameters of a signature: what is between its first parenthesis and the one that closes it.
#[must_use]
pub fn parameters(signature: &str) -> &str {
    let Some(open) = parameters_open(signature) else {
        return "";
    };
    let mut depth = 0_usize;
    for (offset, byte) in signature.bytes().enumerate().skip(open) {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 1 => return &signature[open + 1..offset],
            b')' => depth -= 1,
            _ => {}
        }
    }
    &signature[open + 1..]
}

/// The parenthesis after the generics, which may themselves hold some: `<F: Fn(u8) -> bool>(..)`.
fn parameters_open(signature: &str) -> Option<usize> {
    let mut angle = 0_usize;
    let mut before = ' ';
    for (offset, c) in signature.char_indices() {
        match c {
            '<' => angle += 1,
            '>' if before != '-' => angle = angle.saturating_sub(1),
            '(' if angle == 0 => return Some(offset),
            _ => {}
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(text: &str) -> Vec<(String, usize)> {
        functions(&Source::new("x.rs", text))
            .into_iter()
            .map(|f| (f.name, f.lines))
            .collect()
    }

    #[test]
    fn braces_in_text_do_not_count() {
        let text = "fn a() {\n  f('}', \"}\", r#\"}\"#); // }\n  /* } */\n}\nfn b() {}\n";
        assert_eq!(lengths(text), [("a".to_owned(), 4), ("b".to_owned(), 1)]);
    }

    #[test]
    fn a_long_signature_counts_and_an_array_in_it_does_not_end_it() {
        let text = "pub fn a(\n  x: [u8; 4],\n) -> [u8; 2]\nwhere\n  T: Copy,\n{\n  [0; 2]\n}\n";
        assert_eq!(lengths(text), [("a".to_owned(), 8)]);
    }

    #[test]
    fn a_function_inside_counts_for_both() {
        assert_eq!(
            lengths("fn a() {\n  fn b() {\n  }\n  b();\n}\n"),
            [("a".to_owned(), 5), ("b".to_owned(), 2)]
        );
    }

    #[test]
    fn declarations_and_function_types_have_no_length() {
        let text = "trait T { fn a(&self) -> u8; }\ntype F = fn(u8) -> u8;\n";
        assert_eq!(lengths(text), [("a".to_owned(), 0)]);
    }

    #[test]
    fn a_body_that_is_not_closed_ends_with_the_file() {
        assert_eq!(lengths("fn a() {\n  if x {\n"), [("a".to_owned(), 2)]);
        assert_eq!(lengths("fn a("), [("a".to_owned(), 0)]);
    }

    #[test]
    fn reach_and_kind_are_read_from_what_stands_before() {
        let text = "pub const fn a() {}\npub(crate) fn b() {}\n/// Words.\n#[test]\n#[should_panic(expected = \"x\")]\nfn c() {}\nfn d() {}\n";
        let found: Vec<_> = functions(&Source::new("x.rs", text))
            .into_iter()
            .map(|f| (f.reach, f.kind))
            .collect();
        let (public, inside) = (Reach::Public, Reach::Inside);
        let (product, test) = (Kind::Product, Kind::Test);
        assert_eq!(
            found,
            [
                (public, product),
                (inside, product),
                (inside, test),
                (inside, product)
            ]
        );
    }

    #[test]
    fn parameters_come_after_the_generics() {
        assert_eq!(
            parameters("<F: Fn(u8) -> bool>(f: F, (a, b): (u8, u8)) -> (u8, u8)"),
            "f: F, (a, b): (u8, u8)"
        );
        assert_eq!(parameters("(&self)"), "&self");
    }
}
