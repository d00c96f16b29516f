//! Versions in the order of lists, and what a page of them costs.

use super::store::steps;
use super::*;

fn id(number: u64) -> VersionId {
    VersionId::Named(u128::from(number).to_be_bytes())
}

/// `keys` keys with `versions` versions each; every third key ends with a delete marker.
fn history(keys: u64, versions: u64) -> Vec<Owned> {
    let records = (0..keys * versions).map(|number| {
        let (key, newest) = (number / versions, number % versions == versions - 1);
        let delete_marker = newest && key % 3 == 2;
        let version = version(1, format!("{key:05}").as_bytes(), number);
        Record::PutVersion(Version { version_id: id(number), delete_marker, ..version })
    });
    sequenced([bucket(1)].into_iter().chain(records))
}

fn scanned(index: &Index, from: VersionFrom<'_>, limit: usize) -> Vec<(Vec<u8>, Sequence, bool)> {
    let mut rows = Vec::new();
    let visit = &mut |row: VersionRow<'_>| {
        assert_eq!(row.version_id, id(row.listed.sequence - 2));
        rows.push((row.listed.key.to_vec(), row.listed.sequence, row.delete_marker));
        true
    };
    index.read().expect("a reader").scan_versions(BucketId(1), from, limit, visit).expect("a page");
    rows
}

#[test]
fn of_each_key_the_newest_version_comes_first() {
    let index = applied(&history(6, 3));
    let mut expected: Vec<_> =
        (0..18u64).map(|number| (format!("{:05}", number / 3).into_bytes(), number + 2, number % 9 == 8)).collect();
    expected.sort_by_key(|(key, sequence, _)| (key.clone(), u64::MAX - sequence));
    assert_eq!(scanned(&index, VersionFrom::Key(b""), usize::MAX), expected);
    assert_eq!(scanned(&index, VersionFrom::AfterKey(b"00001"), 5), expected[6..11]);
    let mut below = Vec::new();
    let visit = &mut |row: VersionRow<'_>| {
        below.push(row.listed.sequence);
        true
    };
    let reader = index.read().expect("a reader");
    reader.versions_of_key((BucketId(1), b"00002"), 10, usize::MAX, visit).expect("versions");
    assert_eq!(below, [9, 8], "the delete marker has the sequence 10");
    let mut every = 0;
    reader
        .every_version(BucketId(1), &mut |_| {
            every += 1;
            true
        })
        .expect("all versions");
    assert_eq!(every, 18);
}

#[test]
fn the_cost_of_a_page_grows_with_its_entries() {
    let cost = |keys, versions| {
        let index = applied(&history(keys, versions));
        assert_eq!(scanned(&index, VersionFrom::Key(b"00010"), 50).len(), 50);
        let mut seen = 0;
        let visit = &mut |_: VersionRow<'_>| {
            seen += 1;
            true
        };
        let reader = index.read().expect("a reader");
        reader.versions_of_key((BucketId(1), b"00010"), Sequence::MAX, 10, visit).expect("versions");
        assert_eq!(seen, 10);
        let mut oldest = 0;
        let visit = &mut |_: VersionRow<'_>| {
            oldest += 1;
            true
        };
        reader.oldest_versions(BucketId(1), 10, visit).expect("versions");
        assert_eq!(oldest, 10);
        drop(reader);
        (
            steps(&index, crate::tables::history::FROM),
            [steps(&index, crate::tables::history::OF_KEY), steps(&index, crate::tables::history::OLDEST)],
        )
    };
    let (small, large) = (cost(40, 20), cost(400, 20));
    assert_eq!(small, large, "more keys");
    assert_eq!(cost(40, 200).1, large.1, "more versions of the key");
}
