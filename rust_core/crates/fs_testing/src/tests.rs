//! The simulated disk follows the rules of a real one.

use std::collections::BTreeSet;

use super::*;

fn path(name: &str) -> PathBuf {
    Path::new("/").join(name)
}

fn write(disk: &SimDisk, name: &str, offset: u64, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.open(&path(name), Open::Write).or_else(|_| disk.open(&path(name), Open::Create)).unwrap();
    file.write_at(offset, bytes).unwrap();
    file
}

fn read(disk: &SimDisk, name: &str) -> Option<Vec<u8>> {
    let file = disk.open(&path(name), Open::Read).ok()?;
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    Some(bytes)
}

fn crash(disk: &SimDisk, policy: CrashPolicy) -> SimDisk {
    disk.crash(&mut SimRng::new(1), policy)
}

#[test]
fn only_synced_bytes_under_synced_names_certainly_survive() {
    let disk = SimDisk::new();
    let file = write(&disk, "a", 0, b"first");
    assert_eq!(read(&crash(&disk, CrashPolicy::Drop), "a"), None);
    assert_eq!(read(&crash(&disk, CrashPolicy::Keep), "a").unwrap(), b"first");
    file.sync_data().unwrap();
    assert_eq!(read(&crash(&disk, CrashPolicy::Drop), "a"), None);
    disk.sync_dir(Path::new("/")).unwrap();
    file.write_at(3, b"...and more").unwrap();
    assert_eq!(read(&crash(&disk, CrashPolicy::Drop), "a").unwrap(), b"first");
    assert_eq!(read(&disk.kill(), "a").unwrap(), b"fir...and more");
    assert_eq!(read(&crash(&disk.kill(), CrashPolicy::Drop), "a").unwrap(), b"first");
}

#[test]
fn a_power_loss_tears_a_write_only_between_sectors() {
    let disk = SimDisk::new();
    let file = write(&disk, "a", 0, &[1; 4 * SECTOR]);
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    file.write_at(0, &[2; 4 * SECTOR]).unwrap();
    file.write_at(0, &[3; 4 * SECTOR]).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..2000 {
        let after = read(&disk.crash(&mut SimRng::new(seed), CrashPolicy::Scatter), "a").unwrap();
        for sector in after.chunks(SECTOR) {
            assert!(sector.iter().all(|byte| *byte == sector[0]));
        }
        seen.insert(after.chunks(SECTOR).map(|sector| sector[0]).collect::<Vec<_>>());
    }
    assert_eq!(seen.len(), 81, "every sector takes each of its three states, whatever the others do");
}

#[test]
fn a_prefix_crash_keeps_order_across_files() {
    let disk = SimDisk::new();
    for name in ["a", "b"] {
        write(&disk, name, 0, &[0; SECTOR]).sync_data().unwrap();
    }
    disk.sync_dir(Path::new("/")).unwrap();
    (1..=20u8).for_each(|i| drop(write(&disk, if i % 2 == 0 { "a" } else { "b" }, 0, &[i; SECTOR])));
    let mut seen = BTreeSet::new();
    for seed in 0..500 {
        let after = disk.crash(&mut SimRng::new(seed), CrashPolicy::Prefix);
        let (a, b) = (read(&after, "a").unwrap()[0], read(&after, "b").unwrap()[0]);
        assert!(a.abs_diff(b) <= 1, "{a} {b}");
        seen.insert((a, b));
    }
    assert!(seen.len() > 10);
}

#[test]
fn a_failed_sync_turns_pages_clean_for_ever() {
    let disk = SimDisk::new();
    let file = write(&disk, "a", 0, &[1; SECTOR]);
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    file.write_at(0, &[2; SECTOR]).unwrap();
    disk.fail(Operation::Sync, 1, Fault::Io, false);
    assert!(matches!(file.sync_data(), Err(Error::Io { .. })));
    assert_eq!(read(&disk, "a").unwrap(), [2; SECTOR]);
    file.sync_data().unwrap();
    assert_eq!(read(&disk.kill(), "a").unwrap(), [2; SECTOR]);
    assert_eq!(read(&crash(&disk, CrashPolicy::Drop), "a").unwrap(), [1; SECTOR]);
    // Written again, the sector is an ordinary dirty page.
    file.write_at(0, &[3; SECTOR]).unwrap();
    file.sync_data().unwrap();
    for policy in [CrashPolicy::Drop, CrashPolicy::Keep, CrashPolicy::Scatter] {
        assert_eq!(read(&crash(&disk, policy), "a").unwrap(), [3; SECTOR]);
    }
}

