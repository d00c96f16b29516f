//! Single bytes changed in log files and packs, and files that are not there.

use std::collections::BTreeSet;

use super::fixture::{CHUNK, Everything, check, files, flip, flipped, without};
use super::{kinds, lost_keys};
use orcas_fsck::{FindingKind, IndexState};
use orcas_index::BlobEntry;
use orcas_record::BlobLocation;
use orcas_record::placement::codec;

/// Bytes of the header of a frame with one block checksum, and of the fingerprint before a content.
const CONTENT_START: u64 = 24 + 4 + 32;
const CHUNK_HEADER: u64 = 64;
/// Where the second copy of a file's header begins.
const SECOND_COPY: u64 = 2_048;

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn in_log(entry: &BlobEntry) -> (u64, u64) {
    match entry.location {
        BlobLocation::Log { at, .. } => codec::in_log_parts(at),
        BlobLocation::Pack { .. } => panic!("{entry:?}"),
    }
}

fn in_pack(entry: &BlobEntry) -> (u64, u64) {
    match entry.location {
        BlobLocation::Pack { at, .. } => codec::chunk_parts(at),
        BlobLocation::Log { .. } => panic!("{entry:?}"),
    }
}

#[test]
fn a_damaged_content_costs_exactly_the_objects_that_share_it() {
    let store = Everything::new();
    let (file, offset) = in_log(&store.blobs_of("a", "of-5000")[0]);
    let sharing = set(&["a/of-5000", "a/copied-content", "b/shares-content"]);
    for (at, what) in
        [(offset + CONTENT_START + 1_000, "content"), (offset + 24, "table"), (offset + 30, "fingerprint")]
    {
        let report = flipped(&store.log(file), at, || check(store.path()));
        assert_eq!(lost_keys(&report), sharing, "{what}: {report:#?}");
        let finding = report.findings.iter().find(|finding| finding.kind == FindingKind::LogRecord).unwrap();
        assert!(finding.place.ends_with(&format!("{file:020}.log, byte {offset}")), "{what}: {finding:?}");
        assert!(report.losses.iter().all(|loss| loss.bytes == 5_000 && loss.upload.is_none()));
    }
    // A frame that cannot be told from its neighbours loses what stands in it, and no more.
    let report = flipped(&store.log(file), offset + 16, || check(store.path()));
    assert_eq!(lost_keys(&report), sharing, "frame header: {report:#?}");
    let foreign = in_log(&store.blobs_of("other", "of-5000")[0]);
    let report = flipped(&store.log(foreign.0), foreign.1 + CONTENT_START, || check(store.path()));
    assert_eq!(lost_keys(&report), set(&["other/of-5000"]));
    assert!(check(store.path()).findings.is_empty());
}

#[test]
fn a_damaged_chunk_costs_exactly_the_objects_that_share_it() {
    let mut store = Everything::new();
    let (pack, offset) = in_pack(&store.blobs_of("a", "of-350000")[2]);
    let table = CHUNK_HEADER + 4 * 2;
    for (at, what) in
        [(0, "CRC"), (5, "magic"), (20, "fingerprint"), (64, "table"), (table, "content"), (70_000, "end")]
    {
        flip(&store.pack(pack), offset + at);
        let report = check(store.path());
        assert_eq!(lost_keys(&report), set(&["a/of-350000", "b/shares-chunks"]), "{what}: {report:#?}");
        assert_eq!(lost_keys(&report), store.unreadable(), "{what}");
        assert_eq!((report.findings_total, report.index), (1, IndexState::Equal), "{what}");
        let finding = &report.findings[0];
        assert_eq!(finding.kind, FindingKind::Blob, "{what}");
        assert!(finding.place.contains(&format!("{pack:020}.pack, byte ")), "{what}: {finding:?}");
        flip(&store.pack(pack), offset + at);
    }
    assert!(check(store.path()).is_clean());
}

