//! Copying, punching and retiring packs on a disk that loses power and fails.

use parking_lot::Mutex;

use super::*;
use crate::format::{content_start, frame_length};
use orcas_base::error::Result;

const POLICIES: [CrashPolicy; 4] = [CrashPolicy::Drop, CrashPolicy::Keep, CrashPolicy::Prefix, CrashPolicy::Scatter];

#[derive(Clone)]
struct Stored {
    at: ChunkLocation,
    bytes: Vec<u8>,
}

/// The state as the records of a log would describe it.
#[derive(Clone, Default)]
struct Known {
    live: Vec<Stored>,
    /// Condemned, and possibly punched.
    dead: Vec<Stored>,
    packs: Vec<PackId>,
}

impl Known {
    fn put(&mut self, packs: &Packs, seed: u64) -> Result<()> {
        let (chunk, bytes) = put(packs, seed)?;
        packs.sync(std::slice::from_ref(&chunk))?;
        self.record_births(packs);
        self.live.push(Stored { at: chunk.at, bytes });
        Ok(())
    }

    /// Gives new packs their birth records, as the log would before it names their chunks.
    fn record_births(&mut self, packs: &Packs) {
        for pack in packs.unrecorded() {
            packs.born(pack);
            self.packs.push(pack);
        }
    }

    /// Moves a live chunk to another pack. Its old location is dead then.
    fn move_one(&mut self, packs: &Packs, at: usize) -> Result<()> {
        let Stored { at: old, bytes } = self.live[at].clone();
        let copy = packs.copy(old)?;
        assert!(copy.at.pack() != old.pack() && copy.fingerprint == *blake3::keyed_hash(&KEY, &bytes).as_bytes());
        packs.sync(std::slice::from_ref(&copy))?;
        self.record_births(packs);
        let moved = Stored { at: copy.at, bytes };
        self.dead.push(std::mem::replace(&mut self.live[at], moved));
        Ok(())
    }

    fn punch_one(&mut self, packs: &Packs, at: usize) -> Result<()> {
        let place = self.dead[at].at;
        packs.punch(place)?;
        packs.sync_pack(place.pack())
    }

    /// A pack in which nothing is live.
    fn empty_pack(&self) -> Option<PackId> {
        self.packs.iter().copied().find(|pack| self.live.iter().all(|stored| stored.at.pack() != *pack))
    }

    /// Retires a pack: first it no longer counts, as its record would say, then it is deleted.
    fn retire(&mut self, packs: &Packs, pack: PackId) -> Result<()> {
        packs.close(pack);
        self.dead.retain(|stored| stored.at.pack() != pack);
        self.packs.retain(|known| *known != pack);
        packs.retire(pack)
    }

    /// One step of a run.
    fn act(&mut self, packs: &Packs, action: u64, rng: &mut SimRng) -> Result<()> {
        match action {
            0 if !self.live.is_empty() => self.move_one(packs, rng.below(self.live.len() as u64) as usize),
            1 | 2 if !self.dead.is_empty() => self.punch_one(packs, rng.below(self.dead.len() as u64) as usize),
            3 if self.empty_pack().is_some() => self.empty_pack().map_or(Ok(()), |pack| self.retire(packs, pack)),
            4 if self.live.len() > 2 => {
                let dead = self.live.swap_remove(rng.below(self.live.len() as u64) as usize);
                self.dead.push(dead);
                Ok(())
            }
            _ => self.put(packs, rng.next()),
        }
    }

    /// Checks that live chunks are intact, and dead ones intact or unreadable. Returns the number of unreadable ones.
    fn check(&self, packs: &Packs) -> u64 {
        let read = |stored: &Stored| {
            let mut found = vec![0; stored.bytes.len()];
            let read = packs.read(stored.at, 0, &mut found);
            read.map(|()| assert!(found == stored.bytes, "other bytes in pack {}", stored.at.pack()))
        };
        self.live.iter().for_each(|stored| read(stored).unwrap());
        let gone = self.dead.iter().map(read).filter(|read| match read {
            Ok(()) => false,
            Err(Error::Corrupt { .. }) => true,
            Err(error) => panic!("{error}"),
        });
        gone.count() as u64
    }
}

