//! Damage in the write-ahead log, and replacing damaged files.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn three() -> Vec<Owned> {
    sequenced([bucket(1), put(1, b"a", 1), put(1, b"b", 2)])
}

/// The database and the write-ahead log of an index as a killed process left them.
struct Killed {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

/// An index after two transactions. A checkpoint has moved the first one, and with `moved` also the second one.
fn killed(moved: bool) -> Killed {
    let dir = tempfile::tempdir().expect("a directory");
    let live = dir.path().join("live.db");
    let index = Index::open(file_options(&live), STORE).expect("created");
    let mut writer = index.writer().expect("the writer");
    let records = sequenced([bucket(1)].into_iter().chain((0..400u32).map(|key| put(1, &key.to_be_bytes(), 1))));
    apply(&mut writer, &records[..200]).expect("applied");
    index.checkpoint().expect("moved");
    apply(&mut writer, &records[200..]).expect("applied");
    if moved {
        index.checkpoint().expect("moved");
    }
    let path = dir.path().join("index.db");
    for suffix in ["", "-wal"] {
        let name = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        std::fs::copy(name(&live), name(&path)).expect("copied");
    }
    Killed { _dir: dir, path }
}

impl Killed {
    fn change(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let wal = PathBuf::from(format!("{}-wal", self.path.display()));
        let mut bytes = std::fs::read(&wal).expect("a log");
        change(&mut bytes);
        std::fs::write(&wal, bytes).expect("written");
    }

    fn open(&self) -> Result<Index> {
        Index::open(file_options(&self.path), STORE)
    }
}

#[test]
fn a_write_ahead_log_damaged_before_a_moved_frame_is_refused() {
    const FRAME: usize = 4096 + 24;
    let refused = |killed: &Killed| matches!(killed.open(), Err(Error::IndexDamaged { .. }));
    let dump = |moved| killed(moved).open().expect("whole").dump().expect("a dump");
    assert_eq!(dump(true), dump(false));
    let blows: [fn(&mut Vec<u8>); 4] = [
        |bytes| bytes[32 + 500] ^= 1,
        |bytes| bytes[32 + 2 * FRAME + 10] ^= 1,
        |bytes| bytes[5] ^= 1,
        |bytes| bytes[26] ^= 1,
    ];
    for (number, blow) in blows.into_iter().enumerate() {
        let killed = killed(true);
        killed.change(blow);
        assert!(refused(&killed), "damage {number}");
    }
    // A crash leaves the state before: the end is missing or was written in part.
    let before = |killed: &Killed| {
        let index = killed.open().expect("an earlier state");
        index.quick_check().expect("sound");
        keys(&index, 1, b"", true, None, 1_000).len()
    };
    // After its last frame, the file has frames of an earlier log.
    let end = |bytes: &[u8]| {
        let ours = |frame: &usize| bytes.get(32 + frame * FRAME + 8..32 + frame * FRAME + 16) == Some(&bytes[16..24]);
        32 + (0..).take_while(ours).count() * FRAME
    };
    for cut in [1, 100, 4_000, FRAME, FRAME + 1] {
        let killed = killed(false);
        killed.change(|bytes| {
            let end = end(&bytes[..]);
            bytes.truncate(end - cut);
        });
        assert_eq!(before(&killed), 199, "{cut}");
    }
    let killed = killed(false);
    killed.change(|bytes| {
        let end = end(&bytes[..]);
        bytes[end - 2_000..end].fill(0);
    });
    assert_eq!(before(&killed), 199);
}

/// SQLite itself verifies the checksums of frames only when it opens the file.
#[test]
fn a_page_that_changed_in_the_write_ahead_log_is_refused() {
    use std::os::unix::fs::FileExt as _;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("index.db");
    let index = Index::open(file_options(&path), STORE).expect("created");
    let records = sequenced([bucket(1)].into_iter().chain((0..400u32).map(|key| put(1, &key.to_be_bytes(), 1))));
    apply(&mut index.writer().expect("the writer"), &records).expect("applied");
    let told = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&told);
    index.on_damage(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let wal = std::fs::OpenOptions::new().read(true).write(true).open(dir.path().join("index.db-wal")).expect("a log");
    let frames = (wal.metadata().expect("it is there").len() - 32) / 4_120;
    (0..frames).for_each(|frame| wal.write_all_at(&[0xa5; 16], 32 + frame * 4_120 + 2_000).expect("written"));
    assert!(matches!(index.dump(), Err(Error::IndexDamaged { .. })));
    assert!(matches!(index.checkpoint(), Err(Error::IndexDamaged { .. })), "it would have got a valid checksum");
    assert_eq!((told.load(Ordering::Relaxed), index.damage().is_some()), (1, true));
}

#[test]
fn new_readers_use_the_files_that_replace_the_old_ones() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, other) = (dir.path().join("index.db"), dir.path().join("other.db"));
    let fill = |path: &Path| {
        let index = Index::open(file_options(path), STORE).expect("created");
        apply(&mut index.writer().expect("the writer"), &three()).expect("applied");
        index
    };
    let index = fill(&path);
    drop(fill(&other));
    let mut early = index.read().expect("a reader");
    let transaction = early.begin().expect("a read transaction");
    let writer = index.writer().expect("the writer");
    assert!(matches!(index.replace(&other), Err(Error::Index { .. })), "a writer would keep the old files");
    drop(writer);
    index.replace(&other).expect("replaced");
    assert!(!other.exists());
    let mut writer = index.writer().expect("the writer");
    let more = [Owned::new(4, put(1, b"c", 3))];
    apply(&mut writer, &more).expect("applied");
    let count = |reader: &Reader<'_>| reader.counts(BucketId(1)).expect("read").map(|counts| counts.objects);
    assert_eq!((count(&transaction), count(&index.read().expect("a reader"))), (Some(2), Some(3)));
    drop(transaction);
    drop(early);
    // Its connection to the old files is closed, which does not delete any of the new ones.
    assert_eq!(count(&index.read().expect("a reader")), Some(3));
    assert_eq!(index.connections().open, 1);
    drop((writer, index));
    let index = Index::open(file_options(&path), STORE).expect("opened");
    assert_eq!(count(&index.read().expect("a reader")), Some(3));
}
