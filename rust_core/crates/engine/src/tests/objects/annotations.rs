//! Annotations in a store: they go where their version goes, end with it, and keep their texts through reclamation,
//! rebuilds, backups and repairs.

use std::path::Path;

use bytes::Bytes;

use super::super::super::{CopyRequest, Effort, repair_store, salvage_store};
use super::super::health::backup::copy;
use super::super::sealing::OneKey;
use super::super::sealing::stored::has;
use super::super::steps::Steps;
use super::super::support::{Store, environment, noise};
use orcas_base::error::Error;
use orcas_checksum::Md5Hasher;
use orcas_decide::{
    Annotate, AnnotationChange, AttributeChange, Copy, CopyAttributes, CopyHeaders, Failure, Intent, MovePrefix,
    Outcome, Precondition, Refusal, SourceConditions, UpdateVersion,
};
use orcas_fs_testing::SimDisk;
use orcas_fsck::{CheckOptions, CheckProgress, CheckReport, check_store};
use orcas_record::{ANNOTATIONS_MAX, Annotation, Annotations, Bucket, Cause, Encryption, Extent};

/// Inline, a content, and the longest text.
const SIZES: [usize; 3] = [10, 3_000, 1 << 20];

fn key(name: &str) -> Bytes {
    Bytes::copy_from_slice(name.as_bytes())
}

fn copy_of(bucket: &Bucket, from: &str, to: &str, attributes: CopyAttributes) -> Copy {
    Copy {
        source: (bucket.id, key(from), None),
        source_conditions: SourceConditions::default(),
        bucket: bucket.id,
        key: key(to),
        modified_ms: None,
        precondition: Precondition::default(),
        headers: CopyHeaders::default(),
        attributes,
        checksum: None,
    }
}

fn check(path: &Path) -> CheckReport {
    let options = CheckOptions { read_content: true, threads: 2, bytes_per_sec: 0 };
    check_store(&environment().fs, path, &options, None, &CheckProgress::default()).unwrap()
}

impl Store {
    fn change_annotation(
        &self,
        bucket: &Bucket,
        name: [&str; 2],
        change: AnnotationChange,
    ) -> Result<Outcome, Failure> {
        let [of, name] = name.map(key);
        let annotate = Annotate { bucket: bucket.id, key: of, version: None, name, if_match: None, change };
        self.handle().execute(Intent::Annotate(Box::new(annotate)))
    }

    fn annotate(&self, bucket: &Bucket, name: [&str; 2], text: &[u8]) -> Result<Outcome, Failure> {
        let body = self.handle().content().small_body(bucket, Bytes::copy_from_slice(text));
        let change = AnnotationChange::Put {
            md5: Md5Hasher::digest(text),
            checksum: None,
            encryption: None,
            body: Box::new(body),
        };
        self.change_annotation(bucket, name, change)
    }

    fn unannotate(&self, bucket: &Bucket, name: [&str; 2]) {
        self.change_annotation(bucket, name, AnnotationChange::Delete { bypass: false }).unwrap();
    }

    fn annotation(&self, bucket: &Bucket, [of, name]: [&str; 2]) -> Option<Vec<u8>> {
        let handle = self.handle();
        let text = handle.object_in(bucket, &key(of)).unwrap()?.annotation(name.as_bytes())?;
        let mut reader = handle.content().reader(&text, 0, text.object.version.size - 1);
        let mut bytes = vec![0; text.object.version.size as usize];
        let mut at = 0;
        while at < bytes.len() {
            at += reader.read(&mut bytes[at..]).unwrap();
        }
        Some(bytes)
    }

    /// An object with one annotation of each size.
    fn annotated(&self, bucket: &Bucket, of: &str, seed: u64) {
        self.put(bucket, of, b"content").unwrap();
        for size in SIZES {
            self.annotate(bucket, [of, &size.to_string()], &noise(size, seed)).unwrap();
        }
    }

    /// Whether the object has the annotations that `annotated` gave it, and no other.
    fn is_annotated(&self, bucket: &Bucket, of: &str, seed: u64) -> bool {
        let found = self.handle().object_in(bucket, &key(of)).unwrap().unwrap();
        found.object.version.attributes.annotations.as_slice().len() == SIZES.len()
            && SIZES.iter().all(|size| self.annotation(bucket, [of, &size.to_string()]) == Some(noise(*size, seed)))
    }

    fn has_none(&self, bucket: &Bucket, of: &str) -> bool {
        let found = self.handle().object_in(bucket, &key(of)).unwrap().unwrap();
        found.object.version.attributes.annotations.is_empty()
    }
}

