//! Compacted files that are damaged, missing or do not match the records, and invalid calls.

use std::path::Path;
use std::sync::Arc;

use orcas_base::error::Error;
use orcas_fs::real::RealFileSystem;

use super::compaction::{
    compact, copy_dir, even, files, in_force, on_disk, open, open_at, options, path_of, sequences, ten_files,
};
use crate::encoding::{CompactedHeader, HEADER_ENCODED, Header, LogKeys};
use crate::*;

fn refusal(dir: &Path, in_force: &[(LogFileId, Sequence, Sequence)]) -> Error {
    match open_at(dir, None, in_force) {
        Err(RecoverError::Failed(error)) => error,
        other => panic!("expected a refusal, found {:?}", other.map(|(_, batches)| batches.len())),
    }
}

#[test]
fn damage_to_a_compacted_file_is_refused_unless_the_replaced_files_exist() {
    let (dir, log, _) = ten_files();
    let compacted = compact(&log, &files(&log)[2..4], even);
    log.files().replace(&compacted);
    drop(log);
    let whole = copy_dir(dir.path());
    compacted.replaced.iter().for_each(|file| std::fs::remove_file(path_of(dir.path(), *file)).unwrap());
    let kept = [in_force(&compacted)];
    let good = std::fs::read(path_of(dir.path(), compacted.file)).unwrap();
    let flip = |dir: &Path, at: usize| {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        // Both copies of the header.
        if at < 264 {
            bad[2048 + at] ^= 0x10;
        }
        std::fs::write(path_of(dir, compacted.file), bad).unwrap();
    };
    for at in (0..260).step_by(3).chain((4096..good.len()).step_by(31)) {
        flip(dir.path(), at);
        assert!(matches!(refusal(dir.path(), &kept), Error::Corrupt { .. } | Error::Missing { .. }), "byte {at}");
    }
    for length in [0, 100, 4095, 4096, 5000, good.len() - 1] {
        let path = path_of(dir.path(), compacted.file);
        std::fs::write(&path, &good[..length]).unwrap();
        assert!(matches!(refusal(dir.path(), &kept), Error::Corrupt { .. } | Error::Missing { .. }), "{length} bytes");
        std::fs::write(&path, &good).unwrap();
    }
    for at in (8..260).step_by(9) {
        let dir = copy_dir(whole.path());
        flip(dir.path(), at);
        let (_, batches) = open(dir.path(), &[]);
        assert_eq!(sequences(&batches), (1..=30).collect::<Vec<_>>());
        assert!(!on_disk(dir.path()).contains(&compacted.file));
        // But not if the records say that it is in force: contents may be looked for in it.
        let dir = copy_dir(whole.path());
        flip(dir.path(), at);
        assert!(matches!(refusal(dir.path(), &kept), Error::Corrupt { .. }));
        assert_eq!(on_disk(dir.path()).intersection(&on_disk(whole.path())).count(), on_disk(whole.path()).len());
    }
    // Another file under its name is never a matter of indifference.
    let dir = copy_dir(whole.path());
    std::fs::copy(path_of(dir.path(), compacted.file), file_path(dir.path(), 77)).unwrap();
    assert!(matches!(refusal(dir.path(), &kept), Error::Foreign { .. }));
}

#[test]
fn a_genuine_header_that_does_not_fit_is_refused() {
    let (dir, log, _) = ten_files();
    let compacted = compact(&log, &files(&log)[2..4], even);
    drop(log);
    compacted.replaced.iter().for_each(|file| std::fs::remove_file(path_of(dir.path(), *file)).unwrap());
    let good = std::fs::read(path_of(dir.path(), compacted.file)).unwrap();
    let keys = LogKeys::derive(&options(dir.path()).commit_key);
    let decoded =
        Header::decode(&orcas_base::block::field(&good, 0), &keys, &[7; 16], codec::log_file_number(compacted.file));
    let Header::Compacted(genuine) = decoded.unwrap() else { panic!("a plain header") };
    let lies: [&dyn Fn(&mut CompactedHeader); 7] = [
        &|header| header.own_chain[3] ^= 1,
        &|header| header.own_end -= 8,
        &|header| header.own_end += 8,
        &|header| header.own_end = 4096,
        &|header| header.end.chain[0] ^= 1,
        &|header| header.from.chain[0] ^= 1,
        &|header| header.from.offset -= 8,
    ];
    for (at, lie) in lies.iter().enumerate() {
        let mut header = genuine.clone();
        lie(&mut header);
        let mut bad = good.clone();
        bad[..HEADER_ENCODED].copy_from_slice(&header.encode(&keys));
        std::fs::write(path_of(dir.path(), compacted.file), bad).unwrap();
        let refused = refusal(dir.path(), &[in_force(&compacted)]);
        assert!(matches!(refused, Error::Corrupt { .. } | Error::Missing { .. }), "{at}: {refused}");
    }
}

