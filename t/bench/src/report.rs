//! What a bench found, and how it is shown: a table for people, one JSON object for programs. Filled by
//! each bench, printed by `main`. Judges nothing: a budget stands beside its figure, unread.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::rounds::{Series, Summary};

/// What one bench found.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    unit: &'static str,
    #[serde(flatten)]
    summary: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<&'static str>,
    figures: Vec<f64>,
}

impl Report {
    /// Adds a series as it is.
    pub fn add(&mut self, series: &Series) {
        self.push(series, None);
    }

    /// Adds a series for which the design names a budget, quoted in its words.
    pub fn add_budgeted(&mut self, series: &Series, budget: &'static str) {
        self.push(series, Some(budget));
    }

    /// Adds a sentence that belongs to the figures.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    fn push(&mut self, series: &Series, budget: Option<&'static str>) {
        self.rows.push(Row {
            name: series.name.clone(),
            unit: series.unit,
            summary: series.summary(),
            budget,
            figures: series.figures.clone(),
        });
    }
}

/// Where reports go.
#[derive(Debug)]
pub enum Table {
    /// Printed as they come, since some benches take minutes.
    Text,
    /// Gathered, printed at the end.
    Json(Map<String, Value>),
}

impl Table {
    /// For programs. Begins with the description of the machine.
    #[must_use]
    pub fn json(machine: Map<String, Value>) -> Self {
        Self::Json(Map::from_iter([(
            "machine".to_owned(),
            Value::Object(machine),
        )]))
    }

    /// For people. Begins with the description of the machine.
    #[must_use]
    pub fn text(machine: &Map<String, Value>) -> Self {
        for (name, value) in machine {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            println!("{name:<12} {text}");
        }
        Self::Text
    }

    /// Takes what a bench found.
    pub fn add(&mut self, name: &str, report: Report) {
        match self {
            Self::Text => print!("\n{}", text(name, &report)),
            Self::Json(all) => {
                let value = json!({ "rows": report.rows, "notes": report.notes });
                all.insert(name.to_owned(), value);
            }
        }
    }

    /// Says that a bench was left out.
    pub fn skip(&mut self, name: &str, why: &str) {
        match self {
            Self::Text => println!("\n{name}: skipped: {why}"),
            Self::Json(all) => {
                all.insert(name.to_owned(), json!({ "skipped": why }));
            }
        }
    }

    /// Prints what has not been printed yet.
    ///
    /// # Errors
    /// None of the figures can be written as JSON.
    pub fn finish(self) -> anyhow::Result<()> {
        if let Self::Json(all) = self {
            println!("{}", serde_json::to_string_pretty(&all)?);
        }
        Ok(())
    }
}

fn text(name: &str, report: &Report) -> String {
    let wide = report
        .rows
        .iter()
        .map(|row| row.name.chars().count())
        .max()
        .unwrap_or(0)
        .max(name.len());
    let mut out = format!(
        "{name:<wide$}  {:>10} {:>10} {:>10} {:>4}  unit\n",
        "median", "min", "max", "n"
    );
    for row in &report.rows {
        let Summary {
            median,
            min,
            max,
            n,
        } = row.summary;
        let budget = row
            .budget
            .map(|words| format!("   (budget {words})"))
            .unwrap_or_default();
        let [median, min, max] = [median, min, max].map(short);
        out += &format!(
            "{:<wide$}  {median:>10} {min:>10} {max:>10} {n:>4}  {}{budget}\n",
            row.name, row.unit
        );
    }
    for note in &report.notes {
        out += &format!("{note}\n");
    }
    out
}

/// Three places that say something, never more.
fn short(figure: f64) -> String {
    match figure.abs() {
        size if size >= 100.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        size if size >= 1.0 => format!("{figure:.2}"),
        _ => format!("{figure:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_one_line_for_each_series() {
        let mut report = Report::default();
        report.add(&Series {
            name: "spawn".to_owned(),
            unit: "1/s",
            figures: vec![1530.4, 1493.0, 1563.0],
        });
        let share = Series {
            name: "share".to_owned(),
            unit: "%",
            figures: vec![8.25],
        };
        report.add_budgeted(&share, ">= 50 %");
        report.note("two threads");
        assert_eq!(
            text("demo", &report),
            "demo       median        min        max    n  unit\n\
             spawn        1530       1493       1563    3  1/s\n\
             share        8.25       8.25       8.25    1  %   (budget >= 50 %)\n\
             two threads\n"
        );
    }

    #[test]
    fn json_keeps_every_figure() {
        let mut table = Table::json(Map::new());
        let mut report = Report::default();
        report.add(&Series {
            name: "a".to_owned(),
            unit: "s",
            figures: vec![1.0, 3.0],
        });
        table.add("demo", report);
        let Table::Json(all) = table else {
            panic!("asked for JSON")
        };
        assert_eq!(all["demo"]["rows"][0]["median"], 2.0);
        assert_eq!(all["demo"]["rows"][0]["figures"], json!([1.0, 3.0]));
    }
}
