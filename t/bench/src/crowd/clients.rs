//! The crowd: clients on one thread of their own that look again and again, until they are told to go.
//! It does not know who works beside it.

use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use eddy_client::{Client, Options, Uri};
use eddy_wire::services::Service;
use eddy_wire::services::job::{List, ListRequest};
use tokio::task::{JoinSet, LocalSet};

use super::PAUSE;

/// Who loops.
pub const CROWD: usize = 500;

/// What each of the crowd does.
pub trait Part: Send + 'static {
    /// One of the crowd.
    type Client: Look + 'static;
    /// One more of the crowd.
    fn client(&self) -> impl Future<Output = anyhow::Result<Self::Client>>;
}

/// One of the crowd.
pub trait Look {
    /// Looks once.
    fn look(&self) -> impl Future<Output = anyhow::Result<()>>;
}

/// Each asks the instance there.
pub struct Asks(pub Uri);

impl Part for Asks {
    type Client = Client;

    async fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::connect(&self.0, Options::default()).await?)
    }
}

impl Look for Client {
    async fn look(&self) -> anyhow::Result<()> {
        let mut rows = self.stream::<List>(&ListRequest::default())?;
        while let Some(part) = rows.next().await {
            part?;
        }
        Ok(())
    }
}

/// Each reads these parts of an answer and asks nobody.
pub struct Reads(pub Vec<Vec<u8>>);

impl Part for Reads {
    type Client = Rc<[Vec<u8>]>;

    async fn client(&self) -> anyhow::Result<Rc<[Vec<u8>]>> {
        Ok(self.0.clone().into())
    }
}

impl Look for Rc<[Vec<u8>]> {
    async fn look(&self) -> anyhow::Result<()> {
        for part in self.iter() {
            let rows: <List as Service>::Reply = serde_json::from_slice(part)?;
            black_box(rows);
        }
        Ok(())
    }
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    looks: AtomicU64,
}

/// All of them at work.
pub struct Crowd {
    shared: Arc<Shared>,
    thread: JoinHandle<anyhow::Result<()>>,
    before: u64,
    begun: Instant,
}

impl Crowd {
    /// Waits until all are there and have looked once or twice.
    ///
    /// # Errors
    /// One of them fails.
    pub fn begin(part: impl Part) -> anyhow::Result<Crowd> {
        let shared = Arc::<Shared>::default();
        let theirs = Arc::clone(&shared);
        let thread = thread::spawn(move || looping(&part, &theirs));
        while shared.looks.load(Ordering::Relaxed) < 2 * CROWD as u64 && !thread.is_finished() {
            thread::sleep(PAUSE);
        }
        let before = shared.looks.load(Ordering::Relaxed);
        Ok(Crowd {
            shared,
            thread,
            before,
            begun: Instant::now(),
        })
    }

    /// Ends them: how often they looked in a second.
    ///
    /// # Errors
    /// One of them failed.
    pub fn end(self) -> anyhow::Result<f64> {
        let looks = self.shared.looks.load(Ordering::Relaxed) - self.before;
        let rate = looks as f64 / self.begun.elapsed().as_secs_f64();
        self.shared.ends.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        ended.map_err(|_| anyhow::anyhow!("the crowd panicked"))??;
        Ok(rate)
    }
}

fn looping(part: &impl Part, shared: &Arc<Shared>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, async {
        let mut crowd = JoinSet::new();
        for _ in 0..CROWD {
            crowd.spawn_local(one(part.client().await?, Arc::clone(shared)));
        }
        while let Some(done) = crowd.join_next().await {
            done??;
        }
        Ok(())
    })
}

async fn one(client: impl Look, shared: Arc<Shared>) -> anyhow::Result<()> {
    while !shared.ends.load(Ordering::Relaxed) {
        client.look().await?;
        shared.looks.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
