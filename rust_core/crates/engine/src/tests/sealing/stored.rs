//! Sealing what is stored: versions stay what clients see, and what was unsealed leaves the disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;

use super::super::super::{CopyRequest, Effort, Handle, Left, SealProgress, SealReport};
use super::super::sealing::OneKey;
use super::super::support::{Store, noise};
use orcas_base::error::Error;
use orcas_catalog::ListVersions;
use orcas_checksum::Md5Hasher;
use orcas_decide::{
    Annotate, AnnotationChange, AttributeChange, BucketChange, Copy, CopyAttributes, CopyHeaders, Intent, Precondition,
    SourceConditions, UpdateVersion,
};
use orcas_record::{Bucket, BucketId, Cause, Encryption, Version, VersionId, Versioning};

pub(super) fn key(name: &str) -> Bytes {
    Bytes::copy_from_slice(name.as_bytes())
}

/// Whether a file of the store has these bytes.
pub fn has(dir: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => has(&path, bytes),
            false => memchr::memmem::find(&std::fs::read(&path).unwrap(), bytes).is_some(),
        }
    })
}

/// A piece of a content that no other content has.
pub(super) fn pieces(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    [0, content.len() / 2, content.len().saturating_sub(20)]
        .into_iter()
        .map(|at| &content[at..content.len().min(at + 20)])
}

/// A version as clients see it, newest first within its key.
pub(super) type Seen = (Bytes, VersionId, Version, Vec<u8>);

impl Store {
    pub(super) fn seal_stored(&self) -> SealReport {
        self.handle().seal_stored(&SealProgress::default()).unwrap()
    }

    pub(super) fn versioned(&self, name: &str) -> Arc<Bucket> {
        let bucket = self.bucket(name);
        let change = BucketChange::Versioning(Versioning::Enabled);
        self.handle().execute(Intent::UpdateBucket { bucket: bucket.id, change }).unwrap();
        self.handle().bucket(name.as_bytes()).unwrap()
    }

    fn note(&self, bucket: &Bucket, of: &str, name: &str, text: &[u8]) {
        let body = self.handle().content().small_body(bucket, Bytes::copy_from_slice(text));
        let md5 = Md5Hasher::digest(text);
        let change = AnnotationChange::Put { md5, checksum: None, encryption: None, body: Box::new(body) };
        let annotate =
            Annotate { bucket: bucket.id, key: key(of), version: None, name: key(name), if_match: None, change };
        self.handle().execute(Intent::Annotate(Box::new(annotate))).unwrap();
    }

    fn tag(&self, bucket: &Bucket, of: &str, tag: &'static str) {
        let change = AttributeChange::Tags(vec![(Bytes::from_static(b"tag"), Bytes::from_static(tag.as_bytes()))]);
        let update = UpdateVersion { bucket: bucket.id, key: key(of), version: None, change };
        self.handle().execute(Intent::UpdateVersion(Box::new(update))).unwrap();
    }

    fn copy_within(&self, bucket: &Bucket, from: &str, to: &str) {
        let copy = Copy {
            source: (bucket.id, key(from), None),
            source_conditions: SourceConditions::default(),
            bucket: bucket.id,
            key: key(to),
            modified_ms: None,
            precondition: Precondition::default(),
            headers: CopyHeaders::default(),
            attributes: CopyAttributes::default(),
            checksum: None,
        };
        let request = CopyRequest { copy, algorithm: None, keys: Default::default(), cause: Cause::Engine };
        crate::run_copy(self.handle().copy_object(&request)).unwrap();
    }

    pub(super) fn seen(&self, bucket: BucketId) -> Vec<Seen> {
        seen(&self.handle(), bucket)
    }
}

