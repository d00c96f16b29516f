//! What MinIO itself computes at its start, lists of versions that are not sound, and packages that were changed.

use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use twox_hash::XxHash64;

use crate::erasure::{HASH, decoded, decoder, hash};
use crate::meta::parse;
use crate::msgpack::Reader;
use crate::sealed::{opened, opened_size};

/// An object and a deletion, as releases before 1.3 write them.
fn listed_versions() -> Vec<u8> {
    [
        &b"\x81\xa8Versions\x92\x82\xa4Type\x01\xa5V2Obj\x8d\xa2ID\xc4\x10"[..],
        &[7; 16],
        b"\xa4DDir\xc4\x10",
        &[8; 16],
        b"\xa3EcM\x02\xa3EcN\x01\xa7EcBSize\xd2\x00\x10\x00\x00\xa7EcIndex\x01\xa6EcDist\x93\x01\x02\x03",
        b"\xa8PartNums\x91\x01\xa9PartSizes\x91\x05\xaaPartASizes\x91\x05\xa5MTime\xd3\x17\x00\x00\x00\x00\x00\x00\x00",
        b"\xa7MetaSys\x81\xa1k\xc4\x01v\xa7MetaUsr\x81\xa4etag\xa1x",
        b"\x82\xa4Type\x02\xa6DelObj\x82\xa5MTime\x01\xa7MetaSys\xc0",
    ]
    .concat()
}

#[test]
fn lists_of_older_releases_are_read() {
    let list = listed_versions();
    let length = u32::try_from(list.len()).expect("it is short").to_be_bytes();
    let checksum = (XxHash64::oneshot(0, &list) as u32).to_be_bytes();
    let file = |minor: u8, tail: &[u8]| {
        [&[b'X', b'L', b'2', b' ', 1, 0, minor, 0, 0xc6][..], &length, &list[..], tail].concat()
    };
    let first = [&b"XL2 1   "[..], &list[..]].concat();
    let summed = [&[0xce][..], &checksum[..]].concat();
    for whole in [first, file(1, b""), file(2, &summed)] {
        let (versions, end) = parse(&whole).expect("it is whole");
        assert_eq!(end, whole.len());
        let [object, deletion] = &versions[..] else { panic!("there are two") };
        assert_eq!((object.shape.id, object.index), ([7; 16], 1));
        assert_eq!(object.shape.parts.len(), 1);
        assert_eq!(object.metadata[&b"etag"[..]], b"x");
        assert_ne!(object.shape.kind, deletion.shape.kind);
    }
    let mut flipped = file(2, &summed);
    flipped[40] ^= 1;
    assert!(parse(&flipped).is_none(), "the checksum is of other bytes");
}

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

const KEY: [u8; 32] = [7; 32];

/// Content in packages, the `cipher` 0 or 1 of them.
fn packages(content: &[u8], cipher: u8) -> Vec<Vec<u8>> {
    let algorithm = if cipher == 0 { &AES_256_GCM } else { &CHACHA20_POLY1305 };
    let key = LessSafeKey::new(UnboundKey::new(algorithm, &KEY).unwrap());
    let pieces: Vec<_> = content.chunks(64 << 10).collect();
    let seal = |(number, piece): (usize, &&[u8])| {
        let length = ((piece.len() - 1) as u16).to_le_bytes();
        let flag = if number + 1 == pieces.len() { 0x80 } else { 0 };
        let mut nonce = [flag | 5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
        let head = [&[0x20, cipher][..], &length[..], &nonce[..]].concat();
        nonce[8] ^= number as u8;
        let mut sealed = piece.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce, Aad::from(&head[..4]), &mut sealed).unwrap();
        [head, sealed].concat()
    };
    pieces.iter().enumerate().map(seal).collect()
}

#[test]
fn packages_open_as_they_were_sealed_or_not_at_all() {
    let content: Vec<u8> = (0..150_000_u32).map(|number| (number / 7) as u8).collect();
    for cipher in [0, 1] {
        let sealed = packages(&content, cipher);
        assert_eq!(opened(&KEY, &sealed.concat()).as_ref(), Some(&content));
        assert_eq!(opened_size(sealed.concat().len() as u64), content.len() as u64);
        let [first, second, last] = [&sealed[0][..], &sealed[1][..], &sealed[2][..]];
        let mut flipped = second.to_vec();
        flipped[1000] ^= 1;
        let cut = &last[..last.len() - 1];
        for wrong in [
            vec![first, second],
            vec![first, last],
            vec![second, first, last],
            vec![first, second, second, last],
            vec![first, second, last, last],
            vec![first, &flipped, last],
            vec![first, second, cut],
            vec![first, second, last, &[0]],
        ] {
            assert_eq!(opened(&KEY, &wrong.concat()), None);
        }
        assert_eq!(opened(&[8; 32], &sealed.concat()), None);
    }
    assert_eq!(opened(&KEY, &[]), Some(Vec::new()));
}
