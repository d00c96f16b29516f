//! Sealed content: what is stored opens only whole, unchanged and in its place.

mod headers;
pub(super) mod stored;
mod stored_failures;
mod uploads;

use std::sync::Arc;

use super::objects::scopes::copy;
use super::support::{Store, noise};
use crate::content::sealing::Unopened;
use orcas_base::block::BLOCK_SIZE;
use orcas_base::error::{Error, KeyFault, Result};
use orcas_checksum::{ChecksumAlgorithm, Hasher};
use orcas_decide::{Body, Failure, Intent, Outcome, Refusal};
use orcas_record::{Bucket, Encryption, NamedKey, Seal};
use orcas_seal::{CheckKey, DataKey, DataKeyId, Secret, StoreId};
use orcas_store::{ContentKeys, KeyId, RequestKey, Sealing};

/// With keys of the server.
pub(super) fn managed() -> Sealing {
    Some(Encryption::Managed).into()
}

/// One data key for all owners.
pub(super) struct OneKey(Arc<DataKey>);

impl OneKey {
    pub fn new(seed: u8) -> Arc<Self> {
        let fill = &mut |bytes: &mut [u8]| {
            bytes.fill(seed);
            Ok(())
        };
        Arc::new(Self(Arc::new(DataKey::generate(StoreId([1; 16]), fill).unwrap())))
    }
}

impl ContentKeys for OneKey {
    fn store(&self) -> StoreId {
        self.0.store()
    }

    fn current(&self, _: &[u8], _: Option<KeyId>) -> Result<Arc<DataKey>> {
        Ok(Arc::clone(&self.0))
    }

    fn at_hand(&self, _: &[u8], _: Option<KeyId>) -> bool {
        true
    }

    fn named(&self, _: Option<&str>) -> Result<KeyId> {
        Ok([0; 16])
    }

    fn check_named(&self, _: KeyId) -> Result<()> {
        Ok(())
    }

    fn check_key(&self) -> Result<CheckKey> {
        Ok(CheckKey::new(Secret::new(&[7; 32])))
    }

    fn by_id(&self, id: DataKeyId) -> Result<Arc<DataKey>> {
        let unknown = Error::KeyUnusable { reason: "unknown".into(), fault: KeyFault::Missing };
        if id == self.0.id() { Ok(Arc::clone(&self.0)) } else { Err(unknown) }
    }
}

fn open(store: &Store, seal: &Seal, stored: &[u8], start: usize, length: usize) -> Result<Vec<u8>, Unopened> {
    let read = |from: u32, buf: &mut [u8]| {
        buf.copy_from_slice(&stored[from as usize..][..buf.len()]);
        Ok(true)
    };
    let mut buf = vec![0; length];
    let shared = &store.handle().shared;
    assert!(shared.content.read_sealed((seal, &managed()), stored.len() as u32, &read, start as u32, &mut buf)?);
    Ok(buf)
}

fn is_refused(store: &Store, seal: &Seal, stored: &[u8], start: usize, length: usize) -> bool {
    matches!(open(store, seal, stored, start, length), Err(Unopened::NotAuthentic))
}

#[test]
fn ranges_open_and_nothing_that_was_changed_does() {
    let store = Store::new();
    store.handle().keys().set(OneKey::new(7));
    let key = OneKey::new(7);
    for size in [1, 300, BLOCK_SIZE, BLOCK_SIZE + 1, 3 * BLOCK_SIZE] {
        let content = noise(size, 1);
        let (stored, seal) = store.handle().content().seal_whole(&key.0, &content).unwrap();
        assert_eq!(Seal::content_length(stored.len() as u32), Some(size as u32));
        assert!(size < 300 || !stored.windows(32).any(|window| window == &content[..32]));
        let edges = [0, 1, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1, 2 * BLOCK_SIZE, size / 2, size];
        for first in edges.into_iter().filter(|edge| *edge < size) {
            for end in edges.into_iter().filter(|edge| first < *edge && *edge <= size) {
                let read = open(&store, &seal, &stored, first, end - first).ok();
                assert_eq!(read.as_deref(), Some(&content[first..end]), "{size}: {first}..{end}");
            }
        }
        // A bit of each block, and of each tag.
        for at in (0..size).step_by(BLOCK_SIZE).chain(size..stored.len() - Seal::LENGTH) {
            let mut changed = stored.clone();
            changed[at] ^= 1;
            assert!(is_refused(&store, &seal, &changed, 0, size), "{size}: {at}");
        }
        let other = Seal { id: [9; 32], ..seal };
        assert!(is_refused(&store, &other, &stored, 0, size));
    }
}

#[test]
fn exchanged_blocks_and_blobs_do_not_open() {
    let store = Store::new();
    store.handle().keys().set(OneKey::new(7));
    let (key, size) = (OneKey::new(7), 3 * BLOCK_SIZE);
    let seal_whole = |content: &[u8]| store.handle().content().seal_whole(&key.0, content).unwrap();
    let (stored, seal) = seal_whole(&noise(size, 1));
    let (other, _) = seal_whole(&noise(size, 2));
    // The first two blocks, with their tags.
    let mut exchanged = stored.clone();
    let (first, second) = exchanged.split_at_mut(BLOCK_SIZE);
    first.swap_with_slice(&mut second[..BLOCK_SIZE]);
    let (first, second) = exchanged[size..].split_at_mut(16);
    first.swap_with_slice(&mut second[..16]);
    assert!(is_refused(&store, &seal, &exchanged, 0, BLOCK_SIZE));
    assert!(!is_refused(&store, &seal, &exchanged, 2 * BLOCK_SIZE, BLOCK_SIZE), "the last block is where it was");
    // Another blob, whole.
    assert!(is_refused(&store, &seal, &other, 0, size));
    // A blob that was cut to two blocks.
    let cut = [&stored[..2 * BLOCK_SIZE], &stored[size..size + 32], &seal.encode()].concat();
    assert!(is_refused(&store, &seal, &cut, 0, BLOCK_SIZE));
}

