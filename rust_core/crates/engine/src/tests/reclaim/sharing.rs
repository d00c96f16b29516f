//! Identical content is stored once; what looks alike and is not stays apart.

use bytes::Bytes;

use super::super::steps::{CHUNK, Steps};
use super::super::support::noise;
use crate::commit::tokens::RequestTokens;
use crate::commit::view::CommitterView;
use orcas_catalog::{BucketTable, Overlay};
use orcas_checksum::Md5Hasher;
use orcas_decide::{
    Body, BucketChange, ChunkPlace, Failure, Intent, Outcome, Precondition, Refusal, SettingsChange, Sharing, View,
};
use orcas_record::{BucketSettings, Chunking, HASHED_PREFIX, Record, RefLevel, Sequence};

fn places(body: &Body) -> Vec<ChunkPlace> {
    match body {
        Body::Chunks(chunks) => chunks.iter().map(|chunk| chunk.place).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn content_is_stored_once_wherever_it_is_found() {
    let mut steps = Steps::new();
    let (one, two) = (steps.bucket("one"), steps.bucket("two"));
    for (length, seed) in [(257, 1), (5_000, 2), (65_536, 3), (CHUNK, 4), (CHUNK * 2 + 70_000, 5)] {
        let bytes = noise(length, seed);
        // In the batch that brings it.
        let batch = ["a", "b"].map(|key| steps.submit(steps.intent(&one, &format!("{key}{seed}"), &bytes)));
        steps.stepper().commit();
        batch.into_iter().for_each(|submitted| drop(submitted.answer().unwrap()));
        let first = steps.blobs(&one, &format!("a{seed}"));
        assert_eq!(steps.blobs(&one, &format!("b{seed}")), first);
        // In the overlay, in the index, and after a restart; in another bucket.
        assert_eq!(steps.put(&one, &format!("c{seed}"), &bytes), first);
        steps.apply();
        assert_eq!(steps.put(&two, &format!("d{seed}"), &bytes), first);
        steps.stepper().fill_prefix_hashes().unwrap();
        assert_eq!(steps.put(&two, &format!("e{seed}"), &bytes), first);
        steps.reopen();
        assert_eq!(steps.put(&one, &format!("f{seed}"), &bytes), first);
        for (bucket, key) in [(&one, "a"), (&one, "c"), (&two, "d"), (&two, "e"), (&one, "f")] {
            assert!(steps.get(bucket, &format!("{key}{seed}")) == bytes);
        }
    }
}

#[test]
fn a_chunk_that_the_store_has_is_not_written() {
    for level in [RefLevel::Full, RefLevel::Fast] {
        let mut steps = Steps::with_level(level);
        let bucket = steps.bucket("b");
        let bytes = noise(3 * CHUNK + 1_000, 1);
        let first = steps.put(&bucket, "a", &bytes);
        let packed = steps.packed();
        for loaded in [false, true] {
            if loaded {
                steps.stepper().fill_prefix_hashes().unwrap();
            }
            let body = steps.body(&bucket, &bytes);
            assert!(places(&body).iter().all(|place| matches!(place, ChunkPlace::Known { .. })), "{body:?}");
            let put = Steps::put_of(&bucket, "b", &bytes, body);
            steps.run(Intent::PutObject(Box::new(put))).unwrap();
            assert_eq!(steps.blobs(&bucket, "b"), first);
            steps.apply();
        }
        assert_eq!(steps.packed(), packed);
        assert!(steps.get(&bucket, "b") == bytes);
    }
}

#[test]
fn a_chunk_that_comes_twice_in_a_body_is_stored_once() {
    for (level, loaded) in
        [(RefLevel::Full, false), (RefLevel::Full, true), (RefLevel::Fast, false), (RefLevel::Fast, true)]
    {
        let mut steps = Steps::with_level(level);
        if loaded {
            steps.stepper().fill_prefix_hashes().unwrap();
        }
        let bucket = steps.bucket("b");
        let (x, y) = (noise(CHUNK, 1), noise(CHUNK, 2));
        let bytes = [&x[..], &x, &y, &x].concat();
        let blobs = steps.put(&bucket, "a", &bytes);
        assert!(blobs[0] != blobs[2]);
        assert_eq!(blobs, [blobs[0], blobs[0], blobs[2], blobs[0]]);
        assert!(steps.packed() < 3 * CHUNK as u64, "{} {level:?} {loaded}", steps.packed());
        assert!(steps.get(&bucket, "a") == bytes);
        steps.apply();
        steps.reopen();
        assert!(steps.get(&bucket, "a") == bytes);
    }
}

#[test]
fn without_sharing_content_is_stored_again_and_never_found() {
    let mut steps = Steps::with_level(RefLevel::Off);
    let off = steps.bucket("off");
    let full = BucketSettings { ref_level: Some(RefLevel::Full), ..BucketSettings::default() };
    let full = steps.bucket_of("full", "root", full);
    for (key, bytes) in [("small", noise(1_000, 1)), ("large", noise(CHUNK * 2, 2))] {
        let mut seen: Vec<Sequence> = Vec::new();
        for bucket in [&off, &off, &full] {
            let blobs = steps.put(bucket, key, &bytes);
            assert!(blobs.iter().all(|blob| !seen.contains(blob)));
            seen.extend(blobs);
            steps.apply();
        }
        // What was stored with sharing is not taken by who does without.
        assert!(!seen.contains(&steps.put(&off, "again", &bytes)[0]));
    }
}

#[test]
fn fast_looks_up_what_the_filter_knows_and_offers_the_rest() {
    let mut steps = Steps::with_level(RefLevel::Fast);
    let bucket = steps.bucket("b");
    let sharing = |steps: &Steps, bytes: &[u8]| match steps.body(&bucket, bytes) {
        Body::Content { sharing, .. } => vec![sharing],
        Body::Chunks(chunks) => chunks.iter().map(|chunk| chunk.sharing).collect(),
        Body::Inline(_) => Vec::new(),
    };
    for (key, length) in [("small", 3_000), ("large", CHUNK + HASHED_PREFIX + 5)] {
        let bytes = noise(length, length as u64);
        // Until the filter is there, everything may be known.
        steps.reopen();
        assert!(sharing(&steps, &bytes).iter().all(|sharing| *sharing == Sharing::Sought));
        steps.stepper().fill_prefix_hashes().unwrap();
        assert!(sharing(&steps, &bytes).iter().all(|sharing| *sharing == Sharing::Offered));
        let blobs = steps.put(&bucket, key, &bytes);
        assert!(sharing(&steps, &bytes).iter().all(|sharing| *sharing == Sharing::Sought));
        assert_eq!(steps.put(&bucket, "again", &bytes), blobs);
        steps.apply();
        assert_eq!(steps.put(&bucket, "again", &bytes), blobs);
    }
}

/// Two blocks with the same MD5 (Wang and others, 2004).
const COLLISION: [&str; 2] = [
    "d131dd02c5e6eec4693d9a0698aff95c2fcab58712467eab4004583eb8fb7f8955ad340609f4b30283e488832571415a085125e8f7cdc99f\
     d91dbdf280373c5bd8823e3156348f5bae6dacd436c919c6dd53e2b487da03fd02396306d248cda0e99f33420f577ee8ce54b67080a80d1e\
     c69821bcb6a8839396f9652b6ff72a70",
    "d131dd02c5e6eec4693d9a0698aff95c2fcab50712467eab4004583eb8fb7f8955ad340609f4b30283e4888325f1415a085125e8f7cdc99f\
     d91dbd7280373c5bd8823e3156348f5bae6dacd436c919c6dd53e23487da03fd02396306d248cda0e99f33420f577ee8ce54b67080280d1e\
     c69821bcb6a8839396f965ab6ff72a70",
];

#[test]
fn the_same_md5_is_not_the_same_content() {
    let block = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    };
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    for padding in [1_000, CHUNK] {
        let [one, two] = COLLISION.map(|hex| [block(hex), noise(padding, 1)].concat());
        assert!(one != two);
        assert_eq!(Md5Hasher::digest(&one), Md5Hasher::digest(&two));
        assert_ne!(steps.put(&bucket, "one", &one)[0], steps.put(&bucket, "two", &two)[0]);
        assert!(steps.get(&bucket, "one") == one && steps.get(&bucket, "two") == two);
    }
}

#[test]
fn owners_share_nothing() {
    let mut steps = Steps::new();
    let mine = steps.bucket("mine");
    let theirs = steps.bucket_of("theirs", "somebody", BucketSettings::default());
    for bytes in [noise(1_000, 1), noise(CHUNK, 2)] {
        let blobs = steps.put(&mine, "k", &bytes);
        steps.apply();
        assert_ne!(steps.put(&theirs, "k", &bytes), blobs);
        assert!(steps.get(&theirs, "k") == bytes);
    }
}

#[test]
fn a_hit_keeps_its_bytes_although_the_original_goes_at_the_same_moment() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    let bytes = noise(CHUNK, 1);
    let blob = steps.put(&bucket, "original", &bytes)[0];
    steps.apply();
    let fingerprint = steps.fingerprint(&bucket, &bytes);
    let body = steps.body(&bucket, &bytes);
    assert_eq!(places(&body), [ChunkPlace::Known { blob }]);
    steps.delete(&bucket, "original");
    steps.apply();
    assert!(!steps.shared().catalog.pins.condemn(fingerprint, blob), "a pinned blob was condemned");
    let put = Steps::put_of(&bucket, "copy", &bytes, body);
    steps.run(Intent::PutObject(Box::new(put))).unwrap();
    assert_eq!(steps.blobs(&bucket, "copy"), [blob]);
    assert_eq!(steps.refs(blob), Some(0));
    assert!(steps.shared().catalog.overlay.read().mentions(blob));
    steps.apply();
    assert!(!steps.shared().catalog.overlay.read().mentions(blob));
    assert_eq!(steps.refs(blob), Some(1));
    assert!(steps.get(&bucket, "copy") == bytes);
    // A body that is given up lets go.
    drop(steps.body(&bucket, &bytes));
    assert!(steps.shared().catalog.pins.condemn(fingerprint, blob));
}

