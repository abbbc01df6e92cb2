//! The published values of the formats of RFC 18 to 29, and the ways to get
//! them wrong.

use eddy_wire::eventlog::{EventLine, EventLineError};
use eddy_wire::fsd::{Fsd, FsdError, micros_of_seconds, parse_fsd, parse_minutes_or_fsd};
use eddy_wire::hash::Hash;
use eddy_wire::hostlist::{Hostlist, HostlistError};
use eddy_wire::id::{JobId, JobIdError, Rank};
use eddy_wire::idset::{ID_MAX, Idset, IdsetError};

#[test]
fn f58_has_the_values_of_rfc_19() {
    let vectors = [
        (0, "ƒ1"),
        (1, "ƒ2"),
        (57, "ƒz"),
        (1234, "ƒNH"),
        (1888, "ƒZZ"),
        (3363, "ƒzz"),
        (3364, "ƒ211"),
        (4369, "ƒ2JL"),
        (65535, "ƒLUv"),
        (4294967295, "ƒ7YXq9G"),
        (633528662, "ƒxyzzy"),
        (6731191091817518, "ƒuZZybuNNy"),
        (18446744073709551614, "ƒjpXCZedGfVP"),
        (18446744073709551615, "ƒjpXCZedGfVQ"),
    ];
    for (number, text) in vectors {
        assert_eq!(JobId(number).f58(), text);
        assert_eq!(text.parse(), Ok(JobId(number)), "{text}");
        let ascii = text.replace('ƒ', "f");
        assert_eq!(JobId(number).f58_ascii(), ascii);
        assert_eq!(ascii.parse(), Ok(JobId(number)), "{ascii}");
    }
    assert_eq!("f111".parse(), Ok(JobId(0)));
    assert!("f1230".parse::<JobId>().is_err());
    for letter in [
        "fI",
        "fO",
        "fl",
        "f",
        "ƒ",
        "fjpXCZedGfVR",
        "f\0",
        "-1",
        "+1",
        "1 2",
        "words-of-it",
    ] {
        assert!(letter.parse::<JobId>().is_err(), "{letter}");
    }
}

#[test]
fn job_ids_are_read_in_the_order_of_rfc_19() {
    assert_eq!(" 4369\n".parse(), Ok(JobId(4369)));
    assert_eq!("0x1111".parse(), Ok(JobId(4369)));
    assert_eq!("0000.0000.0000.1111".parse(), Ok(JobId(4369)));
    assert_eq!("a.b.c.d".parse(), Ok(JobId(2814797012533261)));
    // It begins with the prefix of F58 and is dothex all the same.
    assert_eq!("ffff.0.0.0".parse(), Ok(JobId(0xffff << 48)));
    assert_eq!(JobId(0x0017_e9fb_8df1_6c2e).dothex(), "0017.e9fb.8df1.6c2e");
    for wrong in [
        "1.2.3",
        "1.2.3.4.5",
        "1..2.3",
        "12345.0.0.0",
        "0x",
        "0xg",
        ".",
        "...",
    ] {
        assert!(wrong.parse::<JobId>().is_err(), "{wrong}");
    }
    let over = "18446744073709551616";
    assert_eq!(
        over.parse::<JobId>(),
        Err(JobIdError::Overflow {
            given: over.to_owned()
        })
    );
    assert_eq!("".parse::<JobId>(), Err(JobIdError::Empty));
    assert_eq!(
        "0".repeat(99).parse::<JobId>(),
        Err(JobIdError::TooLong { given: 99 })
    );
    assert_eq!(
        serde_json::to_string(&(JobId(7), Rank(3))).unwrap(),
        "[7,3]"
    );
}

