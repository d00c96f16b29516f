//! The master key, and which of its keys stay in memory.

use orcas_seal::{Algorithm, SEAL_ID_LENGTH, ScryptParams, SealId};

use super::*;

#[test]
fn the_key_of_a_blob_stays_until_its_data_key_cannot_be_used() {
    let bench = Bench::new();
    let keyring = bench.create();
    let (id, algorithm, seal) =
        (keyring.data_key(b"a").unwrap().id(), Algorithm::preferred(), SealId([1; SEAL_ID_LENGTH]));
    let first = keyring.blob_key(id, algorithm, seal).unwrap();
    assert!(Arc::ptr_eq(&first, &keyring.blob_key(id, algorithm, seal).unwrap()));
    assert!(!Arc::ptr_eq(&first, &keyring.blob_key(id, algorithm, SealId([2; SEAL_ID_LENGTH])).unwrap()));
    let counts = keyring.blob_counts();
    assert_eq!((counts.hits, counts.misses, counts.entries), (1, 2, 2));
    let main = keyring.default_key().unwrap();
    keyring.disable(main).unwrap();
    assert!(matches!(keyring.blob_key(id, algorithm, seal), Err(KeyError::Unusable(_))));
    assert_eq!(keyring.blob_counts().entries, 0);
    keyring.enable(main).unwrap();
    keyring.blob_key(id, algorithm, seal).unwrap();
    // What nobody uses leaves the memory.
    bench.time.fetch_add(CacheLimits::default().lifetime_ms, Ordering::Relaxed);
    keyring.upkeep().unwrap();
    assert_eq!(keyring.blob_counts().entries, 0);
}

#[test]
fn a_key_that_is_to_be_destroyed_or_is_destroyed_leaves_the_caches_at_once() {
    for days in [7, 0] {
        let bench = Bench::new();
        let keyring = bench.create();
        let (id, algorithm, seal) =
            (keyring.data_key(b"a").unwrap().id(), Algorithm::preferred(), SealId([1; SEAL_ID_LENGTH]));
        keyring.blob_key(id, algorithm, seal).unwrap();
        assert_eq!((keyring.counts().entries, keyring.blob_counts().entries), (1, 1));
        keyring.destroy(keyring.default_key().unwrap(), days, true).unwrap();
        assert_eq!((keyring.counts().entries, keyring.blob_counts().entries), (0, 0), "{days} days");
        assert!(matches!(keyring.blob_key(id, algorithm, seal), Err(KeyError::Unusable(_))), "{days} days");
        assert!(matches!(keyring.unwrap(id), Err(KeyError::Unusable(_))), "{days} days");
    }
}

#[test]
fn the_cost_of_scrypt_can_be_raised_and_stays() {
    let bench = Bench::new();
    let keyring = bench.create();
    assert_eq!(keyring.scrypt(), None);
    let of = |text: &[u8]| MasterSecret::from_passphrase(text).unwrap();
    keyring.change_master(&of(b"first"), None).unwrap();
    assert_eq!(keyring.scrypt(), Some(ScryptParams::DEFAULT));
    let params = ScryptParams::new(16, 8, 1).unwrap();
    keyring.change_master(&of(b"first"), Some(params)).unwrap();
    keyring.change_master(&of(b"second"), None).unwrap();
    assert_eq!(bench.open(&of(b"second")).unwrap().scrypt(), Some(params));
    assert!(bench.open(&of(b"first")).is_err());
}

#[test]
fn another_master_key_opens_it_afterwards_and_the_former_one_is_recognised() {
    let bench = Bench::new();
    let keyring = bench.create();
    let id = keyring.data_key(b"a").unwrap().id();
    let old = bench.bytes(NAMES[0]);
    let passphrase = MasterSecret::from_passphrase(b"correct horse battery staple").unwrap();
    keyring.change_master(&passphrase, None).unwrap();
    keyring.unwrap(id).unwrap();
    bench.open(&passphrase).unwrap().unwrap(id).unwrap();
    assert!(matches!(bench.open(&master(1)), Err(OpenError::WantsPassphrase { .. })));
    // The second file was not written: the former key opens only what is out of date.
    bench.set(NAMES[1], &old);
    assert!(matches!(bench.open(&master(1)), Err(OpenError::FormerMasterKey { .. })));
    bench.open(&passphrase).unwrap().unwrap(id).unwrap();

    // Where nothing could be written, the former key counts, also for what is changed afterwards.
    bench.disk.fail(Operation::Write, 1, Fault::NoSpace, false);
    let keyring = bench.open(&passphrase).unwrap();
    bench.disk.clear_faults();
    bench.disk.fail(Operation::Write, 1, Fault::NoSpace, false);
    assert!(matches!(keyring.change_master(&master(3), None), Err(ChangeError::Unchanged { .. })));
    keyring.create_key("other").unwrap();
    assert_eq!(bench.open(&passphrase).unwrap().list().len(), 2);
}
