//! What can go wrong between the client and the daemon, and how Python sees it.

use prost::Message;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tonic::Code;
use tpud_proto::rpc::RpcStatus;
use tpud_proto::v1::{Error as WireError, ErrorDetail};

pyo3::create_exception!(
    tpud._tpud,
    RawError,
    pyo3::exceptions::PyException,
    "A failure of the daemon or of the way to it."
);

/// Any failure of this crate. `Daemon` carries what the daemon said; the others are the extension's own.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("{message}")]
    Daemon { code: i32, message: String, detail: Box<ErrorDetail> },
    #[error("cannot connect to {address}: {cause}")]
    Unreachable { address: String, cause: String },
    #[error("the connection to {address} was lost: {cause}")]
    Lost { address: String, cause: String },
    #[error("this connection belongs to process {pid}, from which this process was forked")]
    Forked { pid: u32 },
    #[error("the connection is closed")]
    Closed,
    #[error("no answer within {seconds} s")]
    Deadline { seconds: f64 },
    #[error("the message has {bytes} bytes and the daemon accepts {limit}")]
    MessageTooLarge { bytes: u64, limit: u64 },
    #[error("shared segment {path}: {cause}")]
    SharedMemory { path: String, cause: String },
    #[error("address {address:?}: {cause}")]
    InvalidAddress { address: String, cause: String },
    #[error("no `tpud` binary was found: {searched}")]
    BinaryNotFound { searched: String },
    #[error("the daemon did not come up: {cause}")]
    StartFailed { cause: String, log_tail: String },
    #[error("{path} must be a directory that only you can use: {cause}")]
    UnsafeDirectory { path: String, cause: String },
    #[error("the daemon's answer is not understood: {cause}")]
    BadReply { cause: String },
    #[error("{0}")]
    Invalid(String),
    /// A Python signal handler raised; the exception waits in the caller's `interrupt` slot.
    #[error("interrupted")]
    Interrupted,
}

/// gRPC code, reason and hint of an error.
struct Face<'a> {
    code: Code,
    reason: &'a str,
    hint: &'a str,
}

impl ClientError {
    fn face(&self) -> Face<'_> {
        let face = |code, reason, hint| Face { code, reason, hint };
        match self {
            Self::Daemon { code, detail, .. } => face(Code::from(*code), &detail.reason, &detail.hint),
            Self::Unreachable { .. } => face(
                Code::Unavailable,
                "CONNECTION_LOST",
                "check that a daemon listens there, or unset TPUD_ADDRESS to have one started",
            ),
            Self::Lost { .. } => face(
                Code::Unavailable,
                "CONNECTION_LOST",
                "open a new connection; handles of this one are gone",
            ),
            Self::Forked { .. } => face(Code::Unavailable, "FORKED", "open a connection in this process"),
            Self::Closed => face(Code::Unavailable, "CLOSED", "open a new connection"),
            Self::Deadline { .. } => face(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", "allow more time"),
            Self::MessageTooLarge { .. } => face(
                Code::ResourceExhausted,
                "MESSAGE_TOO_LARGE",
                "raise the daemon's message limit, or pass large constants as inputs",
            ),
            Self::SharedMemory { .. } => {
                face(Code::ResourceExhausted, "SHARED_MEMORY", "free space in the daemon's shared directory")
            }
            Self::InvalidAddress { .. } => face(
                Code::InvalidArgument,
                "INVALID_ADDRESS",
                "write unix:///path, http://host:port or https://host:port",
            ),
            Self::BinaryNotFound { .. } => face(
                Code::NotFound,
                "DAEMON_NOT_FOUND",
                "install the tpud wheel, or set TPUD_BIN to the binary, or TPUD_ADDRESS to a running daemon",
            ),
            Self::StartFailed { .. } => {
                face(Code::Unavailable, "DAEMON_START_FAILED", "run `tpud serve` by hand to see why")
            }
            Self::UnsafeDirectory { .. } => face(
                Code::FailedPrecondition,
                "UNSAFE_RUNTIME_DIRECTORY",
                "set TPUD_RUNTIME_DIR to a directory of yours with mode 0700",
            ),
            Self::BadReply { .. } => face(
                Code::Internal,
                "BAD_REPLY",
                "client and daemon may be of different builds; report a bug",
            ),
            Self::Invalid(_) => face(Code::InvalidArgument, "INVALID_ARGUMENT", ""),
            Self::Interrupted => face(Code::Cancelled, "INTERRUPTED", ""),
        }
    }

    /// The error that a status stands for. A status without details that the transport made is a lost connection.
    pub(crate) fn from_status(status: &tonic::Status, address: &str) -> Self {
        if let Some(detail) = decode_detail(status.details()) {
            let message = status.message().to_owned();
            return Self::Daemon { code: status.code() as i32, message, detail: Box::new(detail) };
        }
        let transport = std::error::Error::source(status).is_some();
        if transport || status.code() == Code::Unavailable {
            return Self::Lost { address: address.to_owned(), cause: causes(status) };
        }
        let detail = ErrorDetail { reason: code_name(status.code()).to_owned(), ..ErrorDetail::default() };
        Self::Daemon {
            code: status.code() as i32,
            message: status.message().to_owned(),
            detail: Box::new(detail),
        }
    }

    /// An error that came inside of a reply.
    pub(crate) fn from_wire(error: WireError) -> Self {
        let code = Code::from(i32::try_from(error.code).unwrap_or(Code::Unknown as i32));
        let mut detail = error.detail.unwrap_or_default();
        if detail.reason.is_empty() {
            code_name(code).clone_into(&mut detail.reason);
        }
        Self::Daemon { code: code as i32, message: error.message, detail: Box::new(detail) }
    }

