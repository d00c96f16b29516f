//! Inspects a log that may be damaged, without changing it: which files are in force as far as can be determined, where
//! each ends, and what is wrong with the others. `examine` reads the content of the files.
//!
//! A start refuses a log with any of these faults. Here the walk continues, so that losses can be reported. If a file is
//! missing, the walk continues with the earlier file that reaches furthest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use orcas_base::block::field;
use orcas_base::error::{Error, Result};
use orcas_fs::{File, FileSystem, Open};
use orcas_record::placement::codec;
use orcas_record::{LogFileId, Sequence};

use super::piece::{LogFault, LogGap, LogPiece};
use crate::chain::LogDirectory;
use crate::encoding::{CompactedHeader, FILE_HEADER, FRAME_HEADER, FrameHeader, HEADER_ENCODED, Header};
use crate::{LogOptions, LogPosition, file_number, file_path, place};

/// Bytes read at a time when only zeros are expected.
const ZEROS_BLOCK: u64 = 1024 * 1024;

/// A file in the log's directory that is not part of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OtherLog {
    /// A spare file.
    Spare(LogFileId),
    /// A file without a header but with other bytes.
    Headless(LogFileId),
    /// A valid file that is not part of the chain.
    Unnamed(LogFileId),
}

/// The result of an inspection.
pub struct Inspection {
    /// Oldest first.
    pub pieces: Vec<LogPiece>,
    pub others: Vec<OtherLog>,
    pub faults: Vec<LogFault>,
    /// The gap after the last piece, if bytes are missing there.
    pub gap: Option<LogGap>,
    /// Compacted files that are not part of the chain. The records may still say that they are in force.
    pub beside: Vec<LogPiece>,
    /// The file and the byte where one copy of a header is damaged, for messages. The next start repairs it.
    pub lost_copies: Vec<String>,
}

#[derive(Clone)]
struct Known {
    header: Header,
    from_known: bool,
    /// The header is damaged, so any of its fields may be wrong.
    damaged: bool,
}

impl Known {
    /// The number of the last plain file that the file covers.
    fn reach(&self) -> u64 {
        match &self.header {
            Header::Plain(header) => header.number,
            Header::Compacted(header) => header.end.file,
        }
    }
}

impl Known {
    /// The file, if it is compacted and ends at `end`. In a damaged header, one field of the end may be wrong.
    fn ending_at(&self, end: &LogPosition) -> Option<Self> {
        let Header::Compacted(header) = &self.header else { return None };
        let own = &header.end;
        let same_place = (own.file, own.offset, own.sequence) == (end.file, end.offset, end.sequence);
        if *own != *end && !(self.damaged && (same_place || own.chain == end.chain)) {
            return None;
        }
        let header = CompactedHeader { end: end.clone(), ..header.clone() };
        Some(Self { header: Header::Compacted(header), ..*self })
    }
}

struct Search<'a> {
    directory: LogDirectory,
    /// Compacted files that are in force.
    in_force: &'a BTreeSet<LogFileId>,
    known: BTreeMap<u64, Known>,
    /// Files whose headers are unusable.
    broken: BTreeSet<u64>,
    lengths: BTreeMap<u64, u64>,
    others: Vec<OtherLog>,
    faults: Vec<LogFault>,
    lost_copies: Vec<String>,
}

/// Inspects the log up to `end`, or all of it. `in_force` are the compacted files in force according to the index.
///
/// # Errors
/// When the directory cannot be listed or a header cannot be read. Damage is not an error.
pub fn inspect(
    fs: Arc<dyn FileSystem>,
    options: LogOptions,
    in_force: &BTreeSet<LogFileId>,
    end: Option<&LogPosition>,
) -> Result<Inspection> {
    if end.is_some_and(|end| end.file == 0) {
        return Ok(Inspection {
            pieces: Vec::new(),
            others: Vec::new(),
            faults: Vec::new(),
            gap: None,
            beside: Vec::new(),
            lost_copies: Vec::new(),
        });
    }
    let mut search = Search {
        directory: LogDirectory::new(fs, options),
        in_force,
        known: BTreeMap::new(),
        broken: BTreeSet::new(),
        lengths: BTreeMap::new(),
        others: Vec::new(),
        faults: Vec::new(),
        lost_copies: Vec::new(),
    };
    search.survey(end.is_none())?;
    Ok(search.walk(end))
}

