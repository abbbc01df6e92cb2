//! What scripts show of records and answers: one line each.

use eddy_wire::event::{Kind, Record};
use eddy_wire::job::exit_code;
use eddy_wire::message::{Message, Type};

use crate::call::Call;
use crate::nature::Nature;

/// Notes a record that became durable, if it says something to a reader.
pub fn note_record(nature: &mut Nature, record: &Record) {
    if let Some(what) = told(&record.event.kind) {
        let job = record.event.job;
        nature.note(|| match job {
            Some(job) => format!("job {job} {what}"),
            None => what,
        });
    }
}

/// Notes an answer that reached a client.
pub fn note_answer(nature: &mut Nature, client: usize, call: &Call, message: &Message) {
    nature.note(|| {
        let verb = call.topic;
        let body = String::from_utf8_lossy(&message.body);
        match message.kind {
            Type::Refused => {
                let refusal = message.parse::<eddy_wire::error::Refusal>();
                let text = refusal.map_or(body.into_owned(), |refusal| refusal.text);
                format!("client {client} {verb} refused: {text}")
            }
            _ => format!("client {client} {verb} answered: {body}"),
        }
    });
}

fn told(kind: &Kind) -> Option<String> {
    let name = kind.name();
    Some(match kind {
        // They follow from what is shown.
        Kind::Validate
        | Kind::Depend
        | Kind::Priority(_)
        | Kind::Release(..)
        | Kind::ResourceDefine(_) => {
            return None;
        }
        Kind::Alloc(grant) => {
            format!("{name} {}", crate::oracle::places(&grant.set))
        }
        Kind::Finish(status) => format!("{name} {}", exit_code(*status)),
        Kind::Exception(exception) => {
            let note = match exception.note.is_empty() {
                true => String::new(),
                false => format!(": {}", exception.note),
            };
            format!("{name} {} {}{note}", exception.kind, exception.severity)
        }
        Kind::Requeue(attempt) => format!("{name} as attempt {attempt}"),
        Kind::Urgency(urgency, _) => format!("{name} {urgency}"),
        Kind::LeaderStart(epoch) | Kind::ShellLost(epoch) => format!("{name} {epoch}"),
        Kind::ShellStart(ranks, epoch) => format!("{name} {epoch} on ranks {ranks}"),
        Kind::Drain(ranks, reason, _) => format!("{name} {ranks}: {reason}"),
        Kind::Undrain(ranks) => format!("{name} {ranks}"),
        Kind::Put(key, value) => format!("{name} {key} {value}"),
        Kind::Delete(key) => format!("{name} {key}"),
        _ => name.to_owned(),
    })
}