#[test]
fn they_go_where_their_object_goes_and_end_with_it() {
    let mut store = Store::with(|options| options.log_file_size = 4 << 20);
    let bucket = store.bucket("b");
    for (seed, of) in ["stays", "renamed", "overwritten", "deleted", "copied", "p/moved"].into_iter().enumerate() {
        store.annotated(&bucket, of, seed as u64);
    }
    store.reopen();
    store.rename(&bucket, "renamed", "renamed-to").unwrap();
    store.put(&bucket, "overwritten", b"newer").unwrap();
    store.delete(&bucket, "deleted").unwrap();
    store.put(&bucket, "deleted", b"again").unwrap();
    for (to, annotations) in [("copy", true), ("plain-copy", false)] {
        let attributes = CopyAttributes { annotations, ..CopyAttributes::default() };
        let copy = copy_of(&bucket, "copied", to, attributes);
        store.handle().execute(Intent::CopyObject(Box::new(copy))).unwrap();
    }
    let moved = MovePrefix {
        from_bucket: bucket.id,
        from_prefix: key("p/"),
        bucket: bucket.id,
        prefix: key("q/"),
        overwrite: false,
        limit: 10,
    };
    store.handle().move_prefix(&moved).unwrap();
    let restored = tempfile::tempdir().unwrap();
    for round in 0..3 {
        for (seed, of) in [(0, "stays"), (1, "renamed-to"), (4, "copied"), (4, "copy"), (5, "q/moved")] {
            assert!(store.is_annotated(&bucket, of, seed), "{round} {of}");
        }
        for of in ["overwritten", "deleted", "plain-copy"] {
            assert!(store.has_none(&bucket, of), "{round} {of}");
        }
        store.handle().reclaim(Effort::Compact).unwrap();
        store.check_rebuild();
    }
    let pin = store.handle().pin_for_backup().unwrap();
    copy(&pin, store.path(), restored.path());
    drop(pin);
    store.close();
    for path in [store.path(), restored.path()] {
        let report = check(path);
        assert!(report.is_clean(), "{report:#?}");
    }
}

#[test]
fn the_texts_that_are_gone_are_reclaimed_and_no_other() {
    let mut store = Store::with(|options| options.log_file_size = 1 << 20);
    let bucket = store.bucket("b");
    store.put(&bucket, "k", b"content").unwrap();
    for round in 0..40 {
        store.annotate(&bucket, ["k", "replaced"], &noise(10_000, round)).unwrap();
        store.annotate(&bucket, ["k", "deleted"], &noise(10_000, 100 + round)).unwrap();
        store.unannotate(&bucket, ["k", "deleted"]);
        if round == 20 {
            // What follows is a change of a version that a record with annotations brought.
            store.rename(&bucket, "k", "k2").unwrap();
            store.rename(&bucket, "k2", "k").unwrap();
        }
    }
    store.handle().reclaim(Effort::Compact).unwrap();
    let total = store.handle().reclaim_progress().total;
    assert_eq!((total.blobs, total.condemned_bytes), (79, 790_000));
    for _ in 0..2 {
        assert_eq!(store.annotation(&bucket, ["k", "replaced"]), Some(noise(10_000, 39)));
        assert_eq!(store.annotation(&bucket, ["k", "deleted"]), None);
        store.check_rebuild();
    }
    store.delete(&bucket, "k").unwrap();
    store.handle().reclaim(Effort::Compact).unwrap();
    store.check_rebuild();
    store.close();
    assert_eq!(store.index().unwrap().read().unwrap().blobs_after(0, 10).unwrap(), []);
}

#[test]
fn a_snapshot_shows_those_of_its_moment() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    store.annotated(&bucket, "k", 1);
    store.handle().execute(Intent::CreateSnapshot { bucket: bucket.id, name: key("s") }).unwrap();
    let bucket = store.handle().bucket(b"b").unwrap();
    store.annotate(&bucket, ["k", "10"], b"newer").unwrap();
    store.unannotate(&bucket, ["k", "3000"]);
    let fork = Intent::ForkBucket { bucket: bucket.id, snapshot: Some(key("s")), name: key("fork") };
    let Ok(Outcome::Bucket(fork)) = store.handle().execute(fork) else { panic!("no fork") };
    for _ in 0..2 {
        let bucket = store.handle().bucket(b"b").unwrap();
        let fork = store.handle().bucket(&fork.name).unwrap();
        assert_eq!(store.annotation(&bucket, ["k", "10"]).as_deref(), Some(&b"newer"[..]));
        assert_eq!(store.annotation(&bucket, ["k", "3000"]), None);
        assert_eq!(store.annotation(&bucket, ["k", "1048576"]), Some(noise(1 << 20, 1)));
        assert!(store.is_annotated(&fork, "k", 1));
        store.handle().reclaim(Effort::Compact).unwrap();
        store.check_rebuild();
    }
    store.handle().execute(Intent::RestoreBucket { bucket: bucket.id, snapshot: key("s") }).unwrap();
    let bucket = store.handle().bucket(b"b").unwrap();
    assert!(store.is_annotated(&bucket, "k", 1));
}

