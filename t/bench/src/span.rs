//! What it costs that a job is not where its leader is: one task on another rank, and one on each of 64.

use crate::Setup;
use crate::instance::Instance;
use crate::report::Report;
use crate::rounds::{Entry, Series, alternate};

/// Whole commands, as they are typed.
///
/// # Errors
/// The instance does not start, or a job fails.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let instance = Instance::start(setup, &["--size", "64", "--cores", "1"])?;
    let on = |ranks: &str| {
        let constraint = format!("constraints={{\"ranks\":[\"{ranks}\"]}}");
        Ok(instance.run(&["run", "-S", &constraint, "true"])?.wall * 1e3)
    };
    let wide = || Ok(instance.run(&["run", "-N64", "-n64", "true"])?.wall * 1e3);
    let many = || {
        let took = instance.run(&["submit", "--quiet", "--wait", "--cc=1-1000", "true"])?;
        Ok(1000.0 / took.wall)
    };
    let entries = vec![
        Entry::new("eddy run true on rank 0", "ms", || on("0")),
        Entry::new("on rank 1", "ms", || on("1")),
        Entry::new("on rank 40, two links away", "ms", || on("40")),
        Entry::new("64 tasks on 64 ranks", "ms", wide),
        Entry::new("1,000 jobs over all ranks", "1/s", many),
    ];
    let series = alternate(setup.rounds(setup.count(10)), entries)?;
    let mut report = Report::default();
    for series in &series {
        report.add(series);
    }
    let pairs = series[0].figures.iter().zip(&series[1].figures);
    let beyond = Series {
        name: "rank 1 beyond rank 0".to_owned(),
        unit: "ms",
        figures: pairs.map(|(here, there)| there - here).collect(),
    };
    report.add_budgeted(&beyond, "<= 1 ms");
    Ok(report)
}