#[test]
fn idsets_refuse_what_rfc_22_refuses() {
    for (text, canonical) in [
        ("", ""),
        ("[]", ""),
        ("0", "0"),
        ("1,2,3,5,6,42", "1-3,5-6,42"),
        ("[1-3,5-6,42]", "1-3,5-6,42"),
        ("1-1", "1"),
        ("0-2147483647", "0-2147483647"),
    ] {
        let set: Idset = text.parse().unwrap();
        assert_eq!(set.to_string(), canonical);
    }
    for text in [
        "01,2",
        "3,2",
        "3-0",
        "2,2",
        "0-",
        "-5",
        "[0",
        "0]",
        "[[0]]",
        "4.2",
        "1-2x",
        ",",
        ",1",
        "1,",
        "1,,2",
        "1-2-3",
        "1-3,2",
        " 1",
        "00",
        "2147483648",
        "99999999999999999999",
        "ƒ",
        "[",
        "]",
        "1-2,2-3",
        "+1",
    ] {
        assert!(text.parse::<Idset>().is_err(), "{text}");
    }
    assert_eq!(
        "3,2".parse::<Idset>(),
        Err(IdsetError::NotAscending {
            id: 2,
            before: 3,
            at: 2
        })
    );
    let said = |text: &str| {
        let read = text.parse::<Idset>();
        read.expect_err("it is wrong").to_string()
    };
    for (text, expected) in [
        (
            "1,5-3",
            "idset has the range 5-3 at position 2; the last must not be below the first",
        ),
        (
            "1,07",
            "idset has a leading zero at position 2; allowed is none",
        ),
        (
            "1-2]",
            "idset has a bracket without another at position 3; allowed are one pair around all, and none",
        ),
        (
            "4294967295",
            "idset has an id that is too large at position 0; allowed are 0 to 2147483647",
        ),
    ] {
        assert_eq!(said(text), expected);
    }
    assert_eq!(
        "[01]".parse::<Idset>(),
        Err(IdsetError::LeadingZero { at: 1 })
    );
}

#[test]
fn a_huge_idset_costs_as_much_as_a_small_one() {
    let mut all: Idset = "0-2147483647".parse().unwrap();
    assert_eq!(all.len(), 1 << 31);
    all.remove(5);
    all.insert(5);
    assert_eq!(all.ranges(), [(0, ID_MAX)]);
    assert!(all.contains(ID_MAX) && !all.contains(ID_MAX + 1));
    assert_eq!(all.lowest(3).to_string(), "0-2");
    assert!(all.difference(&all).is_empty());
    assert_eq!(all.union(&Idset::one(ID_MAX)), all);
}

#[test]
fn durations_have_the_values_of_rfc_23() {
    let ok = [
        ("2ms", 2_000),
        ("1.2h", 4_320_000_000),
        ("5d", 432_000_000_000),
        ("0", 0),
        ("0.1s", 100_000),
        ("90", 90_000_000),
        ("1e3s", 1_000_000_000),
        (".5m", 30_000_000),
        ("5.", 5_000_000),
        ("+1s", 1_000_000),
        ("0.0000005", 1),
        ("1e-99", 0),
        ("0e999", 0),
        ("9223372036854.775807s", i64::MAX),
        ("0.000000000000000000000000000000000000000001d", 0),
        (" 7s ", 7_000_000),
    ];
    for (text, micros) in ok {
        assert_eq!(parse_fsd(text), Ok(Fsd::Finite(micros)), "{text}");
    }
    for text in ["inf", "INFINITY", "Inf", "+inf"] {
        assert_eq!(parse_fsd(text), Ok(Fsd::Infinite), "{text}");
    }
    for text in [
        "",
        " ",
        "-1",
        "-inf",
        "nan",
        "NaN",
        "1x",
        "1 s",
        "s",
        ".",
        "1e",
        "infs",
        "1e400",
        "1S",
        "1sec",
        "9223372036854.775808s",
        "1e99d",
        "1.2.3",
        "0x10",
        "--1",
        "1e9999999999999",
    ] {
        assert!(parse_fsd(text).is_err(), "{text}");
    }
    assert_eq!(
        parse_fsd("-3s"),
        Err(FsdError::Negative {
            given: "-3s".to_owned()
        })
    );
}

#[test]
fn a_bare_number_is_minutes_on_the_command_line_only() {
    assert_eq!(parse_minutes_or_fsd("1.5"), Ok(Fsd::Finite(90_000_000)));
    assert_eq!(parse_minutes_or_fsd("1.5s"), Ok(Fsd::Finite(1_500_000)));
    assert_eq!(parse_minutes_or_fsd("inf"), Ok(Fsd::Infinite));
}

#[test]
fn durations_print_exactly_in_the_longest_short_unit() {
    for (micros, text) in [
        (0, "0s"),
        (2_000, "2ms"),
        (1, "0.000001s"),
        (1_500, "1.5ms"),
        (90_000_000, "1.5m"),
        (4_320_000_000, "1.2h"),
        (432_000_000_000, "5d"),
        (61_234_567, "61.234567s"),
        (i64::MAX, "9223372036854.775807s"),
    ] {
        assert_eq!(Fsd::Finite(micros).to_string(), text);
    }
}

