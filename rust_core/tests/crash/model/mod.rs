//! The plain model: what the store holds after a sequence of operations, and what each of them must be answered.

pub(crate) mod appends;
pub(crate) mod copies;
pub(crate) mod documents;
mod expiry;
mod layers;
pub(crate) mod moves;
mod ops;
pub(crate) mod quotas;
mod text;
mod versions;

pub(crate) use expiry::expire_ops;
pub(crate) use layers::layer_ops;
pub use ops::{Expiring, Named, Op, Payload};
pub(crate) use text::{annotation_line, bucket_line, object_line, part_line, snapshot_line, upload_line, version_line};
pub(crate) use versions::{version_ops, versioning_op};

use std::collections::BTreeMap;

use bytes::Bytes;
use orcas_checksum::Etag;
use orcas_decide::{DeleteEntry, EtagMatch, Expired, PART_SIZE_MIN, Precondition, Refusal};
use orcas_record::{
    BucketId, BucketSettings, Durability, ObjectHeaders, Retention, RetentionMode, UploadId, Versioning,
};

use documents::Documents;

/// By name, the texts and when they were written.
pub type Annotations = BTreeMap<u64, (Payload, u64)>;

/// A version: an object or a delete marker.
#[derive(Clone, Debug)]
pub struct Object {
    /// Another one for every record that ever brought a version.
    pub stamp: u64,
    /// That of the first record of this version, by which clients name it.
    pub first: u64,
    /// It is no null version.
    pub named: bool,
    pub marker: bool,
    /// It is in a layer that no longer changes, so what changes it is a record that brings it again.
    pub frozen: bool,
    pub tag: Option<u64>,
    pub annotations: Annotations,
    pub hold: Option<bool>,
    pub retention: Option<Retention>,
    pub body: Payload,
    pub etag: Etag,
    pub modified_ms: u64,
    pub headers: ObjectHeaders,
    pub parts: Vec<(u16, u64)>,
}

#[derive(Clone, Debug)]
pub struct Part {
    pub body: Payload,
    pub modified_ms: u64,
}

#[derive(Clone, Debug)]
pub struct Upload {
    pub key: Bytes,
    pub initiated_ms: u64,
    pub headers: ObjectHeaders,
    pub parts: BTreeMap<u16, Part>,
}

/// Of each key, oldest first.
pub type Versions = BTreeMap<Bytes, Vec<Object>>;

/// What a bucket showed at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub created_ms: u64,
    pub versions: Versions,
}

#[derive(Clone, Debug)]
pub struct Bucket {
    /// Known once the creation was answered.
    pub id: Option<BucketId>,
    pub created_ms: u64,
    pub settings: BucketSettings,
    pub versioning: Versioning,
    /// Versions can be locked.
    pub lock: bool,
    /// Of new versions, if they can be locked: for a day.
    pub default: Option<RetentionMode>,
    pub versions: Versions,
    /// It has had snapshots or is a fork.
    pub layered: bool,
    pub snapshots: BTreeMap<Bytes, Snapshot>,
    pub documents: Documents,
    pub uploads: BTreeMap<UploadId, Upload>,
}

#[derive(Clone, Debug)]
pub struct Completed {
    pub bucket: BucketId,
    pub key: Bytes,
    pub parts: Vec<(u16, [u8; 16])>,
    /// The bucket was restored since, so that it may be forgotten.
    pub restored: bool,
    /// The layer of the object was frozen since. If it is merged with another one, the completion is remembered for as
    /// long as the object is there.
    pub frozen: bool,
    pub etag: Etag,
    /// Of the version that it made.
    pub first: u64,
}

/// When an operation is decided.
#[derive(Clone, Copy)]
pub struct Moment {
    pub now_ms: u64,
    pub upload: UploadId,
    pub stamp: u64,
}

/// What an operation that is not refused does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationEffect {
    /// Whether it changed anything.
    pub effective: bool,
    pub etag: Option<Etag>,
    pub entries: Vec<Result<(), Refusal>>,
    pub expired: Expired,
    /// Objects and their bytes.
    pub moved: (u64, u64),
}

#[derive(Clone, Debug)]
pub struct Model {
    pub buckets: BTreeMap<Bytes, Bucket>,
    pub completed: BTreeMap<UploadId, Completed>,
    /// Moves under a token. A restart forgets them.
    pub tokens: BTreeMap<u64, String>,
    /// Changes of attributes so far.
    pub updates: u64,
    default: Durability,
}

