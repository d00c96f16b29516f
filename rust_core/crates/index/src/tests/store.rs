//! Files, pools, transactions and damage.

use rusqlite::{Connection, OpenFlags};

use super::*;
use crate::files::checkpoint::WAL_PAGES_MAX;
use crate::files::{Backing, Pool};
use crate::tables::{heads, uploads};

fn three() -> Vec<Owned> {
    sequenced([bucket(1), put(1, b"a", 1), put(1, b"b", 2)])
}

#[test]
fn keys_are_listed_in_byte_order_within_bounds() {
    let all: [&[u8]; 9] = [b"\0", b"\0\0", b"a", b"a\0", b"a/", b"a\xff", b"b", b"\xff", b"\xff\xff"];
    let shuffled = [4, 8, 0, 6, 2, 7, 1, 5, 3];
    let puts = shuffled.iter().map(|&at| put(1, all[at], 1));
    let index = applied(&sequenced([bucket(1), bucket(2), put(2, b"a", 1)].into_iter().chain(puts)));
    assert_eq!(keys(&index, 1, b"", true, None, 100), all);
    assert_eq!(keys(&index, 1, b"", false, None, 100), all);
    assert_eq!(keys(&index, 1, b"a", true, Some(b"b"), 100), all[2..6]);
    assert_eq!(keys(&index, 1, b"a", false, Some(b"a\xff"), 100), all[3..5]);
    assert_eq!(keys(&index, 1, b"a\xff", true, None, 2), all[5..7]);
    assert!(keys(&index, 1, b"\xff\xff", false, None, 100).is_empty());
    assert!(keys(&index, 1, b"a", true, None, 0).is_empty());
    assert!(keys(&index, 3, b"", true, None, 100).is_empty());
    assert_eq!(keys(&index, 1, b"a0", true, None, 1), all[5..6]);
}

#[test]
fn a_scan_ends_when_its_visitor_returns_false() {
    let index = applied(&three());
    let mut seen = 0;
    let reader = index.read().expect("a reader");
    let visit = &mut |_: ListedRow<'_>| {
        seen += 1;
        false
    };
    reader.scan_current(BucketId(1), b"", true, None, 100, visit).expect("a page");
    assert_eq!(seen, 1);
}

#[test]
fn a_file_index_comes_back_with_rows_and_position() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("index.db");
    let dump = {
        let index = Index::open(file_options(&path), STORE).expect("created");
        assert_eq!(index.position().expect("read"), None);
        apply(&mut index.writer().expect("the writer"), &three()).expect("applied");
        index.dump().expect("a dump")
    };
    let index = Index::open(file_options(&path), STORE).expect("opened");
    assert_eq!(index.position().expect("read"), Some(Bytes::copy_from_slice(&3u64.to_le_bytes())));
    assert_eq!(index.dump().expect("a dump"), dump);
    assert_eq!(dump, applied(&three()).dump().expect("a dump"), "a file and memory hold the same rows");
    index.quick_check().expect("sound");
}

#[test]
fn a_foreign_index_and_a_broken_one_cause_different_errors() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("index.db");
    drop(Index::open(file_options(&path), STORE).expect("created"));
    let opened = |store| Index::open(file_options(&path), store).map(drop);
    assert!(matches!(opened([8; 16]), Err(Error::Foreign { .. })));

    let raw = crate::files::pages::open(&path, OpenFlags::SQLITE_OPEN_READ_WRITE).expect("opened");
    raw.pragma_update(None, "user_version", 99).expect("changed");
    assert!(matches!(opened(STORE), Err(Error::Index { .. })));

    std::fs::write(&path, b"SQLite format 3\0 and then nothing of the kind, for more than a header's length ........")
        .expect("written");
    assert!(matches!(opened(STORE), Err(Error::IndexDamaged { .. })));

    Index::destroy(&path).expect("destroyed");
    Connection::open(&path).expect("opened").execute_batch("CREATE TABLE t (c)").expect("created");
    assert!(matches!(opened(STORE), Err(Error::IndexDamaged { .. })), "its pages have no checksums");

    Index::destroy(&path).expect("destroyed");
    Index::destroy(&path).expect("destroying nothing is fine");
    opened(STORE).expect("created anew");
}

