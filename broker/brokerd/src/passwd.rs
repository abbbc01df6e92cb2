//! The numbers of users by name, as this host's file of users has them.
//!
//! Asked when a configuration names users. It asks no directory service: users that only such a
//! service knows are given by number.

use std::fs;

/// The number of a user; `None` if this host's file does not have the name.
pub fn number(name: &str) -> Option<u32> {
    found(&fs::read_to_string("/etc/passwd").ok()?, name)
}

/// The users whose own group this is, by name.
pub fn of_group(gid: u32) -> Vec<String> {
    in_group(&fs::read_to_string("/etc/passwd").unwrap_or_default(), gid)
}

fn in_group(text: &str, gid: u32) -> Vec<String> {
    let member = |line: &str| {
        let mut parts = line.split(':');
        let name = parts.next()?;
        (parts.nth(2)?.parse() == Ok(gid)).then(|| name.to_owned())
    };
    text.lines().filter_map(member).collect()
}

fn found(text: &str, name: &str) -> Option<u32> {
    let number = |line: &str| {
        let mut parts = line.split(':');
        (parts.next() == Some(name)).then(|| parts.nth(1)?.parse().ok())?
    };
    text.lines().find_map(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_number_of_his_line() {
        let text = "root:x:0:0::/:/bin/sh\nalice:x:1000:7::/:/bin/sh\nbroken\n";
        assert_eq!(found(text, "alice"), Some(1000));
        assert_eq!(found(text, "bob"), None);
        assert_eq!(found(text, "broken"), None);
        assert_eq!(in_group(text, 7), ["alice"]);
        assert_eq!(in_group(text, 1000), Vec::<String>::new());
    }
}
