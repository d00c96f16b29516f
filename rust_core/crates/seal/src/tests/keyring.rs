use super::{STORE, context, counting, data_key, domain, fresh};
use crate::{
    Algorithm, CONTROL_KEY, DATA_KEYS_MAX, Error, KEYS_MAX, KeyId, KeyName, KeyReference, KeyState, Keyring,
    SSE_S3_KEY, StoreId, VERSIONS_MAX, WAIT_DAYS_DEFAULT, WrappedKey,
};

const DAY_MS: u64 = 86_400_000;

fn with_key() -> (Keyring, KeyId) {
    let mut keyring = Keyring::new(STORE);
    let id = keyring.create(KeyName::new(SSE_S3_KEY).unwrap(), 1000, &mut counting()).unwrap();
    (keyring, id)
}

#[test]
fn keys_are_created_and_found() {
    let (mut keyring, id) = with_key();
    let name = KeyName::new(SSE_S3_KEY).unwrap();
    let key = keyring.find(&KeyReference::Name(name.clone())).unwrap();
    assert_eq!((key.id, key.state, key.created_ms, key.versions.len()), (id, KeyState::Enabled, 1000, 1));
    assert_eq!(keyring.find(&KeyReference::Id(id)).unwrap().id, id);
    assert_eq!(keyring.create(name, 1, &mut counting()), Err(Error::NameTaken));
    assert_eq!(keyring.keys().len(), 1);
    let unknown = KeyId([9; 16]);
    assert!(keyring.find(&KeyReference::Id(unknown)).is_none());
    assert_eq!(keyring.disable(unknown), Err(Error::UnknownKey { id: unknown }));
}

#[test]
fn data_keys_are_wrapped_for_a_domain() {
    let (keyring, id) = with_key();
    let (none, some) = (context(&[]), context(&[("a", "b")]));
    let wrapped = keyring.wrap(id, &data_key(2), &domain("owner:a", &some), fresh(3)).unwrap();
    assert_eq!((wrapped.key(), wrapped.version(), wrapped.data_key().0), (id, 1, [2; 16]));
    let unwrapped = keyring.unwrap(&wrapped, &domain("owner:a", &some)).unwrap();
    assert_eq!(unwrapped.secret().expose(), &[2; 32]);
    assert_eq!(unwrapped.id(), data_key(2).id());
    for wrong in [domain("owner:b", &some), domain("owner:a", &none), domain("", &some)] {
        assert_eq!(keyring.unwrap(&wrapped, &wrong).unwrap_err(), Error::NotAuthentic);
    }
    let mut foreign = domain("owner:a", &some);
    foreign.store = StoreId([0; 16]);
    assert_eq!(keyring.unwrap(&wrapped, &foreign).unwrap_err(), Error::Foreign { found: foreign.store });
}

#[test]
fn any_changed_byte_of_a_wrapped_key_is_found() {
    let (keyring, id) = with_key();
    let none = context(&[]);
    let bytes = keyring.wrap(id, &data_key(2), &domain("a", &none), fresh(3)).unwrap().encode();
    assert!(keyring.unwrap(&WrappedKey::decode(&bytes).unwrap(), &domain("a", &none)).is_ok());
    for at in 0..bytes.len() {
        let mut changed = bytes;
        changed[at] ^= 1;
        let opened = WrappedKey::decode(&changed).and_then(|wrapped| keyring.unwrap(&wrapped, &domain("a", &none)));
        match opened.unwrap_err() {
            Error::NotAuthentic => {}
            Error::Version { found: 0, supported: 1 } => assert_eq!(at, 0),
            Error::UnknownKey { .. } => assert!((8..24).contains(&at), "{at}"),
            other => panic!("{at}: {other}"),
        }
    }
}

#[test]
fn rotation_rewraps_and_content_stays() {
    let (mut keyring, id) = with_key();
    let none = context(&[]);
    let (owner, data) = (domain("a", &none), data_key(2));
    let old = keyring.wrap(id, &data, &owner, fresh(3)).unwrap();
    let (mut bytes, mut tags) = (*b"content", [[0; 16]]);
    let mut sealer = data.sealer(Algorithm::preferred(), fresh(4), 7);
    sealer.seal_in_place(&mut bytes, &mut tags).unwrap();

    assert_eq!(keyring.rotate(id, 2000, &mut counting()), Ok(2));
    assert!(keyring.unwrap(&old, &owner).is_ok(), "an older version still unwraps");
    let new = keyring.rewrap(&old, &owner, id, fresh(5)).unwrap();
    assert_eq!((new.version(), new.data_key()), (2, old.data_key()));
    let unwrapped = keyring.unwrap(&new, &owner).unwrap();
    let key = unwrapped.blob_key(Algorithm::preferred(), sealer.id());
    key.open_in_place(0, 7, &mut bytes, &tags).unwrap();
    assert_eq!(&bytes, b"content");

    let other = keyring.create(KeyName::new("other").unwrap(), 1, &mut |bytes| {
        bytes.fill(0x99);
        Ok(())
    });
    let moved = keyring.rewrap(&new, &owner, other.clone().unwrap(), fresh(6)).unwrap();
    assert_eq!((moved.key(), moved.version()), (other.unwrap(), 1));
    assert_eq!(keyring.unwrap(&moved, &owner).unwrap().secret().expose(), &[2; 32]);
}

