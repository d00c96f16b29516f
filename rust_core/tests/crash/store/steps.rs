//! Which step of the pipeline an operation of the disk was: for the report of what was cut where.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_fs::{FileSystem, Open};
use orcas_fs_testing::{Operation, SimDisk, StepInfo};
use parking_lot::Mutex;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Opening,
    Body,
    Commit,
    Spare,
    /// The thread of events.
    Events,
    /// A clean end.
    Close,
    /// A piece of reclamation.
    Reclaim(&'static str),
    /// The commit of what one submitted.
    Settle(&'static str),
}

/// What was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// The piece of reclamation that this belonged to.
    pub reclaiming: Option<&'static str>,
    pub what: &'static str,
}

impl Step {
    pub fn plain(what: &'static str) -> Self {
        Self { reclaiming: None, what }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reclaiming {
            Some(piece) => write!(f, "reclamation, {piece}: {}", self.what),
            None => f.write_str(self.what),
        }
    }
}

/// A disk as it was after one operation.
pub struct Capture {
    pub step: Step,
    pub disk: SimDisk,
}

/// Collects a capture for every operation of a disk.
#[derive(Clone)]
pub struct Recorder(Arc<Mutex<Recording>>);

struct Recording {
    phase: Phase,
    captures: Vec<Capture>,
    /// Log files between their creation and the sync of their names.
    preallocating: BTreeSet<PathBuf>,
    headed: BTreeSet<PathBuf>,
}

impl Recorder {
    pub fn attach(disk: &SimDisk, phase: Phase) -> Self {
        let state = Recording { phase, captures: Vec::new(), preallocating: BTreeSet::new(), headed: BTreeSet::new() };
        let recorder = Self(Arc::new(Mutex::new(state)));
        let held = recorder.clone();
        disk.on_step(move |info, disk| {
            let snapshot = disk.snapshot();
            let mut state = held.0.lock();
            let what = state.classify(info, &snapshot);
            let reclaiming = match state.phase {
                Phase::Reclaim(piece) | Phase::Settle(piece) => Some(piece),
                _ => None,
            };
            state.captures.push(Capture { step: Step { reclaiming, what }, disk: snapshot });
        });
        recorder
    }

    pub fn enter(&self, phase: Phase) {
        self.0.lock().phase = phase;
    }

    pub fn take(&self) -> Vec<Capture> {
        std::mem::take(&mut self.0.lock().captures)
    }
}

/// The magic of a file that has a header.
fn magic(disk: &SimDisk, path: &Path) -> Option<[u8; 8]> {
    let mut magic = [0; 8];
    let read = disk.open(path, Open::Read).and_then(|file| file.read_at(0, &mut magic));
    (read.is_ok() && magic != [0; 8]).then_some(magic)
}

impl Recording {
    fn classify(&mut self, info: &StepInfo, disk: &SimDisk) -> &'static str {
        let opening = self.phase == Phase::Opening;
        if info.operation == Operation::SyncDirectory {
            self.preallocating.clear();
            return if opening { "recovery: directory sync" } else { "directory sync" };
        }
        match info.path.extension().and_then(|extension| extension.to_str()) {
            Some("events") => "event journal",
            Some("log") => self.log_step(info, disk, opening),
            Some("pack") => match info.operation {
                Operation::Create => "pack creation",
                Operation::Write => "chunk write",
                Operation::Sync => "pack sync",
                Operation::Punch => "punch",
                _ if opening => "recovery: pack removed",
                _ => "pack unlink",
            },
            Some("draft" | "keys" | "copy") => "store keys",
            _ => "directory creation",
        }
    }

    fn log_step(&mut self, info: &StepInfo, disk: &SimDisk, opening: bool) -> &'static str {
        let path = &info.path;
        let rewriting = matches!(self.phase, Phase::Reclaim(_));
        match info.operation {
            Operation::Create if rewriting => "compacted file creation",
            Operation::Create => {
                self.preallocating.insert(path.clone());
                "log file creation"
            }
            Operation::Write if rewriting && magic(disk, path).is_some() => "compacted header write",
            Operation::Write if rewriting => "compacted body write",
            Operation::Sync if rewriting && magic(disk, path).is_some() => "compacted header sync",
            Operation::Sync if rewriting => "compacted body sync",
            Operation::Allocate => "log reservation",
            Operation::Write | Operation::Sync if self.preallocating.contains(path) => "log preallocation",
            Operation::Write if self.headed.contains(path) => "log write",
            Operation::Write if magic(disk, path).is_some() => {
                self.headed.insert(path.clone());
                if opening { "recovery: header write" } else { "header write" }
            }
            Operation::Write => "recovery: batch appended again",
            Operation::Sync if opening && !self.headed.contains(path) => "recovery: sync of batches appended again",
            Operation::Sync if opening => "recovery: header sync",
            Operation::Sync => "log sync",
            Operation::SetLength if self.phase == Phase::Close => "truncation at a clean end",
            Operation::SetLength if opening => "recovery: truncation of a closed file",
            Operation::SetLength => "truncation of a closed file",
            _ if opening => "recovery: log file removed",
            _ => "log unlink",
        }
    }
}
