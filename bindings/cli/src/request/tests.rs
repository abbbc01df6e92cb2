//! Options in, jobspec out: what `--dry-run` prints.

use clap::Parser;
use serde_json::{Value, json};

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: JobOptions,
}

fn options(line: &str) -> Result<JobOptions, clap::Error> {
    let words = ["eddy"].into_iter().chain(line.split_whitespace());
    Line::try_parse_from(words).map(|line| line.options)
}

fn jobspec(line: &str) -> Value {
    let jobspec = options(line)
        .expect("options")
        .jobspec(Stdin::Empty)
        .expect("a jobspec");
    serde_json::to_value(&jobspec).expect("JSON")
}

fn system(line: &str, key: &str) -> Value {
    let mut value = &jobspec(line)["attributes"]["system"];
    for part in key.split('/') {
        value = &value[part];
    }
    value.clone()
}

#[test]
fn options_end_at_the_command() {
    let options = options("-n 2 prog -n 3 --help -- x").expect("options");
    assert_eq!(options.ntasks, Some(2));
    assert_eq!(options.command, ["prog", "-n", "3", "--help", "--", "x"]);
}

#[test]
fn an_unknown_option_before_the_command_is_no_command() {
    assert!(options("--bogus prog").is_err());
    assert!(
        options("--ntask 2 prog").is_err(),
        "long options are not abbreviated"
    );
    assert!(options("").is_err());
}

#[test]
fn two_dashes_make_anything_a_command() {
    assert_eq!(
        options("-n 2 -- -prog").expect("options").command,
        ["-prog"]
    );
}

#[test]
fn tasks_and_nodes_become_slots() {
    let plain = jobspec("true");
    assert_eq!(plain["resources"][0]["type"], "slot");
    assert_eq!(plain["tasks"][0]["count"], json!({"per_slot": 1}));
    let nodes = jobspec("-N 2 -n 8 -c 4 -g 1 true");
    assert_eq!(nodes["resources"][0]["count"], 2);
    assert_eq!(nodes["resources"][0]["with"][0]["count"], 4);
    assert_eq!(jobspec("-N 2 true")["resources"][0]["exclusive"], true);
}

#[test]
fn a_time_limit_without_unit_counts_minutes() {
    assert_eq!(system("-t 5 true", "duration"), 300);
    assert_eq!(system("-t 1.5s true", "duration"), 1.5);
    assert_eq!(system("-t inf true", "duration"), 0);
    assert_eq!(system("-t inf true", "unlimited"), true);
    assert_eq!(system("-t 5 true", "unlimited"), Value::Null);
    assert_eq!(system("true", "unlimited"), Value::Null);
    for wrong in ["0", "-1", "NaN", "5 weeks"] {
        let line = format!("--time-limit={} true", wrong.replace(' ', ""));
        let options = options(&line).expect("a text");
        assert!(options.jobspec(Stdin::Attached).is_err(), "{wrong}");
    }
}

#[test]
fn memory_is_of_each_node_and_counts_mebibytes_without_unit() {
    assert_eq!(system("--mem=4G true", "memory_per_node"), "4G");
    assert_eq!(system("--mem=512 true", "memory_per_node"), "512M");
    assert_eq!(system("--mem-per-task=1G true", "memory_per_task"), "1G");
    assert!(options("--mem=0 true").is_err() && options("--mem=4X true").is_err());
}

#[test]
fn files_of_tasks_are_shell_options() {
    let shell = system("--output=o.{{id}} --error=e true", "shell/options");
    assert_eq!(
        shell["output"],
        json!({
            "stdout": {"type": "file", "path": "o.{{id}}"},
            "stderr": {"type": "file", "path": "e"},
        })
    );
    let slurm = system("--output=%x.%j true", "shell/options");
    assert_eq!(slurm["output"]["stdout"]["path"], "{{name}}.{{id}}");
    // In Flux's words it is a name like any other.
    let flux = system("-o output.stdout.path=%j true", "shell/options");
    assert_eq!(flux["output"]["stdout"]["path"], "%j");
    let stdin = |line: &str, stdin: Stdin| {
        let jobspec = options(line)
            .expect("options")
            .jobspec(stdin)
            .expect("a jobspec");
        jobspec.shell_option("input.stdin").cloned()
    };
    assert_eq!(stdin("true", Stdin::Empty), None);
    assert_eq!(
        stdin("true", Stdin::Attached),
        Some(json!({"type": "service"}))
    );
    assert_eq!(
        stdin("--input=i true", Stdin::Attached),
        Some(json!({"type": "file", "path": "i"}))
    );
}

