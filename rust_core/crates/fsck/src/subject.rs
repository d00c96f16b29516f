//! The check itself, the same for a closed store and an open one: log, index, packs, counts, losses.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::collect::Collector;
use super::logs::{LogCheck, Suspect};
use super::losses;
use super::owners::Owners;
use super::packs::PackCheck;
use super::present::{Copied, PresentIndex};
use super::{CheckOptions, CheckReport, FindingKind, IndexState, LOSSES_MAX, Phase};
use crate::index::census::Census;
use crate::index::compare::{Difference, compare};
use crate::index::replay::{Replayed, replay};
use crate::sealed::headers::check_headers;
use crate::sealed::tags::{AuthTagCheck, Waiting};
use orcas_base::error::{Error, Result};
use orcas_chunks::{ChunkCheck, ExpectedChunk, PackExamination, PackOptions};
use orcas_fs::FileSystem;
use orcas_fs::scratch::ScratchDir;
use orcas_index::Index;
use orcas_log::{Inspection, LogFault, LogOptions, LogPosition, LogReader, inspect};
use orcas_record::{self as record, BlobLocation, LogFileId, Record};

const NOT_AUTHENTIC: &str = "sealed content does not match its authentication tag";

/// What is checked, in a state that does not change meanwhile.
pub(super) struct Subject<'a> {
    pub fs: Arc<dyn FileSystem>,
    pub log: LogOptions,
    pub packs: PackOptions,
    pub owners: Owners,
    pub present: PresentIndex,
    /// Where the log ends, when the store runs.
    pub end: Option<LogPosition>,
    /// The index of the running store.
    pub live: Option<&'a Index>,
    pub scratch: &'a ScratchDir,
    pub tags: AuthTagCheck<'a>,
    pub options: &'a CheckOptions,
    pub collector: &'a Collector<'a>,
}

