//! All who wait for resources, in columns, so that their values are made anew at
//! once and not job by job.
//!
//! Kept by the planner beside the agenda: a row for each job that is in line, or
//! below the policy's threshold. What of a job moves a value is in a column; what
//! it asks for, and where it stands, is not known here.

use std::collections::BTreeMap;
use std::iter;

use eddy_wire::id::JobId;
use eddy_wire::plan::{Owner, Want};
use eddy_wire::time::{MICROS, Time};

use crate::policy::FACTORS;
use crate::priority::{Column, Program, factors};
use crate::turns::{Turn, Turns};

/// The rows, by number.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    rows: Vec<Row>,
    /// Rows of nobody.
    free: Vec<u32>,
    /// One for each formula.
    programs: Vec<Program>,
    /// The factors that formulas name, by their place among all; and of each row what it is, where
    /// it does not change while a job waits.
    columns: Vec<(usize, Vec<f64>)>,
    owners: BTreeMap<Owner, u32>,
    /// By row: which of the owners.
    of: Vec<u32>,
    /// By row, apart from it: the order of those who wait is not that of their rows, and what is
    /// asked for each of them is to be near.
    paces: Vec<Pace>,
    /// By row, likewise: from when its wait is counted, and since when it could have started.
    since: Vec<Time>,
    eligible: Vec<Time>,
    /// By formula and row, as of the last time.
    values: Vec<Vec<f64>>,
}

/// Whether the turn of a row changes with its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pace {
    #[default]
    Stays,
    Changes,
}

/// What of a row a turn is made of first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fetched {
    pace: Pace,
    first: f64,
}

/// One who waits, or nobody.
#[derive(Clone, Copy, Debug)]
struct Row {
    job: JobId,
    submitted: Time,
    standing: Standing,
    /// What decides before its values.
    lead: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Nobody,
    /// Its turn is made anew with its values.
    Turn(Turn),
    /// Its turn does not depend on values.
    Fixed(Turn),
    /// Its value is at or below the threshold.
    Below,
}

/// Rows of those who keep their turn, or are not in line.
#[derive(Clone, Debug)]
pub(super) struct Apart(Vec<bool>);

impl Apart {
    fn has(&self, row: usize) -> bool {
        self.0[row]
    }
}

impl Standing {
    fn turn(self) -> Option<Turn> {
        match self {
            Standing::Turn(turn) | Standing::Fixed(turn) => Some(turn),
            Standing::Below | Standing::Nobody => None,
        }
    }
}

impl Rows {
    /// Nobody, by the formulas of these turns.
    pub fn new(turns: &Turns) -> Rows {
        let formulas = turns.formulas();
        let mut uses: Vec<usize> = formulas.iter().flat_map(|one| one.uses()).collect();
        uses.sort_unstable();
        uses.dedup();
        Rows {
            rows: Vec::new(),
            free: Vec::new(),
            programs: formulas.iter().map(Program::new).collect(),
            columns: uses.into_iter().map(|at| (at, Vec::new())).collect(),
            owners: BTreeMap::new(),
            of: Vec::new(),
            paces: Vec::new(),
            since: Vec::new(),
            eligible: Vec::new(),
            values: Vec::new(),
        }
    }

