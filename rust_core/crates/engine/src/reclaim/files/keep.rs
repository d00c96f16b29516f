//! Which records of a log file are still needed, by an index that has applied all of them and more.
//!
//! Invariants. Replaying what is kept, followed by everything behind the files it replaces, gives the same state as
//! replaying the originals: a record is dropped only when it can have no effect any more. A record that ended something
//! (a deletion, a condemnation, a move) is kept for as long as a file before the run may have what it ended, that is
//! unless the run begins with the first record of the log.

use std::collections::HashSet;

use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_index::Reader;
use orcas_record::{BlobLocation, BucketRole, ChunkMove, LogFileId, Record, Sequence, UploadId, Version};

pub(crate) enum Disposition {
    Keep,
    /// The record is rewritten in its present form, under the same sequence.
    Rewrite(Box<Record>),
    Drop,
}

/// The run of files that is rewritten, and its place in the log.
pub(crate) struct Scope<'a> {
    pub reader: &'a Reader<'a>,
    /// The run begins with the first record of the store.
    pub prefix: bool,
    /// Compacted files that stay in force.
    pub in_force: &'a HashSet<LogFileId>,
}

impl Scope<'_> {
    pub fn disposition(&self, sequence: Sequence, record: &Record) -> Result<Disposition> {
        let keep = |counts| Ok(if counts { Disposition::Keep } else { Disposition::Drop });
        match record {
            Record::CreateBucket(bucket) => keep(self.reader.bucket_sequence(bucket.id)?.is_some()),
            // One that makes a layer of a bucket ends its name, which another bucket may have got since.
            Record::UpdateBucket(bucket) => keep(
                self.reader.bucket_sequence(bucket.id)? == Some(sequence)
                    || bucket.role != BucketRole::Bucket && !self.prefix,
            ),
            // A removal as well: the index has a row for it, which a rebuild must give again.
            Record::PutDocument { bucket, kind, .. } => {
                keep(self.reader.document_sequence(*bucket, *kind)? == Some(sequence))
            }
            Record::CreatePack { pack } => keep(self.reader.has_pack(*pack)?),
            Record::Content { .. } => keep(self.reader.blob(sequence)?.is_some()),
            Record::Chunk { .. } => self.chunk(sequence, record),
            Record::Segment { .. } => keep(self.reader.has_segment(sequence)?),
            Record::PutVersion(_) => keep(self.reader.has_version(sequence)?),
            Record::MoveVersion { from_bucket, from_key, version } => {
                if self.reader.has_version(sequence)? {
                    return Ok(Disposition::Keep);
                }
                Ok(self.ended(Record::DeleteVersion {
                    bucket: *from_bucket,
                    key: from_key.clone(),
                    version_id: version.version_id,
                }))
            }
            Record::UpdateVersion { .. } if planted::is(Bug::UpdatesDropped) => Ok(Disposition::Drop),
            Record::UpdateVersion { version, .. } => keep(self.reader.version_updated(*version)? == Some(sequence)),
            Record::CreateUpload(upload) => {
                keep(self.reader.upload(upload.id)?.is_some_and(|stored| stored.sequence == sequence))
            }
            Record::PutPart(part) => {
                let stored = self.reader.part(part.upload, part.number)?;
                keep(stored.is_some_and(|row| row.part.sequence == sequence))
            }
            Record::CompleteUpload { upload, request, version } => self.completion(sequence, *upload, request, version),
            Record::RememberUpload { upload, .. } => {
                if self.reader.completed(*upload)?.is_some_and(|answer| answer.sequence == sequence) {
                    return Ok(Disposition::Keep);
                }
                Ok(self.ended(Record::AbortUpload { upload: *upload }))
            }
            Record::DeleteBucket { .. }
            | Record::DeleteVersion { .. }
            | Record::AbortUpload { .. }
            | Record::CondemnBlobs { .. } => keep(!self.prefix),
            // The highest number must be known for ever, or another pack would get it.
            Record::RetirePack { pack } => keep(!self.prefix || self.reader.highest_pack()? == Some(*pack)),
            Record::MoveChunks { moves } => self.moved_chunks(moves),
            Record::MoveContents { file, .. } | Record::ReplaceLog { file, .. } => keep(self.in_force.contains(file)),
        }
    }

    fn ended(&self, tombstone: Record) -> Disposition {
        if self.prefix { Disposition::Drop } else { Disposition::Rewrite(Box::new(tombstone)) }
    }

    /// A chunk is kept where it is now, so that the moves that brought it there need not be.
    fn chunk(&self, sequence: Sequence, record: &Record) -> Result<Disposition> {
        let Some(BlobLocation::Pack { at: present, .. }) = self.reader.blob(sequence)? else {
            return Ok(Disposition::Drop);
        };
        let mut record = record.clone();
        if let Record::Chunk { at, .. } = &mut record {
            if *at == present {
                return Ok(Disposition::Keep);
            }
            *at = present;
        }
        Ok(Disposition::Rewrite(Box::new(record)))
    }

    /// In a run from the beginning every chunk is at its present place already.
    fn moved_chunks(&self, moves: &[ChunkMove]) -> Result<Disposition> {
        if self.prefix {
            return Ok(Disposition::Drop);
        }
        let mut current = Vec::with_capacity(moves.len());
        for entry in moves {
            let here = |place| matches!(place, BlobLocation::Pack { at, .. } if at == entry.to);
            if self.reader.blob(entry.blob)?.is_some_and(here) {
                current.push(*entry);
            }
        }
        Ok(match current.len() {
            0 => Disposition::Drop,
            kept if kept == moves.len() => Disposition::Keep,
            _ => Disposition::Rewrite(Box::new(Record::MoveChunks { moves: current })),
        })
    }

    /// Without its version only the answer for repeated requests is left. An upload that was created before the run
    /// is ended by it all the same.
    fn completion(
        &self,
        sequence: Sequence,
        upload: UploadId,
        request: &[u8; 32],
        version: &Version,
    ) -> Result<Disposition> {
        if self.reader.has_version(sequence)? {
            return Ok(Disposition::Keep);
        }
        let remembered = self.reader.completed(upload)?.is_some_and(|answer| answer.sequence == sequence);
        if !remembered {
            return Ok(self.ended(Record::AbortUpload { upload }));
        }
        Ok(Disposition::Rewrite(Box::new(Record::RememberUpload {
            upload,
            request: *request,
            bucket: version.bucket,
            key: version.key.clone(),
            version_id: version.version_id,
            etag: version.etag,
            checksum: version.checksum,
        })))
    }
}
