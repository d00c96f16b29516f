//! Operations of the model as the intents that a front end would submit.

use std::sync::Arc;

use bytes::Bytes;
use orcas_base::error::Result;
use orcas_decide::{
    Annotate, AnnotationChange, AttributeChange, Body, BucketChange, Complete, CompletePart, Copy, CopyAttributes,
    CopyHeaders, CopyPart, Expire, ExpireEntry, Intent, Move, MovePrefix, ObjectAppend, PutObject, PutPart,
    RequestToken, SettingsChange, SourceConditions, UpdateVersion,
};
use orcas_record::{Attributes, Bucket, BucketId, DefaultRetention, Encryption, ObjectHeaders, ObjectLock, Period};

use super::run::Run;
use crate::model::{Expiring, Named, Op, Payload, is_locked};
use orcas_store::Sealing;

/// What a client says of a body. The rest is up to the caller.
fn put_of(body: &Payload, stored: Body, encryption: Option<Encryption>) -> PutObject {
    PutObject {
        bucket: BucketId(0),
        key: Bytes::new(),
        modified_ms: None,
        precondition: Default::default(),
        size: body.bytes.len() as u64,
        md5: body.md5,
        sha256: None,
        checksum: None,
        headers: Default::default(),
        attributes: of(encryption),
        body: stored,
    }
}

fn of(encryption: Option<Encryption>) -> Attributes {
    Attributes { encryption, ..Attributes::default() }
}

/// For a request that is refused because there is no bucket.
fn start_of(body: &Payload) -> Body {
    Body::Inline(body.bytes.slice(..body.bytes.len().min(256)))
}

fn update_version(bucket: BucketId, key: Bytes, version: Named, change: AttributeChange) -> Intent {
    Intent::UpdateVersion(Box::new(UpdateVersion { bucket, key, version: Some(version.id), change }))
}

/// The value of a tag, the only one that objects have here.
fn tags(tag: Option<u64>) -> Vec<(Bytes, Bytes)> {
    tag.map(|tag| ("tag".into(), tag.to_string().into())).into_iter().collect()
}

fn expire_entry(Expiring { key, place, sequence, tag, .. }: Expiring) -> ExpireEntry {
    ExpireEntry { key, sequence, place, tags: tag.map(tags) }
}

/// By what a client asks for, whatever that is.
fn request_token(token: u64, op: &Op) -> RequestToken {
    RequestToken {
        token: blake3::hash(&token.to_le_bytes()).into(),
        request: blake3::hash(format!("{op:?}").as_bytes()).into(),
    }
}

