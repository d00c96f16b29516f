//! A store in a temporary directory and the few calls that the tests are made of.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::{
    Engine, EngineOptions, Environment, Handle, IndexPlace, LifecycleOptions, Standby, Stepper, SystemClock,
};
pub use super::options::options;
use orcas_base::error::Result;
use orcas_catalog::{ListObjects, ListPage};
use orcas_checksum::Md5Hasher;
use orcas_decide::{
    Body, Complete, CompletePart, Completed, Failure, Intent, Move, Outcome, Precondition, PutObject, PutPart,
};
use orcas_fs::real::{RealFileSystem, SystemRandom};
use orcas_index::{Index, IndexOptions};
use orcas_record::{Bucket, BucketSettings, DocumentKind, ObjectHeaders, UploadId};

impl Handle {
    /// A page of objects.
    pub fn list_objects(&self, list: &ListObjects) -> Result<ListPage> {
        let mut page = ListPage::default();
        let next = orcas_catalog::list_objects(&self.shared.catalog, list, &mut page)?;
        Ok(ListPage { next, ..page })
    }
}

pub fn environment() -> Environment {
    Environment {
        fs: Arc::new(RealFileSystem),
        clock: Arc::new(SystemClock::new()),
        random: Arc::new(SystemRandom),
        index: IndexPlace::File,
    }
}

/// `length` bytes that do not repeat, the same for the same seed.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut out = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
    out
}

pub struct Store {
    dir: tempfile::TempDir,
    pub options: EngineOptions,
    engine: Option<Engine>,
}

