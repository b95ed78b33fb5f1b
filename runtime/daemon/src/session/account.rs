//! Counting bytes: what a session holds, and what all of them hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::{DaemonError, Result};

/// Bytes in use, with a limit, inside another account.
#[derive(Debug)]
pub(crate) struct Account {
    used: AtomicU64,
    limit: u64,
    parent: Option<Arc<Account>>,
}

/// Bytes taken from an account; given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    account: Arc<Account>,
    bytes: u64,
}

impl Account {
    /// An account; a limit of 0 is none.
    pub(crate) fn new(limit: u64, parent: Option<Arc<Account>>) -> Arc<Self> {
        let limit = if limit == 0 { u64::MAX } else { limit };
        Arc::new(Self { used: AtomicU64::new(0), limit, parent })
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Takes bytes, or says how many are needed and left.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reservation> {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        if let Err(used) = self.used.fetch_update(Relaxed, Relaxed, fits) {
            return Err(DaemonError::QuotaExceeded {
                needed: bytes,
                available: self.limit.saturating_sub(used),
            });
        }
        if let Some(parent) = &self.parent {
            parent.used.fetch_add(bytes, Relaxed);
        }
        Ok(Reservation { account: Arc::clone(self), bytes })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.account.used.fetch_sub(self.bytes, Relaxed);
        if let Some(parent) = &self.account.parent {
            parent.used.fetch_sub(self.bytes, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_limits_hold() {
        let all = Account::new(0, None);
        let one = Account::new(100, Some(Arc::clone(&all)));
        let held = one.reserve(70).unwrap();
        let error = one.reserve(31).unwrap_err();
        assert!(matches!(error, DaemonError::QuotaExceeded { needed: 31, available: 30 }), "{error}");
        assert!(one.reserve(u64::MAX).is_err());
        assert_eq!((one.used(), all.used()), (70, 70));
        drop(held);
        assert_eq!((one.used(), all.used()), (0, 0));
    }
}
