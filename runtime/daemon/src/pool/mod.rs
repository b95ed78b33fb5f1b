//! The pool of compile workers: started when needed, used one job at a time, killed when a job goes wrong.

mod breaker;
mod error;
mod job;
mod log_tail;
mod process;
mod queue;
mod spawn;
mod views;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tpud_proto::v1;

pub(crate) use breaker::Breaker;
pub(crate) use error::{PoolError, Stage};
pub(crate) use job::Job;
pub(crate) use process::Launch;
use process::Worker;
use queue::Queue;
pub(crate) use queue::Ticket;
use spawn::Spawner;
use views::Views;

use crate::sync::lock;

/// Limits of a pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolLimits {
    /// Workers at once.
    pub workers: usize,
    /// Jobs that may wait.
    pub queue: usize,
    /// Jobs until a worker is replaced.
    pub jobs_per_worker: u32,
    /// The longest that a job may take.
    pub job_time: Duration,
}

/// Workers and the line in front of them.
#[derive(Debug)]
pub(crate) struct Pool {
    queue: Arc<Queue>,
    idle: Mutex<Vec<Worker>>,
    spawner: Spawner,
    launch: Launch,
    limits: PoolLimits,
    views: Arc<Views>,
    /// Workers of an earlier generation are not used again.
    generation: AtomicU64,
}

impl Pool {
    /// A pool without workers yet. Must be called inside a tokio runtime.
    pub(crate) fn new(launch: Launch, limits: PoolLimits) -> Result<Self, PoolError> {
        let spawner = Spawner::start().map_err(|error| PoolError::Start(error.to_string()))?;
        let queue = Queue::new(limits.workers, limits.queue);
        let (views, generation) = (Arc::default(), AtomicU64::new(0));
        Ok(Self { queue, idle: Mutex::default(), spawner, launch, limits, views, generation })
    }

    /// Starts one worker ahead of need.
    pub(crate) async fn prewarm(&self) {
        // In the line like everybody else, so that there are never more workers than there may be.
        let Ok(ticket) = self.enter() else { return };
        let Ok(permit) = ticket.wait().await else { return };
        drop(ticket);
        match self.start().await {
            Ok(worker) => self.put_back(worker, permit),
            Err(error) => tracing::warn!("no compile worker: {error}"),
        }
    }

    /// Takes a place in the line.
    pub(crate) fn enter(&self) -> Result<Ticket, PoolError> {
        self.queue.enter()
    }

    /// Waits for a worker; starts one when none is idle.
    pub(crate) async fn take(self: &Arc<Self>, ticket: Arc<Ticket>, key: &str) -> Result<Job, PoolError> {
        let permit = ticket.wait().await?;
        drop(ticket);
        let worker = match self.pop_idle() {
            Some(worker) => worker,
            None => self.start().await?,
        };
        worker.view.busy(key);
        Ok(Job::new(Arc::clone(self), worker, permit, self.limits.job_time))
    }

    async fn start(&self) -> Result<Worker, PoolError> {
        let generation = self.generation.load(SeqCst);
        let mut worker = Worker::start(&self.spawner, &self.launch, &self.views).await?;
        worker.generation = generation;
        Ok(worker)
    }

    fn pop_idle(&self) -> Option<Worker> {
        loop {
            let mut worker = lock(&self.idle).pop()?;
            if worker.is_alive() {
                return Some(worker);
            }
        }
    }

    /// Puts a worker back that ended its job well.
    fn put_back(&self, worker: Worker, permit: OwnedSemaphorePermit) {
        worker.view.idle();
        if worker.jobs < self.limits.jobs_per_worker && worker.generation == self.generation.load(SeqCst) {
            lock(&self.idle).push(worker);
        }
        drop(permit); // only now may the next in line look for an idle worker
    }

    /// What the workers do.
    pub(crate) fn workers(&self) -> Vec<v1::WorkerStatus> {
        self.views.snapshot()
    }

    /// How many requests wait.
    pub(crate) fn queued(&self) -> u32 {
        u32::try_from(self.queue.len()).unwrap_or(u32::MAX)
    }

    /// Has every later job done by a fresh worker.
    pub(crate) fn renew(&self) {
        self.generation.fetch_add(1, SeqCst);
        self.close();
    }

    /// Ends every idle worker.
    pub(crate) fn close(&self) {
        lock(&self.idle).clear();
    }
}
