//! How lists of ascending sequences are stored: as JSON deltas in a finished job's row (short, and
//! `sqlite3` can read it), as varints in the mark (millions of them). It never touches the disk.

use eddy_wire::json;

/// `[100,1,1,5]` for 100, 101, 102, 107.
pub(super) fn to_json(sequences: &[u64]) -> String {
    let before = [0].into_iter().chain(sequences.iter().copied());
    let deltas = sequences.iter().zip(before);
    let deltas: Vec<u64> = deltas
        .map(|(seq, before)| seq.wrapping_sub(before))
        .collect();
    json::to_string(&deltas)
}

/// The reverse of [`to_json`]; `None` for anything else or for a list that does not ascend.
pub(super) fn from_json(text: &str) -> Option<Vec<u64>> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    if inner.is_empty() {
        return Some(Vec::new());
    }
    let mut seq = 0u64;
    inner
        .split(',')
        .map(|delta| {
            let delta: u64 = delta.parse().ok().filter(|&d| d > 0)?;
            seq = seq.checked_add(delta)?;
            Some(seq)
        })
        .collect()
}

/// Deltas as LEB128 varints, least significant group first.
pub(super) fn to_varints(sequences: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(sequences.len() + 8);
    let mut before = 0;
    for &seq in sequences {
        let mut delta = seq.wrapping_sub(before);
        before = seq;
        while delta >= 0x80 {
            bytes.push(delta as u8 | 0x80);
            delta >>= 7;
        }
        bytes.push(delta as u8);
    }
    bytes
}

/// The reverse of [`to_varints`]; `None` if cut short, too long or not ascending.
pub(super) fn from_varints(bytes: &[u8]) -> Option<Vec<u64>> {
    let mut sequences = Vec::new();
    let (mut seq, mut delta, mut shift) = (0u64, 0u64, 0u32);
    for &byte in bytes {
        delta |= u64::from(byte & 0x7f)
            .checked_shl(shift)
            .filter(|_| shift < 63)?;
        shift += 7;
        if byte & 0x80 != 0 {
            continue;
        }
        if delta == 0 {
            return None;
        }
        seq = seq.checked_add(delta)?;
        sequences.push(seq);
        (delta, shift) = (0, 0);
    }
    (shift == 0).then_some(sequences)
}

/// Consecutive sequences as `(first, last)`; the input ascends.
pub(super) fn runs(sequences: &[u64]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &seq in sequences {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == seq => *last = seq,
            _ => runs.push((seq, seq)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back_as_they_were() {
        for list in [
            vec![],
            vec![1],
            vec![100, 101, 102, 107, 90_000],
            vec![1 << 40, (1 << 62) + 5],
        ] {
            assert_eq!(from_json(&to_json(&list)).as_ref(), Some(&list));
            assert_eq!(from_varints(&to_varints(&list)).as_ref(), Some(&list));
        }
        assert_eq!(to_json(&[100, 101, 102, 107]), "[100,1,1,5]");
        assert_eq!(runs(&[1, 2, 3, 7, 9, 10]), [(1, 3), (7, 7), (9, 10)]);
    }

    #[test]
    fn damaged_lists_are_refused() {
        for text in [
            "",
            "[",
            "[1,0]",
            "[-1]",
            "[1,]",
            "[18446744073709551615,1]",
            "1,2",
        ] {
            assert_eq!(from_json(text), None, "{text}");
        }
        for bytes in [&[0x80][..], &[0], &[1, 0], &[0xff; 12]] {
            assert_eq!(from_varints(bytes), None, "{bytes:?}");
        }
    }
}