/// Versions of such a bucket can be locked.
pub fn is_locked(bucket: &[u8]) -> bool {
    bucket == b"locked"
}

pub const INVALID_STATE: Refusal = Refusal::InvalidBucketState { reason: "" };
pub const INVALID: Refusal = Refusal::InvalidRequest { reason: "" };

pub(super) fn done(effective: bool, etag: Option<Etag>) -> Result<OperationEffect, Refusal> {
    Ok(OperationEffect { effective, etag, ..OperationEffect::default() })
}

pub(super) fn evaluate(current: Option<&Object>, precondition: &Precondition) -> Result<(), Refusal> {
    if let Some(wanted) = &precondition.if_match {
        let current = current.ok_or(Refusal::NoSuchKey)?;
        if !EtagMatch::matches(wanted, &current.etag) {
            return Err(Refusal::PreconditionFailed { condition: "If-Match" });
        }
    }
    if precondition.if_none_match_any && current.is_some() {
        return Err(Refusal::PreconditionFailed { condition: "If-None-Match" });
    }
    Ok(())
}

impl Model {
    pub fn new(default: Durability) -> Self {
        let (buckets, completed, tokens) = Default::default();
        Self { buckets, completed, tokens, updates: 0, default }
    }

    pub fn bucket(&self, id: BucketId) -> Option<&Bucket> {
        self.buckets.values().find(|bucket| bucket.id == Some(id))
    }

    pub(super) fn live(&mut self, id: BucketId) -> Result<&mut Bucket, Refusal> {
        self.buckets.values_mut().find(|bucket| bucket.id == Some(id)).ok_or(Refusal::NoSuchBucket)
    }

    fn upload(&mut self, id: BucketId, key: &Bytes, upload: UploadId) -> Result<&mut Upload, Refusal> {
        let found = self.live(id)?.uploads.get_mut(&upload);
        found.filter(|upload| upload.key == *key).ok_or(Refusal::NoSuchUpload)
    }

    pub(super) fn source(&mut self, (bucket, key): &(BucketId, Bytes)) -> Result<Object, Refusal> {
        self.live(*bucket)?.current(key).cloned().ok_or(Refusal::NoSuchKey)
    }

    /// What the answer to `op` promises.
    pub fn durability(&self, op: &Op) -> Durability {
        let of = |id: &BucketId| self.bucket(*id).and_then(|bucket| bucket.settings.durability).unwrap_or(self.default);
        match op {
            Op::CreateBucket { .. }
            | Op::UpdateBucket { .. }
            | Op::Versioning { .. }
            | Op::DeleteBucket { .. }
            | Op::Tag { .. }
            | Op::Hold { .. }
            | Op::Retain { .. }
            | Op::DefaultRetention { .. }
            | Op::PutDocument { .. }
            | Op::CopyMany { .. }
            | Op::MovePrefix { .. }
            | Op::CreateSnapshot { .. }
            | Op::DeleteSnapshot { .. }
            | Op::Fork { .. }
            | Op::Restore { .. }
            | Op::Complete { .. } => Durability::Sync,
            Op::Put { chunked: true, .. } | Op::Append { chunked: true, .. } | Op::PutPart { chunked: true, .. } => {
                Durability::Sync
            }
            Op::Move { from_bucket, bucket, .. } => of(from_bucket).max(of(bucket)),
            Op::Put { bucket, .. }
            | Op::Append { bucket, .. }
            | Op::Expire { bucket, .. }
            | Op::PutPart { bucket, .. }
            | Op::Delete { bucket, .. }
            | Op::DeleteVersion { bucket, .. }
            | Op::DeleteMany { bucket, .. }
            | Op::Copy { bucket, .. }
            | Op::CreateUpload { bucket, .. }
            | Op::CopyPart { bucket, .. }
            | Op::Annotate { bucket, .. }
            | Op::Abort { bucket, .. } => of(bucket),
        }
    }

    pub fn apply(&mut self, op: &Op, at: Moment) -> Result<OperationEffect, Refusal> {
        if !self.buckets.values().any(Bucket::has_quota) {
            return self.apply_unlimited(op, at);
        }
        let before = self.clone();
        let effect = self.apply_unlimited(op, at)?;
        if let Err(refusal) = quotas::check(&before, self, op) {
            *self = before;
            return Err(refusal);
        }
        Ok(effect)
    }

