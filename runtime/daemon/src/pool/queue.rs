//! The line in front of the workers: first come, first served, bounded, and everybody can see their place.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::PoolError;
use crate::sync::lock;

/// The line.
#[derive(Debug)]
pub(crate) struct Queue {
    slots: Arc<Semaphore>,
    waiting: Mutex<Waiting>,
    limit: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    tickets: BTreeSet<u64>,
}

/// A place in the line; leaving it is dropping this.
#[derive(Debug)]
pub(crate) struct Ticket {
    queue: Arc<Queue>,
    number: u64,
}

impl Queue {
    pub(crate) fn new(slots: usize, limit: usize) -> Arc<Self> {
        Arc::new(Self { slots: Arc::new(Semaphore::new(slots)), waiting: Mutex::default(), limit })
    }

    /// Takes a place. A free slot needs none, so a full line can't be in front of one.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Ticket, PoolError> {
        let mut waiting = lock(&self.waiting);
        if waiting.tickets.len() >= self.limit + self.slots.available_permits() {
            return Err(PoolError::QueueFull { limit: self.limit });
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.tickets.insert(number);
        Ok(Ticket { queue: Arc::clone(self), number })
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        lock(&self.waiting).tickets.len()
    }
}

impl Ticket {
    /// 1 for the next one to be served.
    pub(crate) fn position(&self) -> u32 {
        u32::try_from(lock(&self.queue.waiting).tickets.range(..=self.number).count()).unwrap_or(u32::MAX)
    }

    /// Waits for a slot.
    pub(crate) async fn wait(&self) -> Result<OwnedSemaphorePermit, PoolError> {
        let permit = Arc::clone(&self.queue.slots).acquire_owned().await;
        permit.map_err(|_| PoolError::Start("the pool is closed".into()))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        lock(&self.queue.waiting).tickets.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_line_refuses_and_positions_move_up() {
        let queue = Queue::new(1, 2);
        let first = queue.enter().unwrap();
        let slot = first.wait().await.unwrap();
        drop(first);
        let second = queue.enter().unwrap();
        let third = queue.enter().unwrap();
        assert_eq!((second.position(), third.position(), queue.len()), (1, 2, 2));
        assert!(matches!(queue.enter(), Err(PoolError::QueueFull { limit: 2 })));
        drop(second);
        assert_eq!(third.position(), 1);
        drop(slot);
        drop(third.wait().await.unwrap());
    }
}
