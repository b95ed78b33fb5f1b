//! What changes the bytes that decide a key, and what doesn't.

use prost::Message;
use tpud_graph::{Graph, GraphError, canonical_bytes};
use tpud_proto::v1 as pb;

use crate::messages::{changed, constant_size, graph, symbol};

fn canonical(change: impl FnOnce(&mut pb::Graph)) -> Vec<u8> {
    canonical_bytes(&changed(change)).unwrap()
}

#[test]
fn locations_name_and_hints_do_not_matter() {
    let original = canonical(|_| ());
    for other in [
        canonical(|g| g.name = "Other".into()),
        canonical(|g| g.locations[0].line = 99),
        canonical(|g| g.locations.clear()),
        canonical(|g| g.nodes[0].location = 0),
        canonical(|g| g.nodes[1].location = 1),
        canonical(|g| g.symbols[0].hint = 3),
    ] {
        assert_eq!(other, original);
    }
    // Canonical bytes are a graph again, and their own canonical form.
    assert!(Graph::decode(&original).is_ok());
    assert_eq!(canonical_bytes(&original).unwrap(), original);
}

#[test]
fn everything_else_matters() {
    type Change = fn(&mut pb::Graph);
    let changes: &[Change] = &[
        |g| g.symbols[0].name = "s1".into(),
        |g| g.symbols[0].max = 65,
        |g| g.inputs[0].role = pb::input::Role::Parameter.into(),
        |g| g.inputs[0].meta.as_mut().unwrap().strides.clear(),
        |g| g.inputs[0].meta.as_mut().unwrap().storage_offset = None,
        |g| g.inputs[1].meta.as_mut().unwrap().dtype = pb::DType::Float16.into(),
        |g| g.inputs[1].meta.as_mut().unwrap().sizes[0] = constant_size(4),
        |g| g.inputs[1].meta.as_mut().unwrap().sizes[0] = symbol(0),
        |g| g.inputs[2].symbol = 1,
        |g| g.constants[0].data[3] = 9,
        |g| g.nodes[0].op = "aten.sub.Tensor".into(),
        |g| g.nodes[0].args.swap(0, 1),
        |g| g.nodes[0].args[2].name = "beta".into(),
        |g| g.nodes[0].args[2].value = None,
        |g| g.nodes[0].outputs[0].sizes.reverse(),
        |g| g.nodes[1].outputs.truncate(1),
        |g| g.nodes.truncate(1),
        |g| g.outputs[0].role = pb::output::Role::Saved.into(),
        |g| g.outputs[0].value = 6,
        |g| g.outputs[1].input = 2,
        |g| g.outputs.swap(0, 1),
    ];
    let mut seen = vec![canonical(|_| ())];
    for (i, change) in changes.iter().enumerate() {
        let bytes = canonical(change);
        assert!(!seen.contains(&bytes), "change {i} makes no difference");
        seen.push(bytes);
    }
}

#[test]
fn the_encoder_does_not_matter() {
    // Fields in another order, an unknown field and a default that is sent: legal protobuf for the same graph.
    let mut reordered = pb::Graph { name: "Model".into(), ..pb::Graph::default() }.encode_to_vec();
    reordered.extend(graph().encode_to_vec());
    reordered.extend([0x78, 0x05]); // field 15, varint 5
    assert_eq!(canonical_bytes(&reordered).unwrap(), canonical(|_| ()));
}

#[test]
fn bytes_that_are_no_graph_are_refused() {
    assert!(matches!(canonical_bytes(b"not a graph"), Err(GraphError::Decode(_))));
    let other = changed(|g| g.schema_version = 3);
    assert_eq!(canonical_bytes(&other), Err(GraphError::SchemaVersion { found: 3, supported: 1 }));
}