    fn apply_unlimited(&mut self, op: &Op, at: Moment) -> Result<OperationEffect, Refusal> {
        match op {
            Op::CreateBucket { .. } | Op::UpdateBucket { .. } | Op::Versioning { .. } | Op::DeleteBucket { .. } => {
                self.apply_to_bucket(op, at)
            }
            Op::DefaultRetention { bucket, mode } => self.set_default_retention(*bucket, *mode),
            Op::DeleteVersion { .. } => self.delete_version(op, at),
            Op::Tag { .. } | Op::Annotate { .. } | Op::Hold { .. } | Op::Retain { .. } => self.update_version(op, at),
            Op::PutDocument { bucket, kind, document } => documents::put(self.live(*bucket)?, *kind, document),
            Op::Put { .. } | Op::Delete { .. } | Op::DeleteMany { .. } => self.apply_to_object(op, at),
            Op::Append { .. } => self.append(op, at),
            Op::Copy { .. } => self.copy(op, at),
            Op::CopyMany { source, bucket, entries } => self.copy_many(*source, *bucket, entries, at),
            Op::Move { .. } => self.move_one(op, at),
            Op::MovePrefix { .. } => self.move_prefix(op, at),
            Op::CreateSnapshot { .. } | Op::DeleteSnapshot { .. } | Op::Fork { .. } | Op::Restore { .. } => {
                self.apply_to_layers(op, at)
            }
            Op::Expire { bucket, document, entries } => self.expire(*bucket, document, entries, at),
            _ => self.apply_to_upload(op, at),
        }
    }

    fn apply_to_bucket(&mut self, op: &Op, at: Moment) -> Result<OperationEffect, Refusal> {
        match op {
            Op::CreateBucket { name, settings } => {
                if self.buckets.contains_key(name) {
                    return Err(Refusal::BucketAlreadyOwnedByYou);
                }
                let bucket = Bucket {
                    id: None,
                    created_ms: at.now_ms,
                    settings: *settings,
                    versioning: if is_locked(name) { Versioning::Enabled } else { Versioning::Unversioned },
                    lock: is_locked(name),
                    default: None,
                    versions: BTreeMap::new(),
                    layered: false,
                    snapshots: BTreeMap::new(),
                    documents: Documents::new(),
                    uploads: BTreeMap::new(),
                };
                self.buckets.insert(name.clone(), bucket);
                done(true, None)
            }
            Op::UpdateBucket { bucket, settings } => {
                self.live(*bucket)?.settings = *settings;
                done(true, None)
            }
            Op::Versioning { bucket, versioning } => {
                let held = self.live(*bucket)?;
                if held.lock && *versioning != Versioning::Enabled {
                    return Err(INVALID_STATE);
                }
                let is_first = held.versioning == Versioning::Unversioned;
                held.versioning = *versioning;
                if is_first && held.layered {
                    held.freeze();
                    self.note_freeze(*bucket);
                }
                done(true, None)
            }
            Op::DeleteBucket { bucket } => {
                let held = self.live(*bucket)?;
                if !held.snapshots.is_empty() {
                    return Err(INVALID_STATE);
                }
                if !held.versions.is_empty() {
                    return Err(Refusal::BucketNotEmpty);
                }
                self.buckets.retain(|_, held| held.id != Some(*bucket));
                done(true, None)
            }
            _ => unreachable!("not about a bucket: {op:?}"),
        }
    }

    fn apply_to_object(&mut self, op: &Op, at: Moment) -> Result<OperationEffect, Refusal> {
        match op {
            Op::Put { bucket, key, body, headers, precondition, .. } => {
                let bucket = self.live(*bucket)?;
                evaluate(bucket.current(key), precondition)?;
                bucket.put(key, Object { headers: headers.clone(), ..Object::new(body.clone(), at) });
                done(true, Some(Etag::simple(body.md5)))
            }
            Op::Delete { bucket, key, precondition } => {
                let bucket = self.live(*bucket)?;
                evaluate(bucket.current(key), precondition)?;
                done(bucket.delete(key, at), None)
            }
            Op::DeleteMany { bucket, entries } => {
                let bucket = self.live(*bucket)?;
                let mut effective = false;
                let delete = |(stamp, DeleteEntry { key, precondition, .. }): (u64, &DeleteEntry)| {
                    evaluate(bucket.current(key), precondition)?;
                    effective |= bucket.delete(key, Moment { stamp, ..at });
                    Ok(())
                };
                let entries = (at.stamp..).zip(entries).map(delete).collect();
                Ok(OperationEffect { effective, entries, ..OperationEffect::default() })
            }
            _ => unreachable!("not about an object: {op:?}"),
        }
    }

