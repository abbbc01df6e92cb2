//! What a reader is shown of records, tasks and answers: one line each.

use eddy_wire::error::Refusal;
use eddy_wire::event::{Final, Kind, Record};
use eddy_wire::id::JobId;
use eddy_wire::job::exit_code;
use eddy_wire::message::{Message, Type};
use eddy_wire::preempt::Mode;
use eddy_wire::reservation::Kept;
use eddy_wire::services::job::{Changed, JobEnd, JobRow, Submitted};
use eddy_wire::services::sched::ExplainReply;
use eddy_wire::services::usage::UsageReport;
use eddy_wire::shell::Part;
use eddy_wire::time::Span;
use eddy_wire::update;

use crate::call::{About, Call};
use crate::nature::{InstanceId, Nature, ROOT};
use crate::oracle::places;

/// What jobs are called that were given no name.
pub const NAMELESS: &str = "job";

/// Notes a record that became durable, if it says something to a reader, and what it implies.
pub fn note_record(nature: &mut Nature, instance: InstanceId, record: &Record) {
    note_one(nature, instance, record);
    if let Some(implied) = record.implied() {
        note_one(nature, instance, &implied);
    }
}

fn note_one(nature: &mut Nature, instance: InstanceId, record: &Record) {
    let Some(what) = told(&record.event.kind) else {
        return;
    };
    let who = match record.event.job {
        Some(job) => label(nature, instance, job) + " ",
        None if instance == ROOT => String::new(),
        None => nature.labels[instance.place()].clone() + ": ",
    };
    if record.event.kind.passed_to().is_some() {
        nature.note(|| format!("{who}passed"));
    }
    if let (Kind::Release(..), Some(status)) = (&record.event.kind, record.event.kind.finish()) {
        nature.note(|| format!("{who}finish {}", exit_code(status)));
    }
    nature.note(|| format!("{who}{what}"));
}

/// Notes an answer, or a part of one, that reached a client.
pub fn note_answer(
    nature: &mut Nature,
    (client, instance): (usize, InstanceId),
    call: &Call,
    message: &Message,
) {
    if !nature.is_written_down() {
        return;
    }
    let verb = call.topic.rsplit('.').next().unwrap_or_default();
    let text = match (message.kind, &call.about) {
        (Type::Refused, _) => refused(message),
        (Type::Part, About::Wait(_)) => ends(nature, instance, message),
        (Type::Part, About::List) => rows(message),
        // The rest of a stream tells what is shown as a record.
        (Type::Part, _) | (_, About::List) => return,
        (_, About::Wait(_)) => "told all".to_owned(),
        (_, About::Submit { .. }) => numbers(message),
        (_, About::Collect) => match message.parse::<JobEnd>() {
            Ok(end) => ended(nature, instance, &end),
            Err(refusal) => refusal.text,
        },
        (_, About::Exception { .. } | About::Urgency { .. } | About::Limit(_)) => {
            changed(nature, instance, message)
        }
        (_, About::Usage) => usage(message),
        (_, _) if verb == "explain" => explained(nature, instance, message),
        (_, _) => String::from_utf8_lossy(&message.body).into_owned(),
    };
    nature.note(|| format!("client {client} {verb}: {text}"));
}

/// A job by its name, or by its number if it has none.
pub fn label(nature: &Nature, instance: InstanceId, job: JobId) -> String {
    let found = nature.judge(instance).recorded().jobs.get(&job);
    let within = match nature.labels[instance.place()].as_str() {
        "" => String::new(),
        label => format!("{label}/"),
    };
    let own = match found.map(|job| (job.submit.spec.jobspec.name(), job.submit.cc)) {
        None | Some((NAMELESS, _)) => format!("job {job}"),
        Some((name, None)) => name.to_owned(),
        Some((name, Some(cc))) => name.replace("{cc}", &cc.to_string()),
    };
    within + &own
}

/// A part of a job: its name, attempt and rank.
pub fn part_label(nature: &Nature, instance: InstanceId, part: Part) -> String {
    let attempt = match part.attempt.0 {
        1 => String::new(),
        attempt => format!(" (attempt {attempt})"),
    };
    format!(
        "{}{attempt} on rank {}",
        label(nature, instance, part.job),
        part.rank
    )
}

fn refused(message: &Message) -> String {
    match message.parse::<Refusal>() {
        Ok(refusal) => format!("refused: {}", refusal.text),
        Err(refusal) => refusal.text,
    }
}

fn numbers(message: &Message) -> String {
    match message.parse::<Submitted>() {
        Ok(Submitted { first, count: 1 }) => format!("is job {first}"),
        Ok(told) => format!(
            "is jobs {} to {}",
            told.first,
            told.first.0 + u64::from(told.count) - 1
        ),
        Err(refusal) => refusal.text,
    }
}

fn ends(nature: &Nature, instance: InstanceId, message: &Message) -> String {
    let ends: Vec<JobEnd> = message.parse().unwrap_or_default();
    let texts: Vec<String> = ends
        .iter()
        .map(|end| ended(nature, instance, end))
        .collect();
    texts.join(", ")
}

fn ended(nature: &Nature, instance: InstanceId, end: &JobEnd) -> String {
    let result = format!("{:?}", end.result).to_lowercase();
    let why = end.exception.as_ref().map(|why| format!(" ({why})"));
    let (label, why) = (label(nature, instance, end.id), why.unwrap_or_default());
    format!("{label} {result} {}{why}", end.returncode)
}

