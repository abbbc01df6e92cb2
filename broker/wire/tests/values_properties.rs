//! Properties of the values: what is printed reads back as the same, sets keep
//! the laws of sets, and no bytes make a parser panic.

use std::collections::BTreeSet;

use eddy_wire::eventlog::EventLine;
use eddy_wire::fsd::{Fsd, NUMBER_MAX, micros_of_seconds, parse_fsd, seconds_of_micros};
use eddy_wire::hash::Hash;
use eddy_wire::hostlist::Hostlist;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Ask, Count, Jobspec, MemoryNeed, Sharing, format_bytes, parse_bytes};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

/// Small ids, so that sets touch, meet and split.
fn ids() -> impl Strategy<Value = BTreeSet<u32>> {
    btree_set(0u32..40, 0..20)
}

fn idset(ids: &BTreeSet<u32>) -> Idset {
    ids.iter().copied().collect()
}

fn plain(set: &Idset) -> BTreeSet<u32> {
    set.iter().collect()
}

fn node() -> impl Strategy<Value = NodeSet> {
    (ids(), btree_set(0u32..4, 0..4), 0u64..3).prop_map(|(cores, gpus, memory)| NodeSet {
        host: "n".into(),
        cores: idset(&cores),
        gpus: idset(&gpus),
        memory,
        ..NodeSet::default()
    })
}

fn resource_set() -> impl Strategy<Value = ResourceSet> {
    (
        btree_map(0u32..8, node(), 0..6),
        0i64..1 << 50,
        any::<Option<u32>>(),
    )
        .prop_map(|(nodes, starttime, nslots)| {
            let name = |(rank, mut node): (u32, NodeSet)| {
                node.host = format!("n{rank}").into();
                (eddy_wire::id::Rank(rank), node)
            };
            let nodes = nodes
                .into_iter()
                .filter(|(_, node)| !node.is_empty())
                .map(name)
                .collect();
            let expiration = if starttime % 2 == 0 { 0 } else { starttime + 1 };
            ResourceSet {
                nodes,
                starttime,
                expiration,
                nslots,
                ..ResourceSet::default()
            }
        })
}

fn ask() -> impl Strategy<Value = Ask> {
    let memory = prop_oneof![
        Just(MemoryNeed::None),
        (1u64..1 << 50).prop_map(MemoryNeed::PerNode),
        (1u64..1 << 50).prop_map(MemoryNeed::PerTask),
    ];
    let environment = btree_map("[A-Z_]{1,8}", any::<Option<String>>(), 0..4);
    (
        vec("[^\0]{1,9}", 1..4),
        proptest::option::of(1u32..9),
        proptest::option::of(1u32..99),
        (1u32..9, 0u32..3),
        0i64..1 << 50,
        memory,
        environment,
        any::<Option<String>>(),
    )
        .prop_map(
            |(command, nodes, ntasks, (cores, gpus), duration, memory, environment, name)| {
                let ntasks = ntasks.map(|tasks| tasks.max(nodes.unwrap_or(1)));
                let clean = |(key, value): (String, Option<String>)| {
                    (key, value.map(|text| text.replace('\0', "")))
                };
                Ask {
                    command,
                    nodes: nodes.map(Count::from),
                    ntasks,
                    cores_per_task: cores,
                    gpus_per_task: gpus,
                    duration,
                    memory,
                    environment: environment.into_iter().map(clean).collect(),
                    name,
                    ..Ask::default()
                }
            },
        )
}

