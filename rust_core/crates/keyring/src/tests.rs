mod master;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orcas_base::error::Error;
use orcas_fs::{FileSystem, Open};
use orcas_fs_testing::{CrashPolicy, Fault, Operation, SimDisk, SimRandom, SimRng};
use orcas_seal::{CacheLimits, DataKey, DataKeyId, Error as SealError, KeyState, MasterSecret, Secret, StoreId};

use crate::{ChangeError, Environment, KeyError, Keyring, NAMES, OpenError, Presence, check_formats, presence};

const STORE: StoreId = StoreId([7; 16]);
const DAY_MS: u64 = 86_400_000;

/// A disk, and a clock that only the test moves.
struct Bench {
    disk: SimDisk,
    time: Arc<AtomicU64>,
    seed: AtomicU64,
}

impl Bench {
    fn new() -> Self {
        Self::on(SimDisk::new())
    }

    fn on(disk: SimDisk) -> Self {
        Self { disk, time: Arc::new(AtomicU64::new(1000)), seed: AtomicU64::new(1) }
    }

    fn environment(&self) -> Environment {
        let (time, monotonic) = (Arc::clone(&self.time), Arc::clone(&self.time));
        Environment {
            fs: self.fs(),
            random: Arc::new(SimRandom::new(self.seed.fetch_add(1, Ordering::Relaxed))),
            now_ms: Arc::new(move || time.load(Ordering::Relaxed)),
            monotonic_ms: Arc::new(move || monotonic.load(Ordering::Relaxed)),
            cache: CacheLimits::default(),
        }
    }

    fn fs(&self) -> Arc<dyn FileSystem> {
        Arc::new(self.disk.clone())
    }

    fn create(&self) -> Arc<Keyring> {
        Keyring::create(self.environment(), Path::new("/"), STORE, &master(1)).unwrap()
    }

    fn open(&self, secret: &MasterSecret) -> Result<Arc<Keyring>, OpenError> {
        self.open_noted(secret, 0)
    }

