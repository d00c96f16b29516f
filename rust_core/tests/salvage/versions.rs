//! Versions that a salvaged store shows, held against what was stored under their ids: content that was, attributes that
//! were, and everything of which no record and no block was hit.

use std::collections::BTreeSet;

use bytes::Bytes;
use orcas_engine::{Handle, ListVersions, ListedVersion, SalvageReport, VersionSink};
use orcas_record::{BucketId, VersionId};

use crate::judge::{Damage, Tally, read};
use crate::places::{Places, Range};
use crate::store::Built;

pub type Name = (BucketId, Bytes, VersionId);

#[derive(Default)]
struct Names(Vec<(Bytes, VersionId)>);

impl VersionSink for Names {
    fn version(&mut self, version: &ListedVersion<'_>) {
        self.0.push((Bytes::copy_from_slice(version.key), version.id));
    }

    fn prefix(&mut self, _: &[u8]) {}

    fn restart(&mut self) {
        self.0.clear();
    }
}

pub struct Looking<'a> {
    pub handle: &'a Handle,
    pub built: &'a Built,
    pub report: &'a SalvageReport,
    pub damage: &'a Damage<'a>,
    pub places: &'a Places,
}

impl Looking<'_> {
    /// Everything that is shown of a bucket with the name `bucket`. Adds what is as it was stored last to `seen`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn look(
        &self,
        (id, bucket, shown): (BucketId, &str, &str),
        seen: &mut BTreeSet<Name>,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let list = ListVersions { bucket: id, prefix: Bytes::new(), delimiter: None, after: None, max_keys: 1_000 };
        let mut names = Names::default();
        self.handle.list_versions_to(&list, &mut names).map_err(|error| format!("no list of versions: {error}"))?;
        for (key, version) in names.0 {
            let full = format!("{bucket}/{}", String::from_utf8_lossy(&key));
            let Some(stored) = self.built.versions.get(&(full.clone(), version)) else {
                return Err(format!("{full}: version {version:?} never was"));
            };
            let found = self.handle.version(id, &key, version).map_err(|error| error.to_string())?;
            let Some(found) = found else { return Err(format!("{full}: {version:?} is listed and not there")) };
            let marker = found.object.version.delete_marker;
            let bytes = match read(self.handle, &found) {
                Ok(bytes) => (!marker).then_some(bytes),
                Err(_) if self.report.losses.iter().any(|loss| loss.bucket == shown && loss.key == key) => continue,
                Err(_) => return Err(format!("{full}: {version:?} cannot be read, and nothing is said")),
            };
            if !stored.bytes.contains(&bytes) {
                return Err(format!("{full}: {version:?} has other bytes (seed {})", self.damage.plan.seed));
            }
            let attributes = &found.object.version.attributes;
            if !stored.attributes.contains(attributes) {
                return Err(format!("{full}: {version:?} never had {attributes:?}"));
            }
            let name = (id, key, version);
            if stored.attributes.last() != Some(attributes) {
                // Tags or locks of an earlier time.
                let traceless = self.update_leaves_no_trace(&name);
                if self.report.gone_total == 0 && !traceless {
                    return Err(format!("{full}: {version:?} has {attributes:?}, and nothing is said"));
                }
                tally.older_attributes += 1;
            } else if stored.bytes.last() == Some(&bytes) && stored.present {
                tally.versions += 1;
                seen.insert(name);
            } else if self.report.gone_total == 0 && !self.last_leaves_no_trace(&name) {
                return Err(format!("{full}: {version:?} was deleted or replaced, and nothing is said"));
            }
        }
        Ok(())
    }

    fn update_leaves_no_trace(&self, name: &Name) -> bool {
        self.places.updates.get(name).is_some_and(|frame| self.damage.leaves_no_trace(frame))
    }

    fn last_leaves_no_trace(&self, (bucket, key, _): &Name) -> bool {
        self.places.last.get(&(*bucket, key.clone())).is_some_and(|frame| self.damage.leaves_no_trace(frame))
    }

    /// Every version that nothing of the damage hit is among `seen`.
    ///
    /// # Errors
    /// One that is not.
    pub fn complete(
        &self,
        seen: &BTreeSet<Name>,
        left: &dyn Fn(&Range) -> bool,
        is_kept: &dyn Fn(BucketId) -> bool,
    ) -> Result<(), String> {
        for (name, ranges) in self.places.versions.iter().filter(|((bucket, _, _), _)| is_kept(*bucket)) {
            if ranges.iter().all(left) && !seen.contains(name) {
                return Err(format!("{name:?} is whole and was missed"));
            }
        }
        Ok(())
    }
}
