//! A client with keys of its own: it alone writes them, so it knows what each must be; the contents are everybody's.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use orcas_checksum::Md5Hasher;
use orcas_decide::{
    Body, Complete, CompletePart, Copy, CopyHeaders, Failure, Intent, Move, Outcome, Precondition, PutObject, PutPart,
    Refusal,
};
use orcas_engine::{CopyPartRequest, Handle, ObjectReader};
use orcas_fs_testing::SimRng;
use orcas_record::{Bucket, ObjectHeaders, UploadId};

use crate::world::{SMALL_MAX, World, contents};
use orcas_catalog::PinnedObject;

/// Bytes that a reader asks for at a time.
const PIECE: usize = 2_500;
const KEYS_OF_ONE: u64 = 2;

pub struct Client {
    pub handle: Handle,
    pub bucket: Arc<Bucket>,
    number: u64,
    world: Arc<World>,
    rng: SimRng,
    /// What each of its keys must hold, by number of the content.
    pub keys: BTreeMap<Bytes, usize>,
}

fn key_of(client: u64, number: u64) -> Bytes {
    format!("{client}/{number}").into()
}

pub fn body(handle: &Handle, bucket: &Bucket, bytes: &[u8]) -> Body {
    if bytes.len() <= SMALL_MAX {
        return handle.content().small_body(bucket, Bytes::copy_from_slice(bytes));
    }
    let mut writer = handle.content().body_writer(bucket, &Default::default(), bytes.len() as u64).unwrap();
    for piece in bytes.chunks(4_000) {
        writer.write(piece, &mut ()).unwrap();
    }
    writer.finish().unwrap()
}

pub fn put_of(bucket: &Bucket, key: Bytes, bytes: &[u8], body: Body) -> PutObject {
    PutObject {
        bucket: bucket.id,
        key,
        modified_ms: None,
        precondition: Precondition::default(),
        size: bytes.len() as u64,
        md5: Md5Hasher::digest(bytes),
        sha256: None,
        checksum: None,
        headers: ObjectHeaders::default(),
        attributes: Default::default(),
        body,
    }
}

pub fn put(handle: &Handle, bucket: &Bucket, key: Bytes, bytes: &[u8]) -> Intent {
    Intent::PutObject(Box::new(put_of(bucket, key, bytes, body(handle, bucket, bytes))))
}

pub fn delete(bucket: &Bucket, key: Bytes) -> Intent {
    Intent::DeleteObject { bucket: bucket.id, key, precondition: Precondition::default(), version: None, bypass: false }
}

/// A reader that has begun.
pub struct Reading {
    handle: Handle,
    found: PinnedObject,
    reader: ObjectReader,
    bytes: Vec<u8>,
}

impl Reading {
    pub fn new(handle: &Handle, found: PinnedObject) -> Self {
        let reader = handle.content().reader(&found, 0, found.object.version.size - 1);
        Self { handle: handle.clone(), found, reader, bytes: Vec::new() }
    }

    /// Reads the next piece; false at the end.
    fn piece(&mut self) -> bool {
        let mut buf = vec![0; PIECE];
        let read = self.reader.read(&mut buf).unwrap();
        self.bytes.extend_from_slice(&buf[..read]);
        read > 0
    }

    /// Reads to the end; which of the contents it was.
    pub fn finish(mut self) -> usize {
        while self.piece() {}
        // The other way to read, as it knows the place since the object was found.
        let mut bytes = vec![0; self.bytes.len()];
        if self.handle.content().try_read(&self.found, 0, &mut bytes).unwrap() {
            assert!(bytes == self.bytes, "{:?} is read in two ways", self.found.object.version.key);
        }
        let key = &self.found.object.version.key;
        match contents().iter().position(|content| *content == self.bytes) {
            Some(content) => content,
            None => panic!("{key:?} holds what nobody wrote: {} bytes", self.bytes.len()),
        }
    }
}

impl Client {
    pub fn new(handle: &Handle, bucket: &Arc<Bucket>, number: u64, world: &Arc<World>, seed: u64) -> Self {
        Self {
            handle: handle.clone(),
            bucket: Arc::clone(bucket),
            number,
            world: Arc::clone(world),
            rng: SimRng::new(seed ^ (number + 1) << 40),
            keys: BTreeMap::new(),
        }
    }

    fn own_key(&mut self) -> Bytes {
        key_of(self.number, self.rng.below(KEYS_OF_ONE))
    }

