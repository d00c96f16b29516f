//! Sealed headers open only unchanged, in their place and with their key, and go with their object.

use std::sync::Arc;

use bytes::Bytes;

use super::super::objects::scopes::copy;
use super::super::sealing::{OneKey, managed};
use super::super::support::Store;
use orcas_base::error::{Error, Result};
use orcas_catalog::PinnedObject;
use orcas_decide::{CopyHeaders, Failure, Intent, Outcome, Refusal};
use orcas_record::{Bucket, Encryption, NamedKey, Object, ObjectHeaders, Seal, SealedHeaders, Version};
use orcas_store::Sealing;

fn headers(value: &'static str) -> ObjectHeaders {
    ObjectHeaders {
        content_type: Some("a/b".into()),
        website_redirect: Some("/there".into()),
        storage_class: Some("GLACIER".into()),
        user: vec![("patient".into(), value.into()), ("empty".into(), Bytes::new())],
        ..ObjectHeaders::default()
    }
}

fn store() -> Store {
    let store = Store::new();
    store.handle().keys().set(OneKey::new(7));
    store
}

fn sealed(store: &Store, bucket: &Bucket, sealing: &Sealing, value: &'static str) -> SealedHeaders {
    let headers = store.handle().content().sealed_headers(bucket, sealing, headers(value)).unwrap();
    assert!(headers.fit(Some(&Encryption::Managed)) && headers.user.is_empty());
    *headers.sealed.expect("they are sealed")
}

/// The headers of an object that has these.
fn open(store: &Store, bucket: &Bucket, sealing: &Sealing, sealed: &SealedHeaders) -> Result<ObjectHeaders> {
    let mut put = store.small_put(bucket, "k", b"");
    put.attributes.encryption = sealing.encryption.clone();
    let version = Version {
        bucket: bucket.id,
        key: put.key,
        version_id: orcas_record::VersionId::Null,
        delete_marker: false,
        modified_ms: 0,
        size: 0,
        etag: orcas_checksum::Etag::simple(put.md5),
        sha256: None,
        checksum: None,
        headers: ObjectHeaders { sealed: Some(Box::new(sealed.clone())), ..headers("").split().1 },
        attributes: put.attributes,
        parts: Vec::new(),
        manifest: Vec::new(),
    };
    let found = PinnedObject::new(Arc::new(Object { sequence: 1, version }), store.handle().pin_epoch());
    store.handle().content().headers(&found.with_key(sealing.key.clone())).map(|opened| opened.into_owned())
}

fn is_refused(opened: &Result<ObjectHeaders>) -> bool {
    matches!(opened, Err(Error::Record { reason: "sealed metadata does not match its authentication tag" }))
}

#[test]
fn nothing_that_was_changed_or_exchanged_opens() {
    let store = store();
    let bucket = store.bucket("bkt");
    let open = |sealed: &SealedHeaders| open(&store, &bucket, &managed(), sealed);
    let [one, same, other] = ["Ada", "Ada", "Bob"].map(|value| sealed(&store, &bucket, &managed(), value));
    assert_eq!(open(&one).unwrap(), headers("Ada"));
    assert_eq!(open(&same).unwrap(), headers("Ada"));
    assert!(one.seal.id != same.seal.id && one.bytes != same.bytes);
    assert!(!one.bytes.windows(3).any(|window| window == b"Ada" || window == b"a/b"));
    for bit in 0..one.bytes.len() * 8 {
        let mut bytes = one.bytes.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(is_refused(&open(&SealedHeaders { bytes: bytes.into(), ..one.clone() })), "bit {bit}");
    }
    for length in 0..one.bytes.len() {
        assert!(is_refused(&open(&SealedHeaders { bytes: one.bytes.slice(..length), ..one.clone() })), "{length}");
    }
    // Those of another version, even if they say the same.
    for theirs in [&same, &other] {
        assert!(is_refused(&open(&SealedHeaders { bytes: theirs.bytes.clone(), ..one.clone() })));
        assert!(is_refused(&open(&SealedHeaders { seal: theirs.seal, ..one.clone() })));
    }
    let algorithm = 3 - one.seal.algorithm;
    assert!(is_refused(&open(&SealedHeaders { seal: Seal { algorithm, ..one.seal }, ..one.clone() })));
    let data_key = Seal { data_key: [9; 16], ..one.seal };
    assert!(matches!(open(&SealedHeaders { seal: data_key, ..one }), Err(Error::KeyUnusable { .. })));
}

#[test]
fn content_is_no_metadata() {
    let store = store();
    let bucket = store.bucket("bkt");
    let content = orcas_record::encode_headers(&headers("Ada").split().0);
    let key = store.handle().keys().data_key(&bucket, &managed()).unwrap();
    let (stored, seal) = store.handle().content().seal_whole(&key, &content).unwrap();
    let bytes = Bytes::from(stored).slice(..content.len() + 16);
    assert!(is_refused(&open(&store, &bucket, &managed(), &SealedHeaders { seal, bytes })));
}

