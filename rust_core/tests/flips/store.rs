//! Builds the stores whose bytes are flipped: with one of everything in each, made step by step on a simulated disk, so
//! that the bytes are the same each time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use orcas_checksum::Md5Hasher;
use orcas_decide::{
    Body, Complete, CompletePart, Copy, Failure, Intent, Move, Outcome, Precondition, PutObject, PutPart,
    SourceConditions,
};
use orcas_engine::{CompletionSink, Handle, IndexPlace, ReclaimLimits, Step, Stepper, Waiter};
use orcas_fs::{FileSystem, Open};
use orcas_fs_testing::SimDisk;
use orcas_record::{
    Attributes, Bucket, BucketSettings, Cause, Chunking, Encryption, INLINE_MAX, ObjectHeaders, UploadId, VersionId,
};
use orcas_store::Sealing;
use parking_lot::Mutex;

#[path = "grown.rs"]
mod grown;
#[path = "keys.rs"]
pub mod keys;
#[path = "layered.rs"]
mod layered;
#[path = "machine.rs"]
mod machine;
#[path = "size.rs"]
mod size;
#[path = "versioned.rs"]
mod versioned;
pub use machine::{disk_with, environment, noise, open};
#[allow(unused_imports)] // Flips ask for the sealed one; salvage does not.
pub use size::{BLOCKS, LARGE, SEALED, SMALL, Size, options};
#[allow(unused_imports)] // Salvage asks for it; flips do not.
pub use versioned::Stored;

/// More than reclamation of such a store ever takes.
const RECLAIM_STEPS_MAX: usize = 5_000;
/// Everything that is dead goes, files are rewritten for little.
const EAGER: ReclaimLimits =
    ReclaimLimits { live_max: 0.9, freed_min: 4_000, output_max: 1 << 40, compact: true, hurry: false };

pub const INDEX: &str = "index.db";
pub const WAL: &str = "index.db-wal";

#[derive(Default)]
struct Answers(Mutex<Vec<Result<Outcome, Failure>>>);

impl CompletionSink for Answers {
    fn complete(&self, _token: u64, result: Result<Outcome, Failure>) {
        self.0.lock().push(result);
    }
}

/// A store at rest: every file, and what its users know of it.
pub struct Built {
    pub size: Size,
    /// Everything but the index, by the path inside of the store.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The files of the index.
    pub index: BTreeMap<String, Vec<u8>>,
    /// The same for `IndexPlace::Memory`.
    pub snapshot: Arc<Vec<u8>>,
    /// The bytes of every object as `bucket/key`.
    pub objects: BTreeMap<String, Vec<u8>>,
    /// What else was stored under such names before.
    pub former: BTreeMap<String, Vec<Vec<u8>>>,
    /// Every version that there was in a bucket with versioning, by `bucket/key`.
    #[allow(dead_code)] // Salvage asks for it; flips do not.
    pub versions: BTreeMap<(String, VersionId), Stored>,
    /// Objects in the last batch of a log that was not closed, which the index does not have either: nobody can tell
    /// that it ever was whole.
    pub undecided: Vec<String>,
}

struct Builder {
    size: Size,
    data: PathBuf,
    disk: SimDisk,
    stepper: Option<Stepper>,
    answers: Arc<Answers>,
    objects: BTreeMap<String, Vec<u8>>,
    former: BTreeMap<String, Vec<Vec<u8>>>,
    versions: BTreeMap<(String, VersionId), Stored>,
    /// Who causes what is submitted.
    cause: Cause,
    /// Log files that are gone since others stand for them.
    replaced: BTreeMap<String, Vec<u8>>,
}

/// A store that was closed: every batch has a successor's header behind it.
pub fn closed(size: Size) -> Built {
    let place = tempfile::tempdir().unwrap();
    let mut builder = Builder::with_everything(place.path(), size);
    builder.close();
    builder.finish(None, Vec::new())
}

