//! Room on the disk: whether there is enough for new content, and what the store gives up when there is none.

use std::path::PathBuf;
use std::sync::Arc;

use crate::upkeep::{Upkeep, UpkeepTask};
use orcas_base::error::{Error, Result};
use orcas_fs::FileSystem;
use orcas_log::SpareMaker;
use orcas_store::ballast::Ballast;

pub(crate) struct DiskSpace {
    pub fs: Arc<dyn FileSystem>,
    /// The directory of the store.
    pub data: PathBuf,
    /// Free bytes that new content has to leave.
    pub reserve: u64,
    pub ballast: Ballast,
    pub spares: SpareMaker,
    pub upkeep: Upkeep,
}

impl DiskSpace {
    /// Whether there is room for new content.
    pub fn check(&self) -> Result<()> {
        let reserve = self.reserve;
        match self.fs.free_bytes(&self.data) {
            Ok(free) if free < reserve => Err(Error::UnderReserve { reserve }),
            Ok(_) | Err(_) if self.ballast.is_short() => {
                self.upkeep.request(UpkeepTask::Ballast);
                Err(Error::StorageFull)
            }
            // A file system that cannot tell says so when it is written to.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Whether less is free than new content has to leave.
    pub fn is_under_reserve(&self) -> bool {
        self.fs.free_bytes(&self.data).is_ok_and(|free| free < self.reserve)
    }

    /// Makes what room it can for work that must continue and found none. True when there is more than before. The
    /// spare log file goes last: the present one has room as well, and what finds none may be what gives space back.
    pub fn make_room(&self) -> bool {
        self.ballast.give_up() || self.ballast.is_wanted() && self.spares.remove()
    }

    /// Makes the next log file ready, if it is not.
    pub fn make_spare(&self) -> Result<()> {
        match self.spares.make() {
            Err(Error::StorageFull) if self.ballast.give_up() => self.spares.make(),
            // Health reports a full disk.
            made @ (Ok(()) | Err(Error::StorageFull)) => made,
            Err(error) => {
                tracing::warn!(%error, "The next log file could not be prepared: the next full one will wait for it");
                Err(error)
            }
        }
    }
}
