//! Random operations over few names, so that they meet each other.

use bytes::Bytes;
use orcas_checksum::Etag;
use orcas_decide::{DeleteEntry, EtagMatch, Precondition};
use orcas_fs_testing::SimRng;
use orcas_record::{BucketId, BucketSettings, Chunking, Durability, ObjectHeaders, RefLevel, UploadId};

use crate::model::{
    Bucket, Op, Payload, appends, copies, documents, expire_ops, layer_ops, moves, quotas, version_ops, versioning_op,
};
use crate::store::{CHUNK_SIZE, Run};

const BUCKETS: [&str; 4] = ["one", "two", "tiny", "locked"];
pub const KEYS: [&str; 7] = ["a", "a/b", "a/c", "b", "ba", "c", "d/e/f"];
/// Above it an object is in segments when chunks are `TINY` bytes.
const SEGMENTED: u64 = 66;
const TINY: u32 = 256;
/// Just enough that a part may stand before another one; nearly all of it is zeros, which cost the model disk nothing.
const LARGE: usize = (5 << 20) + 1000;

pub struct Workload {
    /// Buckets that are gone: clients remember them.
    gone: Vec<BucketId>,
    /// A move under a token, which a client may ask for again.
    last_move: Option<Op>,
    /// A layered bucket that was emptied, to be deleted next.
    left: Option<BucketId>,
    /// Whether every round has a rename under a token, new or asked for again.
    pub renames: bool,
    /// Whether buckets may have a durability of their own.
    mixed: bool,
}

fn pick<'a, T>(rng: &mut SimRng, from: &'a [T]) -> Option<&'a T> {
    if from.is_empty() { None } else { Some(&from[rng.below(from.len() as u64) as usize]) }
}

fn key(rng: &mut SimRng) -> Bytes {
    Bytes::from_static(KEYS[rng.below(KEYS.len() as u64) as usize].as_bytes())
}

fn noise(rng: &mut SimRng, length: u64) -> Payload {
    let mut bytes = vec![0; length as usize];
    blake3::Hasher::new().update(&rng.next().to_le_bytes()).finalize_xof().fill(&mut bytes);
    Payload::new(bytes.into())
}

fn headers(rng: &mut SimRng) -> ObjectHeaders {
    let mut headers = ObjectHeaders::default();
    if rng.below(2) == 0 {
        headers.content_type = Some("text/plain".into());
        headers.user.push(("n".into(), rng.below(1000).to_string().into()));
    }
    headers
}