#[test]
fn a_chunk_in_a_segment_costs_the_objects_that_hold_the_segment() {
    let mut store = Everything::new();
    let own: BTreeSet<u64> =
        ["a/of-350000", "b/multipart", "a/stays", "a/of-70001", "other/of-350000", "other/of-70001"]
            .iter()
            .filter_map(|name| name.split_once('/'))
            .filter(|(bucket, key)| store.objects.contains(&format!("{bucket}/{key}")))
            .filter(|(_, key)| *key != "multipart")
            .flat_map(|(bucket, key)| store.blobs_of(bucket, key))
            .map(|entry| entry.sequence)
            .collect();
    // What neither an object of a few chunks nor the upload names.
    let in_segment = store.blobs().into_iter().filter(|entry| {
        matches!(entry.location, BlobLocation::Pack { length, .. } if length == CHUNK) && !own.contains(&entry.sequence)
    });
    let mut lost = BTreeSet::new();
    for entry in in_segment.collect::<Vec<_>>().into_iter().step_by(29) {
        let (pack, offset) = in_pack(&entry);
        flip(&store.pack(pack), offset + 1_000);
        let report = check(store.path());
        let objects: BTreeSet<String> = lost_keys(&report).into_iter().filter(|name| !name.contains('#')).collect();
        assert_eq!(objects, store.unreadable(), "{report:#?}");
        lost.extend(lost_keys(&report));
        flip(&store.pack(pack), offset + 1_000);
    }
    for name in ["a/segments", "b/copied-segments", "b/multipart", "b/open#1"] {
        assert!(lost.contains(name), "{name} in {lost:?}");
    }
}

#[test]
fn a_commit_record_or_the_padding_loses_nothing_but_is_named() {
    let store = Everything::new();
    let (file, offset) = in_log(&store.blobs_of("a", "later/050")[0]);
    let bytes = std::fs::read(store.log(file)).unwrap();
    // The frame of a content, that of its version, then the commit of their batch.
    let frame = |at: u64| {
        let length = u32::from_le_bytes(bytes[at as usize + 8..at as usize + 12].try_into().unwrap());
        let table = if bytes[at as usize + 5] == 1 { 4 * u64::from(length).div_ceil(65_536) } else { 0 };
        (at + 24 + table + u64::from(length)).next_multiple_of(8)
    };
    let commit = frame(frame(offset));
    assert_eq!(bytes[commit as usize + 5], 2);
    for (at, what) in [(commit, "CRC"), (commit + 30, "start"), (commit + 60, "chain"), (commit + 100, "MAC")] {
        let report = flipped(&store.log(file), at, || check(store.path()));
        assert_eq!(kinds(&report), BTreeSet::from([FindingKind::LogRecord]), "{what}: {report:#?}");
        assert!(report.findings[0].place.ends_with(&format!("{file:020}.log, byte {commit}")), "{what}: {report:#?}");
        assert_eq!((report.losses_total, report.index), (0, IndexState::Equal), "{what}");
    }
}

#[test]
fn a_lost_version_is_named_from_the_index() {
    let store = Everything::new();
    let (file, offset) = in_log(&store.blobs_of("a", "later/060")[0]);
    let content = 24 + 4 + 32 + 4_000;
    let version = offset + u64::next_multiple_of(content, 8);
    for at in [version, version + 40] {
        let report = flipped(&store.log(file), at, || check(store.path()));
        assert_eq!(lost_keys(&report), set(&["a/later/060"]), "{report:#?}");
        assert!(report.losses[0].reason.contains("the index has it"), "{report:#?}");
        assert_eq!(report.index, IndexState::NotCompared { why: "the log is damaged".to_owned() });
    }
    let index = store.path().join("index.db");
    // Without the index only the sequence is known.
    let report = without(&index, || flipped(&store.log(file), version + 40, || check(store.path())));
    assert_eq!((report.losses_total, &report.index), (0, &IndexState::Absent), "{report:#?}");
    assert!(report.findings[0].detail.contains("is gone"), "{report:#?}");
    // Findings of one cause are grouped, and told in the words of the first one.
    assert_eq!(report.groups[0].cause, report.findings[0].detail);
}

#[test]
fn a_lost_upload_is_named_from_the_index() {
    let store = Everything::new();
    // Only the record that creates the upload holds the key with its length.
    let found = store.logs().into_iter().find_map(|log| {
        let bytes = std::fs::read(&log).unwrap();
        let at = bytes.windows(6).position(|window| window == b"\x04\0open")?;
        Some((log, at as u64))
    });
    let (log, at) = found.unwrap();
    let report = flipped(&log, at + 3, || check(store.path()));
    assert_eq!(lost_keys(&report), set(&["b/open#"]), "{report:#?}");
    assert!(report.losses[0].reason.contains("the index has it"), "{report:#?}");
}

