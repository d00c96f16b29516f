//! Pages of ListMultipartUploads against a model, and what a page costs.

use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::support::Store;
use orcas_catalog::{ListUploads, UploadPage};
use orcas_record::{BucketId, UploadId};

type Uploads = BTreeSet<(Bytes, UploadId)>;

fn rolled(key: &Bytes, list: &ListUploads) -> Option<Bytes> {
    let delimiter = list.delimiter.as_ref()?;
    let rest = &key[list.prefix.len()..];
    let at = rest.windows(delimiter.len()).position(|window| window == &delimiter[..])?;
    Some(key.slice(..list.prefix.len() + at + delimiter.len()))
}

/// Entries and common prefixes of all pages together.
fn model(uploads: &Uploads, list: &ListUploads) -> (Vec<(Bytes, UploadId)>, Vec<Bytes>) {
    let (mut entries, mut prefixes) = (Vec::new(), Vec::<Bytes>::new());
    for (key, id) in uploads.iter().filter(|(key, _)| key.starts_with(&list.prefix)) {
        match rolled(key, list) {
            Some(prefix) if prefixes.last() == Some(&prefix) => {}
            Some(prefix) => prefixes.push(prefix),
            None => entries.push((key.clone(), *id)),
        }
    }
    (entries, prefixes)
}

fn pages(store: &Store, list: &ListUploads) -> (Vec<(Bytes, UploadId)>, Vec<Bytes>) {
    let (mut entries, mut prefixes) = (Vec::new(), Vec::new());
    let mut list = list.clone();
    loop {
        let UploadPage { entries: page, prefixes: rolled, truncated, last } =
            store.handle().list_uploads(&list).unwrap();
        assert!(page.len() + rolled.len() <= list.max_uploads);
        entries.extend(page.iter().map(|upload| (upload.key.clone(), upload.id)));
        prefixes.extend(rolled);
        if !truncated {
            return (entries, prefixes);
        }
        let (key, id) = last.expect("a page that is not the last has a last entry");
        (list.after_key, list.after_upload) = (Some(key), id);
    }
}

fn list(bucket: BucketId, prefix: &str, delimiter: Option<&'static str>, max_uploads: usize) -> ListUploads {
    ListUploads {
        bucket,
        prefix: Bytes::copy_from_slice(prefix.as_bytes()),
        delimiter: delimiter.map(Bytes::from),
        after_key: None,
        after_upload: None,
        max_uploads,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn pages_together_are_the_uploads_of_the_model(
        stored in proptest::collection::vec("[ab/]{1,4}", 1..80),
        recent in proptest::collection::vec("[ab/]{1,4}", 0..30),
        lists in proptest::collection::vec(
            ("[ab/]{0,2}", proptest::option::of(prop_oneof![Just("/"), Just("ab"), Just("a")]), 1usize..5),
            1..8,
        ),
    ) {
        let mut store = Store::new();
        let bucket = store.bucket("b");
        let mut uploads = Uploads::new();
        let mut create = |store: &Store, keys: &[String]| {
            for key in keys {
                uploads.insert((Bytes::copy_from_slice(key.as_bytes()), store.create_upload(&bucket, key)));
            }
            uploads.clone()
        };
        create(&store, &stored);
        store.reopen();
        let uploads = create(&store, &recent);
        for (prefix, delimiter, max_uploads) in lists {
            let list = list(bucket.id, &prefix, delimiter, max_uploads);
            prop_assert_eq!(pages(&store, &list), model(&uploads, &list), "{:?}", list);
        }
    }
}

/// The uploads of a common prefix are sought past, not walked.
#[test]
fn a_common_prefix_costs_the_same_however_many_uploads_it_has() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    for number in 0..2_100 {
        store.create_upload(&bucket, &format!("many/{number}"));
    }
    store.create_upload(&bucket, "few");
    store.create_upload(&bucket, "zero/1");
    store.reopen();
    let handle = store.handle();
    let reads = || {
        let connections = handle.health().pools.connections;
        connections.hits + connections.misses
    };
    let list = list(bucket.id, "", Some("/"), 1000);
    let cost = || {
        let before = reads();
        let page = handle.list_uploads(&list).unwrap();
        assert_eq!(page.entries.len(), 1);
        assert_eq!(page.prefixes, ["many/", "zero/"]);
        reads() - before
    };
    // Threads of the store read the index too, now and then.
    let least = (0..5).map(|_| cost()).min();
    assert_eq!(least, Some(2), "one before the seek, one behind it");
}