#[test]
fn lines_of_files_are_not_labelled_and_that_is_said() {
    let jobspec = |line: &str| options(line).expect("options").jobspec(Stdin::Empty);
    for (line, named) in [
        ("-l --output=o true", "--output=o"),
        ("-l --output=none --error=e true", "--error=e"),
    ] {
        let error = jobspec(line).expect_err("refused").to_string();
        assert!(
            error.starts_with("--label-io: with ") && error.contains(named),
            "{error}"
        );
    }
    assert!(jobspec("-l --output=none true").is_ok() && jobspec("-l true").is_ok());
}

#[test]
fn shell_options_and_attributes_are_json_or_texts() {
    let shell = system("-o verbose -o a.b=[1] -o c=text true", "shell/options");
    let set = ["verbose", "a", "c"].map(|key| &shell[key]);
    assert_eq!(set, [&json!(1), &json!({"b": [1]}), &json!("text")]);
    let spec = jobspec("-S foo=2 -S user.bar=x -S .user.baz true");
    assert_eq!(spec["attributes"]["system"]["foo"], 2);
    assert_eq!(spec["attributes"]["user"], json!({"bar": "x", "baz": 1}));
}

#[test]
fn of_a_shell_option_that_nobody_obeys_it_is_said_that_it_does_nothing() {
    let said = |line: &str| options(line).expect("options").terms.unknown_options();
    assert_eq!(
        said("-o bogus=1 -o rlimit.core=0 -o verbose true").as_deref(),
        Some(
            "eddy: -o: `bogus`, `verbose` given, which does nothing here; known are cpu-affinity, gpu-affinity, \
             input, output, per-resource, rlimit, signal, umask"
        )
    );
    let known =
        "-o cpu-affinity=off -o output.stdout.path=o -o per-resource.type=core -o signal true";
    assert_eq!(said(known), None);
}

#[test]
fn of_an_attribute_that_nothing_reads_it_is_said_that_it_does_nothing() {
    let said = |line: &str| {
        let options = options(line).expect("options");
        remark(&options.jobspec(Stdin::Empty).expect("a jobspec"))
    };
    assert_eq!(
        said("-S duratoin=2 -S site.x=1 true").as_deref(),
        Some("eddy: attributes.system: `duratoin`, `site` given, which does nothing here")
    );
    assert_eq!(said("-S user.x=1 -S qos=low --job-set=a -t 1 true"), None);
}

#[test]
fn limits_and_umask_are_those_of_this_process_and_never_anothers() {
    let own = system("true", "shell/options");
    assert!(own["rlimit"]["core"].is_i64() && own["rlimit"]["memlock"].is_null());
    assert!(own["umask"].is_string());
    let rules = system("--rlimit=-*,core=7 -o umask=077 true", "shell/options");
    assert_eq!(rules["rlimit"], json!({"core": 7}));
    assert_eq!(rules["umask"], "077");
    assert_eq!(system("--as=root true", "shell/options"), Value::Null);
    let asked = system("--as=root --rlimit=core=0 true", "shell/options");
    assert_eq!(asked, json!({"rlimit": {"core": 0}}));
}

#[test]
fn urgency_is_a_number_or_a_word() {
    let urgency = |line: &str| {
        let request = options(line)?
            .request(None, Stdin::Empty)
            .expect("a request");
        Ok::<_, clap::Error>(request.urgency)
    };
    assert_eq!(urgency("true").expect("default"), 16);
    assert_eq!(urgency("--urgency=hold true").expect("hold"), 0);
    assert_eq!(urgency("--urgency=31 true").expect("31"), 31);
    assert!(urgency("--urgency=32 true").is_err() && urgency("--urgency=-1 true").is_err());
}

#[test]
fn counts_that_are_none_are_refused() {
    for line in ["-n 65537 true", "-N 4 -n 2 true", "-x true"] {
        let options = options(line).expect("numbers");
        assert!(options.jobspec(Stdin::Attached).is_err(), "{line}");
    }
    for nodes in ["0", "0-2", "4-2", "2-", "two"] {
        assert!(options(&format!("-N {nodes} true")).is_err(), "{nodes}");
    }
    for count in ["0", "-1", "99999999999"] {
        assert!(options(&format!("-n {count} true")).is_err(), "{count}");
        assert!(options(&format!("-c {count} true")).is_err(), "{count}");
    }
}

#[test]
fn rules_change_the_environment() {
    let environment = system("--env=-* --env=A=1 true", "environment");
    assert_eq!(environment, json!({"A": "1"}));
}
