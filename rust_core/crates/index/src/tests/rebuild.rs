//! Histories, compared with the expected state in every grouping, and with rebuilds from a compacted log.

use super::history::{Dice, World};
use super::state::rows_of;
use super::*;

const SEEDS: u64 = 60;
const STEPS: usize = 160;

/// A file of the simulated log.
struct File {
    number: u64,
    records: Vec<Owned>,
}

/// Panics with the first rows in which two states differ.
fn same(seed: u64, what: &str, found: &[String], expected: &[String]) {
    let missing: Vec<_> = expected.iter().filter(|row| !found.contains(row)).take(5).collect();
    let surplus: Vec<_> = found.iter().filter(|row| !expected.contains(row)).take(5).collect();
    assert!(found == expected, "seed {seed}, {what}: lacks {missing:#?}, has {surplus:#?}");
}

fn lines(index: &Index) -> Vec<String> {
    index.dump().expect("a dump").lines().map(str::to_owned).collect()
}

/// The record that log compaction would keep of `owned` in the current state; `None` if it drops it.
fn kept(world: &World, owned: &Owned) -> Option<Record> {
    let live = |version: &Version, sequence| {
        let name = (version.bucket.0, version.key.to_vec(), version.version_id);
        world.versions.get(&name).is_some_and(|there| there.0 == sequence)
    };
    let place = |blob: &u64| world.blobs.get(blob).map(|blob| blob.at);
    let in_pack =
        |moved: &ChunkMove| matches!(place(&moved.blob), Some(BlobLocation::Pack { at, .. }) if at == moved.to);
    let in_log =
        |moved: &ContentMove| matches!(place(&moved.blob), Some(BlobLocation::Log { at, .. }) if at == moved.to);
    let sequence = owned.sequence;
    let counts = match &owned.record {
        Record::CreateBucket(bucket) => world.buckets.contains_key(&bucket.id.0),
        Record::UpdateBucket(bucket) => world.buckets.get(&bucket.id.0) == Some(&sequence),
        Record::PutDocument { bucket, kind, .. } => world.documents.get(&(bucket.0, kind.code())) == Some(&sequence),
        Record::CreatePack { pack } => world.packs.contains_key(pack),
        Record::Content { .. } => world.blobs.contains_key(&sequence),
        Record::Chunk { fingerprint, shared, prefix_hash, .. } => {
            let BlobLocation::Pack { at, length } = world.blobs.get(&sequence)?.at else { return None };
            let (fingerprint, shared, prefix_hash) = (*fingerprint, *shared, *prefix_hash);
            return Some(Record::Chunk { fingerprint, shared, prefix_hash, at, length, seal: None });
        }
        Record::Segment { .. } => world.segments.contains_key(&sequence),
        Record::PutVersion(version) => live(version, sequence),
        Record::UpdateVersion { version, .. } => world.updates.get(version).is_some_and(|update| update.0 == sequence),
        Record::MoveVersion { from_bucket, from_key, version } => {
            if !live(version, sequence) {
                let (bucket, key, version_id) = (*from_bucket, from_key.clone(), version.version_id);
                return Some(Record::DeleteVersion { bucket, key, version_id });
            }
            true
        }
        Record::CompleteUpload { upload, request, version } => {
            if !live(version, sequence) {
                return Some(Record::RememberUpload {
                    upload: *upload,
                    request: *request,
                    bucket: version.bucket,
                    key: version.key.clone(),
                    version_id: version.version_id,
                    etag: version.etag,
                    checksum: version.checksum,
                });
            }
            true
        }
        Record::CreateUpload(upload) => world.uploads.contains_key(&upload.id.0),
        Record::PutPart(part) => {
            let open = world.uploads.get(&part.upload.0);
            open.and_then(|open| open.parts.get(&part.number)).is_some_and(|there| there.0 == sequence)
        }
        Record::MoveChunks { moves } => {
            let mut moves = moves.clone();
            moves.retain(in_pack);
            return (!moves.is_empty()).then_some(Record::MoveChunks { moves });
        }
        Record::MoveContents { file, moves } => {
            let mut moves = moves.clone();
            moves.retain(in_log);
            return (!moves.is_empty()).then_some(Record::MoveContents { file: *file, moves });
        }
        Record::ReplaceLog { file, .. } => world.log_files.contains_key(file),
        Record::DeleteBucket { .. }
        | Record::DeleteVersion { .. }
        | Record::AbortUpload { .. }
        | Record::RememberUpload { .. }
        | Record::CondemnBlobs { .. }
        | Record::RetirePack { .. } => true,
    };
    counts.then(|| owned.record.clone())
}