#[test]
fn condemned_content_is_stored_anew() {
    for applied in [true, false] {
        let mut steps = Steps::new();
        let bucket = steps.bucket("b");
        for (bytes, in_overlay) in
            [(noise(1_000, 1), false), (noise(1_000, 2), true), (noise(CHUNK, 3), false), (noise(CHUNK, 4), true)]
        {
            let blob = steps.put(&bucket, "k", &bytes)[0];
            if applied {
                steps.apply();
            }
            if in_overlay {
                let record = Record::CondemnBlobs { blobs: vec![blob] };
                steps.shared().catalog.overlay.write().insert(Sequence::MAX, &record, &BucketTable::default());
            } else {
                assert!(steps.shared().catalog.pins.condemn(steps.fingerprint(&bucket, &bytes), blob));
            }
            let again = steps.put(&bucket, "k", &bytes)[0];
            assert_ne!(again, blob);
            assert_eq!(steps.put(&bucket, "more", &bytes), [again]);
            assert!(steps.get(&bucket, "k") == bytes);
        }
    }
}

#[test]
fn what_this_batch_condemns_is_not_found_in_it() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    let bytes = noise(1_000, 1);
    let blob = steps.put(&bucket, "k", &bytes)[0];
    let fingerprint = steps.fingerprint(&bucket, &bytes);
    for _ in 0..2 {
        let mut pending = Overlay::default();
        let shared = steps.shared();
        let buckets = shared.catalog.buckets.load();
        let found = |pending: &Overlay| {
            let tokens = &RequestTokens::default();
            let view = CommitterView { shared, pending, buckets: &buckets, tokens, updates: 0 };
            view.shared_blob(&fingerprint, 1_000, None).unwrap()
        };
        assert_eq!(found(&pending), Some(blob));
        pending.insert(blob + 1, &Record::CondemnBlobs { blobs: vec![blob] }, &BucketTable::default());
        assert_eq!(found(&pending), None);
        drop(buckets);
        steps.apply();
    }
}

