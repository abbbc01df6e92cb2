//! Many jobspecs from a stream, a line each: what `eddy job submit --lines` does.
//!
//! So many are under way at a time, sent in the order of the lines; ids come back in it. Each has a key from
//! the beginning, so that a submission whose answer was lost with a leader is not one more job, nor one that is tried
//! again since the instance was busy.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::pin::Pin;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use eddy_client::{Client, ClientError};
use eddy_wire::error::Code;
use eddy_wire::jobspec::{JOBSPEC_BYTES_MAX, Jobspec};
use eddy_wire::services::job::{Submit, SubmitRequest, Submitted};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::ids::Spelling;
use crate::output::{self, FAILED};
use crate::request::{self, remark};
use crate::session::{Global, told as told_of};
use crate::table::escaped;

/// So many submissions are under way: a leader takes many in one commit, and a reader of the ids who is slow
/// bounds what is kept for him.
const WINDOW: usize = 64;
/// A jobspec, and what is beside it.
const LINE_BYTES_MAX: usize = JOBSPEC_BYTES_MAX + 4096;
/// What a line may have beside the jobspec.
const KEYS: &str = "jobspec, key, urgency";

/// A line that is no submission, and why.
type Refused = String;
type Answer = Pin<Box<dyn Future<Output = Result<Submitted, ClientError>>>>;

/// The pause before a line is tried again that the instance was busy for.
const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// How long an instance is busy without a word.
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// Where a line stands whose turn it is.
enum Sent {
    /// It was no submission.
    Not(Refused),
    /// It was sent, as that.
    Yes(SubmitRequest, Answer),
}

/// What became of a line.
enum Came {
    /// It is jobs.
    Taken(Submitted),
    /// It is none, and would not be one later.
    Refused(Refused),
    /// It may be one later.
    Busy(SubmitRequest, Refused),
}

/// How long one busy instance is borne, whichever lines it turns away.
struct Patience {
    wait: Duration,
    /// When it turned the first away since it took one.
    since: Option<Instant>,
}

impl Patience {
    /// Whether what is turned away now is to be tried again; says why it waits.
    fn bears(&mut self, why: &str) -> bool {
        let busy = self.since.get_or_insert_with(Instant::now).elapsed();
        if busy > TOLD_AFTER {
            told_of(&format!("the instance to take more jobs: {why}"));
        }
        busy < self.wait
    }

    /// Whether something is to be tried again: no line behind it is sent meanwhile, which might be taken before it.
    fn waits(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() < self.wait)
    }
}

/// Submits each line of a file, as `usual` but for what the line says; 1 where one was refused.
pub fn submit(global: &Global, file: &str, usual: &SubmitRequest) -> anyhow::Result<u8> {
    let mut lines = opened(file)?;
    global.session(async |client| {
        let mut under_way: VecDeque<(u64, Sent)> = VecDeque::new();
        let (mut number, mut is_over, mut code) = (0, false, 0);
        let mut said = String::new();
        let mut patience = Patience {
            wait: global.reconnect,
            since: None,
        };
        while !(is_over && under_way.is_empty()) {
            let has_room = under_way.len() < WINDOW && !patience.waits();
            tokio::select! {
                biased;
                (line, came) = first(&mut under_way), if !under_way.is_empty() => match came? {
                    Came::Taken(submitted) => {
                        patience.since = None;
                        code = code.max(told(line, Ok(submitted))?);
                    }
                    Came::Busy(request, why) if patience.bears(&why) => {
                        under_way.push_front((line, again(&client, request)));
                    }
                    Came::Busy(_, why) | Came::Refused(why) => code = code.max(told(line, Err(why))?),
                },
                line = lines.recv(), if !is_over && has_room => {
                    number += 1;
                    match line {
                        None => is_over = true,
                        Some(line) => under_way.push_back((number, sent(&client, line, (usual, &mut said)))),
                    }
                }
            }
        }
        Ok(code)
    })
}

/// The lines of a file, `-` being standard input, read by a thread that may block.
fn opened(file: &str) -> anyhow::Result<mpsc::Receiver<Result<String, Refused>>> {
    let source: Box<dyn Read + Send> = match file {
        "-" => Box::new(io::stdin()),
        path => Box::new(File::open(path).with_context(|| file.to_owned())?),
    };
    let (to, lines) = mpsc::channel(WINDOW);
    thread::spawn(move || {
        let mut source = BufReader::new(source);
        while let Some(line) = next(&mut source).transpose() {
            let is_last = line.is_err();
            let line = line.unwrap_or_else(|error| Err(format!("cannot be read: {error}")));
            // Nobody waits for more when the command is over.
            if to.blocking_send(line).is_err() || is_last {
                return;
            }
        }
    });
    Ok(lines)
}

