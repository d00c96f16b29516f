//! Compaction of the log: which run of closed files is worth rewriting, and the rewriting, file by file.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::keep::{Disposition, Scope};
use crate::maintenance::ReplaceLog;
use crate::reclaim::limits::ReclaimLimits;
use crate::state::EngineState;
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_log::{ClosedLog, CompactedLog, LogCompaction, LogFiles, RecoveredRecord};
use orcas_record::{self as record, ContentMove, LogFileId, Record};

/// The live bytes of a file are estimated again after this time; condemned contents are subtracted at once.
const REFRESH: Duration = Duration::from_secs(600);
/// Bytes of log beside the payload of a record: frame header, a block checksum, and what padding and commits share.
const RECORD_OVERHEAD: u64 = 36;
/// Bytes of a record beside the bytes of a content, with its fingerprint.
const CONTENT_OVERHEAD: u64 = RECORD_OVERHEAD + 32;
/// Bytes that one compaction writes at most, so that it ends some time.
pub(crate) const OUTPUT_MAX: u64 = 256 << 20;
/// Adjacent files smaller than this share of a log file are put together when there are `SMALL_FILES_MIN` of them.
const SMALL_SHARE: u64 = 8;
const SMALL_FILES_MIN: usize = 4;

/// The estimate of one closed file.
struct Estimate {
    /// Bytes that would be written again.
    live: u64,
    /// Bytes of which `live` are left: all of the file, or what was live when this process wrote it. A rewrite that has
    /// just been made is not made again for what an estimate does not see.
    basis: u64,
    at: Duration,
    stale: bool,
}

/// The estimates of the closed files, as far as they were looked at.
#[derive(Default)]
pub(crate) struct Estimates {
    files: HashMap<LogFileId, Estimate>,
    /// Files that this process wrote, and whether their runs began with the log.
    made: HashMap<LogFileId, bool>,
}

impl Estimates {
    /// A content of `bytes` in `file` was condemned.
    pub fn condemned(&mut self, file: LogFileId, bytes: u64) {
        if let Some(estimate) = self.files.get_mut(&file) {
            estimate.live = estimate.live.saturating_sub(bytes + CONTENT_OVERHEAD);
        }
    }

    pub fn made(&mut self, file: LogFileId, prefix: bool) {
        self.made.insert(file, prefix);
    }

    /// Looks at one file that was not looked at lately. False when there is none.
    pub fn refresh(&mut self, shared: &EngineState, closed: &[ClosedLog], now: Duration) -> Result<bool> {
        self.files.retain(|file, _| closed.iter().any(|log| log.file == *file));
        self.made.retain(|file, _| closed.iter().any(|log| log.file == *file));
        let stale = |log: &&ClosedLog| {
            self.files.get(&log.file).is_none_or(|estimate| estimate.stale || now.saturating_sub(estimate.at) > REFRESH)
        };
        let Some(log) = closed.iter().find(stale) else { return Ok(false) };
        let live = if log.last < log.first {
            0
        } else {
            let usage = shared.catalog.index.read()?.log_usage(log.first, log.last)?;
            let contents = usage.content_bytes + usage.contents * CONTENT_OVERHEAD;
            contents + usage.record_bytes + usage.records * RECORD_OVERHEAD
        };
        let live = live.min(log.bytes);
        let basis = match (self.files.get(&log.file), self.made.get(&log.file)) {
            (Some(known), _) => known.basis,
            (None, Some(_)) => live,
            (None, None) => log.bytes,
        };
        self.files.insert(log.file, Estimate { live, basis, at: now, stale: false });
        Ok(true)
    }

    /// Looks at every file again.
    pub fn forget(&mut self) {
        self.files.values_mut().for_each(|estimate| estimate.stale = true);
    }

    /// The file run whose compaction gives back most. It has none of the files that are passed over.
    pub fn choose(
        &self,
        closed: &[ClosedLog],
        limits: &ReclaimLimits,
        small: u64,
        passed: &dyn Fn(LogFileId) -> bool,
    ) -> Option<Vec<LogFileId>> {
        let mut best: Option<(u64, Vec<LogFileId>)> = None;
        let mut run = FileRun::default();
        for (position, log) in closed.iter().enumerate() {
            let Some(estimate) = self.files.get(&log.file).filter(|_| !passed(log.file)) else {
                run.close(limits, &mut best);
                continue;
            };
            // What ended something was kept for older files; there are none any more.
            let first = position == 0 && self.made.get(&log.file) == Some(&false);
            let basis = if first { log.bytes } else { estimate.basis };
            let worth = estimate.live as f64 <= basis as f64 * limits.live_max || log.bytes < small;
            let most = limits.output_max.min(OUTPUT_MAX);
            if !worth || run.live + estimate.live > most {
                run.close(limits, &mut best);
            }
            if worth && estimate.live <= most {
                run.add(log, estimate.live, basis, small);
            }
        }
        run.close(limits, &mut best);
        best.map(|(_, files)| files)
    }
}