    fn open_noted(&self, secret: &MasterSecret, noted: u64) -> Result<Arc<Keyring>, OpenError> {
        Keyring::open(self.environment(), Path::new("/"), STORE, secret, noted)
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let file = self.fs().open(&Path::new("/").join(name), Open::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        bytes
    }

    fn set(&self, name: &str, bytes: &[u8]) {
        let (fs, path) = (self.fs(), Path::new("/").join(name));
        let file = fs.open(&path, Open::Write).or_else(|_| fs.open(&path, Open::Create)).unwrap();
        file.set_len(0).unwrap();
        file.write_at(0, bytes).unwrap();
    }

    fn remove(&self, name: &str) {
        self.fs().remove(&Path::new("/").join(name)).unwrap();
    }

    fn copies(&self) -> [Vec<u8>; 2] {
        NAMES.map(|name| self.bytes(name))
    }
}

fn master(byte: u8) -> MasterSecret {
    MasterSecret::Key(Secret::new(&[byte; 32]))
}

/// Data keys are equal if they make the same keys.
fn same(one: &DataKey, two: &DataKey) -> bool {
    one.id() == two.id() && one.fingerprint_key().expose() == two.fingerprint_key().expose()
}

#[test]
fn each_owner_has_one_data_key_from_one_start_to_the_next() {
    let bench = Bench::new();
    let keyring = bench.create();
    assert!(keyring.known_data_key(b"a").unwrap().is_none(), "nothing is made without being asked for");
    let made = keyring.data_key(b"a").unwrap();
    assert!(same(&made, &keyring.data_key(b"a").unwrap()));
    assert!(same(&made, &keyring.known_data_key(b"a").unwrap().unwrap()));
    assert!(!same(&made, &keyring.data_key(b"b").unwrap()));

    let again = bench.open(&master(1)).unwrap();
    assert!(same(&made, &again.data_key(b"a").unwrap()));
    assert!(same(&made, &again.unwrap(made.id()).unwrap()));
    let unknown = DataKeyId([9; 16]);
    assert!(matches!(again.unwrap(unknown), Err(KeyError::Unknown { id }) if id == unknown));
    let [first, second] = bench.copies();
    assert_eq!(first, second);
}

#[test]
fn lookups_are_cached_for_five_minutes_and_counted() {
    let bench = Bench::new();
    let keyring = bench.create();
    let id = keyring.data_key(b"a").unwrap().id();
    let before = keyring.counts();
    keyring.unwrap(id).unwrap();
    assert_eq!((keyring.counts().hits, keyring.counts().misses), (before.hits + 1, before.misses));
    bench.time.fetch_add(5 * 60 * 1000, Ordering::Relaxed);
    keyring.unwrap(id).unwrap();
    assert_eq!((keyring.counts().hits, keyring.counts().misses), (before.hits + 1, before.misses + 1));
    bench.time.fetch_add(5 * 60 * 1000, Ordering::Relaxed);
    keyring.upkeep().unwrap();
    assert_eq!(keyring.counts().entries, 0);
}

#[test]
fn a_keyring_is_created_only_where_there_is_none() {
    let bench = Bench::new();
    assert!(matches!(bench.open(&master(1)), Err(OpenError::Missing { .. })));
    assert_eq!(presence(&bench.fs(), Path::new("/")), Presence::None);
    bench.create();
    assert_eq!(presence(&bench.fs(), Path::new("/")), Presence::Readable);
    let again = || Keyring::create(bench.environment(), Path::new("/"), STORE, &master(1));
    assert!(matches!(again(), Err(OpenError::Exists { .. })));
    // Neither is a damaged one replaced.
    for name in NAMES {
        bench.set(name, b"rubbish");
    }
    assert_eq!(presence(&bench.fs(), Path::new("/")), Presence::Damaged);
    assert!(matches!(again(), Err(OpenError::Exists { .. })));
}

#[test]
fn a_wrong_master_key_is_named_and_changes_nothing() {
    let bench = Bench::new();
    bench.create();
    let before = bench.disk.fingerprint();
    assert!(matches!(bench.open(&master(2)), Err(OpenError::MasterKey { .. })));
    let passphrase = MasterSecret::from_passphrase(b"correct horse").unwrap();
    assert!(matches!(bench.open(&passphrase), Err(OpenError::WantsKey { .. })));
    let other = Keyring::open(bench.environment(), Path::new("/"), StoreId([8; 16]), &master(1), 0);
    assert!(matches!(other, Err(OpenError::Foreign { .. })));
    assert_eq!(bench.disk.fingerprint(), before);
}

#[test]
fn a_damaged_copy_is_written_again_from_the_other() {
    for name in NAMES {
        for damage in 0..4 {
            let bench = Bench::new();
            let id = bench.create().data_key(b"a").unwrap().id();
            let good = bench.bytes(NAMES[0]);
            match damage {
                0 => bench.remove(name),
                1 => bench.set(name, b""),
                2 => bench.set(name, &good[..good.len() - 1]),
                _ => {
                    let mut bytes = good.clone();
                    bytes[60] ^= 1;
                    bench.set(name, &bytes);
                }
            }
            let keyring = bench.open(&master(1)).unwrap();
            keyring.unwrap(id).unwrap();
            assert_eq!(bench.copies(), [good.clone(), good], "copy {name}, damage {damage}");
        }
    }
}

#[test]
fn an_unreadable_copy_is_a_damaged_copy() {
    for nth in 1..=2 {
        let bench = Bench::new();
        let id = bench.create().data_key(b"a").unwrap().id();
        bench.disk.fail(Operation::Read, nth, Fault::Io, false);
        bench.open(&master(1)).unwrap().unwrap(id).unwrap();
        let [first, second] = bench.copies();
        assert_eq!(first, second);
    }
}

#[test]
fn a_start_goes_on_where_a_copy_cannot_be_written_again() {
    let bench = Bench::new();
    let known = bench.create().data_key(b"a").unwrap();
    bench.set(NAMES[1], b"rubbish");
    bench.disk.fail(Operation::Write, 1, Fault::NoSpace, true);
    let keyring = bench.open(&master(1)).unwrap();
    assert!(same(&known, &keyring.unwrap(known.id()).unwrap()), "what was there can be read");
    // Nothing new is sealed under what a single damaged block can destroy.
    for owner in [b"a", b"b"] {
        assert!(keyring.known_data_key(owner).unwrap().is_none());
        assert!(matches!(keyring.data_key(owner), Err(KeyError::NotStored(ChangeError::Unchanged { .. }))));
    }
    assert_eq!(bench.bytes(NAMES[1]), b"rubbish");
    // With room again, the upkeep writes it.
    bench.disk.clear_faults();
    keyring.upkeep().unwrap();
    assert!(same(&known, &keyring.known_data_key(b"a").unwrap().unwrap()));
    let [first, second] = bench.copies();
    assert_eq!(first, second);
}

#[test]
fn two_damaged_copies_are_named_and_left_alone() {
    let bench = Bench::new();
    bench.create();
    bench.set(NAMES[0], b"rubbish");
    bench.remove(NAMES[1]);
    let before = bench.disk.fingerprint();
    let Err(OpenError::Damaged { first, second }) = bench.open(&master(1)) else { panic!("it opened") };
    assert!(first.contains("/keyring") && second == "is missing", "{first}; {second}");
    assert_eq!(bench.disk.fingerprint(), before);
}

#[test]
fn a_copy_of_a_later_version_or_of_another_store_is_not_overwritten() {
    let bench = Bench::new();
    bench.create();
    let mut later = bench.bytes(NAMES[0]);
    later[8] = 2;
    let end = later.len() - 32;
    let digest = *blake3::hash(&later[..end]).as_bytes();
    later[end..].copy_from_slice(&digest);
    bench.set(NAMES[1], &later);
    assert!(matches!(bench.open(&master(1)), Err(OpenError::Version { .. })));
    let refused = check_formats(&bench.fs(), Path::new("/")).unwrap_err();
    assert!(matches!(refused, Error::Version { path, found: 2, supported: 1 } if path == Path::new("/keyring.copy")));
    assert_eq!(bench.bytes(NAMES[1]), later);

    let other = Bench::new();
    Keyring::create(other.environment(), Path::new("/"), StoreId([8; 16]), &master(1)).unwrap();
    let foreign = other.bytes(NAMES[0]);
    bench.set(NAMES[1], &foreign);
    assert!(matches!(bench.open(&master(1)), Err(OpenError::Foreign { path }) if path == Path::new("/keyring.copy")));
    assert_eq!(bench.bytes(NAMES[1]), foreign);
}

#[test]
fn the_newer_copy_counts() {
    for name in NAMES {
        let bench = Bench::new();
        let keyring = bench.create();
        let old = bench.bytes(NAMES[0]);
        let id = keyring.data_key(b"a").unwrap().id();
        bench.set(name, &old);
        let again = bench.open(&master(1)).unwrap();
        again.unwrap(id).unwrap();
        assert_eq!(again.generation(), keyring.generation());
        let [first, second] = bench.copies();
        assert_eq!(first, second);
        assert_ne!(first, old);
    }
}

#[test]
fn an_old_keyring_does_not_pretend_to_have_newer_data_keys() {
    let bench = Bench::new();
    let keyring = bench.create();
    let old = bench.bytes(NAMES[0]);
    let id = keyring.data_key(b"a").unwrap().id();
    NAMES.iter().for_each(|name| bench.set(name, &old));
    let error = bench.open(&master(1)).unwrap().unwrap(id).unwrap_err();
    assert!(error.to_string().contains("older than the store"), "{error}");
}

#[test]
fn an_old_keyring_only_reads_until_newer_copies_are_given_up() {
    let bench = Bench::new();
    let keyring = bench.create();
    let known = keyring.data_key(b"a").unwrap();
    let old = bench.bytes(NAMES[0]);
    keyring.data_key(b"b").unwrap();
    let (noted, newer) = (keyring.generation(), bench.bytes(NAMES[0]));
    NAMES.iter().for_each(|name| bench.set(name, &old));

    let keyring = bench.open_noted(&master(1), noted).unwrap();
    let sse_s3 = keyring.list()[0].id;
    assert!(same(&known, &keyring.unwrap(known.id()).unwrap()));
    for owner in [b"a", b"b"] {
        assert!(matches!(keyring.data_key(owner), Err(KeyError::Older(_))));
        assert!(matches!(keyring.known_data_key(owner), Err(KeyError::Older(_))));
    }
    let error = keyring.rotate(sse_s3).unwrap_err();
    assert!(error.to_string().contains("orcas key accept-older"), "{error}");
    assert!(matches!(keyring.destroy(sse_s3, 7, true), Err(ChangeError::Older(_))));
    assert!(matches!(keyring.change_master(&master(2), None), Err(ChangeError::Older(_))));
    keyring.upkeep().unwrap();
    assert_eq!(bench.copies(), [old.clone(), old]);

    keyring.accept_older().unwrap();
    assert!(matches!(keyring.accept_older(), Err(ChangeError::NotOlder)));
    assert!(same(&known, &keyring.data_key(b"a").unwrap()));
    keyring.data_key(b"b").unwrap();
    // However many changes the newer copy had, it is the older one now.
    assert!(keyring.generation() >> 32 > noted >> 32);
    let again = bench.open_noted(&master(1), keyring.generation()).unwrap();
    again.data_key(b"a").unwrap();
    NAMES.iter().for_each(|name| bench.set(name, &newer));
    let given_up = bench.open_noted(&master(1), keyring.generation()).unwrap();
    assert!(matches!(given_up.data_key(b"b"), Err(KeyError::Older(_))));
}

#[test]
fn a_power_loss_at_any_step_leaves_a_keyring_with_every_data_key_that_was_handed_out() {
    use parking_lot::Mutex;
    let bench = Bench::new();
    let keyring = bench.create();
    let known = keyring.data_key(b"a").unwrap();
    let crashes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&crashes);
    bench.disk.on_step(move |step, disk| {
        let mut rng = SimRng::new(step.number);
        seen.lock().extend(
            [CrashPolicy::Drop, CrashPolicy::Keep, CrashPolicy::Prefix, CrashPolicy::Scatter]
                .map(|policy| disk.crash(&mut rng, policy)),
        );
    });
    let sse_s3 = keyring.list()[0].id;
    keyring.data_key(b"b").unwrap();
    keyring.rotate(sse_s3).unwrap();
    let taken = std::mem::take(&mut *crashes.lock());
    assert!(taken.len() > 30);
    for disk in taken {
        let bench = Bench::on(disk);
        let opened = bench.open(&master(1)).unwrap();
        assert!(same(&known, &opened.data_key(b"a").unwrap()));
        let [first, second] = bench.copies();
        assert_eq!(first, second);
    }
    // After they were handed out, no crash loses them.
    let bench = Bench::on(bench.disk.crash(&mut SimRng::new(1), CrashPolicy::Drop));
    assert!(bench.open(&master(1)).unwrap().known_data_key(b"b").unwrap().is_some());
}

