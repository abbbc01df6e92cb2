//! The options that say when a job is eligible, and as how many copies: what it
//! waits for, when it begins, its set of jobs, its array.
//!
//! They become attributes of the jobspec, over what `-S` sets. Spellings of Flux and of Slurm are taken.

use anyhow::{Context, anyhow, bail, ensure};
use clap::{ArgAction, Args};
use eddy_wire::fsd::{Fsd, parse_fsd};
use eddy_wire::gang::{ATTRIBUTE, MEMBERS_MAX};
use eddy_wire::grace;
use eddy_wire::id::JobIdError;
use eddy_wire::idset::{ID_MAX, Idset, IdsetError};
use eddy_wire::jobspec::{DEPENDENCIES_MAX, Environment, Jobspec};
use eddy_wire::time::{MICROS, Time};
use serde_json::{Value, json};

use super::pools::{OfPool, of_pool};
use crate::number::number;
use crate::session::Global;
use crate::{copies, ids, when};

/// When a job is eligible, and as how many copies.
#[derive(Args, Clone, Debug, Default)]
pub struct Eligible {
    /// Wait for other jobs: afterok:ID, afterany:ID, after:ID or afterstart:ID (its start), afternotok:ID,
    /// afterexcept:ID, singleton; several with commas between, or again. 12/3 is job 3 in the instance
    /// that is job 12; 12_all all copies of its submission, 12_3 the one with the number 3
    #[arg(long, value_name = "SCHEME:ID", action = ArgAction::Append, help_heading = "Queue")]
    pub dependency: Vec<String>,
    /// Not before then: +1h, now+30min, 16:00, tomorrow, 2026-01-31T12:00; a time that is past is now
    #[arg(long, alias = "begin", value_name = "TIME", help_heading = "Queue")]
    pub begin_time: Option<String>,
    /// From when on a begin time counts that is in a while: now, where none is given
    #[arg(skip)]
    pub counts_from: Option<Time>,
    /// Set of jobs to belong to, a word: eddy cancel, hold, release and jobs take --job-set
    #[arg(long, value_name = "NAME", help_heading = "Queue")]
    pub job_set: Option<String>,
    /// Only in this reservation: on its nodes, from its beginning to its end (eddy reservation list)
    #[arg(long, value_name = "NAME", help_heading = "Queue")]
    pub reservation: Option<String>,
    /// So much of a pool, such as licences (eddy resource pools): NAME=N, or NAME for one; several with
    /// commas between, or again
    #[arg(long, value_name = "NAME=N,...", value_delimiter = ',', value_parser = of_pool, help_heading = "Queue")]
    pub pool: Vec<OfPool>,
    /// Gang of yours to be in: its members are given their resources together or not at all; needs
    /// --gang-size
    #[arg(
        long,
        value_name = "NAME",
        requires = "gang_size",
        help_heading = "Queue"
    )]
    pub gang: Option<String>,
    /// How many members the gang has, submitted together or one by one
    #[arg(long, value_name = "N", value_parser = number(1..=MEMBERS_MAX), requires = "gang", help_heading = "Queue")]
    pub gang_size: Option<u32>,
    /// With how few members the gang may begin once all wait; the others then fail [default: all]
    #[arg(long, value_name = "N", value_parser = number(1..=MEMBERS_MAX), requires = "gang", help_heading = "Queue")]
    pub gang_min: Option<u32>,
    /// All members on nodes with one value of this label: nodes have properties LABEL=VALUE
    #[arg(long, value_name = "LABEL", requires = "gang", help_heading = "Queue")]
    pub gang_uniform: Option<String>,
    /// From TERM to KILL when the job is to end, less than the instance gives (eddy config get exec.kill_grace)
    #[arg(long, value_name = "FSD", help_heading = "Queue")]
    pub grace: Option<String>,
    /// In an instance that ends before the time limit would: end with it instead of being refused
    #[arg(long, help_heading = "Queue")]
    pub fit_remaining: bool,
}

/// Copies with numbers, as Slurm's arrays.
#[derive(Args, Clone, Debug, Default)]
pub struct ArrayOption {
    /// Submit a copy for each number: 0-99, 1,3,5-7, 0-99:10 (each tenth); with %N at most N of
    /// them are under way at a time; {cc} and EDDY_ARRAY_TASK_ID are the number
    #[arg(short = 'a', long, value_name = "IDSET[:STEP][%N]", value_parser = array, help_heading = "Submission")]
    pub array: Option<Array>,
}

