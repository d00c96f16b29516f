//! Where every object of an undamaged store stands: the frames of its records, and the chunks in packs.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use orcas_base::block::block_count;
use orcas_fs::FileSystem;
use orcas_log::{LogSalvage, RecoveredRecord, Salvaged};
use orcas_record::{self as record, BucketId, Extent, Record, Sequence, Version};

/// File, first byte, and the byte behind the last.
pub type Range = (String, usize, usize);

#[derive(Default)]
pub struct Places {
    /// Of the current version of each key.
    pub objects: BTreeMap<(BucketId, Bytes), Vec<Range>>,
    /// Of every record, so that it can be told whether one is left.
    pub records: Vec<Range>,
}

#[derive(Default)]
struct Reading {
    blobs: HashMap<Sequence, Vec<Range>>,
    segments: HashMap<Sequence, (Range, Vec<Extent>)>,
    versions: HashMap<(BucketId, Bytes), (Range, Version)>,
    records: Vec<Range>,
}

fn frame(record: &RecoveredRecord) -> Range {
    let from = record.frame_offset as usize;
    let length = 24 + 4 * block_count(record.payload.len()) + record.payload.len();
    (format!("log/{:020}.log", record.file), from, from + length)
}

fn chunk(pack: u64, offset: u64, length: u32) -> Range {
    let from = offset as usize;
    let front = 64 + 4 * block_count(length as usize);
    (format!("chunks/{pack:020}.pack"), from, from + front + length as usize)
}

impl Places {
    /// Of the store in `data`, with its id and key from `store.keys`.
    pub fn of(fs: Arc<dyn FileSystem>, data: &Path, keys: &[u8]) -> Self {
        let (id, key) = (keys[12..28].try_into().unwrap(), keys[28..60].try_into().unwrap());
        let log = LogSalvage::survey(fs, &data.join("log"), id, Some(&key)).unwrap();
        let mut reading = Reading::default();
        log.read(&mut |found| {
            match found {
                Salvaged::Record(record) => reading.take(&record),
                Salvaged::Gone(..) | Salvaged::Unreadable { .. } | Salvaged::Torn { .. } => {
                    panic!("the store is damaged")
                }
            }
            Ok(())
        })
        .unwrap();
        reading.end()
    }
}

impl Reading {
    fn take(&mut self, found: &RecoveredRecord) {
        let place = frame(found);
        self.records.push(place.clone());
        match record::decode(found.kind, &found.payload).unwrap() {
            Record::Content { .. } => drop(self.blobs.insert(found.sequence, vec![place])),
            Record::Chunk { pack, offset, length, .. } => {
                self.blobs.insert(found.sequence, vec![chunk(pack, offset, length), place]);
            }
            Record::MoveChunks { moves } => {
                for moved in moves {
                    let Some(ranges) = self.blobs.get_mut(&moved.blob) else { continue };
                    let front = ranges[0].clone();
                    let length = front.2 - front.1;
                    ranges[0] = (format!("chunks/{:020}.pack", moved.pack), moved.offset as usize, 0);
                    ranges[0].2 = ranges[0].1 + length;
                    ranges.push(place.clone());
                }
            }
            Record::Segment { extents } => drop(self.segments.insert(found.sequence, (place, extents))),
            Record::PutVersion(version) | Record::CompleteUpload { version, .. } => {
                self.versions.insert((version.bucket, version.key.clone()), (place, version));
            }
            Record::MoveVersion { from_bucket, from_key, version } => {
                self.versions.remove(&(from_bucket, from_key));
                self.versions.insert((version.bucket, version.key.clone()), (place, version));
            }
            Record::DeleteVersion { bucket, key, .. } => drop(self.versions.remove(&(bucket, key))),
            _ => {}
        }
    }

    fn end(self) -> Places {
        let mut objects = BTreeMap::new();
        for (name, (place, version)) in &self.versions {
            let mut ranges = vec![place.clone()];
            self.add(&version.manifest, &mut ranges);
            objects.insert(name.clone(), ranges);
        }
        Places { objects, records: self.records }
    }

    fn add(&self, manifest: &[Extent], ranges: &mut Vec<Range>) {
        for extent in manifest {
            match extent {
                Extent::Inline(_) => {}
                Extent::Blob { blob, .. } => ranges.extend(self.blobs[blob].iter().cloned()),
                Extent::Segment { segment, .. } => {
                    let (place, extents) = &self.segments[segment];
                    ranges.push(place.clone());
                    self.add(extents, ranges);
                }
            }
        }
    }
}
