//! A closed store with one of each in it, and the means to damage it and repair it again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::super::{CopyRequest, Effort};
use super::super::support::{Store, noise};
use orcas_base::error::Result;
use orcas_decide::{Copy, Intent, Outcome, Precondition};
use orcas_fs::FileSystem;
use orcas_fs::real::RealFileSystem;
use orcas_fsck::{CheckOptions, CheckProgress, CheckReport, check_store};
use orcas_index::{BlobEntry, Index, IndexOptions};
use orcas_record::{Bucket, BucketSettings, Cause, DocumentKind};

/// Bytes of a chunk.
pub const CHUNK: u32 = 70_000;

pub struct Everything {
    pub store: Store,
    /// Names of all objects, as `bucket/key`.
    pub objects: BTreeSet<String>,
}

impl Everything {
    pub fn new() -> Self {
        let store = Store::with(|options| {
            options.log_file_size = 512 << 10;
            options.chunk_size = CHUNK;
            options.pack_size = 4 << 20;
        });
        let (a, b, other) = (store.bucket("a"), store.bucket("b"), foreign_bucket(&store));
        for document in ["<first/>", "<cors/>"] {
            store.put_document(&a, DocumentKind::Cors, document);
            store.put_document(&b, DocumentKind::Tagging, document);
        }
        store.put_document(&b, DocumentKind::Tagging, "");
        for (n, length) in [0, 100, 256, 257, 5_000, 65_536, 70_001, 350_000].into_iter().enumerate() {
            store.put(&a, &format!("of-{length}"), &noise(length, n as u64)).unwrap();
            store.put(&other, &format!("of-{length}"), &noise(length, n as u64)).unwrap();
        }
        // More chunks than a manifest holds.
        store.put(&a, "segments", &noise(80 * CHUNK as usize, 50)).unwrap();
        store.put(&b, "shares-content", &noise(5_000, 4)).unwrap();
        store.put(&b, "shares-chunks", &noise(350_000, 7)).unwrap();
        copy(&store, (&a, "segments"), (&b, "copied-segments"));
        copy(&store, (&a, "of-5000"), (&a, "copied-content"));
        for n in 0..300 {
            store.put(&b, &format!("many/{n:03}"), &noise(2_000 + n, 1_000 + n as u64)).unwrap();
        }
        for n in (0..300).filter(|n| n % 7 != 0) {
            store.delete(&b, &format!("many/{n:03}")).unwrap();
        }
        let upload = store.create_upload(&b, "multipart");
        let parts = [(1, noise(5 << 20, 60)), (2, noise(3_000, 61))];
        let parts: Vec<_> =
            parts.iter().map(|(number, bytes)| store.put_part(&b, "multipart", upload, *number, bytes)).collect();
        store.complete(&b, "multipart", upload, &parts).unwrap();
        let upload = store.create_upload(&b, "open");
        store.put_part(&b, "open", upload, 1, &noise(6 << 20, 62));
        store.put_part(&b, "open", upload, 2, &noise(4_000, 63));
        store.put(&a, "gone", &noise(300_000, 70)).unwrap();
        store.put(&a, "stays", &noise(300_000, 71)).unwrap();
        store.delete(&a, "gone").unwrap();

        store.handle().reclaim(Effort::Compact).unwrap();
        assert!(store.handle().reclaim_progress().total.log_files > 0);
        // Behind the compaction, and what nothing refers to any more and is not condemned.
        for n in 0..200 {
            store.put(&a, &format!("later/{n:03}"), &noise(4_000, 2_000 + n)).unwrap();
        }
        store.delete(&a, "later/100").unwrap();
        store.put_document(&a, DocumentKind::Tagging, "<tags/>");
        store.put(&a, "last", &noise(3_000, 80)).unwrap();
        let mut everything = Self { store, objects: BTreeSet::new() };
        for bucket in everything.store.handle().buckets() {
            let name = String::from_utf8_lossy(&bucket.name).into_owned();
            let keys = everything.store.list(&bucket);
            everything.objects.extend(keys.iter().map(|key| format!("{name}/{}", String::from_utf8_lossy(key))));
        }
        everything.store.close();
        everything
    }

    pub fn path(&self) -> &Path {
        self.store.path()
    }

    pub fn check_with(&self, options: &CheckOptions, progress: &CheckProgress) -> Result<CheckReport> {
        check_store(&file_system(), self.path(), options, None, progress)
    }