impl Run {
    pub fn intent(&mut self, op: &Op) -> Result<Intent> {
        Ok(match op.clone() {
            Op::CreateBucket { name, settings } => {
                let (owner, location) = ("root".into(), Default::default());
                let object_lock = is_locked(&name);
                Intent::CreateBucket { name, owner, location, settings, object_lock, documents: Vec::new() }
            }
            Op::UpdateBucket { bucket, settings } => {
                let change = SettingsChange {
                    chunk_size: Some(settings.chunk_size),
                    durability: Some(settings.durability),
                    ref_level: Some(settings.ref_level),
                    chunking: Some(settings.chunking),
                    keep_sha256: Some(settings.keep_sha256),
                };
                Intent::UpdateBucket { bucket, change: BucketChange::Settings(change) }
            }
            Op::Versioning { bucket, versioning } => {
                Intent::UpdateBucket { bucket, change: BucketChange::Versioning(versioning) }
            }
            Op::DefaultRetention { bucket, mode } => {
                let default = mode.map(|mode| DefaultRetention { mode, period: Period::Days(1) });
                Intent::UpdateBucket { bucket, change: BucketChange::ObjectLock(ObjectLock { default }) }
            }
            Op::DeleteVersion { bucket, key, version, precondition, bypass } => {
                Intent::DeleteObject { bucket, key, version: Some(version.id), precondition, bypass }
            }
            Op::Tag { bucket, key, version, tag } => {
                update_version(bucket, key, version, AttributeChange::Tags(tags(Some(tag))))
            }
            Op::Annotate { bucket, key, version, name, text, bypass } => {
                let change = match text {
                    Some(text) => {
                        let (body, encryption) = self.body(bucket, &text, false)?;
                        AnnotationChange::Put { md5: text.md5, checksum: None, encryption, body: Box::new(body) }
                    }
                    None => AnnotationChange::Delete { bypass },
                };
                let (name, version) = (name.to_string().into(), Some(version.id));
                Intent::Annotate(Box::new(Annotate { bucket, key, version, name, if_match: None, change }))
            }
            Op::Hold { bucket, key, version, on } => {
                update_version(bucket, key, version, AttributeChange::LegalHold(on))
            }
            Op::Retain { bucket, key, version, retention, bypass } => {
                update_version(bucket, key, version, AttributeChange::Retention { retention, bypass })
            }
            Op::DeleteBucket { bucket } => Intent::DeleteBucket { bucket },
            Op::PutDocument { bucket, kind, document } => Intent::PutDocument { bucket, kind, document },
            Op::Put { bucket, key, body, chunked, headers, precondition } => {
                let (stored, encryption) = self.body(bucket, &body, chunked)?;
                let headers = self.headers(bucket, headers)?;
                let put = PutObject { bucket, key, precondition, headers, ..put_of(&body, stored, encryption) };
                Intent::PutObject(Box::new(put))
            }
            Op::Append { bucket, key, offset, body, chunked, headers, precondition } => {
                let (stored, encryption) = self.appended_body(bucket, &body, chunked)?;
                let user_metadata = !headers.user.is_empty();
                let headers = self.headers(bucket, headers)?;
                let put = PutObject { bucket, key, precondition, headers, ..put_of(&body, stored, encryption) };
                Intent::AppendObject(Box::new(ObjectAppend { put, offset, user_metadata, declared: None }))
            }
            Op::Delete { bucket, key, precondition } => {
                Intent::DeleteObject { bucket, key, precondition, version: None, bypass: false }
            }
            Op::DeleteMany { bucket, entries } => Intent::DeleteObjects { bucket, entries },
            Op::Copy { source, bucket, key, headers, annotations, precondition } => {
                Intent::CopyObject(Box::new(Copy {
                    source: (source.0, source.1, None),
                    source_conditions: SourceConditions::default(),
                    bucket,
                    key,
                    modified_ms: None,
                    precondition,
                    headers: match headers {
                        None => CopyHeaders::default(),
                        Some(headers) => CopyHeaders::Replace(Box::new(self.headers(bucket, headers)?)),
                    },
                    attributes: CopyAttributes { annotations, ..CopyAttributes::default() },
                    checksum: None,
                }))
            }
            Op::CopyMany { source, bucket, entries } => Intent::CopyObjects { source, bucket, entries },
            Op::Move { from_bucket, from_key, bucket, key, precondition, token } => {
                let from_conditions = SourceConditions::default();
                let moved = Box::new(Move { from_bucket, from_key, from_conditions, bucket, key, precondition });
                match token.map(|token| request_token(token, op)) {
                    Some(token) => Intent::MoveOnce { moved, token },
                    None => Intent::MoveObject(moved),
                }
            }
            Op::MovePrefix { from_bucket, from_prefix, bucket, prefix, overwrite, limit, .. } => {
                let request = MovePrefix { from_bucket, from_prefix, bucket, prefix, overwrite, limit };
                self.stepper.move_intent(&request)?
            }
            Op::CreateSnapshot { bucket, name } => Intent::CreateSnapshot { bucket, name },
            Op::DeleteSnapshot { bucket, name } => Intent::DeleteSnapshot { bucket, name },
            Op::Fork { bucket, snapshot, name } => Intent::ForkBucket { bucket, snapshot, name },
            Op::Restore { bucket, snapshot } => Intent::RestoreBucket { bucket, snapshot },
            Op::Expire { bucket, document, entries } => {
                let entries = entries.into_iter().map(expire_entry).collect();
                Intent::Expire(Box::new(Expire { bucket, document, top: None, entries }))
            }
            _ => return self.upload_intent(op),
        })
    }

