//! Every hash of the cache: SHA-256 of bytes and of lists, HMAC-SHA-256 of a header. No other file hashes.
use hmac::{Hmac, Mac};
use sha2::{Digest as _, Sha256};

/// A SHA-256.
pub type Digest = [u8; 32];

/// SHA-256 of `bytes`.
pub fn digest(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}

/// SHA-256 of a list. Each part goes in behind its length, so that no two lists run together to the same bytes.
pub fn digest_list<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Digest {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// Lower-case hexadecimal digits of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|b| [DIGITS[usize::from(b >> 4)] as char, DIGITS[usize::from(b & 15)] as char])
        .collect()
}

/// HMAC-SHA-256 of the concatenated `parts`.
pub(crate) fn sign(secret: &[u8; 32], parts: [&[u8]; 2]) -> Digest {
    keyed(secret, parts).finalize().into_bytes().into()
}

/// Whether `signature` is [`sign`]'s, compared in constant time.
pub(crate) fn is_signed(secret: &[u8; 32], parts: [&[u8]; 2], signature: &Digest) -> bool {
    keyed(secret, parts).verify_slice(signature).is_ok()
}

fn keyed(secret: &[u8; 32], parts: [&[u8]; 2]) -> Hmac<Sha256> {
    // HMAC pads a short key with zeros to the block size; doing it here makes the constructor infallible.
    let mut block = [0u8; 64];
    block[..32].copy_from_slice(secret);
    let mut mac = <Hmac<Sha256> as Mac>::new(&block.into());
    for part in parts {
        mac.update(part);
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_of_the_standard_vector() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&digest(b"abc")), expected);
    }

    #[test]
    fn hmac_equals_the_crate_s_own_key_handling() {
        let secret = [7u8; 32];
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret).unwrap();
        mac.update(b"header and more");
        let expected: Digest = mac.finalize().into_bytes().into();
        assert_eq!(sign(&secret, [b"header ", b"and more"]), expected);
        assert!(is_signed(&secret, [b"header and", b" more"], &expected));
        assert!(!is_signed(&[8u8; 32], [b"header and", b" more"], &expected));
    }

    #[test]
    fn lists_do_not_run_together() {
        let list = |parts: &[&'static str]| digest_list(parts.iter().map(|p| p.as_bytes()));
        assert_ne!(list(&["ab", "c"]), list(&["a", "bc"]));
        assert_ne!(list(&["ab"]), list(&["ab", ""]));
    }
}
