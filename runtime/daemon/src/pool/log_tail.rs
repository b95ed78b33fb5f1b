//! The last lines that a worker wrote to its standard error.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;

use crate::sync::lock;

/// Bytes kept.
const CAPACITY: usize = 16 << 10;
/// Lines reported.
const LINES: usize = 40;

/// Fed by a task that reads a pipe until it closes.
#[derive(Clone, Debug)]
pub(crate) struct LogTail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    closed: watch::Receiver<bool>,
}

impl LogTail {
    /// Starts to read `input`.
    pub(crate) fn follow(mut input: impl AsyncRead + Unpin + Send + 'static, pid: u32) -> Self {
        let bytes = Arc::new(Mutex::new(VecDeque::new()));
        let (closing, closed) = watch::channel(false);
        let kept = Arc::clone(&bytes);
        tokio::spawn(async move {
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = input.read(&mut chunk).await {
                tracing::debug!(pid, "{}", String::from_utf8_lossy(&chunk[..length]).trim_end());
                append(&mut lock(&kept), &chunk[..length]);
            }
            closing.send_replace(true);
        });
        Self { bytes, closed }
    }

    /// The last lines; waits a moment for what is still in the pipe of a process that just died.
    pub(crate) async fn finish(&self) -> String {
        let mut closed = self.closed.clone();
        let wait = closed.wait_for(|closed| *closed);
        let _ = tokio::time::timeout(std::time::Duration::from_millis(200), wait).await;
        let bytes: Vec<u8> = lock(&self.bytes).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// Forgets what was written so far: the next job starts with a clean log.
    pub(crate) fn clear(&self) {
        lock(&self.bytes).clear();
    }
}

fn append(kept: &mut VecDeque<u8>, chunk: &[u8]) {
    kept.extend(chunk);
    let excess = kept.len().saturating_sub(CAPACITY);
    kept.drain(..excess);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keeps_the_last_lines() {
        let text: String = (0..5000).map(|line| format!("line {line}\n")).collect();
        let tail = LogTail::follow(std::io::Cursor::new(text.into_bytes()), 1);
        let kept = tail.finish().await;
        assert_eq!(kept.lines().count(), LINES);
        assert!(kept.ends_with("line 4999"), "{kept}");
        tail.clear();
        assert_eq!(tail.finish().await, "");
    }
}