/// The numbers of an array, and how many may be under way at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The numbers.
    pub ids: Idset,
    /// The throttle.
    pub throttle: Option<u32>,
}

/// The most numbers of an array.
const ARRAY_MAX: u64 = 1_000_000;

impl Eligible {
    /// These, and where they say nothing those of `under`.
    pub fn over(self, under: Eligible) -> Eligible {
        Eligible {
            dependency: match self.dependency.is_empty() {
                true => under.dependency,
                false => self.dependency,
            },
            begin_time: self.begin_time.or(under.begin_time),
            counts_from: self.counts_from.or(under.counts_from),
            job_set: self.job_set.or(under.job_set),
            reservation: self.reservation.or(under.reservation),
            pool: match self.pool.is_empty() {
                true => under.pool,
                false => self.pool,
            },
            gang: self.gang.or(under.gang),
            gang_size: self.gang_size.or(under.gang_size),
            gang_min: self.gang_min.or(under.gang_min),
            gang_uniform: self.gang_uniform.or(under.gang_uniform),
            grace: self.grace.or(under.grace),
            fit_remaining: self.fit_remaining || under.fit_remaining,
        }
    }

    /// Names what it waits for by numbers of its own, where that is named by another job of its submission.
    ///
    /// # Errors
    /// There is no such job or copy.
    pub fn name_copies(&mut self, global: &Global) -> anyhow::Result<()> {
        for text in &mut self.dependency {
            if !copies::are_named(&[&*text]) {
                continue;
            }
            let part = |part: &str| match part.split_once(':') {
                Some((scheme, values)) => {
                    let values = values.split(':').map(|value| by_number(global, value));
                    let values = values.collect::<anyhow::Result<Vec<String>>>()?;
                    anyhow::Ok(format!("{scheme}:{}", values.join(":")))
                }
                None => Ok(part.to_owned()),
            };
            let parts = text
                .split(',')
                .map(part)
                .collect::<anyhow::Result<Vec<String>>>();
            *text = parts
                .with_context(|| format!("--dependency={text}"))?
                .join(",");
        }
        Ok(())
    }

    /// The attributes they are, by dotted keys.
    pub fn attributes(&self, now: Time) -> anyhow::Result<Vec<(String, Value)>> {
        let mut dependencies = Vec::new();
        for text in &self.dependency {
            dependencies.extend(dependency(text).with_context(|| format!("--dependency={text}"))?);
            ensure!(
                dependencies.len() <= DEPENDENCIES_MAX,
                "--dependency: more than {DEPENDENCIES_MAX} jobs are named; allowed are at most so many"
            );
        }
        if let Some(text) = &self.begin_time {
            let from = self.counts_from.unwrap_or(now);
            let at = when::begin(text, from).context("--begin-time")?;
            dependencies.push(json!({"scheme": "begin-time", "value": at.to_string()}));
        }
        let mut attributes = Vec::new();
        if !dependencies.is_empty() {
            attributes.push(("dependencies".to_owned(), Value::Array(dependencies)));
        }
        if let Some(set) = &self.job_set {
            attributes.push(("job_set".to_owned(), json!(set)));
        }
        if let Some(name) = &self.reservation {
            attributes.push(("reservation".to_owned(), json!(name)));
        }
        let mut pools = serde_json::Map::new();
        for OfPool { name, count } in &self.pool {
            let known = pools.insert(name.to_string(), json!(count));
            ensure!(known.is_none(), "--pool: `{name}` is given twice");
        }
        if !pools.is_empty() {
            attributes.push(("pools".to_owned(), Value::Object(pools)));
        }
        if let (Some(name), Some(size)) = (&self.gang, self.gang_size) {
            let mut gang = json!({"name": name, "size": size});
            if let Some(min) = self.gang_min {
                gang["min"] = json!(min);
            }
            if let Some(label) = &self.gang_uniform {
                gang["uniform"] = json!(label);
            }
            attributes.push((ATTRIBUTE.to_owned(), gang));
        }
        if let Some(text) = &self.grace {
            let Ok(Fsd::Finite(micros)) = parse_fsd(text) else {
                bail!(
                    "--grace: `{text}` given; allowed are seconds, or a number with ms, s, m, h or d (500ms), up \
                     to 1d"
                );
            };
            let seconds = micros as f64 / MICROS as f64;
            attributes.push((grace::ATTRIBUTE.to_owned(), json!(seconds)));
        }
        if self.fit_remaining {
            attributes.push(("fit_remaining".to_owned(), true.into()));
        }
        Ok(attributes)
    }
}