#[test]
fn parallel_uploads_of_new_content_end_as_one_blob() {
    for (level, loaded) in [(RefLevel::Full, true), (RefLevel::Full, false), (RefLevel::Fast, false)] {
        let mut steps = Steps::with_level(level);
        let bucket = steps.bucket("b");
        if loaded {
            steps.stepper().fill_prefix_hashes().unwrap();
        }
        let bytes = noise(CHUNK * 2 + 10, 1);
        let bodies = [(), ()].map(|()| steps.body(&bucket, &bytes));
        assert!(bodies.iter().flat_map(places).all(|place| matches!(place, ChunkPlace::New { .. })));
        for (key, body) in ["one", "two"].into_iter().zip(bodies) {
            steps.run(Intent::PutObject(Box::new(Steps::put_of(&bucket, key, &bytes, body)))).unwrap();
        }
        assert_eq!(steps.blobs(&bucket, "one"), steps.blobs(&bucket, "two"));
        steps.apply();
        assert!(steps.get(&bucket, "one") == bytes && steps.get(&bucket, "two") == bytes);
    }
}

#[test]
fn content_that_was_written_before_it_became_known_is_found_when_it_is_complete() {
    let mut steps = Steps::new();
    steps.stepper().fill_prefix_hashes().unwrap();
    let bucket = steps.bucket("b");
    let bytes = noise(CHUNK, 1);
    let mut writer = steps.handle().content().body_writer(&bucket, &Default::default(), CHUNK as u64).unwrap();
    writer.write(&bytes[..CHUNK - 1], &mut ()).unwrap();
    let blobs = steps.put(&bucket, "other", &bytes);
    writer.write(&bytes[CHUNK - 1..], &mut ()).unwrap();
    let body = writer.finish().unwrap();
    assert_eq!(places(&body), [ChunkPlace::Known { blob: blobs[0] }]);
    steps.run(Intent::PutObject(Box::new(Steps::put_of(&bucket, "k", &bytes, body)))).unwrap();
    assert_eq!(steps.blobs(&bucket, "k"), blobs);
}

