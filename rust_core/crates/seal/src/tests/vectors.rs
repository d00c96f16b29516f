//! Known answers: of the primitives, from their specifications; of what is stored, computed with the RustCrypto crates
//! from the description in `docs/format.md`.

use super::{STORE, context, data_key, domain, fresh, hex, unhex};
use crate::cipher::{Algorithm, Cipher};
use crate::derive::{Expander, extract, mac, mac_is};
use crate::{Kdf, Keyring, MasterSecret, ScryptParams, SealId, SealedKeyring, Secret, WrappedKey};

struct Vector {
    algorithm: Algorithm,
    key: &'static str,
    nonce: &'static str,
    bound: &'static str,
    plain: &'static str,
    sealed: &'static str,
    tag: &'static str,
}

/// McGrew and Viega, "The Galois/Counter Mode of Operation", test cases 13, 14 and 16; RFC 8439, 2.8.2.
const VECTORS: [Vector; 4] = [
    Vector {
        algorithm: Algorithm::Aes256Gcm,
        key: "0000000000000000000000000000000000000000000000000000000000000000",
        nonce: "000000000000000000000000",
        bound: "",
        plain: "",
        sealed: "",
        tag: "530f8afbc74536b9a963b4f1c4cb738b",
    },
    Vector {
        algorithm: Algorithm::Aes256Gcm,
        key: "0000000000000000000000000000000000000000000000000000000000000000",
        nonce: "000000000000000000000000",
        bound: "",
        plain: "00000000000000000000000000000000",
        sealed: "cea7403d4d606b6e074ec5d3baf39d18",
        tag: "d0d1c8a799996bf0265b98b5d48ab919",
    },
    Vector {
        algorithm: Algorithm::Aes256Gcm,
        key: "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
        nonce: "cafebabefacedbaddecaf888",
        bound: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
        plain: "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        sealed: "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
                 8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
        tag: "76fc6ece0f4e1768cddf8853bb2d551b",
    },
    Vector {
        algorithm: Algorithm::ChaCha20Poly1305,
        key: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
        nonce: "070000004041424344454647",
        bound: "50515253c0c1c2c3c4c5c6c7",
        plain: "4c616469657320616e642047656e746c656d656e206f662074686520636c617373206f66202739393a204966204920636f756c64206f\
                6666657220796f75206f6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73637265656e20776f756c6420\
                62652069742e",
        sealed: "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b1a71de0a9e06\
                 0b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc3ff4def08e4b7a9de576d265\
                 86cec64b6116",
        tag: "1ae10b594f09e26a7e902ecbd0600691",
    },
];

#[test]
fn both_ciphers_give_the_published_answers() {
    for vector in &VECTORS {
        let cipher = Cipher::new(vector.algorithm, &unhex(vector.key).try_into().unwrap());
        let nonce: [u8; 12] = unhex(vector.nonce).try_into().unwrap();
        let (bound, mut bytes) = (unhex(vector.bound), unhex(vector.plain));
        let tag = cipher.seal(nonce, &bound, &mut bytes);
        assert_eq!((hex(&bytes).as_str(), hex(&tag).as_str()), (vector.sealed, vector.tag));
        cipher.open(nonce, &bound, &mut bytes, &tag).unwrap();
        assert_eq!(hex(&bytes), vector.plain);
    }
}

