//! What a lifecycle document would remove at a time, counted from lists of versions and uploads: for the console.
//!
//! The rules are those by which the engine removes. Locks, which only make fewer entries go, are not known here.

use std::collections::BTreeMap;

use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use orcas_lifecycle::{DAY_MS, EntryFacts, EntryState, Expiration, Rule, Rules};
use orcas_s3::lifecycle::Configuration;

/// What a rule would remove: its ID; current objects, old versions, delete markers and uploads; bytes of the first two.
type Row = (String, u64, u64, u64, u64, u64);

#[pyclass]
pub struct ExpiryCount {
    rules: Rules,
    now_ms: u64,
    /// The key of the version that was counted last.
    key: Option<String>,
    /// When that version came.
    newer_ms: u64,
    /// How many noncurrent versions of the key stay.
    kept: u64,
    /// The rule that removes the delete marker of the key if no version follows it.
    marker: Option<usize>,
    counts: BTreeMap<usize, [u64; 5]>,
}

#[pymethods]
impl ExpiryCount {
    #[new]
    fn new(document: &[u8], now_ms: u64) -> PyResult<Self> {
        let read = Configuration::parse(document).map_err(|error| PyValueError::new_err(error.message.into_owned()))?;
        let rules = read.into_rules();
        Ok(Self { rules, now_ms, key: None, newer_ms: 0, kept: 0, marker: None, counts: BTreeMap::new() })
    }

    fn prefixes(&self, uploads: bool) -> Vec<String> {
        let found = if uploads { self.rules.upload_prefixes() } else { self.rules.prefixes() };
        found.into_iter().map(|prefix| String::from_utf8_lossy(prefix).into_owned()).collect()
    }

    fn needs_tags(&self, key: &str, size: u64) -> bool {
        self.rules.needs_tags(key.as_bytes(), size)
    }

    fn version(&mut self, key: &str, size: u64, modified_ms: u64, is_marker: bool, tags: Vec<(String, String)>) {
        let is_newest = self.key.as_deref() != Some(key);
        if is_newest {
            self.end();
            self.key = Some(key.to_owned());
        }
        self.marker = None;
        let tags: Vec<(Bytes, Bytes)> = tags.into_iter().map(|(tag, value)| (tag.into(), value.into())).collect();
        let facts = EntryFacts { key: key.as_bytes(), size, modified_ms, tags: &tags };
        let newer_ms = std::mem::replace(&mut self.newer_ms, modified_ms);
        if !is_newest {
            let since_ms = newer_ms.max(modified_ms);
            match self.due(&facts, EntryState::Noncurrent { since_ms, newer: self.kept }) {
                Some(rule) => self.count(rule, 1, size),
                None => self.kept += 1,
            }
        } else if is_marker {
            self.marker = self.due(&facts, EntryState::LoneMarker);
        } else if let Some(rule) = self.due(&facts, EntryState::Current) {
            self.count(rule, 0, size);
        }
    }

    fn upload(&mut self, key: &str, begun_ms: u64) {
        let facts = EntryFacts { key: key.as_bytes(), size: 0, modified_ms: begun_ms, tags: &[] };
        if let Some(rule) = self.due(&facts, EntryState::Upload) {
            self.count(rule, 3, 0);
        }
    }

    fn end(&mut self) {
        if let Some(rule) = self.marker.take() {
            self.count(rule, 2, 0);
        }
        (self.key, self.newer_ms, self.kept) = (None, 0, 0);
    }

    fn rows(&self) -> Vec<Row> {
        let row = |(rule, [current, noncurrent, markers, uploads, bytes]): (&usize, &[u64; 5])| {
            (self.rules.all()[*rule].id.clone(), *current, *noncurrent, *markers, *uploads, *bytes)
        };
        self.counts.iter().map(row).collect()
    }

    fn sweeping(&self) -> Vec<String> {
        let sweeps = |rule: &&Rule| rule.enabled && is_sweeping(rule, self.now_ms);
        self.rules.all().iter().filter(sweeps).map(|rule| rule.id.clone()).collect()
    }
}

impl ExpiryCount {
    /// The place of the rule that has removed an entry by now.
    fn due(&self, facts: &EntryFacts<'_>, state: EntryState) -> Option<usize> {
        let due = self.rules.due(facts, state, DAY_MS).filter(|due| due.at_ms <= self.now_ms)?;
        self.rules.all().iter().position(|rule| std::ptr::eq(rule, due.rule))
    }

    fn count(&mut self, rule: usize, what: usize, size: u64) {
        let counts = self.counts.entry(rule).or_default();
        counts[what] += 1;
        counts[4] += size;
    }
}

/// Whether a rule removes all objects, or all old versions, within a day or so.
fn is_sweeping(rule: &Rule, now_ms: u64) -> bool {
    let filter = &rule.filter;
    let is_narrow = !filter.prefix.is_empty()
        || !filter.tags.is_empty()
        || filter.greater_than.is_some()
        || filter.less_than.is_some();
    let is_soon = match rule.expiration {
        Some(Expiration::Days(days)) => days == 1,
        Some(Expiration::Date(at_ms)) => at_ms <= now_ms.saturating_add(DAY_MS),
        Some(Expiration::Markers(_)) | None => false,
    };
    !is_narrow && (is_soon || rule.noncurrent.is_some_and(|old| old.days == 1 && old.newer == 0))
}
