//! A line against a sorted list.

use eddy_wire::time::Span;
use proptest::prelude::*;

use super::*;

#[test]
fn a_narrow_long_job_and_a_wide_short_one_hide_nobody() {
    let entry = |key, least, span| Entry {
        key,
        least,
        span: Span(span),
        value: (),
    };
    let line = Line::new(vec![entry(1, 1, 100), entry(2, 64, 1), entry(3, 2, 5)]);
    let mut ceiling = Ceiling::default();
    ceiling.step(Span(10), 4);
    ceiling.step(Span(i64::MAX), 0);
    assert_eq!(line.next(None, &ceiling).map(|entry| entry.key), Some(3));
    assert_eq!(line.next(Some(&3), &ceiling).map(|entry| entry.key), None);
}

proptest! {
    #[test]
    fn it_finds_what_a_look_at_each_finds(
        bulk in prop::collection::vec((0..3000_u32, 0..40_u64, 0..40_i64), 0..3000),
        changes in prop::collection::vec((0..3000_u32, 0..40_u64, 0..40_i64, any::<bool>()), 0..3000),
        asked in prop::collection::vec((0..3000_u32, 0..10_i64, 0..10_u64, 0..5_u64), 30),
    ) {
        let entry = |(key, least, span): (u32, u64, i64)| Entry { key, least, span: Span(span), value: () };
        let mut line = Line::new(bulk.iter().copied().map(entry).collect());
        let mut plain = std::collections::BTreeMap::new();
        for (key, least, span) in bulk {
            plain.entry(key).or_insert((least, span));
        }
        for (key, least, span, comes) in changes {
            if comes {
                let new = !plain.contains_key(&key);
                prop_assert_eq!(line.insert(entry((key, least, span))), new);
                plain.entry(key).or_insert((least, span));
            } else {
                prop_assert_eq!(line.remove(&key).is_some(), plain.remove(&key).is_some());
            }
        }
        prop_assert_eq!(line.len(), plain.len());
        prop_assert!(line.iter().map(|entry| &entry.key).eq(plain.keys()));
        for (key, until, most, less) in asked {
            let mut ceiling = Ceiling::default();
            ceiling.step(Span(until), most);
            ceiling.step(Span(i64::MAX), most.saturating_sub(less));
            let found = plain.range(key + 1..).find(|(_, (least, span))| ceiling.admits(*least, Span(*span)));
            prop_assert_eq!(line.next(Some(&key), &ceiling).map(|entry| entry.key), found.map(|(key, _)| *key));
            let at = key as usize;
            prop_assert_eq!(line.nth(at).map(|entry| &entry.key), plain.keys().nth(at));
            prop_assert_eq!(line.get(&key).is_some(), plain.contains_key(&key));
        }
    }
}

proptest! {
    /// Who has another key is found where that belongs, and who has none is not there.
    #[test]
    fn other_keys_are_another_order(
        jobs in prop::collection::vec((0..50_u64, 0..50_i64, -3..4_i64, 0..40_u8), 0..400),
        most in 0..50_u64,
        span in 0..50_i64,
    ) {
        let entry = |key: (i64, usize), least, span| Entry { key, least, span: Span(span), value: () };
        let mut line = Line::default();
        for (at, &(least, span, _, _)) in jobs.iter().enumerate() {
            line.insert(entry((at as i64, at), least, span));
        }
        // Most move a little, some far, some are out.
        let anew = |&(_, at): &(i64, usize)| match (jobs[at].2, jobs[at].3) {
            (_, 0) => None,
            (_, 1) => Some((-(at as i64), at)),
            (_, 2) => Some((at as i64 + 1000, at)),
            (shift, _) => Some((at as i64 + shift, at)),
        };
        // What is fetched is of the key that each has.
        line.rekey(|key| Some(*key), |key, fetched| anew(key).filter(|_| fetched == Some(*key)));
        let mut sorted: Vec<(i64, usize)> =
            (0..jobs.len()).filter_map(|at| anew(&(0, at))).collect();
        sorted.sort_unstable();
        let keys: Vec<(i64, usize)> = line.iter().map(|entry| entry.key).collect();
        prop_assert_eq!(&keys, &sorted);
        prop_assert_eq!(line.len(), sorted.len());
        let mut ceiling = Ceiling::default();
        ceiling.step(Span(span), most);
        let admitted = |key: &&(i64, usize)| {
            ceiling.admits(jobs[key.1].0, Span(jobs[key.1].1))
        };
        let first = line.next(None, &ceiling).map(|entry| entry.key);
        prop_assert_eq!(first, sorted.iter().find(admitted).copied());
        for key in sorted {
            prop_assert!(line.remove(&key).is_some());
        }
        prop_assert!(line.is_empty());
    }
}