/// The next line, if there is one. What is too long is read to its end, and not kept.
fn next(source: &mut impl BufRead) -> io::Result<Option<Result<String, Refused>>> {
    let mut line = Vec::new();
    let most = LINE_BYTES_MAX as u64 + 1;
    if source.take(most).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.len() > LINE_BYTES_MAX {
        if line.last() != Some(&b'\n') {
            source.skip_until(b'\n')?;
        }
        let why = format!("has more than the {LINE_BYTES_MAX} bytes that are allowed");
        return Ok(Some(Err(why)));
    }
    let text = String::from_utf8(line);
    Ok(Some(text.map_err(|_| "is not UTF-8".to_owned())))
}

/// Begins to hand one in.
fn sent(
    client: &Client,
    line: Result<String, Refused>,
    (usual, said): (&SubmitRequest, &mut String),
) -> Sent {
    let request = line.and_then(|line| asked(&line, (usual, said)));
    match request {
        Err(why) => Sent::Not(why),
        Ok(request) => {
            // In the order of the lines: that is the order of equally urgent jobs, and the first of a key counts.
            let answer = Box::pin(client.ask::<Submit>(&request));
            Sent::Yes(request, answer)
        }
    }
}

/// Hands one in that was turned away, after a pause: under its key, so that it is not twice what it was once.
fn again(client: &Client, request: SubmitRequest) -> Sent {
    let (client, asked) = (client.clone(), request.clone());
    let answer = async move {
        tokio::time::sleep(BUSY_PAUSE).await;
        client.ask::<Submit>(&asked).await
    };
    Sent::Yes(request, Box::pin(answer))
}

/// What became of the first; it stays the first if this is dropped.
async fn first(under_way: &mut VecDeque<(u64, Sent)>) -> (u64, anyhow::Result<Came>) {
    let Some((line, sent)) = under_way.front_mut() else {
        return std::future::pending().await;
    };
    let line = *line;
    let came = match sent {
        Sent::Not(why) => Ok(Came::Refused(std::mem::take(why))),
        Sent::Yes(request, answer) => match answer.await {
            Ok(submitted) => Ok(Came::Taken(submitted)),
            Err(ClientError::Refused(refusal)) => Ok(match refusal.code {
                Code::Busy => Came::Busy(request.clone(), refusal.text),
                _ => Came::Refused(refusal.text),
            }),
            // Of those behind it nothing is known either.
            Err(error) => Err(anyhow::Error::from(error).context(format!("line {line}"))),
        },
    };
    under_way.pop_front();
    (line, came)
}

/// Prints the id, or nothing in its place, so that ids are in the lines that asked for them.
fn told(line: u64, answer: Result<Submitted, Refused>) -> anyhow::Result<u8> {
    let mut out = output::stdout();
    let code = match answer {
        Ok(submitted) => {
            writeln!(out, "{}", Spelling::of_locale().show(submitted.first))?;
            0
        }
        Err(why) => {
            eprintln!("eddy job submit: line {line}: {}", output::one_line(&why));
            writeln!(out)?;
            FAILED
        }
    };
    out.flush()?;
    Ok(code)
}

/// What a line asks for: a jobspec, or an object with one.
fn asked(
    line: &str,
    (usual, said): (&SubmitRequest, &mut String),
) -> Result<SubmitRequest, Refused> {
    if line.trim().is_empty() {
        // Not passed over: the ids are in the lines that asked for them.
        return Err("is blank; allowed is a jobspec, or an object with one".to_owned());
    }
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(line)
        .map_err(|error| format!("is no jobspec and no object with one: {}", of_json(&error)))?;
    let mut request = SubmitRequest {
        key: uuid::Uuid::now_v7(),
        ..usual.clone()
    };
    let Some(jobspec) = members.get("jobspec") else {
        request.jobspec = jobspec_of(line, said)?;
        return Ok(request);
    };
    request.jobspec = jobspec_of(jobspec.get(), said)?;
    for (name, value) in &members {
        match name.as_str() {
            "jobspec" => {}
            "key" => request.key = member(name, value, request::key)?,
            "urgency" => request.urgency = member(name, value, request::urgency)?,
            other => {
                let other = escaped(other);
                return Err(format!(
                    "`{other}` given beside jobspec; allowed are {KEYS}"
                ));
            }
        }
    }
    Ok(request)
}

/// What is wrong with JSON in a line, without the number of a line: it is in the first of its own.
fn of_json(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match said.strip_suffix(&place) {
        Some(what) => format!("{what} at its byte {}", error.column()),
        None => said,
    }
}

