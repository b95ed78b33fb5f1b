//! Sessions that compute.

use tpud_proto::v1;
use tpud_proto::v1::execute_command::Command as Exec;
use tpud_proto::v1::host_data::Place;

use crate::support::*;

fn download(buffer: u64, offset: u64, length: u64) -> Exec {
    Exec::Download(v1::Download { buffer, shared: None, offset, length })
}

fn upload(buffer: u64, tensor: v1::HostTensor) -> Exec {
    Exec::Upload(v1::Upload { buffer, tensor: Some(tensor), offset: 0, more: false })
}

#[tokio::test(flavor = "multi_thread")]
async fn tensors_go_in_and_come_out_every_way() {
    let daemon = TestDaemon::start(&[], &[]);
    let mut session = TestSession::open(&daemon).await;
    assert_eq!(session.open.devices[0].platform, "cpu");
    let result = session.load(add_graph(4), 1).await.unwrap();
    assert_eq!(result.outcome(), v1::CacheOutcome::Compiled);
    assert_eq!(result.signature.unwrap().inputs.len(), 2);
    assert!(result.timings.unwrap().compile_seconds > 0.0);

    // Inline in, inline out.
    let (x, y) = ([1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]);
    let done =
        session.call(run(1, vec![given(tensor(&x)), given(tensor(&y))], vec![fetched()])).await.unwrap();
    assert_eq!(values_of(&done.outputs[0]), [11.0, 22.0, 33.0, 44.0]);
    assert!(done.device_nanoseconds > 0);

    // Buffers in, buffer out, in pieces out. Sent ahead: no reply is waited for.
    session.send(upload(5, tensor(&x))).await;
    session.send(run(1, vec![held(5), given(tensor(&y))], vec![kept(6)])).await;
    session.send(run(1, vec![held(6), held(6)], vec![kept(7)])).await;
    session.send(download(7, 4, 8)).await;
    for _ in 0..3 {
        let reply = session.receive().await.unwrap();
        assert!(matches!(reply.outcome, Some(v1::execute_reply::Outcome::Done(_))), "{reply:?}");
    }
    let v1::execute_reply::Outcome::Done(done) = session.receive().await.unwrap().outcome.unwrap() else {
        panic!("the download failed")
    };
    assert_eq!(values_of(&done.outputs[0]), [44.0, 66.0]);
    assert_eq!(daemon.status().await.devices[0].memory_used_bytes, 48);

    // Through shared memory, both ways.
    let segment = std::path::Path::new(&session.open.shared_directory).join("segment");
    std::fs::write(&segment, [bytes_of(&x), bytes_of(&y), vec![0; 16]].concat()).unwrap();
    let range = |offset| v1::SharedRange { segment: "segment".into(), offset, length: 16 };
    let shared = |offset| given(tensor_at(&[4], Place::Shared(range(offset))));
    let output = v1::RunOutput { buffer: 0, fetch: true, shared: Some(range(32)) };
    session.call(run(1, vec![shared(0), shared(16)], vec![output])).await.unwrap();
    assert_eq!(std::fs::read(&segment).unwrap()[32..], bytes_of(&[11.0, 22.0, 33.0, 44.0]));

    // Freed memory is given back, and the handle is unknown.
    session.call(Exec::Free(v1::Free { buffers: vec![5, 6, 7, 99], executables: vec![] })).await.unwrap();
    assert_eq!(daemon.status().await.devices[0].memory_used_bytes, 0);
    assert_eq!(session.refused(download(7, 0, 0)).await, "UNKNOWN_HANDLE");
    assert!(daemon.counters().await.executions >= 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_fails_fails_alone() {
    let daemon = TestDaemon::start(&["--session-memory-bytes", "1000"], &[]);
    let mut session = TestSession::open(&daemon).await;
    session.load(add_graph(4), 1).await.unwrap();
    let x = || given(tensor(&[1.0, 2.0, 3.0, 4.0]));
    let two = |inputs| run(1, inputs, vec![fetched()]);

    assert_eq!(session.refused(run(9, vec![], vec![])).await, "UNKNOWN_HANDLE");
    assert_eq!(session.refused(two(vec![x(), held(9)])).await, "UNKNOWN_HANDLE");
    assert_eq!(session.refused(two(vec![x()])).await, "INVALID_COMMAND");
    assert_eq!(session.refused(run(1, vec![x(), x()], vec![])).await, "INVALID_COMMAND");
    assert_eq!(session.refused(two(vec![x(), given(tensor(&[1.0]))])).await, "INPUT_MISMATCH");
    let short = tensor_at(&[4], Place::Inline(vec![0; 15].into()));
    assert_eq!(session.refused(two(vec![x(), given(short)])).await, "INVALID_COMMAND");
    let negative = tensor_at(&[-4], Place::Inline(vec![].into()));
    assert_eq!(session.refused(upload(3, negative)).await, "DEVICE_ERROR");
    for segment in ["../../../etc/passwd", "/etc/passwd", "..", "", "missing"] {
        let range = v1::SharedRange { segment: segment.into(), offset: 0, length: 16 };
        let tensor = tensor_at(&[4], Place::Shared(range));
        assert_eq!(session.refused(two(vec![x(), given(tensor)])).await, "SHARED_RANGE_INVALID", "{segment}");
    }
    assert_eq!(session.refused(upload(3, tensor(&[0.0; 300]))).await, "QUOTA_EXCEEDED");

    // What a failed command should have made is an error that names the cause.
    assert_eq!(session.refused(run(1, vec![x(), held(3)], vec![kept(4)])).await, "HANDLE_FAILED");
    let error = session.call(download(4, 0, 0)).await.unwrap_err();
    assert!(error.message.contains("QUOTA") || error.message.contains("may take only"), "{}", error.message);

    // Two of one handle.
    session.call(upload(8, tensor(&[1.0]))).await.unwrap();
    assert_eq!(session.refused(upload(8, tensor(&[2.0]))).await, "HANDLE_IN_USE");
    let done = session.call(download(8, 0, 0)).await.unwrap();
    assert_eq!(values_of(&done.outputs[0]), [1.0]);

    // After all that, the session works.
    let done = session.call(two(vec![x(), x()])).await.unwrap();
    assert_eq!(values_of(&done.outputs[0]), [2.0, 4.0, 6.0, 8.0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_tensors_travel_in_pieces() {
    let daemon = TestDaemon::start(&[], &[]);
    let mut session = TestSession::open(&daemon).await;
    let values: Vec<f32> = (0..3000).map(|i| i as f32).collect();
    let bytes = bytes_of(&values);
    let piece = |offset: usize, end: usize, more| {
        let mut tensor = tensor_at(&[3000], Place::Inline(bytes[offset..end].to_vec().into()));
        if offset > 0 {
            (tensor.dtype, tensor.sizes) = (0, vec![]); // only the first piece says what it is
        }
        Exec::Upload(v1::Upload { buffer: 2, tensor: Some(tensor), offset: offset as u64, more })
    };
    session.call(piece(0, 5000, true)).await.unwrap();
    assert_eq!(session.refused(piece(6000, 7000, true)).await, "INVALID_COMMAND", "a hole");
    session.call(piece(0, 5000, true)).await.unwrap();
    session.call(piece(5000, 9000, true)).await.unwrap();
    assert_eq!(session.refused(download(2, 0, 0)).await, "HANDLE_FAILED", "not there before its last piece");
    session.call(piece(9000, 12000, false)).await.unwrap();
    let mut back = Vec::new();
    for offset in (0..12000).step_by(4096) {
        let done = session.call(download(2, offset, 4096.min(12000 - offset))).await.unwrap();
        back.extend(values_of(&done.outputs[0]));
    }
    assert_eq!(back, values);
    assert_eq!(session.refused(download(2, 8, 12000)).await, "INVALID_COMMAND");
}

/// Not a test of anything: prints what one call costs. `cargo test -p tpud-daemon -- --ignored --nocapture latency`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn latency_of_a_call() {
    let daemon = TestDaemon::start(&[], &[]);
    let mut session = TestSession::open(&daemon).await;
    session.load(add_graph(16), 1).await.unwrap();
    let inputs = || vec![given(tensor(&[1.0; 16])), given(tensor(&[2.0; 16]))];
    let mut times: Vec<_> = Vec::new();
    for _ in 0..3000 {
        let started = std::time::Instant::now();
        session.call(run(1, inputs(), vec![fetched()])).await.unwrap();
        times.push(started.elapsed());
    }
    times.drain(..500);
    times.sort();
    println!("one call: median {:?}, p99 {:?}", times[times.len() / 2], times[times.len() * 99 / 100]);
    let started = std::time::Instant::now();
    for _ in 0..100 {
        for _ in 0..50 {
            session.send(run(1, inputs(), vec![fetched()])).await;
        }
        for _ in 0..50 {
            session.receive().await.unwrap();
        }
    }
    println!("one of 50 calls sent ahead: {:?}", started.elapsed() / 5000);
}