    fn any_key(&mut self) -> Bytes {
        key_of(self.rng.below(self.world.clients), self.rng.below(KEYS_OF_ONE))
    }

    fn content(&mut self) -> usize {
        self.world.contents[self.rng.below(self.world.contents.len() as u64) as usize]
    }

    fn find(&self, key: &Bytes) -> Option<PinnedObject> {
        match self.handle.try_object(self.bucket.id, key) {
            Some(found) => found,
            None => self.handle.object(self.bucket.id, key).unwrap(),
        }
    }

    /// Puts a content under each of its keys, or none, before anything else happens.
    pub fn prepare(&mut self) {
        for number in 0..KEYS_OF_ONE {
            if self.rng.below(4) > 0 {
                let content = self.content();
                self.put(key_of(self.number, number), content);
            }
        }
    }

    /// Its whole life.
    pub fn run(mut self) -> Self {
        for _ in 0..self.world.operations {
            let held = self.begin_reading();
            self.look();
            match self.rng.below(16) {
                0..=5 => {
                    let (key, content) = (self.own_key(), self.content());
                    self.put(key, content);
                }
                6..=8 => self.delete(),
                9..=10 => self.copy(),
                11 => self.rename(),
                12 => self.upload(),
                13 => self.upload_copy(),
                14 => self.come_and_go(),
                _ => self.check_one(),
            }
            if let Some((reading, wanted)) = held {
                let content = reading.finish();
                assert!(wanted.is_none_or(|wanted| wanted == content), "a reader got {content} instead of {wanted:?}");
            }
        }
        self
    }

    /// Looks something of its own up, and something that others may be changing.
    fn look(&mut self) {
        let (own, any) = (self.own_key(), self.any_key());
        let _ = self.find(&any);
        let found = self.find(&own).map(|found| found.object.version.size);
        assert_eq!(found, self.keys.get(&own).map(|content| contents()[*content].len() as u64), "{own:?}");
    }

    /// Begins to read something that what comes next may take away.
    fn begin_reading(&mut self) -> Option<(Reading, Option<usize>)> {
        if self.rng.below(3) > 0 {
            return None;
        }
        let key = if self.rng.below(2) > 0 { self.own_key() } else { self.any_key() };
        let mut reading = Reading::new(&self.handle, self.find(&key)?);
        if self.rng.below(2) > 0 {
            reading.piece();
        }
        Some((reading, self.keys.get(&key).copied()))
    }

    fn put(&mut self, key: Bytes, content: usize) {
        self.handle.execute(put(&self.handle, &self.bucket, key.clone(), &contents()[content])).unwrap();
        self.keys.insert(key, content);
    }

    fn delete(&mut self) {
        let key = self.own_key();
        self.handle.execute(delete(&self.bucket, key.clone())).unwrap();
        self.keys.remove(&key);
    }

    /// An object that is found, read and deleted between two looks of reclamation.
    fn come_and_go(&mut self) {
        let (key, content) = (self.own_key(), self.content());
        self.put(key.clone(), content);
        let mut reading = Reading::new(&self.handle, self.find(&key).unwrap());
        if self.rng.below(2) > 0 {
            reading.piece();
        }
        self.handle.execute(delete(&self.bucket, key.clone())).unwrap();
        self.keys.remove(&key);
        for _ in 0..self.rng.below(30) {
            shuttle::thread::yield_now();
        }
        assert_eq!(reading.finish(), content);
    }

    fn copy(&mut self) {
        let (from, to) = (self.any_key(), self.own_key());
        let copy = Copy {
            source: (self.bucket.id, from.clone(), None),
            source_conditions: Default::default(),
            bucket: self.bucket.id,
            key: to.clone(),
            modified_ms: None,
            precondition: Precondition::default(),
            headers: CopyHeaders::Replace(Box::default()),
            attributes: Default::default(),
            checksum: None,
        };
        let answer = self.handle.execute(Intent::CopyObject(Box::new(copy)));
        self.copied(&from, to, answer);
    }

