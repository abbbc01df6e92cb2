//! Which field of a document is wrong.
//!
//! A document is read whole. Only where that fails its fields are tried one by one, each as if it stood
//! there alone, since the readers of TOML and JSON say where something is wrong and not what it is
//! called. That finds nothing in a type with fields that must be there: it is for those without.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A document of a text, which is JSON if it begins so and TOML otherwise.
///
/// # Errors
/// Names each field that cannot be, or the line where there is no reading on.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Vec<String>> {
    let (whole, otherwise) = match text.trim_start().starts_with('{') {
        true => match serde_json::from_str(text) {
            Ok(document) => return Ok(document),
            Err(error) => (serde_json::from_str(text).ok(), error.to_string()),
        },
        false => match toml::from_str(text) {
            Ok(document) => return Ok(document),
            Err(error) => (toml::from_str(text).ok(), in_line(text, &error)),
        },
    };
    let mut found = Vec::new();
    if let Some(whole) = whole {
        let whole: Value = whole;
        wrong::<T>(&whole, &mut Vec::new(), &mut found);
    }
    if found.is_empty() {
        found.push(otherwise);
    }
    Err(found)
}

/// What the reader of TOML says without the lines that it quotes.
fn in_line(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.unwrap_or_default().matches('\n').count() + 1;
    format!("line {line}: {}", error.message())
}

/// What is wrong with each field that is, below what `path` leads to.
fn wrong<'v, T: DeserializeOwned>(
    value: &'v Value,
    path: &mut Vec<&'v str>,
    found: &mut Vec<String>,
) {
    let tried = match value {
        // Its own key may be wrong already.
        Value::Object(_) => json!({}),
        leaf => leaf.clone(),
    };
    let alone = path
        .iter()
        .rev()
        .fold(tried, |inner, key| json!({ *key: inner }));
    if let Err(error) = serde_json::from_value::<T>(alone) {
        return found.push(told(path, &error.to_string()));
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        path.push(key);
        wrong::<T>(inner, path, found);
        path.pop();
    }
}

/// An error by its field, in words for those who do not write Rust.
fn told(path: &[&str], error: &str) -> String {
    let field = path.last().copied().unwrap_or_default();
    let error = error.strip_prefix(&format!("{field}: ")).unwrap_or(error);
    let numbers = [("u32", u64::from(u32::MAX)), ("u64", u64::MAX)];
    let plain = numbers.iter().find_map(|(kind, most)| {
        let given = error.strip_suffix(&format!(", expected {kind}"))?;
        Some(format!("{given}; allowed are 0 to {most}"))
    });
    let error = plain.unwrap_or_else(|| error.to_owned());
    format!("{}: {error}", path.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Document;

    fn refused(text: &str) -> String {
        read::<Document>(text).expect_err("it is wrong").join("; ")
    }

    #[test]
    fn what_is_wrong_is_named_by_its_field() {
        for (text, expected) in [
            (
                "[account.a]\nshares = -1",
                "account.a.shares: `-1` is given; allowed are 0 to 1073741824 and `parent`",
            ),
            (
                "[account.a]\nshares = 'x'",
                "account.a.shares: `x` is given; allowed are 0 to 1073741824 and `parent`",
            ),
            (
                "{\"account\": {\"a\": {\"user\": {\"bob\": {\"shares\": 99999999999}}}}}",
                "account.a.user.bob.shares: `99999999999` is given; allowed are 0 to 1073741824 and `parent`",
            ),
            (
                "[account.b]\n[account.a.limits]\ncores = 4\nnodes = -1",
                "account.a.limits.nodes: invalid value: integer `-1`; allowed are 0 to 4294967295",
            ),
            (
                "[user.bob.limits]\nperiod = 'eon'",
                "user.bob.limits.period: unknown variant `eon`, expected one of `day`, `week`, `month`, `quarter`, `year`",
            ),
            (
                "[account.a]\nweight = 3",
                "account.a.weight: unknown field `weight`, expected one of `parent`, `shares`, `description`, `qos`, `limits`, `user`",
            ),
        ] {
            assert_eq!(refused(text), expected);
        }
        let both = refused("[account.a]\nshares = -1\n[account.b]\nshares = -2");
        assert!(
            both.contains("account.a.shares: `-1`") && both.contains("account.b.shares: `-2`"),
            "{both}"
        );
        let name = refused("[account.'a b']\nshares = 3");
        assert!(
            name.starts_with("account.a b: `a b` is no name; allowed"),
            "{name}"
        );
    }

    #[test]
    fn what_cannot_be_read_on_is_named_by_its_line() {
        let text = refused("[account.a]\nshares =\n");
        assert!(
            text.starts_with("line 2: ") && !text.contains('\n'),
            "{text}"
        );
        let text = refused("{\"account\": ");
        assert!(text.contains("at line 1"), "{text}");
    }
}
