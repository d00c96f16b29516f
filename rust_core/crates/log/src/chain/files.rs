//! The closed files of the log: the chain in force, and the compacted files that are to replace parts of it.
//!
//! Invariants: a file joins the chain only when the header that names its end is durable. The runs of unfinished
//! compactions are disjoint, and a run is released only when its abandoned file is durably removed. So of several
//! compacted files with the same end, one that no record names is always the newest; recovery relies on this. A file
//! in force is never removed. The lock is never held during disk I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_base::sync::Mutex;
use orcas_fs::Open;
use orcas_record::placement::codec;
use orcas_record::{LogFileId, LogLocation, Sequence};

use super::directory::LogDirectory;
use super::link::Link;
use super::spare::SpareMaker;
use crate::encoding::{CompactedHeader, Header};
use crate::reader::LogReader;
use crate::{LogPosition, RecoveredBatch};

/// A closed file. `last < first` when it covers no records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedLog {
    pub file: LogFileId,
    /// First sequence that the file covers. A compacted file need not contain its record.
    pub first: Sequence,
    pub last: Sequence,
    pub bytes: u64,
    pub compacted: bool,
}

impl From<&Link> for ClosedLog {
    fn from(link: &Link) -> Self {
        Self {
            file: codec::log_file(link.header.number()),
            first: link.header.from().sequence.saturating_add(1),
            last: link.end.sequence,
            bytes: link.bytes(),
            compacted: matches!(link.header, Header::Compacted(_)),
        }
    }
}

/// A complete and durable compacted file that no record names yet. Pass it to `LogFiles::replace` once a record names
/// it, or else to `LogFiles::remove`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactedLog {
    pub file: LogFileId,
    /// First sequence that the replaced files cover.
    pub first: Sequence,
    pub last: Sequence,
    pub bytes: u64,
    pub replaced: Vec<LogFileId>,
}

/// The run of files that a compacted file is to replace.
pub(crate) struct FileRun {
    /// The number of the compacted file.
    pub number: u64,
    pub from: LogPosition,
    pub end: LogPosition,
    pub files: Vec<u64>,
}

/// Whether a log continues a copy of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continuation {
    Yes,
    /// The end of the copy is within a run of files that was compacted.
    Unknown,
    /// A log that is older than the copy, or has other batches.
    No,
}

/// The closed files of the log, shared by all threads.
#[derive(Clone)]
pub struct LogFiles {
    inner: Arc<FilesInner>,
}

struct FilesInner {
    directory: LogDirectory,
    spares: SpareMaker,
    reader: LogReader,
    chain: Mutex<ClosedChain>,
}

#[derive(Default)]
struct ClosedChain {
    /// Oldest first, without the file that is being written.
    links: Vec<Link>,
    /// How many of `links` recovery found. `None` once `Log::keep` has decided which files are in force.
    unsettled: Option<usize>,
    /// Replaced but not removed yet.
    retired: BTreeSet<u64>,
    /// Compacted files that are not in the chain, by number.
    claims: BTreeMap<u64, Claim>,
}

/// The files of a run, reserved for one compaction.
struct Claim {
    files: Vec<u64>,
    state: ClaimState,
}

enum ClaimState {
    Writing,
    Finished(Box<CompactedHeader>),
    /// The compaction failed, but its file may have a header.
    Abandoned,
}

impl LogFiles {
    /// `links` is the chain as recovery found it.
    pub(crate) fn new(directory: LogDirectory, spares: SpareMaker, reader: LogReader, links: Vec<Link>) -> Self {
        let chain = Mutex::new(ClosedChain { unsettled: Some(links.len()), links, ..ClosedChain::default() });
        Self { inner: Arc::new(FilesInner { directory, spares, reader, chain }) }
    }

    /// The closed files in the order of the chain; not the file that is being written.
    pub fn closed(&self) -> Vec<ClosedLog> {
        self.inner.chain.lock().links.iter().map(ClosedLog::from).collect()
    }

    /// Reads and verifies a closed file, and visits its batches in order.
    ///
    /// # Errors
    /// `Missing` when the file is not closed or not in force.
    pub fn scan(&self, file: LogFileId, visit: &mut dyn FnMut(RecoveredBatch) -> Result<()>) -> Result<()> {
        let link = self.link(codec::log_file_number(file))?;
        let mut scanner = self.inner.directory.scanner(&link.header)?;
        link.replay(&mut scanner, visit)
    }

