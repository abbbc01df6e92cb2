//! What the book promises of ground and of leaders.

use eddy_wire::id::{Attempt, JobId, Rank};
use eddy_wire::shell::{Ended, Occasion};
use eddy_wire::time::Span;

use super::*;
use eddy_wire::hash::Hash;

const SHELL: Epoch = Epoch(3);
const PART: Part = Part {
    job: JobId(7),
    attempt: Attempt(1),
    rank: Rank(0),
};

fn start(role: Role, ntasks: u32) -> Start {
    Start {
        part: PART,
        shell: SHELL,
        role,
        user: 0,
        jobspec: Hash::of(b"{}"),
        environment: Hash::of(b"{}"),
        cc: None,
        array: None,
        uri: None,
        first_task: 0,
        ntasks,
        job_ntasks: 1,
        node_index: 0,
        job_nnodes: 1,
        host: "n0".to_owned(),
        nodelist: "n0".to_owned(),
        cores: Idset::new(),
        gpus: Idset::new(),
        memory: 0,
    }
}

/// A book with a leader that was welcomed and has sent the one payload.
struct Shell(ShellBook);

impl Shell {
    fn begin() -> Shell {
        let mut shell = Shell(ShellBook::new("i".to_owned(), SHELL, 1));
        shell.give(0, ShellInput::Connected);
        shell.tell(0, ToShell::Welcome { leader: Epoch(1) });
        let (hash, text) = (Hash::of(b"{}"), "{}".into());
        shell.tell(0, ToShell::Payload { hash, text });
        shell
    }

    fn give(&mut self, at: i64, input: ShellInput) -> Vec<ShellEffect> {
        let mut out = Vec::new();
        self.0.handle(Time(at * 1_000_000), input, &mut out);
        out
    }

    fn tell(&mut self, at: i64, word: ToShell) -> Vec<ShellEffect> {
        self.give(at, ShellInput::Broker(word))
    }

    fn signal(&mut self, signal: i32) -> Vec<ShellEffect> {
        self.tell(1, ToShell::signal(PART, signal))
    }

    /// A leader's part that runs.
    fn leading() -> Shell {
        let mut shell = Shell::begin();
        let begun = shell.tell(0, ToShell::Start(Box::new(start(Role::Leader, 1))));
        assert!(matches!(&begun[..], [ShellEffect::Spawn(_)]), "{begun:?}");
        let runs = shell.give(0, ShellInput::Spawned(PART, 0));
        assert!(matches!(
            &runs[..],
            [ShellEffect::Send(FromShell::Started { .. })]
        ));
        shell
    }
}

fn ended(effects: &[ShellEffect]) -> &Ended {
    match effects {
        [ShellEffect::Send(FromShell::Ended { ended, .. })] => ended,
        other => panic!("not an end: {other:?}"),
    }
}

#[test]
fn ground_is_held_until_it_is_killed_and_swept() {
    let mut shell = Shell::begin();
    let begun = shell.tell(5, ToShell::Start(Box::new(start(Role::Ground, 4))));
    let runs = FromShell::Started {
        part: PART,
        t: Time(5_000_000),
    };
    assert_eq!(begun, [ShellEffect::Send(runs.clone())]);
    let again = shell.tell(6, ToShell::Start(Box::new(start(Role::Ground, 4))));
    assert_eq!(again, [ShellEffect::Send(runs)]);
    assert_eq!(shell.signal(SIGTERM), []);
    let t = Time(5_000_000);
    assert_eq!(shell.0.state(&PART), Some(PartState::Running { t }));
    assert_eq!(shell.signal(SIGKILL), [ShellEffect::Sweep(PART)]);
    let once_more = shell.signal(SIGKILL);
    assert_eq!(once_more, [ShellEffect::Signal(PART, SIGKILL)]);
    let over = shell.give(7, ShellInput::Swept(PART));
    assert_eq!(ended(&over).status, 0);
    assert_eq!(ended(&over).note, None);
}

