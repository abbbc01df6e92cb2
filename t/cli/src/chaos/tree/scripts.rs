//! What runs inside a tree: tasks and workflows that sign a ledger outside of
//! every instance, so that there is a truth to compare with.
//!
//! A line of the ledger begins with the last task marker of its writer, which
//! names instance, job, attempt and rank. `round` puts the scripts there and
//! reads the ledger at the end.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, bail, ensure};
use eddy_cli_tests::place::Place;

use crate::chaos::dice::Dice;

/// Both scripts begin so; a line is one write at the ledger's end, so that no two mix.
const SIGN: &str = r#"#!/bin/sh
P=@PLACE@
E=@EDDY@
say() { echo "${EDDY_TASK##*:} ${EDDY_TASK_RANK:-0} $*" >>$P/ledger; }
say begin $(id -u)
"#;

/// $1 what to do, $2 exit code, $3 seconds.
const TASK: &str = r#"
case $1 in
stubborn) trap '' TERM ;;
daemon) setsid sleep 1000 </dev/null >/dev/null 2>&1 & ;;
child) sleep 1000 & ;;
speak) seq 1 2000 ;;
esac
sleep "$3"
say end "$2"
exit "$2"
"#;

/// $1 its name, $2 how many jobs it submits, $3 how many levels below it, $4 its exit code if all
/// goes well. It says which ids it was given, and what went otherwise than it had to.
const FLOW: &str = r#"
name=$1 jobs=$2 depth=$3 code=$4
trouble=0 ids= want=0 i=0
while [ $i -lt $jobs ]; do
  i=$((i + 1))
  exit=$((i % 3 == 2 ? 7 : 0))
  [ $exit = 0 ] || want=7
  if out=$($E submit --job-name=t-$name.$i-n1-c$exit $P/task exit $exit 0.0$((i % 10)) 2>>$P/err/$name); then
    for id in $out; do say accepted $id t-$name.$i-n1-c$exit; done
    ids="$ids $out"
  else
    say trouble submit $?; trouble=1
  fi
done
if [ $depth -gt 0 ]; then
  below="$P/flow $name.d $jobs $((depth - 1)) 5"
  case $((depth % 2)) in
  0) $E alloc -n1 --job-name=f-$name.d-c5 $below >/dev/null 2>>$P/err/$name ;;
  1) $E batch --wait --quiet --output=none --job-name=f-$name.d-c5 $below 2>>$P/err/$name ;;
  esac
  got=$?
  [ $got = 5 ] || { say trouble below $got; trouble=1; }
fi
$E job status $ids >/dev/null 2>>$P/err/$name
got=$?
[ $got = $want ] || { say trouble status $got; trouble=1; }
[ $trouble = 0 ] || code=99
say end $code
exit $code
"#;

/// Paths of the scripts.
#[derive(Clone, Debug)]
pub struct Scripts {
    /// What a job of tasks runs.
    pub task: String,
    /// What an instance is started for.
    pub flow: String,
    /// The program that jobs have.
    pub eddy: String,
}

impl Scripts {
    /// Puts them, and an empty ledger that everybody can sign, into a place; `eddy` is what they run.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn install(place: &Place, eddy: &str) -> anyhow::Result<Scripts> {
        let open = |name: &str, mode: u32| {
            fs::set_permissions(place.path().join(name), Permissions::from_mode(mode))
        };
        fs::write(place.path().join("ledger"), "")?;
        open("ledger", 0o666)?;
        fs::create_dir(place.path().join("err"))?;
        open("err", 0o1777)?;
        let whole = |body: &str| {
            format!("{SIGN}{body}")
                .replace("@PLACE@", &place.path().display().to_string())
                .replace("@EDDY@", eddy)
        };
        Ok(Scripts {
            task: place.script("task", &whole(TASK))?,
            flow: place.script("flow", &whole(FLOW))?,
            eddy: eddy.to_owned(),
        })
    }

    /// The command of a random task, and the code that it ends with if nobody disturbs it.
    pub fn any_task(&self, dice: &mut Dice) -> (Vec<String>, i32) {
        let kinds = [
            "exit", "exit", "exit", "daemon", "child", "speak", "stubborn",
        ];
        let kind = dice.pick(&kinds);
        let code = dice.pick(&[0, 0, 0, 1, 42]);
        let millis = dice.pick(&[0, 5, 20, 50, 150, 400, 1000]);
        let seconds = format!("{:.3}", f64::from(millis) / 1000.0);
        let words = [&self.task, kind, &code.to_string(), &seconds];
        (words.map(str::to_owned).to_vec(), code)
    }
}

/// One task of one attempt of a job of an instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The instance's id.
    pub instance: String,
    /// Number of the job there.
    pub job: u64,
    /// Which attempt.
    pub attempt: u64,
    /// Which task.
    pub task: u64,
}

/// What was written.
#[derive(Debug, Default)]
pub struct Ledger {
    /// How often each began.
    pub begun: BTreeMap<Run, u32>,
    /// As which user each did, the last time.
    pub users: BTreeMap<Run, u32>,
    /// With what code each ended that came so far.
    pub ended: BTreeMap<Run, i32>,
    /// Jobs that a workflow was given: where it ran, number and name there.
    pub accepted: Vec<(String, u64, String)>,
    /// What went otherwise than it had to, by the workflow that met it.
    pub trouble: Vec<(Run, String)>,
}

impl Ledger {
    /// Reads it.
    ///
    /// # Errors
    /// A line is none of ours, or a task ended twice.
    pub fn read(place: &Place) -> anyhow::Result<Ledger> {
        let mut ledger = Ledger::default();
        for line in fs::read_to_string(place.path().join("ledger"))?.lines() {
            ledger
                .add(line)
                .with_context(|| format!("ledger: `{line}`"))?;
        }
        Ok(ledger)
    }

    fn add(&mut self, line: &str) -> anyhow::Result<()> {
        let words: Vec<&str> = line.split(' ').collect();
        let [marker, task, word, rest @ ..] = words.as_slice() else {
            bail!("too short");
        };
        let run = run(marker, task).context("no task marker")?;
        match (*word, rest) {
            ("begin", [user]) => {
                *self.begun.entry(run.clone()).or_default() += 1;
                self.users.insert(run, user.parse()?);
            }
            ("end", [code]) => {
                let twice = self.ended.insert(run, code.parse()?).is_some();
                ensure!(!twice, "it ended twice");
            }
            ("accepted", [id, name]) => {
                let id = id.parse::<eddy_wire::id::JobId>()?.0;
                self.accepted.push((run.instance, id, (*name).to_owned()));
            }
            ("trouble", what) => self.trouble.push((run, what.join(" "))),
            _ => bail!("no word of ours"),
        }
        Ok(())
    }
}

/// Reads `INSTANCE/JOB.ATTEMPT.RANK` and the number of the task.
fn run(marker: &str, task: &str) -> Option<Run> {
    let (instance, numbers) = marker.rsplit_once('/')?;
    let mut numbers = numbers.split('.').map(|number| number.parse().ok());
    Some(Run {
        instance: instance.to_owned(),
        job: numbers.next()??,
        attempt: numbers.next()??,
        task: task.parse().ok()?,
    })
}
