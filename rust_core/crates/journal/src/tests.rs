//! The journal on a real directory, whole and damaged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::error::Error;
use orcas_fs::FileSystem;
use orcas_fs::real::{RealFileSystem, SystemRandom};
use orcas_fs_testing::{Fault, Operation, SimDisk};

use super::*;

struct Store {
    dir: tempfile::TempDir,
    files: JournalFiles,
    journal: Journal,
    resumed: Option<Resumed>,
    last: Place,
}

fn files(dir: &Path, max_bytes: u64) -> JournalFiles {
    files_on(Arc::new(RealFileSystem), dir, max_bytes)
}

fn files_on(fs: Arc<dyn FileSystem>, dir: &Path, max_bytes: u64) -> JournalFiles {
    JournalFiles::new(JournalOptions {
        fs,
        dir: dir.join(DIRECTORY),
        store_id: [7; 16],
        random: Arc::new(SystemRandom),
        retention_ms: 1_000_000,
        max_bytes,
    })
}

fn stored(place: Place, time_ms: u64, payload: &[u8]) -> Result<StoredEvent> {
    Ok(StoredEvent { place, time_ms, payload: payload.to_vec() })
}

fn mark(sequence: u64) -> Mark {
    let mut mark = [0; MARK];
    mark[..8].copy_from_slice(&sequence.to_le_bytes());
    mark
}

fn start(last: Place, now_ms: u64) -> Start {
    Start { after: last, mark: mark(last.sequence), sequence: last.sequence, now_ms }
}

fn payload(sequence: u64) -> Vec<u8> {
    vec![sequence as u8; 100 + sequence as usize % 50]
}

impl Store {
    fn new(max_bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path(), max_bytes);
        assert!(files.is_absent().unwrap());
        let (mut journal, resumed) = Journal::open(&files, None).unwrap();
        assert_eq!(resumed, None);
        journal.begin(&start(Place::default(), 0), [&b"state"[..]].into_iter()).unwrap();
        Self { dir, files, journal, resumed, last: Place::default() }
    }

    fn reopen(mut self) -> Self {
        (self.journal, self.resumed) = Journal::open(&self.files, None).unwrap();
        self.last = self.resumed.as_ref().map_or(self.last, |resumed| resumed.last);
        self
    }

    /// Events of `sequences`, written together.
    fn write(&mut self, sequences: std::ops::RangeInclusive<u64>) {
        let end = *sequences.end();
        for sequence in sequences {
            self.last = Place { sequence, ordinal: 0 };
            assert!(self.journal.push_event(self.last, sequence * 10, |out| out.extend(payload(sequence))));
        }
        self.journal.write(&mark(end), end, end * 10).unwrap();
    }

    fn roll(&mut self) {
        self.journal.roll(&start(self.last, self.last.sequence * 10), [&b"rolled"[..]].into_iter()).unwrap();
    }

    fn read(&self, cursor: JournalCursor) -> (Vec<u64>, bool) {
        let mut reader = JournalReader::new(self.files.clone(), cursor);
        let (mut found, mut lost) = (Vec::new(), false);
        loop {
            let read = reader.read(300, stored).unwrap();
            lost |= read.lost;
            for event in &read.events {
                assert_eq!(
                    (event.time_ms, &event.payload),
                    (event.place.sequence * 10, &payload(event.place.sequence))
                );
                found.push(event.place.sequence);
            }
            if read.events.is_empty() && !read.lost {
                return (found, lost);
            }
        }
    }

    fn segments(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> =
            std::fs::read_dir(self.dir.path().join(DIRECTORY)).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }
}

#[test]
fn what_is_written_is_read_from_any_place_also_after_a_restart() {
    let mut store = Store::new(1 << 20);
    store.write(1..=5);
    store.roll();
    store.write(6..=8);
    store.write(9..=20);
    store.journal.push_state(store.last, 0, b"more");
    store.journal.write(&mark(25), 25, 0).unwrap();
    for store in [store, Store::new(1 << 20)] {
        if store.last == Place::default() {
            continue;
        }
        let store = store.reopen();
        let resumed = store.resumed.clone().unwrap();
        assert_eq!((resumed.mark, resumed.sequence, resumed.last), (mark(25), 25, store.last));
        assert_eq!(resumed.states, [b"rolled".to_vec(), b"more".to_vec()]);
        for after in 0..=20 {
            let expected = (after + 1..=20).collect();
            assert_eq!(store.read(JournalCursor::After(Place::after(after))), (expected, false), "after {after}");
        }
        assert_eq!(store.read(JournalCursor::Oldest).0.len(), 20);
        for (since, first) in [(0, 1), (10, 1), (11, 2), (59, 6), (60, 6), (199, 20), (200, 20)] {
            assert_eq!(store.read(JournalCursor::Since(since)).0.first(), Some(&first), "since {since}");
        }
        assert_eq!(store.read(JournalCursor::Since(201)), (vec![], false));
    }
}