#[test]
fn numbers_of_seconds_must_be_times() {
    assert_eq!(micros_of_seconds(1.5), Ok(1_500_000));
    assert_eq!(
        micros_of_seconds(1_700_000_000.123456),
        Ok(1_700_000_000_123_456)
    );
    for seconds in [
        -1.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e300,
        1e11,
    ] {
        assert!(micros_of_seconds(seconds).is_err(), "{seconds}");
    }
}

#[test]
fn hostlists_have_the_values_of_rfc_29() {
    for (text, expanded) in [
        ("", ""),
        ("foox,fooy,fooz", "foox,fooy,fooz"),
        ("[1-3,5-6]", "1,2,3,5,6"),
        ("foo[1-5]", "foo1,foo2,foo3,foo4,foo5"),
        (
            "foo[0-4]-eth2",
            "foo0-eth2,foo1-eth2,foo2-eth2,foo3-eth2,foo4-eth2",
        ),
        ("foo1,foo1,foo1", "foo1,foo1,foo1"),
        ("[00-02]", "00,01,02"),
        ("[00-2]", "00,01,02"),
        ("foo[1,1,2,1]", "foo1,foo1,foo2,foo1"),
        ("[005,4,11-13]", "005,004,011,012,013"),
        (",1,2", "1,2"),
        ("foo[3]-eth2", "foo3-eth2"),
    ] {
        let list: Hostlist = text.parse().unwrap();
        let hosts: Vec<String> = list.hosts().collect();
        assert_eq!(hosts.join(","), expanded, "{text}");
        assert_eq!(list.len(), hosts.len() as u64);
    }
}

#[test]
fn hostlists_shorten_only_neighbours() {
    for (text, short) in [
        ("foo1,fooi,foo2,foo3", "foo1,fooi,foo[2-3]"),
        ("foo1,foo2,foo3,foo5", "foo[1-3,5]"),
        ("foo1,foo1", "foo[1,1]"),
        ("foo9,foo10", "foo[9-10]"),
        ("foo09,foo10", "foo[09-10]"),
        ("foo9,foo010", "foo9,foo010"),
        ("a1,b2", "a1,b2"),
        ("foo[1-2],foo3", "foo[1-3]"),
        ("n01,n2", "n01,n2"),
        ("foo[0-1]-eth2", "foo[0-1]-eth2"),
    ] {
        assert_eq!(
            text.parse::<Hostlist>().unwrap().to_string(),
            short,
            "{text}"
        );
    }
}

#[test]
fn what_is_no_hostlist_is_told_where_and_what_is_allowed() {
    let said = |text: &str| {
        let read = text.parse::<Hostlist>();
        read.expect_err("it is wrong").to_string()
    };
    for (text, expected) in [
        (
            "a,b[1,9-7]",
            "hostlist has the range 9-7 at position 6; the last must not be below the first",
        ),
        (
            "a[1,x]",
            "hostlist has `x` at position 4 in brackets; allowed are numbers of at most 15 digits and ranges",
        ),
        (
            "a,b[1",
            "hostlist has no `]` for the `[` at position 3; allowed are pairs",
        ),
        (
            "a]",
            "hostlist has ']' at position 1; allowed are printable ASCII without blanks, commas between hosts, and \
             one pair of brackets around numbers",
        ),
    ] {
        assert_eq!(said(text), expected);
    }
}

#[test]
fn hostlists_are_bounded_before_they_grow() {
    let too_many = "foo[0-1048576]".parse::<Hostlist>();
    assert_eq!(
        too_many,
        Err(HostlistError::TooManyHosts { hosts: 1_048_577 })
    );
    assert!("foo[0-1048575]".parse::<Hostlist>().is_ok());
    for text in [
        "foo[",
        "foo]",
        "foo[1",
        "foo[]",
        "foo[1-]",
        "foo[a]",
        "foo[[1]]",
        "foo[1][2]",
        "fo o",
        "foo[3-1]",
        "foo[1,]",
        "é",
        "foo\n",
        "a[1]b]",
        "foo[1-2-3]",
        "foo[9999999999999999]",
    ] {
        assert!(text.parse::<Hostlist>().is_err(), "{text}");
    }
    assert!("x".repeat(256).parse::<Hostlist>().is_err());
}

