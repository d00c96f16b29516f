//! The files of a log, written over, cut, copied and removed in any way, with checksums made good again. Recovery gives
//! back the first batches that were written, unchanged, or an error; salvage never more than was written, unless a
//! checksum was made good: only the chain finds that, and salvage does without it.
#![cfg_attr(fuzzing, no_main)]

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::block::field;
use orcas_fs::{FileSystem, Open};
use orcas_fs_testing::{SimDisk, SimRandom};
use orcas_fuzz::{Input, fuzz_target};
use orcas_log::{Batch, FileContext, LogOptions, LogPosition, LogSalvage, Salvaged, inspect, recover, store_ids};
use orcas_record::placement::codec;

const DIR: &str = "/log";
const STORE_ID: [u8; 16] = [7; 16];
const COMMIT_KEY: [u8; 32] = [9; 32];
const BATCHES: u64 = 12;
const CHANGES_MAX: usize = 16;

/// A log as it was written.
struct Written {
    disk: SimDisk,
    /// Ends of the batches, each of which has two records: an odd sequence and the next.
    ends: Vec<LogPosition>,
    /// Where frames stand: path, salt of the file, offset.
    frames: Vec<(PathBuf, u64, u64)>,
    files: Vec<PathBuf>,
}

thread_local! {
    static KILLED: OnceCell<Written> = const { OnceCell::new() };
    static CLOSED: OnceCell<Written> = const { OnceCell::new() };
}

fn options() -> LogOptions {
    LogOptions {
        dir: DIR.into(),
        store_id: STORE_ID,
        commit_key: COMMIT_KEY,
        file_size: 16 * 1024,
        established: true,
        random: Arc::new(SimRandom::new(3)),
    }
}

fn kind(sequence: u64) -> u8 {
    (sequence % 21) as u8 + 1
}

fn payload(sequence: u64) -> Vec<u8> {
    let length = [0, 1, 40, 300, 2500][(sequence % 5) as usize];
    (0..length).map(|at: u64| (at * 31 + sequence) as u8).collect()
}

fn write(closed: bool) -> Written {
    let disk = SimDisk::new();
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    fs.create_dir(Path::new(DIR)).expect("the disk has room");
    let new = LogOptions { established: false, ..options() };
    let mut log = recover(Arc::clone(&fs), new, None, &mut |_| Ok(())).expect("a new log").log;
    let (mut batch, mut ends, mut frames) = (Batch::new(), Vec::new(), Vec::new());
    for sequence in (1..2 * BATCHES).step_by(2) {
        batch.clear();
        let inside =
            [sequence, sequence + 1].map(|sequence| batch.push(sequence, kind(sequence), &[&payload(sequence)]));
        let appended = log.append(&mut batch, sequence - 1).expect("the disk has room");
        log.sync().expect("the disk works");
        let path = options().path(appended.position.file());
        let places = inside.map(|frame| codec::in_log_parts(appended.at.record(frame)));
        frames.extend(places.map(|(file, offset)| (path.clone(), file, offset)));
        let file = codec::log_file_number(appended.position.file());
        frames.push((path, file, appended.position.bytes() - 112));
        ends.push(appended.position);
    }
    if closed {
        let end = log.position();
        log.close(&end);
    }
    drop(log);
    let files = fs.list(Path::new(DIR)).expect("it is there").iter().map(|name| Path::new(DIR).join(name)).collect();
    Written { disk: disk.kill(), ends, frames, files }
}

fn read(fs: &dyn FileSystem, path: &Path) -> Vec<u8> {
    let Ok(file) = fs.open(path, Open::Read) else { return Vec::new() };
    let mut bytes = vec![0; file.len().expect("it is open") as usize];
    file.read_at(0, &mut bytes).expect("as long as it says");
    bytes
}

/// Makes the checksum of the frame header at `offset` hold again.
fn reseal(fs: &dyn FileSystem, written: &Written, which: usize) {
    let (path, number, offset) = &written.frames[which % written.frames.len()];
    let bytes = read(fs, path);
    let at = *offset as usize;
    let (Some(header), Some(salt)) = (bytes.get(at..at + 24), bytes.get(40..56)) else { return };
    let context = FileContext::new(&STORE_ID, *number, &field(salt, 0));
    let crc = context.header_crc(&field(header, 0), *offset);
    if let Ok(file) = fs.open(path, Open::Write) {
        file.write_at(*offset, &crc.to_le_bytes()).expect("the disk works");
    }
}

