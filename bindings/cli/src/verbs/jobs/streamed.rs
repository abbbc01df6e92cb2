//! `eddy jobs --json`: rows are printed as their pages come, however many there are.
//!
//! Called by [`super::run`]. What it prints is one array all the same, and what is told of instances is what
//! [`super`] tells of them. It keeps a page, and the numbers of those listed where jobs are named.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use anyhow::{anyhow, bail};
use eddy_client::Client;
use eddy_wire::id::JobId;
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::child::ChildRow;
use eddy_wire::services::job::JobRow;
use serde_json::Value;

use super::{OVER_MAX, SHOWN, children_and_passed, instance, known, more, over};
use crate::array::Array;
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
        printed.set(printed.get() || listed.array.count() > 0);
        match result {
            Err(error) if printed.get() && !output::is_reader_gone(&error) => {
                Err(anyhow!("{error:#}; what is printed is not all"))
            }
            result => result,
        }
    })
}

/// The array, as far as it is printed.
struct Listed<'a, W> {
    array: Array<W>,
    users: &'a Users,
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
            array: Array::to(out),
            users,
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
            rows.truncate(most - self.array.count());
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
        self.array.end()?;
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
            self.array.put(&object)?;
        }
        // Of those that are printed nothing is told again.
        for row in rows {
            children.remove(&row.id);
        }
        self.children = Some(children);
        Ok(())
    }
}
