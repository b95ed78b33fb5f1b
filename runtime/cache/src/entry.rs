//! A stored entry and its bytes: a signed header with the full key material, then the payload.
//!
//! ```text
//!   0   8  magic
//!   8   4  format version      (all integers little-endian)
//!  12   4  length of the material
//!  16   8  length of the payload
//!  24  32  SHA-256 of the payload
//!  56  32  HMAC-SHA-256 by the cache's signing key over bytes 0..56 and the material
//!  88   …  material: kind u8, count u16, then for each component
//!          name (u16 length + bytes), value (u8 present, then u16 length + bytes), digest (32)
//!   …   …  payload
//! ```
//! The signature covers the payload through its checksum, so each byte is hashed once, and a header can be read and
//! trusted without the payload.
use bytes::{Buf, BufMut, Bytes};

use crate::{Component, EntryError, Key, KeyMaterial, Kind, SigningKey, fingerprint};

const MAGIC: &[u8; 8] = b"tpud\xc5che";
/// Version of the layout above.
const FORMAT: u32 = 1;
/// Where the signature begins.
const SIGNED: usize = 56;
/// Where the material begins.
const FIXED: usize = 88;
/// The longest material a reader accepts; ours has a few hundred bytes.
const MAX_MATERIAL: usize = 64 << 10;
/// No header is longer.
pub(crate) const MAX_HEADER: usize = FIXED + MAX_MATERIAL;

/// An entry of the cache: what its key was made from, and the payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    material: KeyMaterial,
    payload: Bytes,
}

impl Entry {
    /// An entry to be stored.
    pub fn new(material: KeyMaterial, payload: impl Into<Bytes>) -> Self {
        Entry { material, payload: payload.into() }
    }

    /// The key it is stored under.
    pub const fn key(&self) -> Key {
        self.material.key()
    }

    /// What the key was made from.
    pub const fn material(&self) -> &KeyMaterial {
        &self.material
    }

    /// The payload; [`crate::GraphRecord`] or [`crate::ModuleRecord`] by the kind of the key.
    pub const fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// What it counts for in a memory bound: the payload and a rough figure for the rest.
    pub fn weight(&self) -> u64 {
        self.payload.len() as u64 + 256 + 128 * self.material.components().len() as u64
    }

    /// The entry's bytes. Written as header and payload, they need no second copy of the payload.
    pub fn encode(&self, signer: &SigningKey) -> Result<Vec<u8>, EntryError> {
        let mut bytes = self.encode_header(signer)?;
        bytes.extend_from_slice(&self.payload);
        Ok(bytes)
    }

    /// The bytes before the payload.
    pub(crate) fn encode_header(&self, signer: &SigningKey) -> Result<Vec<u8>, EntryError> {
        let material = encode_material(&self.material)?;
        let mut header = Vec::with_capacity(FIXED + material.len());
        header.extend_from_slice(MAGIC);
        header.put_u32_le(FORMAT);
        header.put_u32_le(material.len() as u32);
        header.put_u64_le(self.payload.len() as u64);
        header.extend_from_slice(&fingerprint::digest(&self.payload));
        let signature = signer.sign([&header, &material]);
        header.extend_from_slice(&signature);
        header.extend_from_slice(&material);
        Ok(header)
    }

    /// Accepts the bytes of an entry only if all of it holds: magic, format, lengths, signature, checksum, and that it
    /// is the entry of `key`. The payload shares the memory of `bytes`.
    pub fn decode(bytes: &Bytes, key: &Key, signer: &SigningKey) -> Result<Self, EntryError> {
        let header = Header::decode(bytes, key, signer)?;
        let length = header.entry_length();
        if length != bytes.len() as u64 {
            return Err(EntryError::Length { expected: length, found: bytes.len() as u64 });
        }
        let payload = bytes.slice(header.payload_at..);
        if fingerprint::digest(&payload) != header.checksum {
            return Err(EntryError::Checksum);
        }
        Ok(Entry { material: header.material, payload })
    }
}

/// The verified part of an entry before its payload.
pub(crate) struct Header {
    pub(crate) material: KeyMaterial,
    payload_at: usize,
    payload_length: u64,
    checksum: fingerprint::Digest,
}

