//! The files in the directory of the log, and the chain from the last file back to the first.
//!
//! A plain file names its predecessor. A compacted file replaces a run of files and continues the chain where the run
//! ended. Files are removed only by `remove_void` and `remove_others`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use orcas_base::error::{Error, Result};
use orcas_fs::{File, FileSystem, Open};
use orcas_record::Sequence;

use super::directory::LogDirectory;
use super::link::Link;
use crate::encoding::{CompactedHeader, FILE_HEADER, FileHeader, HEADER_ENCODED, Header, HeaderFault};
use crate::{LogOptions, LogPosition, file_number, file_path};

pub(crate) struct Survey {
    plain: BTreeMap<u64, FileHeader>,
    compacted: BTreeMap<u64, CompactedHeader>,
    /// Compacted files by the number of the plain file in which their run ends, oldest first.
    ends: BTreeMap<u64, Vec<u64>>,
    /// Compacted files with damaged headers, so that their runs are unknown.
    damaged: Vec<u64>,
    /// Files without a header, which were never in force.
    void: Vec<u64>,
    /// The highest number of any file.
    pub highest: u64,
    /// Bytes of every file.
    lengths: BTreeMap<u64, u64>,
}

/// A step of the walk back through the chain, with the files that may precede it.
struct Step {
    header: Header,
    candidates: std::vec::IntoIter<Header>,
}

impl Survey {
    pub fn take(directory: &LogDirectory) -> Result<Self> {
        let LogDirectory { fs, options, keys, .. } = directory;
        let mut survey = Self {
            plain: BTreeMap::new(),
            compacted: BTreeMap::new(),
            ends: BTreeMap::new(),
            damaged: Vec::new(),
            void: Vec::new(),
            highest: 0,
            lengths: BTreeMap::new(),
        };
        for number in fs.list(&options.dir)?.iter().filter_map(|name| file_number(name)) {
            let path = file_path(&options.dir, number);
            let file = fs.open(&path, Open::Read)?;
            survey.highest = number;
            survey.lengths.insert(number, file.len()?);
            let Some(encoded) = read_header(&*file)? else {
                survey.void.push(number);
                continue;
            };
            let decoded = Header::decode(&encoded, keys, &options.store_id, number);
            if decoded.is_ok()
                && let Some((at, copy)) = Header::lost_copy(&encoded)
            {
                // The other copy suffices. If this one cannot be repaired, the next start tries again.
                drop(fs.open(&path, Open::Write).and_then(|file| file.write_at(at, copy)));
            }
            match decoded {
                Ok(Header::Plain(header)) => drop(survey.plain.insert(number, header)),
                Ok(Header::Compacted(header)) => {
                    survey.ends.entry(header.end.file).or_default().push(number);
                    survey.compacted.insert(number, header);
                }
                Err(HeaderFault::CompactedDamaged) => survey.damaged.push(number),
                Err(fault) => return Err(fault.into_error(&path)),
            }
        }
        Ok(survey)
    }

    /// A file counts as gone.
    pub fn leave_out(&mut self, number: u64) {
        self.plain.remove(&number);
        if let Some(header) = self.compacted.remove(&number)
            && let Some(numbers) = self.ends.get_mut(&header.end.file)
        {
            numbers.retain(|other| *other != number);
        }
        self.damaged.retain(|other| *other != number);
        self.lengths.remove(&number);
    }

    /// The chain from the first file to the last. If several files may continue it, a plain file is preferred, because a
    /// compacted one may not be in force yet. Of several compacted files the oldest is preferred, because one that no
    /// record names is the newest.
    pub fn walk(&self, options: &LogOptions) -> Result<Vec<Header>> {
        let Some(last) = self.plain.values().next_back() else {
            return match options.established || !self.compacted.is_empty() || !self.damaged.is_empty() {
                true => Err(self.no_plain_file(&options.dir)),
                false => Ok(Vec::new()),
            };
        };
        let mut error = None;
        // Whether a file leads back to the beginning does not depend on how it was reached, so each is tried once.
        let mut tried = BTreeSet::new();
        let mut steps = vec![self.step(Header::Plain(last.clone()))];
        while let Some(step) = steps.last_mut() {
            if step.header.from().file == 0 {
                return Ok(steps.into_iter().rev().map(|step| step.header).collect());
            }
            match step.candidates.next() {
                Some(next) if tried.insert(next.number()) => steps.push(self.step(next)),
                Some(_) => {}
                None => {
                    error.get_or_insert_with(|| self.no_predecessor(&options.dir, &step.header));
                    steps.pop();
                }
            }
        }
        if let Some(damaged) = self.damaged.first() {
            return Err(HeaderFault::CompactedDamaged.into_error(&file_path(&options.dir, *damaged)));
        }
        Err(error.unwrap_or_else(|| self.no_plain_file(&options.dir)))
    }

    fn step(&self, header: Header) -> Step {
        let end = header.from();
        let plain = self.plain.get(&end.file).filter(|_| match &header {
            Header::Plain(header) => end.file < header.number,
            Header::Compacted(_) => true,
        });
        let compacted = self.ending_at(end).map(|found| Header::Compacted(found.clone()));
        let candidates: Vec<Header> =
            plain.map(|found| Header::Plain(found.clone())).into_iter().chain(compacted).collect();
        Step { header, candidates: candidates.into_iter() }
    }

    fn ending_at(&self, end: &LogPosition) -> impl Iterator<Item = &CompactedHeader> {
        let numbers = self.ends.get(&end.file).into_iter().flatten();
        numbers.filter_map(|number| self.compacted.get(number)).filter(move |header| header.end == *end)
    }

