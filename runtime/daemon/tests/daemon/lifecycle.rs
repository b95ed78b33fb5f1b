//! Starting, idling out, shutting down; sessions that end.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tpud_proto::v1;
use tpud_proto::v1::session_client::SessionClient;

use crate::support::*;

#[test]
fn of_many_that_start_at_once_one_stays() {
    let directory = tempfile::tempdir().unwrap();
    let address = format!("unix://{}", directory.path().join("daemon.sock").display());
    let start = || {
        Command::new(TPUD)
            .args(["serve", "--device", "none", "--address", &address])
            .env("TPUD_CACHE_DIR", directory.path().join("cache"))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut racers: Vec<_> = (0..12).map(|_| start()).collect();
    let deadline = Instant::now() + Duration::from_secs(30);
    while racers.len() > 1 {
        assert!(Instant::now() < deadline, "{} daemons are left", racers.len());
        racers.retain_mut(|racer| match racer.try_wait().unwrap() {
            Some(status) => {
                assert!(status.success(), "a loser ended badly: {status}");
                false
            }
            None => true,
        });
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(std::os::unix::net::UnixStream::connect(directory.path().join("daemon.sock")).is_ok());
    racers[0].kill().unwrap();
    racers[0].wait().unwrap();
    // The dead one's socket and lock hinder nobody.
    let mut next = start();
    while std::os::unix::net::UnixStream::connect(directory.path().join("daemon.sock")).is_err() {
        assert!(Instant::now() < deadline && next.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    next.kill().unwrap();
    next.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_session_ends_and_gives_back_what_it_held() {
    let daemon = TestDaemon::start(&["--lease", "1"], &[]);
    let mut session = TestSession::open(&daemon).await;
    let upload = v1::Upload { buffer: 1, tensor: Some(tensor(&[0.0; 256])), offset: 0, more: false };
    session.call(v1::execute_command::Command::Upload(upload)).await.unwrap();
    let shared = session.open.shared_directory.clone();
    let heartbeat = v1::HeartbeatRequest { session_id: session.open.session_id.clone() };
    let mut sessions = SessionClient::new(daemon.channel().await);
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(600)).await;
        sessions.heartbeat(heartbeat.clone()).await.unwrap();
    }
    assert_eq!(daemon.status().await.devices[0].memory_used_bytes, 1024);
    assert!(std::path::Path::new(&shared).is_dir());
    // The stream ends with the session, and says so.
    let ended = tokio::time::timeout(Duration::from_secs(4), session.receive()).await.unwrap().unwrap_err();
    assert_eq!(reason(&ended), "SESSION_EXPIRED");
    drop(session);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let status = daemon.status().await;
    assert_eq!((status.sessions, status.devices[0].memory_used_bytes), (0, 0));
    assert!(!std::path::Path::new(&shared).exists());
    assert_eq!(reason(&sessions.heartbeat(heartbeat).await.unwrap_err()), "SESSION_EXPIRED");
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_finishes_work_and_leaves_nothing_behind() {
    let mut daemon = TestDaemon::start(&["--device", "none"], &[("TPUD_TEST_FAULT", "sleep:1")]);
    let channel = daemon.channel().await;
    let session = SessionClient::new(channel.clone()).open(open_request()).await.unwrap().into_inner();
    let work = tokio::spawn(compile(channel.clone(), compile_request(add_graph(4))));
    tokio::time::sleep(Duration::from_millis(300)).await;
    daemon.signal("-TERM");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let refused = compile(channel, compile_request(add_graph(5))).await.unwrap_err();
    assert_eq!(reason(&refused), "SHUTTING_DOWN");
    work.await.unwrap().unwrap();
    assert!(daemon.ends_well(Duration::from_secs(8)));
    assert!(!daemon.socket().exists());
    assert!(!std::path::Path::new(&session.shared_directory).exists());
}

#[test]
fn a_daemon_without_sessions_idles_out() {
    let mut daemon = TestDaemon::start(&["--device", "none", "--idle-timeout", "1"], &[]);
    assert!(daemon.ends_well(Duration::from_secs(10)));
    assert!(daemon.log().contains("idle"), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_die_with_a_daemon_that_is_killed() {
    let daemon = TestDaemon::start(&["--device", "none"], &[("TPUD_TEST_FAULT", "hang")]);
    let channel = daemon.channel().await;
    let _work = tokio::spawn(compile(channel, compile_request(add_graph(4))));
    let worker = loop {
        match daemon.status().await.workers.iter().find(|worker| worker.busy) {
            Some(worker) => break worker.pid,
            None => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let process = format!("/proc/{worker}");
    assert!(std::path::Path::new(&process).exists());
    daemon.kill();
    let deadline = Instant::now() + Duration::from_secs(3);
    while std::fs::read_to_string(format!("{process}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < deadline, "worker {worker} lives on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_plugin_it_is_said_what_to_install() {
    let missing = [("TPUD_CPU_PLUGIN", "/nowhere/plugin.so")];
    let daemon = TestDaemon::start(&["--device", "none"], &missing);
    let error = compile(daemon.channel().await, compile_request(add_graph(4))).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (tonic::Code::FailedPrecondition, "PLUGIN_MISSING"));
    assert!(error.message().contains("/nowhere/plugin.so"), "{}", error.message());

    let output = Command::new(TPUD)
        .args(["serve", "--address", "http://127.0.0.1:0"])
        .envs(missing)
        .env("TPUD_CACHE_DIR", daemon.directory.path().join("cache"))
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && complaint.contains("TPUD_CPU_PLUGIN"), "{complaint}");
}