/// Writers that do not know of each other lose nothing, and the limit holds exactly.
#[test]
fn concurrent_writers_reach_the_limit_and_not_more() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    store.put(&bucket, "k", b"content").unwrap();
    let written: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (store, bucket) = (&store, &bucket);
                scope.spawn(move || {
                    let mut written = 0;
                    for n in 0..ANNOTATIONS_MAX / 4 + 10 {
                        match store.annotate(bucket, ["k", &format!("{writer}-{n}")], b"text") {
                            Ok(_) => written += 1,
                            Err(Failure::Refused(Refusal::TooManyAnnotations)) => {}
                            other => panic!("{other:?}"),
                        }
                    }
                    written
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!(written, ANNOTATIONS_MAX);
    store.reopen();
    let found = store.handle().object_in(&bucket, &key("k")).unwrap().unwrap();
    assert_eq!(found.object.version.attributes.annotations.as_slice().len(), ANNOTATIONS_MAX);
}

/// The damage of a text costs that annotation: neither the object nor its other annotations.
#[test]
fn a_repair_gives_up_the_annotation_whose_text_is_damaged() {
    for indexed in [true, false] {
        let mut store = Store::new();
        let bucket = store.bucket("b");
        store.annotated(&bucket, "k", 1);
        store.close();
        let log = store.path().join("log/00000000000000000001.log");
        let mut bytes = std::fs::read(&log).unwrap();
        let at = memchr::memmem::find(&bytes, &noise(3_000, 1)).unwrap();
        bytes[at] ^= 1;
        std::fs::write(&log, bytes).unwrap();
        let report = check(store.path());
        assert_eq!(report.losses.len(), 1, "{report:#?}");
        assert!(report.losses[0].reason.contains("annotation"), "{report:#?}");
        let (engine, salvaged) = salvage_store(store.options.clone(), environment(), &key("root")).unwrap();
        assert_eq!((salvaged.losses.len(), salvaged.losses_total), (1, 1), "{salvaged:#?}");
        assert_eq!(salvaged.losses[0].reason, report.losses[0].reason);
        let shown = engine.handle().object_in(&bucket, &key("k")).unwrap().unwrap();
        assert_eq!(shown.object.version.attributes.annotations.as_slice().len(), SIZES.len());
        drop((shown, engine));
        if !indexed {
            for suffix in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(store.path().join(format!("index.db{suffix}")));
            }
        }
        let repaired = repair_store(store.options.clone(), environment(), &CheckProgress::default(), true).unwrap();
        assert!(repaired.report.is_clean(), "{:#?}", repaired.report);
        store.open();
        assert_eq!(store.get(&bucket, "k").unwrap().as_deref(), Some(&b"content"[..]));
        assert_eq!(store.annotation(&bucket, ["k", "3000"]), None);
        for size in [10, 1 << 20] {
            assert_eq!(store.annotation(&bucket, ["k", &size.to_string()]), Some(noise(size, 1)), "{indexed}");
        }
        store.check_rebuild();
    }
}

fn copy_request(bucket: &Bucket, to: &Bucket, attributes: CopyAttributes) -> CopyRequest {
    let copy = Copy { bucket: to.id, ..copy_of(bucket, "k", "copy", attributes) };
    CopyRequest { copy, algorithm: None, keys: Default::default(), cause: Cause::Engine }
}

/// Owners share no content, so the texts are stored again.
#[test]
fn they_are_copied_to_another_owner() {
    let mut store = Store::new();
    let (bucket, other) = (store.bucket("b"), store.bucket_of("c", "another owner"));
    store.annotated(&bucket, "k", 1);
    for annotations in [false, true] {
        let attributes = CopyAttributes { annotations, ..CopyAttributes::default() };
        crate::run_copy(store.handle().copy_object(&copy_request(&bucket, &other, attributes))).unwrap();
        assert_eq!(store.has_none(&other, "copy"), !annotations);
    }
    store.delete(&bucket, "k").unwrap();
    store.handle().reclaim(Effort::Compact).unwrap();
    store.check_rebuild();
    assert!(store.is_annotated(&other, "copy", 1));
    store.close();
    let report = check(store.path());
    assert!(report.is_clean(), "{report:#?}");
}

