//! The files of a keyring: a flag byte, then the bytes of either file, or a change to a good one; or the inside of a sealed
//! one. It opens as it was made, or not at all, and a good copy is never lost.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;
use std::sync::Arc;

use orcas_fs::{FileSystem, Open};
use orcas_fs_testing::{SimDisk, SimRandom};
use orcas_fuzz::{Input, fuzz_target};
use orcas_keyring::{Environment, Keyring, NAMES, OpenError, inspect};
use orcas_seal::{CacheLimits, MasterSecret, Secret, StoreId, decode_body};

const DIR: &str = "/";
const STORE: StoreId = StoreId([7; 16]);

fn environment(fs: &Arc<dyn FileSystem>) -> Environment {
    let (now_ms, monotonic_ms) = (Arc::new(|| 1000), Arc::new(|| 1000));
    Environment {
        fs: Arc::clone(fs),
        random: Arc::new(SimRandom::new(1)),
        now_ms,
        monotonic_ms,
        cache: CacheLimits::default(),
    }
}

fn replace(fs: &Arc<dyn FileSystem>, name: &str, bytes: &[u8]) {
    let file = fs.open(&Path::new(DIR).join(name), Open::Write).expect("it is there");
    file.set_len(0).and_then(|()| file.write_at(0, bytes)).expect("the disk has room");
}

fn content(fs: &Arc<dyn FileSystem>, name: &str) -> Vec<u8> {
    let file = fs.open(&Path::new(DIR).join(name), Open::Read).expect("it is there");
    let mut bytes = vec![0; file.len().expect("it is there") as usize];
    file.read_at(0, &mut bytes).expect("it can be read");
    bytes
}

/// With a checksum that holds, so that what it covers is looked at.
fn rehashed(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some((covered, checksum)) = bytes.split_last_chunk_mut::<32>() {
        *checksum = *blake3::hash(covered).as_bytes();
    }
    bytes
}

/// The fuzzed form of a file that held `good`.
fn changed(input: &mut Input<'_>, how: u8, good: &[u8]) -> Vec<u8> {
    match how & 3 {
        0 => good.to_vec(),
        1 => {
            let length = usize::from(input.u8());
            rehashed(input.take(length).to_vec())
        }
        2 => good[..usize::from(input.u8()) % (good.len() + 1)].to_vec(),
        _ => {
            let mut bytes = good.to_vec();
            let at = usize::from(input.u8()) % bytes.len();
            bytes[at] ^= input.u8();
            rehashed(bytes)
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let how = input.u8();
    if how & 0x80 != 0 {
        if let Ok((again, keys)) = decode_body(&data[1..]) {
            assert_eq!(again, data[1..], "a body has one encoding");
            assert!(keys * 37 <= data.len());
        }
        return;
    }
    let secret = MasterSecret::Key(Secret::new(&[9; 32]));
    let fs: Arc<dyn FileSystem> = Arc::new(SimDisk::new());
    let made = Keyring::create(environment(&fs), Path::new(DIR), STORE, &secret).expect("the disk has room");
    let data_key = made.data_key(b"owner").expect("the disk has room").id();
    let good = content(&fs, NAMES[0]);
    let first = changed(&mut input, how, &good);
    let second = changed(&mut input, how >> 2, &good);
    replace(&fs, NAMES[0], &first);
    replace(&fs, NAMES[1], &second);
    let _ = inspect(&first);
    match Keyring::open(environment(&fs), Path::new(DIR), STORE, &secret, 0) {
        Ok(found) => {
            assert!(first == good || second == good, "something else was believed");
            assert_eq!(found.list(), made.list());
            found.unwrap(data_key).expect("it is the same keyring");
            assert_eq!(NAMES.map(|name| content(&fs, name)), [good.clone(), good], "a copy was not repaired");
        }
        Err(OpenError::Damaged { .. }) => assert!(first != good && second != good, "a good copy was refused"),
        // A copy whose checksum holds, and which is another: of a later version, of another store, or a newer one.
        Err(_) => assert_eq!([content(&fs, NAMES[0]), content(&fs, NAMES[1])], [first, second], "it was overwritten"),
    }
});
