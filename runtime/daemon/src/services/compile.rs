//! `tpud.v1.Compile`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use tpud_proto::v1::{self, compile_server::Compile};

use super::Services;
use crate::compile::{answer_compile, deadline};
use crate::counters::count;

#[tonic::async_trait]
impl Compile for Services {
    type CompileStream = ReceiverStream<Result<v1::CompileEvent, Status>>;

    async fn compile(
        &self,
        request: Request<v1::CompileRequest>,
    ) -> Result<Response<Self::CompileStream>, Status> {
        self.accepting()?;
        count(&self.0.counters.compile_requests);
        let deadline = deadline(request.metadata()).map(|left| Instant::now() + left);
        // Room for one event: a slow reader is sent the newest progress, not a backlog.
        let (events, stream) = tokio::sync::mpsc::channel(1);
        tokio::spawn(answer_compile(Arc::clone(&self.0), request.into_inner(), deadline, events));
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn lower(&self, request: Request<v1::LowerRequest>) -> Result<Response<v1::LowerReply>, Status> {
        self.accepting()?;
        let limit = deadline(request.metadata()).unwrap_or(Duration::from_secs(u32::MAX.into()));
        let v1::LowerRequest { graph, options } = request.into_inner();
        let lowering = self.0.compiler.lower_only(graph, options.unwrap_or_default());
        match tokio::time::timeout(limit, lowering).await {
            Ok(reply) => Ok(Response::new(reply?)),
            Err(_) => Err(crate::error::DaemonError::DeadlineExceeded("lowering").into()),
        }
    }

    async fn ops(&self, _request: Request<v1::OpsRequest>) -> Result<Response<v1::OpsReply>, Status> {
        Ok(Response::new(v1::OpsReply { ops: crate::supported_ops() }))
    }
}
