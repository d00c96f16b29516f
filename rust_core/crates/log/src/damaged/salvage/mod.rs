//! Reads what is left of a log, without changing it. Each file is read by itself; the chain need not be intact, and keys
//! and headers may be missing.
//!
//! A frame counts if its checksums match under the salt of its file, which binds it to the file and the offset. The
//! checksums use four bytes of the salt, which can be computed from any intact frame if the header is gone. Records are
//! returned in the order of their sequences, each once. Must not know what they mean.

mod file;
mod frames;
mod salt;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_fs::{File, FileSystem, Open, read_around_faults};
use orcas_record::Sequence;

use crate::chain::{LogDirectory, SpareMaker};
use crate::encoding::{FILE_HEADER, FileContext, HEADER_ENCODED, Header, LogKeys};
use crate::{LogOptions, file_number, file_path};
use file::{SalvagedFile, Whole};
use frames::{Frames, Item};
use salt::recover_salt;

pub use frames::Salvaged;

/// The files of a log from which anything can be read.
pub struct LogSalvage {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    keys: Option<LogKeys>,
    files: Vec<SalvagedFile>,
    /// Problems of whole files.
    pub findings: Vec<(PathBuf, String)>,
}

/// Counts of what was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub records: u64,
    /// Records in batches whose commit record proves that this store wrote them.
    pub authenticated: u64,
    /// Files with at least one record.
    pub files: u64,
}

/// The store ids in headers with matching checksums, and how often each occurs.
///
/// # Errors
/// When the directory cannot be listed.
pub fn store_ids(fs: &dyn FileSystem, dir: &Path) -> Result<HashMap<[u8; 16], u64>> {
    let mut found = HashMap::new();
    for number in numbers(fs, dir)? {
        let read = fs.open(&file_path(dir, number), Open::Read).and_then(|file| read_header(&*file));
        if let Ok((Some(header), _)) = read {
            *found.entry(*header.store_id()).or_default() += 1;
        }
    }
    Ok(found)
}

