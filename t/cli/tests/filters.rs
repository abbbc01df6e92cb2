//! Filters of submissions as real processes: what they change, refuse and record, and what becomes of
//! submissions when they are late, die or talk nonsense.

use std::path::Path;

use anyhow::Context as _;
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use rustix::process::Signal;
use serde_json::{Value, json};

type Tested = anyhow::Result<()>;

/// Its pause doubles each time: by then it is longer than any line waits.
const TRIES_MAX: usize = 20;

/// Does what the name of the job says; a second line of it is unasked for.
const FILTER: &str = r#"
echo >> started
while read -r job
do
    case $job in
    *'"name":"no"'*) echo '{"action":"refuse","reason":"not this one"}' ;;
    *'"name":"long"'*) echo '{"action":"modify","set":{"queue":"long","urgency":9,"name":"longer"}}' ;;
    *'"name":"calm"'*) echo '{"action":"modify","set":{"urgency":null}}' ;;
    *'"name":"bad"'*) echo '{"action":"modify","set":{"queue":"nowhere"}}' ;;
    *'"name":"nonsense"'*) echo 'yes, please' ;;
    *'"name":"twice"'*) printf '{"action":"accept"}\n{"action":"refuse","reason":"stale"}\n' ;;
    *'"name":"once"'*) if [ -e died ]; then echo '{"action":"accept"}'; else : > died; exit 3; fi ;;
    *'"name":"dies"'*) exit 3 ;;
    *'"name":"late"'*) read -r never < fifo ;;
    *'"name":"asked"'*) echo asked > told; read -r line < go; echo '{"action":"accept"}' ;;
    *) echo "$job" > last; echo '{"action":"accept"}' ;;
    esac
done
"#;

const QUEUES: &str = "[[queue]]\nname = \"long\"\ndefault_time = \"8h\"\n\
                      [[queue]]\nname = \"short\"\ndefault = true\ndefault_time = \"5m\"\n";

fn config(place: &Path, on_failure: &str) -> String {
    let place = place.display();
    format!(
        "{QUEUES}[[ingest.filter]]\nname = \"site\"\non_failure = \"{on_failure}\"\n\
         command = [\"sh\", \"-c\", \"cd {place} && exec sh filter.sh\"]\n"
    )
}

fn start(on_failure: &str) -> anyhow::Result<Instance> {
    let place = Place::new()?;
    std::fs::write(place.path().join("filter.sh"), FILTER)?;
    let _fifo = place.fifo("fifo")?;
    let file = place.path().join("eddy.toml");
    std::fs::write(&file, config(place.path(), on_failure))?;
    let (file, state) = (file.display().to_string(), place.path().join("state"));
    let fake = ["--fake", "nodes=2,cores=2", "--config", &file];
    let endless = ["-S", "exec.test.run_duration=3000s"];
    Instance::start_in(place, state, &[&fake[..], &endless].concat())
}

/// Who is ended before the answer to the submission is there leaves no job behind that nobody knows of.
#[test]
fn a_command_that_is_ended_as_it_submits_ends_what_it_submitted() -> Tested {
    let instance = start("refuse")?;
    let (mut told, mut go) = (instance.place.fifo("told")?, instance.place.fifo("go")?);
    for verb in ["run", "alloc"] {
        let running = instance.begin(&[verb, "--job-name", "asked", "true"])?;
        told.line()?;
        running.signal(Signal::TERM)?;
        go.let_go(1)?;
        let ran = running.wait()?;
        let job = instance.ok(&["job", "last"])?;
        let said = format!("eddy {verb}: cancelling job {job}, whose end is not waited for\n");
        assert_eq!((ran.code, ran.err), (128 + 15, said));
        instance.event(&job, "clean")?;
    }
    // Nobody answers.
    let running = instance.begin(&["run", "--job-name", "asked", "true"])?;
    told.line()?;
    running.signal(Signal::TERM)?;
    let ran = running.wait()?;
    let said = "eddy: the instance does not answer; if it took the job, the job goes on\n";
    assert_eq!((ran.code, ran.err.as_str()), (128 + 15, said));
    Ok(())
}

fn named(instance: &Instance, name: &str) -> anyhow::Result<String> {
    instance.submit(&["--job-name", name, "true"])
}

fn refused(instance: &Instance, name: &str) -> anyhow::Result<String> {
    let ran = instance.run(&["submit", "--job-name", name, "true"])?;
    assert_eq!(ran.code, 1);
    ran.refusal().map(str::to_owned)
}

/// What filters did, as the record of the submission says.
fn filtered(instance: &Instance, job: &str) -> anyhow::Result<Value> {
    let log = instance.ok(&["job", "eventlog", "--format", "json", job])?;
    let first = log.lines().next().unwrap_or_default();
    let submit: Value = serde_json::from_str(first)?;
    Ok(submit["context"]["filtered"].clone())
}