#[test]
fn a_damaged_page_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("index.db");
    let puts = (0..5000u32).map(|number| put(1, &number.to_be_bytes(), 1));
    {
        let index = Index::open(file_options(&path), STORE).expect("created");
        let records = sequenced([bucket(1)].into_iter().chain(puts));
        apply(&mut index.writer().expect("the writer"), &records).expect("applied");
        index.checkpoint().expect("checkpointed");
    }
    let mut bytes = std::fs::read(&path).expect("read");
    let pages = bytes.len() / 4096;
    for page in pages / 2..pages {
        bytes[page * 4096..page * 4096 + 64].fill(0xee);
    }
    std::fs::write(&path, bytes).expect("written");
    let found = Index::open(file_options(&path), STORE).and_then(|index| index.quick_check());
    assert!(matches!(found, Err(Error::IndexDamaged { .. })), "{found:?}");
}

#[test]
fn a_read_transaction_sees_one_state() {
    let dir = tempfile::tempdir().expect("a directory");
    let index = Index::open(file_options(&dir.path().join("index.db")), STORE).expect("created");
    let mut writer = index.writer().expect("the writer");
    apply(&mut writer, &three()).expect("applied");
    let mut reader = index.read().expect("a reader");
    let transaction = reader.begin().expect("a read transaction");
    apply(&mut writer, &[Owned::new(4, delete(1, b"a"))]).expect("applied beside the transaction");
    assert!(transaction.current(BucketId(1), b"a").expect("read").is_some());
    assert_eq!(transaction.position().expect("read").as_deref(), Some(&3u64.to_le_bytes()[..]));
    drop(transaction);
    assert!(reader.current(BucketId(1), b"a").expect("read").is_none());
    assert_eq!(reader.position().expect("read").as_deref(), Some(&4u64.to_le_bytes()[..]));
}

#[test]
fn readers_nest_in_memory() {
    let index = applied(&three());
    let mut outer = index.read().expect("a reader");
    let transaction = outer.begin().expect("a read transaction");
    let mut inner = index.read().expect("a second reader of the same thread");
    assert!(inner.begin().expect("a read transaction").current(BucketId(1), b"a").expect("read").is_some());
    assert!(transaction.current(BucketId(1), b"b").expect("read").is_some());
    assert!(index.serialize().is_ok(), "no statement is running");
}

#[test]
fn one_writer_at_a_time() {
    let index = memory();
    let writer = index.writer().expect("the writer");
    assert!(index.writer().is_err());
    drop(writer);
    assert!(index.writer().is_ok());
}

#[test]
fn the_pool_keeps_its_limits() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("index.db");
    let index = Index::open(file_options(&path), STORE).expect("created");
    let Backing::File { pool, .. } = &index.database.backing else { panic!("an index on disk has a pool") };
    let readers: Vec<_> = (0..4).map(|_| index.read().expect("a reader")).collect();
    assert_eq!(sizes(pool), (4, 0));
    std::thread::scope(|scope| {
        let fifth = scope.spawn(|| index.read().map(drop));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!fifth.is_finished(), "a fifth reader must wait");
        drop(readers);
        fifth.join().expect("no panic").expect("a reader became free");
    });
    assert_eq!(sizes(pool), (2, 2), "only max_idle stay open");
    drop((index.read().expect("a reader"), index.read().expect("a reader")));
    assert_eq!(sizes(pool), (2, 2));
}

#[test]
fn a_caller_that_finds_all_readers_in_use_times_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let index = Index::open(file_options(&dir.path().join("index.db")), STORE).expect("created");
    let readers: Vec<_> = (0..4).map(|_| index.read().expect("a reader")).collect();
    let refused = std::thread::scope(|scope| scope.spawn(|| index.read().map(drop)).join().expect("no panic"));
    assert!(matches!(refused, Err(Error::Busy { connections: 4 })));
    let expected = Connections { misses: 4, waits: 1, refusals: 1, open: 4, ..Connections::default() };
    assert_eq!(index.connections(), expected);
    drop(readers);
    index.read().expect("whoever comes later gets one");
}