/// Reads a jobspec. What is to be remarked of many alike is said once.
fn jobspec_of(text: &str, said: &mut String) -> Result<Value, Refused> {
    let jobspec = Jobspec::parse(text.as_bytes());
    let jobspec = jobspec.map_err(|error| format!("{:#}", anyhow::Error::from(error)))?;
    if let Some(remark) = remark(&jobspec).filter(|remark| remark != said) {
        eprintln!("{remark}");
        *said = remark;
    }
    serde_json::to_value(&jobspec).map_err(|error| error.to_string())
}

/// A member as the option of its name has it: a text, or a number.
fn member<T>(
    name: &str,
    value: &RawValue,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<T, Refused> {
    let text = match serde_json::from_str(value.get()) {
        Ok(Value::String(text)) => text,
        _ => value.get().to_owned(),
    };
    read(&text).map_err(|why| format!("{name}: `{}` given; {why}", escaped(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use eddy_wire::event::{Requeue, Waitable};

    const JOBSPEC: &str = r#"{"version":1,"resources":[{"type":"slot","count":1,"label":"t","with":[{"type":"core","count":1}]}],"tasks":[{"command":["true"],"slot":"t","count":{"per_slot":1}}],"attributes":{"system":{"duration":0}}}"#;
    const KEY: &str = "019a0000-0000-7000-8000-000000000001";

    fn read(line: &str) -> Result<SubmitRequest, Refused> {
        asked(line, (&usual(), &mut String::new()))
    }

    fn usual() -> SubmitRequest {
        SubmitRequest {
            key: uuid::Uuid::nil(),
            jobspec: Value::Null,
            cc: None,
            urgency: 16,
            waitable: Waitable::No,
            requeue: Requeue::No,
            on_behalf: None,
        }
    }

    #[test]
    fn a_line_is_a_jobspec_or_has_one_with_what_else_is_its_own() {
        let alone = read(JOBSPEC).expect("a jobspec");
        assert_eq!((alone.urgency, alone.key.get_version_num()), (16, 7));
        let line = format!(r#"{{"key":"{KEY}","urgency":20,"jobspec":{JOBSPEC}}}"#);
        let more = read(&line).expect("a jobspec and its key");
        assert_eq!((more.urgency, more.key.to_string()), (20, KEY.to_owned()));
        assert_eq!(more.jobspec, alone.jobspec);
    }

    #[test]
    fn what_is_wrong_in_a_line_is_named() {
        let why = |line: &str| read(line).expect_err("refused");
        for blank in ["", " \n"] {
            assert_eq!(
                why(blank),
                "is blank; allowed is a jobspec, or an object with one"
            );
        }
        assert_eq!(
            why("{\"jobspec\" 1}"),
            "is no jobspec and no object with one: expected `:` at its byte 12"
        );
        assert!(why("[1]").starts_with("is no jobspec and no object with one: "));
        assert_eq!(
            why(&format!(r#"{{"jobspec":{JOBSPEC},"kye":1}}"#)),
            "`kye` given beside jobspec; allowed are jobspec, key, urgency"
        );
        assert_eq!(
            why(&format!(r#"{{"jobspec":{JOBSPEC},"key":"x"}}"#)),
            "key: `x` given; allowed is a UUID of version 7, such as `eddy job key` prints"
        );
        assert_eq!(
            why(&format!(r#"{{"jobspec":{JOBSPEC},"urgency":32}}"#)),
            "urgency: `32` given; allowed are 0 to 31, hold, default and expedite"
        );
        let wrong = JOBSPEC.replace("\"duration\":0", "\"duration\":\"x\"");
        assert!(
            why(&wrong).starts_with("attributes.system.duration: "),
            "{}",
            why(&wrong)
        );
    }

    #[test]
    fn a_line_that_cannot_be_is_passed_over() {
        let text = [
            b"a\n",
            &b"x".repeat(LINE_BYTES_MAX + 1)[..],
            b"\n",
            &b"y".repeat(LINE_BYTES_MAX)[..],
            b"\nb\n\xff\nc",
        ];
        let text = text.concat();
        let mut source = &text[..];
        let mut read = || next(&mut source).expect("it is all there");
        assert_eq!(read(), Some(Ok("a\n".to_owned())));
        let long = format!("has more than the {LINE_BYTES_MAX} bytes that are allowed");
        assert_eq!(read(), Some(Err(long.clone())), "one byte more");
        assert_eq!(read(), Some(Err(long)), "with its end");
        assert_eq!(read(), Some(Ok("b\n".to_owned())));
        assert_eq!(read(), Some(Err("is not UTF-8".to_owned())));
        assert_eq!(read(), Some(Ok("c".to_owned())));
        assert_eq!(read(), None);
    }
}
