//! Names that can't be guessed.

use crate::error::{DaemonError, Result};

/// 32 hexadecimal digits from the kernel.
pub(crate) fn token() -> Result<String> {
    let mut bytes = [0u8; 16];
    let failed = |problem: String| DaemonError::System { what: "drawing a random name", problem };
    let drawn = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    match drawn.map_err(|error| failed(error.to_string()))? {
        16 => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        short => Err(failed(format!("only {short} bytes"))),
    }
}
