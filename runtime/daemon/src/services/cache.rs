//! `tpud.v1.Cache`.

use tonic::{Request, Response, Status};
use tpud_proto::v1::{self, cache_server::Cache};

use super::Services;
use crate::inspect;

#[tonic::async_trait]
impl Cache for Services {
    async fn list(
        &self,
        request: Request<v1::ListCacheRequest>,
    ) -> Result<Response<v1::ListCacheReply>, Status> {
        Ok(Response::new(inspect::list(&self.0.compiler.cache, request.into_inner().limit).await))
    }

    async fn explain(
        &self,
        request: Request<v1::ExplainCacheRequest>,
    ) -> Result<Response<v1::ExplainCacheReply>, Status> {
        Ok(Response::new(inspect::explain(&self.0.compiler, request.into_inner()).await?))
    }

    async fn verify(
        &self,
        _request: Request<v1::VerifyCacheRequest>,
    ) -> Result<Response<v1::VerifyCacheReply>, Status> {
        Ok(Response::new(inspect::verify(&self.0.compiler.cache).await?))
    }

    async fn prune(
        &self,
        request: Request<v1::PruneCacheRequest>,
    ) -> Result<Response<v1::PruneCacheReply>, Status> {
        Ok(Response::new(inspect::prune(&self.0.compiler.cache, request.into_inner().max_bytes).await?))
    }
}