#[test]
fn a_failure_says_what_holds_and_a_data_key_needs_both_files() {
    // (operation, which one, is the change in effect?)
    let cases = [
        (Operation::Write, 1, false),
        (Operation::Sync, 1, false),
        (Operation::SyncDirectory, 1, true),
        (Operation::Write, 2, true),
        (Operation::Sync, 2, true),
        (Operation::SyncDirectory, 2, true),
    ];
    for (operation, nth, in_effect) in cases {
        let bench = Bench::new();
        let keyring = bench.create();
        let sse_s3 = keyring.list()[0].id;
        bench.disk.fail(operation, nth, Fault::Io, false);
        let error = keyring.rotate(sse_s3).unwrap_err();
        let (versions, told) = (keyring.list()[0].versions, error.to_string());
        assert_eq!(versions, if in_effect { 2 } else { 1 }, "{told}");
        assert_eq!(told.contains("nothing was changed"), !in_effect, "{told}");
        assert_eq!(told.contains("in effect"), in_effect, "{told}");
        assert_eq!(bench.open(&master(1)).unwrap().list()[0].versions, versions, "{told}");

        // The same failure while a data key is made: it is not handed out, and the next try has one in both files.
        bench.disk.fail(operation, nth, Fault::Io, false);
        let keyring = bench.open(&master(1)).unwrap();
        bench.disk.clear_faults();
        bench.disk.fail(operation, nth, Fault::Io, false);
        assert!(matches!(keyring.data_key(b"a"), Err(KeyError::NotStored(_))));
        assert!(keyring.known_data_key(b"a").unwrap().is_none());
        let made = keyring.data_key(b"a").unwrap();
        let [first, second] = bench.copies();
        assert_eq!(first, second);
        let crashed = Bench::on(bench.disk.crash(&mut SimRng::new(3), CrashPolicy::Drop));
        crashed.remove(NAMES[0]);
        crashed.open(&master(1)).unwrap().unwrap(made.id()).unwrap();
    }
}

