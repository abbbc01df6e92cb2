//! Names of users for numbers and back, as far as this host's files know them.
//!
//! Reads /etc/passwd once for a listing. It asks no directory service: a user
//! it does not know is shown as a number.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anyhow::bail;

/// Before the number of a user in what an instance says.
const USER: &str = "user ";

/// Read once for all that is said.
static HOST: LazyLock<Users> = LazyLock::new(Users::read);

/// What an instance says, which knows users by number: those that this host's files know by name are named so.
pub fn named(text: &str) -> String {
    match text.contains(USER) {
        true => HOST.named_in(text),
        false => text.to_owned(),
    }
}

/// The users this host knows.
#[derive(Clone, Debug, Default)]
pub struct Users {
    by_number: BTreeMap<u32, String>,
}

impl Users {
    /// Reads the host's file of users.
    pub fn read() -> Users {
        let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let mut users = Users::of(&text);
        // Who is logged in by a directory service is known at least to himself.
        let own = rustix::process::geteuid().as_raw();
        if let Some(name) = std::env::var("USER").ok().filter(|name| !name.is_empty()) {
            users.by_number.entry(own).or_insert(name);
        }
        users
    }

    fn of(passwd: &str) -> Users {
        let mut by_number = BTreeMap::new();
        for line in passwd.lines() {
            let mut parts = line.split(':');
            let (name, number) = (parts.next(), parts.nth(1));
            if let (Some(name), Some(Ok(number))) = (name, number.map(str::parse)) {
                by_number.entry(number).or_insert_with(|| name.to_owned());
            }
        }
        Users { by_number }
    }

    /// The name of a user, or the number.
    pub fn name(&self, uid: u32) -> String {
        self.by_number
            .get(&uid)
            .cloned()
            .unwrap_or_else(|| uid.to_string())
    }

    /// The same text with names for the numbers of users.
    fn named_in(&self, text: &str) -> String {
        let is_of_word = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
        let mut parts = text.split(USER);
        let mut told = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            // Whom a host does not know he has no name there, whatever he is called here.
            let is_word = !told.ends_with(is_of_word) && !told.ends_with(" no ");
            told.push_str(USER);
            let end = part.find(|letter: char| !letter.is_ascii_digit());
            let (number, rest) = part.split_at(end.unwrap_or(part.len()));
            let number = number.parse().ok().filter(|_| is_word);
            match number.filter(|_| !rest.starts_with(is_of_word)) {
                Some(number) => told.push_str(&(self.name(number) + rest)),
                None => told.push_str(part),
            }
        }
        told
    }

    /// The number of a user given by name or number.
    pub fn number(&self, given: &str) -> anyhow::Result<u32> {
        if let Ok(number) = given.parse() {
            return Ok(number);
        }
        match self.by_number.iter().find(|(_, name)| *name == given) {
            Some((number, _)) => Ok(*number),
            None => bail!("no user `{given}` on this host"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_a_text_are_named_where_they_are_known() {
        let users = Users::of("ann:x:1001:1001::/:/bin/sh\n");
        for (text, told) in [
            (
                "limit `cores` of user 1001 in account `a` is 2",
                "limit `cores` of user ann in account `a` is 2",
            ),
            (
                "allowed are user 1001, user 7",
                "allowed are user ann, user 7",
            ),
            (
                "job f2 is of user 1001; user 1001 may",
                "job f2 is of user ann; user ann may",
            ),
            ("superuser 1001", "superuser 1001"),
            ("user 1001.5 and user 10010", "user 1001.5 and user 10010"),
            ("no user", "no user"),
            (
                "exec: no user 1001 on this host",
                "exec: no user 1001 on this host",
            ),
            ("of that user ", "of that user "),
        ] {
            assert_eq!(users.named_in(text), told);
        }
    }

    #[test]
    fn users_are_known_by_name_and_number() {
        let users = Users::of("root:x:0:0::/:/bin/sh\nalice:x:1000:1000::/:/bin/sh\nbroken\n");
        assert_eq!(
            (users.name(1000), users.name(7)),
            ("alice".to_owned(), "7".to_owned())
        );
        assert_eq!(users.number("alice").expect("known"), 1000);
        assert_eq!(users.number("12").expect("a number"), 12);
        assert_eq!(
            users.number("bob").expect_err("unknown").to_string(),
            "no user `bob` on this host"
        );
    }
}
