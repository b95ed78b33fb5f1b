//! Why a command failed, as people read it.

use std::fmt;

use tpud_proto::v1;

use super::output::bytes;

/// A failure: of the daemon's making, or of ours.
#[derive(Debug)]
pub(super) enum Failure {
    /// A daemon's answer.
    Remote(Box<v1::Error>),
    /// Everything else.
    Local(anyhow::Error),
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Self {
        Self::Remote(Box::new(crate::from_status(&status)))
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure
where
    E: LocalError,
{
    fn from(error: E) -> Self {
        Self::Local(error.into())
    }
}

/// Errors that are not a daemon's answer. (`tonic::Status` could be an `anyhow::Error`, and would lose its detail.)
pub(super) trait LocalError {}
impl LocalError for anyhow::Error {}
impl LocalError for std::io::Error {}
impl LocalError for crate::address::AddressError {}
impl LocalError for crate::config::ConfigError {}
impl LocalError for crate::ServeError {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = match self {
            Self::Local(error) => return write!(f, "{error:#}"),
            Self::Remote(error) => error,
        };
        let detail = error.detail.clone().unwrap_or_default();
        match detail.issues.as_slice() {
            [] => write!(f, "{}", error.message)?,
            issues => {
                write!(f, "{} problems:", issues.len())?;
                for issue in issues {
                    write!(f, "\n  {}: {}", issue.op, issue.message)?;
                    if let Some(location) = &issue.location {
                        write!(f, "\n    {}:{}  {}", location.file, location.line, location.code.trim())?;
                    }
                }
            }
        }
        if detail.reason == "DOES_NOT_FIT" && detail.needed_bytes > detail.available_bytes {
            let (needed, has) = (detail.needed_bytes, detail.available_bytes);
            write!(
                f,
                "\nfits: NO: {} are needed, {} more than the {}",
                bytes(needed),
                bytes(needed - has),
                bytes(has)
            )?;
        }
        if !detail.log_tail.is_empty() {
            write!(f, "\nthe end of the worker's log:\n{}", indent(&detail.log_tail))?;
        }
        if !detail.hint.is_empty() {
            write!(f, "\nhint: {}", detail.hint)?;
        }
        if !detail.reason.is_empty() {
            write!(f, "\n({})", detail.reason)?;
        }
        Ok(())
    }
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
