//! Records keep who caused them, also in compacted files.

use std::collections::BTreeMap;
use std::num::NonZeroU8;
use std::sync::Arc;

use bytes::Bytes;

use super::super::super::Effort;
use super::super::support::{Store, noise};
use orcas_decide::{BucketChange, Intent, Move, Outcome, Precondition, SettingsChange};
use orcas_fs::real::{RealFileSystem, SystemRandom};
use orcas_log::{LogOptions, Seen, inspect};
use orcas_record::{BucketId, BucketSettings, Cause, DocumentKind, Record, RequestCause, Sequence, decode_caused};
use orcas_store::StoreKeys;

fn request(number: u64) -> Cause {
    let operation = NonZeroU8::new(number as u8 + 1).unwrap();
    Cause::Request(RequestCause { operation, request: number << 32 | 7, principal: [number as u8; 32] })
}

/// Everything in the log of a closed store.
fn records(store: &Store) -> BTreeMap<Sequence, (Record, Cause)> {
    let fs: Arc<dyn orcas_fs::FileSystem> = Arc::new(RealFileSystem);
    let keys = StoreKeys::open(&fs, store.path(), &SystemRandom, false).unwrap();
    let options = LogOptions {
        dir: store.path().join("log"),
        store_id: keys.store_id,
        commit_key: keys.commit_key,
        file_size: orcas_log::FILE_SIZE,
        established: true,
        random: Arc::new(SystemRandom),
    };
    let in_force = store.index().unwrap().read().unwrap().log_files().unwrap();
    let inspection = inspect(fs, options, &in_force.iter().map(|row| row.file).collect(), None).unwrap();
    let mut found = BTreeMap::new();
    for piece in &inspection.pieces {
        let mut take = |seen: Seen| {
            let Seen::Batch(batch) = seen else { panic!("the log is damaged") };
            for record in &batch.records {
                found.insert(record.sequence, decode_caused(record.kind, &record.payload)?);
            }
            Ok(())
        };
        piece.examine(Sequence::MAX, &|_| Ok(()), &mut take).unwrap();
    }
    found
}

fn delete(bucket: BucketId, key: &'static str) -> Intent {
    let (key, precondition) = (Bytes::from_static(key.as_bytes()), Precondition::default());
    Intent::DeleteObject { bucket, key, precondition, version: None, bypass: false }
}

#[test]
fn every_record_that_clients_hear_of_says_who_caused_it() {
    let mut store = Store::new();
    let handle = store.handle();
    let create = Intent::CreateBucket {
        name: Bytes::from_static(b"bucket"),
        owner: Bytes::from_static(b"root"),
        location: Bytes::new(),
        settings: BucketSettings::default(),
        object_lock: false,
        documents: vec![(DocumentKind::Tagging, Bytes::from_static(b"<T/>"))],
    };
    let Ok(Outcome::Bucket(bucket)) = handle.execute_for(request(1), create) else { panic!("no bucket") };
    let change = BucketChange::Settings(SettingsChange::default());
    handle.execute_for(request(7), Intent::UpdateBucket { bucket: bucket.id, change }).unwrap();
    let document = Intent::PutDocument { bucket: bucket.id, kind: DocumentKind::Cors, document: "<C/>".into() };
    handle.execute_for(request(8), document).unwrap();
    let put = |key, cause| {
        let put = store.small_put(&bucket, key, &noise(1_000, 1));
        handle.execute_for(cause, Intent::PutObject(Box::new(put))).unwrap();
    };
    put("a", request(2));
    put("b", Cause::Engine);
    let moved = Move {
        from_bucket: bucket.id,
        from_key: Bytes::from_static(b"a"),
        from_conditions: Default::default(),
        bucket: bucket.id,
        key: Bytes::from_static(b"c"),
        precondition: Precondition::default(),
    };
    handle.execute_for(request(3), Intent::MoveObject(Box::new(moved))).unwrap();
    for (key, number) in [("c", 4), ("b", 5)] {
        handle.execute_for(request(number), delete(bucket.id, key)).unwrap();
    }
    handle.execute_for(request(6), Intent::DeleteBucket { bucket: bucket.id }).unwrap();
    drop(handle);
    store.close();
    let mut causes = Vec::new();
    for (record, cause) in records(&store).into_values() {
        match record {
            Record::CreateBucket(_) => causes.push(("CreateBucket", cause)),
            Record::UpdateBucket(_) => causes.push(("UpdateBucket", cause)),
            Record::PutDocument { .. } => causes.push(("PutDocument", cause)),
            Record::PutVersion(_) => causes.push(("PutVersion", cause)),
            Record::MoveVersion { .. } => causes.push(("MoveVersion", cause)),
            Record::DeleteVersion { .. } => causes.push(("DeleteVersion", cause)),
            Record::DeleteBucket { .. } => causes.push(("DeleteBucket", cause)),
            _ => assert_eq!(cause, Cause::Engine),
        }
    }
    assert_eq!(
        causes,
        [
            ("CreateBucket", request(1)),
            ("PutDocument", request(1)),
            ("UpdateBucket", request(7)),
            ("PutDocument", request(8)),
            ("PutVersion", request(2)),
            ("PutVersion", Cause::Engine),
            ("MoveVersion", request(3)),
            ("DeleteVersion", request(4)),
            ("DeleteVersion", request(5)),
            ("DeleteBucket", request(6)),
        ]
    );
}

#[test]
fn compaction_keeps_the_cause() {
    let mut store = Store::with(|options| options.log_file_size = 1 << 20);
    let bucket = store.bucket("b");
    let handle = store.handle();
    let put = |key: &str, cause| {
        let put = store.small_put(&bucket, key, &noise(10_000, 1));
        handle.execute_for(cause, Intent::PutObject(Box::new(put))).unwrap();
    };
    for n in 0..400 {
        put(&format!("{n:05}"), request(n % 200));
    }
    for n in (0..400).filter(|n| n % 10 != 0) {
        store.delete(&bucket, &format!("{n:05}")).unwrap();
    }
    handle.reclaim(Effort::Compact).unwrap();
    drop(handle);
    store.close();
    assert!(!store.index().unwrap().read().unwrap().log_files().unwrap().is_empty(), "a file was compacted");
    let mut kept = 0;
    for (record, cause) in records(&store).into_values() {
        if let Record::PutVersion(version) = record {
            let number: u64 = std::str::from_utf8(&version.key).unwrap().parse().unwrap();
            assert_eq!(cause, request(number % 200), "object {number}");
            kept += u64::from(number.is_multiple_of(10));
        }
    }
    assert_eq!(kept, 40);
    store.open();
    store.check_rebuild();
}
