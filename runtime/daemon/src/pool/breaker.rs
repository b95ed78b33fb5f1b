//! Remembers graphs that kill workers, so that they stop doing it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tpud_proto::v1;

use crate::sync::lock;

/// What is remembered for a graph key.
#[derive(Debug)]
struct Record {
    failures: u32,
    last: Instant,
    error: v1::Error,
}

/// After `threshold` failures of one key its last error is the answer, for `period` after the last of them.
#[derive(Debug)]
pub(crate) struct Breaker {
    threshold: u32,
    period: Duration,
    records: Mutex<HashMap<String, Record>>,
}

/// Keys remembered at once; beyond it the oldest are dropped, so that hostile clients can't fill the memory.
const MAX_RECORDS: usize = 4096;

impl Breaker {
    pub(crate) fn new(threshold: u32, period: Duration) -> Self {
        Self { threshold, period, records: Mutex::default() }
    }

    /// The remembered error and how many workers died, if the key must not be tried now.
    pub(crate) fn check(&self, key: &str) -> Option<(u32, v1::Error)> {
        let records = lock(&self.records);
        let record = records.get(key)?;
        (record.failures >= self.threshold && record.last.elapsed() < self.period)
            .then(|| (record.failures, record.error.clone()))
    }

    /// A worker died of this key.
    pub(crate) fn failed(&self, key: &str, error: v1::Error) {
        let mut records = lock(&self.records);
        if records.len() >= MAX_RECORDS && !records.contains_key(key) {
            let period = self.period;
            records.retain(|_, record| record.last.elapsed() < period);
            if records.len() >= MAX_RECORDS {
                let oldest = records.iter().min_by_key(|(_, record)| record.last).map(|(key, _)| key.clone());
                oldest.map(|key| records.remove(&key));
            }
        }
        let now = Instant::now();
        let record = records.entry(key.to_owned()).or_insert(Record {
            failures: 0,
            last: now,
            error: v1::Error::default(),
        });
        if record.last.elapsed() >= self.period {
            record.failures = 0;
        }
        record.failures += 1;
        record.last = now;
        record.error = error;
    }

    /// The key compiled: what was, is forgiven.
    pub(crate) fn succeeded(&self, key: &str) {
        lock(&self.records).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_at_the_threshold_and_closes_after_the_period() {
        let breaker = Breaker::new(2, Duration::from_millis(40));
        breaker.failed("a", v1::Error::default());
        assert!(breaker.check("a").is_none());
        breaker.failed("a", v1::Error { message: "died".into(), ..Default::default() });
        assert_eq!(
            breaker.check("a").map(|(failures, error)| (failures, error.message)),
            Some((2, "died".into()))
        );
        assert!(breaker.check("b").is_none());
        std::thread::sleep(Duration::from_millis(50));
        assert!(breaker.check("a").is_none(), "tried again after the period");
        breaker.failed("a", v1::Error::default());
        assert!(breaker.check("a").is_none(), "old failures don't count");
    }

    #[test]
    fn success_forgives_and_memory_is_bounded() {
        let breaker = Breaker::new(1, Duration::from_secs(60));
        breaker.failed("a", v1::Error::default());
        breaker.succeeded("a");
        assert!(breaker.check("a").is_none());
        for index in 0..MAX_RECORDS + 10 {
            breaker.failed(&index.to_string(), v1::Error::default());
        }
        assert_eq!(lock(&breaker.records).len(), MAX_RECORDS);
        assert!(breaker.check("0").is_none() && breaker.check(&(MAX_RECORDS + 9).to_string()).is_some());
    }
}
