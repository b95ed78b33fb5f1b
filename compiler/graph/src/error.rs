//! Why a graph was refused.

/// A graph that breaks the contract, or bytes that are no graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// Not a protobuf message of type `tpud.v1.Graph`.
    #[error("the graph cannot be decoded: {0}")]
    Decode(String),
    /// A client newer than this build.
    #[error(
        "graph schema {found} is not supported (this build reads {supported}); update tpud on the server"
    )]
    SchemaVersion {
        /// What the client sent.
        found: u32,
        /// What this build reads.
        supported: u32,
    },
    /// The graph breaks the contract at one place.
    #[error("{place}: {message}")]
    Contract {
        /// E.g. `node 12 (aten.add.Tensor)`.
        place: String,
        /// What is wrong.
        message: String,
    },
}

impl GraphError {
    pub(crate) fn contract(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Contract { place: place.into(), message: message.into() }
    }
}
