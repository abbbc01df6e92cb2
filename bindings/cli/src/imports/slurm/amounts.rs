//! Amounts as `slurm.conf` spells them.
//!
//! Part of its import. What cannot be read is nothing; what is then said is the caller's.

use eddy_wire::account::Name;
use eddy_wire::resource_set::Sockets;

/// So many sockets of a node; nothing is known of one alone, which is all of it.
pub(super) fn sockets(sockets: u32, cores: u32, gpus: u32) -> Sockets {
    match sockets {
        1 => Sockets::default(),
        sockets => Sockets::even(sockets, cores, gpus),
    }
}

/// Minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]; as seconds.
pub(super) fn minutes(text: &str) -> Option<u64> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(days.parse::<u64>().ok()?), rest),
        None => (None, text),
    };
    let parts: Option<Vec<u64>> = rest.split(':').map(|part| part.parse().ok()).collect();
    let seconds = match (days, parts?.as_slice()) {
        (None, [minutes]) => minutes.checked_mul(60)?,
        (None, [minutes, seconds]) => minutes.checked_mul(60)?.checked_add(*seconds)?,
        (_, [hours, minutes, seconds]) => hours
            .checked_mul(3600)?
            .checked_add(minutes.checked_mul(60)?)?
            .checked_add(*seconds)?,
        (Some(_), [hours, minutes]) => hours
            .checked_mul(3600)?
            .checked_add(minutes.checked_mul(60)?)?,
        (Some(_), [hours]) => hours.checked_mul(3600)?,
        _ => return None,
    };
    let seconds = days
        .unwrap_or(0)
        .checked_mul(86_400)?
        .checked_add(seconds)?;
    (seconds > 0).then_some(seconds)
}

/// Bytes, of a number of MiB.
pub(super) fn mebibytes(value: &str) -> Option<u64> {
    value.parse::<u64>().ok()?.checked_mul(1 << 20)
}

/// `gpu:2`, `gpu:a100:2`, `gpu`; `None` for anything else.
pub(super) fn gpu(value: &str) -> Option<u32> {
    let mut parts = value.split(':');
    if parts.next()? != "gpu" || value.contains(',') {
        return None;
    }
    match parts.next_back() {
        None => Some(1),
        Some(count) => count.split('(').next()?.parse().ok(),
    }
}

pub(super) fn number_of(value: &str) -> Option<String> {
    value.parse::<u32>().ok().map(|number| number.to_string())
}

/// `matlab:10,ansys`: each a pool of so many, or of one.
pub(super) fn licenses(value: &str) -> Option<Vec<(String, u64)>> {
    let pool = |word: &str| {
        let (name, count) = word.split_once(':').unwrap_or((word, "1"));
        let name = name.parse::<Name>().ok()?;
        let count = count.parse().ok().filter(|count| *count > 0)?;
        Some((name.to_string(), count))
    };
    value.split([',', ';']).map(pool).collect()
}
