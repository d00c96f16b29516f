//! The versions of an object on a drive of MinIO: a byte that says how, then a file, or a list that gets a head with
//! this minor version and a checksum that holds. Nothing is believed that the bytes do not have. What says that it is
//! encrypted is looked at with a key that opens none of it.
#![cfg_attr(fuzzing, no_main)]

use orcas_fuzz::fuzz_target;
use orcas_minio_disk::{MasterKey, parse};
use twox_hash::XxHash64;

fn with_head(minor: u8, list: &[u8]) -> Vec<u8> {
    let head = [b'X', b'L', b'2', b' ', 1, 0, minor, 0, 0xc6];
    let checksum = (XxHash64::oneshot(0, list) as u32).to_be_bytes();
    [&head[..], &(list.len() as u32).to_be_bytes(), list, &[0xce], &checksum].concat()
}

fuzz_target!(|data: &[u8]| {
    let Some((how, bytes)) = data.split_first() else { return };
    let key = MasterKey::parse("key:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").expect("a key");
    assert_eq!(key.file(".minio.sys/config/iam/format.json", bytes), None);
    let file = if how & 3 == 0 { bytes.to_vec() } else { with_head(how & 3, bytes) };
    if let Some((versions, end)) = parse(&file) {
        assert!(end <= file.len());
        let parts: usize = versions.iter().map(|version| version.shape.parts.len()).sum();
        assert!(versions.len() + parts <= file.len(), "more than the bytes can have");
        for version in &versions {
            assert!(!matches!(MasterKey::of_version(Some(&key), &version.metadata, "bucket/key"), Ok(Some(_))));
        }
    }
});