proptest! {
    // A finding becomes a case of its own in the other files, not a file of seeds.
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn job_ids_read_back_in_every_spelling(number: u64) {
        let id = JobId(number);
        let hex = format!("{number:#x}");
        for text in [id.to_string(), id.f58(), id.f58_ascii(), id.dothex(), hex] {
            prop_assert_eq!(text.parse::<JobId>(), Ok(id));
        }
    }

    #[test]
    fn idsets_keep_the_laws_of_sets(a in ids(), b in ids(), id in 0u32..40, count in 0usize..40) {
        let (left, right) = (idset(&a), idset(&b));
        prop_assert_eq!(left.to_string().parse::<Idset>().unwrap(), left.clone());
        prop_assert_eq!(left.len(), a.len() as u64);
        prop_assert_eq!(plain(&left.union(&right)), a.union(&b).copied().collect());
        prop_assert_eq!(plain(&left.intersect(&right)), a.intersection(&b).copied().collect());
        prop_assert_eq!(plain(&left.difference(&right)), a.difference(&b).copied().collect());
        prop_assert_eq!(left.contains_all(&right), a.is_superset(&b));
        prop_assert_eq!(left.is_disjoint(&right), a.is_disjoint(&b));
        prop_assert_eq!(left.contains(id), a.contains(&id));
        prop_assert_eq!(plain(&left.lowest(count as u64)), a.iter().copied().take(count).collect());
        prop_assert_eq!((left.first(), left.last()), (a.first().copied(), a.last().copied()));
        // Equal sets are equal values, however they came to be.
        prop_assert_eq!(left.union(&right).difference(&right), left.difference(&right));
    }

    #[test]
    fn idsets_change_as_sets_do(a in ids(), steps in vec((any::<bool>(), 0u32..40, 0u32..6), 0..30)) {
        let (mut set, mut model) = (idset(&a), a);
        for (put, first, more) in steps {
            if put {
                set.insert_range(first, first + more);
                model.extend(first..=first + more);
            } else {
                set.remove(first);
                model.remove(&first);
            }
            prop_assert_eq!(&set, &idset(&model));
            let apart = set.ranges().windows(2).all(|pair| pair[0].1 + 1 < pair[1].0);
            prop_assert!(apart, "{set:?}");
        }
    }

    #[test]
    fn hostlists_read_back(hosts in vec("[ab]{0,1}[0-2]{0,3}(-x)?[01]{0,2}", 0..12)) {
        let mut list = Hostlist::new();
        for host in hosts.iter().filter(|host| !host.is_empty()) {
            list.push(host).unwrap();
        }
        let names: Vec<String> = list.hosts().collect();
        let given: Vec<String> = hosts.into_iter().filter(|host| !host.is_empty()).collect();
        prop_assert_eq!(&names, &given);
        let again: Hostlist = list.to_string().parse().unwrap();
        prop_assert_eq!(again.to_string(), list.to_string());
        prop_assert_eq!(again.hosts().collect::<Vec<_>>(), given);
    }

    #[test]
    fn durations_read_back(micros in 0i64.., number in 0i64..=NUMBER_MAX) {
        let fsd = Fsd::Finite(micros);
        prop_assert_eq!(parse_fsd(&fsd.to_string()), Ok(fsd));
        let seconds = seconds_of_micros(number).as_f64().unwrap();
        prop_assert_eq!(micros_of_seconds(seconds), Ok(number));
    }

    #[test]
    fn hashes_and_amounts_read_back(bytes: Vec<u8>, amount in 0u64..1 << 63) {
        let hash = Hash::of(&bytes);
        prop_assert_eq!(hash.to_string().parse(), Ok(hash));
        prop_assert_eq!(parse_bytes(&format_bytes(amount)), Ok(amount));
    }

    #[test]
    fn event_lines_read_back(micros in 1i64..=NUMBER_MAX, name in ".{1,9}", key: String, value: String) {
        let context = [(key, value.into())].into_iter().collect();
        let event = EventLine::at(micros, name, Some(context));
        let line = event.encode();
        prop_assert_eq!(line.find('\n'), Some(line.len() - 1));
        prop_assert_eq!(EventLine::parse(&line).unwrap().micros(), micros);
        prop_assert_eq!(EventLine::parse(&line), Ok(event));
    }

    #[test]
    fn resource_sets_read_back_and_add_up(a in resource_set(), b in resource_set()) {
        prop_assert_eq!(ResourceSet::from_value(a.to_value()).unwrap(), a.clone());
        let both = a.union(&b);
        prop_assert!(both.contains(&a) && both.contains(&b));
        let rest = both.difference(&b);
        prop_assert!(rest.is_disjoint(&b) && both.contains(&rest));
        prop_assert_eq!(rest.memory(), a.memory());
        if a.is_disjoint(&b) {
            prop_assert_eq!(rest.nodes, a.nodes);
        }
    }

    #[test]
    fn jobspecs_read_back_and_come_down_to_what_was_asked(ask in ask()) {
        let jobspec = ask.jobspec().unwrap();
        prop_assert_eq!(Jobspec::parse(jobspec.to_json().as_bytes()), Ok(jobspec.clone()));
        let request = jobspec.request().unwrap();
        let nodes = ask.nodes.as_ref().and_then(Count::fixed);
        prop_assert_eq!(request.nodes, nodes);
        prop_assert_eq!(request.ntasks, ask.ntasks.or(nodes).unwrap_or(1));
        prop_assert!(request.slots >= request.ntasks);
        prop_assert_eq!(request.cores_per_slot, ask.cores_per_task);
        prop_assert_eq!(request.gpus_per_slot, ask.gpus_per_task);
        prop_assert_eq!(request.memory, ask.memory);
        let whole = ask.nodes.is_some() && ask.ntasks.is_none();
        prop_assert_eq!(request.sharing == Sharing::Exclusive, whole);
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "[-\\[\\],.:+*^0-9a-fsmhdnxGƒ é]{0,24}") {
        drop(text.parse::<JobId>());
        drop(text.parse::<Idset>());
        drop(text.parse::<Hostlist>());
        drop(text.parse::<Fsd>());
        drop(text.parse::<Count>());
        drop(text.parse::<Hash>());
        drop(parse_bytes(&text));
        drop(EventLine::parse(&text));
        drop(ResourceSet::parse(&text));
    }

    #[test]
    fn no_bytes_make_a_jobspec_panic(bytes: Vec<u8>) {
        drop(Jobspec::parse(&bytes));
        drop(Jobspec::from_json(&bytes));
    }
}
