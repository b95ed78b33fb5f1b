//! The bytes of a graph that decide its key.

use prost::Message;

use crate::{GraphError, wire};

/// Re-encodes a graph without what does not matter to its meaning: source locations, the name for people and the
/// sizes that happened to be seen while tracing.
///
/// prost writes fields in the order of their numbers and the messages hold no maps, so equal graphs have equal bytes
/// on every host.
///
/// # Errors
/// Bytes that are no graph or of another schema version.
pub fn canonical_bytes(bytes: &[u8]) -> Result<Vec<u8>, GraphError> {
    let mut graph = wire::message(bytes)?;
    graph.locations.clear();
    graph.name.clear();
    for symbol in &mut graph.symbols {
        symbol.hint = 0;
    }
    for node in &mut graph.nodes {
        node.location = 0;
    }
    Ok(graph.encode_to_vec())
}
