//! A JSON array on its way to standard output, whose elements are printed as they come: of a hundred thousand
//! rows none is kept.
//!
//! Used by what lists jobs. What it prints is what [`output::json`](crate::output::json) would print of all at once.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

/// How an array is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// In several lines, for people.
    Pretty,
    /// In one.
    Plain,
}

/// An array, as far as it is printed.
pub struct Array<W> {
    out: W,
    form: Form,
    count: usize,
}

impl<W: Write> Array<W> {
    /// In several lines where standard output is a terminal.
    pub fn to(out: W) -> Array<W> {
        let form = match io::stdout().is_terminal() {
            true => Form::Pretty,
            false => Form::Plain,
        };
        Array {
            out,
            form,
            count: 0,
        }
    }

    /// Elements that are printed.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Prints one more.
    ///
    /// # Errors
    /// It cannot be written, or is no JSON.
    pub fn put(&mut self, element: &impl Serialize) -> io::Result<()> {
        let before = match self.count {
            0 => b"[",
            _ => b",",
        };
        self.count += 1;
        self.out.write_all(before)?;
        match self.form {
            Form::Plain => Ok(serde_json::to_writer(&mut self.out, element)?),
            Form::Pretty => {
                let text = serde_json::to_string_pretty(element)?;
                write!(self.out, "\n  {}", text.replace('\n', "\n  "))
            }
        }
    }

    /// Ends it. One without elements is one, too.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(&mut self) -> io::Result<()> {
        match (self.count, self.form) {
            (0, _) => writeln!(self.out, "[]")?,
            (_, Form::Plain) => writeln!(self.out, "]")?,
            (_, Form::Pretty) => writeln!(self.out, "\n]")?,
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn printed(form: Form, elements: &[Value]) -> String {
        let mut out = Vec::new();
        let mut array = Array::to(&mut out);
        array.form = form;
        for element in elements {
            array.put(element).expect("to memory");
        }
        array.end().expect("to memory");
        String::from_utf8(out).expect("JSON")
    }

    #[test]
    fn elements_that_come_one_by_one_are_the_array_that_they_would_be_at_once() {
        let elements = [json!({"id": 1, "name": "a\nb"}), json!({"id": 2})];
        for some in [&elements[..], &elements[..1], &[]] {
            let all = json!(some);
            let pretty = serde_json::to_string_pretty(&all).expect("JSON");
            assert_eq!(printed(Form::Pretty, some), format!("{pretty}\n"));
            assert_eq!(printed(Form::Plain, some), format!("{all}\n"));
        }
    }

    /// Whoever reads no more ends a listing without a word.
    #[test]
    fn a_reader_that_is_gone_is_told_as_that() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                match bytes {
                    [b'['] => Ok(1),
                    _ => Err(io::ErrorKind::BrokenPipe.into()),
                }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let failed = Array::to(Gone).put(&json!({"id": 1}));
        let error = failed.expect_err("nobody reads").into();
        assert!(crate::output::is_reader_gone(&error));
    }
}
