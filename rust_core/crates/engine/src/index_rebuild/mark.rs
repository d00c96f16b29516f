//! The files by which a start learns of a damaged index and of a rebuild that did not finish.

use std::path::Path;

use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_fs::{FileSystem, Open};

/// The index while it is being built.
pub(crate) const REBUILT_NAME: &str = "index.db.rebuild";
/// An empty file that says that `index.db` is damaged, so that the next start rebuilds it even if that start meets no
/// damage.
pub(crate) const MARK_NAME: &str = "index.db.damaged";

/// Says in the directory of the store that its index is damaged.
pub(crate) fn mark(fs: &dyn FileSystem, data: &Path) -> Result<()> {
    if !is_marked(fs, data)? && !planted::is(Bug::RebuildWithoutMark) {
        fs.open(&data.join(MARK_NAME), Open::Create)?;
        fs.sync_dir(data)?;
    }
    Ok(())
}

pub(crate) fn is_marked(fs: &dyn FileSystem, data: &Path) -> Result<bool> {
    Ok(fs.list(data)?.iter().any(|name| name == MARK_NAME))
}

/// The index is whole.
pub(crate) fn unmark(fs: &dyn FileSystem, data: &Path) -> Result<()> {
    if is_marked(fs, data)? {
        fs.remove(&data.join(MARK_NAME))?;
        fs.sync_dir(data)?;
    }
    Ok(())
}
