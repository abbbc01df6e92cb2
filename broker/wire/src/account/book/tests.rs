//! Changes of the tree of accounts, and what is refused.

use super::*;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn account(text: &str, parent: Option<&str>) -> Change {
    Change::Account {
        name: name(text),
        value: Some(Account {
            parent: parent.map(name),
            ..Account::default()
        }),
    }
}

fn member(account: &str, user: u32) -> Change {
    Change::Member {
        account: name(account),
        user,
        value: Some(Member::default()),
    }
}

fn book(changes: &[Change]) -> Book {
    let mut book = Book::default();
    for change in changes {
        book.check(change).expect("a change that may be made");
        book.apply(change);
    }
    book
}

#[test]
fn an_account_is_neither_under_itself_nor_too_deep() {
    let mut book = book(&[account("a", None), account("b", Some("a"))]);
    let wrong = book.check(&account("a", Some("b"))).expect_err("a cycle");
    assert_eq!(
        wrong.to_string(),
        "parent: `b` given for account `a`, which would be under itself (a under b under a); \
         allowed are root and accounts that are not under it"
    );
    let wrong = book.check(&account("a", Some("a"))).expect_err("a cycle");
    assert!(wrong.to_string().contains("(a under a)"), "{wrong}");
    assert!(book.check(&account("c", Some("nobody"))).is_err());
    let mut above = "b".to_owned();
    for depth in 3..=DEPTH_MAX {
        let next = format!("d{depth}");
        let change = account(&next, Some(&above));
        book.check(&change).expect("deep enough");
        book.apply(&change);
        above = next;
    }
    let wrong = book.check(&account("e", Some(&above))).expect_err("deep");
    assert!(wrong.to_string().contains("would be 17 deep"), "{wrong}");
    // A whole branch counts where it would hang.
    book.apply(&account("x", None));
    assert!(book.check(&account("a", Some("x"))).is_err());
}

#[test]
fn accounts_of_a_document_that_are_under_themselves_are_named_with_the_way() {
    let mut book = Book::default();
    book.apply(&account("lone", Some("a")));
    for (name, parent) in [("a", "c"), ("b", "a"), ("c", "b")] {
        assert_eq!(book.check_rings(), Ok(()));
        book.apply(&account(name, Some(parent)));
    }
    let wrong = book.check_rings().expect_err("a cycle").to_string();
    assert!(wrong.contains("(a under c under b under a)"), "{wrong}");
}

#[test]
fn what_has_others_under_it_stays_and_a_default_goes_with_its_member() {
    let mut book = book(&[account("a", None), member("a", 7)]);
    let remove = Change::Account {
        name: name("a"),
        value: None,
    };
    let wrong = book.check(&remove).expect_err("not empty");
    assert!(wrong.to_string().contains("0 accounts and 1 users"));
    book.apply(&Change::User {
        user: 7,
        value: Some(User {
            account: Some(name("a")),
            ..User::default()
        }),
    });
    let leave = Change::Member {
        account: name("a"),
        user: 7,
        value: None,
    };
    let follows = book.follow(&leave).expect("the default");
    assert_eq!(
        follows,
        Change::User {
            user: 7,
            value: None
        }
    );
    [&leave, &follows, &remove]
        .iter()
        .for_each(|change| book.apply(change));
    assert!(book.is_empty() && book.users().next().is_none());
}

#[test]
fn a_job_is_charged_to_what_it_names_or_to_the_default() {
    let empty = Book::default();
    assert_eq!(empty.charged("account", 7, None), Ok(None));
    assert!(empty.charged("account", 7, Some("a")).is_err());
    let mut book = book(&[account("a", None), account("b", None), member("a", 7)]);
    let text = |book: &Book, user, asked| match book.charged("account", user, asked) {
        Ok(found) => found.map_or_else(String::new, |name| name.to_string()),
        Err(error) => error.to_string(),
    };
    assert_eq!(text(&book, 7, None), "a");
    assert_eq!(text(&book, 8, None), "account: user 8 is in no account");
    assert_eq!(
        text(&book, 7, Some("b")),
        "account: user 7 is not in account `b`; allowed are a"
    );
    assert_eq!(
        text(&book, 8, Some("b")),
        "account: user 8 is not in account `b`, nor in any other"
    );
    assert_eq!(
        text(&book, 7, Some("no")),
        "account: there is no account `no`; there are a, b"
    );
    let many = |at: u8| account(&format!("c{at:02}"), None);
    let crowd = book.clone();
    let crowd = (0..20).map(many).fold(crowd, |mut crowd, change| {
        crowd.apply(&change);
        crowd
    });
    let told = text(&crowd, 7, Some("no"));
    assert!(told.ends_with("there are a, b, c00, c01, c02, c03, c04, c05, c06, c07, c08, c09, c10, c11, c12, c13, ..."), "{told}");
    book.apply(&member("b", 7));
    assert!(text(&book, 7, None).ends_with("no default; there are a, b"));
    book.apply(&Change::User {
        user: 7,
        value: Some(User {
            account: Some(name("b")),
            ..User::default()
        }),
    });
    assert_eq!(text(&book, 7, None), "b");
    assert_eq!(text(&book, 7, Some("a")), "a");
}

