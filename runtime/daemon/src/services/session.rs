//! `tpud.v1.Session`.

use tonic::{Request, Response, Status};
use tpud_proto::PROTOCOL_VERSIONS;
use tpud_proto::v1::{self, session_server::Session};

use super::{Services, local_peer};
use crate::error::DaemonError;
use crate::session::Opening;

#[tonic::async_trait]
impl Session for Services {
    async fn open(&self, request: Request<v1::OpenRequest>) -> Result<Response<v1::OpenReply>, Status> {
        self.accepting()?;
        let peer = local_peer(request.extensions());
        let pid =
            peer.and_then(|peer| peer.peer_cred.as_ref()?.pid()).and_then(|pid| u32::try_from(pid).ok());
        let opening = Opening { local: peer.is_some(), pid: pid.filter(|pid| *pid > 0) };
        let asked = request.into_inner();
        let protocol = agree(&asked)?;
        let session = self.0.sessions.open(opening)?;
        tracing::info!(
            session = %session.id, client = %asked.client_version, pid = asked.pid, torch = %asked.torch_version,
            "session opened"
        );
        Ok(Response::new(v1::OpenReply {
            session_id: session.id.clone(),
            daemon_version: crate::VERSION.to_owned(),
            protocol,
            epoch: self.0.epoch.clone(),
            lease_seconds: self.0.config.sessions.lease_seconds,
            shared_directory: session
                .shared()
                .map(|shared| shared.path().display().to_string())
                .unwrap_or_default(),
            max_message_bytes: self.0.config.limits.max_message_bytes as u64,
            devices: self.0.device_infos(),
        }))
    }

    async fn heartbeat(
        &self,
        request: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<v1::HeartbeatReply>, Status> {
        self.0.sessions.get(&request.get_ref().session_id)?;
        Ok(Response::new(v1::HeartbeatReply {}))
    }

    async fn close(&self, request: Request<v1::CloseRequest>) -> Result<Response<v1::CloseReply>, Status> {
        let id = request.into_inner().session_id;
        if !self.0.sessions.close(&id) {
            return Err(DaemonError::SessionExpired(id.chars().take(64).collect()).into());
        }
        tracing::info!(session = %id, "session closed");
        Ok(Response::new(v1::CloseReply {}))
    }
}

/// The newest protocol that both sides speak.
fn agree(asked: &v1::OpenRequest) -> Result<u32, DaemonError> {
    let protocol = asked.protocol_max.min(*PROTOCOL_VERSIONS.end());
    if protocol < asked.protocol_min.max(*PROTOCOL_VERSIONS.start()) {
        return Err(DaemonError::VersionMismatch {
            client_version: asked.client_version.chars().take(64).collect(),
            min: asked.protocol_min,
            max: asked.protocol_max,
        });
    }
    Ok(protocol)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(min: u32, max: u32) -> Result<u32, DaemonError> {
        agree(&v1::OpenRequest {
            client_version: "9.9".into(),
            protocol_min: min,
            protocol_max: max,
            ..Default::default()
        })
    }

    #[test]
    fn the_newest_common_protocol_wins_and_others_are_named() {
        assert_eq!(ask(1, 7).unwrap(), 1);
        for (min, max) in [(2, 3), (0, 0), (3, 1)] {
            let message = ask(min, max).unwrap_err().to_string();
            assert!(message.contains("9.9") && message.contains(crate::VERSION), "{message}");
        }
    }
}