#[derive(Default)]
struct FileRun {
    files: Vec<LogFileId>,
    live: u64,
    freed: u64,
    small: usize,
}

impl FileRun {
    fn add(&mut self, log: &ClosedLog, live: u64, basis: u64, small: u64) {
        self.files.push(log.file);
        self.live += live;
        self.freed += basis.saturating_sub(live);
        self.small += usize::from(log.bytes < small);
    }

    /// Ends the run; it is taken when it beats the best so far.
    fn close(&mut self, limits: &ReclaimLimits, best: &mut Option<(u64, Vec<LogFileId>)>) {
        let run = std::mem::take(self);
        let worth = run.freed >= limits.freed_min || run.small >= SMALL_FILES_MIN;
        if !run.files.is_empty() && worth && best.as_ref().is_none_or(|(freed, _)| run.freed > *freed) {
            *best = Some((run.freed, run.files));
        }
    }
}

/// A compaction under way.
pub(crate) struct Compaction {
    logs: LogFiles,
    files: Vec<LogFileId>,
    next: usize,
    pub prefix: bool,
    in_force: HashSet<LogFileId>,
    output: LogCompaction,
    moves: Vec<ContentMove>,
    /// Whether the request leaves nothing dead in files.
    pub renews: bool,
}

impl Compaction {
    pub fn begin(shared: &EngineState, logs: &LogFiles, files: Vec<LogFileId>) -> Result<Self> {
        let begins = logs.closed().first().is_some_and(|first| files.first() == Some(&first.file));
        let prefix = begins || planted::is(Bug::TombstonesDropped);
        let compacted = shared.catalog.index.read()?.log_files()?;
        let in_force = compacted.iter().map(|row| row.file).filter(|file| !files.contains(file)).collect();
        let output = logs.compact(&files)?;
        Ok(Self { logs: logs.clone(), files, next: 0, prefix, in_force, output, moves: Vec::new(), renews: false })
    }

    /// Rewrites the next file and returns the bytes that were written; `None` when all are done.
    pub fn step(&mut self, shared: &EngineState) -> Result<Option<u64>> {
        let Some(&file) = self.files.get(self.next) else { return Ok(None) };
        self.next += 1;
        let before = self.output.bytes();
        let logs = self.logs.clone();
        logs.scan(file, &mut |batch| {
            // A reader for each batch: none is kept while the disk is waited for.
            let reader = shared.catalog.index.read()?;
            let scope = Scope { reader: &reader, prefix: self.prefix, in_force: &self.in_force };
            for recovered in &batch.records {
                rewrite(&scope, recovered, &mut self.output, &mut self.moves)?;
            }
            Ok(())
        })?;
        Ok(Some(self.output.bytes() - before))
    }

    /// The file that was rewritten last.
    pub fn file(&self) -> Option<LogFileId> {
        self.next.checked_sub(1).and_then(|last| self.files.get(last)).copied()
    }

    /// Makes the new file durable.
    pub fn finish(self) -> Result<(CompactedLog, ReplaceLog)> {
        let compacted = self.output.finish()?;
        let (file, first, last) = (compacted.file, compacted.first, compacted.last);
        Ok((compacted, ReplaceLog { file, first, last, moves: self.moves }))
    }
}

fn rewrite(
    scope: &Scope<'_>,
    recovered: &RecoveredRecord,
    output: &mut LogCompaction,
    moves: &mut Vec<ContentMove>,
) -> Result<()> {
    let RecoveredRecord { sequence, kind, ref payload, .. } = *recovered;
    let record = record::decode(kind, payload)?;
    match scope.disposition(sequence, &record)? {
        Disposition::Drop => {}
        Disposition::Keep => {
            let to = output.push(sequence, kind, &[payload])?;
            if matches!(record, Record::Content { .. }) {
                moves.push(ContentMove { blob: sequence, to });
            }
        }
        Disposition::Rewrite(record) => {
            let mut payload = Vec::with_capacity(256);
            let kind = record::encode(&record, &mut payload);
            output.push(sequence, kind, &[&payload])?;
        }
    }
    Ok(())
}

/// The bytes under which a closed file is small.
pub(crate) fn small(log_file_size: u64) -> u64 {
    log_file_size / SMALL_SHARE
}