    /// Visits every batch after the record `after` up to the durable position `end`, in order. The caller ensures that no
    /// file is replaced or removed meanwhile.
    ///
    /// # Errors
    /// `Corrupt` when a batch is missing, and errors of `visit`.
    pub fn replay(
        &self,
        after: Sequence,
        end: &LogPosition,
        visit: &mut dyn FnMut(RecoveredBatch) -> Result<()>,
    ) -> Result<()> {
        let wanted = |at: &LogPosition| after < at.sequence && at.sequence <= end.sequence;
        let links = self.inner.chain.lock().links.clone();
        for link in links.iter().filter(|link| after < link.end.sequence) {
            let mut scanner = self.inner.directory.scanner(&link.header)?;
            link.replay(&mut scanner, &mut |batch| if wanted(&batch.position) { visit(batch) } else { Ok(()) })?;
        }
        if links.last().is_some_and(|last| end.sequence <= last.end.sequence) || end.sequence <= after {
            return Ok(());
        }
        // The file that is being written.
        let mut scanner = self.inner.directory.scanner(&self.header(end.file)?)?;
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

    /// Whether this log, whose durable end is `end`, continues a copy that ends at `at`.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn continues(&self, at: &LogPosition, end: &LogPosition) -> Result<Continuation> {
        if at.sequence > end.sequence {
            return Ok(Continuation::No);
        }
        let links = self.inner.chain.lock().links.clone();
        let same = |place: &LogPosition| place.chain == at.chain && place.sequence == at.sequence;
        if same(end) || links.iter().any(|link| same(link.header.from()) || same(&link.end)) {
            return Ok(Continuation::Yes);
        }
        let plain = links.iter().map(|link| &link.header).find(|header| header.number() == at.file).cloned();
        let header = match plain {
            Some(header) => Some(header),
            None if at.file == end.file => Some(self.header(end.file)?),
            None => None,
        };
        if let Some(header @ Header::Plain(_)) = header {
            let found = self.inner.directory.scanner(&header)?.seek(at)?;
            return Ok(if found { Continuation::Yes } else { Continuation::No });
        }
        let hidden = |link: &Link| {
            matches!(link.header, Header::Compacted(_))
                && (link.header.from().sequence..link.end.sequence).contains(&at.sequence)
        };
        Ok(if links.iter().any(hidden) { Continuation::Unknown } else { Continuation::No })
    }

    /// The header of a plain file, which need not be closed.
    pub(crate) fn header(&self, file: u64) -> Result<Header> {
        let directory = self.directory();
        let path = directory.path(file);
        let mut encoded = [0; crate::encoding::HEADER_ENCODED];
        directory.fs.open(&path, Open::Read)?.read_at(0, &mut encoded)?;
        let header = Header::decode(&encoded, &directory.keys, &directory.options.store_id, file);
        match header.map_err(|fault| fault.into_error(&path))? {
            Header::Compacted(_) => Err(Error::corrupt(&path, 0, "a position names a compacted file")),
            header @ Header::Plain(_) => Ok(header),
        }
    }

    pub(crate) fn link(&self, file: u64) -> Result<Link> {
        let found = self.inner.chain.lock().links.iter().find(|link| link.header.number() == file).cloned();
        found.ok_or_else(|| Error::Missing { path: self.directory().path(file) })
    }

    /// Whether a finished compaction is to replace `file` but is not in force yet. This remains so if its commit failed.
    pub fn awaits_replacement(&self, file: LogFileId) -> bool {
        let file = codec::log_file_number(file);
        let finished = |claim: &Claim| matches!(claim.state, ClaimState::Finished(_)) && claim.files.contains(&file);
        self.inner.chain.lock().claims.values().any(finished)
    }

    /// To be called once the replacement is committed and applied. `closed` then returns it instead of the old files, which
    /// stay on the disk.
    pub fn replace(&self, replacement: &CompactedLog) {
        let mut chain = self.inner.chain.lock();
        let chain = &mut *chain;
        let Some(Claim { files, state: ClaimState::Finished(header) }) =
            chain.claims.remove(&codec::log_file_number(replacement.file))
        else {
            debug_assert!(false, "the replacement is not finished or already in force");
            return;
        };
        let Some(start) = chain.links.iter().position(|link| files.first() == Some(&link.header.number())) else {
            debug_assert!(false, "claimed files stay in the chain");
            return;
        };
        let link = Link { end: header.end.clone(), header: Header::Compacted(*header) };
        chain.links.splice(start..start + files.len(), [link]);
        chain.retired.extend(files);
    }

    /// Removes a replaced or abandoned file durably and closes its descriptors. There must be no reader left, and no
    /// start may find a record that names the file. A record whose commit failed may be found until a later batch is
    /// durable.
    ///
    /// # Errors
    /// `Io` with `InvalidInput` for any other file. After another error the next start may find the file; it then
    /// removes it.
    pub fn remove(&self, file: LogFileId) -> Result<()> {
        self.remove_number(codec::log_file_number(file))
    }