    fn upload_intent(&mut self, op: &Op) -> Result<Intent> {
        Ok(match op.clone() {
            Op::CreateUpload { bucket, key, headers } => Intent::CreateUpload {
                bucket,
                key,
                headers: Box::new(self.headers(bucket, headers)?),
                attributes: of(self.sealing()?.encryption),
                checksum: None,
            },
            Op::PutPart { bucket, key, upload, number, body, chunked } => Intent::PutPart(Box::new(PutPart {
                bucket,
                key,
                upload,
                number,
                size: body.bytes.len() as u64,
                md5: body.md5,
                checksum: None,
                computed: None,
                body: self.body(bucket, &body, chunked)?.0,
            })),
            Op::CopyPart { source, sequence, range, body, bucket, key, upload, number, .. } => {
                Intent::CopyPart(Box::new(CopyPart {
                    source: (source.0, source.1, None),
                    source_sequence: sequence,
                    source_conditions: SourceConditions::default(),
                    range,
                    bucket,
                    key,
                    upload,
                    number,
                    md5: body.md5,
                    checksum: None,
                }))
            }
            Op::Abort { bucket, key, upload } => Intent::AbortUpload { bucket, key, upload, idle_since_ms: None },
            Op::Complete { bucket, key, upload, parts, precondition } => Intent::CompleteUpload(Box::new(Complete {
                bucket,
                key,
                upload,
                parts: parts.iter().map(|&(number, md5)| CompletePart { number, md5, checksum: None }).collect(),
                checksum_type: None,
                checksum: None,
                size: None,
                modified_ms: None,
                precondition,
            })),
            _ => unreachable!("not about an upload: {op:?}"),
        })
    }

    fn sealing(&self) -> Result<Sealing> {
        self.world.mode.sealing(self.handle())
    }

    /// Headers as a client's upload stores them.
    fn headers(&self, bucket: BucketId, headers: ObjectHeaders) -> Result<ObjectHeaders> {
        match self.bucket_or_another(bucket) {
            Some(bucket) => self.handle().content().sealed_headers(&bucket, &self.sealing()?, headers),
            None => Ok(headers),
        }
    }

    /// Stores a body as a client's upload would, and says how it is encrypted; for a bucket that is gone, as if it had
    /// gone meanwhile.
    fn body(&mut self, bucket: BucketId, body: &Payload, chunked: bool) -> Result<(Body, Option<Encryption>)> {
        let Some(bucket) = self.bucket_or_another(bucket) else { return Ok((start_of(body), None)) };
        let sealing = self.sealing()?;
        let stored = match (chunked, &sealing.encryption) {
            (true, _) => self.chunked_body(&bucket, &sealing, body)?,
            (false, Some(_)) => self.handle().content().sealed_body(&bucket, &sealing, &body.bytes)?,
            (false, None) => self.handle().content().small_body(&bucket, body.bytes.clone()),
        };
        Ok((stored, sealing.encryption))
    }

    fn appended_body(&mut self, bucket: BucketId, body: &Payload, chunked: bool) -> Result<(Body, Option<Encryption>)> {
        match self.bucket_or_another(bucket) {
            Some(bucket) if !chunked && self.sealing()?.encryption.is_none() => {
                Ok((self.handle().content().appended_body(&bucket, body.bytes.clone()), None))
            }
            _ => self.body(bucket, body, chunked),
        }
    }

    fn bucket_or_another(&self, bucket: BucketId) -> Option<Arc<Bucket>> {
        self.bucket(bucket).or_else(|| self.handle().buckets().first().cloned())
    }

    fn chunked_body(&mut self, bucket: &Bucket, sealing: &Sealing, body: &Payload) -> Result<Body> {
        let mut writer = self.handle().content().body_writer(bucket, sealing, body.bytes.len() as u64)?;
        for piece in body.bytes.chunks(40_000) {
            writer.write(piece, &mut ())?;
        }
        writer.finish()
    }
}
