//! A disk that has no room any more.

use std::time::Duration;

use bytes::Bytes;

use super::super::steps::Steps;
use super::super::support::noise;
use crate::{Condition, Space};
use orcas_base::error::Error;
use orcas_decide::{Failure, Intent, Precondition};
use orcas_fs_testing::{CrashPolicy, Fault, Operation, SimDisk, SimRng};
use orcas_record::{Bucket, Durability};

const LATER: Duration = Duration::from_secs(3600);

fn delete(bucket: &Bucket, key: &'static str) -> Intent {
    let key = Bytes::from_static(key.as_bytes());
    Intent::DeleteObject { bucket: bucket.id, key, precondition: Precondition::default(), version: None, bypass: false }
}

fn opened(disk: &SimDisk, durability: Durability) -> Steps {
    Steps::on(disk, |options| {
        options.durability = durability;
        options.sync_interval = LATER;
        options.write_buffer_window = LATER;
        options.log_file_size = 3 << 20;
        options.ballast = 16 << 20;
    })
}

fn fill_up(disk: &SimDisk, steps: &Steps) {
    disk.set_free_bytes(0);
    disk.fail(Operation::Create, 1, Fault::NoSpace, true);
    // As the upkeep thread does, which makes the next log file.
    assert!(matches!(steps.shared().space.make_spare(), Err(Error::StorageFull)));
}

#[test]
fn what_was_promised_in_a_weak_mode_does_not_fail_for_want_of_a_log_file() {
    for durability in [Durability::Interval, Durability::Buffered, Durability::UnsafeNone] {
        let disk = SimDisk::new();
        let mut steps = opened(&disk, durability);
        let bucket = steps.bucket("b");
        for n in 0..40 {
            steps.put(&bucket, &format!("filling-{n}"), &noise(60_000, n));
        }
        steps.apply();
        steps.put(&bucket, "promised", &noise(10_000, 99));
        fill_up(&disk, &steps);
        let refused = steps.run(delete(&bucket, "filling-1"));
        assert!(matches!(refused, Err(Failure::Engine(Error::StorageFull))), "{refused:?}");
        assert_eq!(steps.handle().health().condition, Condition::Full(Space::None));

        disk.clear_faults();
        disk.set_free_bytes(1 << 40);
        steps.run(delete(&bucket, "filling-1")).unwrap();
        // That was synced, for the ballast is not whole yet.
        let mut after = opened(&disk.crash(&mut SimRng::new(1), CrashPolicy::Drop), durability);
        after.apply();
        assert_eq!(after.get(&bucket, "promised"), noise(10_000, 99));
        steps.shared().fill_ballast();
        assert_eq!(steps.handle().health().condition, Condition::Ok);
        steps.put(&bucket, "more", &noise(10_000, 100));
    }
}

#[test]
fn on_a_full_disk_deletions_go_on_and_content_is_refused_until_the_ballast_is_whole() {
    let disk = SimDisk::new();
    let mut steps = opened(&disk, Durability::Sync);
    let bucket = steps.bucket("b");
    steps.put(&bucket, "a", &noise(10_000, 1));
    steps.put(&bucket, "c", &noise(10_000, 2));
    steps.shared().fill_ballast();
    let held = steps.shared().space.ballast.held();
    assert!(held >= 8 << 20);
    fill_up(&disk, &steps);
    assert_eq!(steps.shared().space.ballast.held(), 0);
    steps.delete(&bucket, "a");
    let content = steps.intent(&bucket, "d", &noise(10_000, 3));
    assert!(matches!(steps.run(content), Err(Failure::Engine(Error::StorageFull))));
    disk.clear_faults();
    // Some room, which is for the way out.
    disk.set_free_bytes(9 << 20);
    steps.shared().fill_ballast();
    let content = steps.intent(&bucket, "d", &noise(10_000, 3));
    assert!(matches!(steps.run(content), Err(Failure::Engine(Error::StorageFull))));
    disk.set_free_bytes(64 << 20);
    steps.shared().fill_ballast();
    assert_eq!(steps.shared().space.ballast.held(), held);
    steps.put(&bucket, "d", &noise(10_000, 3));
}
