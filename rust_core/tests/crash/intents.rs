//! Operations of the model as the intents that a front end would submit.

use bytes::Bytes;
use orcas_base::error::Result;
use orcas_decide::{
    AttributeChange, Body, BucketChange, Complete, CompletePart, Copy, CopyHeaders, CopyPart, Intent, Move, PutObject,
    PutPart, SourceConditions, UpdateVersion,
};
use orcas_record::BucketId;

use crate::model::{Named, Op, Payload, is_locked};
use crate::run::Run;

fn update_version(bucket: BucketId, key: Bytes, version: Named, change: AttributeChange) -> Intent {
    Intent::UpdateVersion(Box::new(UpdateVersion { bucket, key, version: Some(version.id), change }))
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
                Intent::UpdateBucket { bucket, change: BucketChange::Settings(settings) }
            }
            Op::Versioning { bucket, versioning } => {
                Intent::UpdateBucket { bucket, change: BucketChange::Versioning(versioning) }
            }
            Op::DeleteVersion { bucket, key, version } => {
                let (version, precondition) = (Some(version.id), Default::default());
                Intent::DeleteObject { bucket, key, version, precondition, bypass: true }
            }
            Op::Tag { bucket, key, version, tag } => {
                let tags = vec![("tag".into(), tag.to_string().into())];
                update_version(bucket, key, version, AttributeChange::Tags(tags))
            }
            Op::Hold { bucket, key, version, on } => {
                update_version(bucket, key, version, AttributeChange::LegalHold(on))
            }
            Op::DeleteBucket { bucket } => Intent::DeleteBucket { bucket },
            Op::PutDocument { bucket, kind, document } => Intent::PutDocument { bucket, kind, document },
            Op::Put { bucket, key, body, chunked, headers, precondition } => Intent::PutObject(Box::new(PutObject {
                bucket,
                key,
                precondition,
                size: body.bytes.len() as u64,
                md5: body.md5,
                sha256: None,
                checksum: None,
                headers,
                attributes: Default::default(),
                body: self.body(bucket, &body, chunked)?,
            })),
            Op::Delete { bucket, key, precondition } => {
                Intent::DeleteObject { bucket, key, precondition, version: None, bypass: false }
            }
            Op::DeleteMany { bucket, entries } => Intent::DeleteObjects { bucket, entries },
            Op::Copy { source, bucket, key, headers, precondition } => Intent::CopyObject(Box::new(Copy {
                source: (source.0, source.1, None),
                source_conditions: SourceConditions::default(),
                bucket,
                key,
                precondition,
                headers: headers.map_or_else(CopyHeaders::default, |headers| CopyHeaders::Replace(Box::new(headers))),
                attributes: Default::default(),
                checksum: None,
            })),
            Op::Move { from_bucket, from_key, bucket, key, precondition } => Intent::MoveObject(Box::new(Move {
                from_bucket,
                from_key,
                from_conditions: SourceConditions::default(),
                bucket,
                key,
                precondition,
            })),
            _ => return self.upload_intent(op),
        })
    }

    fn upload_intent(&mut self, op: &Op) -> Result<Intent> {
        Ok(match op.clone() {
            Op::CreateUpload { bucket, key, headers } => Intent::CreateUpload {
                bucket,
                key,
                headers: Box::new(headers),
                attributes: Default::default(),
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
                body: self.body(bucket, &body, chunked)?,
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
            Op::Abort { bucket, key, upload } => Intent::AbortUpload { bucket, key, upload },
            Op::Complete { bucket, key, upload, parts, precondition } => Intent::CompleteUpload(Box::new(Complete {
                bucket,
                key,
                upload,
                parts: parts.iter().map(|&(number, md5)| CompletePart { number, md5, checksum: None }).collect(),
                checksum_type: None,
                checksum: None,
                size: None,
                precondition,
            })),
            _ => unreachable!("not about an upload: {op:?}"),
        })
    }

    /// Stores a body as a client's upload would; for a bucket that is gone, as if it had gone meanwhile.
    fn body(&mut self, bucket: BucketId, body: &Payload, chunked: bool) -> Result<Body> {
        let buckets = self.handle().buckets();
        let Some(bucket) = buckets.iter().find(|held| held.id == bucket).or(buckets.first()) else {
            return Ok(Body::Inline(body.bytes.slice(..body.bytes.len().min(256))));
        };
        if !chunked {
            return Ok(self.handle().small_body(bucket, body.bytes.clone()));
        }
        let mut writer = self.handle().body_writer(bucket, body.bytes.len() as u64);
        for piece in body.bytes.chunks(40_000) {
            writer.write(piece, &mut ())?;
        }
        writer.finish()
    }
}
