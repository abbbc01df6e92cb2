//! `eddy update`: another time limit for jobs that wait or run; another name, queue, account or QoS for those
//! that wait.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::bail;
use eddy_client::Client;
use eddy_wire::fsd::{Fsd, micros_of_seconds};
use eddy_wire::id::JobId;
use eddy_wire::services::job::{Changed, JobSet, LIMIT_MOVED, Reckoned, Update, UpdateRequest};
use eddy_wire::time::Span;
use eddy_wire::update::{ACCOUNT, DURATION, NAME, QOS, QUEUE, Terms};
use uuid::Uuid;

use crate::ids;
use crate::listing::{Filter, Question};
use crate::request;
use crate::session::Global;
use crate::verbs::cancel::{GONE, change, known, refusals};
use crate::when;

/// The short name of the time limit.
const SHORT: &str = "duration";
/// That it is to have none at all, as `-t inf`.
const NONE: [&str; 3] = ["none", "inf", "infinity"];
/// That it is to have the one of those who ask for none.
const DEFAULT: &str = "default";
/// The account, in Flux's word.
const BANK: &str = "attributes.system.bank";
/// What may be asked for.
const ALLOWED: &str =
    "duration=[+-]TIME|inf|default, name=TEXT, queue=NAME, account=NAME, qos=NAME";

/// How often a limit is reckoned that others change meanwhile, and the pause between.
const TURNS_MAX: u32 = 200;
const BETWEEN: Duration = Duration::from_millis(20);

/// Change jobs that wait: time limit, name, queue, account, QoS; of those that run the time limit
///
/// duration=2h gives a job that limit, duration=+30m and duration=-30m make the one it has longer or
/// shorter; a number alone is seconds; duration=inf (or none) takes it from a job that waits, as -t inf does
/// of one that is submitted; duration=default gives it the one of those who ask for none. A limit counts
/// from the start of the tasks, and holds for later attempts too. Once a job has begun its user may make
/// the limit shorter, to more than it has run; the owner and admins make it longer, also beyond what a
/// queue allows, but not into a reservation and not beyond the end of the instance; on nodes that are
/// lent for less, only with --force.
///
/// While a job waits its user may ask for what could be submitted like that: name=TEXT, queue=NAME,
/// account=NAME (or bank=NAME) and qos=NAME, several at once; the keys of jobspecs (attributes.system.queue)
/// are taken, too. What is not named stays as it is. A job that is given another keeps its place.
///
/// Of an instance the jobs inside keep their own limits, but end with it.
#[derive(clap::Args)]
pub struct Args {
    /// The jobs of this set, in place of ids
    #[arg(long, value_name = "NAME", value_parser = request::job_set)]
    job_set: Option<String>,
    /// More time also for a job that runs on nodes which another queue's instance lends for less (lend_max)
    #[arg(short = 'f', long)]
    force: bool,
    /// Jobs (f2JL, 1000, lists and ranges, copies (f5_all, f5_3), of an instance 905/f5), and what is to change:
    /// duration=[+-]TIME|inf|default, name=TEXT, queue=NAME, account=NAME, qos=NAME
    #[arg(value_name = "ID|KEY=VALUE", required = true)]
    words: Vec<String>,
}

/// What is asked for of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// This limit.
    To(Span),
    /// That of those who ask for none.
    Default,
    /// None at all.
    Unlimited,
    /// So much more than there is, or less.
    By(i64),
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Changes {
    limit: Option<Limit>,
    set: Terms,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (words, jobs): (Vec<&String>, Vec<&String>) =
        args.words.iter().partition(|word| word.contains('='));
    let changes = Changes::read(&words)?;
    let (global, named) = &global.inside(&jobs)?;
    let jobs = ids::many(named)?;
    match (jobs.is_empty(), &args.job_set) {
        (true, None) => bail!("no jobs given; allowed are ids and --job-set NAME"),
        (false, Some(_)) => bail!("--job-set: given beside ids; allowed is one of them"),
        (true, Some(_)) | (false, None) => {}
    }
    let which = Which {
        job_set: args.job_set.clone(),
        force: args.force,
    };
    global.session(async |client| {
        let changed = match changes.limit {
            Some(Limit::By(micros)) => shift(&client, jobs, &which, micros).await?,
            limit => {
                let set = changes.set.clone();
                ask(&client, jobs, &which, (limit, None, set)).await?
            }
        };
        known(&client, which.job_set.as_ref(), &changed).await?;
        Ok(refusals("update", &changed))
    })
}

