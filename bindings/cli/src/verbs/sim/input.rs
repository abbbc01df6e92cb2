//! What `eddy sim` reads: a trace or a history, the machine, shares, policies.
//!
//! How a trace is packed is told by how it begins, not by its name. What the bytes
//! mean the library knows.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail};
use eddy_brokerd::text;
use eddy_sched::policy::Policy;
use eddy_sched::policy::read::read;
use eddy_sched::sim::{Machine, Past, Shares, Workload, named, read_json, read_rows, read_swf};
use eddy_wire::resource_set::ResourceSet;

use super::recorded::{Recorded, of_directory};

/// The longest trace that is read, unpacked, in bytes; the largest of the archive has a tenth.
const TEXT_MAX: u64 = 4 << 30;

/// The longest policy or resource set, in bytes: far more than anybody writes.
const FILE_MAX: usize = 64 << 20;

/// What is to be replayed.
pub struct Given {
    /// The jobs.
    pub workload: Workload,
    /// What they ran on, where that is recorded.
    pub machine: Option<Machine>,
    /// What happened, where it is a history.
    pub past: Option<Past>,
}

impl Given {
    /// What an instance has recorded.
    pub fn recorded(recorded: Recorded) -> anyhow::Result<Given> {
        let Recorded { past, machine } = recorded;
        if past.runs.is_empty() {
            bail!(
                "no job with cores is recorded as started; {} others are",
                past.left_out
            );
        }
        Ok(Given {
            workload: past.workload()?,
            machine,
            past: Some(past),
        })
    }
}

/// What a trace is: of a state directory, the history of its instance.
pub fn given(trace: &str) -> anyhow::Result<Given> {
    let path = Path::new(trace);
    if path.is_dir() {
        return Given::recorded(of_directory(path)?);
    }
    let text = unpacked(trace)?;
    let begins = text.iter().find(|byte| !byte.is_ascii_whitespace());
    let workload = match begins {
        Some(b'{') => read_json(&text)?,
        Some(b'[') => {
            return Given::recorded(Recorded {
                past: read_rows(&text)?,
                machine: None,
            });
        }
        Some(_) => read_swf(&text)?,
        None => bail!("the trace is empty"),
    };
    if workload.jobs.is_empty() {
        let dropped = workload.dropped;
        bail!("the trace has no job that can be replayed; {dropped} were dropped");
    }
    Ok(Given {
        workload,
        machine: None,
        past: None,
    })
}

/// Shares of accounts: a JSON object of names and numbers.
pub fn shares(file: &str) -> anyhow::Result<Shares> {
    Ok(serde_json::from_str(&text(file)?)?)
}

/// The bytes of a file, unpacked; how it is packed is told by how it begins, not by its name.
fn unpacked(trace: &str) -> anyhow::Result<Vec<u8>> {
    let mut packed = Vec::new();
    let mut file: Box<dyn Read> = match trace {
        "-" => Box::new(std::io::stdin().lock()),
        path => Box::new(BufReader::new(File::open(Path::new(path))?)),
    };
    file.by_ref().take(TEXT_MAX + 1).read_to_end(&mut packed)?;
    let mut text = Vec::new();
    match packed.as_slice() {
        [0x1f, 0x8b, ..] => {
            let all = flate2::read::MultiGzDecoder::new(packed.as_slice());
            let read = all.take(TEXT_MAX + 1).read_to_end(&mut text);
            read.context("cannot be unpacked")?;
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            let all = lzma_rust2::XzReader::new(packed.as_slice(), true);
            let read = all.take(TEXT_MAX + 1).read_to_end(&mut text);
            read.context("cannot be unpacked")?;
        }
        _ => text = packed,
    }
    if text.len() as u64 > TEXT_MAX {
        bail!("the trace has more than {TEXT_MAX} bytes, which is the most that is read");
    }
    Ok(text)
}

/// The nodes of a resource set.
pub fn machine(file: &str) -> anyhow::Result<Machine> {
    let machine = Machine::of(&ResourceSet::parse(&text(file)?)?);
    if machine.procs() == 0 {
        bail!("execution.R_lite: has no core; a machine has at least one");
    }
    Ok(machine)
}

/// A preset by its name, or the policy of a file.
pub fn policy(given: &str) -> anyhow::Result<Policy> {
    let unknown = match named(given) {
        Ok(policy) => return Ok(policy),
        Err(unknown) => unknown,
    };
    if !Path::new(given).exists() {
        return Err(unknown.into());
    }
    let text = text(given).with_context(|| given.to_owned())?;
    match read(&text) {
        Ok(policy) => Ok(policy),
        Err(errors) => {
            let first = errors.first().map_or(String::new(), ToString::to_string);
            match errors.len() {
                0 | 1 => bail!("{given}: {first}"),
                all => bail!(
                    "{given}: {first}; {} more: eddy policy check {given}",
                    all - 1
                ),
            }
        }
    }
}

fn text(file: &str) -> anyhow::Result<String> {
    Ok(text::read(Path::new(file), FILE_MAX)?)
}
