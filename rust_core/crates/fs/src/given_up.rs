//! What the other copy of some files does not have any more, and readers of this one may still use.

use std::path::Path;

use orcas_base::error::{Error, Result};

use super::{FileSystem, Open};

/// Parts of the files of a store, which are named within it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    pub files: Vec<String>,
    /// Ends of log files, from a length on: void, and not written again.
    pub ends: Vec<(String, u64)>,
    /// Holes in packs, by offset and length. They were chunks, or were between them, and a pack only grows. So nothing is
    /// written there again, and a hole may be made at any later time.
    pub holes: Vec<(String, u64, u64)>,
    /// Files that were given up before and are there anew: what was given up of them earlier does not count any more.
    pub anew: Vec<String>,
}

impl GivenUp {
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.ends.is_empty() && self.holes.is_empty() && self.anew.is_empty()
    }

    /// Takes out everything that concerns a file, which is there anew.
    pub fn keep(&mut self, name: &str) {
        self.files.retain(|file| file != name);
        self.ends.retain(|(file, _)| file != name);
        self.holes.retain(|(file, ..)| file != name);
    }

    /// Gives up ends and holes of the files in `root`, which only saves space.
    ///
    /// # Errors
    /// What changing a file ran into.
    pub fn shorten(&self, fs: &dyn FileSystem, root: &Path) -> Result<()> {
        let open = |name: &str| match fs.open(&root.join(name), Open::Write) {
            // It was removed since.
            Err(Error::Missing { .. }) => Ok(None),
            opened => opened.map(Some),
        };
        for (name, length) in &self.ends {
            if let Some(file) = open(name)?
                && file.len()? > *length
            {
                file.set_len(*length)?;
            }
        }
        for (name, offset, length) in &self.holes {
            // A file system without holes does without.
            open(name)?.map(|file| file.punch(*offset, *length)).transpose()?;
        }
        Ok(())
    }
}