#[test]
fn without_a_keyring_nothing_is_sealed_and_nothing_opens() {
    let store = Store::new();
    let bucket: Arc<Bucket> = store.bucket("bkt");
    assert!(matches!(store.handle().content().sealed_body(&bucket, &managed(), b"text"), Err(Error::NoKeyring)));
    assert!(matches!(store.handle().content().body_writer(&bucket, &managed(), 9).err(), Some(Error::NoKeyring)));
    let (stored, seal) = store.handle().content().seal_whole(&OneKey::new(7).0, b"text").unwrap();
    assert!(matches!(open(&store, &seal, &stored, 0, 4), Err(Unopened::Read(Error::NoKeyring))));
    store.handle().keys().set(OneKey::new(8));
    assert!(matches!(open(&store, &seal, &stored, 0, 4), Err(Unopened::Read(Error::KeyUnusable { .. }))));
}

#[test]
fn a_small_body_is_a_sealed_content_and_an_empty_one_is_empty() {
    let store = Store::new();
    store.handle().keys().set(OneKey::new(7));
    let bucket = store.bucket("bkt");
    let Body::Content { seal: Some(_), bytes, .. } =
        store.handle().content().sealed_body(&bucket, &managed(), b"text").unwrap()
    else {
        panic!("not sealed");
    };
    assert_eq!(bytes.len() as u32, Seal::stored_length(4));
    let empty = store.handle().content().sealed_body(&bucket, &managed(), b"").unwrap();
    assert!(matches!(empty, Body::Inline(bytes) if bytes.is_empty()));
}

#[test]
fn another_context_does_not_open_the_content() {
    let store = Store::new();
    store.handle().keys().set(OneKey::new(7));
    let bucket = store.bucket("bkt");
    let with = |context: &'static str| {
        let context = context.as_bytes().into();
        Sealing::from(Some(Encryption::Named(Arc::new(NamedKey { id: [0; 16], context, bucket_key: false }))))
    };
    let shared = &store.handle().shared;
    let key = shared.content.keys.data_key(&bucket, &with("{\"tenant\":\"a\"}")).unwrap();
    let (stored, seal) = shared.content.seal_whole(&key, b"text").unwrap();
    let opens = |sealing: Sealing| {
        let read = |from: u32, buf: &mut [u8]| {
            buf.copy_from_slice(&stored[from as usize..][..buf.len()]);
            Ok(true)
        };
        let mut buf = [0; 4];
        let opened = shared.content.read_sealed((&seal, &sealing), stored.len() as u32, &read, 0, &mut buf);
        assert!(matches!(opened, Ok(true) | Err(Unopened::NotAuthentic)));
        opened.is_ok() && buf == *b"text"
    };
    assert!(opens(with("{\"tenant\":\"a\"}")));
    assert!(!opens(with("{\"tenant\":\"b\"}")));
    assert!(!opens(with("")));
    assert!(!opens(managed()));
}

#[test]
fn a_copy_reads_its_source_with_no_other_key() {
    let store = Store::new();
    store.handle().keys().set(OneKey::new(7));
    let (handle, bucket) = (store.handle(), store.bucket("bkt"));
    let [right, wrong] = [1, 2].map(|seed| handle.keys().request_key(&[seed; 32]).unwrap());
    let encryption = Some(handle.keys().encryption_with(&right).unwrap());
    let mut put = store.small_put(&bucket, "k", b"text");
    let sealing = Sealing { encryption: encryption.clone(), key: Some(right.clone()) };
    put.body = handle.content().sealed_body(&bucket, &sealing, b"text").unwrap();
    put.attributes.encryption = encryption;
    put.checksum = Some(Hasher::digest(ChecksumAlgorithm::Crc32, b"text"));
    handle.execute(Intent::PutObject(Box::new(put))).unwrap();
    let found = handle.object(bucket.id, &"k".into()).unwrap().unwrap().object;
    assert_eq!(found.version.checksum, None, "it tells the content");
    // As after a source was replaced whose key was compared.
    let copied = |source: Option<&RequestKey>| {
        let mut request = copy(&bucket, "k", &bucket);
        request.keys.source = source.cloned();
        crate::run_copy(handle.copy_object(&request))
    };
    assert!(matches!(copied(Some(&wrong)), Err(Failure::Refused(Refusal::SourceKeyDiffers))));
    assert!(matches!(copied(None), Err(Failure::Engine(Error::NoCustomerKey))));
    assert!(matches!(copied(Some(&right)), Ok(Outcome::Put(_))));
    assert_eq!(handle.object(bucket.id, &"copy".into()).unwrap().unwrap().object.version.size, 4);
}