#[test]
fn damaged_headers_of_log_files_are_named_and_read_past() {
    let store = Everything::new();
    for log in store.logs() {
        let name = log.file_name().unwrap().to_string_lossy().into_owned();
        let compacted = std::fs::read(&log).unwrap()[5..8] == *b"CMP";
        // What leads from file to file, the MAC and the CRC; all of it stands in the neighbours or can be done without.
        let harmless = if compacted { 112..260 } else { 128..164 };
        for at in [0, 9, 33, 45, 60, 70, 90, 130, 150, 161, 180, 230, 257] {
            if !compacted && at >= 164 {
                break;
            }
            let both = || flipped(&log, SECOND_COPY + at, || check(store.path()));
            let report = flipped(&log, at, both);
            let named = report.findings.iter().any(|finding| finding.place.contains(&name) && finding.kind.is_damage());
            assert!(named, "{name} byte {at}: {report:#?}");
            if harmless.contains(&at) {
                assert_eq!(report.losses_total, 0, "{name} byte {at}: {report:#?}");
            }
        }
        for at in [20, SECOND_COPY + 20] {
            let report = flipped(&log, at, || check(store.path()));
            assert!(report.is_clean() && kinds(&report) == BTreeSet::from([FindingKind::Suspicious]), "{report:#?}");
            assert!(report.findings[0].place.contains(&name), "{report:#?}");
        }
    }
}

#[test]
fn a_log_file_that_is_missing_or_cut_costs_what_was_in_it() {
    let store = Everything::new();
    let blobs = store.blobs();
    let logs = store.logs();
    for (at, log) in logs.iter().enumerate() {
        let number: u64 = log.file_stem().unwrap().to_str().unwrap().parse().unwrap();
        let inside: BTreeSet<u64> = blobs
            .iter()
            .filter(
                |entry| matches!(entry.location, BlobLocation::Log { at, .. } if codec::in_log_parts(at).0 == number),
            )
            .filter(|entry| entry.refs > 0)
            .map(|entry| entry.sequence)
            .collect();
        let report = without(log, || check(store.path()));
        assert!(!report.is_clean(), "{number}: {report:#?}");
        assert!(report.losses_total as usize >= inside.len(), "{number}: {inside:?} {report:#?}");
        let length = std::fs::metadata(log).unwrap().len();
        if at + 1 < logs.len() {
            let bytes = std::fs::read(log).unwrap();
            std::fs::write(log, &bytes[..length as usize / 2]).unwrap();
            let report = check(store.path());
            std::fs::write(log, bytes).unwrap();
            let places = report.findings.iter().filter(|finding| finding.kind == FindingKind::LogRecord);
            assert_eq!(places.count(), 1, "{number}: {report:#?}");
            assert!(report.losses_total > 0 || inside.is_empty(), "{number}: {report:#?}");
        }
    }
    assert!(check(store.path()).is_clean());
}

#[test]
fn findings_are_in_the_order_of_the_file() {
    let store = Everything::new();
    let logged = |entry: &BlobEntry| matches!(entry.location, BlobLocation::Log { .. }).then(|| in_log(entry));
    let mut at: Vec<(u64, u64)> = store.blobs().iter().filter_map(logged).collect();
    at.sort_unstable();
    let text = |at: (u64, u64)| format!("{:020}.log, byte {}", at.0, at.1);
    let pair = at.windows(2).find(|pair| pair[0].0 == pair[1].0 && text(pair[0]) > text(pair[1])).unwrap();
    let path = store.log(pair[0].0);
    let report = flipped(&path, pair[0].1 + 24, || flipped(&path, pair[1].1 + 24, || check(store.path())));
    let records = report.findings.iter().filter(|finding| finding.kind == FindingKind::LogRecord);
    let places: Vec<&str> = records.map(|finding| finding.place.rsplit('/').next().unwrap()).collect();
    assert_eq!(places, [text(pair[0]), text(pair[1])], "{report:#?}");
}

#[test]
fn a_header_of_zeros_before_bytes_is_suspicious() {
    use std::os::unix::fs::FileExt;
    let store = Everything::new();
    let newest = store.logs().pop().unwrap();
    let bytes = std::fs::read(&newest).unwrap();
    std::fs::OpenOptions::new().write(true).open(&newest).unwrap().write_all_at(&[0; 4096], 0).unwrap();
    let report = check(store.path());
    let name = newest.file_name().unwrap().to_string_lossy().into_owned();
    let suspicious =
        |finding: &orcas_fsck::Finding| finding.kind == FindingKind::Suspicious && finding.place.contains(&name);
    assert!(report.findings.iter().any(suspicious), "{report:#?}");
    std::fs::write(&newest, bytes).unwrap();
}