#[test]
fn files_in_force_must_exist() {
    let (dir, log, _) = ten_files();
    let compacted = compact(&log, &files(&log)[2..4], even);
    log.files().replace(&compacted);
    drop(log);
    let (file, first, last) = in_force(&compacted);
    let before = on_disk(dir.path());
    assert!(matches!(refusal(dir.path(), &[(codec::log_file(99), first, last)]), Error::Missing { .. }));
    assert!(matches!(refusal(dir.path(), &[(file, first, last), (codec::log_file(99), 1, 2)]), Error::Missing { .. }));
    assert!(matches!(refusal(dir.path(), &[(file, first, last - 1)]), Error::Corrupt { .. }));
    assert!(matches!(refusal(dir.path(), &[(file, first, last), (codec::log_file(1), 1, 3)]), Error::Corrupt { .. }));
    assert!(on_disk(dir.path()).is_superset(&before));
    open(dir.path(), &[(file, first, last)]);
    // The plain files are gone now: it cannot be taken back.
    assert!(matches!(refusal(dir.path(), &[]), Error::Missing { .. }));
    open(dir.path(), &[(file, first, last)]);
    let path = path_of(dir.path(), file);
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(refusal(dir.path(), &[(file, first, last)]), Error::Missing { .. }));
}

#[test]
fn invalid_calls_are_refused() {
    let (dir, log, _) = ten_files();
    let all = files(&log);
    let (files, current, other) = (log.files(), log.position().file(), codec::log_file(99));
    for run in [&[][..], &[all[0], all[2]], &[all[1], all[0]], &[other], &[all[9], current], &[current]] {
        assert!(matches!(files.compact(run), Err(Error::Io { .. })), "{run:?}");
    }
    assert!(matches!(files.scan(current, &mut |_| Ok(())), Err(Error::Missing { .. })));
    let first = files.compact(&all[2..4]).unwrap();
    assert!(matches!(files.compact(&all[3..5]), Err(Error::Io { .. })));
    assert!(files.remove(first.file()).is_err());
    drop(first);
    let compacted = compact(&log, &all[3..5], even);
    assert!(files.compact(&all[4..6]).is_err());
    for file in [all[0], all[3], current, other] {
        assert!(files.remove(file).is_err(), "{file}");
    }
    files.remove(compacted.file).unwrap();
    for (sequence, length) in [(9, 10), (16, 10), (8, FRAME_PAYLOAD_MAX + 1)] {
        let mut compaction = files.compact(&all[3..5]).unwrap();
        if sequence == 9 {
            compaction.push(10, 4, &[b"1"]).unwrap();
        }
        assert!(matches!(compaction.push(sequence, 4, &[&vec![0; length]]), Err(Error::Record { .. })));
        assert!(compaction.finish().is_err());
    }
    let compacted = compact(&log, &all[3..5], even);
    files.replace(&compacted);
    assert!(files.remove(compacted.file).is_err());
    drop(log);
    let mut recovered = recover(Arc::new(RealFileSystem), options(dir.path()), None, &mut |_| Ok(())).unwrap();
    assert!(recovered.log.files().compact(&all[..1]).is_err());
    recovered.log.keep(&[in_force(&compacted)]).unwrap();
    assert!(recovered.log.files().compact(&all[..1]).is_ok());
    assert!(recovered.log.keep(&[]).is_err());
}
