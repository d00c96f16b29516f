//! Shows people what the files of a store contain: records of the log, chunks of packs, events of the journal.
//!
//! Invariants. Nothing is written and no lock is taken, so the store may be open. Damage is no error: it is a row with its
//! file and byte, and reading goes on. No row has content, keys or sealed headers. In memory are one batch of records, the
//! names of all buckets, and the uploads that a filter selects.
#![forbid(unsafe_code)]

mod describe;
mod log;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use orcas_base::error::{Error, Result};
use orcas_chunks::{PackFrame, PackSalvage};
use orcas_engine::{Change, was_closed};
use orcas_fs::FileSystem;
use orcas_fs::read_only::ReadOnlyFileSystem;
use orcas_record::Sequence;
use orcas_store::StoreKeys;

use describe::Fields;

pub use describe::Value;

/// The kind of a row about what cannot be read.
pub const UNREADABLE: &str = "unreadable";

/// Kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Log,
    Packs,
    Journal,
}

/// A record, a chunk, an event, or what cannot be read.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Relative to the directory of the store.
    pub file: String,
    pub byte: u64,
    pub sequence: Option<Sequence>,
    pub kind: String,
    pub fields: Vec<(&'static str, Value)>,
}

/// What is shown. What is `None` or empty selects everything; what cannot be read is shown unless it is in another file.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Kinds in lower case.
    pub kinds: Vec<String>,
    pub bucket: Option<Bytes>,
    pub key: Option<Bytes>,
    pub prefix: Option<Bytes>,
    pub first: Option<Sequence>,
    pub last: Option<Sequence>,
    /// The name of a file, with or without its directory.
    pub file: Option<String>,
}

impl Filter {
    /// Whether only some buckets or keys are shown.
    fn names_objects(&self) -> bool {
        self.bucket.is_some() || self.key.is_some() || self.prefix.is_some()
    }

    fn has_key(&self, key: Option<&[u8]>) -> bool {
        self.key.as_ref().is_none_or(|wanted| key == Some(wanted))
            && self.prefix.as_ref().is_none_or(|prefix| key.is_some_and(|key| key.starts_with(prefix)))
    }
}

/// Gets rows in order. Its error ends the inspection.
pub type Sink<'a> = &'a mut dyn FnMut(Entry) -> Result<()>;

/// Shows the selected rows of a part of the store in `data`. `tick` is called now and then, and its error ends the
/// inspection.
///
/// # Errors
/// Those of `sink` and `tick`.
pub fn inspect(
    fs: &Arc<dyn FileSystem>,
    data: &Path,
    part: Part,
    filter: &Filter,
    tick: &dyn Fn() -> Result<()>,
    sink: Sink<'_>,
) -> Result<()> {
    let fs: Arc<dyn FileSystem> = Arc::new(ReadOnlyFileSystem::new(Arc::clone(fs)));
    let mut inspection = Inspection { fs, data, filter, tick, sink };
    match part {
        Part::Log => inspection.log(),
        Part::Packs => inspection.packs(),
        Part::Journal => inspection.journal(),
    }
}

struct Inspection<'a> {
    fs: Arc<dyn FileSystem>,
    data: &'a Path,
    filter: &'a Filter,
    tick: &'a dyn Fn() -> Result<()>,
    sink: Sink<'a>,
}

