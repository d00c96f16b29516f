//! Removes layers that were dropped, some keys at a time. What they held is dead then, unless others refer to it.

use bytes::Bytes;

use super::super::maintenance::MaintenanceIntent;
use super::limits::Step;
use super::work::{Activity, FollowUp, Reclaimer};
use orcas_base::error::Result;
use orcas_index::VersionFrom;

/// Keys that one intent removes.
const KEYS_MAX: usize = 1_000;

impl Reclaimer {
    /// The next part of a layer that goes. The published table is asked, so that whoever reads the layer can find out.
    pub(super) fn choose_layer(&mut self) -> Result<Option<Step>> {
        let Some(layer) = self.shared.buckets.read().dropped() else { return Ok(None) };
        let mut keys = Vec::new();
        self.shared.index.read()?.scan_versions(layer, VersionFrom::Key(b""), KEYS_MAX, &mut |row| {
            keys.push(Bytes::copy_from_slice(&row.head.key));
            true
        })?;
        Ok(Some(self.submit(MaintenanceIntent::RemoveLayer { layer, keys }, FollowUp::Emptied, Activity::Idle)))
    }
}
