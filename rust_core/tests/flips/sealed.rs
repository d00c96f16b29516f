//! Sealed content that somebody changed who can compute checksums: bits of blocks and tags, and blocks that were
//! exchanged within a blob, between blobs and between stores, cut off, or replayed from an older version. Checksums of
//! the pack are made to match, so that nothing but the tags can tell. Each is an error or without effect, never other
//! bytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use orcas_base::block::{BLOCK_SIZE, block_count, block_crc};
use orcas_checksum::Md5Hasher;
use orcas_decide::{Intent, Precondition, PutObject};
use orcas_engine::{CompletionSink, Handle, IndexPlace, Stepper, Waiter};
use orcas_fs::{FileSystem, Open};
use orcas_fs_testing::SimDisk;
use orcas_record::{Attributes, Bucket, BucketSettings, Cause, Encryption, NamedKey, Seal};
use orcas_seal::AUTH_TAG_LENGTH;

use crate::store::keys::OneKey;
use crate::store::{BLOCKS, disk_with, environment, noise, options};
use orcas_store::{RequestKey, Sealing};

const DATA: &str = "/data";
const CUSTOMERS: [u8; 32] = [9; 32];
/// Three blocks and a part of one, in one chunk.
const LENGTH: usize = 3 * BLOCK_SIZE + 1_000;
/// Bytes at the beginning of the frame of a chunk.
const FRAME_HEADER: usize = 64;

fn open(disk: &SimDisk, store: u8, index: Option<Arc<Vec<u8>>>) -> Stepper {
    let environment = environment(disk, IndexPlace::Memory(index));
    let stepper = Stepper::open(options(Path::new(DATA), BLOCKS), environment).unwrap();
    stepper.handle().keys().set(OneKey::of(store));
    stepper
}

#[derive(Default)]
struct Ignored;

impl CompletionSink for Ignored {
    fn complete(&self, _: u64, result: Result<orcas_decide::Outcome, orcas_decide::Failure>) {
        result.unwrap();
    }
}

fn run(stepper: &mut Stepper, intent: Intent) {
    stepper.handle().submit(intent, Cause::Engine, Waiter::new(Arc::new(Ignored), 0));
    stepper.commit();
    stepper.apply().unwrap();
}

/// How each of the objects is sealed.
fn sealing(handle: &Handle, key: &str) -> Sealing {
    match key {
        "named" => {
            let context = Bytes::from_static(b"{\"a\":\"b\"}");
            Some(Encryption::Named(Arc::new(NamedKey { id: [3; 16], context, bucket_key: false }))).into()
        }
        "customers" => {
            let key = handle.keys().request_key(&CUSTOMERS).unwrap();
            Sealing { encryption: Some(handle.keys().encryption_with(&key).unwrap()), key: Some(key) }
        }
        _ => Some(Encryption::Managed).into(),
    }
}

fn put(stepper: &mut Stepper, bucket: &Bucket, key: &str, bytes: &[u8]) {
    let handle = stepper.handle().clone();
    let sealing = sealing(&handle, key);
    let mut writer = handle.content().body_writer(bucket, &sealing, bytes.len() as u64).unwrap();
    writer.write(bytes, &mut ()).unwrap();
    let put = PutObject {
        bucket: bucket.id,
        key: Bytes::copy_from_slice(key.as_bytes()),
        modified_ms: None,
        precondition: Precondition::default(),
        size: bytes.len() as u64,
        md5: Md5Hasher::digest(bytes),
        sha256: None,
        checksum: None,
        headers: Default::default(),
        attributes: Attributes { encryption: sealing.encryption, ..Attributes::default() },
        body: writer.finish().unwrap(),
    };
    run(stepper, Intent::PutObject(Box::new(put)));
}

/// The content of one chunk as it is stored: sealed blocks, their tags, and the seal.
#[derive(Clone)]
struct Frame {
    at: usize,
    salt: u32,
    fingerprint: [u8; 32],
    content: Vec<u8>,
}

impl Frame {
    fn crc(header: &[u8], at: usize) -> u32 {
        block_crc(&[&header[4..FRAME_HEADER], &(at as u64).to_le_bytes()].concat())
    }