type Images = Arc<Mutex<Vec<(Operation, SimDisk)>>>;

/// Keeps a snapshot of the disk after each operation from now on.
fn record(disk: &SimDisk) -> Images {
    let images = Images::default();
    let sink = Arc::clone(&images);
    disk.on_step(move |step, disk| sink.lock().push((step.operation, disk.snapshot())));
    images
}

#[test]
fn no_crash_during_upkeep_loses_what_counts() {
    let (mut holes, mut lost, mut kept, mut retired) = (0, 0, 0, 0);
    for seed in 0..40 {
        println!("seed {seed}");
        let mut rng = SimRng::new(seed);
        let disk = new_disk();
        let packs = open(&disk, &[]);
        let images = record(&disk);
        let mut known = Known::default();
        for _ in 0..60 {
            let before = known.clone();
            let action = rng.below(7);
            known.act(&packs, action, &mut rng).unwrap();
            let retires = known.packs.len() < before.packs.len();
            retired += u64::from(retires);
            // The record that retires a pack precedes the operations; every other record follows them.
            let counts = if retires { &known } else { &before };
            for (operation, image) in std::mem::take(&mut *images.lock()) {
                holes += u64::from(operation == Operation::Punch);
                for policy in POLICIES {
                    let gone = counts.check(&open(&image.crash(&mut rng, policy), &counts.packs));
                    if operation == Operation::Punch {
                        (lost, kept) = (lost + gone, kept + counts.dead.len() as u64 - gone);
                    }
                }
            }
            known.check(&packs);
            let policy = POLICIES[rng.below(4) as usize];
            let after = open(&disk.crash(&mut rng, policy), &known.packs);
            known.check(&after);
            assert!(after.files().unwrap().iter().map(|file| file.pack).eq(known.packs.iter().copied()));
        }
    }
    println!("{holes} holes, dead chunks lost {lost} times and kept {kept} times, {retired} packs retired");
    assert!(holes > 200 && lost > 1000 && kept > 1000 && retired > 40);
}

#[test]
fn a_fault_in_upkeep_is_reported_and_harms_nothing_that_counts() {
    let kinds = [
        Operation::Create,
        Operation::Write,
        Operation::Read,
        Operation::Punch,
        Operation::Sync,
        Operation::SyncDirectory,
        Operation::Remove,
    ];
    for (kind, seed, fault) in kinds
        .into_iter()
        .flat_map(|kind| (0..12).flat_map(move |seed| [Fault::Io, Fault::NoSpace].map(|fault| (kind, seed, fault))))
    {
        let mut rng = SimRng::new(seed);
        let disk = new_disk();
        let packs = open(&disk, &[]);
        let mut known = Known::default();
        (0..8).for_each(|_| known.put(&packs, rng.next()).unwrap());
        let (nth, before) = (1 + rng.below(6), disk.count(kind));
        disk.fail(kind, nth, fault, false);
        let mut failures = 0;
        for step in 0..120 {
            let action = [0, 4, 1, 3, 5, 4, 2, 3][step % 8];
            if let Err(error) = known.act(&packs, action, &mut rng) {
                assert!(matches!(error, Error::Io { .. } | Error::StorageFull), "{error}");
                failures += 1;
            }
        }
        assert!(disk.count(kind) >= before + nth, "seed {seed}: no {kind:?} to fail");
        // After a failed sync, further syncs of the same pack fail too.
        assert!(
            failures == 1 || kind == Operation::Sync && failures > 0,
            "seed {seed}: {kind:?} failed {failures} times"
        );
        known.check(&packs);
        for policy in POLICIES {
            known.check(&open(&disk.crash(&mut rng, policy), &known.packs));
        }
    }
}

