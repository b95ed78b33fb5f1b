//! One job on one worker: lower, then compile unless the module turns out to be known.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;
use tpud_proto::v1::{self, worker_reply::Reply, worker_request::Request};

use super::process::Worker;
use super::{Pool, PoolError, Stage};

/// What lowering gives.
pub(crate) type Lowered = v1::WorkerLowered;

/// A worker that belongs to one job. Dropped without an end, the worker is killed: its state is unknown.
#[derive(Debug)]
pub(crate) struct Job {
    pool: Arc<Pool>,
    held: Option<(Worker, OwnedSemaphorePermit)>,
    started: Instant,
    limit: Duration,
}

impl Job {
    pub(super) fn new(
        pool: Arc<Pool>,
        worker: Worker,
        permit: OwnedSemaphorePermit,
        limit: Duration,
    ) -> Self {
        Self { pool, held: Some((worker, permit)), started: Instant::now(), limit }
    }

    /// Sends the graph and waits for its module.
    pub(crate) async fn lower(
        &mut self,
        graph: Vec<u8>,
        options: v1::CompileOptions,
        lower_only: bool,
    ) -> Result<Lowered, PoolError> {
        if let Some((worker, _)) = &mut self.held {
            worker.begin();
        }
        let job = v1::WorkerJob { id: 1, graph, options: Some(options), lower_only };
        match self.ask(Stage::Lowering, Request::Job(job)).await? {
            Reply::Lowered(lowered) => {
                if lower_only {
                    self.finish();
                }
                Ok(lowered)
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Has the module compiled.
    pub(crate) async fn compile(&mut self) -> Result<v1::WorkerCompiled, PoolError> {
        let verdict = v1::WorkerVerdict { id: 1, compile: true };
        match self.ask(Stage::Compiling, Request::Verdict(verdict)).await? {
            Reply::Compiled(compiled) => {
                self.finish();
                Ok(compiled)
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Tells the worker that the module is known already.
    pub(crate) async fn skip_compile(&mut self) -> Result<(), PoolError> {
        let Some((worker, _)) = &mut self.held else { return Ok(()) };
        worker.send(Request::Verdict(v1::WorkerVerdict { id: 1, compile: false })).await?;
        self.finish();
        Ok(())
    }

    async fn ask(&mut self, stage: Stage, request: Request) -> Result<Reply, PoolError> {
        let Some((worker, _)) = &mut self.held else {
            return Err(PoolError::Protocol("the job has ended".into()));
        };
        worker.stage = stage;
        let left = self.limit.saturating_sub(self.started.elapsed());
        let exchange = async {
            worker.send(request).await?;
            worker.receive().await
        };
        match tokio::time::timeout(left, exchange).await {
            Ok(Ok(Reply::Failed(error))) => {
                self.finish();
                Err(PoolError::Job(Box::new(error)))
            }
            Ok(other) => other,
            Err(_) => {
                let log_tail = worker.log_tail().await;
                self.held = None;
                Err(PoolError::TimedOut { stage, seconds: self.limit.as_secs(), log_tail })
            }
        }
    }

    fn unexpected(&mut self, reply: &Reply) -> PoolError {
        self.held = None;
        let name = match reply {
            Reply::Lowered(_) => "a module",
            Reply::Compiled(_) => "an executable",
            Reply::Failed(_) => "a failure",
            Reply::Ready(_) => "ready",
        };
        PoolError::Protocol(format!("{name} was not asked for"))
    }

    /// The worker is free for the next job.
    fn finish(&mut self) {
        if let Some((worker, permit)) = self.held.take() {
            self.pool.put_back(worker, permit);
        }
    }
}
