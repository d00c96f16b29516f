//! The scrub: reads everything, slowly, so that damage is known before a client asks for the bytes.
//!
//! Invariants. It reads no more than its share of bytes a second. It holds a pin only while it reads a few chunks,
//! never while it sleeps; a log file stays readable through its descriptor even if it is unlinked. It ends soon after
//! it is asked to.

use std::sync::Arc;
use std::time::Duration;

use super::status::ScrubDamage;
use crate::state::EngineState;
use orcas_base::error::{Error, Result};
use orcas_chunks::{PackExamination, PackOptions};
use orcas_fs::Open;
use orcas_fsck::{INDEX_NAME, Owners, check_live_chunk, chunk_of, gone, places};
use orcas_index::{BlobEntry, PAGE_BYTES};
use orcas_log::{CONTENT_PREFIX, LogFault, LogFiles, LogPosition, RecoveredRecord, Seen};
use orcas_record::{self as record, BlobLocation, ChunkLocation, Fingerprint, LogFileId, PackId, Sequence};

/// Chunks, and bytes of them, that are read under one pin.
const STEP_CHUNKS: usize = 32;
const STEP_BYTES: u64 = 8 << 20;
/// Pages of the index that are read at a time.
const STEP_PAGES: u64 = 256;

/// The thread, until its queue is stopped.
pub(crate) fn run(shared: &Arc<EngineState>, logs: &LogFiles) {
    while let Some(waiting) = shared.scrub.queue.next_all() {
        let ended = Pass::new(shared, logs).run();
        if shared.scrub.queue.is_stopped() {
            return;
        }
        shared.scrub.end(&ended);
        shared.scrub.queue.done();
        for answer in waiting {
            // The receiver may have been dropped.
            let _ = answer.send(ended.clone());
        }
    }
}

struct Pass<'a> {
    shared: &'a Arc<EngineState>,
    logs: &'a LogFiles,
    owners: Owners,
    packs: PackOptions,
}

impl<'a> Pass<'a> {
    fn new(shared: &'a Arc<EngineState>, logs: &'a LogFiles) -> Self {
        let (_, packs) = places(&shared.options.data, &shared.keys);
        Self { shared, logs, owners: Owners::new(shared.keys.clone()), packs }
    }

    fn run(&self) -> Result<()> {
        self.learn();
        let closed = self.logs.closed();
        let end = self.shared.catalog.index.position()?.and_then(|position| LogPosition::decode(&position));
        let packs = self.shared.catalog.index.read()?.pack_usage()?;
        let log_bytes: u64 = closed.iter().map(|log| log.bytes).sum();
        let current = end.filter(|end| closed.iter().all(|log| log.file != end.file()));
        let pack_bytes: u64 = packs.iter().map(|pack| pack.live_bytes + pack.dead_bytes).sum();
        // An index in memory has no file.
        let index = self.shared.fs.open(&self.shared.options.data.join(INDEX_NAME), Open::Read);
        let index_bytes = index.and_then(|file| file.len()).unwrap_or(0);
        let current_bytes = current.as_ref().map_or(0, LogPosition::bytes);
        self.shared.scrub.begin(index_bytes + log_bytes + pack_bytes + current_bytes);
        self.index()?;
        for log in &closed {
            self.log(log.file, None)?;
        }
        if let Some(current) = &current {
            self.log(current.file(), Some(current))?;
        }
        packs.iter().try_for_each(|usage| self.pack(usage.pack))
    }

    /// The pages of the index, as they are in its file.
    fn index(&self) -> Result<()> {
        let index = &self.shared.catalog.index;
        self.shared.scrub.at(INDEX_NAME.to_owned());
        let mut next = 1;
        loop {
            let (pages, whole) = index.verify_pages(next, STEP_PAGES)?;
            if !whole && let Err(Error::IndexDamaged { reason }) = index.quick_check() {
                // That has told the thread that rebuilds the index.
                let place = format!("{INDEX_NAME}, pages {next} to {}", next + pages - 1);
                self.damage(place, reason.to_string(), None);
                return Ok(());
            }
            if pages == 0 {
                return Ok(());
            }
            next += pages;
            self.pay(pages * PAGE_BYTES)?;
        }
    }

    fn learn(&self) {
        let buckets = Arc::clone(&self.shared.catalog.buckets.load());
        buckets.all().for_each(|bucket| self.owners.learn(bucket));
    }

    /// Sleeps until reading so many bytes is within the rate.
    fn pay(&self, bytes: u64) -> Result<()> {
        self.shared.scrub.add_done(bytes);
        let length = Duration::from_secs_f64(bytes as f64 / self.shared.options.scrub_bytes_per_sec as f64);
        if self.shared.scrub.queue.sleep(length) { Ok(()) } else { Err(Error::Closed) }
    }