#[test]
fn event_lines_print_microseconds_exactly() {
    let event = EventLine::at(1_700_000_000_123_456, "clean".to_owned(), None);
    let line = "{\"timestamp\":1700000000.123456,\"name\":\"clean\"}\n";
    assert_eq!(event.encode(), line);
    assert_eq!(EventLine::parse(line), Ok(event));
    let line = "{\"timestamp\":7.5,\"name\":\"a\\\"b\",\"context\":{\"k\":[1,null]}}";
    let event = EventLine::parse(line).unwrap();
    assert_eq!(event.micros(), 7_500_000);
    assert_eq!(EventLine::parse(&event.encode()), Ok(event));
}

#[test]
fn event_lines_need_a_time_and_a_name() {
    for line in [
        "",
        "{}",
        "[]",
        r#"{"timestamp":1.0}"#,
        r#"{"timestamp":-1.0,"name":"a"}"#,
        r#"{"timestamp":0,"name":"a"}"#,
        r#"{"timestamp":1e99,"name":"a"}"#,
        r#"{"timestamp":1,"name":""}"#,
        r#"{"timestamp":1,"name":"a","context":3}"#,
        r#"{"timestamp":1,"name":"a","more":3}"#,
        "{\"timestamp\":1,\n\"name\":\"a\"}",
    ] {
        assert!(EventLine::parse(line).is_err(), "{line}");
    }
    let zero = EventLine::parse(r#"{"timestamp":0.0,"name":"a"}"#);
    assert_eq!(zero, Err(EventLineError::Timestamp { given: 0.0 }));
}

#[test]
fn hashes_are_sha256_in_hexadecimal() {
    let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(Hash::of(b"abc").to_string(), text);
    assert_eq!(text.parse(), Ok(Hash::of(b"abc")));
    assert_eq!(
        serde_json::to_string(&Hash::of(b"abc")).unwrap(),
        format!("\"{text}\"")
    );
    for wrong in ["", "abc", &"g".repeat(64), &"A".repeat(64), &"é".repeat(32)] {
        assert!(wrong.parse::<Hash>().is_err(), "{wrong}");
    }
}

#[test]
fn jobs_are_taken_out_of_ranges_of_any_length() {
    use eddy_wire::services::job::JobSet;
    let id = JobId;
    let named = JobSet {
        ranges: vec![(id(1), id(u64::MAX)), (id(9), id(3))],
    };
    let without = |jobs: &[u64]| {
        named
            .without(&jobs.iter().copied().map(id).collect())
            .ranges
    };
    assert_eq!(without(&[1, 7]), [(id(2), id(6)), (id(8), id(u64::MAX))]);
    assert_eq!(without(&[0, u64::MAX]), [(id(1), id(u64::MAX - 1))]);
    assert_eq!(without(&[]), [(id(1), id(u64::MAX))]);
}

#[test]
fn a_set_of_jobs_is_read_in_any_order_and_counted_without_end() {
    use eddy_wire::services::job::JobSet;
    let read = |text: &str| -> JobSet { serde_json::from_str(text).expect("ranges") };
    let all = u64::MAX;
    for (text, ranges, len) in [
        (r#"{"ranges":[[5,5],[5,5]]}"#, vec![(5, 5)], 1),
        (r#"{"ranges":[[7,9],[1,2],[2,4]]}"#, vec![(1, 4), (7, 9)], 7),
        (r#"{"ranges":[[1,9],[2,3],[9,9]]}"#, vec![(1, 9)], 9),
        (
            r#"{"ranges":[[0,18446744073709551615],[3,4]]}"#,
            vec![(0, all)],
            all,
        ),
        (r#"{"ranges":[[1,1],[2,3]]}"#, vec![(1, 1), (2, 3)], 3),
        (r#"{"ranges":[]}"#, vec![], 0),
    ] {
        let set = read(text);
        let told: Vec<(u64, u64)> = set.ranges.iter().map(|(a, b)| (a.0, b.0)).collect();
        assert_eq!((told, set.len()), (ranges, len), "{text}");
    }
    let reversed = read(r#"{"ranges":[[4,4],[3,1]]}"#);
    assert_eq!(reversed.reversed(), Some((JobId(3), JobId(1))));
    assert_eq!(
        reversed.len(),
        2,
        "it is refused, and counts as something until then"
    );
}