impl Header {
    /// Reads and verifies a header at the start of `bytes`, which may end anywhere after it.
    pub(crate) fn decode(bytes: &[u8], key: &Key, signer: &SigningKey) -> Result<Self, EntryError> {
        let short =
            |expected: usize| EntryError::Length { expected: expected as u64, found: bytes.len() as u64 };
        let (fixed, rest) = bytes.split_first_chunk::<FIXED>().ok_or_else(|| short(FIXED))?;
        let mut fields = &fixed[..];
        let magic: [u8; 8] = take(&mut fields)?;
        let format = u32::from_le_bytes(take(&mut fields)?);
        let material_length = u32::from_le_bytes(take(&mut fields)?) as usize;
        let payload_length = u64::from_le_bytes(take(&mut fields)?);
        let checksum = take(&mut fields)?;
        let signature = take(&mut fields)?;
        if magic != *MAGIC {
            return Err(EntryError::Magic);
        }
        if format != FORMAT {
            return Err(EntryError::Format { expected: FORMAT, found: format });
        }
        if material_length > MAX_MATERIAL {
            return Err(EntryError::Malformed { what: "length of the key material" });
        }
        let material = rest.get(..material_length).ok_or_else(|| short(FIXED + material_length))?;
        if !signer.is_signed([&fixed[..SIGNED], material], &signature) {
            return Err(EntryError::Signature);
        }
        let material = decode_material(material)?;
        if material.key() != *key {
            return Err(EntryError::OtherKey { found: material.key() });
        }
        Ok(Header { material, payload_at: FIXED + material_length, payload_length, checksum })
    }
}

impl Header {
    /// Length of the whole entry, payload included.
    pub(crate) const fn entry_length(&self) -> u64 {
        (self.payload_at as u64).saturating_add(self.payload_length)
    }
}

fn encode_material(material: &KeyMaterial) -> Result<Vec<u8>, EntryError> {
    let mut out = vec![match material.kind() {
        Kind::Graph => 1,
        Kind::Module => 2,
    }];
    out.put_u16_le(short_length(material.components().len())?);
    for component in material.components() {
        put_text(&mut out, &component.name)?;
        out.put_u8(u8::from(component.value.is_some()));
        if let Some(value) = &component.value {
            put_text(&mut out, value)?;
        }
        out.extend_from_slice(&component.digest);
    }
    if out.len() > MAX_MATERIAL {
        return Err(EntryError::Malformed { what: "length of the key material" });
    }
    Ok(out)
}

fn decode_material(mut bytes: &[u8]) -> Result<KeyMaterial, EntryError> {
    let kind = match take::<1>(&mut bytes)?[0] {
        1 => Kind::Graph,
        2 => Kind::Module,
        _ => return Err(EntryError::Malformed { what: "kind" }),
    };
    let count = u16::from_le_bytes(take(&mut bytes)?);
    let mut components = Vec::new(); // not sized by `count`: every component has to be there first
    for _ in 0..count {
        let name = take_text(&mut bytes)?;
        let value = match take::<1>(&mut bytes)?[0] {
            0 => None,
            1 => Some(take_text(&mut bytes)?),
            _ => return Err(EntryError::Malformed { what: "value of a component" }),
        };
        components.push(Component { name, value, digest: take(&mut bytes)? });
    }
    if bytes.has_remaining() {
        return Err(EntryError::Malformed { what: "end of the key material" });
    }
    Ok(KeyMaterial::new(kind, components))
}

fn short_length(length: usize) -> Result<u16, EntryError> {
    u16::try_from(length).map_err(|_| EntryError::Malformed { what: "length of a component" })
}

fn put_text(out: &mut Vec<u8>, text: &str) -> Result<(), EntryError> {
    out.put_u16_le(short_length(text.len())?);
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], EntryError> {
    let (head, rest) =
        bytes.split_first_chunk::<N>().ok_or(EntryError::Malformed { what: "key material" })?;
    *bytes = rest;
    Ok(*head)
}

fn take_text(bytes: &mut &[u8]) -> Result<String, EntryError> {
    let length = usize::from(u16::from_le_bytes(take(bytes)?));
    let (text, rest) =
        bytes.split_at_checked(length).ok_or(EntryError::Malformed { what: "key material" })?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).map_err(|_| EntryError::Malformed { what: "text of a component" })
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