#[test]
fn a_disabled_key_does_nothing_until_it_is_enabled() {
    let (mut keyring, id) = with_key();
    let none = context(&[]);
    let owner = domain("a", &none);
    let wrapped = keyring.wrap(id, &data_key(2), &owner, fresh(3)).unwrap();
    keyring.disable(id).unwrap();
    assert_eq!(keyring.unwrap(&wrapped, &owner).unwrap_err(), Error::KeyDisabled { id });
    assert_eq!(keyring.wrap(id, &data_key(2), &owner, fresh(3)).unwrap_err(), Error::KeyDisabled { id });
    assert_eq!(keyring.rotate(id, 1, &mut counting()), Err(Error::KeyDisabled { id }));
    assert_eq!(keyring.disable(id), Err(Error::KeyState { id }));
    keyring.enable(id).unwrap();
    assert_eq!(keyring.enable(id), Err(Error::KeyState { id }));
    assert!(keyring.unwrap(&wrapped, &owner).is_ok());
}

#[test]
fn a_destroyed_key_leaves_what_it_wrapped_unreadable() {
    let (mut keyring, id) = with_key();
    let none = context(&[]);
    let owner = domain("a", &none);
    let wrapped = keyring.wrap(id, &data_key(2), &owner, fresh(3)).unwrap();
    for days in [0, 6, 31] {
        assert!(matches!(keyring.schedule_destruction(id, 0, days), Err(Error::Invalid { .. })));
    }
    let due_ms = keyring.schedule_destruction(id, 5, WAIT_DAYS_DEFAULT).unwrap();
    assert_eq!(due_ms, 5 + 30 * DAY_MS);
    assert_eq!(keyring.unwrap(&wrapped, &owner).unwrap_err(), Error::KeyPendingDestruction { id });
    assert_eq!(keyring.schedule_destruction(id, 5, 7), Err(Error::KeyState { id }));
    assert_eq!(keyring.destroy_due(due_ms - 1), []);

    keyring.cancel_destruction(id).unwrap();
    assert_eq!(keyring.key(id).unwrap().state, KeyState::Disabled);
    assert_eq!(keyring.cancel_destruction(id), Err(Error::KeyState { id }));
    assert_eq!(keyring.destroy_due(u64::MAX), []);
    keyring.enable(id).unwrap();
    assert!(keyring.unwrap(&wrapped, &owner).is_ok(), "it was called off in time");

    let due_ms = keyring.schedule_destruction(id, 5, 7).unwrap();
    assert_eq!(keyring.destroy_due(due_ms), [id]);
    assert_eq!(keyring.destroy_due(due_ms), []);
    assert_eq!(keyring.unwrap(&wrapped, &owner).unwrap_err(), Error::KeyDestroyed { id });
    assert!(keyring.key(id).unwrap().versions.is_empty());
    for refused in [keyring.enable(id), keyring.disable(id), keyring.cancel_destruction(id)] {
        assert_eq!(refused, Err(Error::KeyState { id }));
    }

    // A new key may have the name, and does not open what the old one wrapped.
    let name = KeyName::new(SSE_S3_KEY).unwrap();
    let mut random = |bytes: &mut [u8]| {
        bytes.fill(0x77);
        Ok(())
    };
    let new = keyring.create(name.clone(), 1, &mut random).unwrap();
    assert_eq!(keyring.find(&KeyReference::Name(name)).unwrap().id, new);
    assert_eq!(keyring.unwrap(&wrapped, &owner).unwrap_err(), Error::KeyDestroyed { id });
}

