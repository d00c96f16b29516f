//! Removes layers that were dropped, some versions at a time. What they held is dead then, unless others refer to it.

use bytes::Bytes;

use super::super::maintenance::MaintenanceIntent;
use super::limits::Step;
use super::work::{Activity, FollowUp, Reclaimer};
use orcas_base::error::Result;

/// Versions that one intent removes.
const VERSIONS_MAX: usize = 1_000;

impl Reclaimer {
    /// The next part of a layer that goes. The published table is asked, so that whoever reads the layer can find out.
    pub(super) fn choose_layer(&mut self) -> Result<Option<Step>> {
        let Some(layer) = self.shared.catalog.buckets.read().dropped() else { return Ok(None) };
        let mut versions = Vec::new();
        // The oldest of a key first: then none becomes the current one meanwhile.
        self.shared.catalog.index.read()?.oldest_versions(layer, VERSIONS_MAX, &mut |row| {
            versions.push((Bytes::copy_from_slice(&row.head.key), row.version_id));
            true
        })?;
        let intent = MaintenanceIntent::RemoveLayer { layer, versions };
        Ok(Some(self.submit(intent, FollowUp::Emptied, Activity::Idle)))
    }
}