#[test]
fn a_pack_that_is_missing_or_foreign_costs_what_was_in_it() {
    let mut store = Everything::new();
    for pack in files(&store.path().join("chunks")) {
        let name = pack.file_name().unwrap().to_string_lossy().into_owned();
        let one = flipped(&pack, SECOND_COPY + 20, || check(store.path()));
        assert!(one.is_clean() && kinds(&one) == BTreeSet::from([FindingKind::Suspicious]), "{one:#?}");
        let report = flipped(&pack, 20, || flipped(&pack, SECOND_COPY + 20, || check(store.path())));
        assert_eq!(report.findings_total, 1, "{report:#?}");
        assert!(report.findings[0].kind == FindingKind::Pack && report.findings[0].place.contains(&name));
        let gone = without(&pack, || check(store.path()));
        assert_eq!(lost_keys(&gone), lost_keys(&report));
        assert!(gone.findings[0].kind == FindingKind::Pack && gone.findings[0].place.ends_with(&name), "{gone:#?}");
        // Every chunk's own damage costs as much.
        let number: u64 = name[..20].parse().unwrap();
        let inside: Vec<u64> = store
            .blobs()
            .iter()
            .filter_map(|entry| match entry.location {
                BlobLocation::Pack { at, .. } if at.pack() == codec::pack(number) => Some(codec::chunk_parts(at).1),
                _ => None,
            })
            .collect();
        inside.iter().for_each(|offset| flip(&pack, offset + 4));
        let each = check(store.path());
        assert_eq!(lost_keys(&each), lost_keys(&report));
        let objects: BTreeSet<String> = lost_keys(&each).into_iter().filter(|name| !name.contains('#')).collect();
        assert_eq!(objects, store.unreadable());
        inside.iter().for_each(|offset| flip(&pack, offset + 4));
    }
    std::fs::write(store.path().join("chunks").join("notes.txt"), b"x").unwrap();
    std::fs::write(store.pack(9_999), b"x").unwrap();
    let report = check(store.path());
    assert_eq!(kinds(&report), BTreeSet::from([FindingKind::Suspicious, FindingKind::Leftover]));
    assert!(report.is_clean());
}

#[test]
fn damaged_keys_are_named() {
    let store = Everything::new();
    let (keys, copy) = (store.path().join("store.keys"), store.path().join("store.keys.copy"));
    for path in [&keys, &copy] {
        let report = flipped(path, 50, || check(store.path()));
        assert_eq!((kinds(&report), report.index), (BTreeSet::from([FindingKind::Keys]), IndexState::Equal));
        let report = without(path, || check(store.path()));
        assert_eq!(kinds(&report), BTreeSet::from([FindingKind::Keys]));
    }
    let report = flipped(&keys, 70, || without(&copy, || check(store.path())));
    assert!(report.findings_total == 2 && matches!(report.index, IndexState::NotCompared { .. }), "{report:#?}");
}

/// Wherever a byte changes, the check ends with a report, and says so when it is a byte that counts.
#[test]
fn any_byte_may_change() {
    let store = Everything::new();
    let seed: u64 = std::env::var("ORCAS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    println!("seed {seed}");
    let mut random = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    let mut next = move |below: u64| {
        let mut bytes = [0; 8];
        random.fill(&mut bytes);
        u64::from_le_bytes(bytes) % below
    };
    let logs = store.logs();
    for log in &logs {
        let length = std::fs::metadata(log).unwrap().len();
        // The newest file of the log is longer than what was written.
        let written = std::fs::read(log).unwrap().iter().rposition(|byte| *byte != 0).unwrap() as u64;
        for _ in 0..12 {
            let at = 4_096 + next(length.min(written) - 4_096);
            let report = flipped(log, at, || check(store.path()));
            let name = log.file_name().unwrap().to_string_lossy();
            let named = report.findings.iter().any(|finding| finding.place.contains(&*name));
            assert!(named && !report.is_clean(), "{name} byte {at}: {report:#?}");
        }
    }
    for entry in store.blobs().iter().step_by(17) {
        let BlobLocation::Pack { at, length } = entry.location else { continue };
        let (pack, offset) = codec::chunk_parts(at);
        let at = offset + next(u64::from(length) + CHUNK_HEADER);
        // Bytes 48 to 63 of the header are covered, too.
        let report = flipped(&store.pack(pack), at, || check(store.path()));
        assert_eq!(report.findings_total, 1, "pack {pack} byte {at}: {report:#?}");
    }
}