#[test]
fn a_keyring_has_bounds() {
    let (mut keyring, id) = with_key();
    let mut number = 0u64;
    let mut random = |bytes: &mut [u8]| {
        number += 1;
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Ok(())
    };
    for _ in 1..VERSIONS_MAX {
        keyring.rotate(id, 0, &mut random).unwrap();
    }
    assert!(matches!(keyring.rotate(id, 0, &mut random), Err(Error::Invalid { .. })));
    for key in 1..KEYS_MAX {
        keyring.create(KeyName::new(&format!("key-{key}")).unwrap(), 0, &mut random).unwrap();
    }
    let one_more = keyring.create(KeyName::new("more").unwrap(), 0, &mut random);
    assert!(matches!(one_more, Err(Error::Invalid { .. })));
}

#[test]
fn no_randomness_no_key() {
    let (mut keyring, id) = with_key();
    let generation = keyring.generation();
    let failed = Error::Invalid { reason: "no entropy" };
    let mut random = |_: &mut [u8]| Err(failed.clone());
    assert_eq!(keyring.create(KeyName::new("new").unwrap(), 0, &mut random), Err(failed.clone()));
    assert_eq!(keyring.rotate(id, 0, &mut random), Err(failed.clone()));
    assert_eq!((keyring.generation(), keyring.keys().len()), (generation, 1));
}

#[test]
fn kept_data_keys_outlive_rotations_and_end_with_their_key() {
    let (mut keyring, id) = with_key();
    let mut random = counting();
    let made = keyring.add_data_key(id, b"a", &mut random).unwrap();
    keyring.add_data_key(id, b"b", &mut random).unwrap();
    assert_eq!(keyring.rotate(id, 2000, &mut random), Ok(2));
    assert_eq!((keyring.data_keys().len(), keyring.generation()), (2, 4));
    for stored in keyring.data_keys() {
        assert_eq!((stored.wrapped.key(), stored.wrapped.version()), (id, 2));
    }
    let opened = keyring.open_data_key(&keyring.data_keys()[0]).unwrap();
    assert_eq!((opened.id(), opened.secret().expose()), (made.id(), made.secret().expose()));
    // It is bound to its owner.
    let mut moved = keyring.data_keys()[0].clone();
    moved.owner = b"b".to_vec();
    assert_eq!(keyring.open_data_key(&moved).unwrap_err(), Error::NotAuthentic);
    assert!(matches!(keyring.add_data_key(id, &[0; 256], &mut random), Err(Error::Invalid { .. })));

    keyring.destroy(id).unwrap();
    assert_eq!(keyring.destroy(id), Err(Error::KeyDestroyed { id }));
    assert_eq!(keyring.open_data_key(&keyring.data_keys()[0]).unwrap_err(), Error::KeyDestroyed { id });
    assert_eq!(keyring.add_data_key(id, b"a", &mut random).unwrap_err(), Error::KeyDestroyed { id });
    assert!(keyring.keys()[0].versions.is_empty());
}

#[test]
fn a_keyring_takes_so_many_data_keys() {
    let (mut keyring, id) = with_key();
    let mut count = 0u64;
    let mut random = |bytes: &mut [u8]| {
        count += 1;
        bytes.iter_mut().zip(count.to_le_bytes().iter().cycle()).for_each(|(byte, digit)| *byte = *digit);
        Ok(())
    };
    for _ in 0..DATA_KEYS_MAX {
        keyring.add_data_key(id, b"a", &mut random).unwrap();
    }
    assert_eq!(keyring.add_data_key(id, b"b", &mut random).unwrap_err(), Error::TooManyDataKeys);
    assert!(keyring.open_data_key(&keyring.data_keys()[DATA_KEYS_MAX - 1]).is_ok());
}

#[test]
fn secrets_of_the_control_plane_open_under_their_own_name_and_keyring_only() {
    let mut keyring = Keyring::new(STORE);
    assert!(keyring.control_key().is_none());
    keyring.create(KeyName::new(CONTROL_KEY).unwrap(), 1, &mut counting()).unwrap();
    let sealed = keyring.control_key().unwrap().seal("root.json", b"secret", fresh(5));
    let key = keyring.control_key().unwrap();
    assert_eq!(&**key.open("root.json", &sealed).unwrap(), b"secret");
    assert_eq!(key.open("control.key", &sealed).unwrap_err(), Error::NotAuthentic);
    let mut other = Keyring::new(STORE);
    other
        .create(KeyName::new(CONTROL_KEY).unwrap(), 1, &mut |bytes| {
            bytes.fill(77);
            Ok(())
        })
        .unwrap();
    assert_eq!(other.control_key().unwrap().open("root.json", &sealed).unwrap_err(), Error::NotAuthentic);
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert!(key.open("root.json", &changed).is_err(), "byte {at}");
        assert!(key.open("root.json", &sealed[..at]).is_err(), "the first {at} bytes");
    }
}
