//! Closed days and summaries say what one full fold of all charges says.

use proptest::prelude::*;

use super::*;

const CORE: Amounts = Amounts {
    nodes: 0,
    cores: 1,
    gpus: 0,
    memory: 0,
};

fn user(user: u32) -> Payer {
    Payer {
        user,
        ..Payer::default()
    }
}

/// Books and what was recorded of them.
#[derive(Default)]
struct Kept {
    books: Books,
    days: Vec<(Seq, Arc<Day>)>,
    summary: (Time, Vec<Account>),
    seq: u64,
}

impl Kept {
    /// Makes a mark; how many days are said with it.
    fn mark(&mut self, now: Time) -> usize {
        let (days, accounts) = self.books.summary(now);
        let said = days.len();
        for day in days {
            self.seq += 1;
            let day = (Seq(self.seq), Arc::new(day));
            self.books.said(day.0, &day.1);
            self.days.push(day);
        }
        self.books.restore(now, &accounts);
        self.summary = (now, accounts);
        said
    }

    /// What a start reads.
    fn replayed(&self, is_live: impl Fn(&Seq) -> bool) -> Books {
        let mut books = Books::default();
        // Of a job whose records are live for another reason: the summary has it.
        books.charge(&user(9), Time(0), Time(DAY), CORE);
        for (seq, day) in self.days.iter().filter(|(seq, _)| is_live(seq)) {
            books.said(*seq, day);
        }
        books.restore(self.summary.0, &self.summary.1);
        books
    }

    /// What each payer was charged in each stretch.
    fn all(&self) -> BTreeMap<Payer, Stretches> {
        let mut all = BTreeMap::new();
        for (payer, Stretch { from, width, used }) in self.books.stretches() {
            let own = all.entry(payer.clone()).or_default();
            add(own, (from, Reverse(width)), used);
        }
        all
    }
}

/// The fold without closed days, all of which each summary had.
#[derive(Clone, Debug, Default, PartialEq)]
struct Full(BTreeMap<Payer, Stretches>);

impl Full {
    fn charge(&mut self, payer: &Payer, from: Time, to: Time, held: Amounts) {
        let own = self.0.entry(payer.clone()).or_default();
        let mut at = from.0;
        while at < to.0 {
            let (begin, width) = stretch(at, to.0 - at);
            let end = (begin + width).min(to.0);
            add(
                own,
                (begin, Reverse(width)),
                held.over(Time(end) - Time(at)),
            );
            at = end;
        }
    }

    fn mark(&mut self, now: Time) {
        loop {
            let before = self.clone();
            for own in self.0.values_mut() {
                for ((from, width), used) in std::mem::take(own) {
                    let key = match stretch(from, now.0 - from) {
                        (begin, wider) if wider > width.0 => (begin, Reverse(wider)),
                        _ => (from, width),
                    };
                    add(own, key, used);
                }
            }
            if *self == before {
                return;
            }
        }
    }

    fn since(&self, payer: &Payer, since: i64) -> Amounts {
        let own = self.0[payer].iter().filter(|((from, _), _)| *from >= since);
        own.map(|(_, used)| *used)
            .fold(Amounts::default(), Amounts::plus)
    }
}

/// Minutes until it ends, for how long it ran, who pays, and whether a mark is made then.
type Step = (i64, i64, u32, bool);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let minutes = |days: i64| prop_oneof![4 => 0..200_i64, 2 => 0..4_000_i64, 1 => 0..days * 1_440];
    prop::collection::vec((minutes(40), minutes(90), 0..3_u32, any::<bool>()), 1..60)
}

proptest! {
    #[test]
    fn closed_days_and_the_rest_are_what_one_fold_of_all_is(steps in steps()) {
        let (mut kept, mut full) = (Kept::default(), Full::default());
        let mut now = 20_000 * DAY + 12_345;
        for (pause, ran, who, marks) in steps {
            now += pause * MINUTE;
            let (from, to) = (Time(now - ran * MINUTE - 77), Time(now));
            kept.books.charge(&user(who), from, to, CORE);
            full.charge(&user(who), from, to, CORE);
            if marks {
                kept.mark(to);
                full.mark(to);
                prop_assert_eq!(&kept.all(), &full.0);
                let live: BTreeSet<Seq> = kept.books.live().collect();
                prop_assert_eq!(&kept.replayed(|seq| live.contains(seq)), &kept.books);
                prop_assert_eq!(&kept.replayed(|_| true), &kept.books);
                for back in [0, 1, 25, 30 * 24, 410 * 24] {
                    for (payer, own) in kept.books.payers() {
                        let since = now - back * HOUR;
                        prop_assert_eq!(own.since(Some(Time(since))), full.since(payer, since));
                    }
                }
            }
            for (payer, own) in kept.books.payers() {
                prop_assert_eq!(own.since(None), full.since(payer, i64::MIN));
            }
            let all = full.0.keys().map(|payer| full.since(payer, i64::MIN));
            prop_assert_eq!(kept.books.total(), all.fold(Amounts::default(), Amounts::plus));
        }
    }
}

