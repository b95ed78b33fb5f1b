//! The bytes of a graph that decide its key.

use prost::Message;
use tpud_proto::v1 as pb;

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
    graph.nodes.iter_mut().for_each(forget_location);
    Ok(graph.encode_to_vec())
}

/// Also of the nodes in nested graphs. The decoder has limited how deeply messages nest.
fn forget_location(node: &mut pb::Node) {
    fn visit(value: &mut pb::Value) {
        match &mut value.kind {
            Some(pb::value::Kind::List(list)) => list.items.iter_mut().for_each(visit),
            Some(pb::value::Kind::Graph(graph)) => graph.nodes.iter_mut().for_each(forget_location),
            _ => {}
        }
    }
    node.location = 0;
    node.args.iter_mut().filter_map(|arg| arg.value.as_mut()).for_each(visit);
}