#[test]
fn a_torn_end_goes_back_to_the_last_mark() {
    let mut whole = Store::new(1 << 20);
    whole.write(1..=3);
    let kept = std::fs::metadata(&whole.segments()[0]).unwrap().len();
    whole.write(4..=5);
    let bytes = std::fs::read(&whole.segments()[0]).unwrap();
    for end in (kept as usize..bytes.len()).step_by(13) {
        std::fs::write(&whole.segments()[0], &bytes[..end]).unwrap();
        let (_, resumed) = Journal::open(&whole.files, None).unwrap();
        assert_eq!(resumed.unwrap().sequence, 3, "cut at {end}");
        assert_eq!(whole.read(JournalCursor::Oldest).0, [1, 2, 3]);
    }
    std::fs::write(&whole.segments()[0], &bytes).unwrap();
    assert_eq!(whole.reopen().read(JournalCursor::Oldest).0, [1, 2, 3, 4, 5]);
}

#[test]
fn damage_in_the_middle_costs_the_rest_of_its_segment_and_readers_are_told() {
    let mut store = Store::new(1 << 20);
    store.write(1..=5);
    store.roll();
    store.write(6..=9);
    let path = store.segments()[0].clone();
    let mut bytes = std::fs::read(&path).unwrap();
    let third = bytes.windows(100).position(|window| window == [3; 100]).unwrap();
    bytes[third + 50] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let store = store.reopen();
    assert_eq!(store.read(JournalCursor::Oldest), (vec![1, 2, 6, 7, 8, 9], true));
    assert_eq!(store.read(JournalCursor::After(Place::after(5))), (vec![6, 7, 8, 9], false));
    let examined = examine(&RealFileSystem, store.dir.path(), &mut |_, _, _| true);
    assert_eq!((examined.segments, examined.events, examined.damaged.len()), (2, 6, 1));
    assert_eq!(examined.damaged[0].0, path);
}

#[test]
fn segments_without_a_header_are_removed() {
    let mut store = Store::new(1 << 20);
    store.write(1..=5);
    store.roll();
    store.write(6..=9);
    std::fs::write(&store.segments()[0], vec![0; 500]).unwrap();
    // One that a crash has left behind the last.
    std::fs::write(store.dir.path().join(DIRECTORY).join(format!("{:020}.events", 3)), b"").unwrap();
    let store = store.reopen();
    assert_eq!(store.segments().len(), 1);
    assert_eq!(store.read(JournalCursor::After(Place::default())), (vec![6, 7, 8, 9], true));
}

#[test]
fn a_segment_without_its_first_mark_is_removed_and_the_one_before_goes_on() {
    let mut store = Store::new(1 << 20);
    store.write(1..=5);
    store.roll();
    let path = store.segments()[1].clone();
    let bytes = std::fs::read(&path).unwrap();
    for end in format::HEADER..bytes.len() {
        std::fs::write(&path, &bytes[..end]).unwrap();
        store = store.reopen();
        let resumed = store.resumed.clone().unwrap();
        assert_eq!((resumed.sequence, resumed.states), (5, vec![b"state".to_vec()]), "cut at {end}");
        assert_eq!(store.segments().len(), 1, "cut at {end}");
    }
    store.write(6..=7);
    assert_eq!(store.reopen().read(JournalCursor::Oldest), ((1..=7).collect(), false));
}

#[test]
fn the_oldest_go_when_they_are_too_many_or_too_old() {
    let mut store = Store::new(1);
    store.write(1..=500);
    store.roll();
    store.write(501..=1000);
    store.roll();
    store.write(1001..=1002);
    assert_eq!(store.journal.expire(0).unwrap(), 2);
    assert_eq!(store.read(JournalCursor::After(Place::after(7))), (vec![1001, 1002], true));
    assert_eq!(store.files.oldest(), Some(Place { sequence: 1000, ordinal: 0 }));
    let mut store = Store::new(1 << 20);
    store.write(1..=10);
    store.roll();
    store.write(11..=12);
    assert_eq!(store.journal.expire(1_000_099).unwrap(), 0);
    assert_eq!(store.journal.expire(1_000_101).unwrap(), 1);
}

#[test]
fn a_reader_under_way_learns_that_its_segment_is_gone() {
    let mut store = Store::new(1);
    store.write(1..=100);
    let mut reader = JournalReader::new(store.files.clone(), JournalCursor::Oldest);
    assert_eq!(reader.read(300, stored).unwrap().events.len(), 3);
    store.roll();
    store.write(101..=102);
    store.journal.expire(0).unwrap();
    let read = reader.read(300, stored).unwrap();
    assert!(read.lost);
    assert_eq!(read.events.iter().map(|event| event.place.sequence).collect::<Vec<_>>(), [101, 102]);
    let read = reader.read(300, stored).unwrap();
    assert!(!read.lost && read.events.is_empty());
}

