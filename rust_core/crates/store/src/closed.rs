//! The file that tells a store that was closed from one whose process ended otherwise. It is there only while nobody has
//! the store open. A close that cannot write it counts as none.

use std::path::Path;

use orcas_base::error::Result;
use orcas_fs::{FileSystem, Open};

/// An empty file.
const NAME: &str = "store.closed";

/// Whether nobody has the store open, and the last process closed it.
///
/// # Errors
/// When the directory cannot be read.
pub fn is_marked(fs: &dyn FileSystem, data: &Path) -> Result<bool> {
    Ok(fs.list(data)?.iter().any(|name| name == NAME))
}

/// To be called when everything that was acknowledged is in the files.
///
/// # Errors
/// When the file cannot be made.
pub fn mark(fs: &dyn FileSystem, data: &Path) -> Result<()> {
    fs.open(&data.join(NAME), Open::Create)?;
    fs.sync_dir(data)
}

/// To be called before anything is acknowledged.
///
/// # Errors
/// When the file cannot be removed.
pub fn unmark(fs: &dyn FileSystem, data: &Path) -> Result<()> {
    fs.remove(&data.join(NAME))?;
    fs.sync_dir(data)
}
