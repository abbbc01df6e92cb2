//! `--pool NAME=N`: what a job takes of pools.

use eddy_wire::account::Name;

/// One pool and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfPool {
    /// The pool.
    pub name: Name,
    /// How much.
    pub count: u64,
}

/// `NAME=N`, or `NAME` for one.
pub fn of_pool(text: &str) -> Result<OfPool, String> {
    let (name, count) = text.split_once('=').unwrap_or((text, "1"));
    let name = name.parse().map_err(|wrong| format!("{wrong}"))?;
    match count.parse().ok().filter(|count| *count > 0) {
        Some(count) => Ok(OfPool { name, count }),
        None => Err(format!(
            "behind = is no number; allowed are 1 and more, as in {name}=2"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_a_name_and_how_much_of_it() {
        let read = |text: &str| of_pool(text).map(|one| (one.name.to_string(), one.count));
        assert_eq!(read("lic=4"), Ok(("lic".to_owned(), 4)));
        assert_eq!(read("lic"), Ok(("lic".to_owned(), 1)));
        for wrong in ["lic=0", "lic=x", "=2", "a b=1", "lic=-1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