/// All versions that a bucket shows, with their content and the texts of their annotations.
pub(super) fn seen(handle: &Handle, bucket: BucketId) -> Vec<Seen> {
    #[derive(Default)]
    struct Names(Vec<(Bytes, VersionId)>);
    impl orcas_catalog::VersionSink for Names {
        fn version(&mut self, version: &orcas_catalog::ListedVersion<'_>) {
            self.0.push((Bytes::copy_from_slice(version.key), version.id));
        }
        fn prefix(&mut self, _: &[u8]) {}
        fn restart(&mut self) {
            self.0.clear();
        }
    }
    let list = ListVersions { bucket, prefix: Bytes::new(), delimiter: None, after: None, max_keys: 1_000 };
    let mut names = Names::default();
    let of = handle.buckets().into_iter().find(|found| found.id == bucket).unwrap();
    handle.list_versions_in(&of, &list, &mut names).unwrap();
    let read = |found: &orcas_catalog::PinnedObject| {
        let size = found.object.version.size;
        let (mut reader, mut out) = (handle.content().reader(found, 0, size.saturating_sub(1)), vec![0; size as usize]);
        let mut at = 0;
        while at < out.len() {
            at += reader.read(&mut out[at..]).unwrap();
        }
        out
    };
    let with_content = |(key, id): (Bytes, VersionId)| {
        let found = handle.version_in(&of, &key, id).unwrap().unwrap();
        let mut content = read(&found);
        for note in found.object.version.attributes.annotations.as_slice() {
            content.extend(read(&found.annotation(&note.name).unwrap()));
        }
        (key, id, found.object.version.clone(), content)
    };
    names.0.into_iter().map(with_content).collect()
}

/// Without what sealing changes.
pub(super) fn shown(seen: Vec<Seen>) -> Vec<Seen> {
    let of = |(key, id, version, content): Seen| {
        let mut attributes = version.attributes;
        attributes.encryption = None;
        let notes = attributes.annotations.as_slice().to_vec();
        let text = |size| orcas_record::Extent::Inline(Bytes::from(vec![0; size as usize]));
        let notes = notes.into_iter().map(|note| orcas_record::Annotation { text: text(note.size()), ..note });
        attributes.annotations = orcas_record::Annotations::from_sorted(notes.collect()).unwrap();
        (key, id, Version { attributes, manifest: Vec::new(), ..version }, content)
    };
    seen.into_iter().map(of).collect()
}

pub(super) fn is_sealed(seen: &[Seen]) -> bool {
    seen.iter()
        .all(|(.., version, _)| version.delete_marker || version.attributes.encryption == Some(Encryption::Managed))
}

/// A store with every kind of object, the contents that must not be found, and where they are.
struct Filled {
    store: Store,
    contents: Vec<Vec<u8>>,
    buckets: Vec<BucketId>,
}

fn filled() -> Filled {
    let store = Store::with(|options| options.chunk_size = 100_000);
    let (plain, versioned) = (store.bucket("plain"), store.versioned("versioned"));
    let mut contents: Vec<Vec<u8>> =
        [40, 300, 5_000, 70_000, 450_000].iter().map(|&size| noise(size, size as u64)).collect();
    for (at, content) in contents.iter().enumerate() {
        store.put(&plain, &format!("object-{at}"), content).unwrap();
        store.copy_within(&plain, &format!("object-{at}"), &format!("copy-{at}"));
    }
    store.put(&plain, "empty", b"").unwrap();
    store.tag(&plain, "object-2", "blue");
    let note = noise(500, 7);
    store.note(&plain, "object-1", "long", &note);
    store.note(&plain, "object-1", "short", b"a short text of some bytes");
    contents.extend([note, b"a short text of some bytes".to_vec()]);
    let upload = store.create_upload(&plain, "parts");
    let parts = [noise(5 << 20, 20), noise(5 << 20, 21), noise(99, 22)];
    let done: Vec<_> = (1..).zip(&parts).map(|(n, part)| store.put_part(&plain, "parts", upload, n, part)).collect();
    store.complete(&plain, "parts", upload, &done).unwrap();
    contents.extend(parts);
    for round in 0..4 {
        let content = noise(if round % 2 == 0 { 200 } else { 2_000 }, 100 + round);
        store.put(&versioned, "several", &content).unwrap();
        contents.push(content);
    }
    store.put(&versioned, "marked", &noise(250, 200)).unwrap();
    contents.push(noise(250, 200));
    store.delete(&versioned, "marked").unwrap();
    // What was overwritten and deleted before is on the disk as well.
    for (name, seed) in [("object-0", 300), ("gone", 301)] {
        store.put(&plain, name, &noise(120, seed)).unwrap();
        contents.push(noise(120, seed));
    }
    store.delete(&plain, "gone").unwrap();
    let buckets = vec![plain.id, versioned.id];
    Filled { store, contents, buckets }
}

