//! A bucket with snapshots, a fork of it, and layers that were given up; the same with versioning is in `histories`.

use orcas_decide::Intent;
use orcas_record::{Bucket, BucketSettings};

use super::{Builder, name_of};

#[path = "histories.rs"]
mod histories;

impl Builder {
    pub(super) fn first_layers(&mut self) {
        let stack = self.bucket("stack", "root", BucketSettings::default());
        for (n, (key, length)) in
            [("kept", 400), ("replaced", 3_000), ("removed", 900), ("chunked", 25_000)].into_iter().enumerate()
        {
            self.put(&stack, key, self.noise(length, 840 + n as u64));
        }
        self.snapshot(&stack, "one");
        // Keeps this layer from being merged with the next one once the other snapshot is deleted: that would change
        // which layer has what while a store is compared.
        self.snapshot(&stack, "same");
        self.put(&stack, "replaced", self.noise(3_100, 850));
        self.delete(&stack, "removed");
        self.fork(&stack, "fork");
        self.first_histories();
    }

    pub(super) fn second_layers(&mut self) {
        let handle = self.handle();
        let (stack, fork) = (handle.bucket(b"stack").unwrap(), handle.bucket(b"fork").unwrap());
        self.put(&fork, "own", self.noise(700, 851));
        self.append(&fork, "kept", self.noise(300, 852));
        self.rename(&fork, "replaced", "renamed");
        self.snapshot(&stack, "two");
        self.put(&stack, "late", self.noise(800, 853));
        self.put(&stack, "kept", self.noise(500, 854));
        self.restore_two(&stack);
        self.second_histories();
    }

    /// Behind the last compaction.
    pub(super) fn last_layers(&mut self) {
        let stack = self.handle().bucket(b"stack").unwrap();
        self.snapshot(&stack, "three");
        self.put(&stack, "last", self.noise(1_300, 855));
        self.delete(&stack, "chunked");
        self.run(Intent::DeleteSnapshot { bucket: stack.id, name: "one".into() });
        self.last_histories();
    }

    fn snapshot(&mut self, bucket: &Bucket, name: &'static str) {
        self.run(Intent::CreateSnapshot { bucket: bucket.id, name: name.into() });
    }

    fn fork(&mut self, bucket: &Bucket, name: &'static str) {
        self.run(Intent::ForkBucket { bucket: bucket.id, snapshot: None, name: name.into() });
        let fork = self.handle().bucket(name.as_bytes()).unwrap();
        let renamed = |full: &String| Some(name_of(&fork, full.strip_prefix(&name_of(bucket, ""))?));
        let shown: Vec<_> =
            self.objects.iter().filter_map(|(full, bytes)| Some((renamed(full)?, bytes.clone()))).collect();
        // Of a damaged fork, older layers may show what its bucket had before.
        let former: Vec<_> =
            self.former.iter().filter_map(|(full, bytes)| Some((renamed(full)?, bytes.clone()))).collect();
        let versions: Vec<_> = self
            .versions
            .iter()
            .filter_map(|((full, id), stored)| Some(((renamed(full)?, *id), stored.clone())))
            .collect();
        self.objects.extend(shown);
        self.former.extend(former);
        self.versions.extend(versions);
    }

    /// Gives up what was written since the snapshot, which is a key more and the content of another.
    fn restore_two(&mut self, bucket: &Bucket) {
        self.run(Intent::RestoreBucket { bucket: bucket.id, snapshot: "two".into() });
        self.remove(&name_of(bucket, "late"));
        let kept = name_of(bucket, "kept");
        let before = self.former[&kept].last().unwrap().clone();
        self.insert(kept, before);
    }
}