/// The same after a power cut that brought back the log files which compaction had replaced.
#[allow(dead_code)] // Salvage asks for it; flips do not.
pub fn with_replaced_files(size: Size) -> Built {
    let place = tempfile::tempdir().unwrap();
    let mut builder = Builder::with_everything(place.path(), size);
    builder.close();
    let replaced = std::mem::take(&mut builder.replaced);
    assert!(!replaced.is_empty());
    let mut built = builder.finish(None, Vec::new());
    built.files.extend(replaced);
    built
}

/// A store whose process was killed: the log ends somewhere, and the index has yet to follow.
pub fn killed(size: Size) -> Built {
    let place = tempfile::tempdir().unwrap();
    let mut builder = Builder::with_everything(place.path(), size);
    // Otherwise the index's write-ahead log has all that was ever stored.
    builder.stepper = None;
    builder.open();
    let bucket = builder.handle().bucket(b"a").unwrap();
    for n in 0..6 {
        builder.put(&bucket, &format!("tail/{n}"), builder.noise(900 + 700 * n, 9_000 + n as u64));
    }
    builder.delete(&bucket, "tail/2");
    // The index has a WAL.
    for n in 6..8 {
        builder.submit_put(&bucket, &format!("tail/{n}"), builder.noise(1_500, 9_000 + n as u64));
        builder.commit();
    }
    let (disk, index) = (builder.disk.snapshot(), read_index(place.path()));
    assert!(index.contains_key(WAL));
    builder.stepper = None;
    builder.disk = disk;
    builder.finish(Some(index), vec!["a/tail/7".into()])
}

/// The files of a directory of the store, by the path inside of it.
fn read_dir(disk: &SimDisk, data: &Path, dir: &str) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for name in disk.list(&data.join(dir)).unwrap() {
        let Ok(file) = disk.open(&data.join(dir).join(&name), Open::Read) else { continue };
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        files.push((if dir.is_empty() { name } else { format!("{dir}/{name}") }, bytes));
    }
    files
}

fn read_index(data: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |name: &str| Some((name.to_owned(), std::fs::read(data.join(name)).ok()?));
    [INDEX, WAL].into_iter().filter_map(read).filter(|(_, bytes)| !bytes.is_empty()).collect()
}

/// The bytes of a database file without the marks of a write-ahead log, which memory cannot have.
fn in_memory(mut database: Vec<u8>) -> Arc<Vec<u8>> {
    database[18..20].fill(1);
    Arc::new(database)
}

impl Builder {
    fn with_everything(data: &Path, size: Size) -> Self {
        let disk = disk_with(data);
        // First chunks move out of packs; later gaps are punched.
        disk.refuse_holes();
        let mut builder = Self {
            size,
            data: data.to_owned(),
            disk,
            stepper: None,
            answers: Arc::default(),
            objects: BTreeMap::new(),
            former: BTreeMap::new(),
            versions: BTreeMap::new(),
            cause: Cause::Engine,
            replaced: BTreeMap::new(),
        };
        builder.open();
        builder.first_life();
        builder.stepper = None;
        // A copy of the disk has holes.
        builder.disk = builder.disk.snapshot();
        builder.open();
        builder.second_life();
        builder
    }

    fn open(&mut self) {
        self.stepper = Some(open(&self.disk, &self.data, self.size, IndexPlace::File).unwrap());
    }

    fn close(&mut self) {
        self.stepper.as_mut().unwrap().close();
        self.stepper = None;
    }

    /// `length` bytes of a large store, in proportion of a smaller one: within the record of the object in both or none.
    fn noise(&self, length: usize, seed: u64) -> Vec<u8> {
        noise(if length <= INLINE_MAX { length } else { (length / self.size.divisor).max(INLINE_MAX + 1) }, seed)
    }

