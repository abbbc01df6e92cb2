//! A formula over the columns of all waiting jobs at once.
//!
//! The refresh of priorities asks this: operations run over blocks of rows that
//! stay in the nearest cache, and what all jobs of an association share is a small
//! table. It gives exactly the values of [`Formula::value`], job by job.

use super::formula::{Expr, Formula, Function, Operator};

/// Rows that are done at once: a few such blocks fit the nearest cache.
const BLOCK: usize = 512;

/// Where the values of a variable are.
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    /// The same for all jobs.
    Same(f64),
    /// One for each job.
    Each(&'a [f64]),
    /// That of the job's association, queue or QoS: `table[of[row]]`.
    Of {
        /// One for each association.
        table: &'a [f64],
        /// The association of each job.
        of: &'a [u32],
    },
    /// The seconds since a time of each job, none before it; over `whole`, at most 1, where that
    /// is finite.
    Since {
        /// When it began, in seconds.
        at: &'a [f64],
        /// In the same seconds.
        now: f64,
        /// The seconds that count as 1; infinite for the seconds themselves.
        whole: f64,
    },
}

impl Column<'_> {
    fn load(&self, start: usize, out: &mut [f64]) {
        let end = start + out.len();
        match self {
            Column::Same(value) => out.fill(*value),
            Column::Each(values) => out.copy_from_slice(&values[start..end]),
            Column::Of { table, of } => {
                for (out, &at) in out.iter_mut().zip(&of[start..end]) {
                    *out = table.get(at as usize).copied().unwrap_or(0.0);
                }
            }
            Column::Since { at, now, whole } if whole.is_finite() => {
                for (out, at) in out.iter_mut().zip(&at[start..end]) {
                    *out = ((now - at) / whole).clamp(0.0, 1.0);
                }
            }
            Column::Since { at, now, .. } => {
                for (out, at) in out.iter_mut().zip(&at[start..end]) {
                    *out = (now - at).max(0.0);
                }
            }
        }
    }
}

/// Jobs of which something was no number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Rows with a factor that was none and was taken as 0.
    pub factors: Vec<u32>,
    /// Rows whose value was none (a division by zero, an overflow) and is 0.
    pub values: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Number(f64),
    Load(usize),
    Negate,
    Both(Operator),
    /// With a number on the right.
    With(Operator, f64),
    Apply(Function),
    Pair(Function),
    /// The lesser of two: the second half of clamp.
    AtMost,
}

/// A formula made ready for columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    steps: Vec<Step>,
    /// Blocks that are in use at once at most.
    deep: usize,
}

impl Program {
    /// From a checked formula.
    pub fn new(formula: &Formula) -> Program {
        let mut steps = Vec::new();
        push(formula.expr(), &mut steps);
        let (mut now, mut deep) = (0_usize, 1);
        for step in &steps {
            match step {
                Step::Number(_) | Step::Load(_) => now += 1,
                Step::Both(_) | Step::Pair(_) | Step::AtMost => now -= 1,
                Step::Negate | Step::With(..) | Step::Apply(_) => {}
            }
            deep = deep.max(now);
        }
        Program { steps, deep }
    }

    /// The values of `rows` jobs into `out`, which becomes so long; columns by the number of the
    /// variable, each at least so long. Values that are none are 0 and marked.
    pub fn run(&self, columns: &[Column<'_>], rows: usize, out: &mut Vec<f64>) -> Marks {
        out.clear();
        out.resize(rows, 0.0);
        let mut marks = Marks::default();
        let mut stack = vec![[0.0; BLOCK]; self.deep];
        for (at, out) in out.chunks_mut(BLOCK).enumerate() {
            let mut block = Block {
                stack: &mut stack,
                top: 0,
                start: at * BLOCK,
                rows: out.len(),
                odd: [0; BLOCK],
            };
            for step in &self.steps {
                block.step(*step, columns);
            }
            out.copy_from_slice(&block.stack[0][..out.len()]);
            block.mark(out, &mut marks);
        }
        marks
    }
}

const ODD_FACTOR: u8 = 1;
const ODD_VALUE: u8 = 2;

struct Block<'a> {
    stack: &'a mut [[f64; BLOCK]],
    top: usize,
    start: usize,
    rows: usize,
    odd: [u8; BLOCK],
}