#[test]
fn directory_operations_are_lost_one_by_one() {
    let disk = SimDisk::new();
    write(&disk, "old", 0, b"old").sync_data().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    write(&disk, "new", 0, b"new").sync_data().unwrap();
    disk.rename(&path("new"), &path("kept")).unwrap();
    disk.remove(&path("old")).unwrap();
    assert_eq!(disk.list(Path::new("/")).unwrap(), ["kept"]);
    assert_eq!(crash(&disk, CrashPolicy::Drop).list(Path::new("/")).unwrap(), ["old"]);
    let listings: BTreeSet<_> = (0..200)
        .map(|seed| disk.crash(&mut SimRng::new(seed), CrashPolicy::Scatter).list(Path::new("/")).unwrap())
        .collect();
    assert_eq!(listings.len(), 6);
    disk.sync_dir(Path::new("/")).unwrap();
    assert_eq!(crash(&disk, CrashPolicy::Drop).list(Path::new("/")).unwrap(), ["kept"]);
}

#[test]
fn an_unsynced_directory_is_lost_with_its_files() {
    let disk = SimDisk::new();
    disk.create_dir(&path("dir")).unwrap();
    disk.create_dir(&path("dir")).unwrap();
    write(&disk, "dir/a", 0, b"a").sync_data().unwrap();
    disk.sync_dir(&path("dir")).unwrap();
    assert_eq!(read(&crash(&disk, CrashPolicy::Drop), "dir/a"), None);
    disk.sync_dir(Path::new("/")).unwrap();
    assert_eq!(read(&crash(&disk, CrashPolicy::Drop), "dir/a").unwrap(), b"a");
}

#[test]
fn faults_affect_the_planned_operation() {
    let disk = SimDisk::new();
    let file = write(&disk, "a", 0, &[1; 4 * SECTOR]);
    disk.fail(Operation::Write, 2, Fault::NoSpace, false);
    file.write_at(0, &[2; 4 * SECTOR]).unwrap();
    assert!(matches!(file.write_at(100, &[3; 3 * SECTOR]), Err(Error::StorageFull)));
    let found = read(&disk, "a").unwrap();
    assert!(found[100..SECTOR] == [3; SECTOR - 100] && found[SECTOR..] == [2; 3 * SECTOR]);
    file.write_at(0, &[4; 4 * SECTOR]).unwrap();
    disk.fail(Operation::Create, 1, Fault::NoSpace, true);
    for _ in 0..3 {
        assert!(matches!(disk.open(&path("b"), Open::Create), Err(Error::StorageFull)));
    }
    disk.clear_faults();
    disk.open(&path("b"), Open::Create).unwrap();
}

#[test]
fn snapshots_are_independent_and_fingerprints_distinguish_images() {
    let disk = SimDisk::new();
    let images = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&images);
    disk.on_step(move |step, disk| sink.lock().push((step.operation, disk.snapshot())));
    let file = write(&disk, "a", 0, b"one");
    file.write_at(0, b"two").unwrap();
    file.sync_data().unwrap();
    let images = images.lock();
    let seen: Vec<_> = images.iter().map(|(operation, image)| (*operation, read(image, "a").unwrap())).collect();
    let steps = [
        (Operation::Create, b"".to_vec()),
        (Operation::Write, b"one".to_vec()),
        (Operation::Write, b"two".to_vec()),
        (Operation::Sync, b"two".to_vec()),
    ];
    assert_eq!(seen, steps);
    let prints: BTreeSet<_> = images.iter().map(|(_, image)| image.fingerprint()).collect();
    assert_eq!(prints.len(), 3);
    assert_eq!(disk.snapshot().fingerprint(), disk.fingerprint());
}