impl Subject<'_> {
    pub fn check(self) -> Result<CheckReport> {
        let copied = match &self.present {
            PresentIndex::Copied(copied) => Some(copied),
            PresentIndex::Absent | PresentIndex::Unreadable(_) => None,
        };
        let in_force = self.learn(copied)?;
        let inspection = inspect(Arc::clone(&self.fs), self.log.clone(), &in_force, self.end.as_ref())?;
        self.estimate(&inspection)?;
        let logs = LogCheck {
            collector: self.collector,
            owners: &self.owners,
            read_content: self.options.read_content,
            tags: &self.tags,
            applied: copied.map_or(0, Copied::applied),
            suspects: Mutex::default(),
        };
        let place = (self.scratch.path(), self.log.store_id);
        let threads = self.options.threads();
        let replayed = replay(&logs, &inspection, (threads, self.end.is_some()), place, copied)?;
        self.tell_of_contradictions(copied, &replayed);
        let intact = !self.collector.damage().log && replayed.incomplete.is_none();
        // The log is the truth while all of it is there; behind damage the index still knows what stood there.
        let truth = copied.filter(|_| !intact).map_or(&replayed.index, |copied| &copied.index);
        let mut log_files: BTreeSet<LogFileId> = inspection.pieces.iter().map(|piece| piece.file()).collect();
        self.check_beside(&logs, &inspection, truth, &mut log_files)?;
        let compared = || match copied {
            Some(copied) => self.compare(copied, &replayed, intact),
            None => Ok(match &self.present {
                PresentIndex::Unreadable(why) => IndexState::NotCompared { why: why.clone() },
                PresentIndex::Absent | PresentIndex::Copied(_) => IndexState::Absent,
            }),
        };
        let census = Census { collector: self.collector, index: truth, log_files: &log_files };
        let packs = self.packs(truth);
        let (index, packs) = if truth.is_file() {
            // In memory, an index has one connection, which they would wait for.
            std::thread::scope(|scope| {
                let packs = scope.spawn(|| packs.run(threads));
                let index = compared().and_then(|state| census.run().map(|()| state));
                let packs = packs.join();
                let ended_early = Error::Record { reason: "a thread of the check ended early" };
                index.and_then(|index| Ok((index, packs.unwrap_or(Err(ended_early))?)))
            })?
        } else {
            let index = compared()?;
            census.run()?;
            (index, packs.run(threads)?)
        };
        self.resolve(logs.suspects.into_inner(), truth)?;
        self.resolve_tags(truth)?;
        if self.options.read_content {
            check_headers(&self.tags, truth, self.collector)?;
        }
        self.report(truth, index, log_files.len() as u64, packs)
    }

    /// Takes owners from the present index, and the compacted files that it says are in force.
    fn learn(&self, copied: Option<&Copied>) -> Result<BTreeSet<LogFileId>> {
        let Some(copied) = copied else { return Ok(BTreeSet::new()) };
        let reader = copied.index.read()?;
        let learn = || -> Result<BTreeSet<LogFileId>> {
            for stored in reader.buckets()? {
                if let Record::CreateBucket(bucket) | Record::UpdateBucket(bucket) =
                    record::decode(stored.kind, &stored.record)?
                {
                    self.owners.learn(&bucket);
                }
            }
            Ok(reader.log_files()?.iter().map(|row| row.file).collect())
        };
        // A row that cannot be read is found in the comparison.
        Ok(learn().unwrap_or_default())
    }

    fn estimate(&self, inspection: &Inspection) -> Result<()> {
        let mut total: u64 = inspection.pieces.iter().map(|piece| piece.bytes).sum();
        for name in self.fs.list(&self.packs.dir)? {
            let opened = self.fs.open(&self.packs.dir.join(&name), orcas_fs::Open::Read);
            total += opened.and_then(|file| file.allocated()).unwrap_or(0);
        }
        self.collector.progress().total_bytes.store(total, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    fn tell_of_contradictions(&self, copied: Option<&Copied>, replayed: &Replayed) {
        if let Some(why) = &replayed.incomplete {
            self.collector.find(FindingKind::Manifest, "log", format!("the log does not fit together: {why}"));
        }
        // The index holds only what was durable.
        if let Some(position) = copied.and_then(|copied| copied.position.as_ref())
            && position.sequence > replayed.last
        {
            let fault = LogFault::of_file(
                self.log.path(position.file()),
                "the log ends before what the index has applied of it",
                Some((replayed.last.saturating_add(1), position.sequence)),
            );
            self.collector.fault(FindingKind::LogFile, &fault);
        }
    }

    /// Compacted files that the records say are in force, although the files that they stand for are there as well.
    fn check_beside(
        &self,
        logs: &LogCheck<'_>,
        inspection: &Inspection,
        truth: &Index,
        log_files: &mut BTreeSet<LogFileId>,
    ) -> Result<()> {
        for row in truth.read()?.log_files()? {
            if log_files.contains(&row.file) {
                continue;
            }
            match inspection.beside.iter().find(|piece| piece.file() == row.file) {
                Some(piece) => {
                    logs.examine(piece, &mut |_| Ok(()))?;
                    log_files.insert(row.file);
                }
                None => {
                    let place = self.log.path(row.file).display().to_string();
                    let detail = format!("the file that stands for records {} to {} is missing", row.first, row.last);
                    self.collector.find(FindingKind::LogFile, place, detail);
                }
            }
        }
        Ok(())
    }

    fn compare(&self, copied: &Copied, replayed: &Replayed, intact: bool) -> Result<IndexState> {
        self.collector.progress().enter(Phase::Index);
        if let Err(error) = copied.index.integrity_check() {
            let why = error.to_string();
            self.collector.find(FindingKind::Index, "index.db", why.clone());
            if matches!(error, Error::IndexDamaged { .. }) {
                // Its rows end where it cannot be read; that they are not there says nothing of them.
                return Ok(IndexState::NotCompared { why });
            }
        }
        if let Some(why) = &replayed.behind {
            let why = format!("the index cannot follow the log, the next start rebuilds it: {why}");
            self.collector.find(FindingKind::Index, "index.db", why.clone());
            return Ok(IndexState::NotCompared { why });
        }
        let mut first = None;
        let compared = compare(self.collector, &replayed.index, &copied.index, &mut |difference| {
            first.get_or_insert_with(|| format!("{}: {}", difference.place, difference.detail));
            if intact {
                let Difference { place, detail, cause, object } = difference;
                self.collector.find_by(FindingKind::Index, place, detail, cause.to_owned());
                if let Some(object) = object {
                    self.collector.affects(object);
                }
            }
            // Behind damage the rows differ for a reason that is known already.
            intact
        });
        self.collector.go_on()?;
        match compared {
            Ok(()) => {}
            Err((Some(error), _)) => return Err(error),
            Err((None, error)) => {
                let why = error.map_or_else(String::new, |error| error.to_string());
                self.collector.find(FindingKind::Index, "index.db", why.clone());
                return Ok(IndexState::NotCompared { why });
            }
        }
        Ok(match first {
            None => IndexState::Equal,
            Some(first) if intact => IndexState::Different { first },
            Some(_) => IndexState::NotCompared { why: "the log is damaged".to_owned() },
        })
    }

    fn packs<'a>(&'a self, truth: &'a Index) -> PackCheck<'a> {
        PackCheck {
            fs: Arc::clone(&self.fs),
            options: self.packs.clone(),
            index: truth,
            owners: &self.owners,
            collector: self.collector,
            read_content: self.options.read_content,
            tags: &self.tags,
            live: self.live,
        }
    }

    /// Looks again at contents that fitted no scope when they were read: by now every owner is known.
    fn resolve(&self, suspects: Vec<Suspect>, truth: &Index) -> Result<()> {
        if suspects.is_empty() {
            return Ok(());
        }
        let reader = LogReader::of(Arc::clone(&self.fs), self.log.clone());
        let mut hint = 0;
        let mut content = Vec::new();
        for Suspect { blob, at, length } in suspects {
            let entry = truth.read()?.blob_entry(blob)?;
            let here = |location| location == BlobLocation::Log { at, length };
            let Some(entry) = entry.filter(|entry| here(entry.location)) else { continue };
            self.collector.read(u64::from(length))?;
            content.resize(length as usize, 0);
            let whole = reader.read_content(at, length, 0, &mut content).is_ok();
            let fingerprint = reader.read_fingerprint(at, length).ok().map(record::Fingerprint);
            let fits = whole
                && fingerprint
                    .is_some_and(|fingerprint| self.owners.fits(&fingerprint, &content, entry.home, &mut hint));
            // The owner of what nothing refers to may be gone with the last bucket.
            if !fits && entry.refs > 0 {
                let reason = "the content is not the one that was stored";
                self.collector.find(FindingKind::Blob, self.log.place(at), format!("content {blob}: {reason}"));
                self.collector.damaged(blob, reason);
            }
        }
        Ok(())
    }

    /// Looks again at sealed blobs that did not open: by now it is known what refers to them.
    fn resolve_tags(&self, truth: &Index) -> Result<()> {
        let log = LogReader::of(Arc::clone(&self.fs), self.log.clone());
        let mut read = |_, waiting: &Waiting, take: &mut dyn FnMut(&[u8])| match waiting.location {
            BlobLocation::Log { at, length } => {
                self.collector.read(u64::from(length))?;
                let mut stored = vec![0; length as usize];
                let whole = log.read_content(at, length, 0, &mut stored).is_ok();
                take(&stored);
                Ok(whole)
            }
            BlobLocation::Pack { at, length } => {
                let mut pack = PackExamination::open(&*self.fs, &self.packs, at.pack())?;
                let read = |bytes| self.collector.read(bytes);
                let check = pack.chunk(ExpectedChunk { at, length }, Some(take), &read)?;
                Ok(matches!(check, ChunkCheck::Whole { .. }))
            }
        };
        for (blob, waiting) in self.tags.resolve(truth, self.collector, &mut read)? {
            let (what, place) = match waiting.location {
                BlobLocation::Log { at, .. } => ("content", self.log.place(at)),
                BlobLocation::Pack { at, .. } => {
                    ("chunk", PackExamination::open(&*self.fs, &self.packs, at.pack())?.place(at))
                }
            };
            self.collector.find(FindingKind::Blob, place, format!("{what} {blob}: {NOT_AUTHENTIC}"));
            self.collector.damaged(blob, NOT_AUTHENTIC);
        }
        Ok(())
    }

    fn report(&self, truth: &Index, index: IndexState, log_files: u64, packs: u64) -> Result<CheckReport> {
        self.collector.progress().enter(Phase::Losses);
        let (losses, losses_total) = losses::find(self.collector, truth, LOSSES_MAX)?;
        let found = self.collector.findings();
        self.collector.progress().enter(Phase::Done);
        Ok(CheckReport {
            findings: found.listed,
            findings_total: found.total,
            groups: found.groups,
            affected: found.affected,
            affected_total: found.affected_total,
            losses,
            losses_total,
            blobs: self.collector.blobs(),
            bytes: self.collector.bytes(),
            log_files,
            packs,
            tags: self.tags.counts(),
            index,
            seconds: self.collector.seconds(),
        })
    }
}
