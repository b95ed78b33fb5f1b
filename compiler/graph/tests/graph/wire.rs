//! Every part of a message arrives in the model.

use prost::Message;
use tpud_graph::{
    Arg, DType, Graph, GraphError, InputRole, OutputRole, SymExpr, SymFunction, TensorMeta, ValueId,
};
use tpud_proto::v1 as pb;

use crate::messages::{changed, graph, input, meta};

fn decoded() -> Graph {
    Graph::decode(&graph().encode_to_vec()).unwrap()
}

#[test]
fn inputs_constants_and_symbols() {
    let g = decoded();
    assert_eq!((g.name.as_str(), g.value_count()), ("Model", 9));
    let symbol = &g.symbols[0];
    assert_eq!((symbol.name.as_str(), symbol.min, symbol.max, symbol.hint), ("s0", 1, 64, 2));
    let roles: Vec<_> = g.inputs.iter().map(|i| i.role).collect();
    let expected =
        [InputRole::User, InputRole::Parameter, InputRole::Symbol(0), InputRole::Seed, InputRole::Constant];
    assert_eq!(roles, expected);
    let rows = &g.inputs[0].meta;
    assert_eq!(rows.sizes, [SymExpr::Symbol(0), SymExpr::Constant(3)]);
    assert_eq!((rows.static_sizes(), rows.static_strides()), (None, Some(vec![3, 1])));
    assert_eq!(rows.storage_offset, SymExpr::Constant(6));
    assert_eq!(rows.to_string(), "float32[?, 3]");
    let fixed = &g.inputs[1].meta;
    assert_eq!((fixed.static_sizes(), fixed.static_strides()), (Some(vec![2, 3]), None));
    assert_eq!((g.constants[0].meta.dtype, &g.constants[0].data[..]), (DType::BFloat16, &[0, 1, 2, 3][..]));
}

#[test]
fn nodes_and_outputs() {
    let g = decoded();
    let (sum, two) = (&g.nodes[0], &g.nodes[1]);
    assert_eq!(sum.describe(), "node 0 (aten.add.Tensor)");
    assert_eq!((sum.first_output, two.first_output), (ValueId(6), ValueId(7)));
    let location = sum.location.as_ref().unwrap();
    assert_eq!((location.file.as_str(), location.line), ("model.py", 12));
    assert_eq!(location.module_path, "encoder.0");
    assert_eq!(two.location, None);
    assert_eq!(two.outputs.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    let roles: Vec<_> = g.outputs.iter().map(|o| (o.role, o.value.0)).collect();
    let expected = [(OutputRole::User, 7), (OutputRole::Mutation { input: 1 }, 6), (OutputRole::Saved, 5)];
    assert_eq!(roles, expected);
    let metas = g.value_metas();
    assert_eq!(metas[6].map(TensorMeta::to_string), Some("float32[2, 3]".into()));
    assert_eq!(metas[8], None);
}

#[test]
fn arguments_of_every_kind() {
    let g = decoded();
    let node = &g.nodes[1];
    let half = SymExpr::Call(SymFunction::FloorDiv, vec![SymExpr::Symbol(0), SymExpr::Constant(2)]);
    for (name, expected) in [
        ("flag", Arg::Bool(true)),
        ("scale", Arg::Float(f64::INFINITY)),
        ("mode", Arg::Text("none".into())),
        ("dtype", Arg::DType(DType::Float8E5M2)),
        ("items", Arg::List(vec![Arg::Tensor(ValueId(5)), Arg::None, Arg::List(vec![])])),
        ("size", Arg::Sym(half)),
        // A size that is a number after all.
        ("fixed", Arg::Int(7)),
        ("number", Arg::Complex(-0.0, 2.5)),
        ("none", Arg::None),
    ] {
        assert_eq!(node.arg(name), Some(&expected), "{name}");
    }
    assert_eq!(node.arg("missing"), None);
    assert!(matches!(node.arg("number"), Some(Arg::Complex(re, _)) if re.is_sign_negative()));
}

#[test]
fn every_dtype_has_a_name_and_a_width() {
    for number in 1..=17 {
        let dtype = pb::DType::try_from(number).unwrap();
        let bytes = changed(|g| {
            g.inputs.push(input(pb::input::Role::UserInput, meta(dtype, &[2])));
            // Values got new numbers.
            g.nodes.clear();
            g.outputs.clear();
        });
        let g = Graph::decode(&bytes).unwrap();
        let read = g.inputs[5].meta.dtype;
        assert_eq!(pb::DType::from(read), dtype);
        assert_eq!(read.name().to_uppercase(), dtype.as_str_name());
        assert!([1, 2, 4, 8, 16].contains(&read.byte_width()), "{read}");
    }
}

#[test]
fn another_schema_version_is_refused() {
    for found in [0, 2, u32::MAX] {
        let error = Graph::decode(&changed(|g| g.schema_version = found)).unwrap_err();
        assert_eq!(error, GraphError::SchemaVersion { found, supported: 1 });
        assert!(error.to_string().contains("update tpud on the server"));
    }
    assert_eq!(Graph::decode(&[]).unwrap_err(), GraphError::SchemaVersion { found: 0, supported: 1 });
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    let bytes = graph().encode_to_vec();
    let cut = &bytes[..bytes.len() - 1];
    for bytes in [&b"not a graph"[..], &[0xff; 16], cut] {
        assert!(matches!(Graph::decode(bytes), Err(GraphError::Decode(_))), "{bytes:?}");
    }
}
