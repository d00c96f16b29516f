//! The records of the log, verified and in order. The log is read twice, because the name of a bucket can come after
//! records that refer to it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use orcas_base::error::Result;
use orcas_log::{LogFault, LogGap, LogOptions, LogPiece, OtherLog, RecoveredBatch, RecoveredRecord, Seen};
use orcas_record::{self as record, Bucket, BucketId, BucketRole, Record, Sequence, UploadId};
use orcas_store::StoreKeys;

use super::describe::{Fields, Value};
use super::{Entry, Inspection, UNREADABLE};

/// What the records say about buckets, and which of them and of their uploads are selected.
#[derive(Default)]
struct Names {
    /// Names of buckets and snapshots, also for the layers under whose ids objects are.
    buckets: HashMap<BucketId, Bytes>,
    selected: HashSet<BucketId>,
    uploads: HashSet<UploadId>,
}

impl Inspection<'_> {
    pub(super) fn log(&mut self) -> Result<()> {
        let dir = self.data.join("log");
        let mut keys = None;
        for (path, read) in StoreKeys::inspect(&self.fs, self.data) {
            match read {
                Ok(read) => keys = keys.or(Some(read)),
                Err(error) => self.failed(&path, &error)?,
            }
        }
        let Some(keys) = keys else {
            let reason = "without the store's keys no record can be verified; `orcas serve --salvage` needs none";
            return self.unreadable(&dir, 0, reason);
        };
        let options = LogOptions {
            dir: dir.clone(),
            store_id: keys.store_id,
            commit_key: keys.commit_key,
            file_size: orcas_log::FILE_SIZE,
            established: true,
            random: Arc::new(orcas_fs::real::SystemRandom),
        };
        let found = orcas_log::inspect(Arc::clone(&self.fs), options.clone(), &BTreeSet::new(), None);
        let found = match found {
            Ok(found) => found,
            Err(error) => return self.failed(&dir, &error),
        };
        for fault in &found.faults {
            self.fault(fault)?;
        }
        for place in &found.lost_copies {
            self.unreadable(&dir, 0, format!("{place}: one of two copies of the header is damaged"))?;
        }
        for other in &found.others {
            if let OtherLog::Headless(file) = other {
                self.unreadable(&options.path(*file), 0, "the file has no header, but other bytes")?;
            }
        }
        let mut names = Names::default();
        for piece in &found.pieces {
            self.learn(piece, &mut names)?;
        }
        for piece in &found.pieces {
            if let Some(gap) = &piece.gap {
                self.gap(gap)?;
            }
            self.piece(piece, &mut names)?;
        }
        found.gap.as_ref().map_or(Ok(()), |gap| self.gap(gap))
    }

    /// Collects the names of buckets.
    fn learn(&self, piece: &LogPiece, names: &mut Names) -> Result<()> {
        let mut ended = Ok(());
        let tick = |_| (self.tick)();
        // What cannot be read is shown when the records are.
        let _ = piece.examine(0, &tick, &mut |seen| {
            if let Seen::Batch(batch) = seen {
                for recovered in &batch.records {
                    let decoded = record::decode(recovered.kind, &recovered.payload);
                    if let Ok(Record::CreateBucket(bucket) | Record::UpdateBucket(bucket)) = decoded {
                        names.learn(&bucket, self.filter.bucket.as_ref());
                    }
                }
            }
            ended = (self.tick)();
            ended.clone()
        });
        ended
    }

    fn piece(&mut self, piece: &LogPiece, names: &mut Names) -> Result<()> {
        let path = piece.path();
        let mut ended = Ok(());
        let tick = self.tick;
        // Those of a batch come before it.
        let mut faults = Vec::new();
        let examined = piece.examine(0, &|_| tick(), &mut |seen| {
            match seen {
                Seen::Batch(batch) => ended = self.batch(&path, &batch, std::mem::take(&mut faults), names),
                Seen::Fault(fault) => faults.push(fault),
            }
            ended.clone()
        });
        ended?;
        faults.iter().try_for_each(|fault| self.fault(fault))?;
        tick()?;
        let end = match examined {
            Ok(examined) => examined.end,
            Err(error) => return self.failed(&path, &error),
        };
        match piece.is_torn(end) {
            Ok(false) => Ok(()),
            Ok(true) => self.torn(&path, end),
            Err(error) => self.failed(&path, &error),
        }
    }

    /// Records and faults as they follow each other in the file.
    fn batch(&mut self, path: &Path, batch: &RecoveredBatch, faults: Vec<LogFault>, names: &mut Names) -> Result<()> {
        let mut faults = faults.into_iter().peekable();
        for record in &batch.records {
            while let Some(fault) = faults.next_if(|fault| fault.byte() < record.byte()) {
                self.fault(&fault)?;
            }
            self.record(path, record, names)?;
        }
        faults.try_for_each(|fault| self.fault(&fault))
    }

    fn record(&mut self, path: &Path, recovered: &RecoveredRecord, names: &mut Names) -> Result<()> {
        let (byte, sequence) = (recovered.byte(), recovered.sequence);
        let Ok((record, cause)) = record::decode_caused(recovered.kind, &recovered.payload) else {
            return self.lost(path, byte, "a record cannot be read", Some((sequence, sequence)), Some(recovered.kind));
        };
        if self.filter.names_objects() && !self.selects(&record, names) {
            return Ok(());
        }
        let mut fields = Fields::new(&names.buckets);
        fields.record(&record);
        fields.cause(&cause);
        let kind = record::kind_name(recovered.kind).unwrap_or_default();
        self.show(Entry { file: self.name(path), byte, sequence: Some(sequence), kind, fields: fields.out })
    }

    /// Whether a record is about a bucket and a key that are selected. Parts follow their upload.
    fn selects(&self, record: &Record, names: &mut Names) -> bool {
        let of = |bucket: BucketId, key: Option<&Bytes>| {
            (self.filter.bucket.is_none() || names.selected.contains(&bucket))
                && self.filter.has_key(key.map(|key| &key[..]))
        };
        match record {
            Record::CreateBucket(bucket) | Record::UpdateBucket(bucket) => of(bucket.id, None),
            Record::DeleteBucket { bucket } | Record::PutDocument { bucket, .. } => of(*bucket, None),
            Record::PutVersion(version) | Record::CompleteUpload { version, .. } => {
                of(version.bucket, Some(&version.key))
            }
            Record::MoveVersion { from_bucket, from_key, version } => {
                of(version.bucket, Some(&version.key)) || of(*from_bucket, Some(from_key))
            }
            Record::DeleteVersion { bucket, key, .. }
            | Record::UpdateVersion { bucket, key, .. }
            | Record::RememberUpload { bucket, key, .. } => of(*bucket, Some(key)),
            Record::CreateUpload(upload) => {
                let selected = of(upload.bucket, Some(&upload.key));
                if selected {
                    names.uploads.insert(upload.id);
                }
                selected
            }
            Record::PutPart(part) => names.uploads.contains(&part.upload),
            Record::AbortUpload { upload } => names.uploads.contains(upload),
            _ => false,
        }
    }

    fn fault(&mut self, fault: &LogFault) -> Result<()> {
        self.lost(&fault.path, fault.byte(), fault.reason, fault.lost, fault.kind)
    }

    fn gap(&mut self, gap: &LogGap) -> Result<()> {
        self.unreadable(&gap.path, 0, gap.reason)
    }

    fn lost(
        &mut self,
        path: &Path,
        byte: u64,
        reason: &str,
        lost: Option<(Sequence, Sequence)>,
        kind: Option<u8>,
    ) -> Result<()> {
        let mut fields = vec![("reason", Value::Text(reason.to_owned()))];
        if let Some((first, last)) = lost {
            fields.push(("first_lost", Value::Number(first)));
            // Otherwise nobody knows how many there were.
            fields.extend((last != Sequence::MAX).then_some(("last_lost", Value::Number(last))));
        }
        fields.extend(kind.and_then(record::kind_name).map(|kind| ("lost_kind", Value::Text(kind))));
        self.show(Entry { file: self.name(path), byte, sequence: None, kind: UNREADABLE.to_owned(), fields })
    }
}

impl Names {
    fn learn(&mut self, bucket: &Bucket, selected: Option<&Bytes>) {
        match bucket.role {
            BucketRole::Bucket => {
                self.buckets.insert(bucket.id, bucket.name.clone());
                // A fork shares layers with the bucket that had them first.
                for layer in &bucket.layers {
                    self.buckets.entry(*layer).or_insert_with(|| bucket.name.clone());
                }
            }
            BucketRole::Snapshot => drop(self.buckets.insert(bucket.id, bucket.name.clone())),
            BucketRole::Layer | BucketRole::Dropped | BucketRole::Amendments => {}
        }
        if selected == Some(&bucket.name) {
            self.selected.insert(bucket.id);
            self.selected.extend(&bucket.layers);
        }
    }
}
