//! The runtime of one connection, driven by whoever waits.
//!
//! A single-threaded tokio runtime: a thread that waits for an answer runs the I/O itself, so a call costs no
//! hand-over between threads. While nobody waits, a background thread drives it (heartbeats, late answers); it steps
//! aside for callers and comes back once they have been silent for `QUIET`.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

/// How long callers have to be silent before the background thread takes the I/O back.
const QUIET: Duration = Duration::from_millis(20);

struct Shared {
    runtime: Runtime,
    step_aside: Notify,
    background_drives: AtomicBool,
    waiting: AtomicUsize,
    calls: AtomicU64,
    stop: AtomicBool,
}

/// Turns after which a queued command has passed the request's stream and the connection and is in the socket.
const FLUSH_TURNS: usize = 4;

/// A runtime with its background thread.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    background: Mutex<Option<JoinHandle<()>>>,
}

impl Driver {
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::new(Shared {
            runtime,
            step_aside: Notify::new(),
            background_drives: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&shared);
        let background = thread::Builder::new().name("tpud-io".to_owned()).spawn(move || theirs.drive())?;
        Ok(Self { shared, background: Mutex::new(Some(background)) })
    }

    /// Runs a future on the calling thread, driving the I/O of the whole connection meanwhile.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        let shared = &self.shared;
        shared.waiting.fetch_add(1, Ordering::SeqCst);
        shared.calls.fetch_add(1, Ordering::Relaxed);
        if shared.background_drives.load(Ordering::SeqCst) {
            shared.step_aside.notify_one();
        }
        let output = shared.runtime.block_on(future);
        shared.waiting.fetch_sub(1, Ordering::SeqCst);
        output
    }

    /// Gets what was queued on its way, without waiting for an answer, when nobody drives at the moment.
    pub(crate) fn flush(&self) {
        if !self.shared.background_drives.load(Ordering::SeqCst) {
            self.block_on(async {
                for _ in 0..FLUSH_TURNS {
                    tokio::task::yield_now().await;
                }
            });
        }
    }

    /// Starts a task; it runs while anybody drives.
    pub(crate) fn spawn<F: Future<Output = ()> + Send + 'static>(&self, future: F) {
        self.shared.runtime.spawn(future);
    }

    /// Ends the background thread. Tasks stop running unless somebody waits.
    pub(crate) fn stop(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.step_aside.notify_one();
        let handle = self.background.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle {
            handle.thread().unpark();
            // The thread holds nothing that a panic could break, and the connection is over.
            let _ = handle.join();
        }
    }
}

impl Shared {
    fn drive(&self) {
        while !self.stop.load(Ordering::SeqCst) {
            self.background_drives.store(true, Ordering::SeqCst);
            // A caller that came before the store did not notify, so it is looked for once more.
            if self.waiting.load(Ordering::SeqCst) == 0 {
                self.runtime.block_on(self.step_aside.notified());
            }
            self.background_drives.store(false, Ordering::SeqCst);
            self.wait_for_quiet();
        }
    }

    fn wait_for_quiet(&self) {
        loop {
            let seen = self.calls.load(Ordering::Relaxed);
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            thread::park_timeout(QUIET);
            let silent = self.calls.load(Ordering::Relaxed) == seen;
            if silent && self.waiting.load(Ordering::SeqCst) == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn tasks_run_while_nobody_waits_and_callers_are_served() {
        let driver = Driver::start().unwrap();
        let ticks = Arc::new(AtomicU64::new(0));
        let theirs = Arc::clone(&ticks);
        driver.spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(1)).await;
                theirs.fetch_add(1, Ordering::SeqCst);
            }
        });
        let started = Instant::now();
        while ticks.load(Ordering::SeqCst) < 5 {
            assert!(started.elapsed() < Duration::from_secs(10), "the background thread does not drive");
            thread::sleep(Duration::from_millis(5));
        }
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let (sender, receiver) = tokio::sync::oneshot::channel();
                        driver.spawn(async move {
                            tokio::task::yield_now().await;
                            let _ = sender.send(7);
                        });
                        assert_eq!(driver.block_on(receiver).unwrap(), 7);
                    }
                });
            }
        });
        driver.stop();
    }
}