    /// Why no file precedes `header`.
    fn no_predecessor(&self, dir: &Path, header: &Header) -> Error {
        let number = header.from().file;
        let path = file_path(dir, number);
        if self.void.contains(&number) {
            return Error::corrupt(&path, 0, "the file header is gone although a successor exists");
        }
        match self.plain.contains_key(&number) {
            true => Error::corrupt(&path, 0, "the file claims an older successor"),
            false => Error::Missing { path },
        }
    }

    /// The error for a log without any plain file in force.
    fn no_plain_file(&self, dir: &Path) -> Error {
        match self.void.first() {
            Some(number) => Error::corrupt(&file_path(dir, *number), 0, "no file of the log has a header"),
            None => Error::Missing { path: file_path(dir, 1) },
        }
    }

    /// Whether a file has this number and a header of this store.
    pub fn knows(&self, number: u64) -> bool {
        self.plain.contains_key(&number) || self.compacted.contains_key(&number)
    }

    /// The chain that ends at `end`, oldest first, where exactly the `compacted` files (number, first and last sequence)
    /// are in force.
    pub fn chain(&self, dir: &Path, end: &LogPosition, compacted: &[(u64, Sequence, Sequence)]) -> Result<Vec<Link>> {
        let mut wanted: BTreeMap<u64, (Sequence, Sequence)> =
            compacted.iter().map(|(number, first, last)| (*number, (*first, *last))).collect();
        let mut links = Vec::new();
        let mut end = end.clone();
        while end.file > 0 {
            let in_force = self.ending_at(&end).find(|header| wanted.contains_key(&header.number));
            let header = match (in_force, self.plain.get(&end.file)) {
                (Some(header), _) => {
                    let covered = (header.from.sequence.saturating_add(1), header.end.sequence);
                    if wanted.remove(&header.number) != Some(covered) {
                        let path = file_path(dir, header.number);
                        return Err(Error::corrupt(&path, 0, "the file covers other records than the index says"));
                    }
                    Header::Compacted(header.clone())
                }
                (None, Some(header)) if header.predecessor.file < end.file => Header::Plain(header.clone()),
                (None, _) => return Err(Error::Missing { path: file_path(dir, end.file) }),
            };
            let from = header.from().clone();
            links.push(Link { header, end: std::mem::replace(&mut end, from) });
        }
        if let Some(number) = wanted.keys().next() {
            let path = file_path(dir, *number);
            return Err(match self.lengths.contains_key(number) {
                true => Error::corrupt(
                    &path,
                    0,
                    "the index says that the file is in force, but it does not fit into the chain",
                ),
                false => Error::Missing { path },
            });
        }
        links.reverse();
        Ok(links)
    }

    /// Files that are shorter than their batches.
    pub fn cut_short(&self, dir: &Path, links: &[Link]) -> Vec<PathBuf> {
        let length = |number| self.lengths.get(&number).copied().unwrap_or(0);
        let short = links.iter().filter(|link| length(link.header.number()) < link.bytes());
        short.map(|link| file_path(dir, link.header.number())).collect()
    }

    pub fn remove_void(&self, fs: &dyn FileSystem, dir: &Path) -> Result<()> {
        remove(fs, dir, self.void.iter().copied())
    }

    /// Removes every file with a header that is not among `links`, durably.
    pub fn remove_others(&self, fs: &dyn FileSystem, dir: &Path, links: &[Link]) -> Result<()> {
        let kept: BTreeSet<u64> = links.iter().map(|link| link.header.number()).collect();
        let all = self.plain.keys().chain(self.compacted.keys()).chain(&self.damaged);
        remove(fs, dir, all.copied().filter(|number| !kept.contains(number)))
    }

    /// Returns the space allocated after the ends of all files before the new one, once that is in force.
    pub fn truncate(&self, directory: &LogDirectory, links: &[Link]) {
        for end in links.iter().map(|link| &link.end) {
            if self.plain.contains_key(&end.file)
                && self.lengths.get(&end.file).is_some_and(|bytes| *bytes > end.offset)
            {
                directory.truncate(end.file, end.offset);
            }
        }
    }
}

/// Reads the headers of all files in the log at `dir`, of any store. What cannot be read is left to those who read more.
///
/// # Errors
/// [`Error::Version`] for a file of another format.
pub fn check_formats(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    for number in fs.list(dir).unwrap_or_default().iter().filter_map(|name| file_number(name)) {
        let path = file_path(dir, number);
        let header = fs.open(&path, Open::Read).and_then(|file| read_header(&*file));
        if let Some(found) = header.ok().flatten().and_then(|encoded| Header::other_version(&encoded)) {
            return Err(HeaderFault::Version(found).into_error(&path));
        }
    }
    Ok(())
}

fn remove(fs: &dyn FileSystem, dir: &Path, numbers: impl Iterator<Item = u64>) -> Result<()> {
    let mut removed = false;
    for number in numbers {
        fs.remove(&file_path(dir, number))?;
        removed = true;
    }
    if removed { fs.sync_dir(dir) } else { Ok(()) }
}

/// `None` when no header was ever written: the file is short, or zero where its header would be.
fn read_header(file: &dyn File) -> Result<Option<[u8; HEADER_ENCODED]>> {
    if file.len()? < FILE_HEADER {
        return Ok(None);
    }
    let mut page = vec![0; FILE_HEADER as usize];
    file.read_at(0, &mut page)?;
    if page.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    Ok(Some(orcas_base::block::field(&page, 0)))
}