impl Block<'_> {
    fn step(&mut self, step: Step, columns: &[Column<'_>]) {
        let rows = self.rows;
        match step {
            Step::Number(number) => {
                self.stack[self.top][..rows].fill(number);
                self.top += 1;
            }
            Step::Load(at) => {
                let column = columns.get(at).copied().unwrap_or(Column::Same(0.0));
                column.load(self.start, &mut self.stack[self.top][..rows]);
                self.top += 1;
                self.sift(ODD_FACTOR);
            }
            Step::Negate => self.each(|x| -x),
            Step::With(Operator::Add, y) => self.each(|x| x + y),
            Step::With(Operator::Subtract, y) => self.each(|x| x - y),
            Step::With(Operator::Multiply, y) => self.each(|x| x * y),
            Step::With(Operator::Divide, y) => self.each(|x| x / y),
            Step::With(Operator::Power, y) => self.each(|x| x.powf(y)),
            Step::Apply(function) => self.each(|x| function.of(x)),
            Step::Both(Operator::Add) => self.both(|x, y| x + y),
            Step::Both(Operator::Subtract) => self.both(|x, y| x - y),
            Step::Both(Operator::Multiply) => self.both(|x, y| x * y),
            Step::Both(Operator::Divide) => self.both(|x, y| x / y),
            Step::Both(Operator::Power) => self.both(f64::powf),
            Step::Pair(function) => self.both(|x, y| function.pair(x, y)),
            Step::AtMost => self.both(f64::min),
        }
    }

    fn each(&mut self, of: impl Fn(f64) -> f64) {
        for x in &mut self.stack[self.top - 1][..self.rows] {
            *x = of(*x);
        }
        self.sift(ODD_VALUE);
    }

    fn both(&mut self, of: impl Fn(f64, f64) -> f64) {
        self.top -= 1;
        let (left, right) = self.stack.split_at_mut(self.top);
        let left = &mut left[self.top - 1][..self.rows];
        for (x, y) in left.iter_mut().zip(&right[0][..self.rows]) {
            *x = of(*x, *y);
        }
        self.sift(ODD_VALUE);
    }

    /// Marks what is no finite number and goes on with 0. Looked for first in one sweep without
    /// branches, since it is rare.
    fn sift(&mut self, mark: u8) {
        let values = &mut self.stack[self.top - 1][..self.rows];
        // 0 times a finite number is 0 or -0, times any other is NaN, whose bits stay in an or.
        let seen = values
            .iter()
            .fold(0_u64, |seen, x| seen | (x * 0.0).to_bits());
        if seen & !(1 << 63) == 0 {
            return;
        }
        for (x, odd) in values.iter_mut().zip(&mut self.odd) {
            if !x.is_finite() {
                *odd |= mark;
                *x = 0.0;
            }
        }
    }

    fn mark(&self, out: &mut [f64], marks: &mut Marks) {
        if self.odd.iter().all(|&odd| odd == 0) {
            return;
        }
        for (at, out) in out.iter_mut().enumerate() {
            let row = (self.start + at) as u32;
            if self.odd[at] & ODD_FACTOR != 0 {
                marks.factors.push(row);
            }
            if self.odd[at] & ODD_VALUE != 0 {
                marks.values.push(row);
                *out = 0.0;
            }
        }
    }
}

/// In the order of evaluation; parts of numbers alone become numbers.
fn push(expr: &Expr, steps: &mut Vec<Step>) {
    let mut found = Vec::new();
    expr.variables(&mut found);
    if let (true, Some(number)) = (found.is_empty(), expr.value(&[])) {
        steps.push(Step::Number(number));
        return;
    }
    match expr {
        Expr::Number(number) => steps.push(Step::Number(*number)),
        Expr::Variable(at) => steps.push(Step::Load(*at)),
        Expr::Negative(of) => {
            push(of, steps);
            steps.push(Step::Negate);
        }
        Expr::Binary(operator, x, y) => binary(*operator, x, y, steps),
        Expr::Call(Function::Clamp, of) => {
            push(&of[0], steps);
            push(&of[1], steps);
            steps.push(Step::Pair(Function::Max));
            push(&of[2], steps);
            steps.push(Step::AtMost);
        }
        Expr::Call(function, of) => {
            push(&of[0], steps);
            if of.len() == 1 {
                steps.push(Step::Apply(*function));
            }
            for other in &of[1..] {
                push(other, steps);
                steps.push(Step::Pair(*function));
            }
        }
    }
}

fn binary(operator: Operator, x: &Expr, y: &Expr, steps: &mut Vec<Step>) {
    // A weight on the left of its factor is as good on the right.
    let (x, y) = match (operator, x) {
        (Operator::Multiply | Operator::Add, Expr::Number(_)) => (y, x),
        _ => (x, y),
    };
    push(x, steps);
    push(y, steps);
    match steps.last() {
        Some(&Step::Number(number)) => {
            steps.pop();
            steps.push(Step::With(operator, number));
        }
        _ => steps.push(Step::Both(operator)),
    }
}