#[test]
fn content_defined_chunks_survive_an_insertion() {
    for level in [RefLevel::Full, RefLevel::Fast, RefLevel::Off] {
        let mut steps = Steps::with_level(level);
        let settings = BucketSettings { chunking: Some(Chunking::ContentDefined), ..BucketSettings::default() };
        let bucket = steps.bucket_of("b", "root", settings);
        let before = noise(16 << 20, 1);
        let after = [noise(1 << 20, 2), before.clone()].concat();
        let old = steps.put(&bucket, "before", &before);
        steps.apply();
        let packed = steps.packed();
        let new = steps.put(&bucket, "after", &after);
        let (fresh, kept): (Vec<Sequence>, Vec<Sequence>) = new.iter().partition(|blob| !old.contains(blob));
        if level == RefLevel::Off {
            assert!(kept.is_empty());
        } else {
            assert!(kept.len() > old.len() * 9 / 10, "{} of {} kept, {} new", kept.len(), old.len(), fresh.len());
            assert!(steps.packed() - packed < 2 << 20);
        }
        steps.apply();
        assert!(steps.get(&bucket, "before") == before && steps.get(&bucket, "after") == after);
        assert_eq!(steps.shared().content.held.taken(), 0);
    }
}

#[test]
fn a_refused_put_leaves_nothing_behind() {
    let mut stored = 0;
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    for (key, bytes) in [("small", noise(1_000, 1)), ("large", noise(CHUNK * 2, 2))] {
        let blobs = steps.put(&bucket, key, &bytes);
        steps.apply();
        for other in [bytes.clone(), noise(bytes.len(), 9)] {
            let mut put = Steps::put_of(&bucket, key, &other, steps.body(&bucket, &other));
            put.precondition = Precondition { if_none_match_any: true, ..Precondition::default() };
            let refused = steps.run(Intent::PutObject(Box::new(put)));
            assert!(matches!(refused, Err(Failure::Refused(Refusal::PreconditionFailed { .. }))));
        }
        steps.apply();
        assert_eq!(steps.blobs(&bucket, key), blobs);
        assert!(blobs.iter().all(|blob| steps.refs(*blob) == Some(1)));
        let totals = steps.shared().catalog.index.read().unwrap().totals().unwrap();
        stored += bytes.len() as u64;
        assert_eq!((totals.stored, totals.dead), (stored, 0));
        assert!(blobs.iter().all(|blob| !steps.shared().catalog.overlay.read().mentions(*blob)));
        assert!(steps.shared().catalog.pins.condemn(steps.fingerprint(&bucket, &bytes[..bytes.len().min(CHUNK)]), 0));
    }
}

