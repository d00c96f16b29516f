//! What crosses from object to object: copies between owners and instant uploads.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::super::super::{CopyPartRequest, CopyRequest};
use super::super::steps::Steps;
use super::super::support::{Store, noise};
use orcas_checksum::{ChecksumAlgorithm, Etag, Hasher, Md5Hasher};
use orcas_decide::{
    BucketChange, Copy, EtagMatch, Failure, Intent, Outcome, Precondition, Refusal, SettingsChange, SourceConditions,
};
use orcas_record::{Bucket, BucketSettings, Cause, Extent, INSTANT_SIZE_MIN, ObjectHeaders, RefLevel};

fn blobs(store: &Store, bucket: &Bucket, key: &'static str) -> Vec<Extent> {
    let found = store.handle().object(bucket.id, &Bytes::from_static(key.as_bytes())).unwrap().unwrap();
    found.object.version.manifest.clone()
}

pub fn copy(from: &Bucket, source: &'static str, to: &Bucket) -> CopyRequest {
    CopyRequest {
        copy: Copy {
            source: (from.id, source.into(), None),
            source_conditions: SourceConditions::default(),
            bucket: to.id,
            key: "copy".into(),
            modified_ms: None,
            precondition: Precondition::default(),
            headers: Default::default(),
            attributes: Default::default(),
            checksum: None,
        },
        algorithm: None,
        keys: Default::default(),
        cause: Cause::Engine,
    }
}

#[test]
fn a_copy_into_another_owners_bucket_is_a_new_body() {
    let mut store = Store::with(|options| options.chunk_size = 200_000);
    let mine = store.bucket("mine");
    let theirs = store.bucket_of("theirs", "somebody");
    for (key, length) in [("empty", 0), ("inline", 100), ("small", 5_000), ("large", 700_000)] {
        let bytes = noise(length, 1);
        let mut put = store.small_put(&mine, key, &bytes);
        put.headers = ObjectHeaders { content_type: Some("text/css".into()), ..ObjectHeaders::default() };
        put.sha256 = Some(Sha256::digest(&bytes).into());
        put.checksum = Some(Hasher::digest(ChecksumAlgorithm::Crc32, &bytes));
        store.handle().execute(Intent::PutObject(Box::new(put.clone()))).unwrap();
        let Ok(Outcome::Put(answer)) = crate::run_copy(store.handle().copy_object(&copy(&mine, key, &theirs))) else {
            panic!("not copied");
        };
        assert_eq!(answer.etag, Etag::simple(put.md5));
        assert!(store.get(&theirs, "copy").unwrap().unwrap() == bytes);
        let found = store.handle().object(theirs.id, &"copy".into()).unwrap().unwrap().object;
        assert_eq!((&found.version.headers, found.version.sha256), (&put.headers, put.sha256));
        assert_eq!(found.version.checksum.map(|whole| whole.checksum), put.checksum);
        if length > 256 {
            let (original, copied) = (blobs(&store, &mine, key), blobs(&store, &theirs, "copy"));
            assert!(copied.iter().all(|extent| !original.contains(extent)), "{copied:?}");
        }
    }
    // Within the scope of one owner nothing is stored again.
    crate::run_copy(store.handle().copy_object(&copy(&mine, "large", &mine))).unwrap();
    assert_eq!(blobs(&store, &mine, "copy"), blobs(&store, &mine, "large"));
    store.reopen();
    assert!(store.get(&theirs, "copy").unwrap().unwrap() == noise(700_000, 1));
}

#[test]
fn a_copy_between_owners_keeps_the_rules_of_a_copy() {
    let store = Store::new();
    let mine = store.bucket("mine");
    let theirs = store.bucket_of("theirs", "somebody");
    store.put(&mine, "k", &noise(1_000, 1)).unwrap();
    let attempt = |change: &dyn Fn(&mut CopyRequest)| {
        let mut request = copy(&mine, "k", &theirs);
        change(&mut request);
        match crate::run_copy(store.handle().copy_object(&request)) {
            Err(Failure::Refused(refusal)) => Some(refusal),
            Ok(_) => None,
            other => panic!("{other:?}"),
        }
    };
    let other = || Some(EtagMatch::List(vec![Etag::simple([9; 16])]));
    assert_eq!(attempt(&|request| request.copy.source.1 = "absent".into()), Some(Refusal::NoSuchKey));
    let failed = |condition| Some(Refusal::PreconditionFailed { condition });
    assert_eq!(
        attempt(&|request| request.copy.source_conditions.if_match = other()),
        failed("x-amz-copy-source-If-Match")
    );
    assert_eq!(store.get(&theirs, "copy").unwrap(), None);
    let absent = Precondition { if_none_match_any: true, ..Precondition::default() };
    assert_eq!(attempt(&|request| request.copy.precondition = absent.clone()), None);
    assert_eq!(attempt(&|request| request.copy.precondition = absent.clone()), failed("If-None-Match"));
}