#[test]
fn a_leader_that_dies_is_started_again_and_its_part_goes_on() {
    let mut shell = Shell::leading();
    for status in [SIGKILL, 6 | 0x80, 11] {
        let died = shell.give(1, ShellInput::Exited(PART, 0, status));
        assert!(matches!(&died[..], [ShellEffect::Spawn(spawn)] if spawn.task == 0));
        let t = Time(0);
        assert_eq!(shell.0.state(&PART), Some(PartState::Running { t }));
        assert_eq!(shell.give(1, ShellInput::Spawned(PART, 0)), []);
    }
    let over = shell.give(59, ShellInput::Exited(PART, 0, SIGKILL));
    assert_eq!(over, [ShellEffect::Sweep(PART)]);
    let over = shell.give(60, ShellInput::Swept(PART));
    assert_eq!(ended(&over).status, SIGKILL);
    assert_eq!(
        ended(&over).note.as_deref(),
        Some("its leader died 4 times within 60 s, the last time by signal 9")
    );
}

#[test]
fn what_ends_a_part_is_sent_once_whichever_leader_says_it() {
    let mut shell = Shell::leading();
    let end = |shell: &mut Shell, signal| {
        let occasion = Occasion::End;
        let word = ToShell::Signal {
            part: PART,
            signal,
            occasion,
        };
        shell.tell(2, word)
    };
    let sent = |signal| vec![ShellEffect::Signal(PART, signal)];
    assert_eq!(end(&mut shell, SIGTERM), sent(SIGTERM));
    assert_eq!(end(&mut shell, SIGTERM), [], "as the next leader says it");
    assert_eq!(shell.signal(SIGTERM), sent(SIGTERM), "somebody asks for it");
    assert_eq!(end(&mut shell, SIGKILL), sent(SIGKILL));
    assert_eq!(
        end(&mut shell, SIGKILL),
        sent(SIGKILL),
        "it may not have been enough"
    );
}

#[test]
fn a_leader_ends_with_the_exit_code_of_its_program_whatever_it_is() {
    for code in [0, 1, 70, 255] {
        let mut shell = Shell::leading();
        let over = shell.give(1, ShellInput::Exited(PART, 0, code << 8));
        assert_eq!(over, [ShellEffect::Sweep(PART)], "exit code {code}");
        let over = shell.give(1, ShellInput::Swept(PART));
        assert_eq!(ended(&over).status, code << 8);
        assert_eq!(ended(&over).note, None);
    }
}

#[test]
fn deaths_longer_ago_than_the_window_do_not_count() {
    let mut shell = Shell::leading();
    for at in 0..20 {
        let died = shell.give(at * 20, ShellInput::Exited(PART, 0, SIGKILL));
        assert!(matches!(&died[..], [ShellEffect::Spawn(_)]), "at {at}");
        shell.give(at * 20, ShellInput::Spawned(PART, 0));
    }
}

#[test]
fn a_leader_that_was_asked_to_end_stays_dead() {
    for signal in [SIGTERM, SIGKILL] {
        let mut shell = Shell::leading();
        let told = shell.signal(signal);
        assert_eq!(told, [ShellEffect::Signal(PART, signal)]);
        let over = shell.give(2, ShellInput::Exited(PART, 0, SIGKILL));
        assert_eq!(over, [ShellEffect::Sweep(PART)]);
        let over = shell.give(2, ShellInput::Swept(PART));
        assert_eq!((ended(&over).status, &ended(&over).note), (SIGKILL, &None));
    }
}

#[test]
fn an_end_asked_for_while_a_leader_is_started_again_reaches_it() {
    let mut shell = Shell::leading();
    shell.give(1, ShellInput::Exited(PART, 0, SIGKILL));
    assert_eq!(shell.signal(SIGTERM), []);
    let runs = shell.give(1, ShellInput::Spawned(PART, 0));
    assert_eq!(runs, [ShellEffect::Signal(PART, SIGTERM)]);
    let over = shell.give(2, ShellInput::Exited(PART, 0, 0));
    assert_eq!(over, [ShellEffect::Sweep(PART)]);
}