#[test]
fn chunks_go_on_when_no_more_may_be_held() {
    let mut steps = Steps::new();
    let content_defined = BucketSettings { chunking: Some(Chunking::ContentDefined), ..BucketSettings::default() };
    for (name, settings) in [("fixed", BucketSettings::default()), ("cut", content_defined)] {
        let bucket = steps.bucket_of(name, "root", settings);
        let bytes = noise(CHUNK * 3 + 7, 1);
        let blobs = steps.put(&bucket, "before", &bytes);
        for left in [0, HASHED_PREFIX as u64] {
            let all = steps.shared().content.held.take((64 << 20) - left).unwrap();
            assert_eq!(steps.put(&bucket, "after", &bytes), blobs);
            drop(all);
        }
        assert_eq!(steps.shared().content.held.taken(), 0);
        assert!(steps.shared().content.held.take(64 << 20).is_some());
    }
}

#[test]
fn the_filter_grows_and_forgets_nothing() {
    let mut steps = Steps::with_level(RefLevel::Fast);
    let bucket = steps.bucket("b");
    let bodies: Vec<Vec<u8>> = (0..400).map(|seed| noise(300, seed)).collect();
    let mut blobs = Vec::new();
    for (at, bytes) in bodies.iter().enumerate() {
        match at {
            100 | 250 | 300 => steps.stepper().fill_prefix_hashes().unwrap(),
            150 | 251 => steps.apply(),
            _ => {}
        }
        blobs.push(steps.put(&bucket, &at.to_string(), bytes));
    }
    let known = |steps: &Steps, seed: u64| {
        let fingerprint = steps.fingerprint(&bucket, &noise(300, seed));
        steps.shared().catalog.prefix_hashes.maybe_known(orcas_record::short_hash(&fingerprint.0))
    };
    for round in 0..3 {
        assert!((0..400).all(|seed| known(&steps, seed)), "{round}");
        assert!((400..1_400).filter(|seed| known(&steps, *seed)).count() < 100, "{round}");
        steps.stepper().fill_prefix_hashes().unwrap();
        if round == 1 {
            steps.reopen();
            steps.stepper().fill_prefix_hashes().unwrap();
        }
    }
    for (bytes, blob) in bodies.iter().zip(&blobs) {
        assert_eq!(steps.put(&bucket, "again", bytes), *blob);
    }
}