    fn first_life(&mut self) {
        let a = self.bucket("a", "root", BucketSettings::default());
        let b = self.bucket("b", "root", BucketSettings::default());
        let cut =
            BucketSettings { chunking: Some(Chunking::ContentDefined), keep_sha256: true, ..BucketSettings::default() };
        let other = self.bucket("other", "somebody else", cut);
        for (n, length) in [0, 100, 256, 257, 5_000, 20_000, 40_001].into_iter().enumerate() {
            self.put(&a, &format!("of-{length}"), self.noise(length, n as u64));
            self.put(&other, &format!("of-{length}"), self.noise(length, n as u64));
        }
        self.put(&b, "shares-content", self.noise(5_000, 4));
        self.put(&b, "shares-chunks", self.noise(40_001, 6));
        self.copy(&a, "of-20000", &b, "copied");
        for n in 0..self.size.chunks {
            self.put(&b, &format!("chunks/{n}"), self.noise(30_000, 100 + n));
        }
        for n in 0..self.size.many {
            self.put(&a, &format!("many/{n:02}"), self.noise(1_500, 200 + n));
        }
        for n in (0..self.size.many).filter(|n| n % 7 != 0) {
            self.delete(&a, &format!("many/{n:02}"));
        }
        for n in (0..self.size.chunks).filter(|n| n % 4 != 0) {
            self.delete(&b, &format!("chunks/{n}"));
        }
        self.first_versions();
        self.first_layers();
        self.reclaim(true);
        let files = self.disk.list(&self.data.join("chunks")).unwrap();
        // Chunks moved: of the packs that there were, some are gone.
        assert!(!files.contains(&format!("{:020}.pack", files.len())), "{files:?}");
    }

    fn second_life(&mut self) {
        let handle = self.handle();
        let (a, b) = (handle.bucket(b"a").unwrap(), handle.bucket(b"b").unwrap());
        // One chunk many times: more references than a manifest holds, and no room.
        self.put(&b, "segments", vec![7; 70 * self.size.chunk as usize]);
        // The last part of an upload may be small, and a single one is the last.
        let upload = self.upload(&b, "multipart");
        let bytes = self.noise(26_000, 300);
        let part = self.part(&b, "multipart", upload, 3, &bytes);
        self.complete(&b, "multipart", upload, vec![part], bytes);
        let upload = self.upload(&b, "open");
        self.part(&b, "open", upload, 1, &self.noise(30_000, 301));
        self.part(&b, "open", upload, 2, &self.noise(3_000, 302));
        let upload = self.upload(&b, "aborted");
        self.part(&b, "aborted", upload, 1, &self.noise(3_000, 303));
        self.run(Intent::AbortUpload { bucket: b.id, key: "aborted".into(), upload, idle_since_ms: None });
        for n in 0..3 {
            self.put(&a, &format!("gap/{n}"), self.noise(25_000, 400 + n));
        }
        self.put(&a, "renamed", self.noise(700, 410));
        self.rename(&a, "renamed", "to");
        self.delete(&a, "gap/1");
        self.grow(&a, &b);
        self.second_versions();
        self.second_layers();
        self.reclaim(false);
        for n in 0..self.size.later {
            self.put(&a, &format!("later/{n:02}"), self.noise(2_000 + n, 500 + n as u64));
        }
        // Replaced by others.
        for n in (5..self.size.later).step_by(11) {
            self.put(&a, &format!("later/{n:02}"), self.noise(1_000 + 300 * n, 700 + n as u64));
        }
        // Dead and not condemned.
        self.delete(&a, &format!("later/{:02}", self.size.later / 2));
        self.last_versions();
        self.last_layers();
        self.put(&b, "last", self.noise(30_000, 600));
        self.delete(&b, "chunks/4");
    }

    fn handle(&self) -> Handle {
        self.stepper.as_ref().unwrap().handle().clone()
    }

    fn submit(&self, intent: Intent) {
        let waiter = Waiter::new(Arc::clone(&self.answers) as Arc<dyn CompletionSink>, 0);
        self.handle().submit(intent, self.cause, waiter);
    }

    fn commit(&mut self) -> Vec<Outcome> {
        self.stepper.as_mut().unwrap().commit();
        std::mem::take(&mut *self.answers.0.lock()).into_iter().map(Result::unwrap).collect()
    }

