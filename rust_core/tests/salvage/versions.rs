//! Versions that a salvaged store shows, held against what was stored under their ids: content that was, attributes that
//! were, and everything of which no record and no block was hit.

use std::collections::BTreeSet;

use bytes::Bytes;
use orcas_base::error::Error;
use orcas_engine::{Handle, SalvageReport};
use orcas_record::{Bucket, BucketId, VersionId};

use crate::judge::{Damage, Tally, is_said, read};
use crate::places::{Places, Range};
use crate::store::Built;
use orcas_catalog::{ListVersions, ListedVersion, VersionSink};

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

/// Keys and ids of all versions that the bucket shows.
pub fn list(handle: &Handle, bucket: &Bucket) -> Result<Vec<(Bytes, VersionId)>, Error> {
    let list = ListVersions { bucket: bucket.id, prefix: Bytes::new(), delimiter: None, after: None, max_keys: 1_000 };
    let mut names = Names::default();
    handle.list_versions_in(bucket, &list, &mut names)?;
    Ok(names.0)
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
        (of, bucket): (&Bucket, &str),
        seen: &mut BTreeSet<Name>,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let names = list(self.handle, of).map_err(|error| format!("no list of versions: {error}"))?;
        for (key, version) in names {
            let full = format!("{bucket}/{}", String::from_utf8_lossy(&key));
            let Some(stored) = self.built.versions.get(&(full.clone(), version)) else {
                return Err(format!("{full}: version {version:?} never was"));
            };
            let found = self.handle.version_in(of, &key, version).map_err(|error| error.to_string())?;
            let Some(found) = found else { return Err(format!("{full}: {version:?} is listed and not there")) };
            let marker = found.object.version.delete_marker;
            let bytes = match read(self.handle, &found) {
                Ok(bytes) => (!marker).then_some(bytes),
                Err(_) if is_said(self.handle, self.report, &found) => continue,
                Err(_) => return Err(format!("{full}: {version:?} cannot be read, and nothing is said")),
            };
            if !stored.bytes.contains(&bytes) {
                return Err(format!("{full}: {version:?} has other bytes (seed {})", self.damage.plan.seed));
            }
            let attributes = &found.object.version.attributes;
            if !stored.attributes.contains(attributes) {
                return Err(format!("{full}: {version:?} never had {attributes:?}"));
            }
            let name = (of.id, key, version);
            if stored.attributes.last() != Some(attributes) {
                // Tags or locks of an earlier time.
                let traceless = self.update_leaves_no_trace(of, &name) || self.last_leaves_no_trace(of, &name);
                if self.report.gone_total == 0 && !traceless {
                    return Err(format!("{full}: {version:?} has {attributes:?}, and nothing is said"));
                }
                tally.older_attributes += 1;
            } else if stored.bytes.last() == Some(&bytes) && stored.present {
                tally.versions += 1;
                seen.insert(name);
            } else if self.report.gone_total == 0 && !self.last_leaves_no_trace(of, &name) {
                return Err(format!("{full}: {version:?} was deleted or replaced, and nothing is said"));
            }
        }
        Ok(())
    }

    fn update_leaves_no_trace(&self, of: &Bucket, (_, key, id): &Name) -> bool {
        let mut updates = of.stack().iter().filter_map(|layer| self.places.updates.get(&(*layer, key.clone(), *id)));
        updates.any(|frame| self.damage.leaves_no_trace(frame))
    }

    fn last_leaves_no_trace(&self, of: &Bucket, (_, key, _): &Name) -> bool {
        let last = of.stack().iter().filter_map(|layer| self.places.last.get(&(*layer, key.clone())));
        // Also of the record that gave it another layer, which says more.
        last.chain(&self.places.buckets).any(|frame| self.damage.leaves_no_trace(frame))
    }
}

/// Every version of which no place was hit is among `seen`.
///
/// # Errors
/// One that is not.
pub fn complete<'p>(
    seen: &BTreeSet<Name>,
    left: &dyn Fn(&Range) -> bool,
    versions: impl Iterator<Item = (&'p Name, &'p Vec<Range>)>,
) -> Result<(), String> {
    for (name, ranges) in versions {
        if ranges.iter().all(left) && !seen.contains(name) {
            return Err(format!("{name:?} is whole and was missed"));
        }
    }
    Ok(())
}
