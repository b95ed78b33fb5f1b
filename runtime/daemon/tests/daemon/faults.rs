//! Workers that die, hang or are given up.

use std::time::{Duration, Instant};

use tonic::{Code, Request};
use tpud_proto::v1;
use tpud_proto::v1::compile_client::CompileClient;

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_aborts_xla_costs_one_worker() {
    let daemon = TestDaemon::start(&["--device", "none"], &[("TPUD_TEST_FAULT", "abort@bad")]);
    let channel = daemon.channel().await;
    for _ in 0..2 {
        let error = compile(channel.clone(), compile_request(named_graph(4, "bad"))).await.unwrap_err();
        let detail = tpud_daemon::from_status(&error).detail.unwrap();
        assert_eq!((error.code(), detail.reason.as_str()), (Code::Internal, "WORKER_DIED"));
        assert!(error.message().contains("signal 6 (SIGABRT)"), "{}", error.message());
        assert!(detail.log_tail.contains("check failed"), "{}", detail.log_tail);
    }
    // The third time no worker is risked; the answer has the same log.
    let error = compile(channel.clone(), compile_request(named_graph(4, "bad"))).await.unwrap_err();
    let detail = tpud_daemon::from_status(&error).detail.unwrap();
    assert_eq!(detail.reason, "WORKER_KILLER");
    assert!(detail.log_tail.contains("check failed"));
    // Other graphs are not affected.
    compile(channel, compile_request(named_graph(5, "good"))).await.unwrap();
    let counters = daemon.counters().await;
    assert_eq!((counters.worker_deaths, counters.xla_compiles), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn xla_itself_dies_and_the_daemon_lives() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../pjrt/tests/fixtures");
    let fault = format!("module:{fixtures}/kills_the_compiler.mlir@bad");
    let daemon = TestDaemon::start(&["--device", "none"], &[("TPUD_TEST_FAULT", &fault)]);
    let channel = daemon.channel().await;
    let error = compile(channel.clone(), compile_request(named_graph(4, "bad"))).await.unwrap_err();
    let detail = tpud_daemon::from_status(&error).detail.unwrap();
    assert_eq!(detail.reason, "WORKER_DIED", "{error}");
    assert!(error.message().contains("compiling: signal 6"), "{}", error.message());
    assert_ne!(detail.log_tail, "");
    compile(channel, compile_request(named_graph(5, "good"))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_a_tpu_says_by_how_much() {
    let daemon = TestDaemon::start(&["--device", "none"], &[]);
    let mut request = compile_request(add_graph(3_000_000_000));
    let target = v1::Target { platform: "tpu".into(), topology: "v6e:1x1".into() };
    request.options.as_mut().unwrap().target = Some(target);
    let error = compile(daemon.channel().await, request).await.unwrap_err();
    let detail = tpud_daemon::from_status(&error).detail.unwrap();
    assert_eq!((error.code(), detail.reason.as_str()), (Code::ResourceExhausted, "DOES_NOT_FIT"), "{error}");
    assert!(detail.needed_bytes > detail.available_bytes && detail.available_bytes > 30 << 30, "{detail:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_kills_the_worker() {
    let daemon =
        TestDaemon::start(&["--device", "none", "--workers", "1"], &[("TPUD_TEST_FAULT", "hang@bad")]);
    let channel = daemon.channel().await;
    // Once without the fault, so that plugins are loaded.
    compile(channel.clone(), compile_request(add_graph(3))).await.unwrap();
    let started = Instant::now();
    let mut request = Request::new(compile_request(named_graph(4, "bad")));
    request.set_timeout(Duration::from_secs(1));
    let error = compile(channel.clone(), request).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded);
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
    wait_for(&daemon, |status| status.workers.is_empty()).await;
    // The slot is free.
    compile(channel, compile_request(add_graph(5))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_holds_in_the_queue() {
    let daemon =
        TestDaemon::start(&["--device", "none", "--workers", "1"], &[("TPUD_TEST_FAULT", "sleep:3@slow")]);
    let channel = daemon.channel().await;
    let slow = tokio::spawn(compile(channel.clone(), compile_request(named_graph(4, "slow"))));
    wait_for(&daemon, |status| status.workers.iter().any(|worker| worker.busy)).await;
    let started = Instant::now();
    let mut request = Request::new(compile_request(add_graph(5)));
    request.set_timeout(Duration::from_secs(1));
    let error = compile(channel, request).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded);
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
    slow.await.unwrap().unwrap();
    assert_eq!(daemon.counters().await.xla_compiles, 1, "what is given up in the queue never starts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_at_once() {
    let flags = ["--device", "none", "--workers", "1", "--queue-limit", "1"];
    let daemon = TestDaemon::start(&flags, &[("TPUD_TEST_FAULT", "sleep:2@slow")]);
    let channel = daemon.channel().await;
    let first = tokio::spawn(compile(channel.clone(), compile_request(named_graph(4, "slow"))));
    wait_for(&daemon, |status| status.workers.iter().any(|worker| worker.busy)).await;
    let second = tokio::spawn(compile(channel.clone(), compile_request(named_graph(5, ""))));
    wait_for(&daemon, |status| status.queued == 1).await;
    let error = compile(channel, compile_request(add_graph(6))).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::ResourceExhausted, "QUEUE_FULL"));
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compile_that_takes_too_long_is_killed() {
    let flags = ["--device", "none", "--compile-timeout", "2"];
    let daemon = TestDaemon::start(&flags, &[("TPUD_TEST_FAULT", "hang@bad")]);
    let error = compile(daemon.channel().await, compile_request(named_graph(4, "bad"))).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::DeadlineExceeded, "COMPILE_TIMEOUT"));
    assert!(error.message().contains("compiling"), "{}", error.message());
    assert_eq!(daemon.counters().await.worker_deaths, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_frees_the_worker_but_only_when_nobody_else_waits() {
    let daemon = TestDaemon::start(&["--device", "none"], &[("TPUD_TEST_FAULT", "sleep:2@slow")]);
    let channel = daemon.channel().await;
    let request = || compile_request(named_graph(4, "slow"));
    let leader = CompileClient::new(channel.clone()).compile(request()).await.unwrap().into_inner();
    wait_for(&daemon, |status| status.workers.iter().any(|worker| worker.busy)).await;
    let follower = tokio::spawn(compile(channel.clone(), request()));
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(leader);
    let result = follower.await.unwrap().unwrap();
    assert_eq!(result.outcome(), v1::CacheOutcome::Shared);
    assert_eq!(daemon.counters().await.xla_compiles, 1);

    let daemon = TestDaemon::start(&["--device", "none"], &[("TPUD_TEST_FAULT", "hang@bad")]);
    let channel = daemon.channel().await;
    let request = compile_request(named_graph(4, "bad"));
    let only = CompileClient::new(channel).compile(request).await.unwrap().into_inner();
    wait_for(&daemon, |status| status.workers.iter().any(|worker| worker.busy)).await;
    drop(only);
    wait_for(&daemon, |status| status.workers.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_costs_warmth_only() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new("sh");
    // No file may grow beyond 1 KiB: like a full disk, for files of the size of an executable.
    let script = "trap '' XFSZ; ulimit -f 2; exec \"$0\" serve --device none";
    command.args(["-c", script, TPUD]);
    let daemon = TestDaemon::spawn(directory, command);
    let channel = daemon.channel().await;
    let first = compile(channel.clone(), compile_request(add_graph(4))).await.unwrap();
    assert!(first.report.as_ref().unwrap().executable_bytes > 1024);
    let again = compile(channel, compile_request(add_graph(4))).await.unwrap();
    assert_eq!((first.outcome(), again.outcome()), (v1::CacheOutcome::Compiled, v1::CacheOutcome::MemoryHit));
    assert!(daemon.counters().await.cache_errors > 0, "{}", daemon.log());
}

/// Waits at most 3 s until the daemon's status is as expected.
async fn wait_for(daemon: &TestDaemon, expected: impl Fn(&v1::StatusReply) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(3);
    loop {
        let status = daemon.status().await;
        if expected(&status) {
            return;
        }
        assert!(Instant::now() < deadline, "{status:?}\n{}", daemon.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
