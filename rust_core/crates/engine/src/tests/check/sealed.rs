//! Sealed content in checks and repairs: it stays sealed, and no blob is taken for another.

use std::path::PathBuf;

use super::super::super::{CheckProgress, Effort, FindingKind, Repaired, repair_store};
use super::super::sealing::OneKey;
use super::super::support::{Store, environment, noise};
use super::fixture::{CHUNK, check, files, flip, open_index};
use super::{kinds, lost_keys};
use orcas_decide::{Body, ChunkPlace, Intent, PutObject, Sharing};
use orcas_index::BlobEntry;
use orcas_record::{self as record, BlobLocation, Bucket, ChunkMove, Encryption, Record, Seal};

fn store() -> Store {
    let store = Store::with(|options| options.chunk_size = CHUNK);
    store.handle().use_keys(OneKey::new(7));
    store
}

fn reopen(store: &mut Store) {
    store.open();
    store.handle().use_keys(OneKey::new(7));
}

fn sealed_body(store: &Store, bucket: &Bucket, bytes: &[u8]) -> Body {
    let mut writer = store.handle().sealed_body_writer(bucket, bytes.len() as u64).unwrap();
    writer.write(bytes, &mut ()).unwrap();
    writer.finish().unwrap()
}

fn put_encrypted(store: &Store, bucket: &Bucket, key: &str, (bytes, body): (&[u8], Body)) {
    let mut put = PutObject { body, ..store.small_put(bucket, key, bytes) };
    put.attributes.encryption = Some(Encryption::Managed);
    store.handle().execute(Intent::PutObject(Box::new(put))).unwrap();
}

fn put_sealed(store: &Store, bucket: &Bucket, key: &str, bytes: &[u8]) {
    put_encrypted(store, bucket, key, (bytes, sealed_body(store, bucket, bytes)));
}

/// The blobs of a closed store, with their seals.
fn sealed_blobs(store: &Store) -> Vec<(BlobEntry, Seal)> {
    let index = open_index(store.path());
    let reader = index.read().unwrap();
    let blobs = reader.blobs_after(0, usize::MAX).unwrap();
    let seal = |entry: &BlobEntry| reader.sealed_blob(entry.sequence).unwrap().unwrap().1;
    blobs.iter().filter_map(|entry| Some((*entry, seal(entry)?))).collect()
}

fn repair(store: &Store) -> Repaired {
    let repaired = repair_store(store.options.clone(), environment(), &CheckProgress::default(), true).unwrap();
    assert!(repaired.report.is_clean(), "{:#?}", repaired.report);
    repaired
}

/// Where the bytes are in the log.
fn in_log(store: &Store, bytes: &[u8]) -> (PathBuf, u64) {
    let found = files(&store.path().join("log")).into_iter().find_map(|path| {
        let at = memchr::memmem::find(&std::fs::read(&path).unwrap(), bytes)?;
        Some((path, at as u64))
    });
    found.unwrap()
}

#[test]
fn a_sealed_chunk_whose_record_is_lost_comes_back_sealed() {
    let mut store = store();
    let (bucket, content) = (store.bucket("bkt"), noise(100_000, 1));
    put_sealed(&store, &bucket, "k", &content);
    store.close();
    let (_, seal) = sealed_blobs(&store)[0];
    let (log, at) = in_log(&store, &seal.id);
    flip(&log, at);
    let repaired = repair(&store);
    assert_eq!(repaired.given_up.unwrap().losses_total, 0);
    assert!(sealed_blobs(&store).iter().any(|(_, restored)| *restored == seal));
    reopen(&mut store);
    assert_eq!(store.get(&bucket, "k").unwrap(), Some(content.clone()));
    // What is stored now takes the blobs that are there, and can be read too.
    put_sealed(&store, &bucket, "again", &content);
    assert_eq!(store.get(&bucket, "again").unwrap(), Some(content));
}

/// The move as a record has it.
fn encoded(chunk: ChunkMove) -> Vec<u8> {
    let payload = |moves| {
        let mut payload = Vec::new();
        record::encode(&Record::MoveChunks { moves }, &mut payload);
        payload
    };
    payload(vec![chunk]).split_off(payload(Vec::new()).len())
}

