//! Lines of aligned columns, for people and for `awk`.
//!
//! Used by every listing. Columns are as wide as their widest cell; nothing is
//! cut, so that what is read by a script is whole.

use std::borrow::Cow;
use std::io::{self, Write};
use std::iter;

/// On which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Texts.
    Left,
    /// Numbers.
    Right,
    /// A heading, over numbers that end at different places.
    Center,
}

impl Align {
    /// Puts `cell` at the end of a line, in a column of `width`.
    pub fn put(self, line: &mut String, cell: &str, width: usize) {
        let blank = width.saturating_sub(cell.chars().count());
        let before = match self {
            Align::Left => 0,
            Align::Right => blank,
            Align::Center => blank / 2,
        };
        line.extend(iter::repeat_n(' ', before));
        line.push_str(cell);
        line.extend(iter::repeat_n(' ', blank - before));
    }
}

/// A text that users chose, for a terminal: a control character in it is shown
/// as it would be written in a program, so that it can neither break a line nor
/// steer the terminal.
pub fn escaped(text: &str) -> Cow<'_, str> {
    // Of most texts a look at their bytes is enough.
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if is_plain || !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let one = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    Cow::Owned(text.chars().map(one).collect())
}

/// The same of a text that is nobody else's.
pub fn shown(text: String) -> String {
    match escaped(&text) {
        Cow::Owned(escaped) => escaped,
        Cow::Borrowed(_) => text,
    }
}

/// A table being filled.
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new<T: Into<String>>(columns: impl IntoIterator<Item = (T, Align)>) -> Table {
        let columns = columns
            .into_iter()
            .map(|(title, align)| (title.into(), align))
            .collect();
        Table {
            columns,
            rows: Vec::new(),
        }
    }

    /// One more row, with a cell for each column.
    pub fn push(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.columns.len(), "a cell for each column");
        self.rows.push(row.into_iter().map(shown).collect());
    }

    /// The heading as a line; the widths come from all rows.
    pub fn heading(&self) -> String {
        let titles: Vec<String> = self
            .columns
            .iter()
            .map(|(title, _)| title.clone())
            .collect();
        self.line(&titles, &self.widths())
    }

    /// Writes the rows, without the heading.
    pub fn write_rows(&self, out: &mut impl Write) -> io::Result<()> {
        let widths = self.widths();
        for row in &self.rows {
            writeln!(out, "{}", self.line(row, &widths))?;
        }
        Ok(())
    }

    /// Writes the heading and the rows.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", self.heading())?;
        self.write_rows(out)
    }

    fn widths(&self) -> Vec<usize> {
        let cell = |at: usize, (title, _): &(String, Align)| {
            let cells = self.rows.iter().map(|row| row[at].chars().count());
            cells.max().unwrap_or(0).max(title.chars().count())
        };
        self.columns
            .iter()
            .enumerate()
            .map(|(at, column)| cell(at, column))
            .collect()
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (at, ((cell, (_, align)), width)) in
            cells.iter().zip(&self.columns).zip(widths).enumerate()
        {
            if at > 0 {
                line.push_str("  ");
            }
            align.put(&mut line, cell, *width);
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_users_are_shown_and_not_obeyed() {
        let mut table = Table::new([("NAME", Align::Left), ("STATE", Align::Left)]);
        table.push(vec!["a\nb\u{1b}[2Jc\u{9b}".into(), "RUN".into()]);
        let mut text = Vec::new();
        table.write_rows(&mut text).expect("memory");
        let text = String::from_utf8(text).expect("UTF-8");
        assert_eq!(text, "a\\nb\\u{1b}[2Jc\\u{9b}  RUN\n");
        assert_eq!(escaped("ƒ2 é"), "ƒ2 é");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new([("JOBID", Align::Right), ("NAME", Align::Left)]);
        table.push(vec!["ƒ2".into(), "a".into()]);
        table.push(vec!["ƒ2345678".into(), "longer".into()]);
        let mut text = Vec::new();
        table.write(&mut text).expect("memory");
        let text = String::from_utf8(text).expect("UTF-8");
        assert_eq!(text, "   JOBID  NAME\n      ƒ2  a\nƒ2345678  longer\n");
    }
}
