//! Buckets with versioning, snapshots and a fork: versions that go on in frozen layers, and amendments of them; and null
//! versions that replace those of the layers below.

use orcas_decide::{AttributeChange, Intent};
use orcas_record::{BucketSettings, RetentionMode, Versioning};

use super::super::Builder;

impl Builder {
    pub(super) fn first_histories(&mut self) {
        let h = self.locked_bucket("hist");
        let first = self.put_version(&h, "h-doc", Some(self.noise(40, 860)));
        let second = self.put_version(&h, "h-doc", Some(self.noise(900, 861)));
        let kept = self.put_version(&h, "h-kept", Some(self.noise(700, 862)));
        let held = self.put_version(&h, "h-held", Some(self.noise(200, 863)));
        let back = self.put_version(&h, "h-back", Some(self.noise(300, 864)));
        let marker = self.put_version(&h, "h-back", None);
        self.snapshot(&h, "one");
        // As for the bucket without versioning.
        self.snapshot(&h, "same");
        self.put_version(&h, "h-doc", Some(self.noise(600, 865)));
        self.delete_version(&h, "h-doc", first);
        self.tag(&h, "h-doc", second, "amended");
        self.retain(&h, "h-kept", kept, RetentionMode::Compliance, 1);
        self.update(&h, "h-held", held, AttributeChange::LegalHold(true));
        self.delete_version(&h, "h-back", marker);
        self.tag(&h, "h-back", back, "shown again");
        self.fork(&h, "hist-fork");

        let n = self.bucket("nulls", "root", BucketSettings::default());
        self.put_version(&n, "n-null", Some(self.noise(600, 870)));
        self.put_version(&n, "n-single", Some(self.noise(500, 871)));
        self.snapshot(&n, "before");
        self.snapshot(&n, "same");
        self.versioning(&n, Versioning::Enabled);
        self.put_version(&n, "n-null", Some(self.noise(650, 872)));
        self.versioning(&n, Versioning::Suspended);
        self.put_version(&n, "n-null", Some(self.noise(700, 873)));
        self.snapshot(&n, "one");
    }

    pub(super) fn second_histories(&mut self) {
        let handle = self.handle();
        let (h, fork) = (handle.bucket(b"hist").unwrap(), handle.bucket(b"hist-fork").unwrap());
        let n = handle.bucket(b"nulls").unwrap();
        let of_fork = self.put_version(&fork, "h-doc", Some(self.noise(450, 880)));
        self.put_version(&fork, "h-own", Some(self.noise(350, 881)));
        self.tag(&fork, "h-doc", of_fork, "of the fork");
        self.snapshot(&h, "two");
        let kept = self.newest(&h, "h-kept");
        self.retain(&h, "h-kept", kept, RetentionMode::Compliance, 2);
        self.put_version(&h, "h-back", None);
        self.put_version(&n, "n-null", Some(self.noise(800, 882)));
        self.put_version(&n, "n-single", None);
        self.snapshot(&n, "two");
    }

    /// Behind the last compaction.
    pub(super) fn last_histories(&mut self) {
        let h = self.handle().bucket(b"hist").unwrap();
        self.snapshot(&h, "three");
        let doc = self.newest(&h, "h-doc");
        self.update(&h, "h-doc", doc, AttributeChange::LegalHold(true));
        self.put_version(&h, "h-late", Some(self.noise(400, 890)));
        self.run(Intent::DeleteSnapshot { bucket: h.id, name: "one".into() });
    }
}
