//! Sealed content in checks and repairs: it stays sealed, and no blob is taken for another.

use std::path::PathBuf;
use std::sync::Arc;

use super::super::super::{CheckProgress, FindingKind, Repaired, repair_store};
use super::super::sealing::{OneKey, managed};
use super::super::steps::Steps;
use super::super::support::{Store, environment, noise};
use super::faults;
use super::fixture::{CHUNK, check, files, flip, open_index};
use super::{kinds, lost_keys};
use orcas_decide::{Body, ChunkPlace, Intent, PutObject, Sharing};
use orcas_fs::sim::SimDisk;
use orcas_index::BlobEntry;
use orcas_record::{Bucket, Encryption, Record, Seal};

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
    let mut writer = store.handle().sealed_body_writer(bucket, &managed(), bytes.len() as u64).unwrap();
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

/// Equal content that was sealed twice, and the record that said where it was moved to is lost.
#[test]
fn sealed_chunks_are_found_again_by_their_seals() {
    let disk = SimDisk::new();
    disk.refuse_holes();
    let mut steps = faults::steps(&disk);
    steps.handle().use_keys(OneKey::new(7));
    let (bucket, content) = (steps.bucket("b"), noise(200_000, 1));
    let keys = ["one", "two"];
    let put = |steps: &mut Steps, key: &str, bytes: &[u8]| {
        let mut writer = steps.handle().sealed_body_writer(&bucket, &managed(), bytes.len() as u64).unwrap();
        writer.write(bytes, &mut ()).unwrap();
        let Body::Chunks(mut chunks) = writer.finish().unwrap() else { panic!("no chunks") };
        // As of uploads that did not see each other.
        chunks.iter_mut().for_each(|chunk| chunk.sharing = Sharing::Offered);
        let mut put = Steps::put_of(&bucket, key, bytes, Body::Chunks(chunks));
        put.attributes.encryption = Some(Encryption::Managed);
        steps.run(Intent::PutObject(Box::new(put))).unwrap();
    };
    // Each beside what will be gone.
    for key in keys {
        put(&mut steps, key, &content);
        (0..4).for_each(|n| put(&mut steps, &format!("{key}-{n}"), &noise(200_000, 10 + n)));
    }
    for key in keys {
        (0..4).for_each(|n| steps.delete(&bucket, &format!("{key}-{n}")));
    }
    faults::reclaim_all(&mut steps);
    steps.put(&bucket, "last", &noise(2_000, 99));
    drop(steps);
    assert!(faults::damage(&disk, &Record::MoveChunks { moves: Vec::new() }), "nothing moved");
    let repaired = faults::repair(Arc::new(disk.clone())).unwrap();
    assert!(repaired.report.is_clean(), "{:#?}", repaired.report);
    assert_eq!(repaired.given_up.unwrap().losses_total, 0);
    let steps = faults::steps(&disk);
    steps.handle().use_keys(OneKey::new(7));
    for key in keys {
        assert!(steps.get(&bucket, key) == content, "{key}");
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
