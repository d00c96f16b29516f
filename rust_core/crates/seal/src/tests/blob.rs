use orcas_base::block::BLOCK_SIZE;
use proptest::prelude::*;

use super::{STORE, data_key, fresh};
use crate::{
    Algorithm, AuthTag, BlobKey, CheckKey, CustomerKey, DataKey, DataKeyId, Error, METADATA_MAX, SealId, Secret,
    StoreId, auth_tag_count, block_range,
};

const BLOCK: u64 = BLOCK_SIZE as u64;

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

struct Sealed {
    bytes: Vec<u8>,
    tags: Vec<AuthTag>,
    key: BlobKey,
}

fn sealed(algorithm: Algorithm, length: usize) -> Sealed {
    let mut bytes = content(length);
    let mut tags = vec![[0; 16]; auth_tag_count(length as u64) as usize];
    let mut sealer = data_key(2).sealer(algorithm, fresh(3), length as u64);
    sealer.seal_in_place(&mut bytes, &mut tags).unwrap();
    Sealed { bytes, tags, key: sealer.finish().unwrap() }
}

fn opens(key: &BlobKey, first: u64, length: u64, bytes: &[u8], tags: &[AuthTag]) -> Result<Vec<u8>, Error> {
    let mut bytes = bytes.to_vec();
    key.open_in_place(first, length, &mut bytes, tags).map(|()| bytes)
}

fn algorithms() -> impl Strategy<Value = Algorithm> {
    prop_oneof![Just(Algorithm::Aes256Gcm), Just(Algorithm::ChaCha20Poly1305)]
}

