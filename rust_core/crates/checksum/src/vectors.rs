//! Published answers of each algorithm, and those of the reference implementation of XXH for the input of its self-test.

use super::*;

/// The input of the self-test of xxHash.
fn sanity_buffer(length: usize) -> Vec<u8> {
    let mut state = 2_654_435_761_u64;
    let next = || {
        let byte = (state >> 56) as u8;
        state = state.wrapping_mul(11_400_714_785_074_694_797);
        byte
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Length of the input, then XXH64, XXH3 and XXH128 of it with seed 0, by xxHash 0.8.4. The lengths are on both sides of
/// each limit at which the functions take another path.
const XXH: [(usize, u64, u64, u128); 24] = [
    (0, 0xef46db3751d8e999, 0x2d06800538d394c2, 0x99aa06d3014798d86001c324468d497f),
    (1, 0xe934a84adb052768, 0xc44bdff4074eecdb, 0xa6cd5e9392000f6ac44bdff4074eecdb),
    (3, 0xff7e1959cb50794a, 0x54247382a8d6b94d, 0x20efc49ff02422ea54247382a8d6b94d),
    (4, 0x9136a0dca57457ee, 0xe5dc74bc51848a51, 0x970d585ac632bf8e2e7d8d6876a39fe9),
    (8, 0xcdbcf538e71d1348, 0x24ccc9acaa9f65e4, 0x47a7f080d82bb45664c69cab4bb21dc5),
    (9, 0x554b1ae991eda6b6, 0x14d5001c15dd3f2b, 0x564ef6078950d457ed7ccbc501eb7501),
    (14, 0x8282dcc4994e35c8, 0x1ac0bbda2b9fcf03, 0xb2623398aa0bda1e352b80797cda6247),
    (16, 0x98c90b57fdfcb55c, 0x981b17d36c7498c9, 0xc68c368ecf8a9c05562980258a998629),
    (17, 0x0d39a2d051a30c2c, 0x796f5acd3a60f862, 0x955fa78643ed3669abbc12d11973d7db),
    (31, 0x299b39a290e6d783, 0x5d516692ca764c50, 0x301048a7ab476d21ec8365e74dc00653),
    (32, 0x18b216492bb44b70, 0x9feaddbdbf57eed3, 0x98fc6458710dc2e8278410a17595e3f9),
    (128, 0x90ca021457d96dc5, 0xfcff24126754d861, 0x39992220e045260aebb15e34a7fb5ab1),
    (129, 0x41c280132d697aba, 0x98f1b0a679a2ca29, 0x03815fc91f1b30b686c9e3bc8f0a3b5c),
    (222, 0xb641ae8cb691c174, 0xb9163b558664d356, 0x337e09641b948717f1aebd597cec6b3a),
    (240, 0xb81838d483baee53, 0x81c3c2b67f568ccf, 0xaa4202daa2769dc85c9aae94c8ebe5a0),
    (241, 0x95d76c8b4d8fc4d6, 0xc5a639ecd2030e5e, 0x99a80ecf0ecfc647c5a639ecd2030e5e),
    (256, 0x5e3f5bf94d574981, 0x55de574ad89d0ac5, 0x8b1c66091423d28855de574ad89d0ac5),
    (403, 0xd99858fee82283df, 0xcdeb804d65c6dea4, 0x1b6de21e332dd73dcdeb804d65c6dea4),
    (512, 0x4358d2fdd62b58a7, 0x617e49599013cb6b, 0x18d2d110dcc9bca1617e49599013cb6b),
    (1023, 0xaac72718b7620924, 0x87a8f7b2f2e22496, 0xe8083e4d83214c3c87a8f7b2f2e22496),
    (1024, 0x4775bf7cace4d177, 0xdd85c9b5c1109c5c, 0x0d30d24071c64c57dd85c9b5c1109c5c),
    (2048, 0x5940f2752bc04387, 0xdd59e2c3a5f038e0, 0xf736557fd47073a5dd59e2c3a5f038e0),
    (2367, 0xa82418ddec0ea581, 0xcb37aeb9e5d361ed, 0xe89c0f6ff369b427cb37aeb9e5d361ed),
    (4160, 0xeee6a4e2ac952a5e, 0x4f323b15321e94e1, 0x67140711c1e3e3354f323b15321e94e1),
];

#[test]
fn xxh_as_the_reference_implementation() {
    for (length, xxh64, xxh3, xxh128) in XXH {
        let input = sanity_buffer(length);
        let digests: [(ChecksumAlgorithm, &[u8]); 3] = [
            (ChecksumAlgorithm::XxHash64, &xxh64.to_be_bytes()),
            (ChecksumAlgorithm::XxHash3, &xxh3.to_be_bytes()),
            (ChecksumAlgorithm::XxHash128, &xxh128.to_be_bytes()),
        ];
        for (algorithm, digest) in digests {
            assert_eq!(Hasher::digest(algorithm, &input).as_bytes(), digest, "{algorithm:?} of {length} bytes");
            let mut running = Hasher::new(algorithm);
            input.chunks(61).for_each(|piece| running.update(piece));
            assert_eq!(running.finish().as_bytes(), digest, "{algorithm:?} of {length} bytes in pieces");
        }
    }
}

/// Check values of the CRC catalogue, and FIPS 180-4 and RFC 1321, over "123456789".
#[test]
fn check_values() {
    let data = b"123456789";
    let bytes = |algorithm| Hasher::digest(algorithm, data).as_bytes().to_vec();
    assert_eq!(bytes(ChecksumAlgorithm::Crc32), 0xcbf4_3926_u32.to_be_bytes());
    assert_eq!(bytes(ChecksumAlgorithm::Crc32c), 0xe306_9283_u32.to_be_bytes());
    assert_eq!(bytes(ChecksumAlgorithm::Crc64Nvme), 0xae8b_1486_0a79_9888_u64.to_be_bytes());
    let base64 = |algorithm| Hasher::digest(algorithm, data).to_base64();
    assert_eq!(base64(ChecksumAlgorithm::Sha1), "98O8HYCOBHMq32eZZczDTKeuNEE=");
    assert_eq!(base64(ChecksumAlgorithm::Sha256), "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=");
    assert_eq!(base64(ChecksumAlgorithm::Md5), "JfnnlDI7RTiF9RgfG2JNCw==");
    assert_eq!(bytes(ChecksumAlgorithm::Md5), Md5Hasher::digest(data));
    assert_eq!(Etag::simple(Md5Hasher::digest(data)).to_string(), "25f9e794323b453885f5181f1b624d0b");
}

/// FIPS 180-4, examples of SHA-512.
#[test]
fn sha512_examples() {
    let long =
        b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrst\
                 nopqrstu";
    for (text, digest) in [
        (
            b"abc".as_slice(),
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        ),
        (
            long.as_slice(),
            "8e959b75dae313da8cf4f72814fc143f8f7779c6eb9f7fa17299aeadb6889018\
             501d289e4900f7e4331b99dec4b5433ac7d329eeb6dd26545e96e55b874be909",
        ),
    ] {
        assert_eq!(orcas_http::hex(Hasher::digest(ChecksumAlgorithm::Sha512, text).as_bytes()), digest);
    }
}