#[test]
fn a_part_copied_from_another_owner_is_a_new_body() {
    let store = Store::with(|options| options.chunk_size = 1 << 20);
    let mine = store.bucket("mine");
    let theirs = store.bucket_of("theirs", "somebody");
    let bytes = noise(7 << 20, 1);
    store.put(&mine, "source", &bytes).unwrap();
    let upload = store.create_upload(&theirs, "copy");
    let part = |number, range| {
        let request = CopyPartRequest {
            source: (mine.id, "source".into(), None),
            source_conditions: SourceConditions::default(),
            range,
            bucket: theirs.id,
            key: "copy".into(),
            upload,
            number,
            keys: Default::default(),
        };
        match crate::run_copy(store.handle().copy_part(&request)) {
            Ok(Outcome::Part(put)) => (number, put.etag.md5),
            other => panic!("{other:?}"),
        }
    };
    let parts = [part(1, None), part(2, Some((1_000, 2_999)))];
    assert_eq!(parts[1].1, Md5Hasher::digest(&bytes[1_000..3_000]));
    store.complete(&theirs, "copy", upload, &parts).unwrap();
    assert!(store.get(&theirs, "copy").unwrap().unwrap() == [&bytes[..], &bytes[1_000..3_000]].concat());
    let original = blobs(&store, &mine, "source");
    assert!(blobs(&store, &theirs, "copy").iter().all(|extent| !original.contains(extent)));
}

#[test]
fn an_instant_source_is_a_current_object_of_its_owner() {
    let mut steps = Steps::new();
    let mine = steps.bucket("mine");
    let theirs = steps.bucket_of("theirs", "somebody", BucketSettings::default());
    let bytes = noise(INSTANT_SIZE_MIN as usize, 1);
    let sha256: [u8; 32] = Sha256::digest(&bytes).into();
    let size = INSTANT_SIZE_MIN;
    let put = |steps: &mut Steps, bucket: &Bucket, key: &str, bytes: &[u8]| {
        let mut put = Steps::put_of(bucket, key, bytes, steps.body(bucket, bytes));
        put.sha256 = Some(Sha256::digest(bytes).into());
        steps.run(Intent::PutObject(Box::new(put))).unwrap();
    };
    let find = |steps: &Steps, owner: &'static str, size| {
        let found = steps.handle().instant_source(&owner.into(), &sha256, size).unwrap();
        found.map(|found| String::from_utf8(found.object.version.key.to_vec()).unwrap())
    };
    for applied in [false, true] {
        let apply = |steps: &mut Steps| {
            if applied {
                steps.apply();
            }
        };
        assert_eq!(find(&steps, "root", size), None);
        // Too small to be found, although its digest is kept.
        put(&mut steps, &mine, "short", &bytes[1..]);
        put(&mut steps, &mine, "a", &bytes);
        apply(&mut steps);
        assert_eq!(find(&steps, "root", size).as_deref(), Some("a"));
        assert_eq!(find(&steps, "root", size + 1), None);
        assert_eq!(find(&steps, "somebody", size), None);
        let short = Sha256::digest(&bytes[1..]).into();
        assert!(steps.handle().instant_source(&"root".into(), &short, size - 1).unwrap().is_none());
        for (ref_level, found) in [(Some(RefLevel::Off), None), (None, Some("a"))] {
            let change = SettingsChange { ref_level: Some(ref_level), ..SettingsChange::default() };
            steps.run(Intent::UpdateBucket { bucket: mine.id, change: BucketChange::Settings(change) }).unwrap();
            assert_eq!(find(&steps, "root", size).as_deref(), found);
        }
        // Replaced by something else, it is found no more, but under its copy.
        put(&mut steps, &mine, "b", &bytes);
        apply(&mut steps);
        put(&mut steps, &mine, "b", &noise(70_000, 2));
        if applied {
            apply(&mut steps);
            assert_eq!(find(&steps, "root", size).as_deref(), Some("a"));
        }
        put(&mut steps, &theirs, "c", &bytes);
        apply(&mut steps);
        assert_eq!(find(&steps, "somebody", size).as_deref(), Some("c"));
        for (bucket, key) in [(&mine, "a"), (&mine, "b"), (&theirs, "c")] {
            steps.delete(bucket, key);
        }
        apply(&mut steps);
        assert_eq!(find(&steps, "root", size), None);
        assert_eq!(find(&steps, "somebody", size), None);
        steps.apply();
    }
}
