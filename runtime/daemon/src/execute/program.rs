//! What handles stand for: executables and buffers on the device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tpud_device::{Buffer, LoadedExecutable, Signature};

use crate::session::Reservation;

/// Work that is expected to take longer leaves the async threads to others.
const SHORT: Duration = Duration::from_micros(300);

/// A loaded executable, and how long it takes.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) executable: Arc<dyn LoadedExecutable>,
    /// Nanoseconds of the last run that was waited for.
    last: AtomicU64,
}

impl Program {
    pub(crate) fn new(executable: Arc<dyn LoadedExecutable>) -> Self {
        Self { executable, last: AtomicU64::new(u64::MAX) }
    }

    pub(crate) fn signature(&self) -> &Signature {
        self.executable.signature()
    }

    /// Whether running it inline holds nobody up. One that never ran is expected to be slow.
    pub(crate) fn is_short(&self) -> bool {
        Duration::from_nanos(self.last.load(Relaxed)) < SHORT
    }

    pub(crate) fn took(&self, time: Duration) {
        self.last.store(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }
}

/// A buffer, and the bytes that its session is charged for it.
#[derive(Debug)]
pub(crate) struct DeviceBuffer {
    pub(crate) buffer: Arc<dyn Buffer>,
    _charge: Reservation,
}

impl DeviceBuffer {
    pub(crate) fn new(buffer: Arc<dyn Buffer>, charge: Reservation) -> Self {
        Self { buffer, _charge: charge }
    }
}
