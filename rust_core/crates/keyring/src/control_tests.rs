//! Tests of the store's own key, under which secrets of the control plane are sealed.

use std::path::Path;
use std::sync::Arc;

use orcas_fs::{FileSystem, Open};
use orcas_fs_testing::{Fault, Operation, SimDisk, SimRandom};
use orcas_seal::{
    CONTROL_KEY, CacheLimits, ControlKey, FreshId, Kdf, KeyName, Keyring as Keys, MasterSecret, SSE_S3_KEY, Secret,
    StoreId,
};

use crate::{ChangeError, Environment, KeyError, Keyring, NAMES};

const STORE: StoreId = StoreId([7; 16]);

fn environment(disk: &SimDisk) -> Environment {
    Environment {
        fs: Arc::new(disk.clone()),
        random: Arc::new(SimRandom::new(1)),
        now_ms: Arc::new(|| 1000),
        monotonic_ms: Arc::new(|| 1000),
        cache: CacheLimits::default(),
    }
}

fn master(byte: u8) -> MasterSecret {
    MasterSecret::Key(Secret::new(&[byte; 32]))
}

fn open(disk: &SimDisk, secret: &MasterSecret) -> Arc<Keyring> {
    Keyring::open(environment(disk), Path::new("/"), STORE, secret, 0).unwrap()
}

fn fresh(byte: u8) -> FreshId {
    FreshId::draw(&mut |bytes| {
        bytes.fill(byte);
        Ok(())
    })
    .unwrap()
}

fn store(disk: &SimDisk, keys: &Keys) {
    let sealed = keys.seal(&master(1).derive(Kdf::Key).unwrap(), fresh(2));
    for name in NAMES {
        let file = disk.open(&Path::new("/").join(name), Open::Create).unwrap();
        file.write_at(0, &sealed).unwrap();
    }
}

fn opens(key: Option<ControlKey>, sealed: &[u8]) -> bool {
    key.is_some_and(|key| key.open("root.json", sealed).is_ok_and(|secret| **secret == b"secret"[..]))
}

#[test]
fn it_is_there_for_nobody_else_and_survives_another_master_key() {
    let disk = SimDisk::new();
    let keyring = Keyring::create(environment(&disk), Path::new("/"), STORE, &master(1)).unwrap();
    let sealed = keyring.control_key().unwrap().seal("root.json", b"secret", fresh(1));
    assert_eq!(keyring.list().iter().map(|key| &*key.name).collect::<Vec<_>>(), ["orcas/s3"]);
    assert!(keyring.find("orcas/control").is_none());
    assert!(matches!(keyring.named_key("alias/orcas/control"), Err(KeyError::NoSuchKey { .. })));
    for reserved in ["orcas/control", "orcas/another", "aws/s3", "aws/another"] {
        assert!(matches!(keyring.create_key(reserved), Err(ChangeError::Refused(_))), "{reserved}");
    }
    keyring.create_key("orcas").unwrap();
    keyring.change_master(&master(2), None).unwrap();
    assert!(opens(open(&disk, &master(2)).known_control_key(), &sealed));
}

#[test]
fn a_keyring_without_it_gets_it_and_gives_it_out_only_when_both_files_have_it() {
    let disk = SimDisk::new();
    let mut keys = Keys::new(STORE);
    keys.create(KeyName::new(SSE_S3_KEY).unwrap(), 1, &mut |bytes| {
        bytes.fill(9);
        Ok(())
    })
    .unwrap();
    store(&disk, &keys);
    let keyring = open(&disk, &master(1));
    assert!(keyring.known_control_key().is_none());
    disk.fail(Operation::Rename, 2, Fault::Io, false);
    assert!(matches!(keyring.control_key(), Err(ChangeError::OneCopy { .. })));
    let sealed = keyring.control_key().unwrap().seal("root.json", b"secret", fresh(3));
    for name in NAMES {
        let copy = disk.kill();
        copy.remove(&Path::new("/").join(name)).unwrap();
        assert!(opens(open(&copy, &master(1)).known_control_key(), &sealed), "without {name}");
    }
}

#[test]
fn a_destroyed_key_that_had_the_name_is_passed_over() {
    let disk = SimDisk::new();
    let mut keys = Keys::new(STORE);
    for name in [SSE_S3_KEY, CONTROL_KEY] {
        let mut random = |bytes: &mut [u8]| {
            bytes.fill(name.len() as u8);
            Ok(())
        };
        keys.create(KeyName::new(name).unwrap(), 1, &mut random).unwrap();
    }
    keys.destroy(keys.keys()[1].id).unwrap();
    store(&disk, &keys);
    let sealed = open(&disk, &master(1)).control_key().unwrap().seal("root.json", b"secret", fresh(3));
    assert!(opens(open(&disk, &master(1)).known_control_key(), &sealed));
}