/// Replaces a run of closed files by one. Returns the records that say so.
fn compact(world: &mut World, log: &mut Vec<File>, ranges: &mut Vec<(u64, u64, u64)>) -> Vec<Owned> {
    let from = world.dice.roll(log.len() as u64) as usize;
    let count = (1 + world.dice.roll(4) as usize).min(log.len() - from);
    let number = world.number() + 1_000_000;
    let run: Vec<File> = log.drain(from..from + count).collect();
    let covered: Vec<_> =
        run.iter().map(|file| *ranges.iter().find(|range| range.0 == file.number).expect("a range")).collect();
    let (first, last) = (covered[0].1, covered[covered.len() - 1].2);
    let mut moves = Vec::new();
    let mut records = Vec::new();
    for owned in run.iter().flat_map(|file| &file.records) {
        let Some(record) = kept(world, owned) else { continue };
        let mut owned = Owned::new(owned.sequence, record);
        if let Some(BlobLocation::Log { length, .. }) = owned.location {
            let to = codec::in_log(number, 4096 + records.len() as u64 * 8);
            moves.push(ContentMove { blob: owned.sequence, to });
            owned.location = Some(BlobLocation::Log { at: to, length });
            if let Some(blob) = world.blobs.get_mut(&owned.sequence) {
                blob.at = BlobLocation::Log { at: to, length };
            }
        }
        records.push(owned);
    }
    log.insert(from, File { number, records });
    ranges.push((number, first, last));
    world.log_files.retain(|_, range| range.0 < first || range.1 > last);
    let file = codec::log_file(number);
    world.log_files.insert(file, (first, last));
    moves.push(ContentMove { blob: 1 << 40, to: codec::in_log(number, 4096) });
    for moves in moves.chunks(3) {
        world.emit(Record::MoveContents { file, moves: moves.to_vec() });
    }
    world.emit(Record::ReplaceLog { file, first, last });
    std::mem::take(&mut world.step)
}

/// An index built from the log, in groups and transactions of random size.
fn rebuilt(dice: &mut Dice, log: &[File]) -> Result<Index> {
    let index = memory();
    let mut writer = index.writer()?;
    let records: Vec<_> = log.iter().flat_map(|file| file.records.clone()).collect();
    writer.begin_bulk_of(1 + dice.roll(300) as usize)?;
    let mut rest = &records[..];
    while !rest.is_empty() {
        let (group, after) = rest.split_at((1 + dice.roll(40) as usize).min(rest.len()));
        apply(&mut writer, group)?;
        rest = after;
    }
    writer.end_bulk()?;
    drop(writer);
    Ok(index)
}

/// A history with compactions: the expected state, the records, and the index that applied them in order.
fn run(seed: u64) -> (World, Vec<Owned>, Index) {
    let mut world = World::new(seed);
    let index = memory();
    let mut writer = index.writer().expect("the writer");
    let mut all = Vec::new();
    let mut log: Vec<File> = Vec::new();
    let mut ranges = Vec::new();
    let mut open = File { number: 1, records: Vec::new() };
    for step in 0..STEPS {
        let compacts = !log.is_empty() && world.dice.roll(12) == 0;
        let records = if compacts { compact(&mut world, &mut log, &mut ranges) } else { world.step() };
        if records.is_empty() {
            continue;
        }
        apply(&mut writer, &records).unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}, {records:?}"));
        open.records.extend(records.iter().cloned());
        all.extend(records);
        if step % 20 == 19 || compacts {
            same(seed, "numbers", &rows_of(&index), &world.rows());
        }
        if compacts {
            log.push(open);
            let from_log = rebuilt(&mut world.dice, &log).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            same(seed, "rebuilt", &lines(&from_log), &lines(&index));
            open = log.pop().expect("the open file");
        }
        if world.dice.roll(8) == 0 {
            let first = ranges.iter().map(|range: &(u64, u64, u64)| range.2).max().unwrap_or(0) + 1;
            ranges.push((open.number, first, world.sequence));
            world.file += 1;
            log.push(std::mem::replace(&mut open, File { number: world.file, records: Vec::new() }));
        }
    }
    same(seed, "numbers", &rows_of(&index), &world.rows());
    drop(writer);
    (world, all, index)
}

#[test]
fn every_history_gives_the_expected_rows_and_so_does_its_compacted_log() {
    for seed in 0..SEEDS {
        run(seed);
    }
}

#[test]
fn references_do_not_depend_on_grouping() {
    for seed in 100..100 + SEEDS / 2 {
        let (mut world, records, index) = run(seed);
        let expected = lines(&index);
        same(seed, "at once", &lines(&applied(&records)), &expected);
        let index = memory();
        let mut writer = index.writer().expect("the writer");
        let mut rest = &records[..];
        while !rest.is_empty() {
            // Segments are applied together with the manifests that name them, as in the log.
            let mut end = (1 + world.dice.roll(30) as usize).min(rest.len());
            while matches!(rest[end - 1].record, Record::Segment { .. } | Record::Content { .. } | Record::Chunk { .. })
            {
                end += 1;
            }
            apply(&mut writer, &rest[..end]).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            rest = &rest[end..];
        }
        same(seed, "in groups", &lines(&index), &expected);
        let log = [File { number: 1, records }];
        let from_log = rebuilt(&mut world.dice, &log).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        same(seed, "rebuilt", &lines(&from_log), &expected);
    }
}
