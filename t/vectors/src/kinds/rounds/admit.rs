//! What is taken of a submission.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use eddy_sched::rounds::admit;
use eddy_wire::time::Time;
use serde_json::{Value, json};

use super::scene::{fields, list};

const REJECT: &str = "reject";

/// Cardinality and minimum of each gang.
pub fn gang_admission(input: &Value) -> Result<Value> {
    let one = |gang: &Value| {
        let admitted = admit::gang(
            gang["id"].as_str(),
            gang["cardinality"].as_i64(),
            gang["minimum"].as_i64(),
        );
        match admitted {
            Ok((cardinality, minimum)) => json!({ "cardinality": cardinality, "minimum": minimum }),
            Err(_) => json!(REJECT),
        }
    };
    let results: Vec<Value> = list(&input["gangs"]).iter().map(one).collect();
    Ok(json!({ "results": results }))
}

/// The deadline of each request.
pub fn deadline_admission(input: &Value) -> Result<Value> {
    let general = input["default_s"].as_f64();
    let none = (BTreeMap::new(), BTreeMap::new());
    let one = |own: &Value| admit::deadline(own.as_f64(), general, &none.0, &none.1);
    let results: Vec<_> = list(&input["requests_s"]).iter().map(one).collect();
    Ok(json!({ "results": results }))
}

/// The deadline of each job, by what it asks for.
pub fn deadline_admission_by_resource(input: &Value) -> Result<Value> {
    let numbers = |value: &Value| -> BTreeMap<String, f64> {
        fields(value)
            .filter_map(|(name, number)| Some((name.clone(), number.as_f64()?)))
            .collect()
    };
    let of = numbers(&input["by_resource_s"]);
    let general = input["default_s"].as_f64();
    let one = |job: &Value| {
        admit::deadline(
            job["deadline"].as_f64(),
            general,
            &of,
            &numbers(&job["request"]),
        )
    };
    let results: Vec<_> = list(&input["jobs"]).iter().map(one).collect();
    Ok(json!({ "deadline_s": results }))
}

/// The grace period of each request, or that it is refused.
pub fn grace_period_admission(input: &Value) -> Result<Value> {
    let span = |value: &Value| {
        let seconds = value.as_f64()?;
        Some(Time::from_seconds(seconds)? - Time(0))
    };
    let least = span(&input["min_s"]).context("min_s is not a number")?;
    let most = span(&input["max_s"]).context("max_s is not a number")?;
    let asked = list(&input["requests_s"]).iter();
    let admitted: Vec<_> = asked
        .map(|asked| admit::grace(span(asked), least, most))
        .collect();
    let results = admitted.iter().map(|admitted| match admitted {
        Ok(grace) => json!((Time(0) + *grace).seconds()),
        Err(_) => json!(REJECT),
    });
    let accepted = admitted.iter().map(|admitted| admitted.is_ok());
    Ok(json!({
        "results": results.collect::<Vec<_>>(),
        "accepted": accepted.collect::<Vec<_>>(),
    }))
}
