//! A daemon for testing the extension alone: its executables return their inputs.
//!
//! `loopback unix:///path|http://ip:port [shared directory]`. An output of the graph has to be one of its inputs. A
//! graph named "refuse" is refused with an ErrorDetail, one named "slow" takes a second.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tokio::sync::mpsc::channel;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Response, Status, Streaming};
use tpud_proto::rpc::{Any, DETAIL_URL, RpcStatus};
use tpud_proto::v1::compile_server::{Compile, CompileServer};
use tpud_proto::v1::execute_command::Command;
use tpud_proto::v1::execute_reply::Outcome;
use tpud_proto::v1::execute_server::{Execute, ExecuteServer};
use tpud_proto::v1::host_data::Place;
use tpud_proto::v1::run_input::Source;
use tpud_proto::v1::session_server::{Session, SessionServer};
use tpud_proto::v1::*;

const MESSAGE_BYTES: usize = 64 << 20;

#[derive(Clone)]
struct Loopback {
    shared: Option<PathBuf>,
    /// For each executable, which input each output is. Shared by all sessions, whose handles may collide: a test
    /// has one session at a time.
    executables: std::sync::Arc<std::sync::Mutex<BTreeMap<u64, Vec<usize>>>>,
}

#[tonic::async_trait]
impl Session for Loopback {
    async fn open(&self, request: Request<OpenRequest>) -> Result<Response<OpenReply>, Status> {
        let request = request.into_inner();
        if request.client_version == "0.0.0" {
            return Err(refusal("VERSION_MISMATCH", "client 0.0.0 and daemon loopback do not fit"));
        }
        let shared = self.shared.as_ref().map(|path| path.display().to_string());
        Ok(Response::new(OpenReply {
            session_id: format!("loopback-{}", request.pid),
            daemon_version: "loopback".to_owned(),
            protocol: 1,
            epoch: std::process::id().to_string(),
            lease_seconds: 3,
            shared_directory: shared.unwrap_or_default(),
            max_message_bytes: MESSAGE_BYTES as u64,
            devices: vec![DeviceInfo { platform: "loopback".to_owned(), ..DeviceInfo::default() }],
        }))
    }

    async fn heartbeat(&self, _: Request<HeartbeatRequest>) -> Result<Response<HeartbeatReply>, Status> {
        Ok(Response::new(HeartbeatReply {}))
    }