    /// One more: its row and its turn as of now, none if it is below the threshold.
    pub fn seat(&mut self, turns: &Turns, job: JobId, want: &Want, now: Time) -> u32 {
        let row = match self.free.pop() {
            Some(row) => row,
            None => {
                self.rows.push(Row {
                    job,
                    submitted: want.submitted,
                    standing: Standing::Nobody,
                    lead: None,
                });
                self.since.push(now);
                self.eligible.push(now);
                self.of.push(0);
                self.paces.push(Pace::Stays);
                self.columns
                    .iter_mut()
                    .for_each(|(_, column)| column.push(0.0));
                u32::try_from(self.rows.len() - 1).expect("fewer wait than can be numbered")
            }
        };
        let next = self.owners.len() as u32;
        let owner = match self.owners.get(&want.owner) {
            Some(owner) => *owner,
            None => *self.owners.entry(want.owner.clone()).or_insert(next),
        };
        self.of[row as usize] = owner;
        self.describe(row, turns, want, now);
        let turn = turns.turn(job, want, now).map(|turn| turn.of_row(row));
        self.paces[row as usize] = match turns.is_fixed(want) {
            true => Pace::Stays,
            false => Pace::Changes,
        };
        self.rows[row as usize] = Row {
            job,
            submitted: want.submitted,
            standing: match turn {
                None => Standing::Below,
                Some(turn) if turns.is_fixed(want) => Standing::Fixed(turn),
                Some(turn) => Standing::Turn(turn),
            },
            lead: turns.lead(want),
        };
        self.since[row as usize] = turns.since(want);
        self.eligible[row as usize] = want.eligible;
        row
    }

    /// Sets what of its values does not change while it waits, unless the inventory does.
    pub fn describe(&mut self, row: u32, turns: &Turns, want: &Want, now: Time) {
        let variables = turns.variables(want, now);
        for (at, column) in &mut self.columns {
            column[row as usize] = variables[*at];
        }
    }

    /// It waits no more.
    pub fn leave(&mut self, row: u32) {
        self.rows[row as usize].standing = Standing::Nobody;
        self.free.push(row);
        if self.free.len() == self.rows.len() {
            self.clear();
        }
    }

    /// Nobody waits: nothing is kept for those who did.
    fn clear(&mut self) {
        self.rows.clear();
        self.free.clear();
        self.owners.clear();
        self.of.clear();
        self.paces.clear();
        self.since.clear();
        self.eligible.clear();
        self.columns.iter_mut().for_each(|(_, all)| all.clear());
        self.values.clear();
    }

    /// Its turn; none where it is below the threshold.
    pub fn turn(&self, row: u32) -> Option<Turn> {
        self.rows[row as usize].standing.turn()
    }

