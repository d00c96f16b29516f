//! The store with its committer and applier on threads of a simulated scheduler; the caller drives reclamation. For
//! tests of schedules: under the feature `shuttle` only, inside an execution of shuttle.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use shuttle::thread::{JoinHandle, spawn};

use super::handle::Handle;
use super::options::{EngineOptions, Environment};
use super::reclaim::{ReclaimLimits, Reclaimer, Step};
use super::upkeep::UpkeepTask;
use crate::opening::open::{Opened, open};
use orcas_base::error::{Error, Result};
use orcas_catalog::{ListVersions, ListedVersion, VersionSink, fill_prefix_hash_filter};
use orcas_record::{BucketId, Extent, Sequence, VersionId};

/// An open store.
pub struct Scheduled {
    handle: Handle,
    committer: JoinHandle<()>,
    applier: JoinHandle<()>,
    _lock: Box<dyn Send + Sync>,
    _tasks: crossbeam_channel::Receiver<UpkeepTask>,
}

/// Reclamation of an open store, for a thread of its own.
pub struct Reclamation(Reclaimer);

impl std::fmt::Debug for Reclamation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.describe(f)
    }
}

impl Reclamation {
    /// # Errors
    /// As [`super::Stepper::reclaim`].
    pub fn step(&mut self, limits: &ReclaimLimits) -> Result<Step> {
        self.0.step(limits)
    }

    /// Looks at everything again; with `roll` the log file in use can be compacted too.
    pub fn refresh(&mut self, roll: bool) {
        self.0.refresh();
        if roll {
            self.0.settle(true, false);
        }
    }
}

impl Scheduled {
    /// # Errors
    /// As [`super::Engine::open`].
    pub fn open(options: EngineOptions, environment: Environment) -> Result<(Self, Reclamation)> {
        let Opened { shared, committer, applier, logs, tasks, lock, .. } = open(options, environment)?;
        let reclaimer = Reclaimer::new(Arc::clone(&shared), logs, Arc::clone(&shared.reclaim.done));
        let committer = spawn(move || committer.run());
        let applier = spawn(move || applier.run());
        let store = Self { handle: Handle { shared }, committer, applier, _lock: lock, _tasks: tasks };
        Ok((store, Reclamation(reclaimer)))
    }

    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Fills the filter of shared blobs.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn fill_prefix_hashes(handle: &Handle) -> Result<()> {
        fill_prefix_hash_filter(&handle.shared.catalog)
    }

    /// As [`super::Engine::close`]. The dump of the index that is left.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] when the store had stopped writing, or when the index cannot be read.
    pub fn close(self) -> Result<String> {
        let shared = &self.handle.shared;
        shared.intents.close();
        let _ = self.committer.join();
        shared.applies.close();
        let _ = self.applier.join();
        shared.faults.check_writable()?;
        shared.catalog.index.dump()
    }
}

/// Everything that a quiet store may not have any more, and what its manifests do not say of references. Empty when all
/// is well. To be asked when nothing is under way, every reader is gone and reclamation has nothing left to do.
///
/// # Errors
/// When the index cannot be read.
pub fn leftovers(handle: &Handle) -> Result<Vec<String>> {
    let shared = &handle.shared;
    let buckets = Arc::clone(&shared.catalog.buckets.load());
    let mut found = Vec::new();
    let mut wrong = |is: bool, what: &dyn std::fmt::Debug| {
        if is {
            found.push(format!("{what:?}"));
        }
    };
    wrong(buckets.dropped().is_some(), &("a layer that was dropped is left", buckets.dropped()));
    let mergeable = buckets.mergeable(&BTreeSet::new());
    wrong(mergeable.is_some(), &("two layers could be one", mergeable));
    let counted = references(handle, buckets.of_any_role().map(|bucket| bucket.id))?;
    let reader = shared.catalog.index.read()?;
    for (blob, refs) in &counted {
        let kept = reader.blob_refs(*blob)?;
        wrong(kept != Some(*refs), &("references of blob", blob, "named", refs, "kept", kept));
    }
    let dump = shared.catalog.index.dump()?;
    let rows = dump.lines().filter(|line| line.starts_with("blobs ")).count();
    wrong(rows != counted.len(), &("blobs named", counted.len(), "kept", rows));
    let dead = reader.dead_blobs(0, 16)?;
    wrong(!dead.is_empty(), &("dead blobs", dead));
    wrong(reader.totals()?.dead != 0, &("dead bytes", reader.totals()?.dead));
    let packs = reader.pack_usage()?;
    for pack in packs.iter().filter(|pack| pack.blobs == 0 && shared.packs.is_idle(pack.pack)) {
        wrong(true, &("an empty pack is left", pack.pack));
    }
    let unrecorded = shared.packs.unrecorded();
    for file in shared.packs.files()? {
        let on_its_way = unrecorded.contains(&file.pack) && !shared.packs.is_idle(file.pack);
        let known = on_its_way || packs.iter().any(|pack| pack.pack == file.pack);
        wrong(!known, &("the file of a pack that is gone, or never was born, is left", file.pack));
    }
    drop(reader);
    let (held, condemned) = shared.catalog.pins.sizes();
    let (pinned, candidates) = (shared.catalog.epochs.pinned(), shared.reclaim.candidates.count());
    wrong(pinned != 0, &("epochs pinned", pinned));
    wrong(condemned != 0, &("blobs remembered as condemned", condemned));
    wrong(candidates != 0, &("candidates", candidates));
    wrong(held != 0, &("fingerprints held", held));
    Ok(found)
}

/// The names of listed versions.
#[derive(Default)]
struct Names(Vec<(Bytes, VersionId)>);

impl VersionSink for Names {
    fn version(&mut self, version: &ListedVersion<'_>) {
        self.0.push((Bytes::copy_from_slice(version.key), version.id));
    }

    fn prefix(&mut self, _: &[u8]) {}

    fn restart(&mut self) {
        self.0.clear();
    }
}

/// References to every blob as the manifests of all versions have them. Each place counts; a segment counts once for
/// each bucket that names it.
fn references(handle: &Handle, buckets: impl Iterator<Item = BucketId>) -> Result<BTreeMap<Sequence, u64>> {
    let mut counted = BTreeMap::new();
    let mut segments = HashSet::new();
    let mut count = |bucket: BucketId, extents: &mut dyn Iterator<Item = &Extent>| {
        for extent in extents {
            match extent {
                Extent::Blob { blob, .. } => *counted.entry(*blob).or_default() += 1,
                Extent::Segment { segment, .. } => drop(segments.insert((bucket, *segment))),
                Extent::Inline(_) => {}
            }
        }
    };
    for bucket in buckets {
        let list = ListVersions { bucket, prefix: Default::default(), delimiter: None, after: None, max_keys: 1_000 };
        let mut versions = Names::default();
        handle.list_versions_to(&list, &mut versions)?;
        for (key, id) in versions.0 {
            let found = handle.version(bucket, &key, id)?;
            let found = found.ok_or(Error::Record { reason: "a listed version is not there" })?;
            count(bucket, &mut found.object.version.manifest.iter());
            count(bucket, &mut found.object.version.attributes.annotations.extents());
        }
    }
    for (_, segment) in segments {
        for extent in handle.shared.catalog.segment(segment)?.iter() {
            if let Extent::Blob { blob, .. } = extent {
                *counted.entry(*blob).or_default() += 1;
            }
        }
    }
    Ok(counted)
}
