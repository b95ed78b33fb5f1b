//! A daemon in a directory of its own, graphs to feed it, and short names for calls.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use prost::Message;
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tpud_proto::v1;
use tpud_proto::v1::compile_client::CompileClient;
use tpud_proto::v1::compile_event::Event;
use tpud_proto::v1::execute_client::ExecuteClient;
use tpud_proto::v1::execute_command::Command as Exec;
use tpud_proto::v1::session_client::SessionClient;
use tpud_proto::v1::status_client::StatusClient;

pub(crate) const TPUD: &str = env!("CARGO_BIN_EXE_tpud");

/// A running daemon; killed when dropped.
pub(crate) struct TestDaemon {
    pub(crate) child: Child,
    pub(crate) directory: TempDir,
}

impl TestDaemon {
    /// Starts a daemon with these flags and variables, and waits until it answers.
    pub(crate) fn start(flags: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), flags, variables)
    }

    /// The same in a directory that an earlier daemon has used.
    pub(crate) fn start_in(directory: TempDir, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(TPUD);
        command.arg("serve").args(flags).envs(variables.iter().copied());
        Self::spawn(directory, command)
    }

    /// The same with a command of one's own, to which the directory's flags are added as variables.
    pub(crate) fn spawn(directory: TempDir, mut command: Command) -> Self {
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        command
            .env("TPUD_ADDRESS", address(&directory))
            .env("TPUD_CACHE_DIR", directory.path().join("cache"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let child = command.spawn().unwrap();
        let mut daemon = Self { child, directory };
        daemon.wait_for_socket();
        daemon
    }

    fn wait_for_socket(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while std::os::unix::net::UnixStream::connect(self.socket()).is_err() {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the daemon ended ({status}):\n{}", self.log());
            }
            assert!(Instant::now() < deadline, "the daemon does not answer:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("daemon.sock")
    }

    pub(crate) fn address(&self) -> String {
        address(&self.directory)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    pub(crate) async fn channel(&self) -> Channel {
        Endpoint::from_shared(self.address()).unwrap().connect().await.unwrap()
    }

    pub(crate) async fn status(&self) -> v1::StatusReply {
        StatusClient::new(self.channel().await).get(v1::StatusRequest {}).await.unwrap().into_inner()
    }

    pub(crate) async fn counters(&self) -> v1::Counters {
        self.status().await.counters.unwrap()
    }

    /// Kills it, and keeps its directory for the next.
    pub(crate) fn kill(mut self) -> TempDir {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::mem::replace(&mut self.directory, tempfile::tempdir().unwrap())
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Waits for its end and says whether it was a good one.
    pub(crate) fn ends_well(&mut self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.success();
            }
            assert!(Instant::now() < deadline, "the daemon does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for TestDaemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(directory: &TempDir) -> String {
    format!("unix://{}", directory.path().join("daemon.sock").display())
}

/// An f32 vector's type.
pub(crate) fn meta(size: i64) -> v1::TensorMeta {
    let constant = |value| v1::SymExpr { kind: Some(v1::sym_expr::Kind::Constant(value)) };
    v1::TensorMeta {
        dtype: v1::DType::Float32.into(),
        sizes: vec![constant(size)],
        strides: vec![constant(1)],
        storage_offset: Some(constant(0)),
    }
}

/// `x + y` for f32 vectors, by this op.
pub(crate) fn graph_of(op: &str, size: i64, name: &str) -> v1::Graph {
    use v1::value::Kind;
    let input = || v1::Input { role: v1::input::Role::UserInput.into(), meta: Some(meta(size)), symbol: 0 };
    let argument =
        |name: &str, kind| v1::Argument { name: name.into(), value: Some(v1::Value { kind: Some(kind) }) };
    let args = vec![
        argument("self", Kind::Tensor(0)),
        argument("other", Kind::Tensor(1)),
        argument("alpha", Kind::Integer(1)),
    ];
    v1::Graph {
        schema_version: 1,
        inputs: vec![input(), input()],
        nodes: vec![v1::Node { op: op.into(), args, outputs: vec![meta(size)], location: 1 }],
        outputs: vec![v1::Output { role: v1::output::Role::UserOutput.into(), value: 2, input: 0 }],
        locations: vec![v1::Location { file: "model.py".into(), line: 7, ..Default::default() }],
        name: name.into(),
        ..Default::default()
    }
}

pub(crate) fn add_graph(size: i64) -> Vec<u8> {
    graph_of("aten.add.Tensor", size, "").encode_to_vec()
}

pub(crate) fn named_graph(size: i64, name: &str) -> Vec<u8> {
    graph_of("aten.add.Tensor", size, name).encode_to_vec()
}

/// A request to compile for the CPU, without a session.
pub(crate) fn compile_request(graph: Vec<u8>) -> v1::CompileRequest {
    let target = Some(v1::Target { platform: "cpu".into(), topology: String::new() });
    let options = Some(v1::CompileOptions { target, ..Default::default() });
    v1::CompileRequest { graph, options, ..Default::default() }
}

/// Compiles, and gives the progress seen on the way too.
pub(crate) async fn compile_with_progress(
    channel: Channel,
    request: impl tonic::IntoRequest<v1::CompileRequest>,
) -> Result<(v1::CompileResult, Vec<v1::CompileProgress>), Status> {
    let mut events = CompileClient::new(channel).compile(request).await?.into_inner();
    let mut progress = Vec::new();
    loop {
        match events.message().await?.expect("a result").event.expect("an event") {
            Event::Progress(one) => progress.push(one),
            Event::Result(result) => return Ok((result, progress)),
        }
    }
}

pub(crate) async fn compile(
    channel: Channel,
    request: impl tonic::IntoRequest<v1::CompileRequest>,
) -> Result<v1::CompileResult, Status> {
    compile_with_progress(channel, request).await.map(|(result, _)| result)
}

/// The reason in a status.
pub(crate) fn reason(status: &Status) -> String {
    tpud_daemon::from_status(status).detail.unwrap_or_default().reason
}

/// A session with its stream.
pub(crate) struct TestSession {
    pub(crate) channel: Channel,
    pub(crate) open: v1::OpenReply,
    commands: tokio::sync::mpsc::Sender<v1::ExecuteCommand>,
    replies: tonic::Streaming<v1::ExecuteReply>,
    next: u64,
}

pub(crate) fn open_request() -> v1::OpenRequest {
    v1::OpenRequest {
        client_version: "0.0.0-test".into(),
        protocol_min: 1,
        protocol_max: 1,
        pid: std::process::id(),
        torch_version: String::new(),
    }
}

impl TestSession {
    pub(crate) async fn open(daemon: &TestDaemon) -> Self {
        let channel = daemon.channel().await;
        let open = SessionClient::new(channel.clone()).open(open_request()).await.unwrap().into_inner();
        let (commands, inbox) = tokio::sync::mpsc::channel(64);
        let mut request = Request::new(tokio_stream::wrappers::ReceiverStream::new(inbox));
        request.metadata_mut().insert("tpud-session", open.session_id.parse().unwrap());
        let replies = ExecuteClient::new(channel.clone()).stream(request).await.unwrap().into_inner();
        Self { channel, open, commands, replies, next: 0 }
    }

    /// Compiles a graph and loads it under a handle.
    pub(crate) async fn load(&self, graph: Vec<u8>, handle: u64) -> Result<v1::CompileResult, Status> {
        let session_id = self.open.session_id.clone();
        let request = v1::CompileRequest { session_id, graph, executable: handle, ..Default::default() };
        compile(self.channel.clone(), request).await
    }

    pub(crate) async fn send(&mut self, command: Exec) {
        self.next += 1;
        self.commands.send(v1::ExecuteCommand { id: self.next, command: Some(command) }).await.unwrap();
    }

    pub(crate) async fn receive(&mut self) -> Result<v1::ExecuteReply, Status> {
        self.replies.message().await.map(|reply| reply.expect("a reply"))
    }

    /// One command and its reply.
    pub(crate) async fn call(&mut self, command: Exec) -> Result<v1::Done, v1::Error> {
        self.send(command).await;
        let reply = self.receive().await.unwrap();
        assert_eq!(reply.id, self.next);
        match reply.outcome.unwrap() {
            v1::execute_reply::Outcome::Done(done) => Ok(done),
            v1::execute_reply::Outcome::Error(error) => Err(error),
        }
    }

    /// The reason why a command fails.
    pub(crate) async fn refused(&mut self, command: Exec) -> String {
        self.call(command).await.expect_err("an error").detail.unwrap().reason
    }
}

pub(crate) fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(crate) fn tensor_at(sizes: &[i64], place: v1::host_data::Place) -> v1::HostTensor {
    let data = Some(v1::HostData { place: Some(place) });
    v1::HostTensor { dtype: v1::DType::Float32.into(), sizes: sizes.to_vec(), data }
}

pub(crate) fn tensor(values: &[f32]) -> v1::HostTensor {
    tensor_at(&[values.len() as i64], v1::host_data::Place::Inline(bytes_of(values).into()))
}

pub(crate) fn values_of(tensor: &v1::HostTensor) -> Vec<f32> {
    let Some(v1::host_data::Place::Inline(bytes)) = tensor.data.as_ref().and_then(|data| data.place.as_ref())
    else {
        panic!("not inline");
    };
    bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

pub(crate) fn given(tensor: v1::HostTensor) -> v1::RunInput {
    v1::RunInput { source: Some(v1::run_input::Source::Tensor(tensor)) }
}

pub(crate) fn held(buffer: u64) -> v1::RunInput {
    v1::RunInput { source: Some(v1::run_input::Source::Buffer(buffer)) }
}

pub(crate) fn fetched() -> v1::RunOutput {
    v1::RunOutput { buffer: 0, fetch: true, shared: None }
}

pub(crate) fn kept(buffer: u64) -> v1::RunOutput {
    v1::RunOutput { buffer, fetch: false, shared: None }
}

pub(crate) fn run(executable: u64, inputs: Vec<v1::RunInput>, outputs: Vec<v1::RunOutput>) -> Exec {
    Exec::Run(v1::Run { executable, inputs, outputs })
}
