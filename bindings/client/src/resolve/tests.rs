//! Paths through instances of a few lines each.

use std::path::{Path, PathBuf};

use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::{Attempt, Epoch, Rank, Seq};
use eddy_wire::message::{Message, Type};
use eddy_wire::services::Service;
use eddy_wire::services::child::Summary;
use eddy_wire::time::Time;
use futures_util::{SinkExt, StreamExt};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use super::*;

/// What one instance says.
#[derive(Clone)]
struct Says {
    path: String,
    parent: Option<PathBuf>,
    children: Vec<ChildRow>,
    jobs: Vec<JobRow>,
}

fn child(job: u64, name: &str, stage: Stage, socket: Option<&Path>) -> ChildRow {
    ChildRow {
        job: JobId(job),
        name: name.to_owned(),
        instance: None,
        uri: socket.map(|socket| format!("local://{}", socket.display())),
        statedir: Some("/state".to_owned()),
        stage,
        nnodes: 1,
        ncores: 1,
        queues: Vec::new(),
        declared: false,
        until: None,
        summary: Summary::default(),
    }
}

fn job(job: u64, result: Option<JobResult>, reason: &str) -> JobRow {
    let state = match result {
        Some(_) => JobState::Inactive,
        None => JobState::Sched,
    };
    JobRow {
        id: JobId(job),
        name: "x".to_owned(),
        userid: 0,
        state,
        result,
        returncode: None,
        status: None,
        attempt: Attempt(1),
        queue: String::new(),
        account: String::new(),
        qos: String::new(),
        class: String::new(),
        job_set: String::new(),
        urgency: 16,
        priority: None,
        reason: reason.to_owned(),
        nnodes: 1,
        ncores: 1,
        ngpus: 0,
        ntasks: 1,
        nodelist: String::new(),
        duration: None,
        t_submit: Time(1),
        t_alloc: None,
        t_run: None,
        t_finish: None,
        t_inactive: None,
        standing: Default::default(),
        suspended: Default::default(),
        t_suspend: None,
        t_unended: None,
        preemptions: 0,
        preempted: None,
        gives: Vec::new(),
        is_instance: false,
        exception: None,
        dependencies: Vec::new(),
        key: None,
        cwd: None,
    }
}

/// Serves one instance until the test ends.
fn serve(socket: &Path, says: Says) {
    let listener = UnixListener::bind(socket).expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream, says.clone()));
        }
    });
}

async fn converse(stream: UnixStream, says: Says) {
    let mut framed = Framed::new(stream, LengthDelimitedCodec::new());
    while let Some(Ok(frame)) = framed.next().await {
        let request = Message::decode(&frame.freeze()).expect("a message");
        let answers = match request.topic.as_str() {
            Ping::TOPIC => vec![Message::answer(Type::Reply, request.matchtag, &pong(&says))],
            Children::TOPIC => {
                let asked: ChildrenRequest = request.parse().expect("a request");
                let rows: Vec<&ChildRow> = says
                    .children
                    .iter()
                    .filter(|row| asked.job.is_none_or(|job| row.job == job))
                    .collect();
                let kind = match asked.follow {
                    true => Type::Part,
                    false => Type::Reply,
                };
                vec![Message::answer(kind, request.matchtag, &rows)]
            }
            List::TOPIC => {
                let asked: ListRequest = request.parse().expect("a request");
                let rows: Vec<&JobRow> = says
                    .jobs
                    .iter()
                    .filter(|row| asked.jobs.contains(row.id))
                    .collect();
                let end = Refusal::new(Code::End, "end");
                vec![
                    Message::answer(Type::Part, request.matchtag, &rows),
                    Message::answer(Type::Refused, request.matchtag, &end),
                ]
            }
            _ => Vec::new(),
        };
        for answer in answers {
            let bytes = answer.encode().expect("small");
            framed.send(bytes).await.expect("sent");
        }
    }
}

fn pong(says: &Says) -> Pong {
    Pong {
        instance: "11111111-x".to_owned(),
        epoch: Epoch(1),
        version: "0".to_owned(),
        owner: 0,
        rank: Rank(0),
        path: says.path.clone(),
        depth: 0,
        parent: says
            .parent
            .as_ref()
            .map(|socket| format!("local://{}", socket.display())),
        phase: "run".to_owned(),
        durable: Seq(1),
        lack: None,
        t: Time(1),
        pad: String::new(),
    }
}

