//! Job ids as people type them and as they are shown to them.
//!
//! Every spelling of RFC 19 that the wire crate knows is taken, alone, in
//! lists (`f1,f2`) and in ranges (`f1-f9`, `1..9`), behind the path of an
//! instance, too (`905/3`, `batch/f5-f9`).

use anyhow::{Context, bail};
use eddy_wire::id::JobId;
use eddy_wire::services::job::{JOB_RANGES_MAX, JobSet};

/// How ids are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// `ƒ2JL`
    Unicode,
    /// `f2JL`
    Ascii,
}

impl Spelling {
    /// What the locale of this process can show.
    pub fn of_locale() -> Spelling {
        let variables = ["LC_ALL", "LC_CTYPE", "LANG"];
        let locale = variables.iter().filter_map(|name| std::env::var(name).ok());
        Spelling::of(
            &locale
                .filter(|value| !value.is_empty())
                .take(1)
                .collect::<String>(),
        )
    }

    fn of(locale: &str) -> Spelling {
        let locale = locale.to_ascii_lowercase();
        match locale.contains("utf-8") || locale.contains("utf8") {
            true => Spelling::Unicode,
            false => Spelling::Ascii,
        }
    }

    /// `job` in this spelling.
    pub fn show(self, job: JobId) -> String {
        match self {
            Spelling::Unicode => job.f58(),
            Spelling::Ascii => job.f58_ascii(),
        }
    }

    /// The path of an instance, with its jobs in this spelling: `f2/f5` of `1/4`.
    pub fn path(self, path: &str) -> String {
        let part = |part: &str| match part.parse::<u64>() {
            Ok(job) => self.show(JobId(job)),
            Err(_) => part.to_owned(),
        };
        let parts: Vec<String> = path.split('/').map(part).collect();
        parts.join("/")
    }
}

/// `job` as this process's locale can show it.
pub fn show(job: JobId) -> String {
    Spelling::of_locale().show(job)
}

/// The one job that a text names.
pub fn one(text: &str) -> anyhow::Result<JobId> {
    Ok(text.parse()?)
}

/// Refuses an argument that names no job, as a variable does that was never set: whoever wrote it
/// meant one, and neither none nor all of them.
pub fn given<T: AsRef<str>>(texts: &[T]) -> anyhow::Result<()> {
    let names_one = |text: &str| {
        let mut parts = text.split([',', ' ']);
        parts.any(|part| !part.is_empty())
            && !text.split([',', ' ']).any(|part| part.ends_with('/'))
    };
    match texts.iter().find(|text| !names_one(text.as_ref())) {
        None => Ok(()),
        Some(text) => bail!(
            "no jobs given: `{}` names none; allowed are ids, lists and ranges, such as f2JL, 3,5 and f5-f9",
            text.as_ref().escape_debug()
        ),
    }
}

/// The path of the instance that these texts name, if they name one, and the texts
/// without it.
pub fn apart<T: AsRef<str>>(texts: &[T]) -> anyhow::Result<(Option<String>, Vec<String>)> {
    let mut first: Option<(&str, Option<&str>)> = None;
    let mut ids = Vec::new();
    let parts = texts
        .iter()
        .flat_map(|text| text.as_ref().split([',', ' ']));
    for text in parts.filter(|text| !text.is_empty()) {
        let (path, id) = match text.rsplit_once('/') {
            // What is left of `/3` is the root.
            Some(("", id)) => (Some("/"), id),
            Some((path, id)) => (Some(path), id),
            None => (None, text),
        };
        match first {
            Some((other, there)) if there != path => {
                bail!(
                    "`{other}` and `{text}` are of two instances; allowed are jobs of one at a time"
                )
            }
            _ => first = first.or(Some((text, path))),
        }
        ids.push(id.to_owned());
    }
    let path = first.and_then(|(_, path)| path);
    Ok((path.map(str::to_owned), ids))
}

/// The one job that texts name of which one was given.
pub fn single(texts: &[String]) -> anyhow::Result<JobId> {
    one(&texts.join(","))
}

/// The jobs that these texts name together.
pub fn many<T: AsRef<str>>(texts: &[T]) -> anyhow::Result<JobSet> {
    let mut ranges = Vec::new();
    for text in texts
        .iter()
        .flat_map(|text| text.as_ref().split([',', ' ']))
    {
        if text.is_empty() {
            continue;
        }
        ranges.push(range(text).with_context(|| format!("`{text}`"))?);
    }
    if ranges.len() > JOB_RANGES_MAX {
        bail!(
            "{} ids and ranges are named; allowed are at most {JOB_RANGES_MAX}",
            ranges.len()
        );
    }
    Ok(JobSet {
        ranges: merged(ranges),
    })
}

