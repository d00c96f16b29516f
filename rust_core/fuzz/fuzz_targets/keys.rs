//! The two files with the keys of a store: a flag byte, then the bytes of either file, or a change to a good one. The
//! store opens with the keys that it was made with, or not at all, and repairs the second copy.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;
use std::sync::Arc;

use orcas_base::error::Error;
use orcas_fs::{FileSystem, Open};
use orcas_fs_testing::{SimDisk, SimRandom};
use orcas_fuzz::{Input, fuzz_target};
use orcas_store::{KEY_FILES, StoreKeys, fingerprint};

const DIR: &str = "/";

fn replace(fs: &Arc<dyn FileSystem>, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let file = fs.open(&Path::new(DIR).join(name), Open::Write)?;
    file.set_len(0)?;
    file.write_at(0, bytes)
}

fn content(fs: &Arc<dyn FileSystem>, name: &str) -> Result<Vec<u8>, Error> {
    let file = fs.open(&Path::new(DIR).join(name), Open::Read)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// The fuzzed form of a file that held `good`.
fn changed(input: &mut Input<'_>, how: u8, good: &[u8]) -> Vec<u8> {
    match how & 3 {
        0 => good.to_vec(),
        1 => {
            let length = usize::from(input.u8());
            input.take(length).to_vec()
        }
        2 => good[..usize::from(input.u8()) % (good.len() + 1)].to_vec(),
        _ => {
            let mut bytes = good.to_vec();
            let at = usize::from(input.u8()) % bytes.len();
            bytes[at] ^= input.u8();
            bytes
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let fs: Arc<dyn FileSystem> = Arc::new(SimDisk::new());
    let (dir, random) = (Path::new(DIR), SimRandom::new(1));
    let made = StoreKeys::open(&fs, dir, &random, true).expect("a new store gets keys");
    made.establish(&fs, dir).expect("the disk has room");
    let good = content(&fs, KEY_FILES[0]).expect("it was written");
    assert_eq!(content(&fs, KEY_FILES[1]).expect("it was written"), good);

    let how = input.u8();
    let first = changed(&mut input, how, &good);
    let second = changed(&mut input, how >> 2, &good);
    replace(&fs, KEY_FILES[0], &first).expect("the disk has room");
    replace(&fs, KEY_FILES[1], &second).expect("the disk has room");
    let counts = |bytes: &[u8]| bytes.starts_with(&good);
    match StoreKeys::open(&fs, dir, &random, false) {
        Ok(found) => {
            assert!(found.is_same(&made), "other keys were believed");
            assert!(found.established && (counts(&first) || counts(&second)));
            assert!(counts(&content(&fs, KEY_FILES[1]).expect("it is there")), "the copy was not repaired");
            let scope = made.scope(data);
            assert_eq!(found.scope(data), scope);
            assert_eq!(fingerprint(&scope, data), fingerprint(&found.scope(data), data));
        }
        Err(Error::Corrupt { .. } | Error::Version { .. } | Error::Missing { .. }) => {
            assert!(!counts(&first) && !counts(&second), "a good copy was refused");
        }
        Err(other) => panic!("{other}"),
    }
});
