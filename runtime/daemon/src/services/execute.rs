//! `tpud.v1.Execute`.

use tonic::{Request, Response, Status, Streaming};
use tpud_proto::v1::{self, execute_server::Execute};

use super::Services;
use crate::error::DaemonError;
use crate::execute::ReplyStream;

/// The request metadata that names the session.
const SESSION: &str = "tpud-session";

#[tonic::async_trait]
impl Execute for Services {
    type StreamStream = ReplyStream;

    async fn stream(
        &self,
        request: Request<Streaming<v1::ExecuteCommand>>,
    ) -> Result<Response<ReplyStream>, Status> {
        let id = request.metadata().get(SESSION).and_then(|id| id.to_str().ok());
        let id = id.ok_or(DaemonError::SessionRequired(" in the metadata \"tpud-session\""))?;
        let session = self.0.sessions.get(id)?;
        Ok(Response::new(ReplyStream::new(&self.0, session, request.into_inner())?))
    }
}
