//! Why jobs wait and what their turn comes from, asked of whoever has them.
//!
//! Used by `why` and `priority`. It asks once; what starts meanwhile is not in the answer.

use eddy_client::owners::owners;
use eddy_client::{Client, ClientError};
use eddy_wire::plan::{Breakdown, Suppose};
use eddy_wire::services::job::JobSet;
use eddy_wire::services::sched::{
    Bounded, Bounds, BoundsRequest, Explain, ExplainReply, ExplainRequest,
};

/// Those of `jobs` that wait for resources, or all of this instance that do; in the order of
/// their turn, instance by instance.
///
/// # Errors
/// The instance cannot be asked.
pub async fn explained(client: &Client, jobs: Option<JobSet>) -> Result<ExplainReply, ClientError> {
    supposed(client, jobs, &Suppose::default()).await
}

/// The same, as if each of them were changed so; jobs must be given where that is something.
///
/// # Errors
/// The instance cannot be asked, or refuses what is supposed.
pub async fn supposed(
    client: &Client,
    jobs: Option<JobSet>,
    suppose: &Suppose,
) -> Result<ExplainReply, ClientError> {
    let request = ExplainRequest {
        jobs: jobs.clone(),
        suppose: suppose.clone(),
    };
    let (error, jobs) = match (client.call::<Explain>(&request).await, jobs) {
        (Err(error), Some(jobs)) => (error, jobs),
        (answered, _) => return answered,
    };
    let mut all = ExplainReply::default();
    for jobs in owners(client, &jobs, error).await? {
        let request = ExplainRequest {
            jobs: Some(jobs),
            suppose: suppose.clone(),
        };
        let reply = client.call::<Explain>(&request).await?;
        all.jobs.extend(reply.jobs);
        all.let_go.extend(reply.let_go);
        all.more += reply.more;
    }
    Ok(all)
}

/// What is in the way of jobs that were changed so, by what refuses them and by limits.
///
/// # Errors
/// The instance cannot be asked, or refuses what is supposed.
pub async fn bounds(
    client: &Client,
    jobs: JobSet,
    suppose: &Suppose,
) -> Result<Vec<Bounded>, ClientError> {
    let suppose = suppose.clone();
    let request = BoundsRequest {
        jobs: jobs.clone(),
        suppose: suppose.clone(),
    };
    let error = match client.call::<Bounds>(&request).await {
        Err(error) => error,
        answered => return answered,
    };
    let mut all = Vec::new();
    for jobs in owners(client, &jobs, error).await? {
        let suppose = suppose.clone();
        let request = BoundsRequest { jobs, suppose };
        all.extend(client.call::<Bounds>(&request).await?);
    }
    Ok(all)
}

/// What a turn comes from, in one line.
pub fn turn(priority: &Breakdown) -> String {
    let term = |term: &eddy_wire::plan::Term| match term.weight == 1.0 {
        true => format!("{} {}", term.name, number(term.factor)),
        false => format!(
            "{} {} x {}",
            term.name,
            number(term.factor),
            number(term.weight)
        ),
    };
    let terms: Vec<String> = priority.terms.iter().map(term).collect();
    let value = number(priority.value);
    match terms.is_empty() {
        true => format!("{}: {value}", priority.policy),
        false => format!("{}: {value} = {}", priority.policy, terms.join(" + ")),
    }
}

/// A number with at most three places behind the point.
pub fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use eddy_wire::plan::Term;

    use super::*;

    #[test]
    fn numbers_have_no_more_places_than_they_need() {
        let shown = [16.0, 0.25, 1.0 / 3.0, 1e6, -0.5].map(number);
        assert_eq!(shown, ["16", "0.25", "0.333", "1000000", "-0.5"]);
    }

    #[test]
    fn a_turn_is_told_as_the_sum_that_it_is() {
        let term = |name: &str, factor: f64, weight: f64| Term {
            name: name.to_owned(),
            factor,
            weight,
            contribution: factor * weight,
        };
        let priority = Breakdown {
            policy: "flux".to_owned(),
            value: 50_016.0,
            terms: vec![
                term("fair_share", 0.5, 100_000.0),
                term("urgency", 16.0, 1.0),
            ],
        };
        assert_eq!(
            turn(&priority),
            "flux: 50016 = fair_share 0.5 x 100000 + urgency 16"
        );
    }
}