/// Around the ends of blocks, and the empty blob.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0), 1usize..40, (1usize..4, -2i64..3).prop_map(|(n, by)| (n as i64 * BLOCK as i64 + by) as usize)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_was_sealed_opens_again(algorithm in algorithms(), length in lengths()) {
        let sealed = sealed(algorithm, length);
        let plain = content(length);
        prop_assert!(length < 16 || sealed.bytes != plain);
        // The key that a later start derives.
        let key = data_key(2).blob_key(algorithm, SealId([3; 32]));
        prop_assert_eq!(opens(&key, 0, length as u64, &sealed.bytes, &sealed.tags).unwrap(), plain);
    }

    #[test]
    fn any_range_opens_with_its_blocks_alone(
        algorithm in algorithms(), length in lengths(), from in 0u64..4 * BLOCK, to in 0u64..4 * BLOCK
    ) {
        let sealed = sealed(algorithm, length);
        let end = from.max(to).min(length as u64);
        let range = from.min(to).min(end)..end;
        let (blocks, bytes) = block_range(range.clone(), length as u64).unwrap();
        if range.is_empty() {
            prop_assert_eq!((blocks, bytes), (0..0, 0..0));
            return Ok(());
        }
        prop_assert!(bytes.start <= range.start && range.end <= bytes.end);
        prop_assert!(bytes.end - bytes.start < range.end - range.start + 2 * BLOCK);
        let tags = &sealed.tags[blocks.start as usize..blocks.end as usize];
        let stored = &sealed.bytes[bytes.start as usize..bytes.end as usize];
        let plain = opens(&sealed.key, blocks.start, length as u64, stored, tags).unwrap();
        let wanted = &content(length)[range.start as usize..range.end as usize];
        prop_assert_eq!(&plain[(range.start - bytes.start) as usize..][..wanted.len()], wanted);
    }

    #[test]
    fn a_flipped_bit_of_content_or_tag_is_found(
        algorithm in algorithms(), length in lengths(), at: prop::sample::Index, bit in 0u8..8
    ) {
        let mut sealed = sealed(algorithm, length);
        let at = at.index(length + 16 * sealed.tags.len());
        match at.checked_sub(length) {
            None => sealed.bytes[at] ^= 1 << bit,
            Some(at) => sealed.tags[at / 16][at % 16] ^= 1 << bit,
        }
        let mut bytes = sealed.bytes.clone();
        let opened = sealed.key.open_in_place(0, length as u64, &mut bytes, &sealed.tags);
        prop_assert_eq!(opened, Err(Error::NotAuthentic));
        let block = at.checked_sub(length).map_or(at / BLOCK_SIZE, |at| at / 16) * BLOCK_SIZE;
        let end = length.min(block + BLOCK_SIZE);
        prop_assert!(bytes[block..end].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn another_id_store_or_key_opens_nothing(
        algorithm in algorithms(), length in lengths(), at in 0usize..16, bit in 0u8..8
    ) {
        let sealed = sealed(algorithm, length);
        let flipped = |byte: u8| { let mut bytes = [byte; 32]; bytes[at] ^= 1 << bit; bytes };
        let short = |byte: u8| <[u8; 16]>::try_from(&flipped(byte)[..16]).unwrap();
        let id = SealId([3; 32]);
        let with = |store, secret: [u8; 32]| DataKey::new(DataKeyId([2; 16]), store, Secret::new(&secret));
        let keys = [
            data_key(2).blob_key(algorithm, SealId(flipped(3))),
            with(StoreId(short(0x11)), [2; 32]).blob_key(algorithm, id),
            with(STORE, flipped(2)).blob_key(algorithm, id),
        ];
        for key in keys {
            let opened = opens(&key, 0, length as u64, &sealed.bytes, &sealed.tags);
            prop_assert_eq!(opened, Err(Error::NotAuthentic));
        }
        let opened = opens(&with(STORE, [2; 32]).blob_key(algorithm, id), 0, length as u64, &sealed.bytes, &sealed.tags);
        prop_assert!(opened.is_ok(), "only what was flipped made the difference");
    }

    #[test]
    fn pieces_of_whole_blocks_seal_to_the_same_bytes(algorithm in algorithms(), length in lengths(), cut in 0usize..4) {
        let whole = sealed(algorithm, length);
        let cut = (cut * BLOCK_SIZE).min(length);
        let mut bytes = content(length);
        let mut tags = vec![[0; 16]; whole.tags.len()];
        let mut sealer = data_key(2).sealer(algorithm, fresh(3), length as u64);
        let (head, tail) = bytes.split_at_mut(cut);
        let (head_tags, tail_tags) = tags.split_at_mut(cut.div_ceil(BLOCK_SIZE));
        if !head.is_empty() {
            sealer.seal_in_place(head, head_tags).unwrap();
        }
        if !tail_tags.is_empty() {
            sealer.seal_in_place(tail, tail_tags).unwrap();
        }
        prop_assert!(sealer.finish().is_ok());
        prop_assert_eq!((bytes, tags), (whole.bytes, whole.tags));
    }
}

#[test]
fn blocks_cannot_be_exchanged_moved_or_cut() {
    for algorithm in [Algorithm::Aes256Gcm, Algorithm::ChaCha20Poly1305] {
        let length = 3 * BLOCK;
        let sealed = sealed(algorithm, length as usize);
        let fails = |first, length, bytes: &[u8], tags: &[AuthTag]| {
            assert_eq!(opens(&sealed.key, first, length, bytes, tags), Err(Error::NotAuthentic));
        };
        let (one, two, three) =
            (&sealed.bytes[..BLOCK_SIZE], &sealed.bytes[BLOCK_SIZE..2 * BLOCK_SIZE], &sealed.bytes[2 * BLOCK_SIZE..]);
        // Another number.
        fails(1, length, one, &sealed.tags[..1]);
        fails(0, length, three, &sealed.tags[2..]);
        // Exchanged, with their tags.
        fails(0, length, &[two, one].concat(), &[sealed.tags[1], sealed.tags[0]]);
        // Cut at the end of a block, and lengthened.
        fails(0, 2 * BLOCK, &sealed.bytes[..2 * BLOCK_SIZE], &sealed.tags[..2]);
        fails(0, length + 1, &sealed.bytes, &sealed.tags);
        // Cut to nothing: the empty blob is authenticated as well.
        fails(0, 0, &[], &sealed.tags[..1]);
    }
}

#[test]
fn an_empty_blob_has_a_tag() {
    let empty = sealed(Algorithm::Aes256Gcm, 0);
    assert_eq!(empty.tags.len(), 1);
    assert_eq!(opens(&empty.key, 0, 0, &[], &empty.tags), Ok(Vec::new()));
    assert_eq!(opens(&empty.key, 0, 0, &[], &[[0; 16]]), Err(Error::NotAuthentic));
    assert!(matches!(opens(&empty.key, 0, 0, &[], &[]), Err(Error::Blocks { .. })));
}

#[test]
fn blocks_that_do_not_fit_are_refused() {
    let sealed = sealed(Algorithm::Aes256Gcm, 2 * BLOCK_SIZE + 5);
    let (length, tags) = (2 * BLOCK + 5, &sealed.tags);
    let refused = |first, bytes: &[u8], tags: &[AuthTag]| {
        assert!(matches!(opens(&sealed.key, first, length, bytes, tags), Err(Error::Blocks { .. })), "{first}");
    };
    refused(0, &sealed.bytes[..BLOCK_SIZE - 1], &tags[..1]);
    refused(0, &sealed.bytes[..BLOCK_SIZE], &tags[..2]);
    refused(0, &sealed.bytes, &tags[..2]);
    refused(3, &[], &[]);
    refused(2, &sealed.bytes[..6], &tags[..1]);
    refused(u64::MAX, &sealed.bytes[..5], &tags[..1]);
    assert!(matches!(block_range(0..length + 1, length), Err(Error::Blocks { .. })));
    #[allow(clippy::reversed_empty_ranges, reason = "it is what must be refused")]
    let reversed = block_range(2..1, length);
    assert!(matches!(reversed, Err(Error::Blocks { .. })));
}

#[test]
fn no_block_is_sealed_twice() {
    let mut sealer = data_key(2).sealer(Algorithm::Aes256Gcm, fresh(3), BLOCK + 1);
    let mut tags = [[0; 16]; 2];
    let mut bytes = content(BLOCK_SIZE + 1);
    sealer.seal_in_place(&mut bytes, &mut tags).unwrap();
    assert!(matches!(sealer.seal_in_place(&mut bytes, &mut tags), Err(Error::Blocks { .. })));
    assert!(sealer.seal_metadata(&mut [1, 2, 3]).is_ok());
    assert!(matches!(sealer.seal_metadata(&mut [1, 2, 3]), Err(Error::Invalid { .. })));

    let mut empty = data_key(2).sealer(Algorithm::Aes256Gcm, fresh(3), 0);
    empty.seal_in_place(&mut [], &mut tags[..1]).unwrap();
    assert!(matches!(empty.seal_in_place(&mut [], &mut tags[..1]), Err(Error::Blocks { .. })));

    let unfinished = data_key(2).sealer(Algorithm::Aes256Gcm, fresh(3), 0);
    assert!(matches!(unfinished.finish(), Err(Error::Blocks { .. })));
}

#[test]
fn metadata_is_not_content() {
    let mut sealer = data_key(2).sealer(Algorithm::Aes256Gcm, fresh(3), 5);
    let (mut metadata, mut bytes, mut tags) = (*b"hello", *b"hello", [[0; 16]]);
    let tag = sealer.seal_metadata(&mut metadata).unwrap();
    sealer.seal_in_place(&mut bytes, &mut tags).unwrap();
    assert_ne!(metadata, bytes);
    let key = sealer.finish().unwrap();
    assert_eq!(opens(&key, 0, 5, &metadata, &[tag]), Err(Error::NotAuthentic));
    let mut swapped = bytes;
    assert_eq!(key.open_metadata(&mut swapped, &tags[0]), Err(Error::NotAuthentic));
    assert_eq!(swapped, [0; 5]);
    assert_eq!(key.open_metadata(&mut metadata[..4].to_vec(), &tag), Err(Error::NotAuthentic));
    key.open_metadata(&mut metadata, &tag).unwrap();
    assert_eq!(&metadata, b"hello");

    let mut sealer = data_key(2).sealer(Algorithm::Aes256Gcm, fresh(3), 0);
    assert!(matches!(sealer.seal_metadata(&mut vec![0; METADATA_MAX + 1]), Err(Error::Invalid { .. })));
}

#[test]
fn content_is_shared_within_a_data_key_only() {
    let key = |data_key: DataKey| *data_key.fingerprint_key().expose();
    assert_eq!(key(data_key(2)), key(data_key(2)));
    assert_ne!(key(data_key(2)), key(data_key(3)));
    let elsewhere = DataKey::new(DataKeyId([2; 16]), StoreId([0; 16]), Secret::new(&[2; 32]));
    assert_ne!(key(data_key(2)), key(elsewhere));
}

#[test]
fn a_customer_key_is_recognised_by_its_check_value() {
    let (server, other) = (CheckKey::new(Secret::new(&[8; 32])), CheckKey::new(Secret::new(&[9; 32])));
    let key = CustomerKey::new(&[7; 32]);
    let check = key.check_value(&server, [1; 16]);
    assert!(key.matches(&server, &check));
    assert!(!key.matches(&other, &check));
    assert!(!CustomerKey::new(&[6; 32]).matches(&server, &check));
    assert_ne!(key.check_value(&server, [2; 16]).mac, check.mac);
    assert!(!check.mac.starts_with(&[7; 4]));

    let (mut bytes, mut tags) = (*b"secret", [[0; 16]]);
    let mut sealer = key.data_key(STORE).sealer(Algorithm::Aes256Gcm, fresh(3), 6);
    sealer.seal_in_place(&mut bytes, &mut tags).unwrap();
    let opened = |key: &CustomerKey| {
        opens(&key.data_key(STORE).blob_key(Algorithm::Aes256Gcm, SealId([3; 32])), 0, 6, &bytes, &tags)
    };
    assert_eq!(opened(&key).unwrap(), b"secret");
    assert_eq!(opened(&CustomerKey::new(&[6; 32])), Err(Error::NotAuthentic));
}

#[test]
fn no_debug_shows_a_key() {
    let key = data_key(0xab);
    let sealer = key.sealer(Algorithm::Aes256Gcm, fresh(3), 0);
    let customer = CustomerKey::new(&[0xab; 32]);
    let check = CheckKey::new(Secret::new(&[0xab; 32]));
    let shown =
        format!("{:?} {sealer:?} {customer:?} {check:?} {:?}", key.secret(), customer.check_value(&check, [0; 16]));
    assert!(!shown.contains("171, 171") && !shown.contains("abab"), "{shown}");
    let id = format!("{key:?}");
    assert!(id.starts_with("DataKey") && id.matches("171").count() == 16, "the id alone is shown: {id}");
}
