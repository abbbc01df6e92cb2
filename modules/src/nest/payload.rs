//! Jobspecs and environments of jobs that are passed: what a child keeps of them it is told once over a channel
//! (`eddy_wire::payload`). The child's side is `passed/payload.rs`.

use bytes::{Bytes, BytesMut};
use eddy_wire::error::Refusal;
use eddy_wire::payload::{KEPT_MAX, Keeps, Payloads};
use eddy_wire::spec::Spec;

/// Those of a channel that was just made.
pub(super) fn begins(keeps: Option<Keeps>) -> Result<Payloads<()>, Refusal> {
    let keeps = keeps.unwrap_or_default();
    if keeps.count > KEPT_MAX {
        let text = format!(
            "keeps.count: {} given, at most {KEPT_MAX} are allowed",
            keeps.count
        );
        return Err(Refusal::invalid(text));
    }
    Ok(Payloads::new(keeps))
}

/// How much of a job the child does not keep, and can be said.
pub(super) fn unsaid_bytes(said: &Payloads<()>, spec: &Spec) -> u64 {
    if spec.is_lost() {
        return 0;
    }
    let parts = [
        (&spec.hash, spec.text.len()),
        (&spec.environment_hash, spec.environment_text.len()),
    ];
    let unsaid = parts.iter().filter(|(hash, _)| said.get(hash).is_none());
    unsaid.map(|(_, bytes)| *bytes as u64).sum()
}

/// What of a job the child does not keep: how many bytes of its jobspec, and those with its environment. Of one
/// that is lost nothing is said, as of one that the child keeps: who has the job need not read it again, and who
/// does not sends it back.
pub(super) fn unsaid(said: &mut Payloads<()>, spec: &Spec) -> (u32, Bytes) {
    if spec.is_lost() {
        return (0, Bytes::new());
    }
    let parts = [
        (spec.hash, &spec.text),
        (spec.environment_hash, &spec.environment_text),
    ];
    let [text, environment] = parts.map(|(hash, bytes)| match said.get(&hash) {
        Some(()) => &[][..],
        None => {
            said.keep(hash, bytes.len() as u64, ());
            &bytes[..]
        }
    });
    let mut tail = BytesMut::with_capacity(text.len() + environment.len());
    tail.extend_from_slice(text);
    tail.extend_from_slice(environment);
    (text.len() as u32, tail.freeze())
}