/// One value of `--dependency`: parts with commas between, each `SCHEME:ID[:ID...]` or `singleton`.
fn dependency(text: &str) -> anyhow::Result<Vec<Value>> {
    ensure!(
        !text.contains('?'),
        "jobs wait for all that is named, and know no parameters; allowed are commas between SCHEME:ID"
    );
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (scheme, values) = part.split_once(':').unwrap_or((part, ""));
        match scheme {
            "singleton" if values.is_empty() => {
                all.push(json!({"scheme": scheme, "value": ""}));
            }
            "begin-time" => all.push(json!({"scheme": scheme, "value": values})),
            "after" | "afterstart" | "afterany" | "afterok" | "afternotok" | "afterexcept" => {
                for value in values.split(':') {
                    jobs(scheme, value, &mut all)?;
                }
            }
            _ => bail!(
                "`{part}` is none that is served; allowed are after, afterstart, afterany, afterok, afternotok and afterexcept with :ID, and singleton"
            ),
        }
    }
    Ok(all)
}

/// A value that names copies, with their own numbers.
fn by_number(global: &Global, value: &str) -> anyhow::Result<String> {
    if !copies::are_named(&[value]) {
        return Ok(value.to_owned());
    }
    let (path, _) = ids::apart(&[value])?;
    let (_, named) = global.inside(&[value])?;
    let path = path.map_or_else(String::new, |path| format!("{path}/"));
    Ok(format!("{path}{}", named.join(" ")))
}

/// A job, or a range of them.
fn jobs(scheme: &str, value: &str, all: &mut Vec<Value>) -> anyhow::Result<()> {
    ensure!(
        !value.contains('+'),
        "`{value}`: a delay after a start is not served; allowed is the id of a job"
    );
    let (path, inner) = ids::apart(&[value])?;
    let instance = match path {
        None => None,
        Some(path) => Some(ids::one(&path).map_err(|_| no_job(value, &path))?),
    };
    ensure!(
        instance.is_none() || !matches!(scheme, "after" | "afterstart"),
        "`{value}`: the start of a job in an instance is not waited for; allowed are afterany, afterok, \
         afternotok, afterexcept"
    );
    let named = match ids::many(&inner) {
        // How ids may be spelled is no answer to one who gave the name of something.
        Err(error) if error.is::<JobIdError>() => bail!(no_job(value, &inner.join(","))),
        named => named?,
    };
    ensure!(
        !named.is_empty(),
        "`{scheme}` names no job; allowed is {scheme}:ID"
    );
    ensure!(
        named.len() <= DEPENDENCIES_MAX as u64,
        "`{value}` names {} jobs; allowed are at most {DEPENDENCIES_MAX}",
        named.len()
    );
    for (first, last) in named.ranges {
        for job in first.0..=last.0 {
            let value = match instance {
                None => job.to_string(),
                Some(instance) => format!("{}/{job}", instance.0),
            };
            all.push(json!({"scheme": scheme, "value": value}));
        }
    }
    Ok(())
}

/// That what stands for a job in a value is none, and what may stand there.
fn no_job(value: &str, given: &str) -> anyhow::Error {
    anyhow!(
        "`{value}`: `{given}` is no job id; allowed are ID (12 or f58), ID-ID, and of jobs in an instance that is \
         a job here ID/ID, one level down"
    )
}

