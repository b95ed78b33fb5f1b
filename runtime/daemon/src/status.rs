//! The one place that gives errors their gRPC code, their stable reason and their hint. `docs/ERRORS.md` lists them.

use tonic::{Code, Status};
use tpud_lowering::LoweringError;
use tpud_proto::v1;

use crate::error::DaemonError;
use crate::pool::PoolError;
use crate::wire;

/// Code and reason of an error.
type Class = (Code, &'static str);

impl From<&DaemonError> for v1::Error {
    fn from(error: &DaemonError) -> Self {
        if let DaemonError::Pool(PoolError::Job(job)) = error {
            return v1::Error::clone(job); // the worker has classified it
        }
        let (code, reason) = classify(error);
        let mut detail = v1::ErrorDetail {
            reason: reason.to_owned(),
            hint: hint(reason).to_owned(),
            ..v1::ErrorDetail::default()
        };
        fill(&mut detail, error);
        Self { code: code as u32, message: error.to_string(), detail: Some(detail) }
    }
}

impl From<DaemonError> for v1::Error {
    fn from(error: DaemonError) -> Self {
        Self::from(&error)
    }
}

impl From<DaemonError> for Status {
    fn from(error: DaemonError) -> Self {
        wire::to_status(v1::Error::from(&error))
    }
}

fn classify(error: &DaemonError) -> Class {
    use Code::*;
    match error {
        DaemonError::VersionMismatch { .. } => (FailedPrecondition, "VERSION_MISMATCH"),
        DaemonError::SessionExpired(_) => (NotFound, "SESSION_EXPIRED"),
        DaemonError::SessionRequired(_) => (InvalidArgument, "SESSION_REQUIRED"),
        DaemonError::TooManySessions { .. } => (ResourceExhausted, "TOO_MANY_SESSIONS"),
        DaemonError::UnknownHandle { .. } => (NotFound, "UNKNOWN_HANDLE"),
        DaemonError::HandleInUse { .. } => (AlreadyExists, "HANDLE_IN_USE"),
        DaemonError::HandleFailed { .. } => (FailedPrecondition, "HANDLE_FAILED"),
        DaemonError::InvalidCommand(_) => (InvalidArgument, "INVALID_COMMAND"),
        DaemonError::InputMismatch { .. } => (InvalidArgument, "INPUT_MISMATCH"),
        DaemonError::Shared(_) => (InvalidArgument, "SHARED_RANGE_INVALID"),
        DaemonError::QuotaExceeded { .. } => (ResourceExhausted, "QUOTA_EXCEEDED"),
        DaemonError::MessageTooLarge { .. } => (ResourceExhausted, "MESSAGE_TOO_LARGE"),
        DaemonError::MalformedMessage(_) => (InvalidArgument, "MALFORMED_MESSAGE"),
        DaemonError::NoDevice => (FailedPrecondition, "NO_DEVICE"),
        DaemonError::TargetMismatch { .. } => (FailedPrecondition, "TARGET_MISMATCH"),
        DaemonError::InvalidTarget(_) => (InvalidArgument, "INVALID_TARGET"),
        DaemonError::InvalidOptions(_) => (InvalidArgument, "INVALID_OPTIONS"),
        DaemonError::InvalidGraph(_) => (InvalidArgument, "INVALID_GRAPH"),
        DaemonError::Lowering(error) => classify_lowering(error),
        DaemonError::Mlir(_) => (Internal, "LOWERING_DEFECT"),
        DaemonError::Device(error) => classify_device(error),
        DaemonError::DoesNotFit { .. } => (ResourceExhausted, "DOES_NOT_FIT"),
        DaemonError::Pool(error) => classify_pool(error),
        DaemonError::Breaker { .. } => (Internal, "WORKER_KILLER"),
        DaemonError::DeadlineExceeded(_) => (DeadlineExceeded, "DEADLINE_EXCEEDED"),
        DaemonError::Cache(_) => (Internal, "CACHE_FAILED"),
        DaemonError::CacheKey(error) => classify_key(error),
        DaemonError::LocalOnly(_) => (PermissionDenied, "LOCAL_ONLY"),
        DaemonError::ShuttingDown => (Unavailable, "SHUTTING_DOWN"),
        DaemonError::Panic(_) => (Internal, "PANIC"),
        DaemonError::System { .. } => (Internal, "SYSTEM_ERROR"),
    }
}

fn classify_lowering(error: &LoweringError) -> Class {
    match error {
        LoweringError::Unsupported(_) => (Code::Unimplemented, "UNSUPPORTED_OP"),
        LoweringError::Internal(_) => (Code::Internal, "LOWERING_DEFECT"),
        LoweringError::Symbolic => (Code::InvalidArgument, "SYMBOLIC_SIZES"),
    }
}

fn classify_device(error: &tpud_device::Error) -> Class {
    use tpud_pjrt::Error as Pjrt;
    let code = Code::from(error.code() as i32);
    let pjrt = match error {
        tpud_device::Error::Pjrt(pjrt) => pjrt,
        // Both enums may grow; what is not named here still has its own code.
        _ => return (code, "DEVICE_ERROR"),
    };
    match pjrt {
        Pjrt::MissingPlugin { .. } => (code, "PLUGIN_MISSING"),
        Pjrt::Load { .. } | Pjrt::MissingSymbol { .. } | Pjrt::Unreadable { .. } => (code, "PLUGIN_UNUSABLE"),
        Pjrt::IncompatiblePlugin { .. } | Pjrt::MissingFunction { .. } | Pjrt::BrokenContract { .. } => {
            (code, "PLUGIN_INCOMPATIBLE")
        }
        Pjrt::Plugin { .. } if code == Code::ResourceExhausted => (code, "DEVICE_OUT_OF_MEMORY"),
        Pjrt::Plugin { .. } => (code, "XLA_ERROR"),
        Pjrt::UnknownTopology { .. } => (code, "INVALID_TARGET"),
        _ => (code, "DEVICE_ERROR"),
    }
}

fn classify_pool(error: &PoolError) -> Class {
    match error {
        PoolError::QueueFull { .. } => (Code::ResourceExhausted, "QUEUE_FULL"),
        PoolError::Start(_) => (Code::Unavailable, "WORKER_START_FAILED"),
        PoolError::Died { .. } => (Code::Internal, "WORKER_DIED"),
        PoolError::TimedOut { .. } => (Code::DeadlineExceeded, "COMPILE_TIMEOUT"),
        PoolError::Protocol(_) => (Code::Internal, "WORKER_PROTOCOL"),
        PoolError::Job(_) => (Code::Internal, "WORKER_PROTOCOL"),
    }
}

fn classify_key(error: &tpud_cache::KeyError) -> Class {
    use tpud_cache::KeyError;
    match error {
        KeyError::Malformed { .. } | KeyError::PrefixMalformed { .. } => {
            (Code::InvalidArgument, "CACHE_KEY_INVALID")
        }
        KeyError::Unknown { .. } => (Code::NotFound, "CACHE_KEY_UNKNOWN"),
        KeyError::Ambiguous { .. } => (Code::InvalidArgument, "CACHE_KEY_AMBIGUOUS"),
    }
}

/// What to do, by reason. Not every reason needs saying more than its message does.
const HINTS: &[(&str, &str)] = &[
    ("VERSION_MISMATCH", "install the same tpud version on both sides"),
    ("SESSION_EXPIRED", "open a new session and upload again"),
    ("SESSION_REQUIRED", "open a session first"),
    ("TOO_MANY_SESSIONS", "close sessions, or raise sessions.max_sessions"),
    ("UNKNOWN_HANDLE", "make it before it is used"),
    ("HANDLE_IN_USE", "choose another, or free it first"),
    ("HANDLE_FAILED", "look at the error of the command that should have made it"),
    ("INPUT_MISMATCH", "compile the graph for these inputs"),
    ("QUOTA_EXCEEDED", "free buffers, or raise sessions.memory_bytes"),
    (
        "MESSAGE_TOO_LARGE",
        "send large constants as inputs and large tensors in pieces, or raise limits.max_message_bytes",
    ),
    ("MALFORMED_MESSAGE", "install the same tpud version on both sides"),
    ("NO_DEVICE", "use a daemon that was started with --device cpu or tpu"),
    ("TARGET_MISMATCH", "compile for the device, or without an executable handle"),
    ("INVALID_GRAPH", "a graph that tpud's own client made should never do this: report it"),
    ("LOWERING_DEFECT", "a defect of tpud: report it with the graph"),
    ("DOES_NOT_FIT", "use smaller batches, a smaller dtype, or a target with more memory"),
    (
        "WORKER_KILLER",
        "this graph makes the compiler crash: report it with the log; other graphs are not affected",
    ),
    ("DEADLINE_EXCEEDED", "allow more time"),
    ("CACHE_FAILED", "check the cache directory's disk and permissions"),
    ("SHUTTING_DOWN", "try again: the next daemon will answer"),
    ("PANIC", "a defect of tpud: report it; the daemon goes on"),
    (
        "UNSUPPORTED_OP",
        "these ops can run in eager PyTorch (the default); `tpud ops` lists what is supported",
    ),
    ("SYMBOLIC_SIZES", "compile with dynamic=False"),
    ("PLUGIN_MISSING", "install the plugin, or name it in the variable"),
    ("PLUGIN_UNUSABLE", "install the plugin again"),
    ("PLUGIN_INCOMPATIBLE", "install another version of the plugin"),
    ("DEVICE_OUT_OF_MEMORY", "free buffers or use smaller batches"),
    ("QUEUE_FULL", "try again later, or raise workers.queue_limit"),
    ("WORKER_START_FAILED", "check the daemon's log and memory limits"),
    ("WORKER_DIED", "report it with the log; the daemon goes on"),
    ("COMPILE_TIMEOUT", "raise workers.compile_timeout_seconds"),
    ("WORKER_PROTOCOL", "report it with the log; the daemon goes on"),
];

fn hint(reason: &str) -> &'static str {
    HINTS.iter().find(|(of, _)| *of == reason).map_or("", |(_, hint)| hint)
}