    fn apply_to_upload(&mut self, op: &Op, at: Moment) -> Result<OperationEffect, Refusal> {
        match op {
            Op::CreateUpload { bucket, key, headers } => {
                let upload = Upload {
                    key: key.clone(),
                    initiated_ms: at.now_ms,
                    headers: headers.clone(),
                    parts: BTreeMap::new(),
                };
                self.live(*bucket)?.uploads.insert(at.upload, upload);
                done(true, None)
            }
            Op::PutPart { bucket, key, upload, number, body, .. } => {
                let part = Part { body: body.clone(), modified_ms: at.now_ms };
                self.upload(*bucket, key, *upload)?.parts.insert(*number, part);
                done(true, Some(Etag::simple(body.md5)))
            }
            Op::CopyPart { source, stamp, body, bucket, key, upload, number, .. } => {
                self.upload(*bucket, key, *upload)?;
                if self.source(source)?.stamp != *stamp {
                    return Err(Refusal::SourceChanged);
                }
                let part = Part { body: body.clone(), modified_ms: at.now_ms };
                self.upload(*bucket, key, *upload)?.parts.insert(*number, part);
                done(true, Some(Etag::simple(body.md5)))
            }
            Op::Abort { bucket, key, upload } => {
                self.live(*bucket)?;
                if self.upload(*bucket, key, *upload).is_err() {
                    let same = |done: &&Completed| done.bucket == *bucket && done.key == *key;
                    self.completed.get(upload).filter(same).ok_or(Refusal::NoSuchUpload)?;
                    return done(false, None);
                }
                self.live(*bucket)?.uploads.remove(upload);
                done(true, None)
            }
            Op::Complete { bucket, key, upload, parts, precondition } => {
                self.complete(*bucket, key, *upload, parts, precondition, at)
            }
            _ => unreachable!("not about an upload: {op:?}"),
        }
    }

    fn complete(
        &mut self,
        bucket: BucketId,
        key: &Bytes,
        id: UploadId,
        parts: &[(u16, [u8; 16])],
        precondition: &Precondition,
        at: Moment,
    ) -> Result<OperationEffect, Refusal> {
        self.live(bucket)?;
        let Ok(upload) = self.upload(bucket, key, id) else {
            let same = |done: &&Completed| done.bucket == bucket && done.key == *key && done.parts == parts;
            let completed = self.completed.get(&id).filter(same).ok_or(Refusal::NoSuchUpload)?;
            return done(false, Some(completed.etag));
        };
        let upload = upload.clone();
        if !parts.windows(2).all(|pair| pair[0].0 < pair[1].0) {
            return Err(Refusal::InvalidPartOrder);
        }
        let mut bytes = Vec::new();
        let mut chosen = Vec::new();
        for (position, (number, md5)) in parts.iter().enumerate() {
            let part = upload.parts.get(number).filter(|part| part.body.md5 == *md5);
            let part = part.ok_or(Refusal::InvalidPart { number: *number })?;
            let size = part.body.bytes.len() as u64;
            if position + 1 < parts.len() && size < PART_SIZE_MIN {
                return Err(Refusal::EntityTooSmall { number: *number, size });
            }
            bytes.extend_from_slice(&part.body.bytes);
            chosen.push((*number, size));
        }
        if chosen.is_empty() {
            return Err(INVALID);
        }
        let held = self.live(bucket)?;
        evaluate(held.current(key), precondition)?;
        let etag = Etag::multipart(parts.iter().map(|(_, md5)| md5)).unwrap();
        let object = Object::new(Payload::new(bytes.into()), at);
        held.put(key, Object { etag, headers: upload.headers, parts: chosen, ..object });
        held.uploads.remove(&id);
        let completed = Completed {
            bucket,
            key: key.clone(),
            parts: parts.to_vec(),
            restored: false,
            frozen: false,
            etag,
            first: at.stamp,
        };
        self.completed.insert(id, completed);
        done(true, Some(etag))
    }
}
