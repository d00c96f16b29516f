//! Comparison with the md-5 crate, for all numbers of lanes.

use super::*;
use ::md5::{Digest as _, Md5};
use proptest::prelude::*;

fn theirs(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// All vector instructions that this machine has.
fn vectors() -> Vec<Vectors> {
    let best = Vectors::of_this_machine();
    #[cfg(target_arch = "x86_64")]
    let all = [Vectors::None, Vectors::Avx2, Vectors::Avx512];
    #[cfg(not(target_arch = "x86_64"))]
    let all = [Vectors::None];
    all.into_iter().filter(|vectors| *vectors <= best).collect()
}

/// Bytes that differ between messages.
fn message(number: usize, length: usize) -> Vec<u8> {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number as u64 + 1);
    let next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// The digests of several messages, each split into pieces: the first pieces are hashed together, then the second, and so
/// on.
fn ours(vectors: Vectors, messages: &[Vec<&[u8]>]) -> Vec<[u8; 16]> {
    let mut hashers: Vec<_> = messages.iter().map(|_| Md5Hasher::new()).collect();
    for round in 0..messages.iter().map(Vec::len).max().unwrap_or(0) {
        let work = hashers.iter_mut().zip(messages).filter_map(|(h, pieces)| Some((h, *pieces.get(round)?)));
        Md5Hasher::update_all_with(vectors, work);
    }
    hashers.into_iter().map(Md5Hasher::finish).collect()
}

#[test]
fn known_answers() {
    // RFC 1321, A.5.
    for (text, digest) in [
        ("", "d41d8cd98f00b204e9800998ecf8427e"),
        ("a", "0cc175b9c0f1b6a831c399e269772661"),
        ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
        ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
    ] {
        assert_eq!(orcas_http::hex(&Md5Hasher::digest(text.as_bytes())), digest);
    }
}

#[test]
fn every_length_of_the_last_block() {
    for length in 0..4 * BLOCK {
        let bytes = message(length, length);
        assert_eq!(Md5Hasher::digest(&bytes), theirs(&bytes), "{length}");
        let mut piecewise = Md5Hasher::new();
        bytes.chunks(7).for_each(|piece| piecewise.update(piece));
        assert_eq!(piecewise.finish(), theirs(&bytes), "{length}");
    }
}

#[test]
fn every_number_of_lanes() {
    for vectors in vectors() {
        for count in 0..=35 {
            let messages: Vec<_> = (0..count).map(|number| message(number, 5 * BLOCK + 64 * (number % 3))).collect();
            let pieces: Vec<Vec<&[u8]>> = messages.iter().map(|message| vec![message.as_slice()]).collect();
            let expected: Vec<_> = messages.iter().map(|message| theirs(message)).collect();
            assert_eq!(ours(vectors, &pieces), expected, "{vectors:?}, {count} lanes");
        }
    }
}

proptest! {
    #[test]
    fn lanes_are_independent(
        cuts in proptest::collection::vec(proptest::collection::vec(0..700usize, 0..6), 0..40),
    ) {
        let messages: Vec<Vec<u8>> =
            cuts.iter().enumerate().map(|(number, cuts)| message(number, cuts.iter().sum())).collect();
        let pieces: Vec<Vec<&[u8]>> = std::iter::zip(&messages, &cuts)
            .map(|(message, cuts)| {
                let mut rest = message.as_slice();
                cuts.iter().map(|cut| rest.split_off(..*cut).unwrap()).collect()
            })
            .collect();
        let expected: Vec<_> = messages.iter().map(|message| theirs(message)).collect();
        for vectors in vectors() {
            prop_assert_eq!(ours(vectors, &pieces), expected.clone(), "{:?}", vectors);
        }
    }
}