/// Of which jobs, beside those named, and whether by force.
#[derive(Clone, Default)]
struct Which {
    job_set: Option<String>,
    force: bool,
}

async fn ask(
    client: &Client,
    jobs: JobSet,
    which: &Which,
    (limit, reckoned, set): (Option<Limit>, Option<Reckoned>, Terms),
) -> anyhow::Result<Changed> {
    let request = |jobs| UpdateRequest {
        jobs,
        job_set: which.job_set.clone(),
        force: which.force,
        duration: limit.and_then(Limit::to),
        unlimited: limit == Some(Limit::Unlimited),
        reckoned,
        set: set.clone(),
    };
    change::<Update>(client, jobs, request).await
}

/// Asks for what that comes to for each job as it is, since who asks again must not add it twice; and again
/// for those whose limit somebody else changed meanwhile.
async fn shift(
    client: &Client,
    jobs: JobSet,
    which: &Which,
    micros: i64,
) -> anyhow::Result<Changed> {
    let mut question = Question {
        filter: Filter::active(),
        jobs,
        job_set: which.job_set.clone(),
        ..Question::default()
    };
    let mut all = Changed::default();
    for turn in 0..TURNS_MAX {
        let Changed { count, refused, .. } =
            shift_once(client, &question, (micros, which.force)).await?;
        all.count += count;
        let (moved, refused): (Vec<_>, Vec<_>) =
            refused.into_iter().partition(|(_, why)| why == LIMIT_MOVED);
        all.refused.extend(refused);
        if moved.is_empty() {
            break;
        }
        if turn + 1 == TURNS_MAX {
            all.refused.extend(moved);
            break;
        }
        question.jobs = JobSet::of(moved.into_iter().map(|(job, _)| job));
        question.job_set = None;
        tokio::time::sleep(BETWEEN).await;
    }
    Ok(all)
}

async fn shift_once(
    client: &Client,
    question: &Question,
    (micros, force): (i64, bool),
) -> anyhow::Result<Changed> {
    let mut all = Changed::default();
    let mut limits: BTreeMap<(Span, Span), Vec<JobId>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for row in question.rows(client).await? {
        seen.insert(row.id);
        let before = row
            .duration
            .and_then(|seconds| micros_of_seconds(seconds).ok());
        let Some(before) = before else {
            let why = "it has no time limit; allowed is one without a sign";
            all.refused.push((row.id, why.to_owned()));
            continue;
        };
        match before.saturating_add(micros) {
            limit if limit > 0 => {
                limits
                    .entry((Span(limit), Span(before)))
                    .or_default()
                    .push(row.id);
            }
            _ => all.refused.push((row.id, nothing_left(micros, before))),
        }
    }
    let singly = question
        .jobs
        .ranges
        .iter()
        .filter(|(first, last)| first == last);
    let missing = singly.filter(|(job, _)| !seen.contains(job));
    all.refused
        .extend(missing.map(|(job, _)| (*job, GONE.to_owned())));
    for ((limit, from), jobs) in limits {
        let key = Uuid::now_v7();
        let reckoned = Some(Reckoned { from, key });
        let asked = (Some(Limit::To(limit)), reckoned, Terms::default());
        let which = Which {
            job_set: None,
            force,
        };
        let changed = ask(client, JobSet::of(jobs), &which, asked).await?;
        all.count += changed.count;
        all.refused.extend(changed.refused);
    }
    Ok(all)
}

/// Of a limit from which more is taken than it is.
fn nothing_left(micros: i64, before: i64) -> String {
    let short = |micros| when::short(Span(micros));
    let (given, limit) = (short(micros.saturating_neg()), short(before));
    format!(
        "{SHORT}: -{given} given, nothing would be left of its time limit of {limit}; allowed is to take less than that"
    )
}

impl Limit {
    /// What is asked for of every job alike.
    fn to(self) -> Option<Span> {
        match self {
            Limit::To(limit) => Some(limit),
            Limit::Default | Limit::Unlimited => Some(Span::ZERO),
            Limit::By(_) => None,
        }
    }
}

