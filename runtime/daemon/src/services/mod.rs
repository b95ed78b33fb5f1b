//! The gRPC services. Each is thin: decode, call, encode.

mod cache;
mod compile;
mod device;
mod execute;
mod session;
mod status;

use std::sync::Arc;

use tonic::transport::server::UdsConnectInfo;
use tonic::{Extensions, Status};
use tpud_proto::v1::cache_server::CacheServer;
use tpud_proto::v1::compile_server::CompileServer;
use tpud_proto::v1::device_server::DeviceServer;
use tpud_proto::v1::execute_server::ExecuteServer;
use tpud_proto::v1::session_server::SessionServer;
use tpud_proto::v1::status_server::StatusServer;

use crate::error::DaemonError;
use crate::state::Daemon;

/// The implementation of every service.
#[derive(Clone)]
pub(crate) struct Services(Arc<Daemon>);

/// All services, with the message limit that the configuration sets.
pub(crate) fn routes(daemon: &Arc<Daemon>) -> tonic::service::Routes {
    let limit = daemon.config.limits.max_message_bytes;
    let all = || Services(Arc::clone(daemon));
    let mut routes = tonic::service::RoutesBuilder::default();
    routes
        .add_service(SessionServer::new(all()).max_decoding_message_size(limit))
        .add_service(CompileServer::new(all()).max_decoding_message_size(limit))
        .add_service(
            ExecuteServer::new(all()).max_decoding_message_size(limit).max_encoding_message_size(limit),
        )
        .add_service(DeviceServer::new(all()).max_decoding_message_size(limit))
        .add_service(CacheServer::new(all()).max_decoding_message_size(limit))
        .add_service(StatusServer::new(all()).max_decoding_message_size(limit));
    routes.routes()
}

impl Services {
    /// Refuses new work while the daemon goes down.
    fn accepting(&self) -> Result<(), Status> {
        if self.0.is_draining() { Err(DaemonError::ShuttingDown.into()) } else { Ok(()) }
    }
}

/// The peer of a Unix socket; none for TCP. Only our own user gets that far.
fn local_peer(extensions: &Extensions) -> Option<&UdsConnectInfo> {
    extensions.get::<UdsConnectInfo>()
}
