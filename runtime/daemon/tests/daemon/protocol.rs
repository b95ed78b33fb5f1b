//! The handshake, limits, and what stands around the services.

use tonic::{Code, Request};
use tpud_proto::v1;
use tpud_proto::v1::compile_client::CompileClient;
use tpud_proto::v1::execute_client::ExecuteClient;
use tpud_proto::v1::session_client::SessionClient;
use tpud_proto::v1::status_client::StatusClient;

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_another_age_is_told_both_versions() {
    let daemon = TestDaemon::start(&["--device", "none"], &[]);
    let request = v1::OpenRequest {
        client_version: "7.5.3".into(),
        protocol_min: 40,
        protocol_max: 42,
        ..open_request()
    };
    let error = SessionClient::new(daemon.channel().await).open(request).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::FailedPrecondition, "VERSION_MISMATCH"));
    assert!(error.message().contains("7.5.3") && error.message().contains(tpud_daemon::VERSION), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_message_is_refused_by_its_limit() {
    let daemon = TestDaemon::start(&["--max-message-bytes", "65536"], &[]);
    let error = compile(daemon.channel().await, compile_request(vec![0; 100_000])).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::ResourceExhausted, "MESSAGE_TOO_LARGE"));
    assert!(error.message().contains("65536"), "{error}");

    let mut session = TestSession::open(&daemon).await;
    assert_eq!(session.open.max_message_bytes, 65536);
    let upload = v1::Upload { buffer: 1, tensor: Some(tensor(&[0.0; 50_000])), offset: 0, more: false };
    session.send(v1::execute_command::Command::Upload(upload)).await;
    let error = session.receive().await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::ResourceExhausted, "MESSAGE_TOO_LARGE"));

    // A reply that would not fit is refused as well, and costs the command only.
    let mut session = TestSession::open(&daemon).await;
    let range = v1::SharedRange { segment: "s".into(), offset: 0, length: 100_000 };
    std::fs::write(format!("{}/s", session.open.shared_directory), vec![0; 100_000]).unwrap();
    let big = tensor_at(&[25_000], v1::host_data::Place::Shared(range));
    let upload = v1::Upload { buffer: 1, tensor: Some(big), offset: 0, more: false };
    session.call(v1::execute_command::Command::Upload(upload)).await.unwrap();
    let all = v1::Download { buffer: 1, ..Default::default() };
    assert_eq!(session.refused(v1::execute_command::Command::Download(all)).await, "MESSAGE_TOO_LARGE");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compile_server_says_that_it_executes_nothing() {
    let daemon = TestDaemon::start(&["--device", "none"], &[]);
    let channel = daemon.channel().await;
    let open = SessionClient::new(channel.clone()).open(open_request()).await.unwrap().into_inner();
    assert!(open.devices.is_empty());
    let mut request = Request::new(tokio_stream::empty());
    request.metadata_mut().insert("tpud-session", open.session_id.parse().unwrap());
    let error = ExecuteClient::new(channel.clone()).stream(request).await.unwrap_err();
    assert_eq!(reason(&error), "NO_DEVICE");
    let error = ExecuteClient::new(channel).stream(tokio_stream::empty()).await.unwrap_err();
    assert_eq!(reason(&error), "SESSION_REQUIRED");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tcp_everything_works_but_shutdown() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("http://127.0.0.1:{port}");
    let directory = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new(TPUD)
        .args(["serve", "--device", "none", "--address", &address])
        .env("TPUD_CACHE_DIR", directory.path())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let endpoint = tonic::transport::Endpoint::from_shared(address).unwrap();
    let channel = loop {
        match endpoint.connect().await {
            Ok(channel) => break channel,
            Err(_) => assert!(child.try_wait().unwrap().is_none()),
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let open = SessionClient::new(channel.clone()).open(open_request()).await.unwrap().into_inner();
    assert_eq!(open.shared_directory, "", "shared memory is for this machine");
    let ops = CompileClient::new(channel.clone()).ops(v1::OpsRequest {}).await.unwrap().into_inner().ops;
    assert!(ops.contains(&"aten.add.Tensor".to_owned()) && ops.is_sorted());
    let error = StatusClient::new(channel).shutdown(v1::ShutdownRequest {}).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::PermissionDenied, "LOCAL_ONLY"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_reflection_answer() {
    use tonic_health::pb::health_client::HealthClient;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_request, server_reflection_response,
    };
    let daemon = TestDaemon::start(&["--device", "none"], &[]);
    let channel = daemon.channel().await;
    let request = tonic_health::pb::HealthCheckRequest { service: "tpud.v1.Compile".into() };
    let health = HealthClient::new(channel.clone()).check(request).await.unwrap().into_inner();
    assert_eq!(health.status(), tonic_health::pb::health_check_response::ServingStatus::Serving);
    let list = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(server_reflection_request::MessageRequest::ListServices(String::new())),
    };
    let mut replies = ServerReflectionClient::new(channel)
        .server_reflection_info(tokio_stream::once(list))
        .await
        .unwrap()
        .into_inner();
    let reply = replies.message().await.unwrap().unwrap().message_response.unwrap();
    let server_reflection_response::MessageResponse::ListServicesResponse(services) = reply else {
        panic!("{reply:?}")
    };
    assert!(services.service.iter().any(|service| service.name == "tpud.v1.Execute"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stablehlo_of_a_graph_can_be_read() {
    let daemon = TestDaemon::start(&["--device", "none"], &[]);
    let v1::CompileRequest { graph, options, .. } = compile_request(add_graph(4));
    let request = v1::LowerRequest { graph, options };
    let reply = CompileClient::new(daemon.channel().await).lower(request).await.unwrap().into_inner();
    assert!(reply.text.contains("stablehlo.add"), "{}", reply.text);
    assert_eq!(reply.module_digest.len(), 64);
    assert_eq!(daemon.counters().await.xla_compiles, 0);
}