#[test]
fn a_file_that_was_replaced_counts_as_changed_although_it_cannot_be_read_again() {
    let bench = Bench::new();
    let keyring = bench.create();
    let sse_s3 = keyring.list()[0].id;
    bench.disk.fail(Operation::SyncDirectory, 1, Fault::Io, false);
    bench.disk.fail(Operation::Read, 1, Fault::Io, true);
    assert!(matches!(keyring.rotate(sse_s3), Err(ChangeError::Uncertain { .. })));
    bench.disk.clear_faults();
    assert_eq!(keyring.list()[0].versions, 2);
    assert_eq!(bench.open(&master(1)).unwrap().list()[0].versions, 2);
}

#[test]
fn a_disabled_key_stops_what_it_wraps_at_once() {
    let bench = Bench::new();
    let keyring = bench.create();
    let sse_s3 = keyring.list()[0].id;
    let id = keyring.data_key(b"a").unwrap().id();
    keyring.disable(sse_s3).unwrap();
    let disabled = |error| matches!(error, KeyError::Unusable(SealError::KeyDisabled { .. }));
    assert!(disabled(keyring.unwrap(id).unwrap_err()), "although it was cached");
    assert!(disabled(keyring.data_key(b"a").unwrap_err()));
    assert!(disabled(keyring.data_key(b"new").unwrap_err()));
    keyring.enable(sse_s3).unwrap();
    keyring.rotate(sse_s3).unwrap();
    assert_eq!(keyring.data_key(b"a").unwrap().id(), id, "a rotation keeps data keys");
}