#[test]
fn versions_stay_what_they_are_and_nothing_unsealed_is_left_in_files() {
    let Filled { mut store, contents, buckets } = filled();
    store.handle().keys().set(OneKey::new(7));
    let before: Vec<_> = buckets.iter().map(|bucket| store.seen(*bucket)).collect();
    for piece in contents.iter().flat_map(|content| pieces(content)) {
        assert!(has(store.path(), piece), "the search does not find what is there");
    }
    let merges = || store.handle().shared.catalog.overlay.read().merges();
    let merges_before = merges();
    let report = store.seal_stored();
    assert_eq!(merges(), merges_before, "no bucket has layers: what reads those need not begin anew");
    let versions = before.iter().flatten().filter(|(.., version, _)| !version.delete_marker).count();
    assert_eq!(report.versions, versions as u64, "{report:?}");
    assert_eq!(report.left, Left::default(), "{report:?}");
    assert_eq!((report.changed, report.no_room, report.too_long, report.unreadable), (0, 0, 0, 0));
    // Copies share what they shared.
    let bytes: u64 = contents.iter().map(|content| content.len() as u64).sum();
    assert!(report.stored_bytes <= bytes, "{report:?}, {bytes}");
    for round in 0..2 {
        for (bucket, before) in buckets.iter().zip(&before) {
            let after = store.seen(*bucket);
            assert!(is_sealed(&after));
            assert!(shown(after) == shown(before.clone()), "{round}");
        }
        for (at, content) in contents.iter().enumerate() {
            for piece in pieces(content) {
                assert!(!has(store.path(), piece), "content {at} of {} bytes, {round}", content.len());
            }
        }
        let again = store.seal_stored();
        assert_eq!((again.versions, again.left), (0, Left::default()), "{again:?}");
        store.check_rebuild();
        store.handle().keys().set(OneKey::new(7));
    }
}

#[test]
fn without_keys_nothing_happens() {
    let Filled { store, buckets, .. } = filled();
    let before = store.seen(buckets[0]);
    assert!(matches!(store.handle().seal_stored(&SealProgress::default()), Err(Error::NoKeyring)));
    assert!(store.seen(buckets[0]) == before);
}

#[test]
fn snapshots_and_forks_are_sealed_with_their_bucket() {
    let mut store = Store::new();
    store.handle().keys().set(OneKey::new(7));
    let bucket = store.bucket("b");
    let contents: Vec<Vec<u8>> = (0..6).map(|seed| noise(if seed % 2 == 0 { 100 } else { 3_000 }, seed)).collect();
    let snapshot = |name: &'static str| {
        store.handle().execute(Intent::CreateSnapshot { bucket: bucket.id, name: name.into() }).unwrap();
    };
    store.put(&bucket, "a", &contents[0]).unwrap();
    store.put(&bucket, "b", &contents[1]).unwrap();
    snapshot("one");
    store.put(&bucket, "a", &contents[2]).unwrap();
    store.put(&bucket, "c", &contents[3]).unwrap();
    snapshot("two");
    store
        .handle()
        .execute(Intent::DeleteObject {
            bucket: bucket.id,
            key: "c".into(),
            precondition: Precondition::default(),
            version: None,
            bypass: false,
        })
        .unwrap();
    store.put(&bucket, "b", &contents[4]).unwrap();
    let fork = Intent::ForkBucket { bucket: bucket.id, snapshot: Some("one".into()), name: "fork".into() };
    store.handle().execute(fork).unwrap();
    let fork = store.handle().bucket(b"fork").unwrap();
    store.put(&fork, "d", &contents[5]).unwrap();

    let report = store.seal_stored();
    assert_eq!((report.versions, report.left), (6, Left::default()), "{report:?}");
    for content in &contents {
        pieces(content).for_each(|piece| assert!(!has(store.path(), piece)));
    }
    for _ in 0..2 {
        let get = |name: &str, key: &str| {
            super::super::layers::get(&store, &store.handle().bucket(name.as_bytes()).unwrap(), key)
        };
        assert_eq!(get("b", "a").as_ref(), Some(&contents[2]));
        assert_eq!(get("b", "b").as_ref(), Some(&contents[4]));
        assert_eq!(get("b", "c"), None);
        assert_eq!(get("fork", "a").as_ref(), Some(&contents[0]));
        assert_eq!(get("fork", "b").as_ref(), Some(&contents[1]));
        assert_eq!(get("fork", "d").as_ref(), Some(&contents[5]));
        store.check_rebuild();
        store.handle().keys().set(OneKey::new(7));
    }
    let restore = Intent::RestoreBucket { bucket: bucket.id, snapshot: "two".into() };
    store.handle().execute(restore).unwrap();
    let bucket = store.handle().bucket(b"b").unwrap();
    assert_eq!(super::super::layers::get(&store, &bucket, "c").as_ref(), Some(&contents[3]));
}

