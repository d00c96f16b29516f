//! References of records that are not yet applied to blobs: the blobs that they introduce and their fingerprints, the
//! blobs that they name, condemn or move, and the versions that can be found by their SHA-256. Part of the overlay.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use bytes::Bytes;

use orcas_record::{BucketId, Extent, Fingerprint, INSTANT_SIZE_MIN, PackId, Record, Sequence, Version, short_hash};

#[derive(Default)]
pub struct BlobReferences {
    shared: HashMap<Fingerprint, SharedBlob>,
    /// Records that bring or name a blob.
    blobs: HashMap<Sequence, u32>,
    /// Condemned blobs, and the record that says so.
    condemned: HashMap<Sequence, Sequence>,
    /// Records that place a chunk in a pack.
    packs: HashMap<PackId, u32>,
    /// The newest version with this SHA-256: its sequence, and where it was put.
    digests: HashMap<[u8; 32], (Sequence, BucketId, Bytes)>,
}

#[derive(Clone, Copy)]
struct SharedBlob {
    blob: Sequence,
    length: u32,
    prefix_hash: u64,
}

impl BlobReferences {
    pub fn insert(&mut self, sequence: Sequence, record: &Record) {
        each_mention(sequence, record, &mut |blob| *self.blobs.entry(blob).or_default() += 1);
        each_pack(record, &mut |pack| *self.packs.entry(pack).or_default() += 1);
        if let Some((fingerprint, blob)) = shared_blob(sequence, record) {
            self.shared.insert(fingerprint, blob);
        }
        if let Record::CondemnBlobs { blobs } = record {
            self.condemned.extend(blobs.iter().map(|blob| (*blob, sequence)));
        }
        if let Some((sha256, version)) = digest(record) {
            self.digests.insert(sha256, (sequence, version.bucket, version.key.clone()));
        }
    }

    /// Removes what `insert` put here for the record, unless something newer has replaced it.
    pub fn trim(&mut self, sequence: Sequence, record: &Record) {
        each_mention(sequence, record, &mut |blob| uncount(&mut self.blobs, blob));
        each_pack(record, &mut |pack| uncount(&mut self.packs, pack));
        if let Some((fingerprint, SharedBlob { blob, .. })) = shared_blob(sequence, record) {
            remove_if(&mut self.shared, fingerprint, |newest| newest.blob == blob);
        }
        if let Record::CondemnBlobs { blobs } = record {
            for blob in blobs {
                remove_if(&mut self.condemned, *blob, |by| *by == sequence);
            }
        }
        if let Some((sha256, _)) = digest(record) {
            remove_if(&mut self.digests, sha256, |(newest, ..)| *newest == sequence);
        }
    }

    pub fn shared_blob(&self, fingerprint: &Fingerprint) -> Option<(Sequence, u32)> {
        self.shared.get(fingerprint).map(|shared| (shared.blob, shared.length))
    }

    pub fn shared_prefix_hashes(&self) -> impl Iterator<Item = u64> {
        self.shared.values().map(|shared| shared.prefix_hash)
    }

    pub fn is_condemned(&self, blob: Sequence) -> bool {
        self.condemned.contains_key(&blob)
    }

    pub fn mentions(&self, blob: Sequence) -> bool {
        self.blobs.contains_key(&blob)
    }

    pub fn pack_in_use(&self, pack: PackId) -> bool {
        self.packs.contains_key(&pack)
    }

    pub fn with_sha256(&self, sha256: &[u8; 32]) -> Option<(BucketId, &Bytes)> {
        self.digests.get(sha256).map(|(_, bucket, key)| (*bucket, key))
    }
}

fn uncount<K: Eq + Hash>(counts: &mut HashMap<K, u32>, key: K) {
    if let Entry::Occupied(mut entry) = counts.entry(key) {
        *entry.get_mut() -= 1;
        if *entry.get() == 0 {
            entry.remove();
        }
    }
}

fn remove_if<K: Eq + Hash, V>(map: &mut HashMap<K, V>, key: K, condition: impl FnOnce(&V) -> bool) {
    if let Entry::Occupied(entry) = map.entry(key)
        && condition(entry.get())
    {
        entry.remove();
    }
}

/// The blobs that a record brings or names in a manifest, a segment or an annotation.
///
/// A version that names a whole segment does not mention its blobs, and need not: whoever names a segment got it from
/// a version that was there before, or brought it in the same batch. So as long as a record that names it is not
/// applied, either the index counts references to its blobs or the record of the segment is not applied either.
fn each_mention(sequence: Sequence, record: &Record, visit: &mut dyn FnMut(Sequence)) {
    match record {
        Record::Content { .. } | Record::Chunk { .. } => return visit(sequence),
        Record::Segment { .. }
        | Record::PutVersion(_)
        | Record::MoveVersion { .. }
        | Record::CompleteUpload { .. }
        | Record::UpdateVersion { .. }
        | Record::PutPart(_) => {}
        Record::CreateBucket(_)
        | Record::UpdateBucket(_)
        | Record::DeleteBucket { .. }
        | Record::PutDocument { .. }
        | Record::CreatePack { .. }
        | Record::DeleteVersion { .. }
        | Record::CreateUpload(_)
        | Record::AbortUpload { .. }
        | Record::RememberUpload { .. }
        | Record::CondemnBlobs { .. }
        | Record::MoveChunks { .. }
        | Record::RetirePack { .. }
        | Record::MoveContents { .. }
        | Record::ReplaceLog { .. } => return,
    }
    for extent in record.extents() {
        if let Extent::Blob { blob, .. } = extent {
            visit(*blob);
        }
    }
}