#[test]
fn a_bucket_can_change_what_it_shares() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    let bytes = noise(1_000, 1);
    let blob = steps.put(&bucket, "a", &bytes);
    let change = SettingsChange { ref_level: Some(Some(RefLevel::Off)), ..SettingsChange::default() };
    let update = Intent::UpdateBucket { bucket: bucket.id, change: BucketChange::Settings(change) };
    let Ok(Outcome::Bucket(updated)) = steps.run(update.clone()) else { panic!("not updated") };
    assert_eq!((updated.id, &updated.name, updated.created_ms), (bucket.id, &bucket.name, bucket.created_ms));
    for _ in 0..2 {
        let bucket = steps.handle().bucket(b"b").unwrap();
        assert_eq!(bucket.settings, change.applied_to(BucketSettings::default()));
        assert_ne!(steps.put(&bucket, "b", &bytes), blob);
        steps.apply();
        steps.reopen();
    }
    steps.delete(&bucket, "a");
    steps.delete(&bucket, "b");
    steps.run(Intent::DeleteBucket { bucket: bucket.id }).unwrap();
    assert!(matches!(steps.run(update), Err(Failure::Refused(Refusal::NoSuchBucket))));
}

#[test]
fn a_body_of_another_length_than_announced_is_no_body() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    let bytes = noise(CHUNK * 2, 1);
    let mut writer =
        steps.handle().content().body_writer(&bucket, &Default::default(), bytes.len() as u64 - 1).unwrap();
    assert!(writer.write(&bytes, &mut ()).is_err());
    let mut writer =
        steps.handle().content().body_writer(&bucket, &Default::default(), bytes.len() as u64 + 1).unwrap();
    writer.write(&bytes, &mut ()).unwrap();
    assert!(writer.finish().is_err());
    let empty = steps.handle().content().body_writer(&bucket, &Default::default(), 0).unwrap().finish().unwrap();
    assert!(places(&empty).is_empty());
    let put = Steps::put_of(&bucket, "empty", &[], empty);
    steps.run(Intent::PutObject(Box::new(put))).unwrap();
    assert_eq!(steps.get(&bucket, "empty"), Bytes::new());
}

/// A content and a chunk with the same bytes are one blob, also where the content is longer than what a prefix hash covers.
#[test]
fn contents_and_chunks_share() {
    for loaded in [false, true] {
        let mut steps = Steps::new();
        let bucket = steps.bucket("b");
        if loaded {
            steps.stepper().fill_prefix_hashes().unwrap();
        }
        for (length, seed) in [(5_000, 1), (HASHED_PREFIX, 2), (HASHED_PREFIX + 1, 3), (CHUNK, 4)] {
            for small_first in [true, false] {
                let bytes = noise(length, seed * 2 + u64::from(small_first));
                for small in [small_first, !small_first] {
                    let body = match small {
                        true => steps.handle().content().small_body(&bucket, bytes.clone().into()),
                        false => steps.large_body(&bucket, &bytes),
                    };
                    let key = if small { "small" } else { "large" };
                    let put = Steps::put_of(&bucket, key, &bytes, body);
                    steps.run(Intent::PutObject(Box::new(put))).unwrap();
                    steps.apply();
                }
                assert_eq!(steps.blobs(&bucket, "small"), steps.blobs(&bucket, "large"), "{length} {small_first}");
                assert!(steps.get(&bucket, "small") == bytes && steps.get(&bucket, "large") == bytes);
            }
        }
    }
}

#[test]
fn many_writers_of_few_contents_read_what_they_wrote() {
    for level in [RefLevel::Full, RefLevel::Fast] {
        let store = super::super::support::Store::with(|options| {
            options.chunk_size = CHUNK as u32;
            options.ref_level = level;
        });
        let bucket = store.bucket("b");
        let contents: Vec<Vec<u8>> =
            [1_000, 40_000, CHUNK, CHUNK * 2 + 100].iter().map(|&length| noise(length, length as u64)).collect();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let (store, bucket, contents) = (&store, &bucket, &contents);
                scope.spawn(move || {
                    for round in 0..40 {
                        let (key, content) = (format!("{writer}"), &contents[(round * 3 + writer) % contents.len()]);
                        store.put(bucket, &key, content).unwrap();
                        assert!(store.get(bucket, &key).unwrap().as_ref() == Some(content));
                        if round % 3 == 0 {
                            store.delete(bucket, &key).unwrap();
                        }
                    }
                });
            }
        });
    }
}
