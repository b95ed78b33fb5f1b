//! Why a graph could not be lowered: all reasons at once.

use std::fmt;
use std::sync::Arc;

use tpud_graph::{Location, Node};
use tpud_stablehlo::BuildError;

/// What is wrong at one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// Index of the node in the graph.
    pub node: usize,
    /// Overload name.
    pub op: String,
    /// What is wrong, and what to do if that is known.
    pub message: String,
    /// The user's line.
    pub location: Option<Arc<Location>>,
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.op, self.message)?;
        if let Some(location) = &self.location {
            write!(f, " ({}:{})", location.file, location.line)?;
        }
        Ok(())
    }
}

/// A graph that cannot be lowered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoweringError {
    /// Ops without a rule, or used in a way their rule does not cover. All of them.
    #[error("{} not supported: {}", count(.0), list(.0))]
    Unsupported(Vec<Issue>),
    /// A rule's result does not have the type torch gave the node, or StableHLO refused an op: our fault.
    #[error("internal error in the lowering of {0}")]
    Internal(Issue),
    /// The graph has sizes that are not numbers.
    #[error("the graph has symbolic sizes; compile it for given sizes")]
    Symbolic,
}

fn count(issues: &[Issue]) -> String {
    if issues.len() == 1 { "1 op is".into() } else { format!("{} ops are", issues.len()) }
}

fn list(issues: &[Issue]) -> String {
    issues.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Why one rule gave up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RuleError {
    /// The user's graph asks for what the rule does not cover.
    Unsupported(String),
    /// The rule or the graph is broken.
    Internal(String),
}

impl RuleError {
    /// The user's graph asks for what the rule does not cover.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::Unsupported(message.into())
    }

    pub(crate) fn at(self, node: &Node) -> (bool, Issue) {
        let (unsupported, message) = match self {
            Self::Unsupported(message) => (true, message),
            Self::Internal(message) => (false, message),
        };
        (
            unsupported,
            Issue { node: node.index, op: node.op.clone(), message, location: node.location.clone() },
        )
    }
}

impl From<BuildError> for RuleError {
    fn from(error: BuildError) -> Self {
        Self::Internal(error.to_string())
    }
}