    /// All turns, in no order.
    pub fn turns(&self) -> impl Iterator<Item = Turn> + '_ {
        (0..self.rows.len() as u32).filter_map(|row| self.turn(row))
    }

    /// Makes the values of all as of now.
    pub fn refresh(&mut self, turns: &Turns, now: Time) {
        let max_wait = turns.max_wait();
        for (at, column) in &mut self.columns {
            let values = column.iter_mut();
            match FACTORS[*at] {
                "wait" => values.zip(&self.since).for_each(|(value, since)| {
                    *value = factors::wait(now - *since, max_wait);
                }),
                "eligible" => values.zip(&self.eligible).for_each(|(value, since)| {
                    *value = (now - *since).0.max(0) as f64 / MICROS as f64;
                }),
                _ => {}
            }
        }
        let mut table = vec![0.0; self.owners.len()];
        for (owner, at) in &self.owners {
            table[*at as usize] = turns.factor_of(owner);
        }
        let mut columns = [Column::Same(0.0); FACTORS.len()];
        for (at, column) in &self.columns {
            columns[*at] = match FACTORS[*at] {
                "fair_share" => Column::Of {
                    table: &table,
                    of: &self.of,
                },
                _ => Column::Each(column),
            };
        }
        self.values.resize_with(self.programs.len(), Vec::new);
        for (program, values) in self.programs.iter().zip(&mut self.values) {
            program.run(&columns, self.rows.len(), values);
        }
    }

    /// The first value of one, as of the last [`Rows::refresh`].
    pub fn first_value(&self, turn: &Turn) -> f64 {
        let first = self.values.first().and_then(|all| all.get(turn.row()));
        first.copied().unwrap_or(0.0)
    }

    /// What one counts for against others who have promises: the first value, and more than all of those where
    /// the turn does not depend on values.
    pub fn weight(&self, turn: &Turn) -> f64 {
        match self.rows.get(turn.row()).map(|row| row.standing) {
            Some(Standing::Fixed(_)) => f64::INFINITY,
            Some(Standing::Turn(_) | Standing::Below | Standing::Nobody) | None => {
                self.first_value(turn)
            }
        }
    }

    /// What the turn of one in line is made anew of.
    pub fn fetch(&self, turn: &Turn) -> Fetched {
        Fetched {
            pace: self.paces.get(turn.row()).copied().unwrap_or_default(),
            first: self.first_value(turn),
        }
    }

    /// The turn by its values of one in line whose turn this is; none where it is below the threshold.
    pub fn anew(&self, turn: &Turn, fetched: Fetched, turns: &Turns) -> Option<Turn> {
        match fetched.pace {
            Pace::Changes => {
                let further = self.values.iter().skip(1).map(|all| all[turn.row()]);
                let first = (!self.values.is_empty()).then_some(fetched.first);
                turns.with_values(*turn, first.into_iter().chain(further))
            }
            Pace::Stays => Some(*turn),
        }
    }

    /// Everybody has the turn of his values from now on, but those who are apart.
    pub fn stand(&mut self, turns: &Turns, apart: &Apart) {
        for at in 0..self.rows.len() {
            if let Standing::Turn(turn) = self.rows[at].standing
                && !apart.has(at)
            {
                let next = self.anew(&turn, self.fetch(&turn), turns);
                self.rows[at].standing = next.map_or(Standing::Below, Standing::Turn);
            }
        }
    }

    /// The turns of all but those who are apart, each with its [`Rows::weight`] as of the last
    /// [`Rows::refresh`], in no order.
    pub fn weights(&self, apart: &Apart) -> impl Iterator<Item = (&Turn, f64)> {
        let values = self.values.first().map_or(&[][..], Vec::as_slice);
        let values = values.iter().copied().chain(iter::repeat(0.0));
        let rows = self.rows.iter().zip(&apart.0).zip(values);
        rows.filter_map(|((row, apart), value)| match &row.standing {
            Standing::Turn(turn) if !apart => Some((turn, value)),
            Standing::Fixed(turn) if !apart => Some((turn, f64::INFINITY)),
            Standing::Turn(_) | Standing::Fixed(_) | Standing::Below | Standing::Nobody => None,
        })
    }

    /// These rows.
    pub fn apart<'t>(&self, turns: impl Iterator<Item = &'t Turn>) -> Apart {
        let mut apart = Apart(vec![false; self.rows.len()]);
        turns.for_each(|turn| apart.0[turn.row()] = true);
        apart
    }

    /// The turn by now of one who had this turn; who is gone keeps it.
    pub fn current(&self, turn: &Turn) -> Turn {
        let there = self.rows.get(turn.row());
        match there.filter(|one| one.job == turn.job) {
            Some(one) => one.standing.turn().unwrap_or(*turn),
            None => *turn,
        }
    }

    /// Whether the turn of who is in this row would be another by its values.
    pub fn has_moved(&self, row: u32, turns: &Turns) -> bool {
        let standing = self.rows[row as usize].standing;
        match standing {
            Standing::Turn(_) | Standing::Below => {
                standing.turn() != self.of_values(row as usize, turns)
            }
            Standing::Nobody | Standing::Fixed(_) => false,
        }
    }

    /// Those who are below the threshold no more: they are given turns.
    pub fn risen(&mut self, turns: &Turns) -> Vec<Turn> {
        if !turns.has_threshold() {
            return Vec::new();
        }
        let mut risen = Vec::new();
        for row in 0..self.rows.len() {
            if self.rows[row].standing != Standing::Below {
                continue;
            }
            if let Some(turn) = self.of_values(row, turns) {
                self.rows[row].standing = Standing::Turn(turn);
                risen.push(turn);
            }
        }
        risen
    }

    fn of_values(&self, row: usize, turns: &Turns) -> Option<Turn> {
        let values = self.values.iter().map(|all| all[row]);
        let one = &self.rows[row];
        let turn = turns.of_values(one.lead, values, (one.submitted, one.job))?;
        Some(turn.of_row(row as u32))
    }
}
