//! What of the order of those who wait a policy says by QoS, class and queue alone.
//!
//! Asked by whoever puts jobs in an order without a planner: it stays the same while a job waits, whatever time
//! passes and whoever uses what. It knows no wait, no share and no size.

use eddy_wire::account::{Name, Party};

use crate::policy::{FACTORS, ORDER_MAX, Policy, Source};
use crate::priority::{Formula, factors};
use crate::turns::rising;

/// What names a factor by which jobs are of different grades.
const GRADED: [&str; 3] = ["qos", "class", "queue"];
/// The urgency of most jobs, taken for that of all.
const USUAL: f64 = 16.0;

/// The grade of a job: the lesser is earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grade([i64; ORDER_MAX + 1]);

/// By what a policy tells grades apart.
#[derive(Clone, Debug, Default)]
pub struct Grades {
    policy: Policy,
    /// None where none of them names what grades are of.
    formulas: Vec<Formula>,
}

impl Grades {
    /// By a policy that was checked.
    pub fn new(policy: &Policy) -> Grades {
        let rules = &policy.priority;
        let names = rules.names();
        let order = rules.order.iter().take(ORDER_MAX);
        let formulas = order.filter_map(|text| Formula::parse(text, &names).ok());
        let counts = GRADED.iter().any(|factor| rules.counts(factor));
        Grades {
            formulas: formulas.filter(|_| counts).collect(),
            policy: policy.clone(),
        }
    }

    /// Where a job of that party and queue is. All else is taken for the same with all: 1, and the usual urgency,
    /// so that a formula which multiplies by it, or divides, still tells QoS apart.
    pub fn of(&self, party: &Party, queue: Option<&str>) -> Grade {
        let by_queue = match self.policy.queue.source {
            Source::ByQueue => Some(factors::queue(&self.policy, queue)),
            Source::Global | Source::PerAccountCost | Source::PerAccountSlices { .. } => None,
        };
        if by_queue.is_none() && self.formulas.is_empty() {
            return Grade::default();
        }
        let (qos, class) = (party.qos.as_ref(), party.class.as_ref());
        let variables: Vec<f64> = FACTORS
            .iter()
            .map(|factor| match *factor {
                "qos" => factors::qos(&self.policy.priority.factors, qos.map(Name::as_str)),
                "class" => factors::class(&self.policy, class.map(Name::as_str)),
                "queue" => factors::queue(&self.policy, queue),
                "urgency" => USUAL,
                _ => 1.0,
            })
            .collect();
        let values = self.formulas.iter();
        let values = values.map(|formula| formula.value(&variables).unwrap_or(0.0));
        let mut grade = Grade::default();
        let all = by_queue.into_iter().chain(values);
        for (place, value) in grade.0.iter_mut().zip(all) {
            *place = !rising(value);
        }
        grade
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::read::read;

    fn party(qos: &str, class: &str) -> Party {
        let name = |text: &str| (!text.is_empty()).then(|| text.parse().expect("a name"));
        Party {
            account: None,
            qos: name(qos),
            class: name(class),
        }
    }

    fn grades(policy: &str) -> Grades {
        Grades::new(&read(policy).expect("a policy"))
    }

    #[test]
    fn first_come_first_served_knows_no_grades() {
        let grades = grades("preset = \"fcfs\"");
        let (high, low) = (party("expedite", ""), party("standby", ""));
        assert_eq!(grades.of(&high, Some("a")), grades.of(&low, None));
    }

    #[test]
    fn grades_are_by_qos_class_and_queue_as_the_formulas_weigh_them() {
        let flux = grades("preset = \"flux\"\npriority.factors.queues = { debug = 1, all = 0 }");
        let of = |qos: &str, queue: &str| flux.of(&party(qos, ""), Some(queue));
        assert!(of("expedite", "all") < of("normal", "debug"));
        assert!(of("normal", "debug") < of("", "all"));
        assert_eq!(of("normal", "all"), of("", "other"));
        let armada = grades("preset = \"armada\"");
        let of = |class: &str| armada.of(&party("standby", class), None);
        assert!(of("default") < of("preemptible"));
        assert_eq!(of(""), of("default"));
    }

    #[test]
    fn a_formula_that_multiplies_a_qos_by_a_share_still_tells_them_apart() {
        let grades = grades("preset = \"flux\"\npriority.order = [\"qos * fair_share / wait\"]");
        let of = |qos: &str| grades.of(&party(qos, ""), None);
        assert!(of("expedite") < of("normal"));
    }

    #[test]
    fn where_queues_come_first_they_do_in_grades() {
        let grades = grades(
            "preset = \"easy\"\nqueue.source = \"by_queue\"\npriority.order = [\"qos\"]\n\
             priority.factors.queues = { debug = 1, all = 0 }",
        );
        let of = |qos: &str, queue: &str| grades.of(&party(qos, ""), Some(queue));
        assert!(of("standby", "debug") < of("expedite", "all"));
        assert!(of("expedite", "all") < of("standby", "all"));
    }
}