#[test]
fn without_idle_readers_each_is_opened_and_closed() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = IndexOptions { max_idle: 0, ..file_options(&dir.path().join("index.db")) };
    let index = Index::open(options, STORE).expect("created");
    for _ in 0..3 {
        drop(index.read().expect("a reader"));
    }
    assert_eq!(index.connections(), Connections { misses: 3, ..Connections::default() });
}

/// How many readers exist, and how many of them are idle.
fn sizes(pool: &Pool) -> (u32, u32) {
    let Connections { open, idle, .. } = pool.connections();
    (open, idle)
}

#[test]
fn readers_age() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("index.db");
    let options = IndexOptions { lifetime: Duration::from_millis(60), ..file_options(&path) };
    let index = Index::open(options, STORE).expect("created");
    let Backing::File { pool, .. } = &index.database.backing else { panic!("an index on disk has a pool") };
    drop(index.read().expect("a reader"));
    assert_eq!(sizes(pool), (1, 1));
    let old = index.read().expect("a reader");
    std::thread::sleep(Duration::from_millis(80));
    drop(old);
    assert_eq!(sizes(pool), (0, 0), "one that comes back too old is closed");
    drop(index.read().expect("a reader"));
    std::thread::sleep(Duration::from_millis(80));
    let fresh = index.read().expect("a reader");
    assert_eq!(sizes(pool), (1, 0), "one that idled too long is replaced");
    drop(fresh);
}

#[test]
fn idle_readers_past_their_lifetime_are_closed() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("index.db");
    let options = IndexOptions { lifetime: Duration::from_millis(300), ..file_options(&path) };
    let index = Index::open(options, STORE).expect("created");
    drop((index.read().expect("a reader"), index.read().expect("a reader")));
    index.close_expired_readers();
    assert_eq!(index.connections(), Connections { misses: 2, open: 2, idle: 2, ..Connections::default() });
    std::thread::sleep(Duration::from_millis(320));
    let out = index.read().expect("a reader");
    index.close_expired_readers();
    assert_eq!(index.connections(), Connections { misses: 3, open: 1, ..Connections::default() }, "what is out stays");
    drop(out);
    drop(index.read().expect("a reader"));
    assert_eq!(index.connections(), Connections { hits: 1, misses: 3, open: 1, idle: 1, ..Connections::default() });
}

#[test]
fn readers_cannot_write() {
    let dir = tempfile::tempdir().expect("a directory");
    let index = Index::open(file_options(&dir.path().join("index.db")), STORE).expect("created");
    let written = index.read().expect("a reader").with(|conn| Ok(conn.execute("DELETE FROM meta", [])?));
    assert!(written.is_err());
}

#[test]
fn a_checkpoint_moves_all_pages() {
    let dir = tempfile::tempdir().expect("a directory");
    let index = Index::open(file_options(&dir.path().join("index.db")), STORE).expect("created");
    apply(&mut index.writer().expect("the writer"), &three()).expect("applied");
    assert!(index.wal_state().expect("read").pending > 0);
    assert_eq!(index.checkpoint().expect("checkpointed").pending, 0);
    assert_eq!(index.wal_state().expect("read").pending, 0);
}

#[test]
fn a_bulk_load_that_stops_halfway_leaves_an_earlier_state() {
    let dir = tempfile::tempdir().expect("a directory");
    let index = Index::open(file_options(&dir.path().join("index.db")), STORE).expect("created");
    let before = index.dump().expect("a dump");
    let mut writer = index.writer().expect("the writer");
    writer.begin_bulk().expect("begun");
    apply(&mut writer, &three()).expect("applied");
    drop(writer);
    assert_eq!(index.dump().expect("a dump"), before);
    let mut writer = index.writer().expect("the writer");
    writer.begin_bulk().expect("begun");
    apply(&mut writer, &three()).expect("applied");
    writer.end_bulk().expect("ended");
    apply(&mut writer, &[Owned::new(4, put(1, b"c", 3))]).expect("applied");
    assert_eq!(keys(&index, 1, b"", true, None, 10), [b"a", b"b", b"c"]);
}

