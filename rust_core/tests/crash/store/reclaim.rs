//! Reclamation of the store under test, a step at a time between everything else, and readers that were begun before
//! it and must end well.

use std::time::Duration;

use orcas_engine::{ObjectReader, ReclaimLimits, Step};
use orcas_fs_testing::SimRng;

use super::run::{Run, is_fault};
use super::sealed::key_for;
use super::steps::Phase;
use crate::model::Payload;
use orcas_catalog::PinnedObject;

/// Readers that are open at a time.
const READERS_MAX: usize = 4;
/// Bytes that a reader takes at a time.
const PIECE_MAX: u64 = 6_000;

/// An object that was found, perhaps some time ago, and what was read of it.
pub struct Reader {
    found: PinnedObject,
    reader: Option<ObjectReader>,
    body: Payload,
    at: usize,
}

/// What is worth reclaiming in this run.
pub fn limits(rng: &mut SimRng) -> ReclaimLimits {
    let pick = |values: &[u64], rng: &mut SimRng| values[rng.below(values.len() as u64) as usize];
    ReclaimLimits {
        live_max: [1.0, 0.9, 0.6][rng.below(3) as usize],
        freed_min: pick(&[1, 1_000, 5_000, 7_000], rng),
        output_max: pick(&[1 << 40, 1 << 40, 20_000], rng),
        compact: true,
        hurry: false,
    }
}

/// What waits for a commit.
fn is_submitted(piece: &'static str) -> bool {
    let of_layers = matches!(piece, "removal of a layer" | "merge of layers");
    of_layers || matches!(piece, "barrier" | "CondemnBlobs" | "MoveChunks" | "RetirePack" | "ReplaceLog")
}

impl Run {
    /// Some steps of reclamation, each with what it submits committed and applied, or not yet.
    pub fn reclaim(&mut self, steps: u64) {
        for _ in 0..steps {
            let Some(done) = self.reclaim_step() else { continue };
            if done == Step::Idle {
                return;
            }
            if done == Step::Waiting && self.settling.is_none() && self.rng.below(2) == 0 {
                self.readers.pop();
            }
            match self.rng.below(8) {
                0 | 1 => {}
                2..=4 => self.idle(Duration::ZERO),
                _ => {
                    self.idle(Duration::ZERO);
                    self.apply();
                }
            }
            if self.rng.below(4) == 0 {
                self.read_on();
            }
        }
    }

    /// `None` when the disk failed it.
    pub fn reclaim_step(&mut self) -> Option<Step> {
        let piece = self.stepper.reclaiming().unwrap_or("choice");
        self.recorder.enter(Phase::Reclaim(piece));
        let done = self.stepper.reclaim(&self.limits);
        if matches!(done, Ok(Step::Worked { .. })) {
            self.settling = self.settling.or(self.stepper.reclaiming().filter(|piece| is_submitted(piece)));
        }
        self.cut(self.must);
        match done {
            Ok(step) => Some(step),
            Err(error) => {
                assert!(is_fault(&error) && self.fault.is_some(), "reclamation failed: {error}");
                None
            }
        }
    }

    /// A merge of layers that was submitted is decided.
    pub fn settle_merge(&mut self) {
        if self.stepper.reclaiming() == Some("merge of layers") {
            self.idle(Duration::ZERO);
        }
    }

    /// Everything is looked at again, with `seal` also the log file in use.
    pub fn refresh(&mut self, seal: bool) {
        self.stepper.refresh_reclamation(seal);
        if seal {
            self.settling = Some("barrier");
        }
    }

    /// Finds an object, to be read later.
    pub fn open_reader(&mut self) {
        let buckets = self.model().buckets.values().filter_map(|bucket| Some((bucket.id?, bucket.objects())));
        let objects: Vec<_> = buckets
            .flat_map(|(id, objects)| objects.map(move |(key, object)| (id, key.clone(), object.body.clone())))
            .collect();
        if objects.is_empty() {
            return;
        }
        let (bucket, key, body) = objects[self.rng.below(objects.len() as u64) as usize].clone();
        let bucket = self.bucket(bucket).expect("the model has it");
        let found = self.handle().object_in(&bucket, &key).unwrap().expect("the model has it");
        let key = key_for(self.handle(), found.object.version.attributes.encryption.as_ref()).unwrap();
        let found = found.with_key(key);
        let whole = self.handle().content().reader(&found, 0, (body.bytes.len() as u64).saturating_sub(1));
        let reader = (self.rng.below(2) == 0).then_some(whole);
        if self.readers.len() == READERS_MAX {
            self.readers.remove(0);
        }
        self.readers.push(Reader { found, reader, body, at: 0 });
    }

    /// One of the readers takes the next bytes.
    pub fn read_on(&mut self) {
        if self.readers.is_empty() {
            return;
        }
        let mut held = self.readers.swap_remove(self.rng.below(self.readers.len() as u64) as usize);
        let wanted = &held.body.bytes;
        let mut bytes = vec![0; wanted.len()];
        if held.reader.is_none() && self.handle().content().try_read(&held.found, 0, &mut bytes).unwrap_or(false) {
            assert!(bytes == *wanted, "a read of an object that was found before reclamation gave other bytes");
        }
        let last = (wanted.len() as u64).saturating_sub(1);
        let mut reader = held.reader.take().unwrap_or_else(|| self.handle().content().reader(&held.found, 0, last));
        let mut piece = vec![0; 1 + self.rng.below(PIECE_MAX) as usize];
        match reader.read(&mut piece) {
            Ok(0) => assert_eq!(held.at, wanted.len(), "a read ends early"),
            Ok(read) => {
                assert!(wanted[held.at..held.at + read] == piece[..read], "a reader that was open gave other bytes");
                held.at += read;
                held.reader = Some(reader);
                self.readers.push(held);
            }
            Err(error) => {
                assert!(is_fault(&error) && self.fault.is_some(), "a reader that was open failed: {error}");
            }
        }
    }

    /// Everybody reads to the end.
    pub fn finish_readers(&mut self) {
        while !self.readers.is_empty() {
            self.read_on();
        }
    }
}