#[test]
fn what_is_not_known_to_be_durable_can_be_given_up() {
    let mut store = Store::new(1 << 20);
    store.write(1..=3);
    store.journal.sync().unwrap();
    assert_eq!(store.journal.durable(), 3);
    store.write(4..=5);
    assert!(store.journal.is_dirty());
    let (_, resumed) = Journal::open(&store.files, store.journal.distrusted()).unwrap();
    assert_eq!(resumed.unwrap().sequence, 3);
}

#[test]
fn another_store_and_a_new_beginning_have_another_id() {
    let mut store = Store::new(1 << 20);
    store.write(1..=3);
    let id = store.files.id();
    store.journal.begin(&start(Place::after(9), 0), std::iter::empty()).unwrap();
    assert_ne!(store.files.id(), id);
    assert_eq!(store.segments().len(), 1);
    assert_eq!(store.read(JournalCursor::After(Place::after(3))), (vec![], true));
    let other = JournalFiles::new(JournalOptions { store_id: [8; 16], ..(*store.files.options).clone() });
    let (_, resumed) = Journal::open(&other, None).unwrap();
    assert_eq!(resumed, None, "a segment of another store is no segment");
    assert!(discard(&RealFileSystem, store.dir.path()).is_ok());
    assert!(matches!(
        RealFileSystem.open(&store.dir.path().join("x"), orcas_fs::Open::Read),
        Err(Error::Missing { .. })
    ));
    assert!(store.files.is_absent().unwrap());
}

#[test]
fn a_gap_is_told_also_when_more_segments_follow() {
    let mut store = Store::new(64 << 20);
    for round in 0..4 {
        store.write(round * 10 + 1..=round * 10 + 3);
        store.roll();
    }
    // As after a crash that took back some of the removals of what was too old.
    std::fs::remove_file(&store.segments()[1]).unwrap();
    let store = store.reopen();
    let mut reader = JournalReader::new(store.files.clone(), JournalCursor::Oldest);
    let sequences =
        |read: &ReadEvents<StoredEvent>| read.events.iter().map(|event| event.place.sequence).collect::<Vec<_>>();
    let before = reader.read(usize::MAX, stored).unwrap();
    assert_eq!((sequences(&before), before.lost), (vec![1, 2, 3], false));
    let behind = reader.read(usize::MAX, stored).unwrap();
    assert_eq!((sequences(&behind), behind.lost), (vec![21, 22, 23, 31, 32, 33], true));
}

#[test]
fn a_large_state_does_not_fill_a_segment_by_itself() {
    let mut store = Store::new(1 << 20);
    let state = vec![5; 60_000];
    let states = || (0..4).map(|_| &state[..]);
    store.journal.roll(&start(store.last, 0), states()).unwrap();
    assert!(!store.journal.is_full(0), "what every segment begins with");
    store.write(1..=100);
    let mut store = store.reopen();
    assert!(!store.journal.is_full(0));
    store.write(101..=1_000);
    assert!(store.journal.is_full(0));
}

/// A journal of two segments, on a disk that can fail.
fn on_a_simulated_disk() -> (SimDisk, Vec<PathBuf>) {
    let mut store = Store::new(1 << 20);
    store.write(1..=3);
    store.roll();
    store.write(4..=5);
    let disk = SimDisk::new();
    for dir in ["/store", "/store/events"] {
        disk.create_dir(Path::new(dir)).unwrap();
    }
    let copy = |path: PathBuf| {
        let copied = Path::new("/store/events").join(path.file_name().unwrap());
        let file = disk.open(&copied, orcas_fs::Open::Create).unwrap();
        file.write_at(0, &std::fs::read(&path).unwrap()).unwrap();
        copied
    };
    let segments = store.segments().into_iter().map(copy).collect();
    (disk, segments)
}

#[test]
fn a_file_that_cannot_be_read_is_told_and_the_others_are_examined() {
    // The header of the last one, which is read last; or what is behind that of the first one.
    for (read, lost, events) in [(3, 1, 3), (2, 0, 2)] {
        let (disk, segments) = on_a_simulated_disk();
        disk.fail(Operation::Read, read, Fault::Io, false);
        let examined = examine(&disk, Path::new("/store"), &mut |_, _, _| true);
        assert_eq!((examined.segments, examined.events, examined.damaged.len()), (2, events, 0));
        let [(path, _)] = &examined.unreadable[..] else { panic!("{examined:?}") };
        assert_eq!(*path, segments[lost]);
    }
}

#[test]
fn a_segment_whose_header_cannot_be_read_now_is_kept() {
    let (disk, segments) = on_a_simulated_disk();
    let files = files_on(Arc::new(disk.clone()), Path::new("/store"), 1 << 20);
    for read in 1..=2 {
        disk.fail(Operation::Read, read, Fault::Io, false);
        assert!(matches!(Journal::open(&files, None), Err(Error::Io { .. })));
        disk.clear_faults();
        assert_eq!(examine(&disk, Path::new("/store"), &mut |_, _, _| true).segments, segments.len() as u64);
    }
    let (_, resumed) = Journal::open(&files, None).unwrap();
    assert_eq!(resumed.unwrap().sequence, 5);
}