#[test]
fn a_serialized_index_can_be_opened_again() {
    let index = applied(&three());
    let bytes = index.serialize().expect("serialized");
    let copy = Index::open_serialized(&bytes, STORE).expect("opened");
    assert_eq!(copy.dump().expect("a dump"), index.dump().expect("a dump"));
    let many: Vec<_> = (4..3000).map(|sequence| Owned::new(sequence, put(1, &sequence.to_be_bytes(), 1))).collect();
    apply(&mut copy.writer().expect("the writer"), &many).expect("applied");
    assert_eq!(copy.read().expect("a reader").counts(BucketId(1)).expect("read").expect("there").objects, 2998);
    assert_ne!(copy.dump().expect("a dump"), index.dump().expect("a dump"), "the copy is independent");
    assert!(matches!(Index::open_serialized(&bytes, [9; 16]), Err(Error::Foreign { .. })));
    assert!(Index::open_serialized(&bytes[..1000], STORE).is_err());
    assert!(Index::open_serialized(b"", STORE).is_err());
}

/// Steps of SQLite's virtual machine that a cached statement took since the last call: exact and repeatable.
pub(super) fn steps(index: &Index, sql: &str) -> i32 {
    let reader = index.read().expect("a reader");
    let counted = reader.with(|conn| Ok(conn.prepare_cached(sql)?.reset_status(rusqlite::StatementStatus::VmStep)));
    counted.expect("counted")
}

#[test]
fn the_cost_of_a_page_grows_with_its_rows() {
    let puts = |count: u32| (0..count).map(|number| put(1, &number.to_be_bytes(), 1));
    let cost = |records: Vec<Record>| {
        let index = applied(&sequenced([bucket(1)].into_iter().chain(records)));
        let all = keys(&index, 1, b"", true, Some(b"\xff"), 100);
        assert_eq!(all.len(), 100);
        let from = 1500u32.to_be_bytes();
        assert_eq!(keys(&index, 1, &from, true, None, 1).len(), 1);
        (steps(&index, heads::FROM_UNTIL), steps(&index, heads::FROM))
    };
    let small = cost(puts(2000).collect());
    assert!(small.0 > 100, "nothing was counted");
    assert_eq!(cost(puts(20_000).collect()), small);
    let deletes = (0..18_000u32).map(|number| delete(1, &number.to_be_bytes()));
    assert_eq!(cost(puts(20_000).chain(deletes).collect()), small, "deleted keys leave nothing to step over");
}

#[test]
fn a_seek_is_planned_once() {
    let index = applied(&three());
    let reader = index.read().expect("a reader");
    for from in [&b""[..], b"a", b"b", b"c"] {
        reader.scan_current(BucketId(1), from, true, None, 1, &mut |_| true).expect("read");
    }
    let status = rusqlite::StatementStatus::RePrepare;
    let planned = reader.with(|conn| Ok(conn.prepare_cached(heads::FROM)?.get_status(status)));
    assert_eq!(planned.expect("counted"), 0, "a new key must not mean a new plan");
}

#[test]
fn the_cost_of_a_page_of_uploads_grows_with_its_rows() {
    let cost = |count: u64| {
        let uploads = (0..count).map(|number| {
            Record::CreateUpload(Upload {
                id: UploadId(u128::from(number).to_be_bytes()),
                bucket: BucketId(1),
                key: Bytes::from(format!("{:03}", number % 500)),
                initiated_ms: number,
                headers: ObjectHeaders::default(),
                attributes: Attributes::default(),
                checksum: None,
            })
        });
        let index = applied(&sequenced([bucket(1)].into_iter().chain(uploads)));
        let reader = index.read().expect("a reader");
        for until in [None, Some(&b"999"[..])] {
            let mut seen = 0;
            let visit = &mut |_: UploadRow<'_>| {
                seen += 1;
                true
            };
            reader.scan_uploads(BucketId(1), UploadFrom::AfterKey(b"100"), until, 50, visit).expect("a page");
            assert_eq!(seen, 50);
        }
        (steps(&index, uploads::SCAN), steps(&index, uploads::SCAN_UNTIL))
    };
    assert_eq!(cost(5000), cost(500));
}

#[test]
fn threads_may_share_an_index() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<Index>();
    sent::<Writer>();
}

