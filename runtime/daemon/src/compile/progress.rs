//! How far a compile is, shared between the task that does it and the requests that report it.

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tpud_proto::v1::compile_progress::Stage;

use crate::pool::Ticket;
use crate::sync::lock;

/// Written by one, read by any.
#[derive(Debug)]
pub(crate) struct Progress {
    stage: AtomicI32,
    ticket: Mutex<Option<Arc<Ticket>>>,
}

impl Progress {
    /// Waiting for another's compile, until told otherwise.
    pub(crate) fn waiting() -> Arc<Self> {
        Arc::new(Self { stage: AtomicI32::new(Stage::Waiting as i32), ticket: Mutex::default() })
    }

    /// In the line for a worker.
    pub(crate) fn queue(&self, ticket: &Arc<Ticket>) {
        *lock(&self.ticket) = Some(Arc::clone(ticket));
        self.stage.store(Stage::Queued as i32, Relaxed);
    }

    /// At another stage.
    pub(crate) fn enter(&self, stage: Stage) {
        *lock(&self.ticket) = None;
        self.stage.store(stage as i32, Relaxed);
    }

    /// The stage, and the position in the line while in it.
    pub(crate) fn now(&self) -> (Stage, u32) {
        let position = lock(&self.ticket).as_ref().map(|ticket| ticket.position()).unwrap_or_default();
        (Stage::try_from(self.stage.load(Relaxed)).unwrap_or(Stage::Unspecified), position)
    }
}
