//! Keys, the cache, and sharing of compiles.

use prost::Message;
use tonic::Code;
use tpud_proto::v1::{self, CacheOutcome};

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_is_compiled_once_in_its_life() {
    let daemon = TestDaemon::start(&["--device", "none"], &[]);
    let channel = daemon.channel().await;
    let first = compile(channel.clone(), compile_request(add_graph(8))).await.unwrap();
    assert_eq!(first.outcome(), CacheOutcome::Compiled);
    // Another name and another line are the same graph.
    let again = compile(channel.clone(), compile_request(named_graph(8, "other"))).await.unwrap();
    assert_eq!((again.outcome(), &again.graph_key), (CacheOutcome::MemoryHit, &first.graph_key));
    // Other bytes that lower to the same module share its executable.
    let mut variant = graph_of("aten.add.Tensor", 8, "");
    variant.nodes[0].outputs[0].strides.clear();
    let variant = compile(channel.clone(), compile_request(variant.encode_to_vec())).await.unwrap();
    assert_eq!(variant.outcome(), CacheOutcome::ModuleHit);
    assert_ne!(variant.graph_key, first.graph_key);
    assert_eq!(variant.module_key, first.module_key);
    let counters = daemon.counters().await;
    assert_eq!((counters.xla_compiles, counters.memory_hits, counters.module_hits), (1, 1, 1));

    // The next daemon starts warm.
    let daemon = TestDaemon::start_in(daemon.kill(), &["--device", "none"], &[]);
    let warm = compile(daemon.channel().await, compile_request(add_graph(8))).await.unwrap();
    assert_eq!((warm.outcome(), &warm.module_key), (CacheOutcome::DiskHit, &first.module_key));
    assert_eq!(daemon.counters().await.xla_compiles, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_entry_is_rebuilt_and_never_loaded() {
    let daemon = TestDaemon::start(&[], &[]);
    TestSession::open(&daemon).await.load(add_graph(8), 1).await.unwrap();
    let directory = daemon.kill();
    for path in files_below(&directory.path().join("cache")) {
        let mut bytes = std::fs::read(&path).unwrap();
        if bytes.len() > 1000 {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
    }
    let daemon = TestDaemon::start_in(directory, &[], &[]);
    let mut session = TestSession::open(&daemon).await;
    let result = session.load(add_graph(8), 1).await.unwrap();
    assert_eq!(result.outcome(), CacheOutcome::Compiled);
    assert!(daemon.counters().await.quarantined >= 1);
    let x = || given(tensor(&[1.0; 8]));
    let done = session.call(run(1, vec![x(), x()], vec![fetched()])).await.unwrap();
    assert_eq!(values_of(&done.outputs[0]), [2.0; 8]);
}

fn files_below(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_ask_at_once_share_one_compile() {
    let daemon = TestDaemon::start(&["--device", "none"], &[("TPUD_TEST_FAULT", "sleep:0.6")]);
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let channel = daemon.channel().await;
        waiting.spawn(
            async move { compile_with_progress(channel, compile_request(add_graph(8))).await.unwrap() },
        );
    }
    let results: Vec<_> = waiting.join_all().await;
    let shared = results.iter().filter(|(result, _)| result.outcome() == CacheOutcome::Shared).count();
    assert_eq!(shared, 15);
    let counters = daemon.counters().await;
    assert_eq!((counters.xla_compiles, counters.shared), (1, 15));
    // Everybody was told how it goes.
    assert!(results.iter().all(|(_, progress)| !progress.is_empty()));
    let stages: Vec<_> = results.iter().flat_map(|(_, progress)| progress).map(|one| one.stage()).collect();
    assert!(stages.contains(&v1::compile_progress::Stage::Waiting));
    assert!(stages.contains(&v1::compile_progress::Stage::Compiling));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_get_their_reasons() {
    let daemon = TestDaemon::start(&["--device", "none", "--workers", "1"], &[]);
    let channel = daemon.channel().await;
    let refused = async |request: v1::CompileRequest| compile(channel.clone(), request).await.unwrap_err();
    let with = |change: &dyn Fn(&mut v1::CompileOptions)| {
        let mut request = compile_request(add_graph(4));
        change(request.options.as_mut().unwrap());
        request
    };
    let error = refused(with(&|options| options.target.as_mut().unwrap().platform = "abacus".into())).await;
    assert_eq!((reason(&error).as_str(), error.code()), ("INVALID_TARGET", Code::InvalidArgument));
    let error = refused(with(&|options| options.precision = 77)).await;
    assert_eq!(reason(&error), "INVALID_OPTIONS");
    let flag = v1::XlaFlag { name: "xla_no_such".into(), value: Some(v1::xla_flag::Value::Boolean(true)) };
    let error = refused(with(&|options| options.xla_flags = vec![flag.clone()])).await;
    assert_eq!((reason(&error).as_str(), error.code()), ("XLA_ERROR", Code::InvalidArgument), "{error}");
    let mut request = compile_request(add_graph(4));
    request.executable = 3;
    assert_eq!(reason(&refused(request.clone()).await), "SESSION_REQUIRED");
    request.session_id = "0".repeat(32);
    assert_eq!(reason(&refused(request).await), "SESSION_EXPIRED");

    // Every unsupported op at once, with the user's line.
    let mut graph = graph_of("aten.no_such_op.default", 4, "");
    let mut second = graph.nodes[0].clone();
    second.op = "aten.nor_this.default".into();
    graph.nodes.push(second);
    let error = refused(compile_request(graph.encode_to_vec())).await;
    let detail = tpud_daemon::from_status(&error).detail.unwrap();
    assert_eq!((error.code(), detail.reason.as_str()), (Code::Unimplemented, "UNSUPPORTED_OP"));
    let ops: Vec<_> = detail.issues.iter().map(|issue| issue.op.as_str()).collect();
    assert_eq!(ops, ["aten.no_such_op.default", "aten.nor_this.default"]);
    assert_eq!(detail.issues[0].location.as_ref().unwrap().line, 7);

    // The worker that said so is not dead, and is used again.
    compile(channel.clone(), compile_request(add_graph(4))).await.unwrap();
    let status = daemon.status().await;
    assert_eq!((status.workers.len(), status.counters.unwrap().worker_deaths), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_bytes_are_refused_and_the_daemon_lives() {
    let daemon = TestDaemon::start(&["--device", "none"], &[]);
    let channel = daemon.channel().await;
    let good = add_graph(4);
    let mut seed = 1u32;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as usize % below
    };
    let mut deep = Vec::new();
    for _ in 0..10_000 {
        // Field 4 (nodes) of a graph, in a graph, in a graph …
        let length = deep.len().min(100_000);
        let mut outer = vec![0x2a];
        prost::encoding::encode_varint(length as u64, &mut outer);
        outer.extend_from_slice(&deep[..length]);
        deep = outer;
        if deep.len() > 50_000 {
            break;
        }
    }
    let mut cases = vec![vec![], vec![0xff; 100], good[..good.len() / 2].to_vec(), deep];
    for _ in 0..60 {
        let mut bytes = good.clone();
        let at = random(bytes.len());
        bytes[at] ^= 1 << random(8);
        cases.push(bytes);
    }
    let mut refused = 0;
    for bytes in cases {
        // A flipped bit may give another good graph; everything else has a reason.
        if let Err(error) = compile(channel.clone(), compile_request(bytes)).await {
            assert_ne!(reason(&error), "", "{error:?}");
            assert_ne!(reason(&error), "PANIC", "{error:?}");
            refused += 1;
        }
    }
    assert!(refused > 20, "only {refused} of the cases were refused");
    compile(channel, compile_request(good)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tpu_executable_is_made_without_a_tpu() {
    let daemon = TestDaemon::start(&["--device", "none"], &[]);
    let mut request = compile_request(add_graph(1024));
    let target = v1::Target { platform: "tpu".into(), topology: "v6e:2x2".into() };
    request.options.as_mut().unwrap().target = Some(target);
    let result = compile(daemon.channel().await, request).await.unwrap();
    let report = result.report.unwrap();
    let memory = report.memory.unwrap();
    let chip = tpud_pjrt::platform::tpu::memory_bytes("TPU v6 lite").unwrap();
    assert_eq!((memory.available, memory.argument_bytes, memory.device_bytes), (true, 8192, chip));
    assert!(report.executable_bytes > 1000 && report.cost.unwrap().flops > 0.0);
    let platform = result.graph_key_components.iter().find(|component| component.name == "platform");
    assert_eq!(platform.unwrap().value, "tpu");
}