#[test]
fn the_wal_starts_over_while_readers_and_the_writer_are_open() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("index.db");
    let index = Index::open(file_options(&path), STORE).expect("created");
    let mut writer = index.writer().expect("the writer");
    apply(&mut writer, &sequenced([bucket(1)])).expect("applied");
    let mut sequence = 1u64;
    let mut largest = 0;
    for _ in 0..12 {
        let puts = (0..4000).map(|at| put(1, blake3::hash(&(sequence + at).to_be_bytes()).as_bytes(), 1));
        let records: Vec<_> = puts.zip(sequence + 1..).map(|(record, at)| Owned::new(at, record)).collect();
        sequence += 4000;
        for group in records.chunks(40) {
            apply(&mut writer, group).expect("applied");
        }
        assert_eq!(keys(&index, 1, b"", true, None, 1).len(), 1);
        let state = index.checkpoint().expect("checkpointed");
        largest = largest.max(state.pages);
        assert_eq!(state.pending, 0);
    }
    let wal = std::fs::metadata(path.with_extension("db-wal")).expect("the WAL").len();
    assert!(largest > 0 && wal < 3 * WAL_PAGES_MAX * 4096, "the WAL grew to {wal} bytes");
}

#[test]
fn records_that_met_a_full_disk_are_applied_later() {
    let dir = tempfile::tempdir().expect("a directory");
    let index = Index::open(file_options(&dir.path().join("index.db")), STORE).expect("created");
    let mut writer = index.writer().expect("the writer");
    apply(&mut writer, &three()).expect("applied");
    let before = index.dump().expect("a dump");
    let many: Vec<_> = (4..4000).map(|sequence| Owned::new(sequence, put(1, &sequence.to_be_bytes(), 1))).collect();
    // SQLite never limits a database below its size.
    writer.limit_pages(1).expect("limited");
    for _ in 0..2 {
        assert!(matches!(apply(&mut writer, &many), Err(Error::StorageFull)));
        assert_eq!(index.dump().expect("a dump"), before);
    }
    writer.limit_pages(1 << 30).expect("lifted");
    apply(&mut writer, &many).expect("applied");
    let all: Vec<_> = three().into_iter().chain(many).collect();
    assert_eq!(index.dump().expect("a dump"), applied(&all).dump().expect("a dump"));
}

/// The callback outlives a transaction that was rolled back.
#[test]
fn removed_segments_are_reported_even_after_a_full_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let index = Index::open(file_options(&dir.path().join("index.db")), STORE).expect("created");
    let mut writer = index.writer().expect("the writer");
    let (sender, removed) = std::sync::mpsc::channel();
    writer.on_segment_removal(Box::new(move |segment, record| {
        sender.send((segment, record.to_vec())).expect("the test waits");
    }));
    let content = Record::Content {
        fingerprint: Fingerprint([1; 32]),
        shared: false,
        bytes: Bytes::from_static(b"x"),
        seal: None,
    };
    let extents = vec![Extent::Blob { blob: 2, start: 0, length: 1 }];
    let manifest = vec![Extent::Segment { segment: 3, length: 1 }];
    let naming = Record::PutVersion(Version { manifest, ..version(1, b"a", 1) });
    let records = sequenced([bucket(1), content, Record::Segment { extents }, naming]);
    apply(&mut writer, &records).expect("applied");
    writer.limit_pages(1).expect("limited");
    let many: Vec<_> = (5..4000).map(|sequence| Owned::new(sequence, put(1, &sequence.to_be_bytes(), 1))).collect();
    assert!(matches!(apply(&mut writer, &many), Err(Error::StorageFull)));
    writer.limit_pages(1 << 30).expect("lifted");
    apply(&mut writer, &[Owned::new(5, delete(1, b"a"))]).expect("applied");
    assert_eq!(removed.try_iter().collect::<Vec<_>>(), [(3, records[2].payload.to_vec())]);
}

#[test]
fn a_damaged_definition_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("index.db");
    drop(Index::open(file_options(&path), STORE).expect("created"));
    let mut bytes = std::fs::read(&path).expect("read");
    // SQLite leaves older copies in the page, so all of them are changed.
    let copies: Vec<_> = (0..bytes.len() - 11).filter(|at| bytes[*at..].starts_with(b"modified_ms")).collect();
    assert!(!copies.is_empty());
    copies.iter().for_each(|at| bytes[*at] ^= 1);
    std::fs::write(&path, bytes).expect("written");
    assert!(matches!(Index::open(file_options(&path), STORE), Err(Error::IndexDamaged { .. })));
}