#[test]
fn histories_and_amendments_in_frozen_layers_are_sealed() {
    let mut store = Store::new();
    store.handle().keys().set(OneKey::new(7));
    let id = store.versioned("v").id;
    let handle = store.handle();
    let now = |name: &str| handle.bucket(name.as_bytes()).unwrap();
    let run = |intent| handle.execute(intent).unwrap();
    let contents: Vec<Vec<u8>> = (0..8).map(|seed| noise(if seed % 2 == 0 { 100 } else { 3_000 }, seed)).collect();
    let put = |name: &str, key: &str, at: usize| store.put(&now(name), key, &contents[at]).unwrap();
    let newest =
        |key: &'static str| handle.object_in(&now("v"), &key.into()).unwrap().unwrap().object.version.version_id;
    let delete = |key: &'static str, version| {
        let precondition = Precondition::default();
        run(Intent::DeleteObject { bucket: id, key: key.into(), version, precondition, bypass: false });
    };
    put("v", "a", 0);
    let first = newest("a");
    (1..3).for_each(|at| put("v", "a", at));
    put("v", "b", 3);
    run(Intent::CreateSnapshot { bucket: id, name: "one".into() });
    delete("a", Some(first));
    store.tag(&now("v"), "a", "amended");
    store.note(&now("v"), "b", "note", &contents[4]);
    put("v", "c", 5);
    run(Intent::UpdateBucket { bucket: id, change: BucketChange::Versioning(Versioning::Suspended) });
    put("v", "a", 6);
    run(Intent::CreateSnapshot { bucket: id, name: "two".into() });
    store.tag(&now("v"), "c", "amended again");
    delete("b", None);
    for (fork, snapshot) in [("was-one", "one"), ("was-two", "two")] {
        run(Intent::ForkBucket { bucket: id, snapshot: Some(snapshot.into()), name: fork.into() });
    }
    put("was-one", "d", 7);
    drop(handle);
    let all = |store: &Store| {
        ["v", "was-one", "was-two"].map(|name| store.seen(store.handle().bucket(name.as_bytes()).unwrap().id))
    };
    let before = all(&store);
    // Of `a` in the fork of the first snapshot: three versions; now another two, and the null one.
    assert_eq!(before.each_ref().map(Vec::len), [6, 5, 5]);

    let report = store.seal_stored();
    // Each content, and once more that of the three versions that have amendments.
    assert_eq!((report.versions, report.left), (7 + 3, Left::default()), "{report:?}");
    for content in &contents {
        pieces(content).for_each(|piece| assert!(!has(store.path(), piece)));
    }
    for _ in 0..2 {
        let after = all(&store);
        for (before, after) in before.iter().zip(&after) {
            assert!(is_sealed(after));
            assert!(shown(after.clone()) == shown(before.clone()));
        }
        assert_eq!(store.seal_stored().versions, 0);
        store.check_rebuild();
        store.handle().keys().set(OneKey::new(7));
    }
}