#[test]
fn a_leader_that_ends_by_itself_is_over() {
    let mut shell = Shell::leading();
    let over = shell.give(1, ShellInput::Exited(PART, 0, 3 << 8));
    assert_eq!(over, [ShellEffect::Sweep(PART)]);
    let over = shell.give(1, ShellInput::Swept(PART));
    assert_eq!((ended(&over).status, &ended(&over).note), (3 << 8, &None));
}

#[test]
fn a_leader_that_cannot_be_started_again_ends_its_part() {
    let mut shell = Shell::leading();
    shell.give(1, ShellInput::Exited(PART, 0, SIGKILL));
    let why = "cannot make a process".to_owned();
    let failed = shell.give(1, ShellInput::Failed(PART, 0, 126 << 8, why.clone()));
    assert_eq!(failed, [ShellEffect::Sweep(PART)]);
    let over = shell.give(1, ShellInput::Swept(PART));
    assert_eq!(ended(&over).note, Some(why));
}

#[test]
fn a_task_that_is_none_of_a_leader_is_not_started_again() {
    let mut shell = Shell::begin();
    shell.tell(0, ToShell::Start(Box::new(start(Role::Tasks, 1))));
    shell.give(0, ShellInput::Spawned(PART, 0));
    let over = shell.give(1, ShellInput::Exited(PART, 0, SIGKILL));
    assert_eq!(over, [ShellEffect::Sweep(PART)]);
}

#[test]
fn tasks_that_are_stopped_stay_so_until_they_are_let_go_on_or_end() {
    let mut shell = Shell::begin();
    shell.tell(0, ToShell::Start(Box::new(start(Role::Tasks, 1))));
    shell.give(0, ShellInput::Spawned(PART, 0));
    let pause = |stop| ToShell::Pause { part: PART, stop };
    let paused = [ShellEffect::Send(FromShell::Paused {
        part: PART,
        stop: 1,
    })];
    let proceed = |cores: &str| ToShell::Proceed {
        part: PART,
        cores: cores.parse().unwrap(),
    };
    assert_eq!(shell.tell(1, proceed("1")), [], "nothing was to stop");
    assert_eq!(shell.tell(1, pause(1)), [ShellEffect::Pause(PART, 1)]);
    assert_eq!(shell.give(1, ShellInput::Paused(PART, 1)), paused);
    // A leader that begins says it again, and asks by it.
    assert_eq!(shell.tell(2, pause(1)), paused);
    let goes = [ShellEffect::Proceed(PART, "4-5".parse().unwrap())];
    assert_eq!(shell.tell(3, proceed("4-5")), goes);
    assert_eq!(shell.tell(3, proceed("4-5")), []);

    shell.tell(4, pause(2));
    shell.tell(4, proceed(""));
    let late = shell.give(4, ShellInput::Paused(PART, 2));
    assert_eq!(late, [], "it goes on");
    shell.tell(5, pause(3));
    let late = shell.give(5, ShellInput::Paused(PART, 2));
    assert_eq!(late, [], "it went on since");
    let over = shell.give(5, ShellInput::Exited(PART, 0, SIGKILL));
    assert_eq!(over, [ShellEffect::Sweep(PART)]);
    shell.give(5, ShellInput::Swept(PART));
    assert_eq!(shell.give(5, ShellInput::Paused(PART, 3)), []);
    let known = shell.tell(6, pause(3));
    assert_eq!(ended(&known).status, SIGKILL);
}

#[test]
fn neither_a_leader_nor_ground_is_stopped() {
    let pause = || ToShell::Pause {
        part: PART,
        stop: 1,
    };
    let mut shell = Shell::leading();
    assert_eq!(shell.tell(1, pause()), []);
    let mut shell = Shell::begin();
    shell.tell(0, ToShell::Start(Box::new(start(Role::Ground, 0))));
    assert_eq!(shell.tell(1, pause()), []);
}

