//! Sealed content in checks and repairs: it stays sealed, and no blob is taken for another.

use std::path::PathBuf;
use std::sync::Arc;

use super::super::super::{Repaired, repair_store};
use super::super::sealing::{OneKey, managed};
use super::super::steps::Steps;
use super::super::support::{Store, environment, noise};
use super::faults;
use super::fixture::{CHUNK, check, file_system, files, flip, open_index};
use super::{kinds, lost_keys};
use orcas_base::block::BLOCK_SIZE;
use orcas_decide::{Body, ChunkPlace, Intent, PutObject, Sharing};
use orcas_fs_testing::SimDisk;
use orcas_fsck::{AuthTagCounts, CheckOptions, CheckProgress, CheckReport, FindingKind, check_store};
use orcas_index::BlobEntry;
use orcas_record::{Attributes, Bucket, Encryption, NamedKey, ObjectHeaders, Record, Seal, SealedHeaders};
use orcas_seal::AUTH_TAG_LENGTH;
use orcas_store::{ContentKeys, Sealing};

fn store() -> Store {
    let store = Store::with(|options| options.chunk_size = CHUNK);
    store.handle().keys().set(OneKey::new(7));
    store
}

fn reopen_closed(store: &mut Store) {
    store.close();
    reopen(store);
}

fn reopen(store: &mut Store) {
    store.open();
    store.handle().keys().set(OneKey::new(7));
}

fn sealed_body(store: &Store, bucket: &Bucket, bytes: &[u8]) -> Body {
    body_under(store, bucket, &managed(), bytes)
}

fn body_under(store: &Store, bucket: &Bucket, sealing: &Sealing, bytes: &[u8]) -> Body {
    let mut writer = store.handle().content().body_writer(bucket, sealing, bytes.len() as u64).unwrap();
    writer.write(bytes, &mut ()).unwrap();
    writer.finish().unwrap()
}

fn put_encrypted(store: &Store, bucket: &Bucket, key: &str, content: (&[u8], Body)) {
    put_as(store, bucket, (key, Encryption::Managed), content);
}