fn rows(message: &Message) -> String {
    let rows: Vec<JobRow> = message.parse().unwrap_or_default();
    let texts = rows.iter().map(|row| {
        let reason = match row.reason.is_empty() {
            true => String::new(),
            false => format!(" ({})", row.reason),
        };
        format!("{} {}{reason}", row.name, row.state.name())
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// Where the core-seconds went, what is not nothing.
fn usage(message: &Message) -> String {
    let Ok(report) = message.parse::<UsageReport>() else {
        return "no report".to_owned();
    };
    let spent = &report.identity.spent;
    let parts = [
        ("jobs", spent.jobs),
        ("instances", spent.instances),
        ("reserved", spent.reserved),
        ("maintenance", spent.maintenance),
        ("idle", spent.idle),
        ("drained", spent.drained),
        ("down", spent.down),
    ];
    let declared = spent.declared.iter();
    let parts = parts
        .into_iter()
        .chain(declared.map(|(name, of)| (name.as_str(), *of)));
    let texts = parts
        .filter(|(_, of)| of.cores > 0)
        .map(|(name, of)| format!("{name} {}", of.cores / 1_000_000));
    texts.collect::<Vec<_>>().join(", ")
}

/// Why jobs wait.
fn explained(nature: &Nature, instance: InstanceId, message: &Message) -> String {
    let Ok(reply) = message.parse::<ExplainReply>() else {
        return "no answer".to_owned();
    };
    let texts = reply.jobs.iter().map(|one| {
        let label = label(nature, instance, one.job);
        format!("{label} {}", one.reason)
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn changed(nature: &Nature, instance: InstanceId, message: &Message) -> String {
    let changed: Changed = message.parse().unwrap_or_default();
    let refused = changed.refused.iter();
    let refused =
        refused.map(|(job, why)| format!("; not {}: {why}", label(nature, instance, *job)));
    format!("changed {}{}", changed.count, refused.collect::<String>())
}

fn told(kind: &Kind) -> Option<String> {
    let name = kind.name();
    Some(match kind {
        Kind::Release(_, Final::Free(_) | Final::Over(_)) => Kind::Free.name().to_owned(),
        // They follow from what is shown.
        Kind::Validate
        | Kind::Depend
        | Kind::Priority(_)
        | Kind::Release(..)
        | Kind::ResourceDefine(..) => return None,
        Kind::Alloc(grant) | Kind::GrantChanged(grant) => {
            let beside = grant.beside.iter();
            let beside = beside.map(|(rank, job)| format!(", rank {rank} by job {job}"));
            format!(
                "{name} {}{}",
                places(&grant.set),
                beside.collect::<String>()
            )
        }
        Kind::Finish(status) => format!("{name} {}", exit_code(*status)),
        Kind::Exception(exception) => {
            let note = match exception.note.is_empty() {
                true => String::new(),
                false => format!(": {}", exception.note),
            };
            format!("{name} {}{note}", exception.kind)
        }
        Kind::Preempted(preemption) => {
            let by = match preemption.mode {
                Mode::Requeue => "requeue",
                Mode::Cancel => "cancel",
                Mode::Suspend => "suspend",
            };
            let (heir, why) = (preemption.by, &preemption.why);
            let grace = Span(preemption.grace);
            format!("{name} for job {heir} by {by}, {grace} s are left: {why}")
        }
        Kind::Shrink(shrink) => {
            let (ranks, why) = (&shrink.ranks, &shrink.why);
            let heir = shrink.by.map(|heir| format!(" for job {heir}"));
            let (heir, grace) = (heir.unwrap_or_default(), Span(shrink.grace));
            format!("{name} by ranks {ranks}{heir}, {grace} s are left: {why}")
        }
        Kind::DependencyAdd(what) | Kind::DependencyRemove(what) => format!("{name} {what}"),
        Kind::Requeue(attempt) => format!("{name} as attempt {attempt}"),
        Kind::Order(place, _) => format!("{name} {} of {}", place.at + 1, place.of),
        Kind::Urgency(urgency, _) => format!("{name} {urgency}"),
        Kind::JobspecUpdate(map) if let Some(limit) = update::duration(map) => {
            format!("{name} duration {limit}")
        }
        Kind::LeaderStart(epoch) | Kind::ShellLost(epoch, _) => format!("{name} {epoch}"),
        Kind::ShellStart(ranks, epoch) => format!("{name} {epoch} on ranks {ranks}"),
        Kind::Drain(ranks, reason, _) => format!("{name} {ranks}: {reason}"),
        Kind::Undrain(ranks, _) | Kind::GiveBack(ranks) => format!("{name} {ranks}"),
        Kind::Queue(turned) => format!("{name} {} {:?}", turned.queue, turned.turn),
        Kind::Reservation(kept) => match &**kept {
            Kept::Made(made) => format!("{name} {} made: ranks {}", made.name, made.ranks),
            Kept::Deleted { name: of, .. } => format!("{name} {of} deleted"),
            Kept::Over { name: of } => format!("{name} {of} over"),
        },
        Kind::Put(key, value, _) => format!("{name} {key} {value}"),
        Kind::Delete(key, _) => format!("{name} {key}"),
        _ => name.to_owned(),
    })
}