#[test]
fn the_number_that_is_no_user_is_in_no_account_and_can_be_taken_out() {
    let mut book = book(&[account("a", None)]);
    let text = "user: 4294967295 given, which stands for no user; allowed are 0 to 4294967294";
    let wrong = book.check(&member("a", u32::MAX)).expect_err("no user");
    assert_eq!(wrong.to_string(), text);
    let over_all = Change::User {
        user: u32::MAX,
        value: Some(User::default()),
    };
    let wrong = book.check(&over_all).expect_err("no user");
    assert_eq!(wrong.to_string(), text);
    // Who recorded one before it was refused is rid of it.
    book.apply(&member("a", u32::MAX));
    let gone = Change::Member {
        account: name("a"),
        user: u32::MAX,
        value: None,
    };
    assert_eq!(book.check(&gone), Ok(()));
}

#[test]
fn qos_is_inherited_downwards() {
    let mut book = book(&[account("a", None), account("b", Some("a")), member("b", 7)]);
    let set = |names: &[&str], default: Option<&str>| QosRules {
        allowed: Some(names.iter().map(|text| name(text)).collect()),
        default: default.map(name),
    };
    let of = |book: &Book, asked: Option<&str>| {
        let found = book.qos("qos", &name("b"), 7, asked.map(name));
        found.map(|qos| qos.map(|name| name.to_string()))
    };
    assert_eq!(of(&book, Some("any")), Ok(Some("any".to_owned())));
    assert_eq!(of(&book, None), Ok(None));
    book.apply(&Change::Account {
        name: name("a"),
        value: Some(Account {
            qos: set(&["low", "normal"], Some("normal")),
            ..Account::default()
        }),
    });
    assert_eq!(of(&book, None), Ok(Some("normal".to_owned())));
    let wrong = of(&book, Some("high")).expect_err("not allowed");
    assert_eq!(
        wrong.to_string(),
        "qos: `high` is given; account `a` may have low, normal"
    );
    book.apply(&Change::Member {
        account: name("b"),
        user: 7,
        value: Some(Member {
            qos: set(&["low"], None),
            ..Member::default()
        }),
    });
    let wrong = of(&book, Some("normal")).expect_err("not his");
    assert_eq!(
        wrong.to_string(),
        "qos: `normal` is given; user 7 in account `b` may have low"
    );
    let change = Change::Account {
        name: name("a"),
        value: Some(Account {
            qos: set(&["low"], Some("high")),
            ..Account::default()
        }),
    };
    assert!(book.check(&change).is_err());
}

#[test]
fn a_default_that_is_inherited_is_among_those_allowed() {
    let mut book = book(&[account("a", None), account("b", Some("a")), member("b", 7)]);
    let rules = |names: &[&str], default: Option<&str>| QosRules {
        allowed: (!names.is_empty()).then(|| names.iter().map(|text| name(text)).collect()),
        default: default.map(name),
    };
    let of_a = |qos: QosRules| Change::Account {
        name: name("a"),
        value: Some(Account {
            qos,
            ..Account::default()
        }),
    };
    let of_b = |qos: QosRules| Change::Account {
        name: name("b"),
        value: Some(Account {
            parent: Some(name("a")),
            qos,
            ..Account::default()
        }),
    };
    let of_user = |qos: QosRules| Change::Member {
        account: name("b"),
        user: 7,
        value: Some(Member {
            qos,
            ..Member::default()
        }),
    };
    book.apply(&of_a(rules(&["low", "normal"], Some("normal"))));
    let wrong = |change: &Change| book.check(change).err().map(|error| error.to_string());
    let without = "qos.allowed: low given, without `normal`, which is the default of account `a` and so of jobs here; \
                   allowed is a list with it, or another default beside it";
    assert_eq!(
        wrong(&of_b(rules(&["low"], None))).as_deref(),
        Some(without)
    );
    assert_eq!(
        wrong(&of_user(rules(&["low"], None))).as_deref(),
        Some(without)
    );
    let beyond = "qos.default: `high` is given; account `a` may have low, normal";
    assert_eq!(
        wrong(&of_user(rules(&[], Some("high")))).as_deref(),
        Some(beyond)
    );
    let both = [rules(&["low"], Some("low")), rules(&[], Some("low"))];
    assert!(
        both.iter()
            .all(|rules| wrong(&of_b(rules.clone())).is_none())
    );
    // What stood there before keeps nobody from changing something else.
    book.apply(&of_b(rules(&["low"], None)));
    assert_eq!(book.check(&of_b(rules(&["low"], None))), Ok(()));
}

#[test]
fn a_book_is_made_again_by_its_changes_in_any_order() {
    let changes = [
        account("z", None),
        account("a", Some("z")),
        member("a", 1),
        member("z", 2),
        account("m", Some("a")),
    ];
    let book = book(&changes);
    let mut again = Book::default();
    book.to_changes().iter().for_each(|c| again.apply(c));
    assert_eq!(book, again);
    let mut backwards = Book::default();
    changes.iter().rev().for_each(|c| backwards.apply(c));
    assert_eq!(book.to_changes(), backwards.to_changes());
    let line: Vec<String> = book
        .line(&name("m"))
        .map(|(name, _)| name.to_string())
        .collect();
    assert_eq!(line, ["m", "a", "z"]);
    assert_eq!(
        serde_json::to_value(&changes[1]).expect("JSON"),
        serde_json::json!({"account": {"name": "a", "value": {"parent": "z", "shares": 1}}})
    );
}

#[test]
fn names_are_of_a_small_alphabet() {
    for text in ["a", "A_b-c.9", "_x", "9", &"n".repeat(64)] {
        assert!(text.parse::<Name>().is_ok(), "{text}");
    }
    for text in ["", "root", "-a", ".a", "a b", "a/b", "é", &"n".repeat(65)] {
        assert!(text.parse::<Name>().is_err(), "{text}");
    }
}
