//! The files of a node that follows: what the owner did to its files is done here as well.
//!
//! Invariants. Changes are applied in the order of the log. To apply them again from an earlier place leads to the same
//! files, so nothing is synced before the mark is written. A name that the owner has removed may come again: the number of
//! a log file that was never in force is given once more. Then the former file goes at once, and nothing that was put off
//! concerns the new one.

use std::collections::{BTreeSet, HashMap};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use orcas_base::error::{Error, Result};
use orcas_fs::{File, FileSystem, GivenUp, Open};

use super::change::Change;

/// Files that are kept open.
const OPEN_MAX: usize = 64;
/// Files whose readers have to be told that they are new.
const KEYRINGS: [&str; 2] = ["keyring", "keyring.copy"];
/// What a node keeps for itself, in the directory of the store.
pub const FOLDER: &str = "cluster.node";
/// Where the small files are in there, as the log has them. The control store works on others of the same names.
pub const SMALL: &str = "control";

/// The files of a store that follow the log.
pub struct Copy {
    fs: Arc<dyn FileSystem>,
    root: PathBuf,
    open: HashMap<String, Arc<dyn File>>,
    dirty: BTreeSet<String>,
    /// Files that the owner has removed. They may be there still.
    removed: BTreeSet<String>,
}

/// What a batch has brought.
#[derive(Debug, Default)]
pub struct Applied {
    /// Something of the store's log or its packs is new.
    pub changed: bool,
    /// A keyring is new.
    pub keys: bool,
    /// What the owner does not have any more. It is still there: somebody may read it.
    pub given_up: GivenUp,
    /// Small files that are new.
    pub small: Vec<String>,
    pub notes: Vec<Bytes>,
}

impl Copy {
    pub fn new(fs: Arc<dyn FileSystem>, root: &Path) -> Self {
        Self { fs, root: root.to_owned(), open: HashMap::new(), dirty: BTreeSet::new(), removed: BTreeSet::new() }
    }

    /// Applies a batch. Blocking.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is no batch of changes; what writing ran into, and then the batch is to be applied again.
    pub fn apply(&mut self, batch: &Bytes, applied: &mut Applied) -> Result<()> {
        let malformed = || Error::corrupt(&self.root, 0, "the shared log has a batch that this version does not know");
        for change in Change::decode_all(batch).ok_or_else(malformed)? {
            self.apply_one(change, applied)?;
        }
        Ok(())
    }

    fn apply_one(&mut self, change: Change, applied: &mut Applied) -> Result<()> {
        match change {
            Change::Write { name, offset, bytes } => {
                self.make_anew(&name, applied)?;
                self.file(&name)?.write_at(offset, &bytes)?;
                applied.changed = true;
            }
            Change::Cut { name, length } => applied.given_up.ends.push((name, length)),
            Change::Punch { name, offset, length } => applied.given_up.holes.push((name, offset, length)),
            Change::Rename { from, to } => {
                self.make_anew(&to, applied)?;
                self.open.remove(&from);
                self.open.remove(&to);
                match self.fs.rename(&self.root.join(&from), &self.root.join(&to)) {
                    // It was applied before.
                    Err(error) if is_missing(&error) => {}
                    renamed => renamed?,
                }
                self.dirty.remove(&from);
                applied.keys |= KEYRINGS.contains(&&*to);
                self.dirty.insert(to);
            }
            Change::Remove { name } => {
                self.removed.insert(name.clone());
                applied.given_up.files.push(name);
            }
            Change::Replace { name, bytes } => {
                write_small(&*self.fs, &self.root, &name, &bytes)?;
                applied.small.push(name);
            }
            Change::Note(bytes) => applied.notes.push(bytes),
        }
        Ok(())
    }

    /// Makes room for a file if the owner had removed the former one of this name.
    fn make_anew(&mut self, name: &str, applied: &mut Applied) -> Result<()> {
        if !self.removed.remove(name) {
            return Ok(());
        }
        self.remove(name)?;
        applied.given_up.keep(name);
        applied.given_up.anew.push(name.to_owned());
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        self.open.remove(name);
        // Its directory is to be synced.
        self.dirty.insert(name.to_owned());
        match self.fs.remove(&self.root.join(name)) {
            Err(error) if is_missing(&error) => Ok(()),
            removed => removed,
        }
    }

    /// Gives up what the owner has given up, in a store that is not open.
    ///
    /// # Errors
    /// What changing a file ran into.
    pub fn give_up(&mut self, given_up: &GivenUp) -> Result<()> {
        given_up.shorten(&*self.fs, &self.root)?;
        let changed = given_up.ends.iter().map(|(name, _)| name);
        self.dirty.extend(changed.chain(given_up.holes.iter().map(|(name, ..)| name)).cloned());
        for name in &given_up.files {
            self.removed.remove(name);
            self.remove(name)?;
        }
        Ok(())
    }

    /// The names of files that were changed since the last call.
    pub fn take_dirty(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.dirty)
    }

    /// Counts files as changed.
    pub fn note_dirty(&mut self, names: BTreeSet<String>) {
        self.dirty.extend(names);
    }

    fn file(&mut self, name: &str) -> Result<&dyn File> {
        if self.open.len() >= OPEN_MAX && !self.open.contains_key(name) {
            self.open.clear();
        }
        self.dirty.insert(name.to_owned());
        if !self.open.contains_key(name) {
            let file = open(&*self.fs, &self.root, name)?;
            self.open.insert(name.to_owned(), file);
        }
        Ok(&*self.open[name])
    }
}

fn open(fs: &dyn FileSystem, root: &Path, name: &str) -> Result<Arc<dyn File>> {
    let path = root.join(name);
    match fs.open(&path, Open::Write) {
        Err(Error::Missing { .. }) => {
            if let Some((folder, _)) = name.split_once('/') {
                fs.create_dir(&root.join(folder))?;
            }
            fs.open(&path, Open::Create)
        }
        opened => opened,
    }
}

/// Whether a file was not there.
pub fn is_missing(error: &Error) -> bool {
    match error {
        Error::Missing { .. } => true,
        Error::Io { source, .. } => source.kind() == ErrorKind::NotFound,
        _ => false,
    }
}

/// Replaces the copy of a small file, durably.
///
/// # Errors
/// What writing it ran into.
pub fn write_small(fs: &dyn FileSystem, root: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let cluster = root.join(FOLDER);
    fs.create_dir(&cluster)?;
    replace(fs, &cluster.join(SMALL), name, bytes)
}

/// Replaces a file of a directory, which is made if there is none, durably.
///
/// # Errors
/// What writing it ran into. The former file is still there.
pub fn replace(fs: &dyn FileSystem, folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let draft = folder.join(format!("{name}.draft"));
    fs.create_dir(folder)?;
    match fs.remove(&draft) {
        Err(error) if is_missing(&error) => {}
        removed => removed?,
    }
    let file = fs.open(&draft, Open::Create)?;
    file.write_at(0, bytes)?;
    file.sync_data()?;
    fs.rename(&draft, &folder.join(name))?;
    fs.sync_dir(folder)
}