impl Store {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut EngineOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(dir.path());
        change(&mut options);
        let mut store = Self { dir, options, engine: None };
        store.open();
        store
    }

    /// One that is not open, whatever there is in the directory.
    pub fn closed(dir: tempfile::TempDir) -> Self {
        Self { options: options(dir.path()), dir, engine: None }
    }

    /// Opens it as the copy of another store.
    pub fn open_standby(&mut self) -> Standby {
        let (engine, standby) = Engine::open_standby(self.options.clone(), environment()).unwrap();
        self.engine = Some(engine);
        standby
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// For the next `open`.
    pub fn change(&mut self, change: impl FnOnce(&mut EngineOptions)) {
        change(&mut self.options);
    }

    pub fn open(&mut self) {
        self.try_open(environment()).unwrap();
    }

    pub fn try_open(&mut self, environment: Environment) -> Result<()> {
        self.engine = Some(Engine::open(self.options.clone(), environment)?);
        Ok(())
    }

    pub fn close(&mut self) {
        self.try_close().unwrap();
    }

    pub fn try_close(&mut self) -> Result<()> {
        self.engine.take().unwrap().close()
    }

    pub fn reopen(&mut self) {
        self.close();
        self.open();
    }

    pub fn start_lifecycle(&mut self, options: LifecycleOptions) {
        self.engine.as_mut().unwrap().start_lifecycle(options).unwrap();
    }

    pub fn handle(&self) -> Handle {
        self.engine.as_ref().unwrap().handle()
    }

    /// Loses the index, and checks that the log makes the same again. The store is open afterwards.
    pub fn check_rebuild(&mut self) {
        self.close();
        let kept = self.dump();
        for name in ["index.db", "index.db-wal", "index.db-shm"] {
            let _ = std::fs::remove_file(self.path().join(name));
        }
        // Without threads, so that nothing is reclaimed meanwhile.
        drop(Stepper::open(self.options.clone(), environment()).unwrap());
        let rebuilt = self.dump();
        for (kept, rebuilt) in kept.lines().zip(rebuilt.lines()) {
            // Batches that no later commit vouched for were appended again, so the position is another one.
            if !kept.starts_with("meta position") {
                assert_eq!(kept, rebuilt);
            }
        }
        assert_eq!(kept.lines().count(), rebuilt.lines().count());
        self.open();
    }

    /// The canonical dump of a closed store's index.
    pub fn dump(&self) -> String {
        self.index().unwrap().dump().unwrap()
    }

    /// The index of a closed store.
    pub fn index(&self) -> Result<Index> {
        let keys = std::fs::read(self.path().join("store.keys")).unwrap();
        let options = IndexOptions {
            path: Some(self.path().join("index.db")),
            max_open: 1,
            max_idle: 1,
            lifetime: Duration::MAX,
            synchronous_off: true,
        };
        Index::open(options, keys[12..28].try_into().unwrap())
    }

    pub fn bucket(&self, name: &str) -> Arc<Bucket> {
        self.bucket_of(name, "root")
    }

    pub fn bucket_of(&self, name: &str, owner: &'static str) -> Arc<Bucket> {
        let create = Intent::CreateBucket {
            name: Bytes::copy_from_slice(name.as_bytes()),
            owner: Bytes::from_static(owner.as_bytes()),
            location: Bytes::new(),
            settings: BucketSettings::default(),
            object_lock: false,
            documents: Vec::new(),
        };
        match self.handle().execute(create) {
            Ok(Outcome::Bucket(bucket)) => bucket,
            other => panic!("{other:?}"),
        }
    }

    /// Writes a document; an empty one removes it.
    pub fn put_document(&self, bucket: &Bucket, kind: DocumentKind, document: &str) {
        let document = Bytes::copy_from_slice(document.as_bytes());
        self.handle().execute(Intent::PutDocument { bucket: bucket.id, kind, document }).unwrap();
    }

    pub fn document(&self, bucket: &Bucket, kind: DocumentKind) -> Option<String> {
        let document = self.handle().document(bucket.id, kind)?;
        Some(String::from_utf8_lossy(&document.bytes).into_owned())
    }

    pub fn body(&self, bucket: &Bucket, bytes: &[u8]) -> Result<Body> {
        let handle = self.handle();
        if bytes.len() <= 65_536 {
            return Ok(handle.content().small_body(bucket, Bytes::copy_from_slice(bytes)));
        }
        let mut writer = handle.content().body_writer(bucket, &Default::default(), bytes.len() as u64).unwrap();
        for piece in bytes.chunks(100_001) {
            writer.write(piece, &mut ())?;
        }
        writer.finish()
    }

    pub fn small_put(&self, bucket: &Bucket, key: &str, bytes: &[u8]) -> PutObject {
        PutObject {
            bucket: bucket.id,
            key: Bytes::copy_from_slice(key.as_bytes()),
            modified_ms: None,
            precondition: Precondition::default(),
            size: bytes.len() as u64,
            md5: Md5Hasher::digest(bytes),
            sha256: None,
            checksum: None,
            headers: ObjectHeaders::default(),
            attributes: Default::default(),
            body: self.body(bucket, bytes).unwrap(),
        }
    }

    pub fn put(&self, bucket: &Bucket, key: &str, bytes: &[u8]) -> Result<(), Failure> {
        let put = self.small_put(bucket, key, bytes);
        self.handle().execute(Intent::PutObject(Box::new(put))).map(|_| ())
    }

    pub fn delete(&self, bucket: &Bucket, key: &str) -> Result<(), Failure> {
        let key = Bytes::copy_from_slice(key.as_bytes());
        let delete = Intent::DeleteObject {
            bucket: bucket.id,
            key,
            precondition: Precondition::default(),
            version: None,
            bypass: false,
        };
        self.handle().execute(delete).map(|_| ())
    }

    pub fn rename(&self, bucket: &Bucket, from: &str, to: &str) -> Result<(), Failure> {
        let moved = Move {
            from_bucket: bucket.id,
            from_key: Bytes::copy_from_slice(from.as_bytes()),
            from_conditions: Default::default(),
            bucket: bucket.id,
            key: Bytes::copy_from_slice(to.as_bytes()),
            precondition: Precondition::default(),
        };
        self.handle().execute(Intent::MoveObject(Box::new(moved))).map(|_| ())
    }

    pub fn get(&self, bucket: &Bucket, key: &str) -> Result<Option<Vec<u8>>> {
        let handle = self.handle();
        let Some(found) = handle.object(bucket.id, &Bytes::copy_from_slice(key.as_bytes()))? else { return Ok(None) };
        let size = found.object.version.size;
        let mut small = vec![0; size as usize];
        if size <= 65_536 && handle.content().try_read(&found, 0, &mut small)? {
            return Ok(Some(small));
        }
        Ok(Some(self.get_range(bucket, key, 0, size.saturating_sub(1))))
    }

    pub fn get_range(&self, bucket: &Bucket, key: &str, first: u64, last: u64) -> Vec<u8> {
        let handle = self.handle();
        let found = handle.object(bucket.id, &Bytes::copy_from_slice(key.as_bytes())).unwrap().unwrap();
        let mut reader = handle.content().reader(&found, first, last);
        let (mut out, mut buf) = (Vec::new(), vec![0; 50_000]);
        loop {
            match reader.read(&mut buf).unwrap() {
                0 => return out,
                read => out.extend_from_slice(&buf[..read]),
            }
        }
    }

    /// Every key, page by page.
    pub fn list(&self, bucket: &Bucket) -> Vec<Bytes> {
        let mut keys = Vec::new();
        let mut list =
            ListObjects { bucket: bucket.id, prefix: Bytes::new(), delimiter: None, after: None, max_keys: 7 };
        loop {
            let page = self.handle().list_objects(&list).unwrap();
            keys.extend(page.entries.into_iter().map(|entry| entry.key));
            list.after = page.next;
            if list.after.is_none() {
                return keys;
            }
        }
    }

    pub fn create_upload(&self, bucket: &Bucket, key: &str) -> UploadId {
        let create = Intent::CreateUpload {
            bucket: bucket.id,
            key: Bytes::copy_from_slice(key.as_bytes()),
            headers: Box::default(),
            attributes: Default::default(),
            checksum: None,
        };
        match self.handle().execute(create) {
            Ok(Outcome::Upload(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    pub fn put_part(&self, bucket: &Bucket, key: &str, upload: UploadId, number: u16, bytes: &[u8]) -> (u16, [u8; 16]) {
        self.try_put_part(bucket, key, upload, number, bytes).unwrap()
    }

    pub fn try_put_part(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: UploadId,
        number: u16,
        bytes: &[u8],
    ) -> Result<(u16, [u8; 16]), Failure> {
        let md5 = Md5Hasher::digest(bytes);
        let put = PutPart {
            bucket: bucket.id,
            key: Bytes::copy_from_slice(key.as_bytes()),
            upload,
            number,
            size: bytes.len() as u64,
            md5,
            checksum: None,
            computed: None,
            body: self.body(bucket, bytes).unwrap(),
        };
        self.handle().execute(Intent::PutPart(Box::new(put)))?;
        Ok((number, md5))
    }

    pub fn complete(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: UploadId,
        parts: &[(u16, [u8; 16])],
    ) -> Result<Completed, Failure> {
        let complete = Complete {
            bucket: bucket.id,
            key: Bytes::copy_from_slice(key.as_bytes()),
            upload,
            parts: parts.iter().map(|&(number, md5)| CompletePart { number, md5, checksum: None }).collect(),
            checksum_type: None,
            checksum: None,
            size: None,
            modified_ms: None,
            precondition: Precondition::default(),
        };
        match self.handle().execute(Intent::CompleteUpload(Box::new(complete)))? {
            Outcome::Completed(completed, _) => Ok(completed),
            other => panic!("{other:?}"),
        }
    }
}
