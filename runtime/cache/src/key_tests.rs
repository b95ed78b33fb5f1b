//! What must change a key, one thing at a time, and what must not.
use super::*;

const TARGET: Target<'static> =
    Target { platform: "tpu", topology: "v6e:2x2", device_kind: "TPU v6 lite", plugin: "libtpu 0.0.52 b1" };

fn graph_parts() -> GraphKeyParts<'static> {
    GraphKeyParts {
        graph: b"graph bytes",
        bucket: &[("s0", 128), ("s1", 8)],
        padding: "mask",
        precision: "highest",
        emulation: false,
        checks: false,
        xla_flags: &[],
        lowering: "7",
        target: TARGET,
    }
}

fn module_parts() -> ModuleKeyParts<'static> {
    ModuleKeyParts { module: b"module bytes", compile_options: b"options", target: TARGET }
}

/// The changed part is named by `differing`, nothing else is, and the key is another.
fn assert_changes(base: &KeyMaterial, changed: &KeyMaterial, name: &str) {
    assert_ne!(base.key(), changed.key(), "{name} must change the key");
    assert_eq!(differing(base.components(), changed.components()), [name]);
}

#[test]
fn every_part_changes_the_graph_key() {
    let base = graph_parts().material();
    let flag = |value: &str| [("xla_flag", value.to_owned())];
    let (on, text) = (flag("bool:true"), flag("text:true"));
    let with = |parts: GraphKeyParts<'_>, name| assert_changes(&base, &parts.material(), name);
    with(GraphKeyParts { graph: b"graph bytet", ..graph_parts() }, "graph"); // its last bit
    with(GraphKeyParts { graph: b"", ..graph_parts() }, "graph");
    with(GraphKeyParts { bucket: &[("s0", 129), ("s1", 8)], ..graph_parts() }, "bucket");
    with(GraphKeyParts { bucket: &[("s0", 8), ("s1", 128)], ..graph_parts() }, "bucket");
    with(GraphKeyParts { bucket: &[("s0", 128)], ..graph_parts() }, "bucket");
    with(GraphKeyParts { padding: "none", ..graph_parts() }, "padding");
    with(GraphKeyParts { precision: "high", ..graph_parts() }, "precision");
    with(GraphKeyParts { emulation: true, ..graph_parts() }, "emulation");
    with(GraphKeyParts { checks: true, ..graph_parts() }, "checks");
    with(GraphKeyParts { xla_flags: &on, ..graph_parts() }, "xla_flags");
    with(GraphKeyParts { lowering: "8", ..graph_parts() }, "lowering");
    let typed = GraphKeyParts { xla_flags: &text, ..graph_parts() }.material();
    assert_changes(&GraphKeyParts { xla_flags: &on, ..graph_parts() }.material(), &typed, "xla_flags");
}

#[test]
fn every_part_of_the_target_changes_both_keys() {
    let changed = [
        ("platform", Target { platform: "cpu", ..TARGET }),
        ("topology", Target { topology: "v6e:2x4", ..TARGET }),
        ("device_kind", Target { device_kind: "TPU v5 lite", ..TARGET }),
        ("plugin", Target { plugin: "libtpu 0.0.52 b2", ..TARGET }),
    ];
    for (name, target) in changed {
        let graph = GraphKeyParts { target, ..graph_parts() };
        assert_changes(&graph_parts().material(), &graph.material(), name);
        let module = ModuleKeyParts { target, ..module_parts() };
        assert_changes(&module_parts().material(), &module.material(), name);
    }
}

#[test]
fn every_part_changes_the_module_key() {
    let base = module_parts().material();
    assert_changes(&base, &ModuleKeyParts { module: b"module bytet", ..module_parts() }.material(), "module");
    let options = ModuleKeyParts { compile_options: b"", ..module_parts() };
    assert_changes(&base, &options.material(), "compile_options");
}