impl Search<'_> {
    fn survey(&mut self, read_spares: bool) -> Result<()> {
        let LogDirectory { fs, options, keys, .. } = self.directory.clone();
        for number in fs.list(&options.dir)?.iter().filter_map(|name| file_number(name)) {
            let path = file_path(&options.dir, number);
            let file = match fs.open(&path, Open::Read) {
                Ok(file) => file,
                // Removed since the directory was listed.
                Err(Error::Missing { .. }) => continue,
                Err(error) => return Err(error),
            };
            let length = file.len()?;
            self.lengths.insert(number, length);
            let Some(encoded) = read_header(&*file, length)? else {
                let headless = read_spares && has_bytes(&*file, FILE_HEADER, length)?;
                let file = codec::log_file(number);
                self.others.push(if headless { OtherLog::Headless(file) } else { OtherLog::Spare(file) });
                continue;
            };
            match Header::decode(&encoded, &keys, &options.store_id, number) {
                Ok(header) => {
                    let lost =
                        Header::lost_copy(&encoded).map(|(at, _)| place(&file_path(Path::new("log"), number), at));
                    self.lost_copies.extend(lost);
                    self.known.insert(number, Known { header, from_known: true, damaged: false });
                }
                Err(fault) => {
                    let salvaged = self.salvage(&*file, length, &encoded, number)?;
                    self.faults.push(header_fault(&path, fault.into_error(&path)));
                    match salvaged {
                        Some(known) => drop(self.known.insert(number, known)),
                        None => drop(self.broken.insert(number)),
                    }
                }
            }
        }
        Ok(())
    }

    /// A damaged header is usable if its salt matches the first frame.
    fn salvage(
        &self,
        file: &dyn File,
        length: u64,
        encoded: &[u8; HEADER_ENCODED],
        number: u64,
    ) -> Result<Option<Known>> {
        let LogDirectory { options, .. } = &self.directory;
        let mut header = Header::salvage(encoded, &options.store_id, number);
        if let Header::Compacted(header) = &mut header {
            // Nothing is ever written after its end.
            header.own_end = length;
        }
        if length < FILE_HEADER + FRAME_HEADER as u64 {
            return Ok(None);
        }
        let mut frame = [0; FRAME_HEADER];
        file.read_at(FILE_HEADER, &mut frame)?;
        let Some(first) = FrameHeader::decode(&frame, &header.context(), FILE_HEADER) else { return Ok(None) };
        let from_known = self.directory.scanner(&header)?.next()?.is_some();
        let known = match header {
            header if from_known => Known { header, from_known, damaged: true },
            Header::Plain(mut header) => {
                header.predecessor = LogPosition { sequence: first.sequence.saturating_sub(1), ..LogPosition::ORIGIN };
                Known { header: Header::Plain(header), from_known, damaged: true }
            }
            // Without its start it is unknown what it covers.
            Header::Compacted(_) => return Ok(None),
        };
        Ok(Some(known))
    }

    fn walk(mut self, end: Option<&LogPosition>) -> Inspection {
        let (last, gap) = self.last(end);
        let mut pieces: Vec<LogPiece> = Vec::new();
        if let Some(last) = last {
            let whole = self.exact(&last);
            let mut links = whole.unwrap_or_else(|| self.around_gaps(last));
            let mut next: Option<LogPosition> = end.cloned();
            while let Some((known, gap)) = links.pop() {
                // A piece after a gap does not say where the previous one ends.
                let before = (known.from_known && gap.is_none()).then(|| known.header.from().clone());
                let bytes = self.bytes_of(&known.header, next.as_ref());
                let Known { header, from_known, .. } = known;
                pieces.push(LogPiece { directory: self.directory.clone(), header, end: next, from_known, gap, bytes });
                next = before;
            }
            pieces.reverse();
        }
        let named: BTreeSet<u64> = pieces.iter().map(|piece| piece.header.number()).collect();
        let mut beside = Vec::new();
        for (number, Known { header, from_known, .. }) in &self.known {
            if named.contains(number) {
                continue;
            }
            self.others.push(OtherLog::Unnamed(codec::log_file(*number)));
            if let (Header::Compacted(compacted), true) = (header, *from_known) {
                let (directory, bytes) = (self.directory.clone(), self.bytes_of(header, None));
                let end = Some(compacted.end.clone());
                beside.push(LogPiece { directory, header: header.clone(), end, from_known: true, gap: None, bytes });
            }
        }
        let Self { others, faults, lost_copies, .. } = self;
        Inspection { pieces, others, faults, gap, beside, lost_copies }
    }

    /// The file in which the log ends, and what is missing after it.
    fn last(&self, end: Option<&LogPosition>) -> (Option<Known>, Option<LogGap>) {
        if let Some(end) = end {
            let found = self.candidates(end).into_iter().next();
            let gap = found.is_none().then(|| self.gap(end.file, end.sequence));
            return (found.or_else(|| self.furthest(u64::MAX)), gap);
        }
        let plain = |known: &&Known| matches!(known.header, Header::Plain(_));
        let last = self.known.values().rfind(plain).cloned();
        let behind = self.broken.iter().next_back().filter(|number| last.as_ref().is_none_or(|l| l.reach() < **number));
        let gap = behind.map(|number| self.gap(*number, Sequence::MAX));
        (last.or_else(|| self.furthest(u64::MAX)), gap)
    }

    fn gap(&self, number: u64, until: Sequence) -> LogGap {
        let path = file_path(&self.directory.options.dir, number);
        let reason = match () {
            () if self.broken.contains(&number) => "the file's header is damaged, so that nothing in it can be read",
            () if self.others.contains(&OtherLog::Headless(codec::log_file(number)))
                || self.others.contains(&OtherLog::Spare(codec::log_file(number))) =>
            {
                "the file's header is gone"
            }
            () => "the file is missing",
        };
        LogGap { path, until, reason }
    }

    /// The files that may end at `end`, the most likely first.
    fn candidates(&self, end: &LogPosition) -> Vec<Known> {
        let compacted = self.known.values().filter_map(|known| known.ending_at(end));
        let (in_force, others): (Vec<_>, Vec<_>) =
            compacted.partition(|known| self.in_force.contains(&codec::log_file(known.header.number())));
        let plain = self.known.get(&end.file).filter(|known| matches!(known.header, Header::Plain(_)));
        in_force.into_iter().chain(plain.cloned()).chain(others).collect()
    }

    /// The chain back to the beginning, if there is one without a gap.
    fn exact(&self, last: &Known) -> Option<Vec<(Known, Option<LogGap>)>> {
        let mut tried = BTreeSet::from([last.header.number()]);
        let mut steps = vec![(last.clone(), self.before(last))];
        while let Some((known, candidates)) = steps.last_mut() {
            if known.header.from().file == 0 && known.from_known {
                // The caller pops the newest first.
                return Some(steps.into_iter().rev().map(|(known, _)| (known, None)).collect());
            }
            match candidates.next() {
                Some(next) if tried.insert(next.header.number()) => {
                    let before = self.before(&next);
                    steps.push((next, before));
                }
                Some(_) => {}
                None => drop(steps.pop()),
            }
        }
        None
    }

    fn before(&self, known: &Known) -> std::vec::IntoIter<Known> {
        let found = if known.from_known { self.candidates(known.header.from()) } else { Vec::new() };
        let found: Vec<Known> = found.into_iter().filter(|found| found.reach() < known.reach()).collect();
        found.into_iter()
    }

    /// The chain as far back as files exist, skipping what is missing. In the order of `exact`.
    fn around_gaps(&self, last: Known) -> Vec<(Known, Option<LogGap>)> {
        let mut links: Vec<(Known, Option<LogGap>)> = Vec::new();
        let mut present = Some(last);
        while let Some(known) = present.take() {
            let from = known.header.from().clone();
            let mut gap = None;
            if from.file > 0 || !known.from_known {
                present = self.before(&known).next();
                if present.is_none() {
                    let missing = if known.from_known { from.file } else { known.header.number() };
                    present = self.furthest(missing.min(known.reach()));
                    let skipped = known.from_known || present.is_none() && from.sequence > 0;
                    gap = skipped.then(|| self.gap(missing, from.sequence));
                }
            }
            links.push((known, gap));
        }
        links.reverse();
        links
    }

    /// The file that reaches furthest, but not to the plain file `before`.
    fn furthest(&self, before: u64) -> Option<Known> {
        let reaching = self.known.values().filter(|known| known.reach() < before);
        let plain_first = |known: &&Known| {
            let in_force = self.in_force.contains(&codec::log_file(known.header.number()));
            (known.reach(), in_force, matches!(known.header, Header::Plain(_)))
        };
        reaching.max_by_key(plain_first).cloned()
    }

    fn bytes_of(&self, header: &Header, end: Option<&LogPosition>) -> u64 {
        let length = self.lengths.get(&header.number()).copied().unwrap_or(0);
        match (header, end) {
            (Header::Compacted(header), _) => header.own_end.min(length),
            (Header::Plain(_), Some(end)) => end.offset.min(length),
            (Header::Plain(_), None) => length,
        }
    }
}

