//! Comma-separated values (RFC 4180), as far as tables of accounts need them.

/// The names of the columns.
pub fn heading(line: &str) -> Vec<String> {
    rows(line).into_iter().next().unwrap_or_default()
}

/// All rows; a value in quotes may have commas, line ends and doubled quotes in it.
pub fn rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut value) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quoted, letter) {
            (true, '"') if letters.peek() == Some(&'"') => {
                letters.next();
                value.push('"');
            }
            (_, '"') => quoted = !quoted,
            (false, ',') => row.push(std::mem::take(&mut value)),
            (false, '\r') => {}
            (false, '\n') => {
                row.push(std::mem::take(&mut value));
                rows.push(std::mem::take(&mut row));
            }
            (_, other) => value.push(other),
        }
    }
    if !value.is_empty() || !row.is_empty() {
        row.push(value);
        rows.push(row);
    }
    rows.retain(|row| row.iter().any(|value| !value.is_empty()));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_be_quoted() {
        let all = rows("a,b\r\n\"x, \"\"y\"\"\",2\n\n,\nlast,");
        assert_eq!(all, [["a", "b"], ["x, \"y\"", "2"], ["last", ""]]);
    }
}
