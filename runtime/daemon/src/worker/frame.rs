//! The framing between daemon and worker: a little-endian u32 length, then an encoded message.

use std::io::{self, Read, Write};

use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The longest frame. Executables travel in frames, so this is generous; it stops a corrupt length, nothing else.
const MAX_FRAME: u32 = 2 << 30;

fn bad(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

fn frame(message: &impl Message) -> io::Result<Vec<u8>> {
    let length = message.encoded_len();
    let prefix = u32::try_from(length).ok().filter(|length| *length <= MAX_FRAME);
    let prefix =
        prefix.ok_or_else(|| bad(format!("a message of {length} bytes is longer than a frame may be")))?;
    let mut bytes = Vec::with_capacity(length + 4);
    bytes.extend_from_slice(&prefix.to_le_bytes());
    message.encode(&mut bytes).map_err(|error| bad(error.to_string()))?;
    Ok(bytes)
}

fn length(prefix: [u8; 4]) -> io::Result<usize> {
    match u32::from_le_bytes(prefix) {
        length if length <= MAX_FRAME => Ok(length as usize),
        length => Err(bad(format!("a frame of {length} bytes"))),
    }
}

fn decode<T: Message + Default>(bytes: &[u8]) -> io::Result<T> {
    T::decode(bytes).map_err(|error| bad(error.to_string()))
}

/// Writes one message.
pub(crate) async fn send(output: &mut (impl AsyncWrite + Unpin), message: &impl Message) -> io::Result<()> {
    output.write_all(&frame(message)?).await?;
    output.flush().await
}

/// Reads one message. `UnexpectedEof` when the other side is gone. Not safe to cancel.
pub(crate) async fn receive<T: Message + Default>(input: &mut (impl AsyncRead + Unpin)) -> io::Result<T> {
    let mut prefix = [0; 4];
    input.read_exact(&mut prefix).await?;
    let mut bytes = vec![0; length(prefix)?];
    input.read_exact(&mut bytes).await?;
    decode(&bytes)
}

/// Writes one message, blocking.
pub(crate) fn write(output: &mut impl Write, message: &impl Message) -> io::Result<()> {
    output.write_all(&frame(message)?)?;
    output.flush()
}

/// Reads one message, blocking. `None` when the other side closed between messages.
pub(crate) fn read<T: Message + Default>(input: &mut impl Read) -> io::Result<Option<T>> {
    let mut prefix = [0; 4];
    match input.read(&mut prefix[..1])? {
        0 => return Ok(None),
        _ => input.read_exact(&mut prefix[1..])?,
    }
    let mut bytes = vec![0; length(prefix)?];
    input.read_exact(&mut bytes)?;
    decode(&bytes).map(Some)
}

#[cfg(test)]
mod tests {
    use tpud_proto::v1::{WorkerReady, WorkerReply, worker_reply};

    use super::*;

    #[test]
    fn blocking_frames_round_trip_and_end() {
        let message = WorkerReply { id: 7, reply: Some(worker_reply::Reply::Ready(WorkerReady { pid: 3 })) };
        let mut bytes = Vec::new();
        write(&mut bytes, &message).unwrap();
        write(&mut bytes, &message).unwrap();
        let mut input = bytes.as_slice();
        assert_eq!(read::<WorkerReply>(&mut input).unwrap(), Some(message.clone()));
        assert_eq!(read::<WorkerReply>(&mut input).unwrap(), Some(message));
        assert_eq!(read::<WorkerReply>(&mut input).unwrap(), None);
        assert!(read::<WorkerReply>(&mut &bytes[..6]).is_err(), "a truncated frame is not an end");
    }

    #[tokio::test]
    async fn a_corrupt_length_is_refused_before_memory_is_taken() {
        let mut input: &[u8] = &[0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(receive::<WorkerReply>(&mut input).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
