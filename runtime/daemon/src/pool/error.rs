//! What can go wrong between the daemon and a worker.

use tpud_proto::v1;

/// Where a job was when it ended badly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The worker was starting.
    Starting,
    /// ATen to StableHLO.
    Lowering,
    /// XLA.
    Compiling,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Lowering => "lowering",
            Self::Compiling => "compiling",
        })
    }
}

/// Why a job has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum PoolError {
    /// Too many wait already.
    #[error("{limit} compile requests are waiting already")]
    QueueFull {
        /// How many may.
        limit: usize,
    },
    /// No worker can be started.
    #[error("a compile worker can't be started: {0}")]
    Start(String),
    /// The worker ended by itself.
    #[error("the compile worker ended while {stage}: {how}")]
    Died {
        /// What it did.
        stage: Stage,
        /// The signal or exit code.
        how: String,
        /// Its last lines.
        log_tail: String,
    },
    /// The worker took longer than a compile may take, and was killed.
    #[error("the compile worker was killed after {seconds} s of {stage}")]
    TimedOut {
        /// What it did.
        stage: Stage,
        /// The limit.
        seconds: u64,
        /// Its last lines.
        log_tail: String,
    },
    /// The worker said something that makes no sense.
    #[error("the compile worker broke the protocol: {0}")]
    Protocol(String),
    /// The worker lives; the job failed.
    #[error("{}", .0.message)]
    Job(Box<v1::Error>),
}