    fn run(&mut self, intent: Intent) -> Outcome {
        self.submit(intent);
        let outcome = self.commit().pop().unwrap();
        self.stepper.as_mut().unwrap().apply().unwrap();
        outcome
    }

    fn reclaim(&mut self, seal: bool) {
        let stepper = self.stepper.as_mut().unwrap();
        stepper.refresh_reclamation(seal);
        for _ in 0..RECLAIM_STEPS_MAX {
            let before = self.disk.snapshot();
            if stepper.reclaim(&EAGER).unwrap() == Step::Idle {
                return;
            }
            stepper.commit();
            stepper.apply().unwrap();
            let (old, new) = (read_dir(&before, &self.data, "log"), self.disk.list(&self.data.join("log")).unwrap());
            self.replaced.extend(old.into_iter().filter(|(name, _)| !new.iter().any(|left| name.ends_with(left))));
        }
        panic!("reclamation does not end: {:?}", stepper.reclaiming());
    }

    fn bucket(&mut self, name: &'static str, owner: &'static str, settings: BucketSettings) -> Arc<Bucket> {
        match self.run(Intent::CreateBucket {
            name: name.into(),
            owner: owner.into(),
            location: Bytes::new(),
            settings,
            object_lock: false,
            documents: Vec::new(),
        }) {
            Outcome::Bucket(bucket) => bucket,
            other => panic!("{other:?}"),
        }
    }

    fn body(&self, bucket: &Bucket, bytes: &[u8]) -> Body {
        let sealing = Sealing::from(self.attributes().encryption);
        match (bytes.len() <= self.size.streamed, self.size.sealed) {
            (true, true) => return self.handle().content().sealed_body(bucket, &sealing, bytes).unwrap(),
            (true, false) => return self.handle().content().small_body(bucket, Bytes::copy_from_slice(bytes)),
            (false, _) => {}
        }
        let mut writer = self.handle().content().body_writer(bucket, &sealing, bytes.len() as u64).unwrap();
        writer.write(bytes, &mut ()).unwrap();
        writer.finish().unwrap()
    }

    /// Of everything that is stored.
    fn attributes(&self) -> Attributes {
        Attributes { encryption: self.size.sealed.then_some(Encryption::Managed), ..Attributes::default() }
    }

    /// Sealed, if content is.
    fn headers(&self, bucket: &Bucket) -> ObjectHeaders {
        let user = if self.size.sealed { vec![("of".into(), bucket.name.clone())] } else { Vec::new() };
        let headers = ObjectHeaders { user, ..ObjectHeaders::default() };
        self.handle().content().sealed_headers(bucket, &self.attributes().encryption.into(), headers).unwrap()
    }

    fn submit_put(&mut self, bucket: &Bucket, key: &str, bytes: Vec<u8>) {
        self.submit(Intent::PutObject(Box::new(PutObject {
            bucket: bucket.id,
            key: Bytes::copy_from_slice(key.as_bytes()),
            modified_ms: None,
            precondition: Precondition::default(),
            size: bytes.len() as u64,
            md5: Md5Hasher::digest(&bytes),
            sha256: None,
            checksum: None,
            headers: self.headers(bucket),
            attributes: self.attributes(),
            body: self.body(bucket, &bytes),
        })));
        self.insert(name_of(bucket, key), bytes);
    }

    fn insert(&mut self, name: String, bytes: Vec<u8>) {
        if let Some(former) = self.objects.insert(name.clone(), bytes) {
            self.former.entry(name).or_default().push(former);
        }
    }

    fn remove(&mut self, name: &str) -> Option<Vec<u8>> {
        let bytes = self.objects.remove(name)?;
        self.former.entry(name.to_owned()).or_default().push(bytes.clone());
        Some(bytes)
    }

    fn put(&mut self, bucket: &Bucket, key: &str, bytes: Vec<u8>) {
        self.submit_put(bucket, key, bytes);
        self.commit();
        self.stepper.as_mut().unwrap().apply().unwrap();
    }