fn numbers(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<u64>> {
    match fs.list(dir) {
        Ok(names) => Ok(names.iter().filter_map(|name| file_number(name)).collect()),
        // Nothing of the log is left.
        Err(Error::Missing { .. }) => Ok(Vec::new()),
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The header if its checksum matches, and its bytes, with zeros beyond the end of the file.
fn read_header(file: &dyn File) -> Result<(Option<Header>, [u8; HEADER_ENCODED])> {
    let mut bytes = [0; HEADER_ENCODED];
    let length = file.len()?.min(HEADER_ENCODED as u64) as usize;
    read_around_faults(file, 0, &mut bytes[..length])?;
    Ok((Header::decode_unsigned(&bytes), bytes))
}

impl LogSalvage {
    /// Surveys all files of the log. Without `commit_key` nothing can be authenticated.
    ///
    /// # Errors
    /// When the directory cannot be listed; a file that cannot be read is a finding.
    pub fn survey(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        store_id: [u8; 16],
        commit_key: Option<&[u8; 32]>,
    ) -> Result<Self> {
        let keys = commit_key.map(LogKeys::derive);
        let mut salvage = Self { fs, dir: dir.to_owned(), keys, files: Vec::new(), findings: Vec::new() };
        for number in numbers(&*salvage.fs, dir)? {
            if let Err(error) = salvage.look_at(number, store_id) {
                let path = file_path(dir, number);
                salvage.findings.push((path, format!("the file cannot be read: {error}")));
            }
        }
        salvage.find_ends();
        salvage.find_beginnings()?;
        Ok(salvage)
    }

    fn look_at(&mut self, number: u64, store_id: [u8; 16]) -> Result<()> {
        let path = file_path(&self.dir, number);
        let file = self.fs.open(&path, Open::Read)?;
        let length = file.len()?;
        let (header, bytes) = read_header(&*file)?;
        let foreign = header.as_ref().is_some_and(|header| *header.store_id() != store_id);
        if foreign {
            self.findings.push((path, "the file belongs to another store".to_owned()));
            return Ok(());
        }
        let header = header.filter(|header| match &self.keys {
            Some(keys) => Header::decode(&bytes, keys, &store_id, header.number()).is_ok(),
            None => true,
        });
        let context = match &header {
            Some(header) => header.context(),
            None => match recover_salt(&*file, length)? {
                Some(salt) => {
                    let detail = "the header is damaged or gone; records are read without it";
                    self.findings.push((path.clone(), detail.to_owned()));
                    let mut bytes = [0; 16];
                    bytes[..4].copy_from_slice(&salt.to_le_bytes());
                    FileContext::new(&store_id, number, &bytes)
                }
                None => {
                    // A spare file has no header either.
                    if bytes.iter().any(|byte| *byte != 0) {
                        self.findings.push((path, "the header is damaged, and no record can be read".to_owned()));
                    }
                    return Ok(());
                }
            },
        };
        if header.is_some() && length < FILE_HEADER {
            self.findings.push((path.clone(), "the file is truncated".to_owned()));
        }
        let limit = match &header {
            Some(Header::Compacted(compacted)) => compacted.own_end,
            _ => length,
        };
        self.files.push(SalvagedFile { number, context, header, limit, until: None, first: 0, whole: false });
        Ok(())
    }

    /// Determines where files end, from the headers of their successors.
    fn find_ends(&mut self) {
        let begins = |file: &SalvagedFile| file.header.as_ref().map(|header| header.from().clone());
        for end in self.files.iter().filter_map(begins).collect::<Vec<_>>() {
            let before = self.files.iter_mut().find(|file| file.number == end.file && !file.is_compacted());
            if let Some(before) = before {
                before.limit = before.limit.min(end.offset);
                before.until = Some(end.sequence);
            }
        }
        for file in &mut self.files {
            if let Some(Header::Compacted(header)) = &file.header {
                file.until = Some(header.end.sequence);
            }
        }
    }

    /// Determines the first record of each file, and which compacted files are whole.
    fn find_beginnings(&mut self) -> Result<()> {
        for mut file in std::mem::take(&mut self.files) {
            let mut frames = self.frames(&file)?;
            let Some(first) = frames.next()? else { continue };
            file.first = first.sequence;
            if file.is_compacted() {
                while frames.next()?.is_some() {}
                file.whole = frames.is_whole();
            }
            self.files.push(file);
        }
        self.files.sort_by_key(|file| (file.first, file.number));
        Ok(())
    }

    fn frames(&self, file: &SalvagedFile) -> Result<Frames> {
        let path = file_path(&self.dir, file.number);
        let opened = self.fs.open(&path, Open::Read)?;
        Frames::new(file, path, opened, self.keys.as_ref())
    }

    /// The contexts with which a `LogReader` can read single records.
    pub fn contexts(&self) -> HashMap<u64, FileContext> {
        self.files.iter().map(|file| (file.number, file.context.clone())).collect()
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.limit).sum()
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A `SpareMaker` for an engine that never writes.
    pub fn spare_maker(&self, options: LogOptions) -> SpareMaker {
        SpareMaker::new(&LogDirectory::new(Arc::clone(&self.fs), options), 1)
    }

    /// The last sequence that a compacted file covers.
    pub fn compacted_up_to(&self) -> Sequence {
        self.files.iter().filter(|file| file.is_compacted()).filter_map(|file| file.until).max().unwrap_or(0)
    }

    /// Visits every readable record and every gap, in the order of sequences.
    ///
    /// # Errors
    /// What `visit` returns, and what reading a file ran into.
    pub fn read(&self, visit: &mut dyn FnMut(Salvaged) -> Result<()>) -> Result<Counted> {
        let whole: Vec<Whole> = self.files.iter().filter_map(SalvagedFile::stands_for).collect();
        let mut waiting = self.files.iter().peekable();
        let mut open: Vec<(Frames, Item)> = Vec::new();
        let mut counted = Counted { files: self.files.len() as u64, ..Counted::default() };
        let mut covered = 0;
        loop {
            let mut least = open.iter().map(|(_, item)| item.sequence).min();
            while let Some(file) = waiting.next_if(|file| least.is_none_or(|least| file.first <= least)) {
                let mut frames = self.frames(file)?;
                if let Some(item) = frames.next()? {
                    least = Some(least.map_or(item.sequence, |least| least.min(item.sequence)));
                    open.push((frames, item));
                }
            }
            let Some(least) = least else { return Ok(counted) };
            let mut chosen: Option<Item> = None;
            let mut at = 0;
            while let Some((frames, item)) = open.get_mut(at) {
                if item.sequence != least {
                    at += 1;
                    continue;
                }
                let number = frames.number;
                let found = match frames.next()? {
                    Some(next) => {
                        // The item at the end of a file has the sequence of its last record but is not that record.
                        at += 1;
                        std::mem::replace(item, next)
                    }
                    None => {
                        counted.authenticated += frames.authenticated;
                        open.swap_remove(at).1
                    }
                };
                if !whole.iter().any(|whole| whole.replaces(number, least)) {
                    chosen = Some(match chosen {
                        Some(other) => other.or(found),
                        None => found,
                    });
                }
            }
            let Some(item) = chosen else { continue };
            if item.after > covered {
                visit(Salvaged::Gone(covered + 1, item.after))?;
            }
            covered = covered.max(least);
            if let Some(found) = item.what {
                counted.records += u64::from(matches!(found, Salvaged::Record(_)));
                visit(found)?;
            }
        }
    }
}
