//! The files of the log that are not written any more: the chain in force, and what replaces runs of it.
//!
//! Invariants: a file joins the chain only when the header that names its end is durable. The runs of compactions that
//! are not over are disjoint, and a run is free again only when its abandoned file is durably gone: so of compacted
//! files with one end, one that no record names is always the newest, which recovery relies on. Nothing that is in
//! force is ever removed. The lock is never held while the disk works.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_base::sync::Mutex;
use orcas_fs::{FileSystem, Open};
use orcas_record::Sequence;

use super::compaction::{CompactedLog, LogCompaction, Run};
use super::format::LogKeys;
use super::header::{CompactedHeader, Header};
use super::reader::LogReader;
use super::scan::Scanner;
use super::spare::SpareMaker;
use super::{LogOptions, LogPosition, RecoveredBatch, file_path};

/// A file of the chain that has a successor.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub header: Header,
    /// Where the next one begins.
    pub end: LogPosition,
}

/// A file that is not written any more. `last < first` when it stands for no records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedLog {
    pub file: u64,
    /// First of the sequences that the file stands for; its record need not be there any more.
    pub first: Sequence,
    pub last: Sequence,
    pub bytes: u64,
    pub compacted: bool,
}

/// The sealed files of the log, for any thread.
#[derive(Clone)]
pub struct LogFiles {
    shared: Arc<Shared>,
}

/// Where the log is, and the keys to it.
#[derive(Clone)]
pub(super) struct Place {
    pub fs: Arc<dyn FileSystem>,
    pub options: Arc<LogOptions>,
    pub keys: LogKeys,
}

struct Shared {
    place: Place,
    spares: SpareMaker,
    reader: LogReader,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Oldest first, without the file that is being written.
    links: Vec<Link>,
    /// How many of `links` recovery found, until `keep` has said which of the files are in force.
    unsettled: Option<usize>,
    /// Replaced, and not removed yet.
    retired: BTreeSet<u64>,
    /// Compacted files that are not in the chain, by number.
    claims: BTreeMap<u64, Claim>,
}

/// What keeps other compactions from the files of a run.
struct Claim {
    files: Vec<u64>,
    state: ClaimState,
}

enum ClaimState {
    Writing,
    Finished(Box<CompactedHeader>),
    /// Of no use any more, but its file may have a header.
    Abandoned,
}

impl Link {
    fn sealed(&self) -> SealedLog {
        SealedLog {
            file: self.header.number(),
            first: self.header.from().sequence.saturating_add(1),
            last: self.end.sequence,
            bytes: self.bytes(),
            compacted: matches!(self.header, Header::Compacted(_)),
        }
    }

    /// Visits the batches from the scanner's place to the end of the file, all of which were durable before it was
    /// sealed. The place behind the last batch of a compacted file is that of its run.
    pub fn replay(&self, scanner: &mut Scanner, visit: &mut dyn FnMut(RecoveredBatch) -> Result<()>) -> Result<()> {
        while scanner.position().offset < self.bytes() {
            let Some(mut scanned) = scanner.next()? else {
                return Err(scanner.corrupt("the chain breaks in a file that has a successor"));
            };
            let place = scanned.batch.position.offset;
            if place > self.bytes() || place == self.bytes() && !self.ends_at(scanner.position()) {
                break;
            }
            if place == self.bytes() {
                scanned.batch.position = self.end.clone();
            }
            visit(scanned.batch)?;
        }
        if self.ends_at(scanner.position()) {
            return Ok(());
        }
        Err(scanner.corrupt("the file does not end where its successor says"))
    }

    /// Bytes of the file that count.
    pub fn bytes(&self) -> u64 {
        match &self.header {
            Header::Plain(_) => self.end.offset,
            Header::Compacted(header) => header.own_end,
        }
    }

    fn ends_at(&self, place: &LogPosition) -> bool {
        match &self.header {
            Header::Plain(_) => *place == self.end,
            Header::Compacted(header) => {
                (place.offset, place.chain) == (header.own_end, header.own_chain) && place.sequence <= self.end.sequence
            }
        }
    }
}

impl LogFiles {
    /// `links` is the chain as recovery found it.
    pub(super) fn new(place: Place, spares: SpareMaker, reader: LogReader, links: Vec<Link>) -> Self {
        let state = Mutex::new(State { unsettled: Some(links.len()), links, ..State::default() });
        Self { shared: Arc::new(Shared { place, spares, reader, state }) }
    }

    /// In the order of the chain; not the file that is being written.
    pub fn sealed(&self) -> Vec<SealedLog> {
        self.shared.state.lock().links.iter().map(Link::sealed).collect()
    }