    fn delete(&mut self, bucket: &Bucket, key: &str) {
        let intent = Intent::DeleteObject {
            bucket: bucket.id,
            key: Bytes::copy_from_slice(key.as_bytes()),
            precondition: Precondition::default(),
            version: None,
            bypass: false,
        };
        self.run(intent);
        self.remove(&name_of(bucket, key));
    }

    fn copy(&mut self, from: &Bucket, from_key: &'static str, to: &Bucket, key: &'static str) {
        self.run(Intent::CopyObject(Box::new(Copy {
            source: (from.id, from_key.into(), None),
            source_conditions: SourceConditions::default(),
            bucket: to.id,
            key: key.into(),
            modified_ms: None,
            precondition: Precondition::default(),
            headers: Default::default(),
            attributes: Default::default(),
            checksum: None,
        })));
        let bytes = self.objects[&name_of(from, from_key)].clone();
        self.objects.insert(name_of(to, key), bytes);
    }

    fn rename(&mut self, bucket: &Bucket, from: &'static str, to: &'static str) {
        self.run(Intent::MoveObject(Box::new(Move {
            from_bucket: bucket.id,
            from_key: from.into(),
            from_conditions: SourceConditions::default(),
            bucket: bucket.id,
            key: to.into(),
            precondition: Precondition::default(),
        })));
        let bytes = self.remove(&name_of(bucket, from)).unwrap();
        self.insert(name_of(bucket, to), bytes);
    }

    fn upload(&mut self, bucket: &Bucket, key: &'static str) -> UploadId {
        let create = Intent::CreateUpload {
            bucket: bucket.id,
            key: key.into(),
            headers: Box::new(self.headers(bucket)),
            attributes: self.attributes(),
            checksum: None,
        };
        match self.run(create) {
            Outcome::Upload(id) => id,
            other => panic!("{other:?}"),
        }
    }

    fn part(
        &mut self,
        bucket: &Bucket,
        key: &'static str,
        upload: UploadId,
        number: u16,
        bytes: &[u8],
    ) -> CompletePart {
        let md5 = Md5Hasher::digest(bytes);
        self.run(Intent::PutPart(Box::new(PutPart {
            bucket: bucket.id,
            key: key.into(),
            upload,
            number,
            size: bytes.len() as u64,
            md5,
            checksum: None,
            computed: None,
            body: self.body(bucket, bytes),
        })));
        CompletePart { number, md5, checksum: None }
    }

    fn complete(
        &mut self,
        bucket: &Bucket,
        key: &'static str,
        upload: UploadId,
        parts: Vec<CompletePart>,
        bytes: Vec<u8>,
    ) {
        self.run(Intent::CompleteUpload(Box::new(Complete {
            bucket: bucket.id,
            key: key.into(),
            upload,
            parts,
            checksum_type: None,
            checksum: None,
            size: None,
            modified_ms: None,
            precondition: Precondition::default(),
        })));
        self.objects.insert(name_of(bucket, key), bytes);
    }

    /// The files of the store that nobody has open any more; `index` as they were before it was closed.
    fn finish(self, index: Option<BTreeMap<String, Vec<u8>>>, undecided: Vec<String>) -> Built {
        assert!(self.stepper.is_none());
        let mut files = BTreeMap::new();
        for dir in ["", "log", "chunks"] {
            files.extend(read_dir(&self.disk, &self.data, dir));
        }
        let at_rest = read_index(&self.data);
        let snapshot = in_memory(at_rest[INDEX].clone());
        Built {
            size: self.size,
            files,
            index: index.unwrap_or(at_rest),
            snapshot,
            objects: self.objects,
            former: self.former,
            versions: self.versions,
            undecided,
        }
    }
}

fn name_of(bucket: &Bucket, key: &str) -> String {
    format!("{}/{key}", String::from_utf8_lossy(&bucket.name))
}