/// A summary was all that was ever charged, and was written whole at each mark.
#[test]
fn a_day_that_is_over_is_said_once() {
    let mut kept = Kept::default();
    let mut said = 0;
    for hour in 0..100 * 24 {
        let (from, to) = (Time(hour * HOUR), Time((hour + 1) * HOUR));
        kept.books.charge(&user(1), from, to, CORE);
        said += kept.mark(to);
        let open = kept.summary.1[0].stretches.len();
        assert!(
            open <= 60 + 3 * 24 + 2,
            "{open} stretches after {hour} hours"
        );
    }
    assert_eq!(said, 100 - 3);
    assert_eq!(kept.books.live().count(), said);
}

#[test]
fn what_is_charged_to_a_closed_day_is_open_until_the_next_is_closed() {
    let mut kept = Kept::default();
    let at = |day: i64| Time(day * DAY);
    for day in 0..10 {
        kept.books.charge(&user(1), at(day), at(day + 1), CORE);
        kept.mark(at(day + 1));
    }
    kept.books.charge(&user(2), at(2), at(10), CORE);
    assert_eq!(kept.mark(Time(at(10).0 + HOUR)), 0);
    let late = kept
        .summary
        .1
        .iter()
        .find(|account| account.payer.user == 2);
    let days = late.expect("it was charged").stretches.iter();
    assert_eq!(days.filter(|stretch| stretch.width == DAY).count(), 6);
    // Days 2 to 6, of which it has a part, and day 7, which is over by now.
    assert_eq!(kept.mark(at(11)), 6);
    assert_eq!(kept.books.live().count(), 8);
    assert_eq!(kept.books.total().cores, 18 * DAY as u128);
}

/// A summary of version 3 has all that was ever charged.
#[test]
fn the_first_mark_after_a_summary_of_an_earlier_version_closes_its_days() {
    let mut full = Full::default();
    let end = 20_000 * DAY + 12_345;
    for (who, began) in [(1, end - 500 * DAY), (2, end - 5 * DAY), (3, end - HOUR)] {
        full.charge(&user(who), Time(began), Time(end), CORE);
    }
    full.mark(Time(end));
    let account = |(payer, stretches): (&Payer, &Stretches)| Account {
        payer: payer.clone(),
        stretches: stretches
            .iter()
            .map(|(key, used)| told(*key, *used))
            .collect(),
    };
    let accounts: Vec<Account> = full.0.iter().map(account).collect();
    let mut kept = Kept::default();
    kept.books.restore(Time(end), &accounts);
    assert_eq!(kept.all(), full.0);
    // The days of the last 400 but four, and four months of those before.
    assert_eq!(kept.mark(Time(end)), 396 + 4);
    assert_eq!(kept.all(), full.0);
    assert_eq!(kept.replayed(|_| true), kept.books);
    assert_eq!(kept.mark(Time(end + HOUR)), 0);
}

/// However long there is no mark.
#[test]
fn minutes_and_hours_of_a_payer_are_few() {
    let mut books = Books::default();
    for minute in 0..30 * 1_440 {
        let (from, to) = (Time(minute * MINUTE), Time((minute + 1) * MINUTE));
        books.charge(&user(1), from, to, CORE);
    }
    let count = books.stretches().count();
    assert!(count <= 120 + 3 * 24 + 30 + 2, "{count} stretches");
    assert_eq!(books.total().cores, 30 * DAY as u128);
}

/// A budget of a year, a quarter or a month counts by where stretches begin: what was used in one is in a
/// stretch of that one for ever.
#[test]
fn no_period_of_the_calendar_begins_within_an_old_stretch() {
    for day in (15_000..22_000).step_by(5) {
        let (from, to) = (Time(day * DAY), Time((day + 1) * DAY));
        for age in [1, 401, 2_000] {
            let mut kept = Kept::default();
            kept.books.charge(&user(1), from, to, CORE);
            let now = Time(to.0 + age * DAY);
            kept.mark(now);
            for period in [Period::Month, Period::Quarter, Period::Year] {
                let begin = beginning(period, day) * DAY;
                let of_it = |(_, stretch): &(&Payer, Stretch)| {
                    beginning(period, stretch.from.div_euclid(DAY)) * DAY == begin
                };
                let stretches = kept.books.stretches().filter(of_it);
                let used: u128 = stretches.map(|(_, stretch)| stretch.used.cores).sum();
                assert_eq!(used, DAY as u128, "{day} {age} {period:?}");
            }
            // What was summed up once is summed up no further.
            let before = kept.books.clone();
            assert_eq!(kept.mark(now), 0);
            assert_eq!(kept.books, before);
        }
    }
}