#[test]
fn a_leader_that_hangs_is_ended_if_it_is_the_life_that_was_silent() {
    let mut shell = Shell::leading();
    let silent = |seconds| ToShell::Restart {
        part: PART,
        silent: Span::seconds(seconds),
    };
    let other = "another life was heard last";
    assert_eq!(shell.tell(60, silent(70)), [], "{other}");
    assert_eq!(shell.tell(61, silent(61)), [ShellEffect::EndLeader(PART)]);
    assert_eq!(shell.tell(62, silent(62)), [], "it is being ended");
    let died = shell.give(63, ShellInput::Exited(PART, 0, SIGKILL));
    let told = ShellEffect::Send(FromShell::Restarted {
        part: PART,
        silent: Span::seconds(61),
    });
    assert!(
        matches!(&died[..], [word, ShellEffect::Spawn(_)] if *word == told),
        "{died:?}"
    );
    assert_eq!(shell.tell(200, silent(60)), [], "it is being started");
    shell.give(200, ShellInput::Spawned(PART, 0));
    assert_eq!(shell.tell(250, silent(200)), []);
    // One that was asked to end, by a user say, and does not, has ended.
    shell.signal(SIGTERM);
    assert_eq!(shell.tell(500, silent(60)), [ShellEffect::EndLeader(PART)]);
    let over = shell.give(501, ShellInput::Exited(PART, 0, SIGKILL));
    assert_eq!(over, [ShellEffect::Sweep(PART)]);
}

#[test]
fn after_a_task_could_not_be_started_no_other_is() {
    let mut shell = Shell::begin();
    shell.tell(0, ToShell::Start(Box::new(start(Role::Tasks, 4))));
    assert_eq!(shell.give(1, ShellInput::Spawned(PART, 0)), []);
    let why = "task: no such program".to_owned();
    let failed = shell.give(2, ShellInput::Failed(PART, 1, 127 << 8, why.clone()));
    assert_eq!(failed, [ShellEffect::GiveUp(PART)]);
    assert_eq!(shell.give(2, ShellInput::GivenUp(PART, 3)), []);
    // This one was under way.
    let killed = [SIGKILL; 2].map(|signal| ShellEffect::Signal(PART, signal));
    assert_eq!(
        shell.give(3, ShellInput::Failed(PART, 2, 126 << 8, why.clone())),
        killed
    );
    let over = shell.give(4, ShellInput::Exited(PART, 0, SIGKILL));
    assert_eq!(over, [ShellEffect::Sweep(PART)]);
    let over = shell.give(4, ShellInput::Swept(PART));
    let statuses = [SIGKILL, 127 << 8, 126 << 8, 127 << 8];
    assert_eq!(ended(&over).tasks, (0..).zip(statuses).collect());
    assert_eq!(ended(&over).note, Some(why));
}

#[test]
fn a_part_that_is_killed_while_it_starts_starts_no_more_and_has_not_run() {
    let mut shell = Shell::begin();
    shell.tell(0, ToShell::Start(Box::new(start(Role::Tasks, 2))));
    assert_eq!(shell.signal(SIGTERM), []);
    assert_eq!(shell.signal(SIGKILL), [ShellEffect::GiveUp(PART)]);
    assert_eq!(shell.signal(SIGKILL), []);
    assert_eq!(shell.give(1, ShellInput::GivenUp(PART, 1)), []);
    let runs = shell.give(1, ShellInput::Spawned(PART, 0));
    let signals = [SIGTERM, SIGKILL, SIGKILL];
    assert_eq!(
        runs,
        signals.map(|signal| ShellEffect::Signal(PART, signal))
    );
    shell.give(2, ShellInput::Exited(PART, 0, SIGKILL));
    let over = shell.give(2, ShellInput::Swept(PART));
    assert_eq!((ended(&over).status, &ended(&over).note), (SIGKILL, &None));
}