    fn remove_number(&self, file: u64) -> Result<()> {
        let path = self.directory().path(file);
        {
            let chain = self.inner.chain.lock();
            let writing = |claim: &Claim| matches!(claim.state, ClaimState::Writing);
            if !chain.retired.contains(&file) && chain.claims.get(&file).is_none_or(writing) {
                return Err(refused("remove", &path, ErrorKind::InvalidInput));
            }
        }
        self.inner.directory.fs.remove(&path)?;
        self.inner.reader.forget(file);
        self.inner.chain.lock().retired.remove(&file);
        let LogDirectory { fs, options, syncs, .. } = self.directory();
        // An earlier sync that failed did not make this name stay.
        syncs.sync(&**fs, options, syncs.failed())?;
        self.inner.chain.lock().claims.remove(&file);
        Ok(())
    }

    /// The path of a file, for messages.
    pub fn path(&self, file: LogFileId) -> PathBuf {
        self.inner.directory.options.path(file)
    }

    /// The file and the byte of a record, for messages.
    pub fn place(&self, at: LogLocation) -> String {
        self.inner.directory.options.place(at)
    }

    /// To be called once the header of the next file is durable, so that the ends of `links` are fixed.
    pub(crate) fn append(&self, links: impl Iterator<Item = Link>) {
        self.inner.chain.lock().links.extend(links);
    }

    /// Replaces the chain that recovery found by `links`, which are in force.
    pub(crate) fn settle(&self, links: Vec<Link>) {
        let mut chain = self.inner.chain.lock();
        if let Some(found) = chain.unsettled.take() {
            chain.links.splice(..found, links);
        }
    }

    pub(crate) fn directory(&self) -> &LogDirectory {
        &self.inner.directory
    }

    /// A number that no other file has or will have.
    pub(crate) fn next_number(&self) -> u64 {
        self.inner.spares.number()
    }

    pub(crate) fn finished(&self, header: CompactedHeader) {
        if let Some(claim) = self.inner.chain.lock().claims.get_mut(&header.number) {
            claim.state = ClaimState::Finished(Box::new(header));
        }
    }

    /// A compaction failed. `closed` says whether its file may have a header.
    pub(crate) fn abandoned(&self, number: u64, closed: bool) {
        if !closed {
            // The file is void. If it cannot be removed now, the next start removes it.
            let removed = self.inner.directory.fs.remove(&self.directory().path(number));
            let _ =
                removed.inspect_err(|error| tracing::warn!(%error, "Leftovers of a compaction could not be removed"));
            return self.released(number);
        }
        if let Some(claim) = self.inner.chain.lock().claims.get_mut(&number) {
            claim.state = ClaimState::Abandoned;
        }
        // If this fails, the claim stays, and the next compaction of these files tries again.
        let removed = self.remove_number(number);
        let _ = removed.inspect_err(|error| tracing::warn!(%error, "Leftovers of a compaction could not be removed"));
    }

    /// A compaction ended without a file.
    pub(crate) fn released(&self, number: u64) {
        self.inner.chain.lock().claims.remove(&number);
    }

    pub(crate) fn remove_abandoned(&self, files: &[u64]) -> Result<()> {
        let abandoned: Vec<u64> = {
            let chain = self.inner.chain.lock();
            let of_these = |claim: &Claim| {
                matches!(claim.state, ClaimState::Abandoned) && claim.files.iter().any(|file| files.contains(file))
            };
            chain.claims.iter().filter(|(_, claim)| of_these(claim)).map(|(number, _)| *number).collect()
        };
        abandoned.into_iter().try_for_each(|number| self.remove_number(number))
    }

    /// Reserves the files of a run for the compacted file `number`.
    pub(crate) fn claim(&self, number: u64, files: &[u64]) -> Result<FileRun> {
        let mut chain = self.inner.chain.lock();
        let invalid =
            || refused("compact", &self.directory().path(files.first().copied().unwrap_or(0)), ErrorKind::InvalidInput);
        let start = chain.links.iter().position(|link| files.first() == Some(&link.header.number()));
        let run = start.and_then(|start| chain.links.get(start..start + files.len())).ok_or_else(invalid)?;
        // Compacted files are identified by their ranges, so none may be empty.
        let empty = run.iter().all(|link| link.header.from().sequence == link.end.sequence);
        if chain.unsettled.is_some() || empty || !run.iter().map(|link| link.header.number()).eq(files.iter().copied())
        {
            return Err(invalid());
        }
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return Err(invalid()) };
        let run = FileRun { number, from: first.header.from().clone(), end: last.end.clone(), files: files.to_vec() };
        if chain.claims.values().any(|claim| claim.files.iter().any(|file| files.contains(file))) {
            return Err(refused("compact", &self.directory().path(number), ErrorKind::ResourceBusy));
        }
        chain.claims.insert(number, Claim { files: files.to_vec(), state: ClaimState::Writing });
        Ok(run)
    }
}

fn refused(op: &'static str, path: &Path, kind: ErrorKind) -> Error {
    Error::io(op, path, kind.into())
}