/// Adds what only some errors have.
fn fill(detail: &mut v1::ErrorDetail, error: &DaemonError) {
    match error {
        DaemonError::Lowering(lowering) => {
            detail.issues = match lowering.as_ref() {
                LoweringError::Unsupported(issues) => issues.iter().map(issue).collect(),
                LoweringError::Internal(one) => vec![issue(one)],
                LoweringError::Symbolic => Vec::new(),
            };
        }
        DaemonError::Pool(PoolError::Died { log_tail, .. } | PoolError::TimedOut { log_tail, .. }) => {
            detail.log_tail.clone_from(log_tail);
        }
        DaemonError::Breaker { last, .. } => {
            detail.log_tail = last.detail.as_ref().map(|last| last.log_tail.clone()).unwrap_or_default();
        }
        DaemonError::HandleFailed { cause, .. } => {
            let cause = v1::Error::from(cause.as_ref()).detail.unwrap_or_default();
            *detail = v1::ErrorDetail {
                reason: std::mem::take(&mut detail.reason),
                hint: std::mem::take(&mut detail.hint),
                ..cause
            };
        }
        DaemonError::QuotaExceeded { needed, available }
        | DaemonError::DoesNotFit { needed, available, .. } => {
            (detail.needed_bytes, detail.available_bytes) = (*needed, *available);
        }
        DaemonError::MessageTooLarge { found, limit } => {
            (detail.needed_bytes, detail.available_bytes) = (*found, *limit);
        }
        _ => {} // the rest has nothing beyond code, reason, hint and message
    }
}

