//! Replication as requests see it: the targets that rules may name, and how far copies are. Whoever copies says so.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use orcas_base::sync::Snapshot;
use orcas_record::{BucketId, Version};
use orcas_s3::replication::Replication;

/// How far the copies of a bucket are.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The changes up to this sequence of the log are copied, or are exceptions.
    pub done: u64,
    /// The exceptions: keys whose newest state could not be copied yet.
    pub failed: HashSet<Vec<u8>>,
    /// What existed before the rules is copied up to this key. `None`: all of it.
    pub walked: Option<Vec<u8>>,
}

/// Replaced as a whole, so that requests read it without waiting.
pub struct Replications {
    targets: Snapshot<HashSet<String>>,
    progress: Snapshot<HashMap<BucketId, Progress>>,
}

impl Default for Replications {
    fn default() -> Self {
        Self { targets: Snapshot::new(Arc::default()), progress: Snapshot::new(Arc::default()) }
    }
}

impl Replications {
    pub fn set_targets(&self, names: HashSet<String>) {
        self.targets.replace(Arc::new(names));
    }

    pub fn has_target(&self, name: &str) -> bool {
        self.targets.load().contains(name)
    }

    pub fn show(&self, progress: HashMap<BucketId, Progress>) {
        self.progress.replace(Arc::new(progress));
    }

    /// What answers say of the current version of a key. `None` if no rule applies to it.
    pub fn status(&self, rules: &Replication, bucket: BucketId, version: &Version) -> Option<&'static str> {
        let applying = rules.applying(&version.key, &version.attributes.tags);
        let sequence = version.version_id.first_sequence();
        let is_new = |begins_after: u64| sequence.is_some_and(|sequence| sequence > begins_after);
        if applying.is_empty() {
            return None;
        }
        let loaded = self.progress.load();
        let of_bucket = loaded.get(&bucket);
        let is_done = if applying.iter().any(|rule| is_new(rule.begins_after)) {
            of_bucket.is_some_and(|progress| sequence.is_some_and(|sequence| sequence <= progress.done))
        } else if applying.iter().any(|rule| rule.existing == Some(true)) {
            let passed = |mark: &Vec<u8>| version.key[..] <= mark[..];
            of_bucket.is_some_and(|progress| progress.walked.as_ref().is_none_or(passed))
        } else {
            return None;
        };
        let failed = || of_bucket.is_some_and(|progress| progress.failed.contains(&version.key[..]));
        Some(match is_done {
            false => "PENDING",
            true if failed() => "FAILED",
            true => "COMPLETED",
        })
    }
}
