//! What MinIO itself computes at its start, and lists of versions that are not sound.

use crate::erasure::{HASH, decoded, decoder, hash};
use crate::meta::parse;
use crate::msgpack::Reader;

#[test]
fn hashes_are_those_of_the_self_test() {
    let mut message = Vec::new();
    for _ in 0..HASH {
        let sum = hash(&message);
        message.extend_from_slice(&sum);
    }
    let last: String = message[message.len() - HASH..].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(last, "39c0407ed3f01b18d22c85db4aeff11e060ca5f43131b0126731ca197cd42313");
}

#[test]
fn shards_are_made_from_any_others() {
    // Of 2 + 2 shards, the third is 3 times the first and 2 times the second: (1, 2) by the inverse of (1, 0), (1, 1).
    let data = [vec![1, 0x80, 7], vec![2, 0x1d, 9]];
    let three_two: Vec<u8> = data[0].iter().zip(&data[1]).map(|(a, b)| doubled(*a) ^ a ^ doubled(*b)).collect();
    let rows = decoder(2, 2, &[1, 2]).expect("they are independent");
    assert_eq!(decoded(&rows[0], &[data[1].clone(), three_two]), data[0]);
}

fn doubled(byte: u8) -> u8 {
    byte << 1 ^ if byte & 0x80 == 0 { 0 } else { 0x1d }
}

#[test]
fn what_is_only_claimed_is_not_believed() {
    for bytes in
        [&b""[..], b"XL2 ", b"XL2 \x01\0\x03\0", b"XL2 \x01\0\x03\0\xc6\xff\xff\xff\xff\x01", b"XL2 \x02\0\0\0\x80"]
    {
        assert!(parse(bytes).is_none());
    }
    // A map of 2^32 - 1 entries, an array of as many arrays.
    assert!(parse(b"XL2 1   \xdf\xff\xff\xff\xff").is_none());
    assert!(parse(b"XL2 1   \x81\xa8Versions\xdd\xff\xff\xff\xff\xdd\xff\xff\xff\xff").is_none());
    assert!(Reader(&[0xdd, 0xff, 0xff, 0xff, 0xff].repeat(1000)).skip().is_none());
}