fn put_as(store: &Store, bucket: &Bucket, (key, encryption): (&str, Encryption), (bytes, body): (&[u8], Body)) {
    let mut put = PutObject { body, ..store.small_put(bucket, key, bytes) };
    put.attributes.encryption = Some(encryption);
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
    steps.handle().keys().set(OneKey::new(7));
    let (bucket, content) = (steps.bucket("b"), noise(200_000, 1));
    let keys = ["one", "two"];
    let put = |steps: &mut Steps, key: &str, bytes: &[u8]| {
        let mut writer = steps.handle().content().body_writer(&bucket, &managed(), bytes.len() as u64).unwrap();
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
    steps.handle().keys().set(OneKey::new(7));
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
        let read = store.handle().content().reader(&found, 0, 9).read(&mut [0; 10]);
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

const OPTIONS: CheckOptions = CheckOptions { read_content: true, threads: 2, bytes_per_sec: 0 };

fn check_with_keys(store: &Store, keys: &dyn ContentKeys) -> CheckReport {
    check_store(&file_system(), store.path(), &OPTIONS, Some(keys), &CheckProgress::default()).unwrap()
}

fn bound_to(context: &'static [u8]) -> Encryption {
    Encryption::Named(Arc::new(NamedKey { id: [0; 16], context: context.into(), bucket_key: false }))
}

/// A sealed content whose stored bytes somebody changed before they got their checksums.
fn put_changed(store: &Store, bucket: &Bucket, key: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let content = noise(3 * BLOCK_SIZE, 9);
    let sealed = store.handle().content().sealed_body(bucket, &managed(), &content).unwrap();
    let Body::Content { fingerprint, bytes, .. } = sealed else { panic!("{sealed:?}") };
    let mut stored = bytes.to_vec();
    change(&mut stored);
    let length = stored.len() as u32;
    let seal = Seal::at_end_of(&stored);
    let body = Body::Content { fingerprint, sharing: Sharing::Off, bytes: stored.into(), seal };
    // What was cut is cut everywhere.
    let length = Seal::content_length(length).unwrap() as usize;
    put_encrypted(store, bucket, key, (&content[..length], body));
}

/// What is whole and sealed: contents of the log, chunks and segments, with and without a context, and for a customer.
fn put_whole(store: &Store, bucket: &Bucket) -> AuthTagCounts {
    let mut count = 0;
    for (n, length) in [10, 1_000, 65_536, 200_000].into_iter().enumerate() {
        for encryption in [Encryption::Managed, bound_to(b"{}"), bound_to(b"{\"a\":\"b\"}")] {
            let (content, sealing) = (noise(length, n as u64), Some(encryption.clone()).into());
            let small = length <= 1_000;
            let body = match small {
                true => store.handle().content().sealed_body(bucket, &sealing, &content).unwrap(),
                false => body_under(store, bucket, &sealing, &content),
            };
            put_as(store, bucket, (&format!("{n}-{}", count), encryption), (&content, body));
            count += if small { 1 } else { length.div_ceil(CHUNK as usize) as u64 };
        }
    }
    // More chunks than a manifest holds.
    let (content, sealing) = (noise(40 * CHUNK as usize, 50), Some(bound_to(b"{}")).into());
    let body = body_under(store, bucket, &sealing, &content);
    put_as(store, bucket, ("segments", bound_to(b"{}")), (&content, body));
    let key = store.handle().keys().request_key(&[5; 32]).unwrap();
    let encryption = store.handle().keys().encryption_with(&key).unwrap();
    let sealing = Sealing { encryption: Some(encryption.clone()), key: Some(key) };
    let body = store.handle().content().sealed_body(bucket, &sealing, &noise(1_000, 60)).unwrap();
    put_as(store, bucket, ("customers", encryption), (&noise(1_000, 60), body));
    AuthTagCounts { verified: count + 40, of_customers: 1, without_key: 0 }
}

#[test]
fn with_the_keys_every_tag_of_what_is_sealed_is_verified() {
    let mut store = store();
    let bucket = store.bucket("bkt");
    let expected = put_whole(&store, &bucket);
    store.put(&bucket, "plain", &noise(100_000, 70)).unwrap();
    // So that its index has everything.
    reopen_closed(&mut store);
    let running = store.handle().check(&OPTIONS, &CheckProgress::default()).unwrap();
    store.close();
    for report in [running, check_with_keys(&store, &*OneKey::new(7))] {
        assert!(report.is_clean(), "{report:#?}");
        assert_eq!(report.tags, expected);
    }
    let without = AuthTagCounts { verified: 0, without_key: expected.verified, ..expected };
    for report in [check(store.path()), check_with_keys(&store, &*OneKey::new(8))] {
        assert!(report.is_clean(), "{report:#?}");
        assert_eq!(report.tags, without);
    }
    let unread = CheckOptions { read_content: false, ..OPTIONS };
    let report = check_store(&file_system(), store.path(), &unread, Some(&*OneKey::new(7)), &CheckProgress::default());
    assert_eq!(report.unwrap().tags, AuthTagCounts::default());
}

#[test]
fn sealed_metadata_that_was_changed_under_its_checksums_is_damage() {
    let mut store = store();
    let bucket = store.bucket("bkt");
    let put = |key: &str, encryption: Encryption, change: &dyn Fn(&mut SealedHeaders)| {
        let sealing: Sealing = Some(encryption.clone()).into();
        let headers = ObjectHeaders { content_type: Some("a/b".into()), ..ObjectHeaders::default() };
        let mut headers = store.handle().content().sealed_headers(&bucket, &sealing, headers).unwrap();
        change(headers.sealed.as_mut().unwrap());
        let content = noise(1_000, 1);
        let body = store.handle().content().sealed_body(&bucket, &sealing, &content).unwrap();
        let mut put = PutObject { headers, body, ..store.small_put(&bucket, key, &content) };
        put.attributes.encryption = Some(encryption);
        store.handle().execute(Intent::PutObject(Box::new(put))).unwrap();
    };
    put("whole", Encryption::Managed, &|_| {});
    put("in-context", bound_to(b"{\"a\":\"b\"}"), &|_| {});
    put("flipped", Encryption::Managed, &|sealed| {
        let mut bytes = sealed.bytes.to_vec();
        bytes[0] ^= 1;
        sealed.bytes = bytes.into();
    });
    put("cut", bound_to(b"{}"), &|sealed| sealed.bytes.truncate(3));
    put("algorithm", Encryption::Managed, &|sealed| sealed.seal.algorithm = 9);
    reopen_closed(&mut store);
    let running = store.handle().check(&OPTIONS, &CheckProgress::default()).unwrap();
    store.close();
    for report in [check(store.path()), check_with_keys(&store, &*OneKey::new(8))] {
        assert!(report.is_clean(), "only the tags tell: {report:#?}");
        // The metadata of five, and three contents: three of the five share one.
        assert_eq!(report.tags, AuthTagCounts { without_key: 8, ..AuthTagCounts::default() });
    }
    for report in [running, check_with_keys(&store, &*OneKey::new(7))] {
        assert_eq!(kinds(&report), [FindingKind::Blob].into());
        assert_eq!(report.tags, AuthTagCounts { verified: 5, ..AuthTagCounts::default() });
        assert_eq!(lost_keys(&report), ["flipped", "cut", "algorithm"].map(|key| format!("bkt/{key}")).into());
    }
}

/// A record of an upload whose sealed metadata somebody changed before it got its checksums.
fn create_upload(
    store: &Store,
    bucket: &Bucket,
    key: &str,
    sealing: &Sealing,
    change: impl FnOnce(&mut SealedHeaders),
) {
    let headers = ObjectHeaders { content_type: Some("a/b".into()), ..ObjectHeaders::default() };
    let mut headers = store.handle().content().sealed_headers(bucket, sealing, headers).unwrap();
    change(headers.sealed.as_mut().unwrap());
    let attributes = Attributes { encryption: sealing.encryption.clone(), ..Attributes::default() };
    let create = Intent::CreateUpload {
        bucket: bucket.id,
        key: key.to_owned().into(),
        headers: headers.into(),
        attributes,
        checksum: None,
    };
    store.handle().execute(create).unwrap();
}

#[test]
fn sealed_metadata_of_incomplete_uploads_is_verified() {
    let mut store = store();
    let bucket = store.bucket("bkt");
    let (managed, in_context) = (managed(), Sealing::from(Some(bound_to(b"{\"a\":\"b\"}"))));
    let flip_a_bit = |sealed: &mut SealedHeaders| {
        let mut bytes = sealed.bytes.to_vec();
        bytes[0] ^= 1;
        sealed.bytes = bytes.into();
    };
    create_upload(&store, &bucket, "whole", &managed, |_| {});
    create_upload(&store, &bucket, "in-context", &in_context, |_| {});
    // Two of one key, of which one is damaged.
    create_upload(&store, &bucket, "whole", &in_context, flip_a_bit);
    create_upload(&store, &bucket, "flipped", &managed, flip_a_bit);
    let key = store.handle().keys().request_key(&[5; 32]).unwrap();
    let encryption = Some(store.handle().keys().encryption_with(&key).unwrap());
    let customers = Sealing { encryption, key: Some(key) };
    // Nobody but the customer can tell them apart.
    create_upload(&store, &bucket, "customers", &customers, |_| {});
    create_upload(&store, &bucket, "customers", &customers, flip_a_bit);
    reopen_closed(&mut store);
    let running = store.handle().check(&OPTIONS, &CheckProgress::default()).unwrap();
    store.close();
    for report in [check(store.path()), check_with_keys(&store, &*OneKey::new(8))] {
        assert!(report.is_clean(), "only the tags tell: {report:#?}");
        assert_eq!(report.tags, AuthTagCounts { verified: 0, of_customers: 2, without_key: 4 });
    }
    for report in [running, check_with_keys(&store, &*OneKey::new(7))] {
        assert_eq!(kinds(&report), [FindingKind::Blob].into());
        assert_eq!((report.findings_total, report.losses_total), (2, 2), "{report:#?}");
        assert_eq!(lost_keys(&report), ["flipped", "whole"].map(|key| format!("bkt/{key}#")).into());
        assert!(
            report.losses.iter().all(
                |loss| loss.upload.is_some() && loss.reason == "its metadata does not match its authentication tag"
            )
        );
        assert_eq!(report.tags, AuthTagCounts { verified: 2, of_customers: 2, without_key: 0 });
    }
}

#[test]
fn sealed_content_that_was_changed_under_its_checksums_is_damage() {
    let mut store = store();
    let bucket = store.bucket("bkt");
    let whole = put_whole(&store, &bucket);
    put_changed(&store, &bucket, "flipped", |stored| stored[BLOCK_SIZE] ^= 1);
    put_changed(&store, &bucket, "flipped-tag", |stored| stored[3 * BLOCK_SIZE] ^= 1);
    put_changed(&store, &bucket, "swapped", |stored| {
        let (first, second) = stored.split_at_mut(BLOCK_SIZE);
        first.swap_with_slice(&mut second[..BLOCK_SIZE]);
    });
    put_changed(&store, &bucket, "cut", |stored| {
        stored.drain(3 * BLOCK_SIZE..3 * BLOCK_SIZE + AUTH_TAG_LENGTH);
        stored.drain(..BLOCK_SIZE);
    });
    put_changed(&store, &bucket, "algorithm", |stored| *stored.last_mut().unwrap() = 9);
    // Chunks that open with a context only, of an object that has none, and of one that has another.
    let content = noise(100_000, 80);
    for (key, encryption) in [("no-context", Encryption::Managed), ("other-context", bound_to(b"{\"c\":\"d\"}"))] {
        let body = body_under(&store, &bucket, &Some(bound_to(b"{\"e\":\"f\"}")).into(), &content);
        put_as(&store, &bucket, (key, encryption), (&content, body));
    }
    let damaged = ["flipped", "flipped-tag", "swapped", "cut", "algorithm", "no-context", "other-context"];
    // What nothing refers to is no damage.
    put_changed(&store, &bucket, "deleted", |stored| stored[0] ^= 1);
    store.delete(&bucket, "deleted").unwrap();
    // So that its index has everything.
    reopen_closed(&mut store);
    let running = store.handle().check(&OPTIONS, &CheckProgress::default()).unwrap();
    store.close();
    let unopened = check(store.path());
    assert!(unopened.is_clean(), "only the tags tell: {unopened:#?}");
    for report in [running, check_with_keys(&store, &*OneKey::new(7))] {
        assert_eq!(kinds(&report), [FindingKind::Blob].into());
        assert_eq!(lost_keys(&report), damaged.map(|key| format!("bkt/{key}")).into());
        assert!(report.losses.iter().all(|loss| loss.reason == "sealed content does not match its authentication tag"));
        assert_eq!(report.tags, whole);
    }
}