    /// Reads a sealed file again, verified as a whole, in order.
    ///
    /// # Errors
    /// `Missing` when the file is not sealed or not in force.
    pub fn scan(&self, file: u64, visit: &mut dyn FnMut(RecoveredBatch) -> Result<()>) -> Result<()> {
        let link = self.link(file)?;
        let mut scanner = self.shared.place.scanner(&link.header)?;
        link.replay(&mut scanner, visit)
    }

    /// Visits every batch behind the record `after` up to the place `end`, which is durable, in order. Nothing is replaced
    /// or removed meanwhile.
    ///
    /// # Errors
    /// `Corrupt` when they are not all there, and what `visit` returns.
    pub fn replay(
        &self,
        after: Sequence,
        end: &LogPosition,
        visit: &mut dyn FnMut(RecoveredBatch) -> Result<()>,
    ) -> Result<()> {
        let wanted = |place: &LogPosition| after < place.sequence && place.sequence <= end.sequence;
        let links = self.shared.state.lock().links.clone();
        for link in links.iter().filter(|link| after < link.end.sequence) {
            let mut scanner = self.shared.place.scanner(&link.header)?;
            link.replay(&mut scanner, &mut |batch| if wanted(&batch.position) { visit(batch) } else { Ok(()) })?;
        }
        if links.last().is_some_and(|last| end.sequence <= last.end.sequence) || end.sequence <= after {
            return Ok(());
        }
        // The file that is being written.
        let mut scanner = self.shared.place.scanner(&self.header(end.file)?)?;
        while scanner.position().sequence < end.sequence {
            let Some(scanned) = scanner.next()? else {
                return Err(scanner.corrupt("batches that had been applied are gone"));
            };
            if wanted(&scanned.batch.position) {
                visit(scanned.batch)?;
            }
        }
        Ok(())
    }

    /// The header of a plain file, which need not be sealed.
    pub(super) fn header(&self, file: u64) -> Result<Header> {
        let place = self.place();
        let path = self.path(file);
        let mut encoded = [0; super::header::HEADER_ENCODED];
        place.fs.open(&path, Open::Read)?.read_at(0, &mut encoded)?;
        let header = Header::decode(&encoded, &place.keys, &place.options.store_id, file);
        match header.map_err(|fault| fault.into_error(&path))? {
            Header::Compacted(_) => Err(Error::corrupt(&path, 0, "a position names a compacted file")),
            header @ Header::Plain(_) => Ok(header),
        }
    }

    pub(super) fn link(&self, file: u64) -> Result<Link> {
        let found = self.shared.state.lock().links.iter().find(|link| link.header.number() == file).cloned();
        found.ok_or_else(|| Error::Missing { path: self.path(file) })
    }

    /// Begins the replacement of a run of adjacent sealed files, first to last.
    ///
    /// # Errors
    /// `Io` with `ResourceBusy` while another compaction has one of the files, with `InvalidInput` when they are no
    /// run, stand for no records, or `Log::keep` has not settled yet what is in force.
    pub fn compact(&self, files: &[u64]) -> Result<LogCompaction> {
        self.remove_abandoned(files)?;
        let number = self.shared.spares.number();
        let run = self.claim(number, files)?;
        LogCompaction::begin(self.clone(), run)
    }

    /// Whether a finished compaction stands for `file` that is not in force: until `replace`, or for good when its commit
    /// failed.
    pub fn awaits_replacement(&self, file: u64) -> bool {
        let finished = |claim: &Claim| matches!(claim.state, ClaimState::Finished(_)) && claim.files.contains(&file);
        self.shared.state.lock().claims.values().any(finished)
    }

    /// The replacement is committed and applied: `sealed` shows it from now on; the old files stay on the disk.
    pub fn replace(&self, replacement: &CompactedLog) {
        let mut state = self.shared.state.lock();
        let state = &mut *state;
        let Some(Claim { files, state: ClaimState::Finished(header) }) = state.claims.remove(&replacement.file) else {
            debug_assert!(false, "a replacement that was not finished, or is in force already");
            return;
        };
        let Some(start) = state.links.iter().position(|link| files.first() == Some(&link.header.number())) else {
            debug_assert!(false, "claimed files stay in the chain");
            return;
        };
        let link = Link { end: header.end.clone(), header: Header::Compacted(*header) };
        state.links.splice(start..start + files.len(), [link]);
        state.retired.extend(files);
    }

