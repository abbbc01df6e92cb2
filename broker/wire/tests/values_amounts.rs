//! What a jobspec has beside its shape: the environment, counts with ranges, memory.

use eddy_wire::jobspec::{
    Count, CountRange, JOBSPEC_BYTES_MAX, Jobspec, JobspecError, format_bytes, parse_bytes,
};
use eddy_wire::spec::Spec;
use serde_json::json;

use crate::values_jobspec::{plain, with_resources};

#[test]
fn the_environment_is_taken_apart_and_put_back() {
    let mut document = plain();
    document["attributes"]["system"]["environment"] = json!({ "HOME": "/", "X": null });
    let whole = Jobspec::from_value(document).unwrap();
    let mut bare = whole.clone();
    let environment = bare.take_environment();
    assert_eq!(serde_json::to_value(&bare).unwrap(), plain());
    bare.put_environment(environment);
    assert_eq!(bare, whole);
}

#[test]
fn a_jobspec_and_its_environment_are_bounded_together() {
    let with = |bytes: usize| {
        let mut document = plain();
        document["attributes"]["system"]["environment"] = json!({ "A": "x".repeat(bytes) });
        Spec::from_jobspec(Jobspec::from_value(document).unwrap())
    };
    let whole = |spec: &Spec| spec.text.len() + spec.environment_text.len();
    let rest = whole(&with(0).unwrap());
    assert_eq!(
        whole(&with(JOBSPEC_BYTES_MAX - rest).unwrap()),
        JOBSPEC_BYTES_MAX
    );
    let given = JOBSPEC_BYTES_MAX + 1;
    assert_eq!(
        with(given - rest).unwrap_err(),
        JobspecError::TooLong { given }
    );
}

#[test]
fn ranges_of_counts_read_and_print_as_rfc_45() {
    for (text, short) in [
        ("1-5:2:+", "1-5:2"),
        ("1-4:1:+", "1-4"),
        ("[1-4:2:*]", "1-4:2:*"),
        ("[100+]", "100+"),
        ("2+:2:^", "2+:2:^"),
    ] {
        assert_eq!(text.parse::<CountRange>().unwrap().to_string(), short);
        let count: Count = text.parse().unwrap();
        let object = serde_json::to_value(&count).unwrap();
        let mut document = plain();
        document["resources"][0]["count"] = object;
        assert_eq!(
            Jobspec::from_value(document).unwrap().resources[0].count,
            count,
            "{text}"
        );
    }
    for text in [
        "",
        "0+",
        "01+",
        "5-4:1",
        "1-4:0",
        "1-4:1:*",
        "1-4:2:^",
        "1-4:2:-",
        "1-4:2:+:",
        "+",
        "-4",
        "1:2",
        "[1-4:2",
        "4294967296+",
        "1-4:",
        "1-4:2:",
    ] {
        assert!(text.parse::<CountRange>().is_err(), "{text}");
    }
}

#[test]
fn memory_is_counted_in_powers_of_two() {
    for (text, bytes) in [
        ("4G", 4 << 30),
        ("4 GiB", 4 << 30),
        ("4gb", 4 << 30),
        ("4096", 4096),
        ("1B", 1),
        ("0", 0),
    ] {
        assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
    }
    for text in [
        "",
        "G",
        "-1G",
        "1.5G",
        "4X",
        "4BB",
        "4GG",
        "99999999E",
        "18446744073709551616",
    ] {
        assert!(parse_bytes(text).is_err(), "{text}");
    }
    for (bytes, text) in [
        (0, "0"),
        (1000, "1000"),
        (1536 << 20, "1536M"),
        (1 << 40, "1T"),
        (1 << 62, "4E"),
    ] {
        assert_eq!(format_bytes(bytes), text);
        assert_eq!(parse_bytes(text), Ok(bytes));
    }
}

#[test]
fn texts_that_would_grow_or_nest_without_end_are_refused() {
    let mut bomb = String::from("a: &a [x,x,x,x,x,x,x,x,x]\n");
    for (name, before) in ('b'..='j').zip('a'..) {
        bomb.push_str(&format!(
            "{name}: &{name} [{}]\n",
            vec![format!("*{before}"); 9].join(",")
        ));
    }
    assert!(matches!(
        Jobspec::parse(bomb.as_bytes()),
        Err(JobspecError::Syntax { format: "YAML", .. })
    ));
    let deep = "[".repeat(100_000);
    assert!(Jobspec::parse(deep.as_bytes()).is_err());
    assert!(Jobspec::parse(format!("{{\"a\":{deep}").as_bytes()).is_err());
    let mut value = json!(1);
    for _ in 0..60 {
        value = json!([value]);
    }
    let mut document = plain();
    document["attributes"]["user"] = json!({ "deep": value });
    assert_eq!(Jobspec::from_value(document), Err(JobspecError::TooDeep));
    let mut vertex = json!({ "type": "core", "count": 1 });
    for _ in 0..17 {
        vertex = json!({ "type": "box", "count": 1, "with": [vertex] });
    }
    assert!(matches!(
        with_resources(json!([vertex])),
        Err(JobspecError::VertexTooDeep { .. })
    ));
    let long = vec![b' '; 5 << 20];
    assert_eq!(
        Jobspec::parse(&long),
        Err(JobspecError::TooLong { given: 5 << 20 })
    );
    assert_eq!(
        Jobspec::parse(b"{\"\xff"),
        Err(JobspecError::NotUtf8 { at: 2 })
    );
}
