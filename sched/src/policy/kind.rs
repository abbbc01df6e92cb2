//! The kinds of values that keys take: how each is read, printed, and what is
//! said to be allowed.
//!
//! Used by `keys`, which says for each key which kind it has. A kind knows no key.

use eddy_wire::fsd::{Fsd, micros_of_seconds, parse_fsd};
use eddy_wire::time::{MICROS, Span};
use toml::Value as Toml;

use super::item::{Given, Item};
use crate::policy::{Preference, Rate, Walk};

/// A kind of value.
pub(super) trait Kind {
    /// What is read.
    type Value: Clone + PartialEq;
    /// The value; `None` where it is not allowed.
    fn read(&self, item: &Item) -> Option<Self::Value>;
    /// As TOML, which reads back to the same value.
    fn print(&self, value: &Self::Value) -> String;
    /// What is allowed, for people.
    fn allowed(&self) -> String;
}

/// One of a few names.
pub(super) struct Names<T: 'static>(pub &'static [(&'static str, T)]);

impl<T: Copy + PartialEq> Names<T> {
    /// The name of a value.
    pub fn name(&self, value: T) -> &'static str {
        let found = self.0.iter().find(|(_, known)| *known == value);
        found.expect("every value has a name").0
    }

    fn of(&self, item: &Item) -> Option<T> {
        let text = item.text()?;
        let found = self.0.iter().find(|(name, _)| *name == text);
        found.map(|&(_, value)| value)
    }
}

impl<T: Copy + PartialEq> Kind for Names<T> {
    type Value = T;
    fn read(&self, item: &Item) -> Option<T> {
        self.of(item)
    }
    fn print(&self, value: &T) -> String {
        format!("\"{}\"", self.name(*value))
    }
    fn allowed(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|(name, _)| format!("{name:?}")).collect();
        or(&names)
    }
}

/// A list of such names, each at most once, at least one.
pub(super) struct NameList<T: 'static>(pub Names<T>);

impl<T: Copy + PartialEq> Kind for NameList<T> {
    type Value = Vec<T>;
    fn read(&self, item: &Item) -> Option<Vec<T>> {
        let Given::List(list) = &item.value else {
            return None;
        };
        // Each at most once: no longer than there are names.
        if list.is_empty() || list.len() > self.0.0.len() {
            return None;
        }
        let values: Vec<T> = list
            .iter()
            .map(|item| self.0.of(item))
            .collect::<Option<_>>()?;
        let twice = (1..values.len()).any(|at| values[..at].contains(&values[at]));
        (!twice).then_some(values)
    }
    fn print(&self, value: &Vec<T>) -> String {
        let names: Vec<String> = value.iter().map(|value| self.0.print(value)).collect();
        format!("[{}]", names.join(", "))
    }
    fn allowed(&self) -> String {
        format!(
            "a list, each at most once and at least one, of {}",
            self.0.allowed()
        )
    }
}

/// The largest number of a policy. What a job is charged and how its turn is reckoned are products
/// of a few of them with amounts and seconds, below 1e20 each: far from where a number ends, and
/// what is infinite once stays so in the books. No scheduler that is imported has larger ones.
pub const NUMBER_MAX: f64 = 1e12;
/// The least number over 0 of those that divide.
const NUMBER_MIN: f64 = 1e-12;

/// A number in a range.
#[derive(Clone, Copy)]
pub(super) enum Number {
    /// Any, to [`NUMBER_MAX`] on both sides of 0.
    Any,
    /// 0 and more.
    NotNegative,
    /// More than 0.
    Positive,
    /// 0 to 1.
    Fraction,
}

impl Number {
    fn holds(self, number: f64) -> bool {
        let range = match self {
            Number::Any => -NUMBER_MAX..=NUMBER_MAX,
            Number::NotNegative => 0.0..=NUMBER_MAX,
            Number::Positive => NUMBER_MIN..=NUMBER_MAX,
            Number::Fraction => 0.0..=1.0,
        };
        range.contains(&number)
    }
}

