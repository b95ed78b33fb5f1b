//! Whatever happens to an entry's bytes, they are taken for what was stored or refused with the reason.
use proptest::prelude::*;

use super::*;
use crate::KeyBuilder;

fn signer() -> SigningKey {
    SigningKey::from_secret([42; 32])
}

fn entry(name: &str, payload: &'static [u8]) -> Entry {
    let material = KeyBuilder::new(Kind::Module).text("name", name).bytes("content", b"opaque").finish();
    Entry::new(material, payload)
}

fn encoded(entry: &Entry) -> Vec<u8> {
    entry.encode(&signer()).unwrap()
}

fn decode(bytes: Vec<u8>, key: &Key) -> Result<Entry, EntryError> {
    Entry::decode(&Bytes::from(bytes), key, &signer())
}

#[test]
fn an_entry_comes_back() {
    for payload in [b"".as_slice(), b"executable"] {
        let entry = entry("a", payload);
        assert_eq!(decode(encoded(&entry), &entry.key()), Ok(entry));
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let entry = entry("a", b"some payload");
    let bytes = encoded(&entry);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(flipped, &entry.key()).is_err(), "bit {bit}");
    }
}

#[test]
fn every_truncation_and_any_extension_is_noticed() {
    let entry = entry("a", b"some payload");
    let bytes = encoded(&entry);
    for length in 0..bytes.len() {
        assert!(decode(bytes[..length].to_vec(), &entry.key()).is_err(), "{length} bytes");
    }
    let longer = [bytes.as_slice(), b"\0"].concat();
    let (expected, found) = (bytes.len() as u64, longer.len() as u64);
    assert_eq!(decode(longer, &entry.key()), Err(EntryError::Length { expected, found }));
}

#[test]
fn each_check_has_its_error() {
    let entry = entry("a", b"payload");
    let (bytes, key) = (encoded(&entry), entry.key());
    let with = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        decode(bytes, &key).unwrap_err()
    };
    assert_eq!(with(0, b'T'), EntryError::Magic);
    assert_eq!(with(8, 2), EntryError::Format { expected: 1, found: 2 });
    assert_eq!(with(SIGNED, bytes[SIGNED] ^ 1), EntryError::Signature);
    assert_eq!(with(bytes.len() - 1, b'!'), EntryError::Checksum);
    let other = SigningKey::from_secret([43; 32]);
    let foreign = entry.encode(&other).unwrap();
    assert_eq!(decode(foreign, &key), Err(EntryError::Signature));
}

#[test]
fn an_entry_under_another_key_is_refused() {
    let (a, b) = (entry("a", b"payload"), entry("b", b"payload"));
    assert_eq!(decode(encoded(&a), &b.key()), Err(EntryError::OtherKey { found: a.key() }));
}

#[test]
fn a_payload_under_another_header_is_refused() {
    let (a, b) = (entry("a", b"payload a"), entry("b", b"payload b"));
    let (a_bytes, b_bytes) = (encoded(&a), encoded(&b));
    let header = a_bytes.len() - a.payload().len();
    let spliced = [&a_bytes[..header], &b_bytes[header..]].concat();
    assert_eq!(decode(spliced, &a.key()), Err(EntryError::Checksum));
}

#[test]
fn key_material_beyond_the_format_is_refused_when_writing() {
    let long_name = "n".repeat(70_000);
    let material = KeyBuilder::new(Kind::Graph).text(&long_name, "v").finish();
    assert!(matches!(
        Entry::new(material, b"".as_slice()).encode(&signer()),
        Err(EntryError::Malformed { .. })
    ));
    let many = (0..2_000).fold(KeyBuilder::new(Kind::Graph), |b, i| b.text(&format!("component {i}"), "v"));
    assert!(matches!(
        Entry::new(many.finish(), b"".as_slice()).encode(&signer()),
        Err(EntryError::Malformed { .. })
    ));
}

#[test]
fn a_huge_claim_takes_no_memory() {
    // Signed with the right key, yet claiming 65,535 components: each has to be there.
    let mut material = vec![1];
    material.put_u16_le(u16::MAX);
    assert_eq!(decode_material(&material), Err(EntryError::Malformed { what: "key material" }));
}

proptest! {
    #[test]
    fn any_entry_comes_back(
        values in proptest::collection::vec((".{0,12}", ".{0,40}"), 0..8),
        payload in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let builder = values.iter().fold(KeyBuilder::new(Kind::Graph), |b, (name, value)| b.text(name, value));
        let entry = Entry::new(builder.finish(), payload);
        prop_assert_eq!(decode(encoded(&entry), &entry.key()), Ok(entry));
    }

    #[test]
    fn damage_anywhere_is_noticed(
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), 1..=255u8), 1..4),
        cut in proptest::option::of(any::<proptest::sample::Index>()),
        tail in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let entry = entry("a", &[7; 300]);
        let original = encoded(&entry);
        let mut bytes = original.clone();
        for (position, mask) in damage {
            let position = position.index(bytes.len());
            bytes[position] ^= mask;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes.extend(tail);
        prop_assume!(bytes != original);
        prop_assert!(decode(bytes, &entry.key()).is_err());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(decode(bytes.clone(), &Key::from_bytes([0; 32])).is_err());
        let _ = decode_material(&bytes);
    }
}