    /// True when no later call on the same connection can succeed.
    pub(crate) fn ends_session(&self) -> bool {
        match self {
            Self::Lost { .. } => true,
            Self::Daemon { detail, .. } => detail.reason == "SESSION_EXPIRED",
            _ => false,
        }
    }
}

/// An error with its chain of causes, the outermost first, each part once.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = match error.downcast_ref::<tonic::Status>() {
        Some(status) if !status.message().is_empty() => status.message().to_owned(),
        Some(status) => code_name(status.code()).to_owned(),
        None => error.to_string(),
    };
    let mut source = error.source();
    while let Some(inner) = source {
        let part = inner.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        source = inner.source();
    }
    text
}

fn decode_detail(details: &[u8]) -> Option<ErrorDetail> {
    if details.is_empty() {
        return None;
    }
    let status = RpcStatus::decode(details).ok()?;
    let any = status.details.iter().find(|any| any.type_url.ends_with("/tpud.v1.ErrorDetail"))?;
    ErrorDetail::decode(any.value.as_slice()).ok()
}

fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

impl From<ClientError> for PyErr {
    fn from(error: ClientError) -> Self {
        Python::attach(|py| match &error {
            ClientError::Invalid(message) => PyValueError::new_err(message.clone()),
            ClientError::Interrupted => PyErr::take(py)
                .unwrap_or_else(|| pyo3::exceptions::PyKeyboardInterrupt::new_err("interrupted")),
            _ => raw_error(py, &error).unwrap_or_else(|failed| failed),
        })
    }
}

fn raw_error(py: Python<'_>, error: &ClientError) -> PyResult<PyErr> {
    let face = error.face();
    let message = error.to_string();
    let raw = RawError::new_err(message.clone());
    let value = raw.value(py);
    value.setattr("code", face.code as i32)?;
    value.setattr("code_name", code_name(face.code))?;
    value.setattr("reason", face.reason)?;
    value.setattr("message", message)?;
    value.setattr("hint", face.hint)?;
    let empty = ErrorDetail::default();
    let detail = if let ClientError::Daemon { detail, .. } = error { detail } else { &empty };
    let log_tail =
        if let ClientError::StartFailed { log_tail, .. } = error { log_tail } else { &detail.log_tail };
    value.setattr("log_tail", log_tail)?;
    let (needed, available) = match error {
        ClientError::MessageTooLarge { bytes, limit } => (*bytes, *limit),
        _ => (detail.needed_bytes, detail.available_bytes),
    };
    value.setattr("needed_bytes", needed)?;
    value.setattr("available_bytes", available)?;
    let issues = PyList::empty(py);
    for issue in &detail.issues {
        let location = issue.location.clone().unwrap_or_default();
        let dict = PyDict::new(py);
        dict.set_item("op", &issue.op)?;
        dict.set_item("node", issue.node)?;
        dict.set_item("message", &issue.message)?;
        dict.set_item("file", location.file)?;
        dict.set_item("line", location.line)?;
        dict.set_item("function", location.function)?;
        dict.set_item("code", location.code)?;
        dict.set_item("module_path", location.module_path)?;
        issues.append(dict)?;
    }
    value.setattr("issues", issues)?;
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use tpud_proto::rpc::{Any, DETAIL_URL};

    use super::*;

    fn status_with(detail: &ErrorDetail, type_url: &str) -> tonic::Status {
        let any = Any { type_url: type_url.to_owned(), value: detail.encode_to_vec() };
        let envelope = RpcStatus { code: 3, message: "bad".to_owned(), details: vec![any] };
        tonic::Status::with_details(Code::InvalidArgument, "bad graph", envelope.encode_to_vec().into())
    }

    #[test]
    fn details_are_decoded() {
        let detail = ErrorDetail { reason: "UNSUPPORTED_OP".to_owned(), ..ErrorDetail::default() };
        let status = status_with(&detail, DETAIL_URL);
        let error = ClientError::from_status(&status, "unix:///x");
        assert_eq!(error.face().reason, "UNSUPPORTED_OP");
        assert_eq!(error.face().code, Code::InvalidArgument);
        assert_eq!(error.to_string(), "bad graph");
        assert!(!error.ends_session());
    }

    #[test]
    fn other_details_and_garbage_leave_the_plain_status() {
        let other = status_with(&ErrorDetail::default(), "type.googleapis.com/google.rpc.Help");
        assert_eq!(ClientError::from_status(&other, "a").face().reason, "INVALID_ARGUMENT");
        let garbage = tonic::Status::with_details(Code::Internal, "boom", vec![0xff, 0xff].into());
        assert_eq!(ClientError::from_status(&garbage, "a").face().reason, "INTERNAL");
    }

    #[test]
    fn a_bare_unavailable_is_a_lost_connection() {
        let error = ClientError::from_status(&tonic::Status::unavailable("gone"), "unix:///x");
        assert!(matches!(&error, ClientError::Lost { cause, .. } if cause == "gone"));
        assert!(error.ends_session());
        let expired = ErrorDetail { reason: "SESSION_EXPIRED".to_owned(), ..ErrorDetail::default() };
        assert!(
            ClientError::from_wire(WireError { code: 5, message: String::new(), detail: Some(expired) })
                .ends_session()
        );
    }
}
