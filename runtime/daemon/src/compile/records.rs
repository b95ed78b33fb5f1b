//! What the daemon stores with cache entries: the parts of an answer that need not be computed again.

use prost::Message;
use tpud_proto::v1;

/// Beside a graph's module key.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GraphMetadata {
    #[prost(message, optional, tag = "1")]
    pub(crate) signature: Option<v1::Signature>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) ops: Vec<v1::OpCount>,
    #[prost(uint64, tag = "3")]
    pub(crate) module_bytes: u64,
    #[prost(message, repeated, tag = "4")]
    pub(crate) checks: Vec<v1::Check>,
}

/// Beside a module's executable.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModuleReport {
    #[prost(message, optional, tag = "1")]
    pub(crate) memory: Option<v1::MemoryReport>,
    #[prost(message, optional, tag = "2")]
    pub(crate) cost: Option<v1::CostReport>,
}