/// A root with two instances in it, one of which has one more; gives what
/// `check` is to ask and what comes of it.
fn check(test: impl AsyncFnOnce(&Tree)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let tree = Tree::new();
        test(&tree).await;
    });
}

struct Tree {
    _place: tempfile::TempDir,
    root: PathBuf,
    inner: PathBuf,
    deep: PathBuf,
}

impl Tree {
    fn new() -> Tree {
        let place = tempfile::tempdir().expect("a directory");
        let at = |name: &str| place.path().join(name);
        let (root, inner, deep) = (at("root"), at("inner"), at("deep"));
        let gone = at("gone");
        serve(
            &root,
            Says {
                path: String::new(),
                parent: None,
                children: vec![
                    child(905, "fast", Stage::Serving, Some(&inner)),
                    child(7, "late", Stage::Waiting, None),
                    child(8, "old", Stage::Over, None),
                    child(9, "twin", Stage::Serving, Some(&gone)),
                    child(10, "twin", Stage::Serving, Some(&gone)),
                    child(11, "new", Stage::Starting, None),
                ],
                jobs: vec![
                    job(3, None, ""),
                    job(4, Some(JobResult::Canceled), ""),
                    job(7, None, "waits for 2 nodes are free"),
                    job(8, Some(JobResult::Failed), ""),
                ],
            },
        );
        serve(
            &inner,
            Says {
                path: "905".to_owned(),
                parent: Some(root.clone()),
                children: vec![child(3, "step", Stage::Serving, Some(&deep))],
                jobs: Vec::new(),
            },
        );
        serve(
            &deep,
            Says {
                path: "905/3".to_owned(),
                parent: Some(inner.clone()),
                children: Vec::new(),
                jobs: vec![job(1, None, "")],
            },
        );
        Tree {
            _place: place,
            root,
            inner,
            deep,
        }
    }

    async fn reach(&self, from: &Path, at: Option<&str>, side: Side) -> Result<Client, PathError> {
        let variable = format!("local://{}", from.display());
        let choice = Choice {
            at,
            variable: Some(&variable),
            side,
        };
        let patience = Patience {
            options: Options {
                wait: Duration::from_millis(50),
            },
            told: |_| (),
        };
        reach(choice, &patience).await
    }

    async fn at(&self, from: &Path, at: &str) -> PathBuf {
        let client = self.reach(from, Some(at), Side::Itself).await;
        client.expect("reached").uri().path().to_owned()
    }

    async fn refused(&self, from: &Path, at: &str) -> String {
        let client = self.reach(from, Some(at), Side::Itself).await;
        client.expect_err("refused").to_string()
    }
}

#[test]
fn paths_lead_down_up_and_from_the_root() {
    check(async |tree| {
        for (from, at, to) in [
            (&tree.root, "905/3", &tree.deep),
            (&tree.root, "fast/step", &tree.deep),
            (&tree.deep, "/905", &tree.inner),
            (&tree.deep, "/", &tree.root),
            (&tree.deep, "../..", &tree.root),
            (&tree.inner, "3", &tree.deep),
        ] {
            assert_eq!(tree.at(from, at).await, *to, "{at}");
        }
        let parent = tree.reach(&tree.deep, None, Side::Parent).await;
        assert_eq!(parent.expect("reached").uri().path(), tree.inner);
    });
}

#[test]
fn what_is_missing_is_named_with_its_level() {
    check(async |tree| {
        for (at, text) in [
            ("3", "3: job 3 of this instance is not an instance"),
            (
                "905/3/1",
                "905/3/1: job 1 of instance 905/3 is not an instance",
            ),
            ("905/4", "905/4: instance 905 has no job 4"),
            ("/5", "/5: the root has no job 5"),
            (
                "nothing-there",
                "nothing-there: this instance has no instance named `nothing-there`",
            ),
            (
                "7",
                "7: job 7 of this instance waits for resources: 2 nodes are free",
            ),
            (
                "old",
                "old: job 8 of this instance ended with result FAILED",
            ),
            (
                "twin",
                "twin: this instance has 2 instances named `twin`: jobs 9 10",
            ),
            (
                "11",
                "11: job 11 of this instance is starting and took no clients within 0.1 s",
            ),
        ] {
            assert_eq!(tree.refused(&tree.root, at).await, text);
        }
        let root = tree.reach(&tree.root, None, Side::Parent).await;
        assert_eq!(
            root.expect_err("refused").to_string(),
            "..: instance 11111111-x is a root and has no parent"
        );
    });
}