    fn parse(pack: &[u8], at: usize) -> Option<Self> {
        let header = pack.get(at..at + FRAME_HEADER)?;
        if &header[4..8] != b"CHNK" {
            return None;
        }
        let length = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        let start = at + FRAME_HEADER + 4 * block_count(length);
        Some(Self {
            at,
            salt: u32::from_le_bytes(header[..4].try_into().unwrap()) ^ Self::crc(header, at),
            fingerprint: header[16..48].try_into().unwrap(),
            content: pack.get(start..start + length)?.to_vec(),
        })
    }

    /// Its bytes with checksums that match.
    fn encode(&self) -> Vec<u8> {
        let crcs = self.content.chunks(BLOCK_SIZE).map(|block| block_crc(block) ^ self.salt);
        let table: Vec<u8> = crcs.flat_map(u32::to_le_bytes).collect();
        let mut out = vec![0; FRAME_HEADER];
        out[4..8].copy_from_slice(b"CHNK");
        out[8..12].copy_from_slice(&(self.content.len() as u32).to_le_bytes());
        out[12..16].copy_from_slice(&(block_crc(&table) ^ self.salt).to_le_bytes());
        out[16..48].copy_from_slice(&self.fingerprint);
        let crc = Self::crc(&out, self.at) ^ self.salt;
        out[..4].copy_from_slice(&crc.to_le_bytes());
        [out, table, self.content.clone()].concat()
    }

    /// The bytes of sealed content.
    fn length(&self) -> usize {
        Seal::content_length(self.content.len() as u32).unwrap() as usize
    }

    /// A block with its tag.
    fn block(&self, at: usize) -> (&[u8], &[u8]) {
        let end = self.length().min((at + 1) * BLOCK_SIZE);
        let tag = self.length() + at * AUTH_TAG_LENGTH;
        (&self.content[at * BLOCK_SIZE..end], &self.content[tag..tag + AUTH_TAG_LENGTH])
    }

    /// With another block, and its tag, in the place of one that is as long.
    fn with(&self, at: usize, (block, tag): (&[u8], &[u8])) -> Self {
        let (mut frame, place) = (self.clone(), self.length() + at * AUTH_TAG_LENGTH);
        frame.content[at * BLOCK_SIZE..][..block.len()].copy_from_slice(block);
        frame.content[place..place + AUTH_TAG_LENGTH].copy_from_slice(tag);
        frame
    }
}

/// A store at rest.
struct Sealed {
    store: u8,
    disk: SimDisk,
    index: Arc<Vec<u8>>,
    pack: PathBuf,
    /// In the order in which they were stored: the former content of `one` first.
    frames: Vec<Frame>,
    objects: Vec<(&'static str, Vec<u8>)>,
}

impl Sealed {
    fn new(store: u8) -> Self {
        let disk = disk_with(Path::new(DATA));
        let mut stepper = open(&disk, store, None);
        run(
            &mut stepper,
            Intent::CreateBucket {
                name: "b".into(),
                owner: "root".into(),
                location: Bytes::new(),
                settings: BucketSettings::default(),
                object_lock: false,
                documents: Vec::new(),
            },
        );
        let bucket = stepper.handle().bucket(b"b").unwrap();
        put(&mut stepper, &bucket, "one", &noise(LENGTH, 1));
        let objects = ["one", "two", "named", "customers"];
        let objects: Vec<_> = objects.into_iter().zip(2..).map(|(key, seed)| (key, noise(LENGTH, seed))).collect();
        for (key, bytes) in &objects {
            put(&mut stepper, &bucket, key, bytes);
        }
        let index = Arc::new(stepper.serialized_index().unwrap());
        stepper.close();
        drop(stepper);
        let chunks = Path::new(DATA).join("chunks");
        let packs: Vec<_> = disk.list(&chunks).unwrap().into_iter().filter(|name| name.ends_with(".pack")).collect();
        let [name] = &packs[..] else { panic!("{packs:?}") };
        let pack = chunks.join(name);
        let file = disk.open(&pack, Open::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        let frames: Vec<_> = (0..bytes.len()).step_by(4096).filter_map(|at| Frame::parse(&bytes, at)).collect();
        assert_eq!(frames.len(), objects.len() + 1);
        Self { store, disk, index, pack, frames, objects }
    }

    /// Objects whose content is an error with these frames in the place of others. Fails if any has other bytes.
    fn errors(&self, changed: &[Frame]) -> Result<Vec<&'static str>, String> {
        let disk = self.disk.snapshot();
        let file = disk.open(&self.pack, Open::Write).unwrap();
        for frame in changed {
            file.write_at(frame.at as u64, &frame.encode()).unwrap();
        }
        let stepper = open(&disk, self.store, Some(Arc::clone(&self.index)));
        let handle = stepper.handle();
        let bucket = handle.bucket(b"b").unwrap();
        let mut errors = Vec::new();
        for (key, wanted) in &self.objects {
            let found = handle.object_in(&bucket, &Bytes::from_static(key.as_bytes())).unwrap().unwrap();
            let customers: Option<RequestKey> =
                (*key == "customers").then(|| handle.keys().request_key(&CUSTOMERS).unwrap());
            match crate::observe::read(handle, &found.with_key(customers)) {
                Ok(bytes) if bytes == *wanted => {}
                Ok(_) => return Err(format!("{key}: other bytes")),
                Err(_) => errors.push(*key),
            }
        }
        Ok(errors)
    }