    async fn close(&self, _: Request<CloseRequest>) -> Result<Response<CloseReply>, Status> {
        Ok(Response::new(CloseReply {}))
    }
}

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Compile for Loopback {
    type CompileStream = Boxed<CompileEvent>;

    async fn compile(
        &self,
        request: Request<CompileRequest>,
    ) -> Result<Response<Self::CompileStream>, Status> {
        let request = request.into_inner();
        let graph =
            Graph::decode(request.graph.as_slice()).map_err(|e| Status::invalid_argument(e.to_string()))?;
        if graph.name == "refuse" {
            return Err(refusal("UNSUPPORTED_OP", "1 op has no lowering"));
        }
        let inputs: Vec<TensorMeta> = graph.inputs.iter().filter_map(|input| input.meta.clone()).collect();
        let chosen: Vec<usize> = graph.outputs.iter().map(|output| output.value as usize).collect();
        let outputs = chosen.iter().filter_map(|&index| inputs.get(index).cloned()).collect();
        if let Ok(mut executables) = self.executables.lock() {
            executables.insert(request.executable, chosen);
        }
        let stage = compile_progress::Stage::Compiling as i32;
        let progress = CompileProgress { stage, elapsed_seconds: 0.5, queue_position: 0 };
        let result = CompileResult {
            graph_key: "00".repeat(32),
            outcome: CacheOutcome::Compiled as i32,
            signature: Some(Signature { inputs, outputs }),
            ..CompileResult::default()
        };
        let (sender, receiver) = channel(2);
        tokio::spawn(async move {
            let first = CompileEvent { event: Some(compile_event::Event::Progress(progress)) };
            let _ = sender.send(Ok(first)).await;
            if graph.name == "slow" {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            let last = CompileEvent { event: Some(compile_event::Event::Result(result)) };
            let _ = sender.send(Ok(last)).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn lower(&self, _: Request<LowerRequest>) -> Result<Response<LowerReply>, Status> {
        Ok(Response::new(LowerReply::default()))
    }

    async fn ops(&self, _: Request<OpsRequest>) -> Result<Response<OpsReply>, Status> {
        Ok(Response::new(OpsReply { ops: vec!["aten.add.Tensor".to_owned()] }))
    }
}

#[tonic::async_trait]
impl Execute for Loopback {
    type StreamStream = Boxed<ExecuteReply>;

    async fn stream(
        &self,
        request: Request<Streaming<ExecuteCommand>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        let mut device = Device { loopback: self.clone(), buffers: BTreeMap::new() };
        let replies = request.into_inner().map(move |command| {
            let command = command?;
            let outcome = match device.execute(command.command) {
                Ok(outputs) => Outcome::Done(Done { outputs, device_nanoseconds: 0 }),
                Err(message) => Outcome::Error(Error { code: 9, message, detail: None }),
            };
            Ok(ExecuteReply { id: command.id, outcome: Some(outcome) })
        });
        Ok(Response::new(Box::pin(replies)))
    }
}

struct Device {
    loopback: Loopback,
    buffers: BTreeMap<u64, HostTensor>,
}

impl Device {
    fn execute(&mut self, command: Option<Command>) -> Result<Vec<HostTensor>, String> {
        match command.ok_or("no command")? {
            Command::Upload(upload) => {
                let mut tensor = self.read(upload.tensor.ok_or("no tensor")?)?;
                if upload.offset > 0 {
                    let first = self.buffers.get(&upload.buffer).map(content).unwrap_or_default();
                    let whole = [&first[..], &content(&tensor)[..]].concat();
                    tensor.data = inline(whole.into());
                }
                let full: i64 = tensor.sizes.iter().product();
                if full == 13 && !upload.more {
                    return Err("13 elements are bad luck".to_owned());
                }
                self.buffers.insert(upload.buffer, tensor);
                Ok(Vec::new())
            }
            Command::Run(run) => self.run(run),
            Command::Download(download) => {
                let tensor = self.buffer(download.buffer)?.clone();
                let data = content(&tensor);
                let start = download.offset as usize;
                let length = if download.length == 0 { data.len() } else { download.length as usize };
                let data = data.slice(start..start + length);
                Ok(vec![self.write(HostTensor { data: inline(data), ..tensor }, download.shared)?])
            }
            Command::Free(free) => {
                for handle in free.buffers {
                    self.buffers.remove(&handle);
                }
                Ok(Vec::new())
            }
        }
    }

    fn run(&mut self, run: Run) -> Result<Vec<HostTensor>, String> {
        let chosen =
            self.loopback.executables.lock().map_err(|e| e.to_string())?.get(&run.executable).cloned();
        let chosen = chosen.ok_or(format!("no executable {}", run.executable))?;
        let mut inputs = Vec::new();
        for input in run.inputs {
            inputs.push(match input.source.ok_or("no source")? {
                Source::Buffer(handle) => self.buffer(handle)?.clone(),
                Source::Tensor(tensor) => self.read(tensor)?,
            });
        }
        let mut fetched = Vec::new();
        for (output, &index) in run.outputs.into_iter().zip(&chosen) {
            let tensor = inputs.get(index).ok_or("no such input")?.clone();
            if output.buffer != 0 {
                self.buffers.insert(output.buffer, tensor.clone());
            }
            if output.fetch {
                fetched.push(self.write(tensor, output.shared)?);
            }
        }
        Ok(fetched)
    }

    fn buffer(&self, handle: u64) -> Result<&HostTensor, String> {
        self.buffers.get(&handle).ok_or(format!("no buffer {handle}"))
    }

    fn segment(&self, name: &str) -> Result<File, String> {
        let path = self.loopback.shared.as_deref().unwrap_or(Path::new("/nonexistent")).join(name);
        File::options().read(true).write(true).open(path).map_err(|error| error.to_string())
    }

    fn read(&self, tensor: HostTensor) -> Result<HostTensor, String> {
        let Some(Place::Shared(range)) = tensor.data.as_ref().and_then(|data| data.place.as_ref()) else {
            return Ok(tensor);
        };
        let mut data = vec![0; range.length as usize];
        self.segment(&range.segment)?.read_exact_at(&mut data, range.offset).map_err(|e| e.to_string())?;
        Ok(HostTensor { data: inline(data.into()), ..tensor })
    }

    fn write(&self, tensor: HostTensor, shared: Option<SharedRange>) -> Result<HostTensor, String> {
        let Some(range) = shared else { return Ok(tensor) };
        let data = content(&tensor);
        if data.len() as u64 != range.length {
            return Err(format!("{} bytes for a range of {}", data.len(), range.length));
        }
        self.segment(&range.segment)?.write_all_at(&data, range.offset).map_err(|e| e.to_string())?;
        Ok(HostTensor { data: Some(HostData { place: Some(Place::Shared(range)) }), ..tensor })
    }
}

fn inline(data: Bytes) -> Option<HostData> {
    Some(HostData { place: Some(Place::Inline(data)) })
}

fn content(tensor: &HostTensor) -> Bytes {
    match tensor.data.as_ref().and_then(|data| data.place.as_ref()) {
        Some(Place::Inline(data)) => data.clone(),
        Some(Place::Shared(_)) | None => Bytes::new(),
    }
}

fn refusal(reason: &str, message: &str) -> Status {
    let location = Location { file: "model.py".to_owned(), line: 7, ..Location::default() };
    let op = "aten.nonzero.default".to_owned();
    let issue = Issue { op, node: 3, message: message.to_owned(), location: Some(location) };
    let detail = ErrorDetail { reason: reason.to_owned(), issues: vec![issue], ..ErrorDetail::default() };
    let any = Any { type_url: DETAIL_URL.to_owned(), value: detail.encode_to_vec() };
    let details = RpcStatus { details: vec![any], ..RpcStatus::default() };
    Status::with_details(Code::FailedPrecondition, message, details.encode_to_vec().into())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().ok_or("an address is needed")?;
    let shared = arguments.next().map(PathBuf::from);
    let loopback = Loopback { shared, executables: Default::default() };
    let router = tonic::transport::Server::builder()
        .tcp_nodelay(true)
        .add_service(SessionServer::new(loopback.clone()))
        .add_service(CompileServer::new(loopback.clone()))
        .add_service(ExecuteServer::new(loopback).max_decoding_message_size(MESSAGE_BYTES));
    if let Some(path) = address.strip_prefix("unix://") {
        let listener = tokio::net::UnixListener::bind(path)?;
        router.serve_with_incoming(UnixListenerStream::new(listener)).await?;
    } else {
        router.serve(address.trim_start_matches("http://").parse()?).await?;
    }
    Ok(())
}