/// Applies one change; whether it made a checksum good.
fn change(fs: &dyn FileSystem, written: &Written, input: &mut Input<'_>) -> bool {
    let how = input.u8();
    let path = &written.files[usize::from(input.u8()) % written.files.len()];
    let offset = u64::from(input.u16()) % (20 * 1024);
    let open = fs.open(path, Open::Write);
    match (how % 7, open) {
        (0, Ok(file)) => {
            let length = usize::from(input.u8());
            let bytes = input.take(length);
            file.write_at(offset, bytes).expect("the disk works");
        }
        (1, Ok(file)) => {
            let mut byte = [0];
            if file.read_at(offset, &mut byte).is_ok() {
                file.write_at(offset, &[byte[0] ^ input.u8()]).expect("the disk works");
            }
        }
        (2, Ok(file)) => file.set_len(offset).expect("the disk works"),
        (3, Ok(file)) => {
            let from = &written.files[usize::from(input.u8()) % written.files.len()];
            let (start, length) = (usize::from(input.u16()), usize::from(input.u16()));
            let bytes = read(fs, from);
            let end = start.saturating_add(length).min(bytes.len());
            file.write_at(offset, bytes.get(start..end).unwrap_or_default()).expect("the disk works");
        }
        (4, Ok(_)) => fs.remove(path).expect("the disk works"),
        (5, Ok(_)) => {
            let to = &written.files[usize::from(input.u8()) % written.files.len()];
            fs.rename(path, to).expect("the disk works");
        }
        (6, _) => {
            reseal(fs, written, usize::from(input.u8()));
            return true;
        }
        _ => {}
    }
    false
}

/// Replays from `applied` on, which is the end of batch `skipped`.
fn recovered(disk: &SimDisk, written: &Written, skipped: usize, changed: bool) {
    let fs: Arc<dyn FileSystem> = Arc::new(disk.snapshot());
    let applied = skipped.checked_sub(1).map(|last| &written.ends[last]);
    let mut next = 2 * skipped as u64 + 1;
    let done = recover(fs, options(), applied, &mut |batch| {
        assert_eq!(batch.records.len(), 2);
        for record in &batch.records {
            assert_eq!((record.sequence, record.kind), (next, kind(next)));
            assert_eq!(record.payload, payload(next));
            next += 1;
        }
        Ok(())
    });
    assert!(changed || (done.is_ok() && next == 2 * BATCHES + 1), "nothing was damaged");
    if let Ok(done) = done {
        assert_eq!(done.last_sequence + 1, next);
    }
}

fn salvaged(disk: &SimDisk, made_good: bool) {
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let dir = Path::new(DIR);
    store_ids(&*fs, dir).expect("the disk works");
    let salvage = LogSalvage::survey(Arc::clone(&fs), dir, STORE_ID, Some(&COMMIT_KEY)).expect("the disk works");
    let mut seen = HashMap::new();
    let counted = salvage.read(&mut |item| {
        if let Salvaged::Record(record) = item {
            *seen.entry(record.sequence).or_insert(0) += 1;
            if !made_good {
                assert_eq!(record.kind, kind(record.sequence));
                assert_eq!(record.payload, payload(record.sequence));
            }
        }
        Ok(())
    });
    let counted = counted.expect("the disk works");
    assert!(counted.records <= 2 * BATCHES || made_good);
    // A record that stands in two files is proven in each.
    assert!(counted.authenticated <= counted.files * 2 * BATCHES);
    assert!(made_good || seen.values().all(|times| *times == 1), "a record came twice");
}

fn fuzz(written: &Written, mut input: Input<'_>) {
    let disk = written.disk.snapshot();
    let skipped = usize::from(input.u8()) % (BATCHES as usize + 1);
    let (mut changes, mut made_good) = (0, false);
    while !input.is_empty() && changes < CHANGES_MAX {
        made_good |= change(&disk, written, &mut input);
        changes += 1;
    }
    recovered(&disk, written, skipped, changes > 0);
    let end = written.ends.last();
    inspect(Arc::new(disk.clone()), options(), &BTreeSet::new(), end).expect("the disk works");
    inspect(Arc::new(disk.clone()), options(), &BTreeSet::new(), None).expect("the disk works");
    salvaged(&disk, made_good);
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    if input.u8() & 1 == 0 {
        KILLED.with(|written| fuzz(written.get_or_init(|| write(false)), input));
    } else {
        CLOSED.with(|written| fuzz(written.get_or_init(|| write(true)), input));
    }
});