#[test]
fn a_key_that_wraps_data_keys_is_destroyed_only_explicitly_and_after_its_time() {
    let bench = Bench::new();
    let keyring = bench.create();
    let sse_s3 = keyring.list()[0].id;
    let id = keyring.data_key(b"a").unwrap().id();
    assert!(matches!(keyring.destroy(sse_s3, 7, false), Err(ChangeError::InUse)));
    assert!(matches!(keyring.destroy(sse_s3, 3, true), Err(ChangeError::Refused(_))));
    keyring.destroy(sse_s3, 7, true).unwrap();
    keyring.cancel_destruction(sse_s3).unwrap();
    assert_eq!(keyring.list()[0].state, KeyState::Disabled);
    keyring.destroy(sse_s3, 7, true).unwrap();
    assert!(keyring.upkeep().unwrap().is_empty());
    bench.time.fetch_add(7 * DAY_MS, Ordering::Relaxed);
    assert_eq!(keyring.upkeep().unwrap(), [sse_s3]);
    assert!(matches!(keyring.unwrap(id), Err(KeyError::Unusable(SealError::KeyDestroyed { .. }))));
    let error = keyring.data_key(b"a").unwrap_err();
    assert!(error.to_string().contains("orcas key create orcas/s3"), "{error}");
    // A new key of that name makes new data keys.
    keyring.create_key("orcas/s3").unwrap();
    assert_ne!(keyring.data_key(b"a").unwrap().id(), id);

    let unused = keyring.create_key("unused").unwrap();
    keyring.destroy(unused, 0, false).unwrap();
    assert_eq!(keyring.list().iter().find(|key| key.id == unused).unwrap().versions, 0);
}

#[test]
fn readers_do_not_wait_for_a_change() {
    let bench = Bench::new();
    let keyring = bench.create();
    let id = keyring.data_key(b"a").unwrap().id();
    let (reader, listed) = (Arc::clone(&keyring), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&listed);
    // Called in the middle of a sync, under the lock of the change.
    bench.disk.on_step(move |_, _| {
        count.fetch_add(reader.list().len() as u64, Ordering::Relaxed);
        reader.unwrap(id).unwrap();
    });
    let sse_s3 = keyring.list()[0].id;
    keyring.rotate(sse_s3).unwrap();
    assert!(listed.load(Ordering::Relaxed) >= 8);
}