#[test]
fn the_order_in_which_symbols_and_flags_come_changes_nothing() {
    let flags = [("a", "bool:true".to_owned()), ("b", "int:3".to_owned())];
    let turned = [flags[1].clone(), flags[0].clone()];
    let one = GraphKeyParts { xla_flags: &flags, ..graph_parts() };
    let other = GraphKeyParts { xla_flags: &turned, bucket: &[("s1", 8), ("s0", 128)], ..graph_parts() };
    assert_eq!(one.material(), other.material());
}

/// Keys are the same in every process, on every host, and from one version of this crate to the next. If this fails,
/// every stored entry becomes unreachable: was that meant? (The values were computed
/// independently, with another SHA-256.)
#[test]
fn keys_are_stable() {
    let graph = graph_parts().material().key().to_string();
    let module = module_parts().material().key().to_string();
    assert_eq!(graph, "e8ed68216d860bf8cda4e7583272e56c5f9ad569f5d8a6cd719285cf90178aab");
    assert_eq!(module, "b6d20511db1d0a521a1c70ce6d6c2f63cbc7eef9a89ab7556db4d65093817d9f");
}

#[test]
fn text_does_not_run_from_one_flag_into_the_next() {
    let one = [("a", "1,b=2".to_owned())];
    let two = [("a", "1".to_owned()), ("b", "2".to_owned())];
    let (one, two) = (
        GraphKeyParts { xla_flags: &one, ..graph_parts() },
        GraphKeyParts { xla_flags: &two, ..graph_parts() },
    );
    assert_ne!(one.material().key(), two.material().key());
}

#[test]
fn a_graph_and_a_module_never_share_a_key() {
    let of = |kind| KeyBuilder::new(kind).text("name", "value").finish().key();
    assert_ne!(of(Kind::Graph), of(Kind::Module));
}

#[test]
fn names_and_order_of_components_are_part_of_the_key() {
    let builder = || KeyBuilder::new(Kind::Graph);
    let base = builder().text("a", "1").text("b", "2").finish().key();
    assert_ne!(base, builder().text("b", "2").text("a", "1").finish().key());
    assert_ne!(base, builder().text("a", "1").text("c", "2").finish().key());
    assert_ne!(base, builder().text("a", "1").finish().key());
}

#[test]
fn short_texts_stay_readable() {
    let material = graph_parts().material();
    let value = |name: &str| material.components().iter().find(|c| c.name == name).unwrap().value.clone();
    assert_eq!(value("graph"), None);
    assert_eq!(value("bucket").as_deref(), Some("s0=128,s1=8"));
    assert_eq!(value("plugin").as_deref(), Some("libtpu 0.0.52 b1"));
    let (long, control) = ("x".repeat(READABLE_BYTES + 1), "two\nlines");
    let hidden = KeyBuilder::new(Kind::Graph).text("long", &long).text("control", control).finish();
    assert!(hidden.components().iter().all(|component| component.value.is_none()));
}

#[test]
fn differing_names_what_only_one_side_has() {
    let of = |names: &[&str]| {
        let builder = names.iter().fold(KeyBuilder::new(Kind::Graph), |b, name| b.text(name, "same"));
        builder.finish().components().to_vec()
    };
    assert_eq!(differing(&of(&["a", "b"]), &of(&["b", "c"])), ["a", "c"]);
    assert!(differing(&of(&["a", "b"]), &of(&["b", "a"])).is_empty());
}

#[test]
fn keys_are_parsed_strictly() {
    let key = graph_parts().material().key();
    assert_eq!(key.to_string().parse(), Ok(key));
    assert_eq!(key.to_string().to_uppercase().parse(), Ok(key));
    let digits = "0".repeat(62);
    for bad in
        ["", "00", "../../etc/passwd", &format!("{digits}+1"), &format!("{digits}0"), &format!("{digits}é")]
    {
        assert!(bad.parse::<Key>().is_err(), "{bad:?}");
    }
}
