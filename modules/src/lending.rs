//! Which ranks a job may be given, where declared instances hold none: by its queue's instance and
//! by how long it runs.
//!
//! An elastic instance may be given some ranks, and some of those are its home. On the home of
//! another a job starts only if its limit is within what is lent: so the owner knows how long he
//! waits at most. Asked at submission (ingest) and when a job is planned (sched), so that both say
//! the same. Decides nothing of when or where.

use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Request, Takes};
use eddy_wire::plan::Lent;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Span;

use crate::live::Live;
use crate::settings::{Elastic, Extent, Settings};

/// The elastic instances by name, and what they lend.
#[derive(Clone, Debug, Default)]
pub struct Lending {
    instances: Vec<(String, Elastic)>,
}

impl Lending {
    /// As the settings say.
    pub fn new(settings: &Settings) -> Lending {
        let instances = settings.declared.iter().filter_map(|declared| {
            let Extent::Elastic(elastic) = &declared.extent else {
                return None;
            };
            Some((declared.name.clone(), elastic.clone()))
        });
        Lending {
            instances: instances.collect(),
        }
    }

    /// As another configuration has it.
    pub fn of(live: &Live) -> Lending {
        let instances = live.lending.iter();
        let instances = instances.map(|(name, elastic)| (name.clone(), elastic.clone()));
        Lending {
            instances: instances.collect(),
        }
    }

    /// The elastic instance of that name.
    pub fn elastic(&self, name: &str) -> Option<&Elastic> {
        let mut instances = self.instances.iter();
        instances.find(|(own, _)| own == name).map(|(_, of)| of)
    }

    /// Whether there are ranks that some jobs may not be given.
    pub fn is_bound(&self) -> bool {
        let is_bound = |of: &Elastic| of.ranks.is_some() || of.lend_max.is_some();
        self.instances.iter().any(|(_, of)| is_bound(of))
    }

    /// The first instance on whose home a job of another would be for longer than it is lent: for how long it is,
    /// and where the job is there.
    pub fn borrowed(
        &self,
        (to, ranks): (Option<&str>, &Idset),
        limit: Option<Span>,
    ) -> Option<(&str, Span, Idset)> {
        // What is aside for an instance of a fixed size is nobody's home.
        let is_fixed = to.is_some_and(|name| self.elastic(name).is_none());
        let mut others = self.instances.iter().filter(|_| !is_fixed);
        others.find_map(|(name, of)| {
            let home = of.home.intersect(ranks);
            let is_other = Some(name.as_str()) != to && !home.is_empty() && !of.lends(limit);
            Some((name.as_str(), of.lend_max.filter(|_| is_other)?, home))
        })
    }

    /// The homes of which jobs of this limit are given nothing whose queue leads to that instance, or to none.
    pub fn withheld(&self, to: Option<&str>, limit: Option<Span>) -> Vec<Lent> {
        // What is aside for an instance of a fixed size is nobody's home.
        let is_fixed = to.is_some_and(|name| self.elastic(name).is_none());
        let others = self.instances.iter().filter(|_| !is_fixed);
        let others = others.filter(|(name, of)| Some(name.as_str()) != to && !of.lends(limit));
        let lent = others.filter_map(|(name, of)| {
            Some(Lent {
                instance: name.clone(),
                most: of.lend_max?,
                ranks: of.home.clone(),
            })
        });
        lent.collect()
    }

    /// Those of all nodes that some job may be given whose queue leads to that elastic instance, or to none.
    pub fn reach(&self, to: Option<&str>, all: &Idset) -> Idset {
        let own = to.and_then(|name| self.elastic(name)?.ranks.as_ref());
        let own = own.map_or_else(|| all.clone(), |own| own.intersect(all));
        // The shortest there is: what is lent at all can be had.
        own.difference(&self.closed(to, Some(Span(1))))
    }

    /// The homes of others that are not lent to a job for so long.
    fn closed(&self, to: Option<&str>, limit: Option<Span>) -> Idset {
        // What is aside for an instance of a fixed size is nobody's home.
        let is_fixed = to.is_some_and(|name| self.elastic(name).is_none());
        let others = self.instances.iter().filter(|_| !is_fixed);
        let others = others.filter(|(name, of)| Some(name.as_str()) != to && !of.lends(limit));
        others.fold(Idset::new(), |closed, (_, of)| closed.union(&of.home))
    }

    /// Those of all nodes that a job may be given whose queue leads to that instance, or to none, by
    /// rank: of those that are as it asks; any when `None`.
    pub fn ranks(&self, to: Option<&str>, request: &Request, all: &ResourceSet) -> Option<Idset> {
        let like = request.constraint.as_ref();
        let like = like.map(|constraint| constraint.ranks(all));
        self.ranks_of(to, request, like, all)
    }

    /// The same, where it is known which of all nodes are as the job asks.
    pub fn ranks_of(
        &self,
        to: Option<&str>,
        request: &Request,
        like: Option<Idset>,
        all: &ResourceSet,
    ) -> Option<Idset> {
        if request.takes == Takes::Nothing {
            return request.ranks.clone();
        }
        // Of those that it names some may have been taken out since: it goes on with the others.
        let own = to.and_then(|name| self.elastic(name)?.ranks.as_ref());
        let own = own.map(|own| own.intersect(&all.ranks()));
        let asked = request.ranks.iter().cloned();
        let asked = asked.chain(own).chain(like);
        let asked = asked.reduce(|some, others| some.intersect(&others));
        let closed = self.closed(to, request.duration.map(Span));
        match (closed.is_empty(), asked) {
            (true, asked) => asked,
            (false, Some(asked)) => Some(asked.difference(&closed)),
            (false, None) => Some(all.ranks().difference(&closed)),
        }
    }
}