impl Kind for Number {
    type Value = f64;
    fn read(&self, item: &Item) -> Option<f64> {
        let number = match &item.value {
            Given::Whole(whole) => *whole as f64,
            Given::Number(number) => *number,
            Given::Text(_)
            | Given::Truth(_)
            | Given::List(_)
            | Given::Table(_)
            | Given::Other(_) => return None,
        };
        self.holds(number).then_some(number)
    }
    fn print(&self, value: &f64) -> String {
        spell(*value)
    }
    fn allowed(&self) -> String {
        match self {
            Number::Any => "a number from -1e12 to 1e12",
            Number::NotNegative => "a number from 0 to 1e12",
            Number::Positive => "a number from 1e-12 to 1e12",
            Number::Fraction => "a number from 0 to 1",
        }
        .to_owned()
    }
}

/// A number as TOML: whole ones without a point.
pub(super) fn spell(number: f64) -> String {
    // Below this every whole number is one of both kinds.
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return format!("{number:.0}");
    }
    format!("{number:?}")
}

/// A whole number from the least allowed.
#[derive(Clone, Copy)]
pub(super) struct Whole {
    /// The least.
    pub least: u32,
    /// The most.
    pub most: u32,
}

impl Kind for Whole {
    type Value = u32;
    fn read(&self, item: &Item) -> Option<u32> {
        let Given::Whole(whole) = item.value else {
            return None;
        };
        let whole = u32::try_from(whole).ok()?;
        (self.least..=self.most).contains(&whole).then_some(whole)
    }
    fn print(&self, value: &u32) -> String {
        value.to_string()
    }
    fn allowed(&self) -> String {
        format!("a whole number from {} to {}", self.least, self.most)
    }
}

/// A whole number that may be negative.
pub(super) struct Signed;

impl Kind for Signed {
    type Value = i64;
    fn read(&self, item: &Item) -> Option<i64> {
        let Given::Whole(whole) = item.value else {
            return None;
        };
        Some(whole)
    }
    fn print(&self, value: &i64) -> String {
        value.to_string()
    }
    fn allowed(&self) -> String {
        "a whole number".to_owned()
    }
}

/// How many blocked jobs have a reservation: a number, or all.
pub(super) struct Depth;

impl Kind for Depth {
    type Value = u32;
    fn read(&self, item: &Item) -> Option<u32> {
        match item.text() {
            Some(text) => (text == "all").then_some(Walk::ALL),
            None => DEPTHS.read(item),
        }
    }
    fn print(&self, value: &u32) -> String {
        match *value {
            Walk::ALL => "\"all\"".to_owned(),
            depth => depth.to_string(),
        }
    }
    fn allowed(&self) -> String {
        format!("{}, or \"all\"", DEPTHS.allowed())
    }
}

const DEPTHS: Whole = Whole {
    least: 1,
    most: 1_000_000,
};

/// A length of time: a text of RFC 23 or seconds.
#[derive(Clone, Copy)]
pub(super) enum Length {
    /// 0 and longer.
    FromZero,
    /// Longer than 0.
    Longer,
}

impl Kind for Length {
    type Value = Span;
    fn read(&self, item: &Item) -> Option<Span> {
        let micros = match &item.value {
            Given::Text(text) => match parse_fsd(text).ok()? {
                Fsd::Finite(micros) => micros,
                Fsd::Infinite => return None,
            },
            Given::Whole(seconds) => seconds.checked_mul(MICROS)?,
            Given::Number(seconds) => micros_of_seconds(*seconds).ok()?,
            Given::Truth(_) | Given::List(_) | Given::Table(_) | Given::Other(_) => return None,
        };
        let least = match self {
            Length::FromZero => 0,
            Length::Longer => 1,
        };
        (micros >= least).then_some(Span(micros))
    }
    fn print(&self, value: &Span) -> String {
        format!("\"{}\"", Fsd::Finite(value.0))
    }
    fn allowed(&self) -> String {
        match self {
            Length::FromZero => "a duration such as \"7d\" or \"0s\" (RFC 23), or seconds",
            Length::Longer => "a duration longer than 0 such as \"7d\" (RFC 23), or seconds",
        }
        .to_owned()
    }
}

/// A value or a word that says there is none.
pub(super) struct Or<K> {
    /// Where there is one.
    pub some: K,
    /// Where there is none.
    pub none: &'static str,
}

