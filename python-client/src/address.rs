//! Addresses of daemons, and the channel to one.

use std::path::PathBuf;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint, Uri};
use tower::service_fn;

use crate::error::{ClientError, causes};

/// Flow control windows: large enough that a transfer never waits for an update on one machine.
const STREAM_WINDOW: u32 = 8 << 20;
const CONNECTION_WINDOW: u32 = 32 << 20;
/// A remote peer that vanished without a word is noticed after their sum.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// A parsed `TPUD_ADDRESS`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Address {
    Unix(PathBuf),
    Http(String),
    Https(String),
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, ClientError> {
        let invalid =
            |cause: &str| ClientError::InvalidAddress { address: text.to_owned(), cause: cause.to_owned() };
        if let Some(path) = text.strip_prefix("unix://") {
            if !path.starts_with('/') {
                return Err(invalid("the path of a Unix socket has to be absolute"));
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let uri: Uri = text.parse().map_err(|_| invalid("not an address"))?;
        if uri.host().is_none_or(str::is_empty) {
            return Err(invalid("no host"));
        }
        match uri.scheme_str() {
            Some("http") => Ok(Self::Http(text.to_owned())),
            Some("https") => Ok(Self::Https(text.to_owned())),
            _ => Err(invalid("unknown scheme")),
        }
    }

    /// Connects within `timeout`.
    pub(crate) async fn connect(&self, timeout: Duration) -> Result<Channel, ClientError> {
        let connected = tokio::time::timeout(timeout, self.connect_channel()).await;
        let cause = match connected {
            Ok(Ok(channel)) => return Ok(channel),
            Ok(Err(error)) => causes(&error),
            Err(_) => format!("no answer within {} s", timeout.as_secs_f64()),
        };
        Err(ClientError::Unreachable { address: self.to_string(), cause })
    }

    async fn connect_channel(&self) -> Result<Channel, tonic::transport::Error> {
        match self {
            Self::Unix(path) => {
                let path = path.clone();
                let connect = move |_: Uri| {
                    let path = path.clone();
                    async move { UnixStream::connect(path).await.map(TokioIo::new) }
                };
                // The URI is not looked at; HTTP/2 needs an authority.
                endpoint("http://localhost")?.connect_with_connector(service_fn(connect)).await
            }
            Self::Http(uri) => remote(endpoint(uri)?).connect().await,
            Self::Https(uri) => {
                let tls = ClientTlsConfig::new().with_native_roots();
                remote(endpoint(uri)?).tls_config(tls)?.connect().await
            }
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Http(uri) | Self::Https(uri) => f.write_str(uri),
        }
    }
}

fn endpoint(uri: &str) -> Result<Endpoint, tonic::transport::Error> {
    Ok(Endpoint::from_shared(uri.to_owned())?
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW))
}

fn remote(endpoint: Endpoint) -> Endpoint {
    endpoint
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(Address::parse("unix:///run/t.sock").unwrap(), Address::Unix("/run/t.sock".into()));
        assert_eq!(Address::parse("http://h:1").unwrap().to_string(), "http://h:1");
        assert!(matches!(Address::parse("https://h:1").unwrap(), Address::Https(_)));
        for wrong in ["", "unix://run/t.sock", "ftp://h:1", "h", "/run/t.sock", "http://"] {
            let error = Address::parse(wrong).unwrap_err();
            assert!(error.to_string().contains(&format!("{wrong:?}")), "{error}");
        }
    }
}
