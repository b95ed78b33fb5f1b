//! `google.rpc.Status`, the envelope in which a gRPC status carries an `ErrorDetail`. Written by hand: it is two
//! messages, and their fields have not changed since they were published.

/// The type URL of a [`v1::ErrorDetail`](crate::v1::ErrorDetail) in [`Any`].
pub const DETAIL_URL: &str = "type.googleapis.com/tpud.v1.ErrorDetail";

/// `google.rpc.Status`
#[derive(Clone, PartialEq, prost::Message)]
pub struct RpcStatus {
    /// A gRPC code.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// For people.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Typed details.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

/// `google.protobuf.Any`
#[derive(Clone, PartialEq, prost::Message)]
pub struct Any {
    /// What `value` encodes.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// The encoded message.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}
