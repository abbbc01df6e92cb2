//! The words of a submission.

use eddy_wire::constraint::Constraint;
use eddy_wire::event::{Requeue, Waitable};
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Sharing;
use eddy_wire::warning::Warning;

use super::number;
use crate::call::{Ask, InSockets, Nests};
use crate::nature::BEGIN;
use crate::task::{Behaviour, span};

/// `2`, or `2-4` for a choice.
fn on_nodes(ask: &mut Ask, nodes: &str) -> Result<(), String> {
    let (least, most) = nodes.split_once('-').unzip();
    let least = number(least.unwrap_or(nodes))?;
    (ask.nodes, ask.most) = (Some(least), most.map(number).transpose()?);
    ask.ntasks = ask.ntasks.max(least);
    Ok(())
}

/// `10@5`: a signal, and how many seconds before the end.
fn warning(text: &str) -> Result<Warning, String> {
    let (signal, seconds) = text.split_once('@').unwrap_or((text, "60"));
    Ok(Warning {
        signal: number(signal)? as i32,
        left: span(seconds),
    })
}

/// What the words of a submission ask for, on top of `ask`.
pub(super) fn ask(mut ask: Ask, name: &str, words: &[&str]) -> Result<Ask, String> {
    let text = serde_json::json!({ "tasks": [{ "command": ask.command }] }).to_string();
    let mut behaviour = Behaviour::of_jobspec(&text);
    ask.name = name.to_owned();
    for word in words {
        if behaviour.take(word) {
            continue;
        }
        match word.split_once('=').unwrap_or((word, "")) {
            ("n", n) => ask.ntasks = number(n)?,
            ("nodes", n) => on_nodes(&mut ask, n)?,
            ("cores", n) => ask.cores = number(n)?,
            ("gpus", n) => ask.gpus = number(n)?,
            ("memory", n) => ask.memory = u64::from(number(n)?),
            ("sockets", n) => ask.sockets = Some(InSockets::Of(number(n)?)),
            ("sockets-alone", n) => ask.sockets = Some(InSockets::Alone(number(n)?)),
            ("sockets-each", n) => ask.sockets = Some(InSockets::Each(number(n)?)),
            ("exclusive", _) => ask.sharing = Sharing::Exclusive,
            ("limit", seconds) => ask.limit = span(seconds).0 as f64 / 1e6,
            ("urgency", n) => ask.urgency = number(n)? as u8,
            ("waitable", _) => ask.waitable = Waitable::Yes,
            ("instance", _) => ask.nests = Nests::Instance,
            ("beside", _) => ask.nests = Nests::Beside,
            ("grows", n) => ask.nests = Nests::Grows(JobId(number(n)?.into())),
            ("queue", name) => ask.queue = Some(name.to_owned()),
            ("begin", seconds) => {
                let at = BEGIN.after(span(seconds)).to_string();
                ask.waits_for("begin-time", at);
            }
            ("singleton", _) => ask.waits_for("singleton", String::new()),
            (scheme, job) if scheme.starts_with("after") => {
                ask.waits_for(scheme, job.to_owned());
            }
            ("grace", seconds) => ask.grace = Some(span(seconds)),
            ("warn", text) => ask.warning = Some(warning(text)?),
            ("throttle", n) => ask.throttle = Some(number(n)?),
            ("set", name) => ask.set = Some(name.to_owned()),
            ("gang", gang) => {
                let mut parts = gang.split(':');
                let name = parts.next().unwrap_or_default().to_owned();
                let size = number(parts.next().unwrap_or_default())?;
                let min = parts.next().map_or(Ok(size), number)?;
                ask.gang = Some((name, size, min));
            }
            ("pool", pool) => {
                let (name, count) = pool.split_once(':').unwrap_or((pool, "1"));
                ask.pools.push((name.to_owned(), u64::from(number(count)?)));
            }
            ("requires", text) => {
                Constraint::from_query(text).map_err(|why| format!("{word}: {why}"))?;
                ask.requires = Some(text.to_owned());
            }
            ("reservation", name) => ask.reservation = Some(name.to_owned()),
            ("qos", name) => ask.qos = Some(name.to_owned()),
            ("class", name) => ask.class = Some(name.to_owned()),
            ("name", name) => ask.name = name.to_owned(),
            ("requeue", _) => ask.requeue = Requeue::OnNodeFailure,
            ("cc", ids) => {
                ask.cc = Some(
                    ids.parse()
                        .map_err(|_| format!("cc: `{ids}` is no idset"))?,
                );
                ask.name = format!("{name}{{cc}}");
            }
            _ => return Err(format!("`{word}` says nothing of a job")),
        }
    }
    ask.command = behaviour.command();
    Ok(ask)
}
