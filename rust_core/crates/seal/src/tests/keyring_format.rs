use proptest::prelude::*;

use super::{STORE, context, counting, data_key, domain, fresh};
use crate::keyring::decode_body;
use crate::{
    Error, Kdf, KeyName, KeyState, Keyring, MasterKey, MasterSecret, ScryptParams, SealedKeyring, StoreId, WrappedKey,
};

fn master(byte: u8) -> MasterKey {
    MasterSecret::Key(crate::Secret::new(&[byte; 32])).derive(Kdf::Key).unwrap()
}

/// A keyring with a key in every state, and a data key under the first.
fn sample() -> (Keyring, WrappedKey) {
    let mut keyring = Keyring::new(STORE);
    let mut random = counting();
    let ids = ["enabled", "disabled", "pending", "destroyed"]
        .map(|name| keyring.create(KeyName::new(name).unwrap(), 1000, &mut random).unwrap());
    keyring.rotate(ids[0], 2000, &mut random).unwrap();
    keyring.disable(ids[1]).unwrap();
    keyring.schedule_destruction(ids[3], 0, 7).unwrap();
    keyring.destroy_due(u64::MAX);
    keyring.schedule_destruction(ids[2], 3000, 9).unwrap();
    let wrapped = keyring.wrap(ids[0], &data_key(2), &domain("a", &context(&[])), fresh(9)).unwrap();
    keyring.add_data_key(ids[0], b"a", &mut random).unwrap();
    keyring.add_data_key(ids[0], b"b", &mut random).unwrap();
    (keyring, wrapped)
}

fn reopened(bytes: &[u8], store: StoreId, master: Option<&MasterKey>) -> Result<Keyring, Error> {
    Keyring::open(&SealedKeyring::parse(bytes)?, store, master)
}

fn assert_same(one: &Keyring, two: &Keyring) {
    assert_eq!(format!("{one:?}"), format!("{two:?}"));
}

/// With a checksum that holds again.
fn rehashed(bytes: &[u8]) -> Vec<u8> {
    let content = &bytes[..bytes.len() - 32];
    [content, blake3::hash(content).as_bytes()].concat()
}

#[test]
fn a_keyring_opens_with_its_master_key_alone() {
    let (keyring, wrapped) = sample();
    let bytes = keyring.seal(&master(1), fresh(8));
    let opened = reopened(&bytes, STORE, Some(&master(1))).unwrap();
    assert_same(&opened, &keyring);
    let states: Vec<_> = opened.keys().iter().map(|key| (key.name.as_str(), key.versions.len(), key.state)).collect();
    let pending = KeyState::PendingDestruction { due_ms: 3000 + 9 * 86_400_000 };
    assert_eq!(
        states,
        [
            ("enabled", 2, KeyState::Enabled),
            ("disabled", 1, KeyState::Disabled),
            ("pending", 1, pending),
            ("destroyed", 0, KeyState::Destroyed)
        ]
    );
    assert!(opened.unwrap(&wrapped, &domain("a", &context(&[]))).is_ok());

    assert_eq!(reopened(&bytes, STORE, Some(&master(2))).unwrap_err(), Error::MasterKey);
    assert_eq!(reopened(&bytes, STORE, None).unwrap_err(), Error::MasterKey);
    let other = StoreId([0x12; 16]);
    assert_eq!(reopened(&bytes, other, Some(&master(1))).unwrap_err(), Error::Foreign { found: STORE });
}

#[test]
fn another_master_key_rewraps_the_keyring() {
    let (keyring, wrapped) = sample();
    let passphrase = MasterSecret::from_passphrase(b"correct horse battery staple").unwrap();
    let kdf = Kdf::scrypt(ScryptParams::new(10, 8, 1).unwrap(), &mut counting()).unwrap();
    let bytes = keyring.seal(&passphrase.derive(kdf).unwrap(), fresh(7));
    assert_eq!(reopened(&bytes, STORE, Some(&master(1))).unwrap_err(), Error::MasterKey);
    let parsed = SealedKeyring::parse(&bytes).unwrap();
    assert_eq!(parsed.kdf(), kdf);
    let opened = Keyring::open(&parsed, STORE, Some(&passphrase.derive(parsed.kdf()).unwrap())).unwrap();
    assert_same(&opened, &keyring);
    assert!(opened.unwrap(&wrapped, &domain("a", &context(&[]))).is_ok(), "data keys are as they were");

    let wrong = MasterSecret::from_passphrase(b"correct horse battery stable").unwrap().derive(kdf).unwrap();
    assert_eq!(Keyring::open(&parsed, STORE, Some(&wrong)).unwrap_err(), Error::MasterKey);
    // A key where a passphrase is asked for, and the other way round.
    let key = MasterSecret::from_base64(b"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=").unwrap();
    assert_eq!(key.derive(kdf).unwrap_err(), Error::MasterKey);
    assert_eq!(passphrase.derive(Kdf::Key).unwrap_err(), Error::MasterKey);
}