#[test]
fn a_pack_is_never_synced_again_after_a_failed_sync() {
    for earlier_process in [false, true] {
        let disk = new_disk();
        let mut packs = open(&disk, &[]);
        let mut known = Known::default();
        (0..3).for_each(|seed| known.put(&packs, seed).unwrap());
        let pack = known.live[0].at.pack();
        if earlier_process {
            packs = open(&disk, &known.packs);
        }
        known.dead.push(known.live.remove(0));
        packs.punch(known.dead[0].at).unwrap();
        disk.fail(Operation::Sync, 1, Fault::Io, false);
        assert!(matches!(packs.sync_pack(pack), Err(Error::Io { .. })));
        // It takes no more chunks, so it is idle.
        assert!(packs.is_idle(pack));
        let syncs = disk.count(Operation::Sync);
        packs.punch(known.dead[0].at).unwrap();
        assert!(matches!(packs.sync_pack(pack), Err(Error::Io { .. })));
        assert_eq!(disk.count(Operation::Sync), syncs, "earlier process: {earlier_process}");
        known.put(&packs, 9).unwrap();
        assert!(known.live.last().unwrap().at.pack() > pack);
        known.check(&open(&disk.crash(&mut SimRng::new(1), CrashPolicy::Drop), &known.packs));
    }
}

#[test]
fn a_pack_whose_write_failed_can_still_be_punched_durably() {
    let disk = new_disk();
    let packs = open(&disk, &[]);
    let mut known = Known::default();
    (0..3).for_each(|seed| known.put(&packs, seed).unwrap());
    known.dead.push(known.live.remove(0));
    let (place, pack) = (known.dead[0].at, known.dead[0].at.pack());
    let waiting = put(&packs, 3).unwrap().0;
    disk.fail(Operation::Write, 1, Fault::NoSpace, false);
    assert!(matches!(put(&packs, 4), Err(Error::StorageFull)));
    assert!(packs.punch(place).unwrap() > 0);
    packs.sync_pack(pack).unwrap();
    assert_eq!(known.check(&open(&disk.crash(&mut SimRng::new(1), CrashPolicy::Drop), &known.packs)), 1);
    // The sync also covered what had been finished before.
    packs.sync(std::slice::from_ref(&waiting)).unwrap();
    known.put(&packs, 5).unwrap();
    assert!(known.live.last().unwrap().at.pack() > pack);
}

#[test]
fn without_holes_punch_frees_nothing_and_says_so() {
    let disk = new_disk();
    let packs = open(&disk, &[]);
    let (chunk, bytes) = put(&packs, 1).unwrap();
    packs.sync(std::slice::from_ref(&chunk)).unwrap();
    assert!(packs.has_holes());
    disk.refuse_holes();
    assert_eq!(packs.punch(chunk.at).unwrap(), 0);
    assert!(!packs.has_holes());
    assert!(frame_length(chunk.length) > content_start(chunk.length).next_multiple_of(4096));
    check(&packs, &[(chunk, bytes)]);
}

#[test]
fn finished_upkeep_survives_a_power_cut() {
    for earlier_process in [false, true] {
        let disk = new_disk();
        let mut packs = open(&disk, &[]);
        let mut known = Known::default();
        (0..12).for_each(|seed| known.put(&packs, seed).unwrap());
        if earlier_process {
            packs = open(&disk, &known.packs);
        }
        let drop_all = |known: &Known| open(&disk.crash(&mut SimRng::new(1), CrashPolicy::Drop), &known.packs);
        let large = known.live.iter().position(|stored| stored.bytes.len() > 8192).unwrap();
        known.dead.push(known.live.remove(large));
        let (place, pack) = (known.dead[0].at, known.dead[0].at.pack());
        assert!(packs.punch(place).unwrap() > 0);
        assert_eq!((known.check(&packs), known.check(&drop_all(&known))), (1, 0));
        packs.sync_pack(pack).unwrap();
        assert_eq!(known.check(&drop_all(&known)), 1);
        while let Some(at) = known.live.iter().position(|stored| stored.at.pack() == pack) {
            known.move_one(&packs, at).unwrap();
        }
        known.check(&drop_all(&known));
        known.retire(&packs, pack).unwrap();
        let after = disk.crash(&mut SimRng::new(1), CrashPolicy::Drop);
        assert!(!after.list(Path::new("/chunks")).unwrap().iter().any(|name| pack_named(name) == Some(pack)));
        known.check(&open(&after, &known.packs));
    }
}
