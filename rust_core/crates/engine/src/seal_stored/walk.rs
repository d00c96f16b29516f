//! All keys of a layer in their order, each with its versions.

use std::collections::VecDeque;

use bytes::Bytes;

use super::super::state::EngineState;
use orcas_base::error::Result;
use orcas_catalog::{VersionScanRow, VersionStart};
use orcas_record::BucketId;

/// Versions that are read at a time.
const PAGE: usize = if cfg!(test) { 16 } else { 1_000 };
/// Versions of one key that are changed together.
pub(super) const VERSIONS_MAX: usize = if cfg!(test) { 100 } else { 10_000 };

/// Reads the keys of a layer while others write. What it gives was so at some moment.
pub(super) struct Keys<'a> {
    shared: &'a EngineState,
    layer: BucketId,
    rows: VecDeque<VersionScanRow>,
    /// The version at which the next rows begin; `None` at the end.
    next: Option<VersionStart>,
}

/// A key and its versions, the newest first.
pub(super) struct KeyFound {
    pub key: Bytes,
    pub versions: Vec<VersionScanRow>,
    /// Older versions are left out.
    pub is_cut: bool,
}

impl<'a> Keys<'a> {
    pub fn of(shared: &'a EngineState, layer: BucketId) -> Self {
        Self { shared, layer, rows: VecDeque::new(), next: Some(VersionStart::From(Bytes::new())) }
    }

    /// # Errors
    /// When the index cannot be read.
    pub fn next(&mut self) -> Result<Option<KeyFound>> {
        self.fill()?;
        let Some(first) = self.rows.pop_front() else { return Ok(None) };
        let key = first.key.clone();
        let mut found = KeyFound { key: key.clone(), versions: vec![first], is_cut: false };
        loop {
            self.fill()?;
            let same_key = self.rows.front().is_some_and(|row| row.key == key);
            match if same_key { self.rows.pop_front() } else { None } {
                None => return Ok(Some(found)),
                Some(_) if found.versions.len() == VERSIONS_MAX => {
                    found.is_cut = true;
                    self.rows.clear();
                    self.next = Some(VersionStart::After(key));
                    return Ok(Some(found));
                }
                Some(row) => found.versions.push(row),
            }
        }
    }

    fn fill(&mut self) -> Result<()> {
        while self.rows.is_empty()
            && let Some(from) = self.next.take()
        {
            let (rows, next) = orcas_catalog::scan_versions(&self.shared.catalog, self.layer, &from, PAGE)?;
            self.rows = rows.into();
            self.next = next;
        }
        Ok(())
    }
}