#[test]
fn clients_that_write_meanwhile_win() {
    let store = Store::new();
    store.handle().keys().set(OneKey::new(7));
    let bucket = store.bucket("b");
    let versioned = store.versioned("v");
    for n in 0..200 {
        store.put(&bucket, &format!("k{n}"), &noise(300 + n, n as u64)).unwrap();
        store.put(&versioned, &format!("k{}", n % 20), &noise(300 + n, n as u64)).unwrap();
    }
    let stop = AtomicBool::new(false);
    let mut last: BTreeMap<usize, Option<u64>> = BTreeMap::new();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (mut last, mut round) = (BTreeMap::new(), 0u64);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let n = (round * 7) as usize % 200;
                match round % 5 {
                    0 => {
                        store.delete(&bucket, &format!("k{n}")).unwrap();
                        last.insert(n, None);
                    }
                    1 => {
                        // Tags must not be lost, whichever comes first.
                        if last.get(&n).is_none_or(Option::is_some) {
                            store.tag(&bucket, &format!("k{n}"), "kept");
                        }
                    }
                    _ => {
                        store.put(&bucket, &format!("k{n}"), &noise(400, 10_000 + round)).unwrap();
                        store.put(&versioned, &format!("k{n}"), &noise(40, 10_000 + round)).unwrap();
                        last.insert(n, Some(10_000 + round));
                    }
                }
                round += 1;
            }
            last
        });
        for _ in 0..3 {
            store.seal_stored();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        last = writer.join().unwrap();
    });
    let report = store.seal_stored();
    assert_eq!((report.changed, report.left), (0, Left::default()), "{report:?}");
    assert!(is_sealed(&store.seen(bucket.id)) && is_sealed(&store.seen(versioned.id)));
    for n in 0..200 {
        let expected = match last.get(&n) {
            None => Some(noise(300 + n, n as u64)),
            Some(None) => None,
            Some(Some(seed)) => Some(noise(400, *seed)),
        };
        assert!(store.get(&bucket, &format!("k{n}")).unwrap() == expected, "{n}");
    }
}

/// A merge takes what it has looked up to another layer. It must not bring unsealed content back.
#[test]
fn snapshots_that_come_and_go_meanwhile_show_what_they_showed() {
    let mut store = Store::new();
    store.handle().keys().set(OneKey::new(7));
    let bucket = store.bucket("b");
    let mut last = BTreeMap::new();
    for round in 0..12u64 {
        for n in 0..60 {
            let seed = round * 1_000 + n * 7 % 60;
            store.put(&store.handle().bucket(b"b").unwrap(), &format!("k{}", n * 7 % 60), &noise(300, seed)).unwrap();
            last.insert(n * 7 % 60, seed);
        }
        let create = |name: String| Intent::CreateSnapshot { bucket: bucket.id, name: name.into() };
        store.handle().execute(create(format!("s{round}"))).unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in [3u64, 8, 4, 9, 0, 1, 7] {
                let name = format!("s{round}").into();
                store.handle().execute(Intent::DeleteSnapshot { bucket: bucket.id, name }).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        store.seal_stored();
    });
    let report = store.seal_stored();
    assert_eq!((report.changed, report.left), (0, Left::default()), "{report:?}");
    for _ in 0..2 {
        for (n, seed) in &last {
            let now = store.handle().bucket(b"b").unwrap();
            let found = super::super::layers::get(&store, &now, &format!("k{n}"));
            assert!(found.as_ref() == Some(&noise(300, *seed)), "{n}");
        }
        store.check_rebuild();
        store.handle().keys().set(OneKey::new(7));
    }
    let restore = Intent::RestoreBucket { bucket: bucket.id, snapshot: "s5".into() };
    store.handle().execute(restore).unwrap();
    let now = store.handle().bucket(b"b").unwrap();
    assert!((0..60).all(|n| super::super::layers::get(&store, &now, &format!("k{n}")) == Some(noise(300, 5_000 + n))));
}

#[test]
fn reclamation_by_itself_does_not_rewrite_what_is_not_worth_it() {
    let store = Store::new();
    let bucket = store.bucket("b");
    for n in 0..30 {
        store.put(&bucket, &format!("k{n}"), &noise(30_000, n)).unwrap();
    }
    store.put(&bucket, "short", &noise(100, 77)).unwrap();
    store.delete(&bucket, "short").unwrap();
    store.handle().reclaim(Effort::Compact).unwrap();
    assert!(has(store.path(), &noise(100, 77)[..20]));
    store.handle().reclaim(Effort::Renew).unwrap();
    store.handle().shared.index_rebuild.renew().unwrap().recv().unwrap().unwrap();
    assert!(!has(store.path(), &noise(100, 77)[..20]));
}