impl Elastic {
    /// Whether others' jobs of this limit may be given of its home.
    fn lends(&self, limit: Option<Span>) -> bool {
        self.lend_max
            .is_none_or(|most| limit.is_some_and(|limit| limit <= most))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use eddy_wire::constraint::Constraint;
    use eddy_wire::jobspec::{MemoryNeed, Sharing, Work};

    use super::*;
    use crate::settings::Declared;

    fn ranks(text: &str) -> Idset {
        text.parse().expect("ranks")
    }

    fn request(asked: Option<&str>, minutes: Option<i64>) -> Request {
        Request {
            nodes: None,
            choice: None,
            slots: 1,
            slots_per_node: 1,
            cores_per_slot: 1,
            gpus_per_slot: 0,
            memory: MemoryNeed::None,
            sharing: Sharing::Shared,
            takes: Takes::Resources,
            ranks: asked.map(ranks),
            constraint: None,
            work: Work::Tasks,
            ntasks: 1,
            duration: minutes.map(|minutes| minutes * 60_000_000),
            sockets: None,
        }
    }

    /// `own` is at home on 0-3 and lends for an hour; `guest` may be given 2-7.
    fn condo() -> Lending {
        let mut settings = Settings::for_inventory(Arc::new(ResourceSet::default()));
        let declared = |name: &str, elastic: Elastic| Declared {
            name: name.to_owned(),
            extent: Extent::Elastic(elastic),
            leader: eddy_wire::jobspec::Leader::Node,
            set: Vec::new(),
        };
        settings.declared = vec![
            declared(
                "own",
                Elastic {
                    ranks: None,
                    home: ranks("0-3"),
                    lend_max: Some(Span::seconds(3600)),
                },
            ),
            declared(
                "guest",
                Elastic {
                    ranks: Some(ranks("2-7")),
                    ..Elastic::default()
                },
            ),
        ];
        Lending::new(&settings)
    }

    /// Ranks 0 to 7, of which 2-5 are fast.
    fn eight() -> ResourceSet {
        let set = serde_json::json!({"version": 1, "execution": {
            "R_lite": [{"rank": "0-7", "children": {"core": "0"}}],
            "nodelist": ["n[0-7]"],
            "properties": {"fast": "2-5"},
        }});
        ResourceSet::from_value(set).expect("eight nodes")
    }

    #[test]
    fn a_job_may_be_given_only_nodes_that_are_as_it_asks() {
        let (condo, all) = (condo(), eight());
        let given = |to, asked, query: &str| {
            let constraint = Constraint::from_query(query).expect("a query");
            let request = Request {
                constraint: Some(Arc::new(constraint)),
                ..request(asked, None)
            };
            condo.ranks(to, &request, &all).expect("some").to_string()
        };
        assert_eq!(given(Some("own"), None, "fast"), "2-5");
        assert_eq!(
            given(Some("own"), Some("0-3"), "fast"),
            "2-3",
            "and of those"
        );
        assert_eq!(given(Some("own"), None, "-fast"), "0-1,6-7");
        assert_eq!(given(Some("guest"), None, "fast"), "4-5", "of what is lent");
    }

    #[test]
    fn an_instance_goes_on_with_those_of_its_ranks_that_are_left() {
        let (condo, all) = (condo(), eight());
        let left = all.restrict(&ranks("0-2,5-7"));
        let given = |to, asked| condo.ranks(to, &request(asked, Some(5)), &left);
        assert_eq!(given(Some("guest"), None), Some(ranks("2,5-7")));
        // Who names what is no more is told so.
        assert_eq!(given(None, Some("3")), Some(ranks("3")));
    }

    #[test]
    fn on_the_home_of_another_a_job_may_be_only_as_long_as_is_lent() {
        let (condo, all) = (condo(), eight());
        let given = |to, asked, minutes| {
            let found = condo.ranks(to, &request(asked, minutes), &all);
            found.map(|ranks| ranks.to_string())
        };
        assert_eq!(given(Some("own"), None, None), None, "its own home");
        assert_eq!(
            given(Some("own"), Some("1"), Some(900)).as_deref(),
            Some("1")
        );
        assert_eq!(given(Some("guest"), None, Some(60)).as_deref(), Some("2-7"));
        assert_eq!(given(Some("guest"), None, Some(61)).as_deref(), Some("4-7"));
        assert_eq!(given(Some("guest"), None, None).as_deref(), Some("4-7"));
        assert_eq!(given(Some("guest"), Some("1-2"), None).as_deref(), Some(""));
        assert_eq!(
            given(None, None, Some(5)),
            None,
            "of the root itself, short"
        );
        assert_eq!(given(None, None, None).as_deref(), Some("4-7"));
        assert_eq!(given(Some("fixed"), None, None), None, "what is its own");
        assert_eq!(given(Some("fixed"), Some("7"), None).as_deref(), Some("7"));
        let ids = ranks("2-4");
        let held = |to, minutes: i64| {
            let limit = Some(Span::seconds(minutes * 60));
            let found = condo.borrowed((to, &ids), limit);
            found.map(|(name, most, home)| (name, most.0 / 60_000_000, home.to_string()))
        };
        assert_eq!(held(Some("guest"), 60), None);
        assert_eq!(held(Some("guest"), 61), Some(("own", 60, "2-3".to_owned())));
        assert_eq!(held(None, 61), Some(("own", 60, "2-3".to_owned())));
        assert_eq!(held(Some("own"), 61), None);
        assert!(condo.is_bound());
        assert!(!Lending::default().is_bound());
    }
}