impl<K: Kind> Kind for Or<K> {
    type Value = Option<K::Value>;
    fn read(&self, item: &Item) -> Option<Option<K::Value>> {
        if matches!(&item.value, Given::Text(text) if text == self.none) {
            return Some(None);
        }
        self.some.read(item).map(Some)
    }
    fn print(&self, value: &Option<K::Value>) -> String {
        match value {
            Some(value) => self.some.print(value),
            None => format!("\"{}\"", self.none),
        }
    }
    fn allowed(&self) -> String {
        format!("{}, or \"{}\"", self.some.allowed(), self.none)
    }
}

/// `{ per_second = 100, burst = 1000 }`.
pub(super) struct Bucket;

const BURST: Whole = Whole {
    least: 1,
    most: 1_000_000_000,
};

impl Kind for Bucket {
    type Value = Rate;
    fn read(&self, item: &Item) -> Option<Rate> {
        let Given::Table(entries) = &item.value else {
            return None;
        };
        let known = |name: &String| name == "per_second" || name == "burst";
        if !entries.keys().all(known) {
            return None;
        }
        Some(Rate {
            per_second: Number::Positive.read(entries.get("per_second")?)?,
            burst: BURST.read(entries.get("burst")?)?,
        })
    }
    fn print(&self, rate: &Rate) -> String {
        let per_second = spell(rate.per_second);
        format!("{{ per_second = {per_second}, burst = {} }}", rate.burst)
    }
    fn allowed(&self) -> String {
        format!(
            "{{ per_second = {}, burst = {} }}",
            Number::Positive.allowed(),
            BURST.allowed()
        )
    }
}

/// `true` or `false`.
pub(super) struct Truth;

impl Kind for Truth {
    type Value = Preference;
    fn read(&self, item: &Item) -> Option<Preference> {
        let Given::Truth(truth) = item.value else {
            return None;
        };
        Some(match truth {
            true => Preference::On,
            false => Preference::Off,
        })
    }
    fn print(&self, value: &Preference) -> String {
        match value {
            Preference::On => "true",
            Preference::Off => "false",
        }
        .to_owned()
    }
    fn allowed(&self) -> String {
        "true or false".to_owned()
    }
}

/// A name of something that the policy or the site has.
pub(super) struct Name;

/// What names of queues, accounts, classes and resources are.
pub(super) const NAMES: &str = "1 to 64 characters, none of them a blank or a control character";
const NAME_MAX: usize = 64;

/// Whether it is a name.
pub(super) fn is_name(text: &str) -> bool {
    let allowed = |letter: char| !letter.is_whitespace() && !letter.is_control();
    (1..=NAME_MAX).contains(&text.chars().count()) && text.chars().all(allowed)
}

impl Kind for Name {
    type Value = String;
    fn read(&self, item: &Item) -> Option<String> {
        let text = item.text().filter(|text| is_name(text))?;
        Some(text.to_owned())
    }
    fn print(&self, value: &String) -> String {
        Toml::String(value.clone()).to_string()
    }
    fn allowed(&self) -> String {
        format!("a name of {NAMES}")
    }
}

/// A list of formulas; what is in them is looked at once the weights are known.
pub(super) struct Formulas;

/// How many formulas an order has at most.
const FORMULAS_MAX: usize = 16;
/// How long one is at most, in bytes.
const FORMULA_MAX: usize = 4096;

impl Kind for Formulas {
    type Value = Vec<String>;
    fn read(&self, item: &Item) -> Option<Vec<String>> {
        let Given::List(list) = &item.value else {
            return None;
        };
        if !(1..=FORMULAS_MAX).contains(&list.len()) {
            return None;
        }
        let text = |item: &Item| {
            let text = item.text().filter(|text| text.len() <= FORMULA_MAX);
            text.map(str::to_owned)
        };
        list.iter().map(text).collect()
    }
    fn print(&self, value: &Vec<String>) -> String {
        let texts: Vec<String> = value
            .iter()
            .map(|text| Toml::String(text.clone()).to_string())
            .collect();
        format!("[{}]", texts.join(", "))
    }
    fn allowed(&self) -> String {
        format!(
            "a list of 1 to {FORMULAS_MAX} formulas, each a text of at most {FORMULA_MAX} bytes"
        )
    }
}

/// `a, b or c`.
pub(super) fn or(names: &[String]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}