impl Inspection<'_> {
    /// The name of a file within the directory of the store.
    fn name(&self, path: &Path) -> String {
        path.strip_prefix(self.data).unwrap_or(path).display().to_string()
    }

    /// Shows a row unless its file, kind or sequence is not selected.
    fn show(&mut self, row: Entry) -> Result<()> {
        let Filter { kinds, first, last, file, .. } = self.filter;
        let of_file = file.as_ref().is_none_or(|file| row.file == *file || row.file.ends_with(&format!("/{file}")));
        let selected = || {
            (kinds.is_empty() || kinds.contains(&row.kind.to_lowercase()))
                && first.is_none_or(|first| row.sequence.is_some_and(|sequence| sequence >= first))
                && last.is_none_or(|last| row.sequence.is_some_and(|sequence| sequence <= last))
        };
        if of_file && (row.kind == UNREADABLE || selected()) { (self.sink)(row) } else { Ok(()) }
    }

    fn unreadable(&mut self, path: &Path, byte: u64, reason: impl Into<String>) -> Result<()> {
        let fields = vec![("reason", Value::Text(reason.into()))];
        self.show(Entry { file: self.name(path), byte, sequence: None, kind: UNREADABLE.to_owned(), fields })
    }

    /// Makes a row of what reading `path` ran into.
    fn failed(&mut self, path: &Path, error: &Error) -> Result<()> {
        match error {
            Error::Corrupt { path, offset, reason } => self.unreadable(path, *offset, *reason),
            Error::Missing { .. } => self.unreadable(path, 0, "there is no such file, or no such file any more"),
            error => self.unreadable(path, 0, error.to_string()),
        }
    }

    fn packs(&mut self) -> Result<()> {
        let dir = self.data.join("chunks");
        let known = StoreKeys::inspect(&self.fs, self.data).into_iter().find_map(|(_, read)| read.ok());
        let id = known.map_or_else(
            || {
                let ids = orcas_chunks::store_ids(&*self.fs, &dir)?;
                Ok(ids.into_iter().max_by_key(|(_, count)| *count).map(|(id, _)| id).unwrap_or_default())
            },
            |keys| Ok(keys.store_id),
        );
        let packs = match id.and_then(|id| PackSalvage::survey(&*self.fs, &dir, id)) {
            Ok(packs) => packs,
            Err(error) => return self.failed(&dir, &error),
        };
        for (path, reason) in &packs.findings {
            self.unreadable(path, 0, reason)?;
        }
        for pack in packs.packs() {
            let path = dir.join(orcas_chunks::pack_name(pack));
            let fs = Arc::clone(&self.fs);
            let mut ended = Ok(());
            let read = packs.frames(&*fs, &dir, pack, &mut |frame| {
                ended = (self.tick)().and_then(|()| self.frame(&path, frame));
                ended.clone()
            });
            ended?;
            if let Err(error) = read {
                self.failed(&path, &error)?;
            }
        }
        Ok(())
    }

    fn frame(&mut self, path: &Path, frame: PackFrame) -> Result<()> {
        let (byte, kind, fields) = match frame {
            PackFrame::Chunk { byte, intact: false, .. } => {
                return self.unreadable(path, byte, "a block of the chunk does not match its checksum");
            }
            _ if self.filter.names_objects() => return Ok(()),
            PackFrame::Chunk { byte, length, fingerprint, .. } => {
                let fields = vec![("length", Value::Number(length.into())), ("fingerprint", Value::hex(&fingerprint))];
                (byte, "Chunk", fields)
            }
            PackFrame::Unknown { byte, length } => (byte, "Unknown", vec![("length", Value::Number(length))]),
        };
        self.show(Entry { file: self.name(path), byte, sequence: None, kind: kind.to_owned(), fields })
    }

    fn journal(&mut self) -> Result<()> {
        let (fs, data) = (Arc::clone(&self.fs), self.data);
        let mut ended = Ok(());
        let examined = orcas_journal::examine(&*fs, data, &mut |path, byte, event| {
            if ended.is_ok() {
                let change = Change::decode(event.place, event.time_ms, &event.payload);
                ended = (self.tick)().and_then(|()| match change {
                    Some(change) => self.event(path, byte, &change),
                    None => self.unreadable(path, byte, "an event cannot be read"),
                });
            }
            ended.is_ok()
        });
        ended?;
        for (path, reason) in &examined.unreadable {
            self.unreadable(path, 0, reason)?;
        }
        for (path, byte) in &examined.damaged {
            self.unreadable(path, *byte, "the events from here to the end of the file are lost")?;
        }
        examined.torn.map_or(Ok(()), |(path, byte)| self.torn(&path, byte))
    }

    /// Shows that a file that is written to has something incomplete at its end: no damage unless the store was closed.
    fn torn(&mut self, path: &Path, byte: u64) -> Result<()> {
        if was_closed(&*self.fs, self.data).unwrap_or(false) {
            return self.unreadable(path, byte, "the store was closed, and this end of the file is incomplete");
        }
        let kind = "Torn".to_owned();
        self.show(Entry { file: self.name(path), byte, sequence: None, kind, fields: Vec::new() })
    }

    fn event(&mut self, path: &Path, byte: u64, change: &Change) -> Result<()> {
        let of_bucket = self.filter.bucket.as_ref().is_none_or(|bucket| *bucket == change.bucket_name);
        if !of_bucket || !self.filter.has_key(Some(&change.key)) {
            return Ok(());
        }
        let names = HashMap::from([(change.bucket, change.bucket_name.clone())]);
        let mut fields = Fields::new(&names);
        fields.change(change);
        let (sequence, kind) = (Some(change.place.sequence), format!("{:?}", change.kind));
        self.show(Entry { file: self.name(path), byte, sequence, kind, fields: fields.out })
    }
}
