//! One run per key; who starts it and who leaves doesn't matter.
use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use tokio::{sync::Notify, task::JoinHandle, time::timeout};

use super::*;

const KEY: Key = Key::from_bytes([1; 32]);
const LONG: Duration = Duration::from_secs(10);

/// A computation that counts its runs and ends, and waits until it is let go.
#[derive(Clone, Default)]
struct Work {
    flight: SingleFlight<Result<u32, String>>,
    runs: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
    go: Arc<Notify>,
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

type Outcome = Result<Flight<Result<u32, String>>, FlightError>;

impl Work {
    fn start(&self, value: Result<u32, String>) -> JoinHandle<Outcome> {
        let work = self.clone();
        tokio::spawn(async move {
            let (go, runs, dropped) = (work.go, work.runs, work.dropped);
            let compute = || async move {
                let _counted = CountDrop(dropped);
                runs.fetch_add(1, SeqCst);
                go.notified().await;
                value
            };
            work.flight.run(KEY, compute).await
        })
    }

    async fn until(&self, what: impl Fn(&Self) -> bool) {
        let poll = async {
            while !what(self) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(LONG, poll).await.expect("the condition never came true");
    }

    fn waiters(&self) -> usize {
        self.flight.shared.lock().get(&KEY).map_or(0, |flight| flight.running.strong_count())
    }
}

async fn finish(handle: JoinHandle<Outcome>) -> Outcome {
    timeout(LONG, handle).await.expect("nobody was told").unwrap()
}

#[tokio::test]
async fn all_who_ask_share_one_run() {
    let work = Work::default();
    let handles: Vec<_> = (0..128).map(|_| work.start(Ok(7))).collect();
    work.until(|w| w.waiters() == 128).await;
    assert!(work.flight.is_running(&KEY));
    work.go.notify_one();
    let mut led = 0;
    for handle in handles {
        let flight = finish(handle).await.unwrap();
        assert_eq!(flight.value, Ok(7));
        led += usize::from(flight.led);
    }
    assert_eq!((led, work.runs.load(SeqCst)), (1, 1));
    assert!(!work.flight.is_running(&KEY));
}

#[tokio::test]
async fn leader_and_followers_leave_and_the_last_gets_the_result_of_the_one_run() {
    let work = Work::default();
    let leader = work.start(Ok(7));
    work.until(|w| w.runs.load(SeqCst) == 1).await;
    let mut followers: Vec<_> = (0..9).map(|_| work.start(Ok(8))).collect();
    work.until(|w| w.waiters() == 10).await;
    leader.abort();
    let last = followers.pop().unwrap();
    followers.iter().for_each(JoinHandle::abort);
    work.until(|w| w.waiters() == 1).await;
    work.go.notify_one();
    let flight = finish(last).await.unwrap();
    assert_eq!(flight, Flight { value: Ok(7), led: false });
    assert_eq!(work.runs.load(SeqCst), 1);
}

#[tokio::test]
async fn when_all_leave_the_run_is_stopped_and_the_next_starts_anew() {
    let work = Work::default();
    let only = work.start(Ok(7));
    work.until(|w| w.runs.load(SeqCst) == 1).await;
    only.abort();
    work.until(|w| w.dropped.load(SeqCst) == 1).await;
    assert!(!work.flight.is_running(&KEY));
    assert!(work.flight.shared.lock().is_empty(), "nothing of it is kept");
    let next = work.start(Ok(9));
    work.until(|w| w.runs.load(SeqCst) == 2).await;
    work.go.notify_one();
    assert_eq!(finish(next).await.unwrap(), Flight { value: Ok(9), led: true });
}

#[tokio::test]
async fn a_failure_reaches_all_and_is_not_remembered() {
    let work = Work::default();
    let handles: Vec<_> = (0..16).map(|_| work.start(Err("no".into()))).collect();
    work.until(|w| w.waiters() == 16).await;
    work.go.notify_one();
    for handle in handles {
        assert_eq!(finish(handle).await.unwrap().value, Err("no".to_owned()));
    }
    let again = work.start(Ok(1));
    work.until(|w| w.runs.load(SeqCst) == 2).await;
    work.go.notify_one();
    assert_eq!(finish(again).await.unwrap(), Flight { value: Ok(1), led: true });
}

#[tokio::test]
async fn a_panic_reaches_all_as_an_error() {
    let flight = SingleFlight::<u32>::new();
    let go = Arc::new(Notify::new());
    let compute = |go: Arc<Notify>| async move {
        go.notified().await;
        panic!("boom {}", 1)
    };
    let (one, two) =
        (flight.run(KEY, || compute(Arc::clone(&go))), flight.run(KEY, || compute(Arc::clone(&go))));
    let let_go = async { go.notify_one() };
    let (one, two, ()) = tokio::join!(one, two, let_go);
    let expected = Err(FlightError::Panicked { message: "boom 1".into() });
    assert_eq!((one, two), (expected.clone(), expected));
    assert_eq!(flight.run(KEY, || async { 5 }).await, Ok(Flight { value: 5, led: true }));
}

#[tokio::test]
async fn keys_do_not_wait_for_each_other() {
    let work = Work::default();
    let held = work.start(Ok(7));
    work.until(|w| w.runs.load(SeqCst) == 1).await;
    let other = work.flight.run(Key::from_bytes([2; 32]), || async { Ok(3) });
    assert_eq!(timeout(LONG, other).await.unwrap().unwrap().value, Ok(3));
    work.go.notify_one();
    assert_eq!(finish(held).await.unwrap().value, Ok(7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn coming_and_going_at_random_never_hangs() {
    let flight = SingleFlight::<u32>::new();
    let call = |i: u64| {
        let flight = flight.clone();
        let key = Key::from_bytes([(i % 3) as u8; 32]);
        tokio::spawn(async move {
            let compute = move || async move {
                tokio::time::sleep(Duration::from_micros(i * 37 % 500)).await;
                11
            };
            timeout(Duration::from_micros(i * 91 % 700), flight.run(key, compute)).await
        })
    };
    let handles: Vec<_> = (0..2_000).map(call).collect();
    let mut finished = 0;
    for handle in handles {
        if let Ok(result) = timeout(LONG, handle).await.expect("a waiter hangs").unwrap() {
            assert_eq!(result.unwrap().value, 11);
            finished += 1;
        }
    }
    assert!(finished > 0);
    let drained = async {
        while !flight.shared.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(LONG, drained).await.expect("a flight was never forgotten");
}

#[tokio::test]
async fn a_waiter_that_has_not_looked_yet_does_not_keep_an_old_failure_alive() {
    let work = Work::default();
    let first = work.start(Err("no".into()));
    work.until(|w| w.runs.load(SeqCst) == 1).await;
    let mut sleepy = Box::pin(work.flight.run(KEY, || async { Ok(0) }));
    assert!(timeout(Duration::from_millis(1), &mut sleepy).await.is_err(), "it waits with the first");
    work.go.notify_one();
    assert_eq!(finish(first).await.unwrap().value, Err("no".to_owned()));
    let again = work.flight.run(KEY, || async { Ok(5) }).await;
    assert_eq!(again, Ok(Flight { value: Ok(5), led: true }));
    assert_eq!(sleepy.await.unwrap().value, Err("no".to_owned()));
}