fn each_pack(record: &Record, visit: &mut dyn FnMut(PackId)) {
    match record {
        Record::Chunk { at, .. } => visit(at.pack()),
        Record::MoveChunks { moves } => moves.iter().for_each(|moved| visit(moved.to.pack())),
        _ => {}
    }
}

fn shared_blob(sequence: Sequence, record: &Record) -> Option<(Fingerprint, SharedBlob)> {
    match record {
        Record::Content { fingerprint, shared: true, bytes, .. } => Some((
            *fingerprint,
            SharedBlob { blob: sequence, length: bytes.len() as u32, prefix_hash: short_hash(&fingerprint.0) },
        )),
        Record::Chunk { fingerprint, shared: true, prefix_hash, length, .. } => {
            Some((*fingerprint, SharedBlob { blob: sequence, length: *length, prefix_hash: *prefix_hash }))
        }
        _ => None,
    }
}

/// The prefix hash of the blob that a record brings, if it is shared.
pub fn shared_prefix_hash(record: &Record) -> Option<u64> {
    shared_blob(0, record).map(|(_, shared)| shared.prefix_hash)
}

/// The version in a record that an instant upload could name.
fn digest(record: &Record) -> Option<([u8; 32], &Version)> {
    match record {
        Record::PutVersion(version) | Record::MoveVersion { version, .. } | Record::CompleteUpload { version, .. } => {
            version.sha256.filter(|_| version.size >= INSTANT_SIZE_MIN).map(|sha256| (sha256, version))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_fs_testing::SimRng;
    use orcas_record::placement::codec;
    use orcas_record::{ChunkMove, Part, UploadId};

    fn part(extents: Vec<Extent>) -> Record {
        let manifest = extents;
        let (upload, number, size, md5) = (UploadId([1; 16]), 1, 1, [0; 16]);
        Record::PutPart(Part { upload, number, size, md5, modified_ms: 0, checksum: None, manifest })
    }

    /// A record that has to do with a few of `blobs` blobs, `packs` packs and as many fingerprints.
    fn record(rng: &mut SimRng) -> Record {
        let mut some = |of: u64| (0..rng.below(4)).map(|_| rng.below(of)).collect::<Vec<_>>();
        let (blobs, packs) = (some(12), some(4));
        let extents = blobs.iter().map(|&blob| Extent::Blob { blob, start: 0, length: 1 }).collect();
        let fingerprint = Fingerprint([rng.below(5) as u8; 32]);
        let shared = rng.below(3) > 0;
        match rng.below(6) {
            0 => Record::Content { fingerprint, shared, bytes: Bytes::from_static(b"bytes"), seal: None },
            1 => {
                let at = codec::chunk(rng.below(4), 0);
                Record::Chunk { fingerprint, shared, prefix_hash: rng.below(9), at, length: 7, seal: None }
            }
            2 => Record::Segment { extents },
            3 => part(extents),
            4 => Record::CondemnBlobs { blobs },
            _ => {
                let moved = |pack| ChunkMove { blob: 0, to: codec::chunk(pack, 0) };
                Record::MoveChunks { moves: packs.into_iter().map(moved).collect() }
            }
        }
    }

    #[test]
    fn what_is_told_is_what_the_records_say_that_are_not_trimmed() {
        let seed = 20_261_121;
        println!("seed {seed}");
        let mut rng = SimRng::new(seed);
        let mut mentions = BlobReferences::default();
        let mut waiting: Vec<(Sequence, Record)> = Vec::new();
        // Sequences collide with the blobs that records name, so that bringing and naming one mix.
        for sequence in 0..20_000 {
            if rng.below(2) == 0 || waiting.is_empty() {
                let record = record(&mut rng);
                mentions.insert(sequence, &record);
                waiting.push((sequence, record));
            } else {
                let (sequence, record) = waiting.remove(0);
                mentions.trim(sequence, &record);
            }
            let any = |says: &dyn Fn(Sequence, &Record) -> bool| waiting.iter().any(|(at, record)| says(*at, record));
            let blob = rng.below(12);
            let mut named = 0;
            for (at, record) in &waiting {
                each_mention(*at, record, &mut |of| named += u32::from(of == blob));
            }
            assert_eq!(mentions.mentions(blob), named > 0);
            let condemns =
                |_, record: &Record| matches!(record, Record::CondemnBlobs { blobs } if blobs.contains(&blob));
            assert_eq!(mentions.is_condemned(blob), any(&condemns));
            let pack = codec::pack(rng.below(4));
            let places = |_, record: &Record| match record {
                Record::Chunk { at, .. } => at.pack() == pack,
                Record::MoveChunks { moves } => moves.iter().any(|moved| moved.to.pack() == pack),
                _ => false,
            };
            assert_eq!(mentions.pack_in_use(pack), any(&places));
            let wanted = Fingerprint([rng.below(5) as u8; 32]);
            let newest = waiting.iter().rev().find_map(|(at, record)| match record {
                Record::Content { fingerprint, shared: true, bytes, .. } if *fingerprint == wanted => {
                    Some((*at, bytes.len() as u32))
                }
                Record::Chunk { fingerprint, shared: true, length, .. } if *fingerprint == wanted => {
                    Some((*at, *length))
                }
                _ => None,
            });
            assert_eq!(mentions.shared_blob(&wanted), newest);
        }
        waiting.iter().for_each(|(sequence, record)| mentions.trim(*sequence, record));
        assert!(mentions.blobs.is_empty() && mentions.packs.is_empty() && mentions.condemned.is_empty());
        assert!(mentions.shared.is_empty() && mentions.digests.is_empty());
    }
}