/// Those of these texts that name one job, as they were given, and the jobs;
/// what a range names need not be there.
pub fn singles<T: AsRef<str>>(texts: &[T]) -> Vec<(&str, JobId)> {
    let parts = texts
        .iter()
        .flat_map(|text| text.as_ref().split([',', ' ']));
    parts
        .filter_map(|text| Some((text, text.parse().ok()?)))
        .collect()
}

/// Where a job stands among what these texts name, in the order in which they were given.
pub fn place<T: AsRef<str>>(texts: &[T], job: JobId) -> usize {
    let mut parts = texts
        .iter()
        .flat_map(|text| text.as_ref().split([',', ' ']))
        .filter(|text| !text.is_empty());
    let names = |text: &str| range(text).is_ok_and(|(first, last)| first <= job && job <= last);
    parts.position(names).unwrap_or(usize::MAX)
}

fn range(text: &str) -> anyhow::Result<(JobId, JobId)> {
    let ends = text.split_once("..").or_else(|| text.split_once('-'));
    let Some((first, last)) = ends else {
        let job = one(text)?;
        return Ok((job, job));
    };
    let (first, last) = (one(first)?, one(last)?);
    if first > last {
        bail!("the range ends before it begins");
    }
    Ok((first, last))
}

/// Nothing is named twice. What was given apart stays so: of each it is told if it is not there.
fn merged(mut ranges: Vec<(JobId, JobId)>) -> Vec<(JobId, JobId)> {
    ranges.sort();
    let mut merged: Vec<(JobId, JobId)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match merged.last_mut() {
            Some((_, end)) if first <= *end => *end = (*end).max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(texts: &[&str]) -> Vec<(u64, u64)> {
        let set = many(texts).expect("ids");
        set.ranges
            .iter()
            .map(|(first, last)| (first.0, last.0))
            .collect()
    }

    #[test]
    fn every_spelling_lists_and_ranges_are_taken() {
        assert_eq!(ranges(&["9", "0x7", "f8,ƒ8"]), [(7, 7), (9, 9)]);
        assert_eq!(
            ranges(&["3-5", "4..8", "9", "10"]),
            [(3, 8), (9, 9), (10, 10)]
        );
        assert_eq!(ranges(&["f2-f5"]), [(1, 4)]);
        assert_eq!(ranges(&["0000.0000.0000.0005"]), [(5, 5)]);
        assert_eq!(ranges(&[]), []);
    }

    #[test]
    fn the_path_of_an_instance_is_told_from_the_jobs_in_it() {
        let split = |texts: &[&str]| apart(texts).expect("of one instance");
        assert_eq!(split(&["f5", "7,8"]), (None, ids(&["f5", "7", "8"])));
        let path = Some("905/batch".to_owned());
        let given = ["905/batch/3", "905/batch/f5-f9,905/batch/7"];
        assert_eq!(split(&given), (path, ids(&["3", "f5-f9", "7"])));
        assert_eq!(split(&["/3"]), (Some("/".to_owned()), ids(&["3"])));
        assert_eq!(split(&[]), (None, ids(&[])));
        let mixed = apart(&["1/2", "3"]).expect_err("of two").to_string();
        assert!(mixed.starts_with("`1/2` and `3` are of two instances"));
    }

    fn ids(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn an_argument_without_an_id_is_refused_beside_others_too() {
        for text in ["", " ", ",", " , ", "/", "f6/", "3,f6/"] {
            let error = given(&["f5", text]).expect_err("names none").to_string();
            assert!(
                error.starts_with(&format!("no jobs given: `{text}` names none; ")),
                "{error}"
            );
        }
        given(&["f5", "3, 4,", "/3", "f6/f7"]).expect("each names some");
        given::<&str>(&[]).expect("nothing was given");
    }

    #[test]
    fn what_is_no_id_is_named() {
        let refused = |text| format!("{:#}", many(&[text]).expect_err("refused"));
        assert!(refused("1,x").starts_with("`x`: job id `x` is not decimal"));
        assert_eq!(refused("5-3"), "`5-3`: the range ends before it begins");
    }

    #[test]
    fn ids_are_ascii_where_the_locale_is() {
        assert_eq!(Spelling::of("C").show(JobId(1)), "f2");
        assert_eq!(Spelling::of("en_US.UTF-8").show(JobId(1)), "ƒ2");
    }
}
