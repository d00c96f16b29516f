//! Random histories, compared with a plain map as the model, and with the same history grouped otherwise.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

type Key = (u64, Vec<u8>);

/// Every version of each key, oldest first: (sequence, id, delete marker, size).
#[derive(Default)]
struct Model {
    versions: BTreeMap<Key, Vec<(Sequence, VersionId, bool, u64)>>,
}

impl Model {
    fn remove(&mut self, key: &Key, id: VersionId) {
        if let Some(versions) = self.versions.get_mut(key) {
            versions.retain(|version| version.1 != id);
        }
    }

    fn put(&mut self, sequence: Sequence, version: &Version) {
        let key = (version.bucket.0, version.key.to_vec());
        self.remove(&key, version.version_id);
        let row = (sequence, version.version_id, version.delete_marker, version.size);
        self.versions.entry(key).or_default().push(row);
    }

    fn apply(&mut self, owned: &Owned) {
        match &owned.record {
            Record::PutVersion(version) => self.put(owned.sequence, version),
            Record::DeleteVersion { bucket, key, version_id } => {
                self.remove(&(bucket.0, key.to_vec()), *version_id);
            }
            Record::MoveVersion { from_bucket, from_key, version } => {
                self.remove(&(from_bucket.0, from_key.to_vec()), version.version_id);
                self.put(owned.sequence, version);
            }
            _ => {}
        }
    }

    fn current(&self, bucket: u64) -> Vec<(Vec<u8>, Sequence, u64)> {
        let current = self.versions.iter().filter(|(key, _)| key.0 == bucket);
        let current = current.filter_map(|(key, versions)| Some((key, versions.last().filter(|newest| !newest.2)?)));
        current.map(|(key, newest)| (key.1.clone(), newest.0, newest.3)).collect()
    }
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0u8, b'/', b'a', 0xff]), 1..3)
}

fn version_id() -> impl Strategy<Value = VersionId> {
    prop_oneof![3 => Just(VersionId::Null), 1 => (0u8..3).prop_map(|id| VersionId::Named([id; 16]))]
}

fn any_version() -> impl Strategy<Value = Version> {
    let fields = (1u64..3, key(), version_id(), prop::bool::weighted(0.1), 0u64..100);
    fields.prop_map(|(bucket, key, version_id, delete_marker, size)| Version {
        version_id,
        delete_marker,
        ..version(bucket, &key, size)
    })
}

fn any_record() -> impl Strategy<Value = Record> {
    let content = Record::Content {
        fingerprint: Fingerprint([0; 32]),
        shared: true,
        bytes: Bytes::from_static(b"content"),
        seal: None,
    };
    prop_oneof![
        6 => any_version().prop_map(Record::PutVersion),
        3 => (1u64..3, key(), version_id()).prop_map(|(bucket, key, version_id)| {
            Record::DeleteVersion { bucket: BucketId(bucket), key: key.into(), version_id }
        }),
        1 => (1u64..3, key(), any_version()).prop_map(|(bucket, key, version)| {
            let version = Version { delete_marker: false, ..version };
            Record::MoveVersion { from_bucket: BucketId(bucket), from_key: key.into(), version }
        }),
        1 => Just(content),
    ]
}

fn history(records: Vec<Record>) -> Vec<Owned> {
    sequenced([bucket(1), bucket(2)].into_iter().chain(records))
}

fn check(index: &Index, model: &Model) -> Result<(), TestCaseError> {
    let reader = index.read().expect("a reader");
    for bucket in 1..3 {
        let current = model.current(bucket);
        let versions = model.versions.iter().filter(|(key, _)| key.0 == bucket).map(|(_, versions)| versions.len());
        let objects = current.len() as u64;
        let expected = Counts {
            objects,
            bytes: current.iter().map(|row| row.2).sum(),
            history: versions.sum::<usize>() as u64 - objects,
            ..Counts::default()
        };
        prop_assert_eq!(reader.counts(BucketId(bucket)).expect("read"), Some(expected));
        let mut listed = Vec::new();
        let visit = &mut |row: ListedRow<'_>| {
            listed.push((row.key.to_vec(), row.sequence, row.size));
            true
        };
        reader.scan_current(BucketId(bucket), b"", true, None, usize::MAX, visit).expect("a page");
        prop_assert_eq!(listed, current);
    }
    let mut records = 0;
    for ((bucket, key), versions) in &model.versions {
        for (sequence, id, ..) in versions {
            let stored = reader.version(BucketId(*bucket), key, *id).expect("read");
            prop_assert_eq!(stored.map(|stored| stored.sequence), Some(*sequence));
            records += 1;
        }
    }
    let dump = index.dump().expect("a dump");
    prop_assert_eq!(dump.lines().filter(|line| line.starts_with("versions ")).count(), records);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_index_follows_a_plain_map(records in prop::collection::vec(any_record(), 0..60), step in 1usize..9) {
        let records = history(records);
        let index = memory();
        let mut model = Model::default();
        let mut writer = index.writer().expect("the writer");
        apply(&mut writer, &records[..2]).expect("applied");
        for group in records[2..].chunks(step) {
            apply(&mut writer, group).expect("applied");
            group.iter().for_each(|owned| model.apply(owned));
            check(&index, &model)?;
        }
    }

    #[test]
    fn grouping_changes_no_row(records in prop::collection::vec(any_record(), 0..60), steps in [1usize..9, 1..40]) {
        let records = history(records);
        let whole = applied(&records).dump().expect("a dump");
        for (step, bulk) in steps.into_iter().zip([false, true]) {
            let index = memory();
            let mut writer = index.writer().expect("the writer");
            if bulk {
                writer.begin_bulk().expect("begun");
            }
            for group in records.chunks(step) {
                apply(&mut writer, group).expect("applied");
            }
            writer.end_bulk().expect("ended");
            prop_assert_eq!(&index.dump().expect("a dump"), &whole);
        }
    }
}