    /// Reads one file of the log, up to `end` in the one that is being written.
    fn log(&self, file: LogFileId, end: Option<&LogPosition>) -> Result<()> {
        let place = self.logs.path(file).display().to_string();
        self.shared.scrub.at(place.clone());
        let mut hint = 0;
        let mut faults = Vec::new();
        let mut sink = |seen: Seen| {
            match seen {
                Seen::Fault(fault) => faults.push(fault),
                Seen::Batch(batch) => {
                    for recovered in &batch.records {
                        self.content(recovered, &mut hint)?;
                    }
                }
            }
            if self.shared.scrub.queue.is_stopped() { Err(Error::Closed) } else { Ok(()) }
        };
        let examined = match end {
            None => self.logs.examine(file, &|bytes| self.pay(bytes), &mut sink),
            Some(end) => self.logs.examine_current(end, &|bytes| self.pay(bytes), &mut sink),
        };
        let in_force = || end.is_some() || self.logs.closed().iter().any(|log| log.file == file);
        match examined {
            // Replaced since the pass began, or under its old name in the position.
            Err(Error::Missing { .. }) if end.is_some() || !in_force() => return Ok(()),
            Err(Error::Missing { path }) => {
                self.damage(path.display().to_string(), "the file is missing".to_owned(), None);
            }
            Err(Error::Corrupt { path, offset, reason }) => {
                self.damage(format!("{}, byte {offset}", path.display()), reason.to_owned(), None);
            }
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        if in_force() {
            faults.iter().try_for_each(|fault| self.fault(fault))?;
        }
        Ok(())
    }

    fn fault(&self, fault: &LogFault) -> Result<()> {
        let detail = match fault.lost {
            Some((first, last)) => format!("{}; {}", fault.reason, gone(first, last)),
            None => fault.reason.to_owned(),
        };
        let blob = match fault.lost {
            Some((first, last)) if first == last => self.shared.catalog.index.read()?.blob_entry(first)?,
            _ => None,
        };
        self.damage(fault.place(), detail, blob.map(|blob| blob.sequence));
        Ok(())
    }

    fn content(&self, recovered: &RecoveredRecord, hint: &mut usize) -> Result<()> {
        // The fingerprint of a sealed content is of what only its data key opens.
        if !record::is_content(recovered.kind) || record::is_sealed(recovered.kind) {
            return Ok(());
        }
        let Some((fingerprint, content)) = recovered.payload.split_first_chunk::<CONTENT_PREFIX>() else {
            return Ok(());
        };
        let fingerprint = Fingerprint(*fingerprint);
        if self.owners.fits(&fingerprint, content, None, hint) {
            return Ok(());
        }
        let entry = self.shared.catalog.index.read()?.blob_entry(recovered.sequence)?;
        let here = |entry: &BlobEntry| match entry.location {
            BlobLocation::Log { at, .. } => at == recovered.at && entry.refs > 0,
            BlobLocation::Pack { .. } => false,
        };
        let Some(entry) = entry.filter(here) else { return Ok(()) };
        // Its bucket may have been made since the pass began.
        self.learn();
        if !self.owners.fits(&fingerprint, content, entry.home, hint) {
            let detail = "the content is not the one that was stored".to_owned();
            self.damage(self.logs.place(recovered.at), detail, Some(recovered.sequence));
        }
        Ok(())
    }

    fn pack(&self, pack: PackId) -> Result<()> {
        let mut after = None;
        let mut hint = 0;
        loop {
            let Some((last, bytes)) = self.chunks(pack, after, &mut hint)? else { return Ok(()) };
            after = Some(last);
            self.pay(bytes)?;
        }
    }

    /// The next few chunks of a pack, under a pin; the last of them, and the bytes that were read.
    fn chunks(
        &self,
        pack: PackId,
        after: Option<ChunkLocation>,
        hint: &mut usize,
    ) -> Result<Option<(ChunkLocation, u64)>> {
        let _pin = self.shared.catalog.epochs.pin();
        let chunks = self.shared.catalog.index.read()?.chunks_after(pack, after, STEP_CHUNKS)?;
        let Some(first) = chunks.first().and_then(chunk_of) else { return Ok(None) };
        let mut open = match PackExamination::open(&*self.shared.fs, &self.packs, pack) {
            Ok(open) => open,
            Err(error @ (Error::Missing { .. } | Error::Corrupt { .. } | Error::Foreign { .. })) => {
                let place = self.shared.packs.path(pack).display().to_string();
                self.damage(place, error.to_string(), None);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        self.shared.scrub.at(open.path().display().to_string());
        let running = |_| if self.shared.scrub.queue.is_stopped() { Err(Error::Closed) } else { Ok(()) };
        let mut bytes = 0;
        let mut last = first.at;
        for chunk in &chunks {
            if bytes > 0 && bytes + u64::from(chunk.location.length()) > STEP_BYTES {
                break;
            }
            self.learn_home(chunk);
            let index = &self.shared.catalog.index;
            if let Some((place, reason)) = check_live_chunk(index, &mut open, chunk, &self.owners, hint, &running)? {
                self.damage(place, format!("chunk {}: {reason}", chunk.sequence), Some(chunk.sequence));
            }
            bytes += u64::from(chunk.location.length());
            last = chunk_of(chunk).map_or(last, |chunk| chunk.at);
        }
        open.drop_cache(first.at, last, STEP_BYTES);
        Ok(Some((last, bytes)))
    }

    /// The bucket of a chunk may have been made since the pass began.
    fn learn_home(&self, chunk: &BlobEntry) {
        if let Some(bucket) = chunk.home.and_then(|home| self.shared.catalog.buckets.load().by_id(home).cloned()) {
            self.owners.learn(&bucket);
        }
    }

    fn damage(&self, place: String, detail: String, blob: Option<Sequence>) {
        if let Some(blob) = blob {
            self.shared.catalog.pins.note_damage(blob);
        }
        tracing::error!(place, detail, "The scrub found damage: `orcas fsck` shows what is affected");
        self.shared.scrub.note(ScrubDamage { place, detail, blob });
    }
}
