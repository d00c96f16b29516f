//! The expected rows of a state, counted from versions and parts.

use std::collections::BTreeMap;

use super::history::World;
use super::*;

impl World {
    /// The present attributes of a version.
    pub(super) fn attributes<'w>(&'w self, (sequence, version): &'w (Sequence, Version)) -> &'w Attributes {
        self.updates.get(sequence).map_or(&version.attributes, |(_, attributes)| attributes)
    }

    /// The bucket and the extents of every version with its annotations, and of every part.
    fn manifests(&self) -> impl Iterator<Item = (u64, Vec<&Extent>)> {
        let parts = self.uploads.values().flat_map(|open| {
            open.parts.values().map(move |(_, part)| (open.upload.bucket.0, part.manifest.iter().collect()))
        });
        let of_version = |found| {
            let (_, version): &(Sequence, Version) = found;
            version.manifest.iter().chain(self.attributes(found).annotations.extents()).collect()
        };
        self.versions.iter().map(move |(name, found)| (name.0, of_version(found))).chain(parts)
    }

    fn held_segments(&self) -> BTreeMap<(Sequence, u64), u64> {
        let mut held = BTreeMap::new();
        for (bucket, manifest) in self.manifests() {
            for extent in manifest {
                if let Extent::Segment { segment, .. } = extent {
                    *held.entry((*segment, bucket)).or_default() += 1;
                }
            }
        }
        held
    }

    pub(super) fn drop_unheld_segments(&mut self) {
        let held = self.held_segments();
        self.segments.retain(|segment, _| held.keys().any(|(name, _)| name == segment));
    }

    /// References of each blob that has any, bucket by bucket.
    pub(super) fn referred(&self) -> BTreeMap<Sequence, BTreeMap<u64, u64>> {
        let mut refs: BTreeMap<Sequence, BTreeMap<u64, u64>> = BTreeMap::new();
        let mut count = |bucket: u64, extents: &mut dyn Iterator<Item = &Extent>| {
            for extent in extents {
                if let Extent::Blob { blob, .. } = extent {
                    *refs.entry(*blob).or_default().entry(bucket).or_default() += 1;
                }
            }
        };
        self.manifests().for_each(|(bucket, manifest)| count(bucket, &mut manifest.into_iter()));
        for (segment, bucket) in self.held_segments().keys() {
            count(*bucket, &mut self.segments[segment].iter());
        }
        refs
    }

    /// The expected rows of every table that holds counts or sizes.
    pub(super) fn rows(&self) -> Vec<String> {
        let mut rows = Vec::new();
        let referred = self.referred();
        let none = BTreeMap::new();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let (mut stored, mut dead) = (0, 0);
        let mut packs: BTreeMap<PackId, (u64, u64, u64)> = self.packs.keys().map(|pack| (*pack, (0, 0, 0))).collect();
        for (sequence, blob) in &self.blobs {
            let refs = referred.get(sequence).unwrap_or(&none);
            let home = refs.keys().next().map_or("-".into(), u64::to_string);
            let (place, (file, offset), length) = match blob.at {
                BlobLocation::Log { at, length } => (0, codec::in_log_parts(at), length),
                BlobLocation::Pack { at, length } => (1, codec::chunk_parts(at), length),
            };
            let shared = blob.shared.map_or("- - -".into(), |(fingerprint, prefix_hash)| {
                let short = short_hash(&fingerprint.0).cast_signed();
                format!("{short} x'{}' {}", hex(&fingerprint.0), prefix_hash.cast_signed())
            });
            let sum: u64 = refs.values().sum();
            rows.push(format!("blobs {sequence} {place} {file} {offset} {length} {sum} {home} {shared} -"));
            for (bucket, refs) in refs.iter().skip(1) {
                rows.push(format!("holdings {sequence} {bucket} {refs}"));
            }
            let (live, gone) = if sum > 0 { (u64::from(length), 0) } else { (0, u64::from(length)) };
            (stored, dead) = (stored + live, dead + gone);
            if place == 1
                && let Some(pack) = packs.get_mut(&codec::pack(file))
            {
                *pack = (pack.0 + 1, pack.1 + live, pack.2 + gone);
            }
        }
        let mut logical = 0;
        for bucket in self.buckets.keys() {
            let counts = self.counts(*bucket, &referred);
            rows.push(format!("buckets {bucket} {} {}", counts.0, counts.1));
            (logical, stored) = (logical + counts.0, stored + counts.2);
        }
        rows.push(format!("totals 0 {logical} {stored} {dead}"));
        for ((segment, bucket), refs) in self.held_segments() {
            rows.push(format!("segment_holdings {segment} {bucket} {refs}"));
        }
        rows.extend(self.segments.keys().map(|segment| format!("segments {segment}")));
        for (pack, sequence) in &self.packs {
            let (blobs, live, dead) = packs[pack];
            rows.push(format!("packs {pack} {sequence} {blobs} {live} {dead}"));
        }
        for (sequence, version) in self.versions.values() {
            let update = self.updates.get(sequence).map_or("-".into(), |(update, _)| update.to_string());
            rows.push(format!("versions {sequence} {update}"));
            if let Some(digest) = version.sha256.filter(|_| version.size >= INSTANT_SIZE_MIN) {
                rows.push(format!("digests {} {sequence}", short_hash(&digest).cast_signed()));
            }
        }
        rows.extend(self.log_files.iter().map(|(file, (first, last))| format!("log_files {file} {first} {last}")));
        rows.sort();
        rows
    }

    /// Logical, stored, and of that inline bytes of a bucket.
    fn counts(&self, bucket: u64, referred: &BTreeMap<Sequence, BTreeMap<u64, u64>>) -> (u64, u64, u64) {
        let extents = || self.manifests().filter(|(of, _)| *of == bucket).flat_map(|(_, manifest)| manifest);
        let inline = extents().filter(|extent| matches!(extent, Extent::Inline(_))).map(Extent::length).sum::<u64>();
        let held = referred.iter().filter(|(_, refs)| refs.contains_key(&bucket));
        let distinct: u64 = held.map(|(blob, _)| self.blobs[blob].length()).sum();
        (extents().map(Extent::length).sum(), distinct + inline, inline)
    }
}

/// The rows of the model, as they are in an index.
pub(super) fn rows_of(index: &Index) -> Vec<String> {
    let mut rows = Vec::new();
    index
        .each_row(&mut |table, row| {
            let columns: Vec<_> = row.split(' ').collect();
            match table {
                "blobs" | "holdings" | "totals" | "segment_holdings" | "packs" | "digests" | "log_files" => {
                    rows.push(format!("{table} {row}"));
                }
                "buckets" => rows.push(format!("{table} {} {} {}", columns[0], columns[8], columns[9])),
                "versions" => rows.push(format!("{table} {} {}", columns[0], columns[3])),
                "segments" => rows.push(format!("{table} {}", columns[0])),
                _ => {}
            }
            Ok(())
        })
        .expect("the rows");
    rows.sort();
    rows
}