    /// Unlinks a replaced or abandoned file durably and forgets descriptors of it. Nobody may read it any more, and no
    /// restart may find a record that names it: one whose commit failed counts until a later batch is durable.
    ///
    /// # Errors
    /// `Io` with `InvalidInput` for any other file. After another error the file may come back with the next start,
    /// which then removes it.
    pub fn remove(&self, file: u64) -> Result<()> {
        let path = self.path(file);
        {
            let state = self.shared.state.lock();
            let writing = |claim: &Claim| matches!(claim.state, ClaimState::Writing);
            if !state.retired.contains(&file) && state.claims.get(&file).is_none_or(writing) {
                return Err(refused("remove", &path, ErrorKind::InvalidInput));
            }
        }
        self.shared.place.fs.remove(&path)?;
        self.shared.reader.forget(file);
        self.shared.state.lock().retired.remove(&file);
        self.shared.place.fs.sync_dir(&self.shared.place.options.dir)?;
        self.shared.state.lock().claims.remove(&file);
        Ok(())
    }

    /// Of a file that is in force or replaced; for backup.
    pub fn path(&self, file: u64) -> PathBuf {
        file_path(&self.shared.place.options.dir, file)
    }

    /// The head's header is durable: `links` have an end.
    pub(super) fn append(&self, links: impl Iterator<Item = Link>) {
        self.shared.state.lock().links.extend(links);
    }

    /// `links` are in force instead of what recovery found.
    pub(super) fn settle(&self, links: Vec<Link>) {
        let mut state = self.shared.state.lock();
        if let Some(found) = state.unsettled.take() {
            state.links.splice(..found, links);
        }
    }

    pub(super) fn place(&self) -> &Place {
        &self.shared.place
    }

    pub(super) fn finished(&self, header: CompactedHeader) {
        if let Some(claim) = self.shared.state.lock().claims.get_mut(&header.number) {
            claim.state = ClaimState::Finished(Box::new(header));
        }
    }

    /// A compaction ends without a file that could be used. `sealed`: whether it may have a header.
    pub(super) fn abandoned(&self, number: u64, sealed: bool) {
        if !sealed {
            // Void, whether or not it goes now: the next start removes it.
            let removed = self.shared.place.fs.remove(&self.path(number));
            let _ =
                removed.inspect_err(|error| tracing::warn!(%error, "The rest of a compaction could not be removed"));
            return self.released(number);
        }
        if let Some(claim) = self.shared.state.lock().claims.get_mut(&number) {
            claim.state = ClaimState::Abandoned;
        }
        // If it cannot go now, the claim stays and the next compaction of these files tries again.
        let removed = self.remove(number);
        let _ = removed.inspect_err(|error| tracing::warn!(%error, "The rest of a compaction could not be removed"));
    }

    /// A compaction ends without having made a file.
    pub(super) fn released(&self, number: u64) {
        self.shared.state.lock().claims.remove(&number);
    }

    fn remove_abandoned(&self, files: &[u64]) -> Result<()> {
        let abandoned: Vec<u64> = {
            let state = self.shared.state.lock();
            let of_these = |claim: &Claim| {
                matches!(claim.state, ClaimState::Abandoned) && claim.files.iter().any(|file| files.contains(file))
            };
            state.claims.iter().filter(|(_, claim)| of_these(claim)).map(|(number, _)| *number).collect()
        };
        abandoned.into_iter().try_for_each(|number| self.remove(number))
    }

    /// Reserves the files of a run for the compacted file `number`.
    fn claim(&self, number: u64, files: &[u64]) -> Result<Run> {
        let mut state = self.shared.state.lock();
        let invalid = || refused("compact", &self.path(files.first().copied().unwrap_or(0)), ErrorKind::InvalidInput);
        let start = state.links.iter().position(|link| files.first() == Some(&link.header.number()));
        let run = start.and_then(|start| state.links.get(start..start + files.len())).ok_or_else(invalid)?;
        // The ranges of compacted files tell them apart, so none may be empty.
        let empty = run.iter().all(|link| link.header.from().sequence == link.end.sequence);
        if state.unsettled.is_some() || empty || !run.iter().map(|link| link.header.number()).eq(files.iter().copied())
        {
            return Err(invalid());
        }
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return Err(invalid()) };
        let run = Run { number, from: first.header.from().clone(), end: last.end.clone(), files: files.to_vec() };
        if state.claims.values().any(|claim| claim.files.iter().any(|file| files.contains(file))) {
            return Err(refused("compact", &self.path(number), ErrorKind::ResourceBusy));
        }
        state.claims.insert(number, Claim { files: files.to_vec(), state: ClaimState::Writing });
        Ok(run)
    }
}

impl Place {
    pub fn scanner(&self, header: &Header) -> Result<Scanner> {
        let path = file_path(&self.options.dir, header.number());
        Scanner::new(self.fs.open(&path, Open::Read)?, path, self.keys.clone(), header)
    }
}

fn refused(op: &'static str, path: &Path, kind: ErrorKind) -> Error {
    Error::io(op, path, kind.into())
}