#[test]
fn master_keys_are_32_bytes_in_base64() {
    let (keyring, _) = sample();
    let bytes = keyring.seal(&master(1), fresh(8));
    let key = MasterSecret::from_base64(b" AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\n").unwrap();
    assert!(reopened(&bytes, STORE, Some(&key.derive(Kdf::Key).unwrap())).is_ok());
    for wrong in [&b""[..], b"AQEB", b"not base64", b"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB"] {
        assert!(matches!(MasterSecret::from_base64(wrong), Err(Error::MalformedMasterKey { .. })));
    }
    for wrong in [&b""[..], &[b'x'; 1025]] {
        assert!(matches!(MasterSecret::from_passphrase(wrong), Err(Error::MalformedMasterKey { .. })));
    }
    let shown = format!("{key:?} {:?} {:?}", MasterSecret::from_passphrase(b"hunter2"), master(1));
    assert!(!shown.contains("hunter2") && !shown.contains("1, 1"), "{shown}");
}

#[test]
fn scrypt_parameters_are_bounded() {
    assert_eq!(ScryptParams::new(15, 8, 1), Ok(ScryptParams::DEFAULT));
    assert!(ScryptParams::new(20, 8, 1).is_ok());
    for (log2_n, r, p) in [(9, 8, 1), (23, 1, 1), (21, 8, 1), (15, 0, 1), (15, 33, 1), (15, 8, 0), (15, 8, 17)] {
        assert!(matches!(ScryptParams::new(log2_n, r, p), Err(Error::ScryptParams { .. })), "{log2_n} {r} {p}");
    }
    // Also those of a file, before anything is allocated.
    let (keyring, _) = sample();
    let mut bytes = keyring.seal(&master(1), fresh(8));
    bytes[12..16].copy_from_slice(&[2, 40, 255, 255]);
    assert!(matches!(SealedKeyring::parse(&rehashed(&bytes)), Err(Error::ScryptParams { .. })));
}

#[test]
fn any_flipped_bit_is_damage_and_not_a_wrong_key() {
    let (keyring, _) = sample();
    let bytes = keyring.seal(&master(1), fresh(8));
    for at in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        assert!(matches!(SealedKeyring::parse(&flipped), Err(Error::DamagedKeyring { .. })), "{at}");
    }
    for length in 0..bytes.len() {
        assert!(matches!(SealedKeyring::parse(&bytes[..length]), Err(Error::DamagedKeyring { .. })), "{length}");
    }
}

#[test]
fn changes_with_a_new_checksum_do_not_open() {
    let (keyring, _) = sample();
    let bytes = keyring.seal(&master(1), fresh(8));
    for at in 0..bytes.len() - 32 {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let opened = reopened(&rehashed(&changed), STORE, Some(&master(1)));
        match opened.unwrap_err() {
            Error::MasterKey => assert!(at >= 16, "{at}"),
            Error::Version { .. } => assert!((8..12).contains(&at), "{at}"),
            Error::Foreign { .. } => assert!((80..96).contains(&at), "{at}"),
            Error::DamagedKeyring { .. } => assert!(at < 104, "{at}"),
            other => panic!("{at}: {other}"),
        }
    }
}

/// A body whose counts and lengths are near those of a good one.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let key = (any::<u8>(), "[a-d]{1,2}", 0u8..6, prop_oneof![Just(0u64), any::<u64>()], 0u16..3);
    let key = key.prop_map(|(id, name, state, due_ms, versions)| {
        let mut out = vec![id; 16];
        out.extend((name.len() as u16).to_le_bytes());
        out.extend(name.bytes());
        out.push(state);
        out.extend(due_ms.to_le_bytes());
        out.extend([0; 8]);
        out.extend(versions.to_le_bytes());
        out.extend(vec![7; usize::from(versions) * 40]);
        out
    });
    let stored = (any::<u8>(), any::<u8>(), 0u8..3, 0usize..3).prop_map(|(id, algorithm, zero, owner)| {
        let mut out = vec![owner as u8];
        out.extend(vec![7; owner]);
        out.extend([1, algorithm % 3, zero / 2, 0]);
        out.extend([id; 116]);
        out
    });
    let (keys, stored) = (prop::collection::vec(key, 0..4), prop::collection::vec(stored, 0..4));
    (keys, stored, 0u32..8, 0usize..3).prop_map(|(keys, stored, more, cut)| {
        let mut out = Vec::new();
        out.extend((keys.len() as u32 + more / 7).to_le_bytes());
        out.extend(keys.concat());
        out.extend((stored.len() as u32 + more % 7 / 6).to_le_bytes());
        out.extend(stored.concat());
        out.truncate(out.len() - cut.saturating_sub(1));
        out
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_decodes_encodes_to_the_same_bytes(body in prop_oneof![bodies(), prop::collection::vec(any::<u8>(), 0..200)]) {
        match decode_body(&body) {
            Ok((reencoded, keys)) => {
                prop_assert_eq!(&reencoded, &body);
                prop_assert!(keys * 37 <= body.len());
            }
            Err(Error::DamagedKeyring { .. }) => {}
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn any_bytes_parse_or_are_damage(bytes in prop::collection::vec(any::<u8>(), 0..300), whole: bool) {
        let mut bytes = bytes;
        if whole {
            bytes.splice(0..0, *b"ORCASRNG\x01\0\0\0\x01\0\0\0");
            bytes.extend([0; 32]);
            bytes = rehashed(&bytes);
        }
        match SealedKeyring::parse(&bytes) {
            Ok(parsed) => {
                let opened = Keyring::open(&parsed, parsed.store(), Some(&master(1)));
                prop_assert_eq!(opened.unwrap_err(), Error::MasterKey);
            }
            Err(Error::DamagedKeyring { .. }) => {}
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
