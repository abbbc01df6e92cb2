//! `eddy sim`: traces of our own, packed and not, bad ones, and the published
//! schedules where `EDDY_TRACES` names the directory that has them.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use eddy_cli_tests::place::Place;
use serde_json::Value;
use sha2::{Digest, Sha256};

type Tested = anyhow::Result<()>;

/// A long narrow job, a wide one that waits for it, a filler that ends in time.
const TRACE: &str = "; MaxProcs: 4\n\
    1 0 -1 10 2 -1 -1 2 10 -1 1 1 -1 -1 -1 -1 -1 -1\n\
    2 1 -1 5 4 -1 -1 4 5 -1 1 1 -1 -1 -1 -1 -1 -1\n\
    3 2 -1 8 2 -1 -1 2 8 -1 1 1 -1 -1 -1 -1 -1 -1\n";

#[test]
fn policies_are_compared_line_by_line() -> Tested {
    let place = Place::new()?;
    fs::write(place.join("trace.swf"), TRACE)?;
    let words = ["sim", "trace.swf", "--policy=fcfs", "--policy=easy"];
    let ran = place.run(&words)?;
    // No bar where nobody looks.
    assert_eq!(ran.err, "");
    let table = ran.ok()?;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(
        lines[1].starts_with("fcfs ") && lines[2].starts_with("easy "),
        "{table}"
    );
    let json: Value = serde_json::from_str(&place.run(&[&words[..], &["--json"]].concat())?.ok()?)?;
    assert_eq!(json["fcfs"]["max_wait"], 13.0);
    assert_eq!(json["easy"]["max_wait"], 9.0);
    let starts = ["sim", "trace.swf", "--policy=easy", "--starts=starts"];
    place.run(&starts)?.ok()?;
    assert_eq!(
        fs::read_to_string(place.join("starts"))?,
        "1 0\n2 10\n3 2\n"
    );
    Ok(())
}

#[test]
fn what_is_no_trace_is_refused_in_one_line() -> Tested {
    let place = Place::new()?;
    fs::write(place.join("bad.swf"), "; MaxProcs: 4\n1 2 x\n")?;
    fs::write(place.join("wide.swf"), TRACE.replace("; MaxProcs: 4\n", ""))?;
    fs::write(place.join("cut.swf.gz"), [0x1f, 0x8b, 8, 0])?;
    for (words, said) in [
        (["bad.swf", "--policy=easy"], "line 2: 3 fields"),
        (["wide.swf", "--policy=easy"], "give --procs"),
        (["wide.swf", "--policy=easier"], "`easier` is unknown"),
        (
            ["cut.swf.gz", "--policy=easy"],
            "cut.swf.gz: cannot be unpacked: ",
        ),
        (["none.swf", "--policy=easy"], "none.swf: "),
    ] {
        let ran = place.run(&["sim", words[0], words[1]])?;
        let line = ran.refusal()?;
        assert!(line.contains(said), "{line}");
    }
    Ok(())
}

