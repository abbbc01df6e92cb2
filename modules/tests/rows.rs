//! What a listing tells of a job.

use eddy_wire::services::job::JobRow;
use serde_json::json;

use crate::instance::Instance;

/// Listings are long, and most show tables.
#[test]
fn who_asks_for_all_of_a_row_is_told_what_tables_leave_out() {
    let mut i = Instance::with(1);
    i.submit(0, 1, &json!({"cwd": "/home"}));
    let mut told = |body| -> JobRow {
        let rows: Vec<JobRow> = serde_json::from_str(&i.call("job.list", &body)).expect("rows");
        rows.into_iter().next().expect("a job")
    };
    let (usual, all) = (told(json!({})), told(json!({"detail": "all"})));
    assert_eq!(all.cwd.as_deref(), Some("/home"));
    assert!(all.key.is_some());
    assert_eq!(usual, all.usual());
    assert_eq!((usual.cwd, usual.key), (None, None));
}
