//! Why jobs wait and what their turn comes from, asked of whoever has them.
//!
//! Used by `why` and `priority`. It asks once; what starts meanwhile is not in the answer.

use eddy_client::owners::owners;
use eddy_client::{Client, ClientError};
use eddy_wire::plan::{Breakdown, Suppose, Term};
use eddy_wire::services::job::JobSet;
use eddy_wire::services::sched::{
    Bounded, Bounds, BoundsRequest, Explain, ExplainReply, ExplainRequest,
};

/// Places behind the point that are told of a number.
const PLACES: usize = 3;
/// The most of a factor: what a double has.
const PLACES_MAX: usize = 17;

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
    let term = |term: &Term| match term.weight == 1.0 {
        true => format!("{} {}", term.name, number(term.factor)),
        false => format!("{} {} x {}", term.name, factor(term), number(term.weight)),
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
    rounded(value, PLACES)
}

/// A factor with as many places as it takes that times its weight it is what is told of both: 0.3333333 of a
/// weight of 100000, where 0.333 would be 33 less.
pub fn factor(term: &Term) -> String {
    let told = number(term.contribution);
    let mut texts = (PLACES..=PLACES_MAX).map(|places| rounded(term.factor, places));
    let adds_up = |text: &String| {
        let factor = text.parse::<f64>();
        factor.is_ok_and(|factor| number(factor * term.weight) == told)
    };
    // One of which the contribution is no product is told as exactly as it is known.
    texts
        .find(adds_up)
        .unwrap_or_else(|| term.factor.to_string())
}

fn rounded(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_more_places_than_they_need() {
        let shown = [16.0, 0.25, 1.0 / 3.0, 1e6, -0.5].map(number);
        assert_eq!(shown, ["16", "0.25", "0.333", "1000000", "-0.5"]);
    }

    #[test]
    fn a_factor_is_told_so_that_its_product_is_what_is_told() {
        let shown = |value: f64, weight: f64| {
            factor(&Term {
                name: "age".to_owned(),
                factor: value,
                weight,
                contribution: value * weight,
            })
        };
        assert_eq!(shown(0.5, 100_000.0), "0.5");
        assert_eq!(shown(1.0 / 3.0, 1.0), "0.333");
        assert_eq!(shown(1.0 / 3.0, 100_000.0), "0.33333333");
        assert_eq!(shown(2.0 / 3.0, -1000.0), "0.666667");
        assert_eq!(shown(0.0, 100_000.0), "0");
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