/// Bytes that every run shares.
fn known(name: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(b"known").update(&name.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// A small content that others have too.
fn known_content(rng: &mut SimRng) -> Payload {
    let name = rng.below(5);
    Payload::new(known(name, 300 + 577 * name as usize).into())
}

/// The text of an annotation, never empty: inline, one that objects have as content too, or another content.
pub fn text(rng: &mut SimRng) -> Payload {
    match rng.below(3) {
        0 => noise_of(rng, 1, 64),
        1 => known_content(rng),
        _ => noise_of(rng, 65, 3_000),
    }
}

fn noise_of(rng: &mut SimRng, least: u64, most: u64) -> Payload {
    let length = least + rng.below(most - least + 1);
    noise(rng, length)
}

/// `count` chunks of `length` bytes, of which there are few, and perhaps the beginning of another.
fn known_chunks(rng: &mut SimRng, count: u64, length: usize, names: u64) -> Payload {
    let mut bytes = Vec::new();
    for _ in 0..count {
        bytes.extend(known(100 + rng.below(names), length));
    }
    if rng.below(2) == 0 {
        bytes.extend(&known(100, length)[..length / 3]);
    }
    Payload::new(bytes.into())
}

/// A body and whether it goes through a writer of chunks.
fn body(rng: &mut SimRng, bucket: &Bucket) -> (Payload, bool) {
    let tiny = bucket.settings.chunk_size == Some(TINY);
    match rng.below(24) {
        0 => (noise(rng, 0), false),
        1..=3 => {
            let length = rng.below(257);
            (noise(rng, length), false)
        }
        4..=9 => (known_content(rng), false),
        10..=12 => {
            let length = 257 + rng.below(3000);
            (noise(rng, length), false)
        }
        13 if tiny => {
            let count = SEGMENTED + rng.below(4);
            (known_chunks(rng, count, TINY as usize, 6), true)
        }
        13..=15 if tiny => {
            let length = if rng.below(8) == 0 { u64::from(TINY) * SEGMENTED } else { 300 + rng.below(1000) };
            (noise(rng, length), true)
        }
        13..=15 => {
            let length = 1000 + rng.below(40_000);
            (noise(rng, length), true)
        }
        _ if tiny => {
            let count = 1 + rng.below(5);
            (known_chunks(rng, count, TINY as usize, 6), true)
        }
        _ => {
            let count = 1 + rng.below(2);
            (known_chunks(rng, count, CHUNK_SIZE as usize, 3), true)
        }
    }
}

fn large(rng: &mut SimRng) -> Payload {
    let mut bytes = vec![0; LARGE];
    bytes[..8].copy_from_slice(&rng.next().to_le_bytes());
    bytes[LARGE - 8..].copy_from_slice(&rng.next().to_le_bytes());
    Payload::new(bytes.into())
}

impl Workload {
    pub fn new(mixed: bool) -> Self {
        Self { gone: Vec::new(), last_move: None, left: None, renames: false, mixed }
    }

    pub fn ops(&mut self, run: &mut Run) -> Vec<Op> {
        // What is looked up now gets no other sequence before it is decided.
        run.settle_merge();
        let count = 1 + run.rng.below(6);
        let (left, again) = (self.left.take(), self.last_move.take());
        self.gone.extend(left);
        let delete = left.map(|bucket| Op::DeleteBucket { bucket });
        let some = (0..count).flat_map(|_| self.some(run));
        let ops: Vec<Op> = delete.into_iter().chain(some).collect();
        let again = match again {
            None if self.renames => self.rename(run),
            again => again.filter(|_| self.renames || run.rng.below(2) == 0),
        };
        ops.into_iter().chain(again).collect()
    }

    /// A rename under a token, which is remembered.
    fn rename(&mut self, run: &mut Run) -> Option<Op> {
        let (id, _) = self.bucket(run)?;
        let key = key(&mut run.rng);
        let op = moves::under_token(run, id, id, key);
        Some(self.last_move.insert(op).clone())
    }

    /// A bucket that is there, or now and then one that was.
    fn bucket(&mut self, run: &mut Run) -> Option<(BucketId, Bucket)> {
        let live: Vec<_> = run.model().buckets.values().filter_map(|held| Some((held.id?, held.clone()))).collect();
        let (id, bucket) = pick(&mut run.rng, &live)?.clone();
        if run.rng.below(40) == 0
            && let Some(gone) = pick(&mut run.rng, &self.gone)
        {
            return Some((*gone, bucket));
        }
        Some((id, bucket))
    }

    fn some(&mut self, run: &mut Run) -> Vec<Op> {
        let Some((id, bucket)) = self.bucket(run) else { return vec![create_bucket(&mut run.rng, self.mixed)] };
        match run.rng.below(100) {
            4 | 5 if bucket.versions.is_empty() => {
                self.gone.push(id);
                let name =
                    run.model().buckets.iter().find(|(_, held)| held.id == Some(id)).map(|(name, _)| name.clone());
                let again = name.map(|name| Op::CreateBucket { name, settings: bucket.settings });
                let document = documents::random(&mut run.rng, id);
                [document, Op::DeleteBucket { bucket: id }].into_iter().chain(again).collect()
            }
            7..10 => {
                quotas::random(&mut run.rng, id, &bucket).or_else(|| self.op(run, 7, id, &bucket)).into_iter().collect()
            }
            34..37 => append_ops(run, id, &bucket),
            37..41 => layer_ops(run, &mut self.left),
            41 | 42 => expire_ops(run, id),
            50..54 => {
                let id = locked(run).unwrap_or(id);
                version_ops(run, id)
            }
            kind => self.op(run, kind, id, &bucket).into_iter().collect(),
        }
    }

    fn op(&mut self, run: &mut Run, kind: u64, id: BucketId, bucket: &Bucket) -> Option<Op> {
        let key = key(&mut run.rng);
        let precondition = precondition(&mut run.rng, bucket, &key);
        Some(match kind {
            0..3 => create_bucket(&mut run.rng, self.mixed),
            3 => {
                let chunk_size = bucket.settings.chunk_size;
                let settings = BucketSettings { chunk_size, ..settings(&mut run.rng, self.mixed) };
                Op::UpdateBucket { bucket: id, settings }
            }
            4 | 5 => {
                self.gone.push(id);
                Op::DeleteBucket { bucket: id }
            }
            6 => match run.rng.below(3) {
                0 => versioning_op(&mut run.rng, id),
                _ => documents::random(&mut run.rng, id),
            },
            7..34 => {
                let headers = headers(&mut run.rng);
                let (body, chunked) = body(&mut run.rng, bucket);
                Op::Put { bucket: id, key, body, chunked, headers, precondition }
            }
            43..50 => Op::Delete { bucket: id, key, precondition },
            54..59 => {
                let count = if run.rng.below(2) == 0 { KEYS.len() as u64 + 2 } else { 3 };
                let entry = |at: u64, rng: &mut SimRng| DeleteEntry {
                    key: KEYS[((rng.below(2) + at) % KEYS.len() as u64) as usize].into(),
                    precondition: Precondition::default(),
                    version: None,
                    bypass: false,
                };
                Op::DeleteMany { bucket: id, entries: (0..count).map(|at| entry(at, &mut run.rng)).collect() }
            }
            59..66 => {
                let (source, _) = self.bucket(run)?;
                if kind == 59 {
                    return copies::many_op(run, source, id);
                }
                let headers = (run.rng.below(2) == 0).then(|| headers(&mut run.rng));
                let (source, annotations) = ((source, self::key(&mut run.rng)), run.rng.below(2) == 0);
                Op::Copy { source, bucket: id, key, headers, annotations, precondition }
            }
            66..73 => {
                let (from_bucket, _) = self.bucket(run)?;
                if kind == 66 {
                    return Some(moves::prefix_op(run, from_bucket, id));
                }
                if kind < 70 {
                    let op = moves::under_token(run, from_bucket, id, key);
                    return Some(self.last_move.insert(op).clone());
                }
                let from_key = self::key(&mut run.rng);
                Op::Move { from_bucket, from_key, bucket: id, key, precondition, token: None }
            }
            73..79 => Op::CreateUpload { bucket: id, key, headers: headers(&mut run.rng) },
            _ => return upload_op(run, id, bucket, precondition),
        })
    }
}

/// Somebody adds to an object, or two do at once, of whom one comes too late.
fn append_ops(run: &mut Run, id: BucketId, bucket: &Bucket) -> Vec<Op> {
    let key = key(&mut run.rng);
    let count = 1 + run.rng.below(2);
    let bodies = (0..count).map(|_| body(&mut run.rng, bucket)).collect();
    let (headers, off) = (headers(&mut run.rng), u64::from(run.rng.below(12) == 0));
    appends::append_ops((id, bucket), &key, bodies, &headers, off)
}

/// Now and then a bucket whose versions can be locked.
fn locked(run: &mut Run) -> Option<BucketId> {
    let wanted = run.rng.below(2) == 0;
    run.model().buckets.values().find(|held| wanted && held.lock).and_then(|held| held.id)
}

fn create_bucket(rng: &mut SimRng, mixed: bool) -> Op {
    let name = BUCKETS[rng.below(BUCKETS.len() as u64) as usize];
    let chunk_size = (name == "tiny").then_some(TINY);
    Op::CreateBucket { name: name.into(), settings: BucketSettings { chunk_size, ..settings(rng, mixed) } }
}

fn settings(rng: &mut SimRng, mixed: bool) -> BucketSettings {
    let durability = match rng.below(6) {
        _ if !mixed => None,
        0 => Some(Durability::Sync),
        1 => Some(Durability::Interval),
        2 => Some(Durability::Buffered),
        _ => None,
    };
    let ref_level = match rng.below(8) {
        0 => Some(RefLevel::Off),
        1 | 2 => Some(RefLevel::Fast),
        3 | 4 => Some(RefLevel::Full),
        _ => None,
    };
    let chunking = (rng.below(5) == 0).then_some(Chunking::ContentDefined);
    BucketSettings { durability, ref_level, chunking, ..BucketSettings::default() }
}

fn precondition(rng: &mut SimRng, bucket: &Bucket, key: &Bytes) -> Precondition {
    let current = bucket.current(key).map(|object| object.etag);
    match rng.below(12) {
        0 => Precondition { if_none_match_any: true, ..Precondition::default() },
        1 => Precondition { if_match: Some(EtagMatch::Any), ..Precondition::default() },
        2 => Precondition {
            if_match: Some(EtagMatch::List(vec![current.unwrap_or(Etag::simple([1; 16]))])),
            ..Precondition::default()
        },
        3 => Precondition { if_match: Some(EtagMatch::List(vec![Etag::simple([2; 16])])), ..Precondition::default() },
        _ => Precondition::default(),
    }
}

fn upload_op(run: &mut Run, id: BucketId, bucket: &Bucket, precondition: Precondition) -> Option<Op> {
    let uploads: Vec<(UploadId, Bytes)> =
        bucket.uploads.iter().map(|(upload, held)| (*upload, held.key.clone())).collect();
    let Some((upload, key)) = pick(&mut run.rng, &uploads).cloned() else { return repeat(run) };
    let number = 1 + run.rng.below(4) as u16;
    Some(match run.rng.below(20) {
        0 => Op::Abort { bucket: id, key, upload },
        1 => repeat(run)?,
        2..=9 => {
            let (body, chunked) = body(&mut run.rng, bucket);
            Op::PutPart { bucket: id, key, upload, number, body, chunked }
        }
        10..=13 => copy_part(run, id, key, upload, number)?,
        _ => {
            let stored = &bucket.uploads[&upload].parts;
            let mut parts: Vec<_> = stored.iter().map(|(number, part)| (*number, part.body.md5)).collect();
            let large = |number: u16| stored[&number].body.bytes.len() >= LARGE;
            match run.rng.below(8) {
                0 => parts.reverse(),
                1 => parts.iter_mut().for_each(|(_, md5)| md5[0] ^= 1),
                2 => {}
                _ => {
                    // What S3 takes: large parts and one of any size behind them.
                    let small: Vec<u16> = stored.keys().copied().filter(|number| !large(*number)).collect();
                    let last = pick(&mut run.rng, &small).copied().unwrap_or(u16::MAX);
                    parts.retain(|(number, _)| *number == last || *number < last && large(*number));
                }
            }
            Op::Complete { bucket: id, key, upload, parts, precondition }
        }
    })
}

/// A completion that was answered once, asked again, or its upload aborted by a client that cleans up.
fn repeat(run: &mut Run) -> Option<Op> {
    let completed: Vec<_> = run.model().completed.iter().map(|(id, done)| (*id, done.clone())).collect();
    let (upload, done) = pick(&mut run.rng, &completed)?.clone();
    if run.rng.below(4) == 0 {
        return Some(Op::Abort { bucket: done.bucket, key: done.key, upload });
    }
    let precondition = Precondition::default();
    Some(Op::Complete { bucket: done.bucket, key: done.key, upload, parts: done.parts, precondition })
}

fn copy_part(run: &mut Run, bucket: BucketId, key: Bytes, upload: UploadId, number: u16) -> Option<Op> {
    let buckets = &run.model().buckets;
    let sources: Vec<_> = buckets
        .values()
        .filter_map(|held| Some((held.id?, held.objects())))
        .flat_map(|(id, objects)| objects.map(move |(key, object)| (id, key.clone(), object.clone())))
        .collect();
    let (source, source_key, object) = pick(&mut run.rng, &sources)?.clone();
    let held = run.bucket(source).expect("the model has it");
    let found = run.handle().object_in(&held, &source_key).unwrap().expect("the model has it");
    let size = object.body.bytes.len() as u64;
    let range = (size > 0 && run.rng.below(2) == 0).then(|| {
        let first = run.rng.below(size);
        (first, first + run.rng.below(size - first))
    });
    let body = match range {
        Some((first, last)) => Payload::new(object.body.bytes.slice(first as usize..=last as usize)),
        None => object.body,
    };
    let (stamp, sequence) = (object.stamp, found.object.sequence);
    let source = (source, source_key);
    Some(Op::CopyPart { source, stamp, sequence, range, body, bucket, key, upload, number })
}

/// An object and an upload from which a completion of several parts can be made.
pub fn large_upload(run: &mut Run) -> Option<Vec<Op>> {
    let (id, _) = run.model().buckets.values().find_map(|held| {
        let id = held.id.filter(|_| held.settings.chunk_size.is_none())?;
        Some((id, held.clone()))
    })?;
    let body = large(&mut run.rng);
    let upload = run.model().bucket(id)?.uploads.iter().map(|(id, held)| (*id, held.key.clone())).next();
    let (headers, precondition) = (ObjectHeaders::default(), Precondition::default());
    Some(match upload {
        None => vec![Op::CreateUpload { bucket: id, key: "large".into(), headers }],
        Some((upload, key)) => {
            let put = Op::Put { bucket: id, key: "a".into(), body: body.clone(), chunked: true, headers, precondition };
            vec![put, Op::PutPart { bucket: id, key, upload, number: 1, body, chunked: true }]
        }
    })
}
