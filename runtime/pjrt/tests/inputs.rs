//! What the checks before PJRT refuse, host memory, and plugins that are none.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::sync::mpsc;

use support::*;
use tpud_pjrt::{AlignedBytes, Buffer, Code, ElementType, Error, Plugin, TensorType};

#[test]
fn the_wrong_number_of_inputs_is_refused() {
    let executable = compile(&add_module("2xf32"));
    let a = upload(ElementType::F32, &[2], &[1.0_f32, 2.0]);
    for inputs in [&[][..], &[&a][..], &[&a, &a, &a][..]] {
        let error = executable.execute(inputs, &[]).unwrap_err();
        assert!(
            matches!(error, Error::WrongArity { expected: 2, actual } if actual == inputs.len()),
            "{error}"
        );
    }
    assert!(matches!(
        executable.execute(&[&a, &a], &[true]),
        Err(Error::WrongArity { expected: 2, actual: 1 })
    ));
}

#[test]
fn the_wrong_type_or_shape_is_refused_with_both_named() {
    let executable = compile(&add_module("2xf32"));
    let right = upload(ElementType::F32, &[2], &[1.0_f32, 2.0]);
    let wrong = [
        (upload(ElementType::S32, &[2], &[1, 2]), "s32[2]"),
        (upload(ElementType::F32, &[3], &[1.0_f32, 2.0, 3.0]), "f32[3]"),
        (upload(ElementType::F32, &[1, 2], &[1.0_f32, 2.0]), "f32[1,2]"),
        (upload(ElementType::F32, &[], &[1.0_f32]), "f32[]"),
    ];
    for (buffer, name) in &wrong {
        let error = executable.execute(&[&right, buffer], &[]).unwrap_err();
        assert_eq!(error.to_string(), format!("input 1 is {name} but the executable takes f32[2]"));
        assert_eq!(error.code(), Code::InvalidArgument);
    }
}

#[test]
fn a_buffer_of_another_client_is_refused() {
    let other = new_client();
    let kind = TensorType::new(ElementType::F32, [2]);
    let foreign = Buffer::copy_from_host(&other.first_device().unwrap(), kind, &[0; 8]).unwrap();
    let executable = compile(&add_module("2xf32"));
    let error = executable.execute(&[&foreign, &foreign], &[]).unwrap_err();
    assert!(matches!(error, Error::ForeignBuffer { index: 0 }), "{error}");
}

#[test]
fn memory_of_the_wrong_length_is_refused_both_ways() {
    let kind = TensorType::new(ElementType::F32, [2]);
    for length in [0, 4, 7, 9, 16] {
        let error = Buffer::copy_from_host(&device(), kind.clone(), &vec![0; length]).unwrap_err();
        assert_eq!(error.to_string(), format!("the data has {length} bytes where f32[2] needs 8"));
        let data = AlignedBytes::zeroed(length).unwrap();
        assert!(matches!(Buffer::from_host(&device(), kind.clone(), data), Err(Error::WrongLength { .. })));
        let buffer = Buffer::copy_from_host(&device(), kind.clone(), &[0; 8]).unwrap();
        assert!(matches!(buffer.read_into(&mut vec![0; length]), Err(Error::WrongLength { .. })));
    }
    let negative = TensorType::new(ElementType::F32, [-1]);
    assert!(matches!(Buffer::copy_from_host(&device(), negative, &[]), Err(Error::BadShape { .. })));
}

/// A given buffer is the very memory; a lent one is a copy, however it is aligned.
#[test]
fn given_memory_is_used_in_place_and_lent_memory_is_copied() {
    let kind = TensorType::new(ElementType::S32, [1024]);
    let mut lent = vec![7_u8; 4096 + 1];
    for start in [0, 1] {
        let buffer = Buffer::copy_from_host(&device(), kind.clone(), &lent[start..start + 4096]).unwrap();
        lent.fill(9);
        assert_eq!(buffer.to_vec().unwrap(), vec![7; 4096]);
        lent.fill(7);
    }
    let data = AlignedBytes::copy_of(&[5; 4096]).unwrap();
    let buffer = Buffer::from_host(&device(), kind, data).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), vec![5; 4096]);
    assert_eq!(buffer.device_bytes().unwrap(), 4096);
    let executable = compile(&add_module("1024xi32"));
    let outputs = executable.execute(&[&buffer, &buffer], &[]).unwrap();
    drop(buffer);
    assert_eq!(outputs[0].to_vec().unwrap(), vec![10; 4096]);
}

#[test]
fn events_call_back_once() {
    let executable = compile(&add_module("65536xf32"));
    let a = upload(ElementType::F32, &[65536], &[1.0_f32; 65536]);
    let outputs = executable.execute(&[&a, &a], &[]).unwrap();
    let (sender, receiver) = mpsc::channel();
    outputs[0].ready_event().unwrap().on_ready(move |outcome| sender.send(outcome).unwrap()).unwrap();
    receiver.recv().unwrap().unwrap();
    assert!(receiver.recv().is_err(), "the callback was dropped after it ran");
    assert!(outputs[0].ready_event().unwrap().is_ready().unwrap());
    // A callback that panics takes nothing with it.
    outputs[0].ready_event().unwrap().on_ready(|_| panic!("on purpose")).unwrap();
    assert_eq!(read::<f32>(&outputs[0])[0], 2.0);
}

#[test]
fn a_library_that_is_no_plugin_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("plugin.so");
    std::fs::write(&text, "not a library").unwrap();
    assert!(matches!(Plugin::load(&text), Err(Error::Load { .. })));
    assert!(matches!(Plugin::load(&directory.path().join("nowhere.so")), Err(Error::Load { .. })));
    let libc = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc =
        libc.lines().find_map(|line| line.split_whitespace().last().filter(|path| path.contains("/libc.so")));
    let error = Plugin::load(libc.unwrap().as_ref()).unwrap_err();
    assert!(matches!(error, Error::MissingSymbol { symbol: "GetPjrtApi", .. }), "{error}");
}

#[test]
fn a_plugin_knows_who_it_is() {
    let plugin = client().plugin();
    assert!(plugin.api_version().1 >= 81, "{plugin:?}");
    assert!(plugin.attributes().contains_key("stablehlo_current_version"));
    let identity = plugin.identity().unwrap();
    assert_eq!(identity, plugin.identity().unwrap());
    assert!(identity.key().contains("sha256:") || identity.key().contains("build-id:"), "{}", identity.key());
    // The handle of a plugin that is loaded already, by another name.
    assert_eq!(Plugin::load(plugin.path()).unwrap().path(), plugin.path());
    assert_eq!(client().platform_name(), "cpu");
}
