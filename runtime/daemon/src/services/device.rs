//! `tpud.v1.Device`.

use tonic::{Request, Response, Status};
use tpud_proto::v1::{self, device_server::Device};

use super::Services;

#[tonic::async_trait]
impl Device for Services {
    async fn list(
        &self,
        _request: Request<v1::ListDevicesRequest>,
    ) -> Result<Response<v1::ListDevicesReply>, Status> {
        let platforms = self.0.platforms.infos().await;
        Ok(Response::new(v1::ListDevicesReply { devices: self.0.device_infos(), platforms }))
    }
}