    /// Must be an error for `key`, and for nothing else.
    fn refuses(&self, what: &str, key: &'static str, changed: &[Frame]) -> Result<(), String> {
        let errors = self.errors(changed).map_err(|error| format!("{what}: {error}"))?;
        if errors == [key] { Ok(()) } else { Err(format!("{what}: errors for {errors:?} instead of {key}")) }
    }

    fn key_of(&self, frame: usize) -> &'static str {
        self.objects[frame - 1].0
    }
}

/// All exchanges; what was wrong first.
pub fn exchanges() -> Result<(), String> {
    let (mine, others) = (Sealed::new(1), Sealed::new(2));
    let none = mine.errors(&mine.frames)?;
    if !none.is_empty() {
        return Err(format!("errors without any change: {none:?}"));
    }
    for (at, frame) in mine.frames.iter().enumerate().skip(1) {
        let key = mine.key_of(at);
        for (one, two) in [(0, 1), (1, 2), (2, 0)] {
            let exchanged = frame.with(one, frame.block(two)).with(two, frame.block(one));
            mine.refuses(&format!("{key}: blocks {one} and {two}"), key, &[exchanged])?;
            let twice = frame.with(one, frame.block(two));
            mine.refuses(&format!("{key}: block {two} twice"), key, &[twice])?;
        }
        // The first one is the former content of `one`.
        let from_here = mine.frames.iter().map(|other| ("another blob", other));
        for (whose, other) in from_here.chain(others.frames.iter().map(|other| ("another store", other))) {
            if whose == "another blob" && other.at == frame.at {
                continue;
            }
            for block in 0..4 {
                let replaced = frame.with(block, other.block(block));
                mine.refuses(&format!("{key}: block {block} of {whose} at {}", other.at), key, &[replaced])?;
            }
            let whole = Frame { content: other.content.clone(), ..frame.clone() };
            mine.refuses(&format!("{key}: {whose} at {}, whole", other.at), key, &[whole])?;
        }
        // The last block is gone, with its tag.
        let (cut, tags) = (3 * BLOCK_SIZE, frame.length());
        let parts = [&frame.content[..cut], &frame.content[tags..tags + 3 * AUTH_TAG_LENGTH]];
        let seal = &frame.content[frame.content.len() - Seal::LENGTH..];
        let shorter = Frame { content: [parts[0], parts[1], seal].concat(), ..frame.clone() };
        mine.refuses(&format!("{key}: cut off"), key, &[shorter])?;
    }
    Ok(())
}

/// A bit of each block and each tag, and of the seal, which the record has as well.
fn flips() -> Result<(), String> {
    let store = Sealed::new(1);
    for (at, frame) in store.frames.iter().enumerate().skip(1) {
        let (key, length) = (store.key_of(at), frame.length());
        let places = (0..length).step_by(BLOCK_SIZE / 3).chain((length..frame.content.len()).step_by(5));
        for place in places {
            let mut flipped = frame.clone();
            flipped.content[place] ^= 1 << (place % 8);
            let is_seal = place >= frame.content.len() - Seal::LENGTH;
            match is_seal {
                true => drop(store.errors(&[flipped])?),
                false => store.refuses(&format!("{key}: byte {place}"), key, &[flipped])?,
            }
        }
    }
    Ok(())
}

#[test]
fn exchanged_blocks_of_sealed_content_are_errors() {
    exchanges().unwrap();
}

#[test]
fn flipped_bits_of_sealed_content_are_errors_whatever_checksums_say() {
    flips().unwrap();
}