    /// What a copy brought is only known from reading it.
    fn copied(&mut self, from: &Bytes, to: Bytes, answer: Result<Outcome, Failure>) {
        match answer {
            Ok(_) => {
                let content = Reading::new(&self.handle, self.find(&to).unwrap()).finish();
                let wanted = self.keys.get(from).copied();
                assert!(wanted.is_none_or(|wanted| wanted == content), "copied {content} instead of {wanted:?}");
                self.keys.insert(to, content);
            }
            Err(Failure::Refused(Refusal::NoSuchKey | Refusal::SourceChanged)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }

    fn rename(&mut self) {
        let (from, to) = (self.own_key(), self.own_key());
        if from == to {
            return;
        }
        let moved = Move {
            from_bucket: self.bucket.id,
            from_key: from.clone(),
            from_conditions: Default::default(),
            bucket: self.bucket.id,
            key: to.clone(),
            precondition: Precondition::default(),
        };
        match (self.handle.execute(Intent::MoveObject(Box::new(moved))), self.keys.remove(&from)) {
            (Ok(_), Some(content)) => drop(self.keys.insert(to, content)),
            (Err(Failure::Refused(Refusal::NoSuchKey)), None) => {}
            other => panic!("{other:?}"),
        }
    }

    fn create_upload(&self, key: &Bytes) -> UploadId {
        let (bucket, key) = (self.bucket.id, key.clone());
        let create = Intent::CreateUpload {
            bucket,
            key,
            headers: Box::default(),
            attributes: Default::default(),
            checksum: None,
        };
        match self.handle.execute(create) {
            Ok(Outcome::Upload(upload)) => upload,
            other => panic!("{other:?}"),
        }
    }

    fn complete(&self, key: &Bytes, upload: UploadId, md5: [u8; 16]) -> Result<Outcome, Failure> {
        self.handle.execute(Intent::CompleteUpload(Box::new(Complete {
            bucket: self.bucket.id,
            key: key.clone(),
            upload,
            parts: vec![CompletePart { number: 1, md5, checksum: None }],
            checksum_type: None,
            checksum: None,
            size: None,
            modified_ms: None,
            precondition: Precondition::default(),
        })))
    }

    fn abort(&self, key: &Bytes, upload: UploadId) {
        let (bucket, key) = (self.bucket.id, key.clone());
        self.handle.execute(Intent::AbortUpload { bucket, key, upload, idle_since_ms: None }).unwrap();
    }

    fn upload(&mut self) {
        let (key, content) = (self.own_key(), self.content());
        let upload = self.create_upload(&key);
        let bytes = &contents()[content];
        let md5 = Md5Hasher::digest(bytes);
        let part = PutPart {
            bucket: self.bucket.id,
            key: key.clone(),
            upload,
            number: 1,
            size: bytes.len() as u64,
            md5,
            checksum: None,
            computed: None,
            body: body(&self.handle, &self.bucket, bytes),
        };
        self.handle.execute(Intent::PutPart(Box::new(part))).unwrap();
        if self.rng.below(4) == 0 {
            return self.abort(&key, upload);
        }
        self.complete(&key, upload, md5).unwrap();
        self.keys.insert(key, content);
    }

    fn upload_copy(&mut self) {
        let (from, to) = (self.any_key(), self.own_key());
        let upload = self.create_upload(&to);
        let request = CopyPartRequest {
            source: (self.bucket.id, from.clone(), None),
            source_conditions: Default::default(),
            range: None,
            bucket: self.bucket.id,
            key: to.clone(),
            upload,
            number: 1,
            keys: Default::default(),
        };
        match orcas_engine::run_copy(self.handle.copy_part(&request)) {
            Ok(Outcome::Part(part)) => {
                let md5 = part.etag.md5;
                self.complete(&to, upload, md5).unwrap();
                let content = Reading::new(&self.handle, self.find(&to).unwrap()).finish();
                self.keys.insert(to, content);
            }
            Err(Failure::Refused(Refusal::NoSuchKey | Refusal::SourceChanged)) => self.abort(&to, upload),
            other => panic!("{other:?}"),
        }
    }

    fn check_one(&mut self) {
        let key = self.any_key();
        let mine = key.starts_with(format!("{}/", self.number).as_bytes());
        let content = self.find(&key).map(|found| Reading::new(&self.handle, found).finish());
        assert!(!mine || content == self.keys.get(&key).copied(), "{key:?} holds {content:?}");
    }

    /// Every key is what it must be.
    pub fn check(&self) {
        for number in 0..KEYS_OF_ONE {
            let key = key_of(self.number, number);
            let content = self.find(&key).map(|found| Reading::new(&self.handle, found).finish());
            assert_eq!(content, self.keys.get(&key).copied(), "{key:?}");
        }
    }
}