    /// Every file with its bytes.
    pub fn bytes(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        for dir in [self.path().to_owned(), self.path().join("log"), self.path().join("chunks")] {
            for path in files(&dir) {
                found.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
        found
    }

    /// The closed store's index.
    pub fn index(&self) -> Index {
        open_index(self.path())
    }

    pub fn blobs(&self) -> Vec<BlobEntry> {
        self.index().read().unwrap().blobs_after(0, usize::MAX).unwrap()
    }

    /// The blobs of an object's own extents.
    pub fn blobs_of(&self, bucket: &str, key: &str) -> Vec<BlobEntry> {
        let index = self.index();
        let reader = index.read().unwrap();
        let mut found = Vec::new();
        for stored in reader.versions_after(0, usize::MAX).unwrap() {
            let version = orcas_store::version_of(&stored).unwrap();
            let bucket = reader.buckets().unwrap().iter().any(|stored| {
                matches!(orcas_record::decode(stored.kind, &stored.record).unwrap(),
                    orcas_record::Record::CreateBucket(b) if b.id == version.bucket && &b.name[..] == bucket.as_bytes())
            });
            if bucket && version.key == key.as_bytes() {
                for extent in &version.manifest {
                    if let orcas_record::Extent::Blob { blob, .. } = extent {
                        found.push(reader.blob_entry(*blob).unwrap().unwrap());
                    }
                }
            }
        }
        assert!(!found.is_empty(), "{bucket}/{key}");
        found
    }

    pub fn log(&self, file: u64) -> PathBuf {
        self.path().join("log").join(format!("{file:020}.log"))
    }

    pub fn pack(&self, pack: u64) -> PathBuf {
        self.path().join("chunks").join(format!("{pack:020}.pack"))
    }

    /// Log files with a header and batches, oldest first: not the one that a clean end leaves to name the end.
    pub fn logs(&self) -> Vec<PathBuf> {
        let has_batches = |bytes: Vec<u8>| bytes[..5] == *b"ORCAS" && bytes.len() > 4_096;
        let found = files(&self.path().join("log"));
        found.into_iter().filter(|path| has_batches(std::fs::read(path).unwrap())).collect()
    }

    /// Objects that are gone or that a GET cannot read, as `bucket/key`; the store is closed again afterwards.
    pub fn unreadable(&mut self) -> BTreeSet<String> {
        self.store.open();
        let mut lost = BTreeSet::new();
        for name in &self.objects {
            let (bucket, key) = name.split_once('/').unwrap();
            let buckets = self.store.handle().buckets();
            let made_up = buckets.iter().find(|bucket| bucket.name.starts_with(b"lost-bucket-"));
            let bucket = self.store.handle().bucket(bucket.as_bytes()).or(made_up.cloned()).unwrap();
            let key = Bytes::copy_from_slice(key.as_bytes());
            let Some(found) = self.store.handle().object(bucket.id, &key).unwrap() else {
                lost.insert(name.clone());
                continue;
            };
            let size = found.object.version.size;
            let mut reader = self.store.handle().content().reader(&found, 0, size.saturating_sub(1));
            let mut buf = vec![0; 100_000];
            loop {
                match reader.read(&mut buf) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(_) => {
                        lost.insert(name.clone());
                        break;
                    }
                }
            }
        }
        self.store.close();
        lost
    }
}

pub fn file_system() -> Arc<dyn FileSystem> {
    Arc::new(RealFileSystem)
}

pub fn open_index(path: &Path) -> Index {
    let keys = std::fs::read(path.join("store.keys")).unwrap();
    let options = IndexOptions {
        path: Some(path.join("index.db")),
        max_open: 4,
        max_idle: 1,
        lifetime: Duration::MAX,
        synchronous_off: true,
    };
    Index::open(options, keys[12..28].try_into().unwrap()).unwrap()
}

pub fn check(path: &Path) -> CheckReport {
    let options = CheckOptions { read_content: true, threads: 2, bytes_per_sec: 0 };
    check_store(&file_system(), path, &options, None, &CheckProgress::default()).unwrap()
}

/// Lost objects as `bucket/key`, lost uploads as `bucket/key#`, lost parts as `bucket/key#number`.
pub fn losses(report: &CheckReport) -> Vec<String> {
    assert_eq!(report.losses.len() as u64, report.losses_total);
    let name = |loss: &orcas_fsck::Loss| {
        let part =
            loss.upload.as_ref().map(|upload| format!("#{}", upload.split_once('/').map_or("", |(_, part)| part)));
        format!("{}/{}{}", loss.bucket, String::from_utf8_lossy(&loss.key), part.unwrap_or_default())
    };
    report.losses.iter().map(name).collect()
}

pub fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
    found.sort();
    found
}

pub fn copy_dir(from: &Path, to: &Path) {
    for dir in ["", "log", "chunks"] {
        std::fs::create_dir_all(to.join(dir)).unwrap();
        for path in files(&from.join(dir)) {
            std::fs::copy(&path, to.join(dir).join(path.file_name().unwrap())).unwrap();
        }
    }
}

/// Runs `run` while a byte of a file is another one.
pub fn flipped<T>(path: &Path, offset: u64, run: impl FnOnce() -> T) -> T {
    flip(path, offset);
    let done = run();
    flip(path, offset);
    done
}

pub fn flip(path: &Path, offset: u64) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
}

/// Runs `run` while a file is not there.
pub fn without<T>(path: &Path, run: impl FnOnce() -> T) -> T {
    let bytes = std::fs::read(path).unwrap();
    std::fs::remove_file(path).unwrap();
    let done = run();
    std::fs::write(path, bytes).unwrap();
    done
}

fn foreign_bucket(store: &Store) -> Arc<Bucket> {
    let create = Intent::CreateBucket {
        name: Bytes::from_static(b"other"),
        owner: Bytes::from_static(b"somebody else"),
        location: Bytes::new(),
        settings: BucketSettings::default(),
        object_lock: false,
        documents: Vec::new(),
    };
    match store.handle().execute(create) {
        Ok(Outcome::Bucket(bucket)) => bucket,
        other => panic!("{other:?}"),
    }
}

fn copy(store: &Store, from: (&Bucket, &str), to: (&Bucket, &str)) {
    let key = |key: &str| Bytes::copy_from_slice(key.as_bytes());
    let copy = Copy {
        source: (from.0.id, key(from.1), None),
        source_conditions: Default::default(),
        bucket: to.0.id,
        key: key(to.1),
        modified_ms: None,
        precondition: Precondition::default(),
        headers: Default::default(),
        attributes: Default::default(),
        checksum: None,
    };
    crate::run_copy(store.handle().copy_object(&CopyRequest {
        copy,
        algorithm: None,
        keys: Default::default(),
        cause: Cause::Engine,
    }))
    .unwrap();
}