impl LogPiece {
    /// Whether anything but zeros follows `end`, if nothing says where the file ends: a torn batch.
    ///
    /// # Errors
    /// When reading fails.
    pub fn is_torn(&self, end: u64) -> Result<bool> {
        if self.end.is_some() || matches!(self.header, Header::Compacted(_)) {
            return Ok(false);
        }
        let file = self.directory.fs.open(&self.path(), Open::Read)?;
        has_bytes(&*file, end, file.len()?)
    }
}

fn header_fault(path: &Path, error: Error) -> LogFault {
    let reason = match error {
        Error::Corrupt { reason, .. } | Error::Foreign { reason, .. } => reason,
        Error::Version { .. } => "the file was written by another format",
        _ => "the file header cannot be read",
    };
    LogFault::of_file(path.to_owned(), reason, None)
}

/// `None` if no header was ever written.
fn read_header(file: &dyn File, length: u64) -> Result<Option<[u8; HEADER_ENCODED]>> {
    if length < FILE_HEADER {
        return Ok(None);
    }
    let mut page = vec![0; FILE_HEADER as usize];
    file.read_at(0, &mut page)?;
    Ok(page.iter().any(|byte| *byte != 0).then(|| field(&page, 0)))
}

/// Whether there is anything but zeros from `at` on.
fn has_bytes(file: &dyn File, mut at: u64, length: u64) -> Result<bool> {
    let mut block = vec![0; ZEROS_BLOCK as usize];
    while at < length {
        let block = &mut block[..ZEROS_BLOCK.min(length - at) as usize];
        file.read_at(at, block)?;
        if block.iter().any(|byte| *byte != 0) {
            return Ok(true);
        }
        at += block.len() as u64;
    }
    Ok(false)
}
