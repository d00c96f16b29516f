//! Packs on a disk that loses power and fails.

mod upkeep;

use std::path::Path;
use std::sync::Arc;

use orcas_base::error::Error;
use orcas_fs::FileSystem;
use orcas_fs_testing::{CrashPolicy, Fault, Operation, SimDisk, SimRandom, SimRng};
use orcas_record::{ChunkLocation, PackId};

use super::*;

const KEY: [u8; 32] = [3; 32];

fn open(disk: &SimDisk, live: &[PackId]) -> Packs {
    let options = PackOptions {
        dir: "/chunks".into(),
        store_id: [7; 16],
        pack_size: 64 * 1024,
        random: Arc::new(SimRandom::new(disk.steps())),
    };
    Packs::open(Arc::new(disk.clone()), options, live, None).unwrap()
}

fn new_disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir(Path::new("/chunks")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

fn put(packs: &Packs, seed: u64) -> orcas_base::error::Result<(WrittenChunk, Vec<u8>)> {
    let mut rng = SimRng::new(seed);
    let bytes: Vec<u8> = (0..rng.below(20_000)).map(|_| rng.next() as u8).collect();
    let mut writer = packs.reserve(bytes.len() as u32, &KEY)?;
    bytes.chunks(3000).try_for_each(|piece| writer.write(piece))?;
    Ok((writer.finish()?, bytes))
}

fn check(packs: &Packs, durable: &[(WrittenChunk, Vec<u8>)]) {
    for (chunk, bytes) in durable {
        let mut found = vec![0; bytes.len()];
        packs.read(chunk.at, 0, &mut found).unwrap();
        assert_eq!(&found, bytes);
    }
}

fn packs_of(durable: &[(WrittenChunk, Vec<u8>)]) -> Vec<PackId> {
    let mut live: Vec<PackId> = durable.iter().map(|(chunk, _)| chunk.at.pack()).collect();
    live.dedup();
    live
}

#[test]
fn a_synced_chunk_survives_every_crash_and_an_unsynced_one_is_never_wrong() {
    let policies = [CrashPolicy::Drop, CrashPolicy::Keep, CrashPolicy::Prefix, CrashPolicy::Scatter];
    for seed in 0..40 {
        let mut rng = SimRng::new(seed);
        let disk = new_disk();
        let packs = open(&disk, &[]);
        let (mut durable, mut written) = (Vec::new(), Vec::new());
        for step in 0..30 {
            if let 0..2 = rng.below(3) {
                written.push(put(&packs, seed * 100 + step).unwrap());
            } else {
                let chunks: Vec<WrittenChunk> = written.iter().map(|(chunk, _)| chunk.clone()).collect();
                packs.sync(&chunks).unwrap();
                durable.append(&mut written);
            }
            let after = disk.crash(&mut rng, policies[step as usize % 4]);
            let live = packs_of(&durable);
            let reopened = open(&after, &live);
            check(&reopened, &durable);
            for (chunk, bytes) in written.iter().filter(|(chunk, _)| live.contains(&chunk.at.pack())) {
                let mut found = vec![0; bytes.len()];
                if reopened.read(chunk.at, 0, &mut found).is_ok() {
                    assert_eq!(&found, bytes);
                }
            }
            let (chunk, bytes) = put(&reopened, 7).unwrap();
            reopened.sync(std::slice::from_ref(&chunk)).unwrap();
            durable.iter().for_each(|(earlier, _)| assert!(earlier.at.pack() < chunk.at.pack()));
            check(&reopened, &[(chunk, bytes)]);
        }
    }
}

#[test]
fn a_failed_sync_fails_what_it_covered_and_abandons_the_pack() {
    let disk = new_disk();
    let packs = open(&disk, &[]);
    let good = put(&packs, 1).unwrap();
    packs.sync(std::slice::from_ref(&good.0)).unwrap();
    let (bad, _) = put(&packs, 2).unwrap();
    let waiting = put(&packs, 3).unwrap().0;
    let mut writing = packs.reserve(4, &KEY).unwrap();
    disk.fail(Operation::Sync, 1, Fault::Io, false);
    assert!(matches!(packs.sync(std::slice::from_ref(&bad)), Err(Error::Io { .. })));
    // No retry can make it durable, and no sync of the pack is tried again.
    let syncs = disk.count(Operation::Sync);
    for chunk in [&bad, &waiting] {
        assert!(packs.sync(std::slice::from_ref(chunk)).is_err());
    }
    assert_eq!(disk.count(Operation::Sync), syncs);
    assert!(writing.write(&[1; 4]).is_err());
    packs.sync(std::slice::from_ref(&good.0)).unwrap();
    let next = put(&packs, 4).unwrap();
    assert!(next.0.at.pack() > bad.at.pack());
    packs.sync(std::slice::from_ref(&next.0)).unwrap();
    let durable = [good, next];
    check(&open(&disk.crash(&mut SimRng::new(1), CrashPolicy::Drop), &packs_of(&durable)), &durable);
}

#[test]
fn every_fault_is_reported_and_the_next_chunk_can_be_written() {
    for kind in [Operation::Create, Operation::Write, Operation::Sync, Operation::SyncDirectory] {
        for (nth, fault) in (1..8).flat_map(|nth| [(nth, Fault::Io), (nth, Fault::NoSpace)]) {
            let disk = new_disk();
            let packs = open(&disk, &[]);
            let before = disk.count(kind);
            disk.fail(kind, nth, fault, false);
            let mut durable = Vec::new();
            let mut failures = 0;
            for seed in 0..12 {
                let done = put(&packs, seed).and_then(|(chunk, bytes)| {
                    packs.sync(std::slice::from_ref(&chunk))?;
                    Ok((chunk, bytes))
                });
                match done {
                    Ok(done) => durable.push(done),
                    Err(error) => {
                        assert!(matches!(error, Error::Io { .. } | Error::StorageFull), "{error}");
                        failures += 1;
                    }
                }
            }
            assert!(failures <= 1 && durable.len() + failures == 12, "{kind:?} {nth}");
            assert!(failures == 1 || disk.count(kind) < before + nth, "{kind:?} {nth} was swallowed");
            let after = disk.crash(&mut SimRng::new(nth), CrashPolicy::Drop);
            check(&open(&after, &packs_of(&durable)), &durable);
        }
    }
}
