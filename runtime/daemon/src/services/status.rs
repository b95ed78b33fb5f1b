//! `tpud.v1.Status`.

use tonic::{Request, Response, Status as GrpcStatus};
use tpud_proto::v1::{self, status_server::Status};

use super::{Services, local_peer};
use crate::error::DaemonError;

#[tonic::async_trait]
impl Status for Services {
    async fn get(
        &self,
        _request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusReply>, GrpcStatus> {
        Ok(Response::new(self.0.status()))
    }

    async fn shutdown(
        &self,
        request: Request<v1::ShutdownRequest>,
    ) -> Result<Response<v1::ShutdownReply>, GrpcStatus> {
        if local_peer(request.extensions()).is_none() {
            return Err(DaemonError::LocalOnly("shutdown").into());
        }
        self.0.stop("a client asked for it");
        Ok(Response::new(v1::ShutdownReply {}))
    }
}