/// What is no trace, by what is said of it.
fn garbage() -> Vec<(Vec<u8>, &'static str)> {
    let job = "1 0 -1 10 2 -1 -1 2 10\n";
    let wrong = |before: &str, after: &str| job.replacen(before, after, 1).into_bytes();
    let json = |job: &str| format!("{{\"procs\": 4, \"jobs\": [\n{job}]}}").into_bytes();
    vec![
        (b"".to_vec(), "the trace is empty"),
        (b" \n\n\t\n".to_vec(), "the trace is empty"),
        (b"; nothing\n".to_vec(), "has no job"),
        (TRACE.replace('\n', "\r").into_bytes(), "has no job"),
        (vec![0; 100_000], "line 1: 1 fields are given"),
        ((0..=255).collect(), "line 1: "),
        (
            b"<html><body>404</body></html>".to_vec(),
            "line 1: 1 fields",
        ),
        (
            wrong(" 10 2", " ten 2"),
            "line 1: field 4 (run time): `ten`",
        ),
        (
            wrong(" 10 2", " 1e99 2"),
            "line 1: field 4 (run time): `1e99`",
        ),
        (
            wrong(" 10 2", " inf 2"),
            "line 1: field 4 (run time): `inf`",
        ),
        (
            wrong("1 0", "1 nan"),
            "line 1: field 2 (submit time): `nan`",
        ),
        (
            wrong("1 ", "18446744073709551616 "),
            "line 1: field 1 (job number)",
        ),
        (job.repeat(2).into_bytes(), "job 1 is given twice"),
        (
            job.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            "line 1: ",
        ),
        (vec![0x1f, 0x8b, 8, 0, 0], "cannot be unpacked"),
        (b"\xfd7zXZ\0\0\x04".to_vec(), "cannot be unpacked"),
        (json(""), "has no job"),
        (json("1"), "line 2: "),
        (
            json(r#"{"id": 1, "submit": 0, "run": 1}"#),
            "job 1: procs: missing; allowed is 1 or more, or a jobspec",
        ),
        (
            json(r#"{"id": 1, "submit": "now", "run": 1, "procs": 1}"#),
            "line 2: submit: invalid type",
        ),
        (
            json(r#"{"id": 1, "submit": 0, "run": -1, "procs": 1}"#),
            "job 1: run: -1; allowed is 0 to 1e12 s",
        ),
        (b"{\"jobs\": [".to_vec(), "line 1: EOF"),
        (b"[".repeat(100_000), "line 1: "),
        (b"{\"jobs\":".repeat(10_000), "line 1: "),
        (b"[]".to_vec(), "no job with cores is recorded"),
        (b"[{\"id\": 1}]".to_vec(), "line 1: missing field"),
    ]
}

#[test]
fn garbage_is_refused_with_its_line_and_never_panics() -> Tested {
    let place = Place::new()?;
    for (bytes, said) in garbage() {
        fs::write(place.join("trace"), &bytes)?;
        let ran = place.run(&["sim", "trace", "--policy=easy", "--procs=4"])?;
        let line = ran.refusal()?;
        assert!(line.contains(said), "`{line}` does not say `{said}`");
    }
    // What is no history.
    fs::create_dir(place.join("state"))?;
    for bytes in [
        b"".to_vec(),
        vec![7; 5000],
        b"SQLite format 3\0".repeat(300),
    ] {
        fs::write(place.join("state/journal.db"), bytes)?;
        let ran = place.run(&["sim", "state", "--policy=easy"])?;
        let line = ran.refusal()?;
        assert!(line.contains("state: the journal cannot be read"), "{line}");
    }
    Ok(())
}

/// The directory of published traces.
fn traces() -> Option<PathBuf> {
    let traces = std::env::var_os("EDDY_TRACES").map(PathBuf::from);
    let traces = traces.filter(|traces| traces.join("reference.json").is_file());
    if traces.is_none() {
        println!("skipped: traces not found");
    }
    traces
}

/// The starts that the command writes.
fn starts(place: &Place, trace: &Path, procs: u64, words: &[&str]) -> anyhow::Result<String> {
    let procs = format!("--procs={procs}");
    let trace = trace.display().to_string();
    let words = [&["sim", &trace, &procs, "--starts=starts"], words].concat();
    place.run(&words)?.ok()?;
    Ok(fs::read_to_string(place.join("starts"))?)
}

#[test]
fn starts_are_those_that_were_published() -> Tested {
    let Some(traces) = traces() else {
        return Ok(());
    };
    let place = Place::new()?;
    let reference: Value = serde_json::from_slice(&fs::read(traces.join("reference.json"))?)?;
    let all = reference["traces"].as_object().context("no traces")?;
    for trace in all.values() {
        let file = traces.join(trace["file"].as_str().context("no file")?);
        let procs = trace["procs"].as_u64().context("no procs")?;
        for (order, rows) in [("batch", "batch"), ("per-event", "published_pyss_order")] {
            let Some(rows) = trace[rows].as_object() else {
                continue;
            };
            for (row, figures) in rows {
                let row = row.split(' ').next().unwrap_or(row);
                let (name, foresight) = match row.strip_suffix("+clairvoyant") {
                    Some(name) => (name, Some("--clairvoyant")),
                    None => (row, None),
                };
                let words = ["--order", order, "--policy", name];
                let words: Vec<&str> = words.into_iter().chain(foresight).collect();
                let starts = starts(&place, &file, procs, &words)?;
                let mut hash = String::new();
                for byte in Sha256::digest(starts) {
                    write!(hash, "{byte:02x}")?;
                }
                assert_eq!(figures["starts_sha256"], hash, "{row} {order}");
            }
        }
    }
    Ok(())
}

#[test]
fn the_small_trace_tells_all_policies_apart() -> Tested {
    let Some(traces) = traces() else {
        return Ok(());
    };
    let place = Place::new()?;
    let reference: Value = serde_json::from_slice(&fs::read(traces.join("reference.json"))?)?;
    let tiny = &reference["tiny_starts"];
    let policies = tiny["start of jobs 1..12"]
        .as_object()
        .context("no starts")?;
    for (policy, expected) in policies {
        let starts = starts(&place, &traces.join("tiny.swf"), 6, &["--policy", policy])?;
        let starts: Vec<u64> = starts
            .lines()
            .filter_map(|line| line.split_once(' ')?.1.parse().ok())
            .collect();
        assert_eq!(*expected, Value::from(starts), "{policy}");
    }
    let order = |policy| -> anyhow::Result<Vec<u64>> {
        let file = traces.join("flux-hype12.swf");
        let starts = starts(&place, &file, 154, &["--policy", policy])?;
        let mut starts: Vec<(u64, u64)> = starts
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(id, start)| Some((start.parse().ok()?, id.parse().ok()?)))
            .collect();
        starts.sort_unstable();
        Ok(starts.into_iter().map(|(_, id)| id).collect())
    };
    assert_eq!(order("fcfs")?, (1..=12).collect::<Vec<u64>>());
    assert_eq!(order("easy")?, [1, 2, 3, 6, 7, 8, 9, 10, 11, 4, 5, 12]);
    Ok(())
}

#[test]
fn rounds_and_reports_are_of_nodes() -> Tested {
    let place = Place::new()?;
    fs::write(place.join("trace.swf"), TRACE)?;
    let nodes = r#"{"version": 1, "execution": {"starttime": 0, "expiration": 0,
        "R_lite": [{"rank": "0-1", "children": {"core": "0-1"}}], "nodelist": ["node[0-1]"]}}"#;
    fs::write(place.join("R.json"), nodes)?;
    let words = ["sim", "trace.swf", "--policy=easy", "--policy=armada"];
    let refused = place.run(&words)?;
    let line = refused.refusal()?;
    assert!(
        line.contains("armada") && line.contains("--resources"),
        "{line}"
    );
    let more = ["--resources=R.json", "--report=out.html", "--json"];
    let json = place.run(&[&words[..], &more].concat())?.ok()?;
    let json: Value = serde_json::from_str(&json)?;
    assert_eq!(json["easy"]["max_wait"], 9.0);
    assert_eq!(json["armada"]["jobs"], 3);
    let page = fs::read_to_string(place.join("out.html"))?;
    assert!(page.contains("<svg") && page.contains("node1") && page.contains("armada"));
    // What it was made of, so that it can be made again.
    for input in [
        "trace.swf",
        "4 cores on 2 nodes, R.json",
        "times that jobs ask for",
    ] {
        assert!(page.contains(input), "{input}");
    }
    // Nothing is fetched and nothing runs.
    for word in ["http", "<script", "<link", "url("] {
        assert!(!page.contains(word), "{word}");
    }
    Ok(())
}