/// More texts than a batch of the log takes, so that some are in packs.
#[test]
fn they_are_sealed_in_a_sealed_copy() {
    const TEXTS: u64 = 11;
    let mut store = Store::new();
    store.handle().keys().set(OneKey::new(7));
    let bucket = store.bucket("b");
    store.put(&bucket, "k", b"content").unwrap();
    let text = |n: u64| noise(if n == 0 { 20 } else { 1 << 20 }, n);
    for n in 0..TEXTS {
        store.annotate(&bucket, ["k", &n.to_string()], &text(n)).unwrap();
    }
    let attributes =
        CopyAttributes { annotations: true, encryption: Some(Encryption::Managed), ..CopyAttributes::default() };
    crate::run_copy(store.handle().copy_object(&copy_request(&bucket, &bucket, attributes))).unwrap();
    store.delete(&bucket, "k").unwrap();
    for _ in 0..2 {
        store.handle().reclaim(Effort::Compact).unwrap();
        for n in 0..TEXTS {
            assert!(store.annotation(&bucket, ["copy", &n.to_string()]) == Some(text(n)), "{n}");
            assert!(!has(&store.path().join("chunks"), &text(n)[..20]), "{n}");
        }
        store.check_rebuild();
        store.handle().keys().set(OneKey::new(7));
    }
}

/// Puts an object with as many annotations as are allowed, which have long names.
fn put_annotated(steps: &mut Steps, bucket: &Bucket, of: &str) {
    let annotation = |n| Annotation {
        name: format!("{n:0500}").into(),
        modified_ms: 0,
        md5: [0; 16],
        checksum: None,
        text: Extent::Inline(Bytes::from_static(b"text")),
    };
    let mut put = Steps::put_of(bucket, of, b"x", steps.body(bucket, b"x"));
    put.attributes.annotations = Annotations::from_sorted((0..ANNOTATIONS_MAX).map(annotation).collect()).unwrap();
    steps.run(Intent::PutObject(Box::new(put))).unwrap();
}

#[test]
fn below_the_reserve_a_record_as_long_as_a_body_is_refused_like_one() {
    const RESERVE: u64 = 1 << 30;
    let disk = SimDisk::new();
    let mut steps = Steps::on(&disk, |options| options.disk_reserve = RESERVE);
    let bucket = steps.bucket("b");
    steps.put(&bucket, "short", &noise(3_000, 1));
    put_annotated(&mut steps, &bucket, "long");
    let copied = |of: &str, to: &str| {
        let attributes = CopyAttributes { annotations: true, ..CopyAttributes::default() };
        Intent::CopyObject(Box::new(copy_of(&bucket, of, to, attributes)))
    };
    let tagged = |of: &str| {
        let change = AttributeChange::Tags(vec![("k".into(), "v".into())]);
        Intent::UpdateVersion(Box::new(UpdateVersion { bucket: bucket.id, key: key(of), version: None, change }))
    };
    let unannotated = || {
        let change = AnnotationChange::Delete { bypass: false };
        let name = format!("{:0500}", 7).into();
        let annotate = Annotate { bucket: bucket.id, key: key("long"), version: None, name, if_match: None, change };
        Intent::Annotate(Box::new(annotate))
    };
    disk.set_free_bytes(RESERVE - 1);
    for intent in [copied("short", "copy"), tagged("short"), unannotated()] {
        steps.run(intent).unwrap();
    }
    for intent in [copied("long", "other"), tagged("long")] {
        let refused = steps.run(intent);
        assert!(matches!(refused, Err(Failure::Engine(Error::UnderReserve { .. }))), "{refused:?}");
    }
    disk.set_free_bytes(2 * RESERVE);
    for intent in [copied("long", "other"), tagged("long")] {
        steps.run(intent).unwrap();
    }
    disk.set_free_bytes(RESERVE - 1);
    steps.delete(&bucket, "long");
}

/// No body announces how long the record of a copy is.
#[test]
fn a_round_ends_after_some_long_records() {
    const COPIES: usize = 30;
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    put_annotated(&mut steps, &bucket, "k");
    let copies = (0..COPIES).map(|n| {
        let attributes = CopyAttributes { annotations: true, ..CopyAttributes::default() };
        steps.submit(Intent::CopyObject(Box::new(copy_of(&bucket, "k", &format!("copy-{n:02}"), attributes))))
    });
    let copies = copies.collect::<Vec<_>>();
    let mut answered = 0;
    while answered < COPIES {
        steps.stepper().commit();
        steps.apply();
        let now = copies.iter().take_while(|copy| copy.is_answered()).count();
        // 4 MiB of records of more than half a MiB, and the one that passes the limit.
        assert!((answered + 1..=answered + 8).contains(&now), "{answered} {now}");
        assert!(!copies[now..].iter().any(|copy| copy.is_answered()));
        answered = now;
    }
    assert!(copies.into_iter().all(|copy| copy.answer().is_ok()));
    let last = steps.object(&bucket, &format!("copy-{:02}", COPIES - 1));
    assert_eq!(last.version.attributes.annotations.as_slice().len(), ANNOTATIONS_MAX);
}