impl Changes {
    /// What these words say, `KEY=VALUE` each.
    fn read(words: &[&String]) -> anyhow::Result<Changes> {
        let mut changes = Changes::default();
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let set = &mut changes.set;
            let field = match key {
                SHORT | DURATION => {
                    if changes.limit.replace(limit(key, value)?).is_some() {
                        bail!("`{word}` given beside another of the same; allowed is one");
                    }
                    continue;
                }
                "name" | NAME => &mut set.name,
                "queue" | QUEUE => &mut set.queue,
                "account" | "bank" | ACCOUNT | BANK => &mut set.account,
                "qos" | QOS => &mut set.qos,
                _ => bail!("`{key}` given; allowed are {ALLOWED}"),
            };
            if value.is_empty() {
                bail!("{key}: nothing given; allowed is a name");
            }
            if field.replace(value.to_owned()).is_some() {
                bail!("`{word}` given beside another of the same; allowed is one");
            }
        }
        match (changes.limit, changes.set.first_key()) {
            (None, None) => bail!("no change given; allowed are {ALLOWED}"),
            // What it comes to is asked for of each job by itself.
            (Some(Limit::By(_)), Some(key)) => {
                bail!("{SHORT}: given with a sign beside {key}; allowed is one after the other")
            }
            _ => Ok(changes),
        }
    }
}

/// The limit that a value says.
fn limit(key: &str, value: &str) -> anyhow::Result<Limit> {
    match value {
        DEFAULT => return Ok(Limit::Default),
        value if NONE.contains(&value) => return Ok(Limit::Unlimited),
        _ => {}
    }
    let (text, of): (&str, fn(i64) -> Limit) = match value.split_at_checked(1) {
        Some(("+", more)) => (more, Limit::By),
        Some(("-", less)) => (less, |micros| Limit::By(-micros)),
        _ => (value, |micros| Limit::To(Span(micros))),
    };
    match text.parse() {
        Ok(Fsd::Finite(micros)) if micros > 0 => Ok(of(micros)),
        Ok(_) | Err(_) => bail!(
            "{key}: `{value}` given; allowed are a time of more than nothing (90, 90s, 1.5m, 2h, 1d), \
             + or - before it, inf and {DEFAULT}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_limit_and_a_sign_makes_it_relative() {
        let minutes = |n: i64| Span::seconds(n * 60);
        let read = |text: &str| {
            let changes = Changes::read(&[&text.to_owned()]).expect("it is one");
            changes.limit.expect("a time")
        };
        assert_eq!(read("duration=none"), Limit::Unlimited);
        assert_eq!(read("duration=inf"), Limit::Unlimited);
        assert_eq!(read("duration=default"), Limit::Default);
        assert_eq!(read("duration=2h"), Limit::To(minutes(120)));
        assert_eq!(read("duration=90"), Limit::To(Span::seconds(90)));
        assert_eq!(read("duration=+30m"), Limit::By(minutes(30).0));
        assert_eq!(
            read("attributes.system.duration=-1.5m"),
            Limit::By(-Span::seconds(90).0)
        );
    }

    #[test]
    fn more_than_a_limit_is_not_taken_from_it() {
        assert_eq!(
            nothing_left(-Span::seconds(7200).0, Span::seconds(3600).0),
            "duration: -2h given, nothing would be left of its time limit of 1h; allowed is to take less than that"
        );
    }

    #[test]
    fn what_is_no_limit_is_refused_by_what_was_given() {
        for wrong in [
            "duration=",
            "duration=0",
            "duration=+",
            "duration=+inf",
            "duration=--5",
            "duration=x",
        ] {
            let text = refused(wrong);
            let value = &wrong["duration=".len()..];
            assert!(
                text.starts_with(&format!("duration: `{value}` given; allowed")),
                "{text}"
            );
        }
    }

    fn refused(word: &str) -> String {
        let words: Vec<String> = word.split(' ').map(str::to_owned).collect();
        let words: Vec<&String> = words.iter().collect();
        Changes::read(&words).expect_err("it is none").to_string()
    }

    #[test]
    fn several_are_asked_for_at_once_each_by_one_of_its_names() {
        let words = [
            "bank=physics",
            "attributes.system.queue=debug",
            "name=a=b",
            "duration=1h",
        ];
        let words = words.map(str::to_owned);
        let changes = Changes::read(&words.iter().collect::<Vec<_>>()).expect("four");
        let text = |text: &str| Some(text.to_owned());
        let set = Terms {
            name: text("a=b"),
            queue: text("debug"),
            account: text("physics"),
            qos: None,
        };
        let limit = Some(Limit::To(Span::seconds(3600)));
        assert_eq!(changes, Changes { limit, set });
        for (words, why) in [
            ("urgency=3", "`urgency` given; allowed are duration="),
            ("queue=", "queue: nothing given; allowed is a name"),
            (
                "account=a bank=b",
                "`bank=b` given beside another of the same",
            ),
            ("queue=a duration=+1h", "duration: given with a sign beside"),
        ] {
            let text = refused(words);
            assert!(text.starts_with(why), "{text}");
        }
    }
}