/// `0-99:10%4`, with commas between several.
pub fn array(text: &str) -> Result<Array, String> {
    let (numbers, throttle) = match text.split_once('%') {
        None => (text, None),
        Some((numbers, most)) => {
            let read = most.parse().ok().filter(|most: &u32| *most > 0);
            let read = read.ok_or_else(|| {
                let given = most.escape_debug();
                format!("`{given}` given behind %; allowed are 1 to {}", u32::MAX)
            })?;
            (numbers, Some(read))
        }
    };
    let mut ids = Idset::new();
    for part in numbers.split(',') {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let step: Option<usize> = step.parse().ok().filter(|step| *step > 0);
        let step = step.ok_or("behind : is no step; allowed are 1 and more")?;
        let range: Idset = range.parse().map_err(|error| match error {
            IdsetError::TooLarge { .. } => {
                format!("`{part}` has a number that is too large; allowed are 0 to {ID_MAX}")
            }
            _ => format!("`{part}` is not N, N-M or N-M:STEP"),
        })?;
        if range.is_empty() || range.len() > ARRAY_MAX {
            return Err(format!(
                "`{part}` names {} numbers; allowed are 1 to {ARRAY_MAX}",
                range.len()
            ));
        }
        let stepped: Idset = match step {
            1 => range,
            step => range.iter().step_by(step).collect(),
        };
        ids = ids.union(&stepped);
    }
    Ok(Array { ids, throttle })
}

impl Array {
    /// That jobspec, of jobs of this array.
    pub fn of(&self, mut jobspec: Jobspec) -> anyhow::Result<Jobspec> {
        let value = match self.throttle {
            Some(most) => json!({ "throttle": most }),
            None => json!({}),
        };
        let system = &mut jobspec.attributes.system;
        system.other.insert("array".to_owned(), value);
        self.put_into(&mut system.environment);
        jobspec.needs()?;
        Ok(jobspec)
    }

    /// What its tasks find, in eddy's and in Slurm's names; `{cc}` is replaced in each copy.
    fn put_into(&self, environment: &mut Environment) {
        let (mut least, mut most, mut step) = (u32::MAX, 0, 0);
        let mut before = None;
        for id in self.ids.iter() {
            (least, most) = (least.min(id), most.max(id));
            if let Some(before) = before.replace(id) {
                step = match step {
                    0 => id - before,
                    step => step.min(id - before),
                };
            }
        }
        let values = [
            ("ID", "{cc}".to_owned()),
            ("COUNT", self.ids.len().to_string()),
            ("MIN", least.to_string()),
            ("MAX", most.to_string()),
            ("STEP", step.max(1).to_string()),
        ];
        for (what, value) in values {
            for front in ["EDDY", "SLURM"] {
                environment.insert(format!("{front}_ARRAY_TASK_{what}"), Some(value.clone()));
            }
        }
    }
}