#[test]
fn shortening_a_file_may_be_lost_too() {
    let disk = SimDisk::new();
    let file = write(&disk, "a", 0, &[1; 1000]);
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    file.set_len(100).unwrap();
    file.set_len(1000).unwrap();
    assert_eq!(read(&disk, "a").unwrap(), [[1; 100].to_vec(), vec![0; 900]].concat());
    assert_eq!(read(&crash(&disk, CrashPolicy::Drop), "a").unwrap(), [1; 1000]);
    file.sync_data().unwrap();
    assert_eq!(read(&crash(&disk, CrashPolicy::Drop), "a").unwrap()[100..], [0; 900]);
}

#[test]
fn reserved_space_reads_as_zeros_and_keeps_what_was_written() {
    let disk = SimDisk::new();
    let file = write(&disk, "a", 0, &[1; 1000]);
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk.fail(Operation::Allocate, 1, Fault::NoSpace, false);
    assert!(matches!(file.allocate(0, 4000), Err(Error::StorageFull)));
    file.allocate(0, 4000).unwrap();
    file.allocate(0, 2000).unwrap();
    let whole = [vec![1; 1000], vec![0; 3000]].concat();
    assert_eq!(read(&disk, "a").unwrap(), whole);
    assert_eq!(read(&crash(&disk, CrashPolicy::Drop), "a").unwrap(), [1; 1000]);
    file.sync_data().unwrap();
    assert_eq!(read(&crash(&disk, CrashPolicy::Drop), "a").unwrap(), whole);
}

#[test]
fn a_hole_is_durable_only_after_a_sync_and_torn_between_sectors() {
    let disk = SimDisk::new();
    let file = write(&disk, "a", 0, &[1; 3 * 4096]);
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    assert_eq!(file.allocated().unwrap(), 3 * 4096);
    assert!(matches!(file.punch(0, 512), Err(Error::Io { .. })));
    assert!(matches!(disk.open(&path("a"), Open::Read).unwrap().punch(0, 4096), Err(Error::Io { .. })));
    assert!(file.punch(4096, 3 * 4096).unwrap());
    assert_eq!((file.allocated().unwrap(), file.len().unwrap()), (4096, 3 * 4096));
    assert_eq!(disk.count(Operation::Punch), 1);
    let hole = [vec![1; 4096], vec![0; 2 * 4096]].concat();
    assert_eq!(read(&disk, "a").unwrap(), hole);
    assert_eq!(read(&crash(&disk, CrashPolicy::Drop), "a").unwrap(), [1; 3 * 4096]);
    assert_eq!(read(&crash(&disk, CrashPolicy::Keep), "a").unwrap(), hole);
    let mut torn = 0;
    for seed in 0..50 {
        let after = read(&disk.crash(&mut SimRng::new(seed), CrashPolicy::Scatter), "a").unwrap();
        assert!(after[..4096].iter().all(|byte| *byte == 1));
        let sectors: BTreeSet<_> = after[4096..].chunks(SECTOR).map(|sector| sector[0]).collect();
        torn += usize::from(sectors.len() == 2);
    }
    assert!(torn > 40, "{torn}");
    file.sync_data().unwrap();
    assert_eq!(read(&crash(&disk, CrashPolicy::Drop), "a").unwrap(), hole);
    disk.refuse_holes();
    assert!(!file.punch(0, 4096).unwrap());
    assert_eq!(read(&disk, "a").unwrap(), hole);
}

#[test]
fn a_lock_ends_with_its_holder() {
    let disk = SimDisk::new();
    let held = disk.lock(&path("lock")).unwrap();
    assert!(matches!(disk.lock(&path("lock")), Err(Error::Locked { .. })));
    disk.kill().lock(&path("lock")).unwrap();
    drop(held);
    disk.lock(&path("lock")).unwrap();
}