#[test]
fn hkdf_gives_the_answers_of_rfc_5869() {
    // Test cases 1 and 3; of the output, the first 32 bytes.
    let key = extract(&unhex("000102030405060708090a0b0c"), &[0x0b; 22]);
    assert_eq!(hex(key.expose()), "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5");
    let info = unhex("f0f1f2f3f4f5f6f7f8f9");
    let out = Expander::new(key.expose()).expand(&[&info[..3], &info[3..]], Secret::new);
    assert_eq!(hex(out.expose()), "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");

    let key = extract(&[], &[0x0b; 22]);
    assert_eq!(hex(key.expose()), "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04");
    let out = Expander::new(key.expose()).expand(&[], Secret::new);
    assert_eq!(hex(out.expose()), "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
}

#[test]
fn hmac_gives_the_answer_of_rfc_4231() {
    // Test case 3.
    let expected = "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe";
    let key: [u8; 32] = std::array::from_fn(|at| if at < 20 { 0xaa } else { 0 });
    let found = mac(&key, &[&[0xdd; 20], &[0xdd; 30]]);
    assert_eq!(hex(&found), expected);
    assert!(mac_is(&key, &[&[0xdd; 50]], &found));
    assert!(!mac_is(&key, &[&[0xdd; 49]], &found));
}

#[test]
fn scrypt_gives_the_answer_of_rfc_7914() {
    let salt = b"NaCl";
    let params = ScryptParams::new(10, 8, 16).unwrap();
    let out = crate::keys::stretched(b"password", params, salt).unwrap();
    assert_eq!(hex(out.expose()), "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162");
}

#[test]
fn blobs_are_sealed_as_documented() {
    let known = [
        (
            Algorithm::Aes256Gcm,
            "1810291dfba4d6f533fc6a57d2e6d3a9",
            ["6c1fcb40e7acde29b3bc7a906a6f7b97", "6147a6ff62db35a9db39a4fca452fa34"],
        ),
        (
            Algorithm::ChaCha20Poly1305,
            "7444eb764a36c422cd1831a88b80df4e",
            ["9c1281b8cc0bb2be61bf101b92bb4bb5", "a0c782d90f01ae1b90b12ff2f031d368"],
        ),
    ];
    for (algorithm, end, expected) in known {
        let mut bytes: Vec<u8> = (0..70_000).map(|place| (place % 251) as u8).collect();
        let mut tags = [[0; 16]; 2];
        let mut sealer = data_key(0x22).sealer(algorithm, fresh(0x33), 70_000);
        assert_eq!((sealer.id(), sealer.algorithm()), (SealId([0x33; 32]), algorithm));
        sealer.seal_in_place(&mut bytes, &mut tags).unwrap();
        assert_eq!((hex(&bytes[69_984..]).as_str(), tags.map(|tag| hex(&tag))), (end, expected.map(str::to_owned)));
    }
}

#[test]
fn wrapped_keys_and_keyrings_open_as_documented() {
    let bytes = unhex(KEYRING);
    let master = MasterSecret::Key(Secret::new(&[0x77; 32])).derive(Kdf::Key).unwrap();
    let keyring = Keyring::open(&SealedKeyring::parse(&bytes).unwrap(), STORE, Some(&master)).unwrap();
    let key = &keyring.keys()[0];
    assert_eq!((keyring.generation(), keyring.keys().len(), keyring.data_keys().len()), (2, 1, 1));
    let stored = &keyring.data_keys()[0];
    let data_key = keyring.open_data_key(stored).unwrap();
    assert_eq!(
        (stored.owner.as_slice(), data_key.id().0, data_key.secret().expose()),
        (&b"a"[..], [0x55; 16], &[0x22; 32])
    );
    assert_eq!((key.id.0, key.name.as_str(), key.created_ms, key.versions.len()), ([0x44; 16], "main", 1000, 1));
    if Algorithm::preferred() == Algorithm::Aes256Gcm {
        assert_eq!(hex(&keyring.seal(&master, fresh(0x33))), KEYRING);
    }

    let mut wrapped = unhex("01010000");
    wrapped.extend([&[3, 0, 0, 0], &[0x44; 16][..], &[0x55; 16], &[0x33; 32]].concat());
    wrapped.extend(unhex("e5bc660bcc398cc00d48e4e73b2ae977424bc5c9da8dead5e0b3cc7fc387280b"));
    wrapped.extend(unhex("0e476237a491dbe465be46edc340a028"));
    let wrapped = WrappedKey::decode(&wrapped.try_into().unwrap()).unwrap();
    let context = context(&[("a", "b")]);
    let data_key = wrapped.unwrap(&Secret::new(&[0x66; 32]), &domain("owner:a", &context)).unwrap();
    assert_eq!((data_key.id().0, data_key.secret().expose()), ([0x55; 16], &[0x22; 32]));
}

const KEYRING: &str = "4f52434153524e47010000000100000000000000000000000000000000000000000000000000000000000\
                       0000000000033333333333333333333333333333333333333333333333333333333333333331111111111\
                       111111111111111111111101000000000000000200000000000000fb365c022fab34947f5f6ccad048dcf\
                       d724b764415e7b3c0dfe189e879481c6a21e7fd2bdf59aebd73e10b2baeca4ad52ea2327ea94640a9e4f9\
                       e20bfc7898f0b72c468640b2acca8bf5d802cbf8d60b6b0abfada35d245284b12b93e555923c273b849a4\
                       db63cc9eb5507d9adbcc3bdff8a86a496ea135bbd8a6ae592734251ac6003f71421fb6a891b38e645a210\
                       359243826ac1920ea7d4c22d3a7b9d595b2fb63b060b22d38de26d92a0029276f94d6bfe9da08c6dba876\
                       f9dcd37717e51967ac8bb253c1d980b2c9ca8079dc5dde36e011c41d1b1b8dcbbb9ef58a56ccfa0c7a52d\
                       973c298fca477ebacb1885778888c6794a667cfa78b95b5cacb64460cacd8b";