#[test]
fn a_filter_accepts_changes_and_refuses_and_what_it_changed_is_kept() -> Tested {
    let instance = start("refuse")?;
    let plain = named(&instance, "plain")?;
    assert_eq!(filtered(&instance, &plain)?, Value::Null);
    let told = std::fs::read_to_string(instance.place.path().join("last"))?;
    let told: Value = serde_json::from_str(&told)?;
    assert_eq!(
        (&told["queue"], &told["effective"]["queue"]),
        (&Value::Null, &json!("short"))
    );
    assert_eq!(told["effective"]["time_limit"], json!(300));
    assert_eq!((&told["cores"], &told["count"]), (&json!(1), &json!(1)));
    assert!(told["user_name"].is_string(), "{told}");
    assert!(
        told["jobspec"]["attributes"]["system"]
            .get("environment")
            .is_none(),
        "{told}"
    );
    let long = named(&instance, "long")?;
    let row = instance.row(&long)?;
    assert_eq!(
        [
            &row["queue"],
            &row["name"],
            &row["urgency"],
            &row["duration"]
        ],
        [&json!("long"), &json!("longer"), &json!(9), &json!(28800.0)]
    );
    assert_eq!(
        filtered(&instance, &long)?,
        json!([{ "filter": "site", "changed": {
            "name": { "from": "long", "to": "longer" },
            "queue": { "from": null, "to": "long" },
            "urgency": { "from": 16, "to": 9 },
        } }])
    );
    let calm = instance.submit(&["--job-name=calm", "--urgency=20", "true"])?;
    assert_eq!(instance.row(&calm)?["urgency"], json!(16));
    assert_eq!(
        refused(&instance, "no")?,
        "eddy submit: filter `site`: not this one"
    );
    assert_eq!(
        refused(&instance, "bad")?,
        "eddy submit: attributes.system.queue: `nowhere` given, there are long, short (filter `site` changed queue)"
    );
    Ok(())
}

#[test]
fn a_filter_that_is_late_dies_or_talks_nonsense_refuses_where_nothing_else_is_said() -> Tested {
    let instance = start("refuse")?;
    let why = |name: &str| {
        let told = refused(&instance, name)?;
        let after = told.strip_prefix("eddy submit: filter `site` cannot be asked: ");
        anyhow::Ok(after.unwrap_or(&told).to_owned())
    };
    assert_eq!(why("late")?, "no answer within 5 s");
    named(&instance, "plain")?;
    let nonsense = why("nonsense")?;
    assert!(nonsense.starts_with("its answer is none: "), "{nonsense}");
    // What it died on it is asked once more, and another process has an answer.
    named(&instance, "once")?;
    // A stale line of one submission rules no other.
    named(&instance, "twice")?;
    named(&instance, "plain")?;
    // Who it dies on twice fails alone; one more, and others wait until it is there again.
    assert_eq!(why("dies")?, "its process ended with exit code 3");
    why("dies")?;
    named(&instance, "plain")?;
    let started = std::fs::read_to_string(instance.place.path().join("started"))?;
    assert!(started.lines().count() >= 5, "{started}");
    Ok(())
}

#[test]
fn who_waits_for_a_filter_that_is_ended_is_told_why_in_a_sentence() -> Tested {
    // It rests longer each time, so at some time not all of what waits for it can be answered.
    let instance = start("refuse\"\ntimeout = \"0.9s")?;
    let is_down = |said: &String| said.contains("; it is started again within ");
    let mut tries = (0..TRIES_MAX).map(|_| refused(&instance, "nonsense"));
    let down = tries.find(|said| said.as_ref().map_or(true, is_down));
    let down = down.context("it was never down")??;
    let begins = "eddy submit: filter `site` cannot be asked: its process was ended, since its answer is none: ";
    assert!(down.starts_with(begins), "{down}");
    Ok(())
}

#[test]
fn a_filter_that_fails_lets_in_where_that_is_said_and_it_is_kept() -> Tested {
    let instance = start("accept")?;
    let late = named(&instance, "late")?;
    assert_eq!(
        filtered(&instance, &late)?,
        json!([{ "filter": "site", "failed": "no answer within 5 s" }])
    );
    let dies = named(&instance, "dies")?;
    assert_eq!(
        filtered(&instance, &dies)?[0]["failed"],
        "its process ended with exit code 3"
    );
    Ok(())
}

#[test]
fn the_example_does_what_it_says() -> Tested {
    let place = Place::new()?;
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../doc/examples/filter.py");
    let example = example.canonicalize()?;
    let file = place.path().join("eddy.toml");
    let text = format!(
        "{QUEUES}[[queue]]\nname = \"debug\"\n[[ingest.filter]]\nname = \"site\"\ncommand = [\"python3\", {:?}]\n",
        example.display().to_string()
    );
    std::fs::write(&file, text)?;
    let (file, state) = (file.display().to_string(), place.path().join("state"));
    let fake = ["--fake", "nodes=1,cores=1", "--config", &file];
    let instance = Instance::start_in(place, state, &fake)?;
    let job = instance.submit(&["-q", "debug", "true"])?;
    assert_eq!(instance.row(&job)?["duration"], json!(3600.0));
    let long = instance.submit(&["-t", "2d", "true"])?;
    assert_eq!(instance.row(&long)?["queue"], json!("long"));
    Ok(())
}

#[test]
fn what_is_wrong_with_a_filter_is_told_by_its_key() -> Tested {
    let place = Place::new()?;
    let file = place.path().join("eddy.toml");
    std::fs::write(
        &file,
        "[[ingest.filter]]\nname = \"a b\"\ncommand = \"sh\"\ntimeout = \"5m\"\non_failure = \"ignore\"\nretry = 1\n",
    )?;
    let file = file.display().to_string();
    let ran = place.run(&["config", "check", &file])?;
    let lines: Vec<&str> = ran.err.lines().collect();
    assert_eq!(lines.len(), 5, "{lines:?}");
    for key in ["name", "command", "timeout", "on_failure", "retry"] {
        let path = format!("ingest.filter[0].{key}: ");
        assert!(lines.iter().any(|line| line.contains(&path)), "{lines:?}");
    }
    Ok(())
}