/// A length of time behind `now+`, in the units of Slurm or of RFC 23.
pub fn later(text: &str) -> anyhow::Result<i64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "second" | "seconds" | "sec" => "s",
        "minute" | "minutes" | "min" => "m",
        "hour" | "hours" => "h",
        "day" | "days" => "d",
        "week" | "weeks" => {
            let weeks: i64 = number.parse().context("no number of weeks")?;
            let micros = weeks.checked_mul(7 * 86_400 * MICROS);
            return micros.with_context(|| format!("`{text}` is too long"));
        }
        other => other,
    };
    match parse_fsd(&format!("{number}{unit}"))? {
        Fsd::Finite(micros) => Ok(micros),
        Fsd::Infinite => bail!("`{text}` never comes; allowed is a length of time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Result<Vec<String>, String> {
        let eligible = Eligible {
            dependency: texts.iter().map(|text| (*text).to_owned()).collect(),
            ..Eligible::default()
        };
        let attributes = eligible
            .attributes(Time(0))
            .map_err(|error| format!("{error:#}"))?;
        let list = attributes[0].1.as_array().expect("a list").clone();
        let one = |one: &Value| {
            format!(
                "{}:{}",
                one["scheme"].as_str().unwrap_or(""),
                one["value"].as_str().unwrap_or("")
            )
        };
        Ok(list.iter().map(one).collect())
    }

    #[test]
    fn a_begin_time_that_is_too_late_is_refused_by_its_option() {
        let eligible = Eligible {
            begin_time: Some("+100000d".to_owned()),
            ..Eligible::default()
        };
        let refused = eligible
            .attributes(Time(0))
            .map_err(|error| format!("{error:#}"));
        let text = "--begin-time: `+100000d` given; allowed are times up to 2106-02-07T06:28:15Z";
        assert_eq!(refused, Err(text.to_owned()));
    }

    #[test]
    fn dependencies_are_taken_as_flux_and_slurm_spell_them() {
        assert_eq!(
            read(&["afterok:7:f9,afterany:3", "singleton", "after:4"]),
            Ok([
                "afterok:7",
                "afterok:8",
                "afterany:3",
                "singleton:",
                "after:4"
            ]
            .map(str::to_owned)
            .to_vec())
        );
        assert_eq!(read(&["afterok:5-7"]).map(|all| all.len()), Ok(3));
    }

    #[test]
    fn the_help_names_every_dependency_that_is_served() {
        let refused = dependency("of-no-kind:3").expect_err("it is of no kind");
        let refused = refused.to_string();
        let (_, served) = refused.split_once("allowed are ").expect("a list");
        let command = Eligible::augment_args(clap::Command::new("submit"));
        let mut options = command.get_arguments();
        let option = options.find(|one| one.get_id() == "dependency");
        let help = option.and_then(|one| one.get_help()).expect("a help");
        let help = help.to_string();
        let words = served
            .split([',', ' '])
            .filter(|word| word.starts_with("after"));
        for scheme in words {
            assert!(help.contains(&format!("{scheme}:")), "{scheme}: {help}");
        }
    }

    #[test]
    fn what_is_not_served_is_refused_by_name() {
        for text in [
            "afterok",
            "afterok:",
            "aftercorr:3",
            "afterok:1?afterok:2",
            "after:3+5",
            "afterok:12/3/4",
            "afterok:batch/4",
            "afterstart:12/3",
            "afterok:x",
            "",
            "singleton:x",
            "afterok:1-2000",
        ] {
            let error = read(&[text]).expect_err(text);
            assert!(
                error.starts_with(&format!("--dependency={text}: ")),
                "{error}"
            );
        }
    }

    #[test]
    fn what_may_be_given_for_a_job_is_said_where_a_path_or_name_is() {
        for (given, wrong) in [
            ("ela/f5", "ela"),
            ("../f5", ".."),
            ("2/f4/f2", "2/f4"),
            ("/f5", "/"),
            ("nope", "nope"),
            ("f5/nope", "nope"),
        ] {
            assert_eq!(
                read(&[&format!("afterok:{given}")]).expect_err(given),
                format!(
                    "--dependency=afterok:{given}: `{given}`: `{wrong}` is no job id; allowed are ID (12 or f58), \
                     ID-ID, and of jobs in an instance that is a job here ID/ID, one level down"
                )
            );
        }
        let range = read(&["afterok:9-5"]).expect_err("a range");
        assert!(
            range.ends_with("the range ends before it begins"),
            "{range}"
        );
    }

    #[test]
    fn an_array_has_numbers_steps_and_a_throttle() {
        let read = |text: &str| array(text).map(|array| (array.ids.to_string(), array.throttle));
        assert_eq!(read("0-9"), Ok(("0-9".to_owned(), None)));
        assert_eq!(read("0-9:4%2"), Ok(("0,4,8".to_owned(), Some(2))));
        assert_eq!(read("1,3,5-7%10"), Ok(("1,3,5-7".to_owned(), Some(10))));
        for wrong in ["", "x", "1-", "0-9:0", "0-9%0", "0-9%", "0-9:x"] {
            assert!(array(wrong).is_err(), "{wrong}");
        }
        for (wrong, given) in [
            ("1-3%99999999999", "99999999999"),
            ("1-3%0", "0"),
            ("1%", ""),
        ] {
            let error = array(wrong).expect_err(wrong);
            let told = format!("`{given}` given behind %; allowed are 1 to 4294967295");
            assert_eq!(error, told);
        }
        let large = array("0-4294967295:4294967295").expect_err("too large");
        assert!(
            large.ends_with("too large; allowed are 0 to 2147483647"),
            "{large}"
        );
        let mut environment = Environment::new();
        array("2-10:4")
            .expect("an array")
            .put_into(&mut environment);
        let value = |name: &str| environment[name].clone().unwrap_or_default();
        assert_eq!(value("SLURM_ARRAY_TASK_ID"), "{cc}");
        assert_eq!(
            ["COUNT", "MIN", "MAX", "STEP"].map(|what| value(&format!("EDDY_ARRAY_TASK_{what}"))),
            ["3", "2", "10", "4"]
        );
    }

    #[test]
    fn slurms_units_count() {
        let hours = 3600 * MICROS;
        assert_eq!(later("2hours").ok(), Some(2 * hours));
        assert_eq!(later("60").ok(), Some(hours / 60));
        assert_eq!(later("1week").ok(), Some(7 * 24 * hours));
        assert!(later("soon").is_err() && later("inf").is_err());
    }
}
