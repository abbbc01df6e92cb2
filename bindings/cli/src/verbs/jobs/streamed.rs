//! `eddy jobs --json`: rows are printed as their pages come, however many there are.
//!
//! Called by [`super::run`]. What it prints is one array all the same, and what is told of instances is what
//! [`super`] tells of them. It keeps a page, and the numbers of those listed where jobs are named.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal, Write};

use anyhow::{anyhow, bail};
use eddy_client::Client;
use eddy_wire::id::JobId;
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::child::ChildRow;
use eddy_wire::services::job::JobRow;
use serde_json::Value;

use super::{OVER_MAX, SHOWN, children_and_passed, instance, known, more, over};
use crate::listing::{Question, to_json};
use crate::names::Users;
use crate::output;
use crate::session::Global;

/// Lists in pages. An instance that is lost is asked again from the beginning only as long as nothing is printed.
pub fn run(
    global: &Global,
    question: &Question,
    (ids, users): (&[String], &Users),
) -> anyhow::Result<u8> {
    let printed = Cell::new(false);
    global.session_again(async |client| {
        let mut listed = Listed::to(output::stdout(), users);
        let result = listed.all(&client, question, ids).await;
        printed.set(printed.get() || listed.rows > 0);
        match result {
            Err(error) if printed.get() && !output::is_reader_gone(&error) => {
                Err(anyhow!("{error:#}; what is printed is not all"))
            }
            result => result,
        }
    })
}

/// How an array is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// In several lines, for people.
    Pretty,
    /// In one.
    Plain,
}

/// The array, as far as it is printed.
struct Listed<'a, W> {
    out: W,
    form: Form,
    users: &'a Users,
    rows: usize,
    /// Instances; none before the first page.
    children: Option<BTreeMap<JobId, ChildRow>>,
    /// So many that are over may be asked yet of what is left of them.
    over_left: usize,
    /// Numbers of those that are printed, where jobs are named.
    seen: BTreeSet<JobId>,
}

impl<'a, W: Write> Listed<'a, W> {
    fn to(out: W, users: &'a Users) -> Listed<'a, W> {
        Listed {
            out,
            form: match io::stdout().is_terminal() {
                true => Form::Pretty,
                false => Form::Plain,
            },
            users,
            rows: 0,
            children: None,
            over_left: OVER_MAX,
            seen: BTreeSet::new(),
        }
    }

    async fn all(
        &mut self,
        client: &Client,
        question: &Question,
        ids: &[String],
    ) -> anyhow::Result<u8> {
        // Nobody asked for a number of them: one more than is shown was asked for.
        let most = match question.limit == SHOWN + 1 {
            true => SHOWN as usize,
            false => usize::MAX,
        };
        let mut count = 0;
        let mut pages = question.pages(client);
        while let Some(mut rows) = pages.next().await? {
            count += rows.len();
            rows.truncate(most - self.rows);
            if !ids.is_empty() {
                self.seen.extend(rows.iter().map(|row| row.id));
            }
            self.page(client, &rows).await?;
        }
        if count == 0
            && let Some(unknown) = question.unknown(client).await?
        {
            bail!(unknown);
        }
        self.end()?;
        if count > most {
            let more = more(question, client).await?;
            eprintln!("eddy jobs: {SHOWN} jobs are shown and {more} more are not: -c 0 shows all");
        }
        known(client, ids, &self.seen).await
    }

    async fn page(&mut self, client: &Client, rows: &[JobRow]) -> anyhow::Result<()> {
        let mut children = match self.children.take() {
            None => children_and_passed(client, rows).await?,
            Some(mut children) => {
                over(client, rows, (&mut children, self.over_left)).await?;
                children
            }
        };
        let is_over = |row: &&JobRow| row.is_instance && row.state == JobState::Inactive;
        let asked = rows.iter().filter(is_over).count();
        self.over_left = self.over_left.saturating_sub(asked);
        for row in rows {
            let mut object = to_json(row, self.users);
            object["instance"] = children.get(&row.id).map_or(Value::Null, instance);
            self.put(&object)?;
        }
        // Of those that are printed nothing is told again.
        for row in rows {
            children.remove(&row.id);
        }
        self.children = Some(children);
        Ok(())
    }

    fn put(&mut self, object: &Value) -> anyhow::Result<()> {
        let text = match self.form {
            Form::Plain => serde_json::to_string(object)?,
            Form::Pretty => {
                let text = serde_json::to_string_pretty(object)?;
                format!("\n  {}", text.replace('\n', "\n  "))
            }
        };
        let before = match self.rows {
            0 => "[",
            _ => ",",
        };
        self.rows += 1;
        Ok(write!(self.out, "{before}{text}")?)
    }

    /// An array without rows is one, too.
    fn end(&mut self) -> io::Result<()> {
        match (self.rows, self.form) {
            (0, _) => writeln!(self.out, "[]")?,
            (_, Form::Plain) => writeln!(self.out, "]")?,
            (_, Form::Pretty) => writeln!(self.out, "\n]")?,
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn printed(form: Form, rows: &[Value]) -> String {
        let (mut out, users) = (Vec::new(), Users::read());
        let mut listed = Listed::to(&mut out, &users);
        listed.form = form;
        for row in rows {
            listed.put(row).expect("to memory");
        }
        listed.end().expect("to memory");
        String::from_utf8(out).expect("JSON")
    }

    #[test]
    fn rows_that_come_one_by_one_are_the_array_that_they_would_be_at_once() {
        let rows = [json!({"id": 1, "name": "a\nb"}), json!({"id": 2})];
        for some in [&rows[..], &rows[..1], &[]] {
            let all = json!(some);
            let pretty = serde_json::to_string_pretty(&all).expect("JSON");
            assert_eq!(printed(Form::Pretty, some), format!("{pretty}\n"));
            assert_eq!(printed(Form::Plain, some), format!("{all}\n"));
        }
    }
}
