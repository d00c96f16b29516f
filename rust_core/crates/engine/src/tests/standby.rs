//! Standbys: a copy that is made round by round shows what the store had at the end of each, whatever is rewritten
//! meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::{Effort, chunks_named};
use orcas_decide::Failure;
use orcas_fs::GivenUp;
use orcas_fs_testing::SimRng;
use orcas_log::LogPosition;
use orcas_record::Bucket;

use super::support::{Store, environment, noise};

/// A copy of a store as a standby makes it.
struct Copied {
    store: Store,
    end: Option<LogPosition>,
    sequence: u64,
}

impl Copied {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["log", "chunks"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { store: Store::closed(dir), end: None, sequence: 0 }
    }

    /// One round. Returns the files that the store does not have any more.
    fn round(&mut self, store: &Store) -> Vec<String> {
        let pin = store.handle().pin_for_backup().unwrap();
        let lengths: BTreeMap<&str, u64> = pin.files.iter().map(|file| (&file.name[..], file.length)).collect();
        for (name, length) in lengths.iter().filter(|(name, _)| !name.starts_with("chunks/")) {
            copy(store.path(), self.store.path(), name, 0, *length);
        }
        let given_up = self.files().filter(|name| !lengths.contains_key(&name[..])).collect::<Vec<_>>();
        let named =
            chunks_named(&environment(), self.store.path(), &given_up, self.end.as_ref(), self.sequence).unwrap();
        for (name, length) in lengths.iter().filter(|(name, _)| name.starts_with("chunks/")) {
            match named.ranges.get(*name) {
                Some((start, end)) if self.store.path().join(name).exists() => {
                    copy(store.path(), self.store.path(), name, *start, end.unwrap_or(*length).min(*length));
                }
                _ if self.store.path().join(name).exists() => {}
                _ => copy(store.path(), self.store.path(), name, 0, *length),
            }
        }
        (self.end, self.sequence) = (Some(named.end), pin.sequence);
        given_up
    }

    fn files(&self) -> impl Iterator<Item = String> {
        let names = |folder: &str| {
            let entries = fs::read_dir(self.store.path().join(folder)).unwrap();
            let named = |name: std::ffi::OsString| format!("{folder}/{}", name.to_string_lossy());
            entries.map(|entry| named(entry.unwrap().file_name())).collect::<Vec<_>>()
        };
        names("log").into_iter().chain(names("chunks"))
    }
}

fn copy(from: &Path, to: &Path, name: &str, start: u64, end: u64) {
    let mut bytes = vec![0; (end - start) as usize];
    fs::File::open(from.join(name)).unwrap().read_exact_at(&mut bytes, start).unwrap();
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(to.join(name)).unwrap();
    file.write_all_at(&bytes, start).unwrap();
    if name.starts_with("log/") {
        file.set_len(end).unwrap();
    }
}

/// What a store shows: the bodies by key.
pub fn shown(store: &Store, bucket: &Bucket) -> BTreeMap<String, Vec<u8>> {
    let key = |key: &bytes::Bytes| String::from_utf8(key.to_vec()).unwrap();
    store.list(bucket).iter().map(|name| (key(name), store.get(bucket, &key(name)).unwrap().unwrap())).collect()
}

pub fn change(store: &Store, bucket: &Bucket, rng: &mut SimRng) {
    let key = format!("k{}", rng.below(30));
    let length = [0, 200, 3_000, 40_000, 400_000][rng.below(5) as usize];
    match rng.below(10) {
        0..=5 => store.put(bucket, &key, &noise(length, rng.below(1 << 40))).unwrap(),
        6..=7 => store.delete(bucket, &key).unwrap(),
        8 => match store.rename(bucket, &key, &format!("k{}", rng.below(30))) {
            Ok(()) | Err(Failure::Refused(_)) => {}
            Err(error) => panic!("{error:?}"),
        },
        _ => drop(store.handle().reclaim([Effort::Collect, Effort::Compact][rng.below(2) as usize]).unwrap()),
    }
}

#[test]
fn a_standby_shows_what_the_store_had_at_the_end_of_each_round() {
    for seed in 0..12 {
        let mut rng = SimRng::new(seed);
        let store = Store::with(|options| (options.log_file_size, options.pack_size) = (256 << 10, 1 << 20));
        let bucket = store.bucket("b");
        let mut copied = Copied::new();
        copied.round(&store);
        let mut standby = copied.store.open_standby();
        for _ in 0..12 {
            (0..rng.below(25)).for_each(|_| change(&store, &bucket, &mut rng));
            let given_up = copied.round(&store);
            standby.follow(GivenUp { files: given_up, ..GivenUp::default() }, u64::MAX).unwrap();
            assert_eq!(shown(&copied.store, &bucket), shown(&store, &bucket), "seed {seed}");
            if rng.below(4) == 0 {
                // A round that was copied and not followed, as before a crash.
                drop(standby);
                copied.store.close();
                (0..rng.below(25)).for_each(|_| change(&store, &bucket, &mut rng));
                let given_up = copied.round(&store);
                given_up.iter().for_each(|name| fs::remove_file(copied.store.path().join(name)).unwrap());
                standby = copied.store.open_standby();
                assert_eq!(shown(&copied.store, &bucket), shown(&store, &bucket), "seed {seed}");
            }
        }
        assert!(copied.store.put(&bucket, "here", b"refused").is_err());
        drop(standby);
        copied.store.reopen();
        assert_eq!(shown(&copied.store, &bucket), shown(&store, &bucket), "seed {seed}");
        copied.store.put(&bucket, "new", b"new").unwrap();
        copied.store.check_rebuild();
    }
}
