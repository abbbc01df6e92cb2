//! What is taken of a submission: grace periods, deadlines, gangs.
//!
//! Called when a job is submitted, before it is part of any state. Unset values
//! become defaults; what is out of range is refused with what is allowed.

use std::collections::BTreeMap;

use eddy_wire::time::Span;
use thiserror::Error;

/// Why a submission is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A grace period out of range.
    #[error("grace: {given} s is given; allowed are {least} s to {most} s")]
    Grace {
        /// Asked.
        given: Span,
        /// Allowed at least.
        least: Span,
        /// Allowed at most.
        most: Span,
    },
    /// A gang of none.
    #[error("gang cardinality: {0} is given; allowed are 1 and more")]
    Cardinality(i64),
    /// A minimum that is none or more than there are.
    #[error("gang minimum: {given} is given; allowed are 1 to the cardinality {cardinality}")]
    Minimum {
        /// Asked.
        given: i64,
        /// Of the gang.
        cardinality: i64,
    },
    /// A member of a gang that is none.
    #[error("gang: a cardinality of {0} is given without the name of a gang; one needs the other")]
    Nameless(i64),
}

/// The grace period of a job: unset and 0 become the least, others must be in the range.
///
/// # Errors
/// [`Refusal::Grace`] below the least, above the most, and below 0.
pub fn grace(asked: Option<Span>, least: Span, most: Span) -> Result<Span, Refusal> {
    match asked {
        None | Some(Span::ZERO) => Ok(least),
        Some(given) if least <= given && given <= most => Ok(given),
        Some(given) => Err(Refusal::Grace { given, least, most }),
    }
}

/// The deadline of a job: its own if it has one, else the longest of the resources it asks for
/// more than nothing of, else the general one.
pub fn deadline<T: Copy + PartialOrd>(
    own: Option<T>,
    general: Option<T>,
    of_resources: &BTreeMap<String, T>,
    request: &BTreeMap<String, f64>,
) -> Option<T> {
    let asked = |name: &&String| request.get(*name).is_some_and(|amount| *amount > 0.0);
    let longest = of_resources
        .iter()
        .filter(|(name, _)| asked(name))
        .map(|(_, deadline)| *deadline)
        .reduce(|a, b| if b > a { b } else { a });
    own.or(longest).or(general)
}

/// Cardinality and minimum of a gang; a job without a gang is a gang of one.
///
/// # Errors
/// [`Refusal::Cardinality`] below 1, [`Refusal::Minimum`] outside 1 to the cardinality,
/// [`Refusal::Nameless`] for more than one without a name.
pub fn gang(
    name: Option<&str>,
    cardinality: Option<i64>,
    minimum: Option<i64>,
) -> Result<(u32, u32), Refusal> {
    let all = cardinality.unwrap_or(1);
    let in_range = u32::try_from(all).ok().filter(|&all| all >= 1);
    let count = in_range.ok_or(Refusal::Cardinality(all))?;
    if name.is_none_or(str::is_empty) && count > 1 {
        return Err(Refusal::Nameless(all));
    }
    let least = minimum.unwrap_or(all);
    match u32::try_from(least) {
        Ok(fewest) if (1..=count).contains(&fewest) => Ok((count, fewest)),
        Ok(_) | Err(_) => Err(Refusal::Minimum {
            given: least,
            cardinality: all,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_period_is_in_its_range_or_the_least() {
        let (least, most) = (Span::seconds(1), Span::seconds(300));
        let of = |span| grace(span, least, most).ok();
        assert_eq!(of(None), Some(least));
        assert_eq!(of(Some(Span::ZERO)), Some(least));
        assert_eq!(of(Some(Span::millis(500))), None);
        assert_eq!(of(Some(Span::seconds(300))), Some(most));
        assert_eq!(of(Some(Span(most.0 + 1))), None);
        assert_eq!(of(Some(Span(-1))), None);
    }

    #[test]
    fn the_longest_deadline_of_what_is_asked_beats_the_general_one() {
        let of = BTreeMap::from([("cpu".to_string(), 60), ("memory".to_string(), 120)]);
        let asks = |cpu: f64, memory: f64| {
            BTreeMap::from([("cpu".to_string(), cpu), ("memory".to_string(), memory)])
        };
        assert_eq!(deadline(None, Some(1), &of, &asks(1.0, 1.0)), Some(120));
        assert_eq!(deadline(None, Some(1), &of, &asks(1.0, 0.0)), Some(60));
        assert_eq!(deadline(None, Some(1), &of, &asks(0.0, 0.0)), Some(1));
        assert_eq!(deadline(Some(5), Some(1), &of, &asks(1.0, 1.0)), Some(5));
    }

    #[test]
    fn a_gang_has_between_one_and_all_at_least() {
        assert_eq!(gang(None, None, None), Ok((1, 1)));
        assert_eq!(gang(Some("g"), Some(4), None), Ok((4, 4)));
        assert_eq!(gang(Some("g"), Some(4), Some(2)), Ok((4, 2)));
        assert!(gang(Some("g"), Some(4), Some(5)).is_err());
        assert!(gang(Some("g"), Some(4), Some(0)).is_err());
        assert!(gang(Some("g"), Some(0), None).is_err());
        assert!(gang(None, Some(3), None).is_err());
    }
}
