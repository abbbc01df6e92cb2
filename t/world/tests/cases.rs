//! Every script in t/cases leads to the transcript below its line of dashes. `UPDATE=1` writes them.

use std::fs;
use std::path::{Path, PathBuf};

use eddy_world::script::play;

const LINE: &str = "----\n";

#[test]
fn each_case_leads_to_its_transcript() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cases");
    let mut cases: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("t/cases is there")
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    cases.sort();
    assert!(!cases.is_empty(), "{} has no cases", folder.display());
    let wrong: Vec<String> = cases.iter().filter_map(|path| check(path)).collect();
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

/// What differs, if something does.
fn check(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let text = fs::read_to_string(path).expect("a case is text");
    let (script, expected) = text.split_once(LINE).unwrap_or((&text, ""));
    let transcript = play(script).unwrap_or_else(|why| panic!("{name}: {why}"));
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, format!("{script}{LINE}{transcript}")).expect("t/cases can be written");
    } else if transcript != expected {
        return Some(format!("{name}: expected\n{expected}\ngiven\n{transcript}"));
    }
    None
}
