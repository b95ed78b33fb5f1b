//! A hit compares the whole key material, not only the key.
use super::*;
use crate::KeyBuilder;

#[tokio::test]
async fn an_entry_with_the_same_key_and_other_material_is_a_miss_and_removed() {
    let root = tempfile::tempdir().unwrap();
    let config = CacheConfig { directory: root.path().into(), memory_bytes: 1 << 20, disk_bytes: 1 << 20 };
    let wanted = KeyBuilder::new(Kind::Graph).text("precision", "highest").finish();
    // The readable value isn't hashed, only its digest is: the one thing that can differ under one key.
    let component = Component { value: Some("medium".into()), ..wanted.components()[0].clone() };
    let forged = KeyMaterial::new(Kind::Graph, vec![component]);
    assert_eq!(forged.key(), wanted.key());
    for tier in ["memory", "disk"] {
        let cache = Cache::open(&config).unwrap();
        cache.put(Entry::new(forged.clone(), b"another's".as_slice())).await;
        let cache = if tier == "memory" { cache } else { Cache::open(&config).unwrap() };
        assert!(cache.get(&wanted).await.is_none(), "{tier}");
        assert_eq!(cache.counters().mismatched, 1, "{tier}");
        assert!(cache.get_by_key(&wanted.key()).await.is_none(), "{tier}: still stored");
    }
    let cache = Cache::open(&config).unwrap();
    cache.put(Entry::new(wanted.clone(), b"ours".as_slice())).await;
    assert_eq!(cache.get(&wanted).await.unwrap().entry.payload().as_ref(), b"ours");
}