#[test]
fn they_are_bound_to_the_store_the_context_and_the_key_of_the_customer() {
    let store = store();
    let bucket = store.bucket("bkt");
    let with = |context: &'static str| {
        let context = context.as_bytes().into();
        Sealing::from(Some(Encryption::Named(Arc::new(NamedKey { id: [0; 16], context, bucket_key: false }))))
    };
    let of = |seed: u8| {
        let key = store.handle().keys().request_key(&[seed; 32]).unwrap();
        Sealing { encryption: Some(store.handle().keys().encryption_with(&key).unwrap()), key: Some(key) }
    };
    let ways = [managed(), with("{\"a\":\"b\"}"), with("{\"a\":\"c\"}"), of(1), of(2)];
    for (at, sealing) in ways.iter().enumerate() {
        let sealed = sealed(&store, &bucket, sealing, "Ada");
        for (other, opening) in ways.iter().enumerate() {
            let opened = open(&store, &bucket, opening, &sealed);
            assert_eq!(opened.is_ok(), at == other, "{at} {other}");
            let no_key = matches!(opened, Err(Error::KeyUnusable { .. } | Error::NamedKeyUnusable { .. }));
            assert!(opened.is_ok() || is_refused(&opened) || no_key, "{opened:?}");
        }
    }
    let theirs = Store::new();
    theirs.handle().keys().set(OneKey::new(8));
    let opened = open(&theirs, &theirs.bucket("bkt"), &managed(), &sealed(&store, &bucket, &managed(), "Ada"));
    assert!(matches!(opened, Err(Error::KeyUnusable { .. })));
    let none = Sealing { key: None, ..of(1) };
    let opened = open(&store, &bucket, &none, &sealed(&store, &bucket, &of(1), "Ada"));
    assert!(matches!(opened, Err(Error::NoCustomerKey)));
}

#[test]
fn what_has_no_metadata_needs_no_key() {
    let store = Store::new();
    let bucket = store.bucket("bkt");
    let visible = headers("").split().1;
    assert_eq!(store.handle().content().sealed_headers(&bucket, &managed(), visible.clone()).unwrap(), visible);
    assert_eq!(store.handle().content().sealed_headers(&bucket, &None.into(), headers("a")).unwrap(), headers("a"));
    let refused = store.handle().content().sealed_headers(&bucket, &managed(), headers("a"));
    assert!(matches!(refused, Err(Error::NoKeyring)));
}

fn put(
    store: &Store,
    bucket: &Bucket,
    key: &str,
    encryption: Option<Encryption>,
    headers: ObjectHeaders,
) -> Result<()> {
    let mut put = store.small_put(bucket, key, b"");
    (put.attributes.encryption, put.headers) = (encryption, headers);
    match store.handle().execute(Intent::PutObject(Box::new(put))) {
        Ok(Outcome::Put(_)) => Ok(()),
        Err(Failure::Engine(error)) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn stored(store: &Store, bucket: &Bucket, key: &'static str) -> PinnedObject {
    store.handle().object(bucket.id, &key.into()).unwrap().unwrap()
}

#[test]
fn the_committer_takes_none_in_the_clear() {
    let store = store();
    let bucket = store.bucket("bkt");
    let unlike = |refused| matches!(refused, Err(Error::Record { reason }) if reason.contains("headers"));
    assert!(unlike(put(&store, &bucket, "k", Some(Encryption::Managed), headers("Ada"))));
    let sealed = store.handle().content().sealed_headers(&bucket, &managed(), headers("Ada")).unwrap();
    assert!(unlike(put(&store, &bucket, "k", None, sealed.clone())));
    put(&store, &bucket, "k", Some(Encryption::Managed), sealed).unwrap();
    assert_eq!(*store.handle().content().headers(&stored(&store, &bucket, "k")).unwrap(), headers("Ada"));
    // Prepared for a source that was not encrypted, or is not.
    put(&store, &bucket, "plain", None, headers("Ada")).unwrap();
    let prepared = store.handle().content().sealed_headers(&bucket, &managed(), headers("Bob")).unwrap();
    for (source, headers) in [("k", headers("Bob")), ("plain", prepared)] {
        let mut copy = copy(&bucket, source, &bucket).copy;
        copy.headers = CopyHeaders::Replace(Box::new(headers));
        let decided = store.handle().execute(Intent::CopyObject(Box::new(copy)));
        assert!(matches!(decided, Err(Failure::Refused(Refusal::SourceChanged))), "{source}");
    }
}

#[test]
fn copies_take_them_along_and_owners_share_none() {
    let store = store();
    let (mine, theirs) = (store.bucket("mine"), store.bucket_of("theirs", "somebody"));
    let sealed = store.handle().content().sealed_headers(&mine, &managed(), headers("Ada")).unwrap();
    put(&store, &mine, "k", Some(Encryption::Managed), sealed).unwrap();
    let original = stored(&store, &mine, "k").object.version.headers.sealed.clone();
    for (to, same) in [(&mine, true), (&theirs, false)] {
        assert!(matches!(crate::run_copy(store.handle().copy_object(&copy(&mine, "k", to))), Ok(Outcome::Put(_))));
        let found = stored(&store, to, "copy");
        assert_eq!(found.object.version.headers.sealed == original, same);
        // Neither a redirect nor a storage class is copied.
        let expected = headers("Ada").split().0;
        assert_eq!(*store.handle().content().headers(&found).unwrap(), expected);
        let mut replacing = copy(&mine, "k", to);
        replacing.copy.headers = CopyHeaders::Replace(Box::new(headers("Bob")));
        assert!(matches!(crate::run_copy(store.handle().copy_object(&replacing)), Ok(Outcome::Put(_))));
        assert_eq!(*store.handle().content().headers(&stored(&store, to, "copy")).unwrap(), headers("Bob"));
    }
}
