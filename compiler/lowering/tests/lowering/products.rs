//! Matrix products at a TPU's precision, written out for a CPU.

use std::path::Path;

use tpud_lowering::{LoweringOptions, Precision, lower};

use crate::dsl::*;

fn emulated(graph: &tpud_graph::Graph, precision: Precision) -> String {
    let options = LoweringOptions { precision, emulate_tpu_precision: true, ..Default::default() };
    lower(graph, &options).unwrap().module.to_string()
}

fn count(text: &str, op: &str) -> usize {
    text.matches(op).count()
}

#[test]
fn one_three_and_six_products() {
    let mm = args![self: x(F32, [2, 3]), mat2: x(F32, [3, 4])];
    let mm = (single("aten.mm.default", mm, &[meta(F32, [2, 4])]), "stablehlo.dot_general");
    let convolution = args![
        input: x(F32, [1, 4, 8, 8]), weight: x(F32, [4, 4, 3, 3]), bias: NONE, stride: [1, 1], padding: [0, 0],
        dilation: [1, 1], transposed: false, output_padding: [0, 0], groups: 1,
    ];
    let convolution = single("aten.convolution.default", convolution, &[meta(F32, [1, 4, 6, 6])]);
    for (graph, op) in [mm, (convolution, "stablehlo.convolution")] {
        let expected = [(Precision::Medium, 1, 2), (Precision::High, 3, 4), (Precision::Highest, 6, 6)];
        for (precision, products, parts) in expected {
            let text = emulated(&graph, precision);
            assert_eq!(count(&text, op), products, "{text}");
            assert_eq!(count(&text, "stablehlo.reduce_precision"), parts, "{text}");
        }
    }
}

#[test]
fn other_types_are_multiplied_as_they_are() {
    for dtype in [BF16, F64, I32, C64] {
        let args = args![self: x(dtype, [2, 3]), mat2: x(dtype, [3, 4])];
        let graph = single("aten.mm.default", args, &[meta(dtype, [2, 4])]);
        assert_eq!(emulated(&graph, Precision::Highest), text(&graph).unwrap());
    }
}

/// Another way to build a product would be blind to the precision that the user chose.
#[test]
fn every_product_is_built_in_one_place() {
    fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { sources(&path, found) } else { found.push(path) }
        }
    }
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let builds = |path: &Path| {
        let source = std::fs::read_to_string(path).unwrap();
        source.contains("b.dot_general(") || source.contains("b.convolution(")
    };
    let names: Vec<_> =
        files.iter().filter(|path| builds(path)).map(|path| path.file_name().unwrap()).collect();
    assert_eq!(names, ["products.rs"]);
}
