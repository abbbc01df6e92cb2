//! `eddy kvs`: named values kept with the instance.

use std::io::Write;

use anyhow::{Context, bail};
use clap::Subcommand;
use eddy_client::ValueFeed;
use eddy_wire::services::kvs::{
    Delete, DeleteRequest, Get, KeyRequest, List, Pair, Put, PutRequest,
};
use serde_json::Value;
use uuid::Uuid;

use crate::number::{ANY, number};
use crate::output;
use crate::request::json_or_text;
use crate::session::Global;

/// Read and write named values kept with the instance
#[derive(clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = false,
    disable_help_subcommand = true
)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Set values, all that are named or none; each is JSON or a text
    Put {
        /// What to set
        #[arg(required = true, value_name = "KEY=VALUE")]
        pairs: Vec<String>,
    },
    /// Print values; texts as they are, all else as JSON
    Get {
        /// Texts as JSON, too
        #[arg(short = 'j', long)]
        json: bool,
        /// Names of values
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
    },
    /// Remove values, all that are named or none
    Delete {
        /// Names of values
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
    },
    /// Print the names that begin with a prefix
    List {
        /// Their beginning [default: all]
        #[arg(default_value = "", value_name = "PREFIX", hide_default_value = true)]
        prefix: String,
        /// One array of texts
        #[arg(long)]
        json: bool,
    },
    /// Print a value now and whenever it changes
    Watch {
        /// Stop after so many
        #[arg(short = 'c', long, value_name = "N", value_parser = number(ANY))]
        count: Option<u32>,
        /// Name of the value
        #[arg(value_name = "KEY")]
        key: String,
    },
}

pub fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    global.session(async |client| {
        match args.verb {
            Verb::Put { pairs } => {
                let pairs = pairs.iter().map(|text| pair(text));
                let mut pairs = pairs.collect::<anyhow::Result<Vec<Pair>>>()?.into_iter();
                let Pair { key, value } = pairs.next().expect("one is required");
                let also = pairs.collect();
                client.call::<Put>(&PutRequest { key, value, also }).await?;
            }
            Verb::Get { json, keys } => {
                for key in keys {
                    let entry = client.call::<Get>(&KeyRequest { key: key.clone() }).await?;
                    match entry.value {
                        Some(value) => output::lines([text(&value, json)])?,
                        None => bail!("{key}: there is no such value"),
                    }
                }
            }
            Verb::Delete { keys } => {
                let (key, also) = keys.split_first().expect("one is required");
                let (key, also) = (key.clone(), also.to_vec());
                let once = Some(Uuid::now_v7());
                let request = DeleteRequest { key, also, once };
                client.call::<Delete>(&request).await?;
            }
            Verb::List { prefix, json } => {
                let keys = client.call::<List>(&KeyRequest { key: prefix }).await?;
                match json {
                    true => output::json(&keys)?,
                    false => output::lines(keys)?,
                }
            }
            Verb::Watch { count, key } => {
                let mut feed = ValueFeed::of(&client, &key)?;
                let mut seen = 0;
                while let Some(entry) = feed.next().await? {
                    let value = entry.value.unwrap_or(Value::Null);
                    let mut out = output::stdout();
                    writeln!(out, "{}", text(&value, false))?;
                    out.flush()?;
                    seen += 1;
                    if count == Some(seen) {
                        break;
                    }
                }
            }
        }
        Ok(0)
    })
}

fn pair(text: &str) -> anyhow::Result<Pair> {
    let (key, value) = text
        .split_once('=')
        .with_context(|| format!("`{text}` has no `=`"))?;
    Ok(Pair {
        key: key.to_owned(),
        value: json_or_text(value),
    })
}

fn text(value: &Value, as_json: bool) -> String {
    match value {
        Value::String(text) if !as_json => text.clone(),
        value => value.to_string(),
    }
}
