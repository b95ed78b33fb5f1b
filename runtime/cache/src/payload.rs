//! The two payloads: what a graph entry and a module entry carry. Only their framing is known here.
use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::{EntryError, Key};

/// Payload of a graph entry: which module the graph lowered to, and what the caller needs to answer without lowering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphRecord {
    /// Key of the module entry with the executable.
    pub module_key: Key,
    /// The caller's own bytes: signature, op counts, …
    pub metadata: Bytes,
}

impl GraphRecord {
    /// The payload.
    pub fn encode(&self) -> Bytes {
        [self.module_key.as_bytes().as_slice(), &self.metadata].concat().into()
    }

    /// Reads a payload; the metadata shares its memory.
    pub fn decode(payload: &Bytes) -> Result<Self, EntryError> {
        let malformed = EntryError::Malformed { what: "graph record" };
        let (key, _) = payload.split_first_chunk::<32>().ok_or(malformed)?;
        Ok(GraphRecord { module_key: Key::from_bytes(*key), metadata: payload.slice(32..) })
    }
}

/// Payload of a module entry: the executable, and the report that was made with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleRecord {
    /// The serialised executable.
    pub executable: Bytes,
    /// The caller's own bytes: memory and cost report, …
    pub report: Bytes,
}

impl ModuleRecord {
    /// The payload: the report behind its length, then the executable.
    pub fn encode(&self) -> Bytes {
        let mut payload = BytesMut::with_capacity(8 + self.report.len() + self.executable.len());
        payload.put_u64_le(self.report.len() as u64);
        payload.extend_from_slice(&self.report);
        payload.extend_from_slice(&self.executable);
        payload.freeze()
    }

    /// Reads a payload; both parts share its memory.
    pub fn decode(payload: &Bytes) -> Result<Self, EntryError> {
        let malformed = EntryError::Malformed { what: "module record" };
        let mut rest = payload.clone();
        let length = rest.try_get_u64_le().map_err(|_| malformed.clone())?;
        let length = usize::try_from(length).ok().filter(|length| *length <= rest.len()).ok_or(malformed)?;
        let report = rest.split_to(length);
        Ok(ModuleRecord { executable: rest, report })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        let graph =
            GraphRecord { module_key: Key::from_bytes([9; 32]), metadata: Bytes::from_static(b"meta") };
        assert_eq!(GraphRecord::decode(&graph.encode()), Ok(graph));
        let module =
            ModuleRecord { executable: Bytes::from_static(b"code"), report: Bytes::from_static(b"12 MB") };
        assert_eq!(ModuleRecord::decode(&module.encode()), Ok(module));
    }

    #[test]
    fn short_payloads_are_refused() {
        assert!(GraphRecord::decode(&Bytes::from_static(&[0; 31])).is_err());
        assert!(ModuleRecord::decode(&Bytes::from_static(&[0; 7])).is_err());
        let past_the_end = Bytes::from_static(&[5, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
        assert!(ModuleRecord::decode(&past_the_end).is_err());
        let huge = Bytes::from_static(&[255; 12]);
        assert!(ModuleRecord::decode(&huge).is_err());
    }
}
