//! Room on the disk: whether there is enough for new content, and what the store gives up when there is none.

use super::ballast::SMALLEST;
use crate::state::{EngineState, UpkeepTask};
use orcas_base::error::{Error, Result};

impl EngineState {
    pub(crate) fn check_space(&self) -> Result<()> {
        let reserve = self.options.reserve;
        match self.fs.free_bytes(&self.options.data) {
            Ok(free) if free < reserve => Err(Error::UnderReserve { reserve }),
            Ok(_) | Err(_) if self.ballast.is_short() => {
                self.request(UpkeepTask::Ballast);
                Err(Error::StorageFull)
            }
            // A file system that cannot tell says so when it is written to.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Whether less is free than new content has to leave.
    pub(crate) fn is_under_reserve(&self) -> bool {
        self.fs.free_bytes(&self.options.data).is_ok_and(|free| free < self.options.reserve)
    }

    /// Makes what room it can for work that must continue and found none. True when there is more than before. The
    /// spare log file goes last: the present one has room as well, and what finds none may be what gives space back.
    pub(crate) fn make_room(&self) -> bool {
        self.ballast.give_up() || self.ballast.is_wanted() && self.spares.remove()
    }

    /// Makes the next log file ready, if it is not.
    pub(crate) fn make_spare(&self) -> Result<()> {
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

    /// Takes the ballast from room that the store can spare at work. An index that is being rebuilt goes first.
    pub(crate) fn fill_ballast(&self) {
        if !self.index_rebuild.is_wanted() {
            self.ballast.fill(SMALLEST);
        }
    }
}
