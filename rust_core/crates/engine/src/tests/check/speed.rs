//! How long a check takes beside reading the same files plainly. Not part of the suite: run it by name.

use std::time::Instant;

use super::super::support::{Store, noise};
use super::fixture::{check, files};

/// Reads every file of the store from its beginning to its end.
fn read_plainly(store: &Store) -> u64 {
    use std::io::Read;
    let mut buf = vec![0; 128 << 10];
    let mut bytes = 0;
    for dir in ["log", "chunks"] {
        for path in files(&store.path().join(dir)) {
            let mut file = std::fs::File::open(path).unwrap();
            while let read @ 1.. = file.read(&mut buf).unwrap() {
                bytes += read as u64;
            }
        }
    }
    bytes
}

/// User and system time of this process, where /proc tells.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

#[test]
#[ignore = "a figure, not a test"]
fn a_check_beside_plain_reading() {
    let mib: u64 = std::env::var("ORCAS_CHECK_MIB").ok().and_then(|mib| mib.parse().ok()).unwrap_or(512);
    for (name, length) in [("chunks of 4 MiB", 32 << 20), ("contents of 16 KiB", 16 << 10)] {
        let mut store = Store::with(|options| {
            options.log_file_size = 16 << 20;
            options.pack_size = 256 << 20;
        });
        let bucket = store.bucket("b");
        for n in 0..(mib << 20) / length {
            store.put(&bucket, &n.to_string(), &noise(length as usize, n)).unwrap();
        }
        store.close();
        for _ in 0..2 {
            let started = Instant::now();
            let bytes = read_plainly(&store);
            let plain = started.elapsed().as_secs_f64();
            let before = processor_seconds();
            let report = check(store.path());
            let busy = processor_seconds() - before;
            assert!(report.is_clean());
            println!(
                "{name}: {} MiB, read plainly in {plain:.2} s, checked in {:.2} s ({busy:.2} s of processors)",
                bytes >> 20,
                report.seconds
            );
        }
    }
}