fn issue(issue: &tpud_lowering::Issue) -> v1::Issue {
    let location = issue.location.as_deref().map(|location| v1::Location {
        file: location.file.clone(),
        line: location.line,
        function: location.function.clone(),
        code: location.code.clone(),
        module_path: location.module_path.clone(),
    });
    v1::Issue {
        op: issue.op.clone(),
        node: u32::try_from(issue.node).unwrap_or(u32::MAX),
        message: issue.message.clone(),
        location,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every reason in this file.
    fn reasons() -> Vec<&'static str> {
        let source = include_str!("status.rs");
        let upper = |text: &&str| {
            text.len() > 4
                && text.chars().all(|c| c.is_ascii_uppercase() || c == '_')
                && !text.starts_with('_')
        };
        source.split('"').skip(1).step_by(2).filter(upper).collect()
    }

    #[test]
    fn every_reason_is_documented() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ERRORS.md");
        let text = std::fs::read_to_string(path).unwrap();
        let reasons = reasons();
        assert!(reasons.len() > 30 && reasons.contains(&"WORKER_DIED"), "{reasons:?}");
        for reason in reasons {
            assert!(text.contains(&format!("`{reason}`")), "docs/ERRORS.md does not list {reason}");
        }
    }

    #[test]
    fn all_unsupported_ops_travel_with_their_lines() {
        let location = tpud_graph::Location {
            file: "model.py".into(),
            line: 12,
            function: "forward".into(),
            code: "x.foo()".into(),
            module_path: "a.b".into(),
        };
        let issue = |node| tpud_lowering::Issue {
            node,
            op: "aten.foo.default".into(),
            message: "no".into(),
            location: Some(std::sync::Arc::new(location.clone())),
        };
        let error = DaemonError::from(LoweringError::Unsupported(vec![issue(3), issue(9)]));
        let status = Status::from(error);
        let back = wire::from_status(&status);
        let detail = back.detail.unwrap();
        assert_eq!((status.code(), detail.reason.as_str()), (Code::Unimplemented, "UNSUPPORTED_OP"));
        let lines: Vec<_> =
            detail.issues.iter().map(|i| (i.node, i.location.as_ref().unwrap().line)).collect();
        assert_eq!(lines, [(3, 12), (9, 12)]);
    }

    #[test]
    fn a_plugin_s_code_passes_through() {
        let missing =
            tpud_pjrt::Error::MissingPlugin { platform: "cpu", searched: vec![], install: "x".into() };
        let error = v1::Error::from(DaemonError::from(tpud_device::Error::from(missing)));
        assert_eq!((error.code, error.detail.unwrap().reason.as_str()), (9, "PLUGIN_MISSING"));
    }
}
