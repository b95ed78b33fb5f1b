//! Single flight: one computation per key at a time, shared by all who ask for it meanwhile.
//!
//! The computation runs in a task of its own that belongs to its waiters together. Whoever started it may leave: the
//! others still get the result of that one run. When the last waiter leaves, the task is aborted. A result, good or
//! bad, reaches everybody who waits and is then forgotten.
use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    sync::watch,
    task::{AbortHandle, JoinError},
};

use crate::Key;

/// The computations under way, by key. Clones share them.
pub struct SingleFlight<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    flights: Mutex<BTreeMap<Key, Airborne<T>>>,
    next_id: AtomicU64,
}

/// The map's view of a computation: it doesn't keep it alive.
struct Airborne<T> {
    id: u64,
    running: Weak<Running<T>>,
}

/// A computation, alive as long as somebody waits for it.
struct Running<T> {
    id: u64,
    key: Key,
    result: watch::Receiver<Option<Result<T, FlightError>>>,
    task: AbortHandle,
    shared: Arc<Shared<T>>,
}

/// What a caller gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flight<T> {
    /// The result, the same for all who waited.
    pub value: T,
    /// Whether this caller started the computation (false: it shared somebody else's).
    pub led: bool,
}

/// The computation gave no result at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlightError {
    /// It panicked.
    #[error("the computation for this key panicked: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// The runtime is shutting down.
    #[error("the computation for this key was stopped by a shutdown")]
    Stopped,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        SingleFlight { shared: Arc::new(Shared { flights: Mutex::default(), next_id: AtomicU64::new(0) }) }
    }
}

impl<T> Clone for SingleFlight<T> {
    fn clone(&self) -> Self {
        SingleFlight { shared: Arc::clone(&self.shared) }
    }
}

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    /// No computation under way.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for the computation of `key`, starting it with `compute` if none is under way. Cancel-safe: dropping the
    /// returned future only leaves, see above. Failures that all waiters shall see belong into `T`
    /// (`Result<Value, Arc<Error>>`). Must be called on a tokio runtime.
    pub async fn run<F, Fut>(&self, key: Key, compute: F) -> Result<Flight<T>, FlightError>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = T> + Send + 'static,
    {
        let (running, led) = self.join(key, compute);
        let mut result = running.result.clone();
        let outcome = match result.wait_for(Option::is_some).await {
            Ok(result) => result.clone().unwrap_or(Err(FlightError::Stopped)),
            Err(_) => Err(FlightError::Stopped), // the sender is gone: the runtime dropped the task
        };
        outcome.map(|value| Flight { value, led })
    }

    /// Whether somebody computes this key right now: the next caller would wait, not start.
    pub fn is_running(&self, key: &Key) -> bool {
        self.shared.lock().get(key).is_some_and(|flight| flight.running.strong_count() > 0)
    }

    fn join<F, Fut>(&self, key: Key, compute: F) -> (Arc<Running<T>>, bool)
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = T> + Send + 'static,
    {
        let mut flights = self.shared.lock();
        if let Some(running) = flights.get(&key).and_then(|flight| flight.running.upgrade()) {
            return (running, false);
        }
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, result) = watch::channel(None);
        let task = tokio::spawn(compute());
        let running = Arc::new(Running {
            id,
            key,
            result,
            task: task.abort_handle(),
            shared: Arc::clone(&self.shared),
        });
        flights.insert(key, Airborne { id, running: Arc::downgrade(&running) });
        let shared = Arc::downgrade(&self.shared);
        tokio::spawn(async move {
            let outcome = task.await.map_err(FlightError::from);
            // Forgotten before it is told: whoever learns of a failure and asks again starts anew.
            if let Some(shared) = shared.upgrade() {
                shared.forget(&key, id);
            }
            let _ = sender.send(Some(outcome)); // nobody waits any more
        });
        (running, true)
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Airborne<T>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the flight, unless a later one has taken its place.
    fn forget(&self, key: &Key, id: u64) {
        let mut flights = self.lock();
        if flights.get(key).is_some_and(|flight| flight.id == id) {
            flights.remove(key);
        }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.task.abort(); // nothing happens if it has finished
        self.shared.forget(&self.key, self.id);
    }
}

impl From<JoinError> for FlightError {
    fn from(error: JoinError) -> Self {
        let Ok(panic) = error.try_into_panic() else { return FlightError::Stopped };
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let message = text.or_else(|| panic.downcast_ref::<String>().cloned());
        FlightError::Panicked { message: message.unwrap_or_else(|| "no message".to_owned()) }
    }
}

#[cfg(test)]
#[path = "single_flight_tests.rs"]
mod tests;