/// Equal content that was sealed twice, and the record that said where it was moved to is lost.
#[test]
fn sealed_chunks_are_found_again_by_their_seals() {
    let mut store = Store::with(|options| {
        options.chunk_size = CHUNK;
        options.pack_size = 1 << 20;
    });
    store.handle().use_keys(OneKey::new(7));
    let (bucket, content) = (store.bucket("bkt"), noise(60_000, 1));
    let twice = [sealed_body(&store, &bucket, &content), sealed_body(&store, &bucket, &content)];
    for (key, body) in ["one", "two"].into_iter().zip(twice) {
        let Body::Chunks(mut chunks) = body else { panic!("{body:?}") };
        // As of uploads that did not see each other.
        chunks.iter_mut().for_each(|chunk| chunk.sharing = Sharing::Offered);
        put_encrypted(&store, &bucket, key, (&content, Body::Chunks(chunks)));
    }
    for n in 0..40 {
        put_sealed(&store, &bucket, &format!("gone-{n}"), &noise(60_000, 100 + n));
    }
    for n in 0..40 {
        store.delete(&bucket, &format!("gone-{n}")).unwrap();
    }
    store.handle().reclaim(Effort::Compact).unwrap();
    store.close();
    let moved = sealed_blobs(&store);
    assert_eq!(moved.len(), 2);
    assert!(moved[0].0.fingerprint == moved[1].0.fingerprint && moved[0].1.id != moved[1].1.id);
    for (entry, _) in &moved {
        let BlobLocation::Pack { at, .. } = entry.location else { panic!("{entry:?}") };
        let (log, at) = in_log(&store, &encoded(ChunkMove { blob: entry.sequence, to: at }));
        flip(&log, at);
    }
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(store.path().join(format!("index.db{suffix}")));
    }
    let repaired = repair(&store);
    assert_eq!(repaired.given_up.unwrap().losses_total, 0);
    reopen(&mut store);
    for key in ["one", "two"] {
        assert_eq!(store.get(&bucket, key).unwrap(), Some(content.clone()), "{key}");
    }
}

/// Chunks that say of themselves what they are not.
fn relabelled(body: Body) -> Body {
    let Body::Chunks(mut chunks) = body else { panic!("{body:?}") };
    chunks.iter_mut().for_each(|chunk| chunk.sealed = !chunk.sealed);
    Body::Chunks(chunks)
}

#[test]
fn an_object_whose_content_is_not_sealed_as_it_says_is_not_served() {
    let mut store = store();
    let (bucket, content) = (store.bucket("bkt"), noise(100_000, 1));
    put_encrypted(&store, &bucket, "bare", (&content, relabelled(store.body(&bucket, &content).unwrap())));
    let body = relabelled(sealed_body(&store, &bucket, &content));
    let put = PutObject { body, ..store.small_put(&bucket, "sealed", &content) };
    store.handle().execute(Intent::PutObject(Box::new(put))).unwrap();
    put_sealed(&store, &bucket, "right", &noise(100_000, 2));
    store.put(&bucket, "plain", &noise(100_000, 3)).unwrap();
    for key in ["bare", "sealed", "right", "plain"] {
        let found = store.handle().object(bucket.id, &key.into()).unwrap().unwrap();
        let read = store.handle().reader(&found, 0, 9).read(&mut [0; 10]);
        assert_eq!(read.is_ok(), ["right", "plain"].contains(&key), "{key}: {read:?}");
    }
    store.close();
    let report = check(store.path());
    assert_eq!(kinds(&report), [FindingKind::Manifest].into());
    assert_eq!(lost_keys(&report), ["bkt/bare".to_owned(), "bkt/sealed".to_owned()].into());
}

#[test]
fn a_chunk_that_ends_with_another_seal_than_its_record_is_named() {
    let mut store = store();
    let (bucket, content) = (store.bucket("bkt"), noise(60_000, 1));
    let Body::Chunks(mut chunks) = sealed_body(&store, &bucket, &content) else { panic!("no chunks") };
    for chunk in &mut chunks {
        let ChunkPlace::New { seal: Some(seal), .. } = &mut chunk.place else { panic!("{chunk:?}") };
        seal.id[0] ^= 1;
    }
    put_encrypted(&store, &bucket, "other", (&content, Body::Chunks(chunks)));
    put_sealed(&store, &bucket, "right", &noise(60_000, 2));
    store.close();
    let report = check(store.path());
    assert_eq!(kinds(&report), [FindingKind::Blob].into());
    assert_eq!(lost_keys(&report), ["bkt/other".to_owned()].into());
}
