//! The mark of a node: how much of the shared log its files have, whatever happens to the machine.

use std::collections::BTreeSet;
use std::path::Path;

use orcas_base::error::{Error, Result};
use orcas_fs::{FileSystem, Open};
use orcas_http::{hex, parse_hex};
use orcas_shared_log::{Cursor, EntryId, Position};
use serde::{Deserialize, Serialize};

use super::copy::{FOLDER, is_missing, replace};

const NAME: &str = "mark.json";
const FORMAT: u8 = 1;
const LENGTH_MAX: u64 = 1 << 20;

/// Where a node goes on after a restart. What it did to its files behind that place, it does once more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The URL of the log, without keys.
    pub log: String,
    pub cursor: Cursor,
    /// Positions of the fences that are known, which are never deleted.
    pub fences: Vec<Position>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    format: u8,
    log: String,
    next: Position,
    last: Option<String>,
    fences: Vec<Position>,
}

impl Mark {
    /// The mark of a directory; `None` if no node of a cluster has used it.
    ///
    /// # Errors
    /// [`Error::Corrupt`], or what reading it ran into.
    pub fn read(fs: &dyn FileSystem, root: &Path) -> Result<Option<Self>> {
        let path = root.join(FOLDER).join(NAME);
        let file = match fs.open(&path, Open::Read) {
            Err(error) if is_missing(&error) => return Ok(None),
            opened => opened?,
        };
        let mut bytes = vec![0; file.len()?.min(LENGTH_MAX) as usize];
        file.read_at(0, &mut bytes)?;
        let text: Option<Text> = serde_json::from_slice(&bytes).ok().filter(|text: &Text| text.format == FORMAT);
        let mark = text.and_then(|Text { log, next, last, fences, .. }| {
            let last = match last {
                Some(digits) => Some(EntryId(u128::from_be_bytes(parse_hex(digits.as_bytes())?))),
                None => None,
            };
            Some(Self { log, cursor: Cursor { next, last }, fences })
        });
        mark.map(Some).ok_or_else(|| Error::corrupt(&path, 0, "it is not the mark of a node of a cluster"))
    }

    /// Makes these files durable, then the mark. Blocking.
    ///
    /// # Errors
    /// What a sync or writing ran into. The mark before is still there.
    pub fn write(&self, fs: &dyn FileSystem, root: &Path, files: &BTreeSet<String>) -> Result<()> {
        let mut folders = BTreeSet::new();
        for path in files.iter().map(|name| root.join(name)) {
            match fs.open(&path, Open::Write).and_then(|file| file.sync_data()) {
                // It was removed meanwhile.
                Err(error) if is_missing(&error) => {}
                synced => synced?,
            }
            folders.extend(path.parent().map(Path::to_owned));
        }
        folders.iter().try_for_each(|folder| fs.sync_dir(folder))?;
        // The folders themselves may be new, that of the mark too.
        fs.create_dir(&root.join(FOLDER))?;
        fs.sync_dir(root)?;
        let last = self.cursor.last.map(|id| hex(&id.0.to_be_bytes()));
        let (log, fences) = (self.log.clone(), self.fences.clone());
        let text = Text { format: FORMAT, log, next: self.cursor.next, last, fences };
        let bytes = serde_json::to_vec_pretty(&text).unwrap_or_else(|_| unreachable!("numbers and text are JSON"));
        replace(fs, &root.join(FOLDER), NAME, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_fs::real::RealFileSystem;

    #[test]
    fn marks_come_back_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, root) = (RealFileSystem, dir.path());
        assert_eq!(Mark::read(&fs, root).unwrap(), None);
        let cursor = Cursor { next: 7, last: Some(EntryId(u128::MAX - 1)) };
        let mark = Mark { log: "s3://logs/a".to_owned(), cursor, fences: vec![0, 3] };
        fs.create_dir(&root.join("log")).unwrap();
        fs.open(&root.join("log/1.log"), Open::Create).unwrap();
        mark.write(&fs, root, &["log/1.log", "log/gone.log"].map(str::to_owned).into()).unwrap();
        assert_eq!(Mark::read(&fs, root).unwrap(), Some(mark));
        replace(&fs, &root.join(FOLDER), NAME, b"{}").unwrap();
        assert!(matches!(Mark::read(&fs, root), Err(Error::Corrupt { .. })));
    }
}
