//! Pages against a model, while the applier moves records from the overlay into the index.

use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::support::Store;
use orcas_catalog::{ListEntry, ListObjects, ListPage, Listed};
use orcas_record::BucketId;

/// The page as the specification has it, from all keys.
fn model(keys: &BTreeSet<Vec<u8>>, list: &ListObjects) -> ListPage {
    let mut page = ListPage::default();
    let (mut last, mut full) = (None, false);
    for key in keys.iter().filter(|key| key.starts_with(&list.prefix)) {
        let delimiter = list.delimiter.as_ref();
        let rolled = delimiter.and_then(|delimiter| {
            let rest = &key[list.prefix.len()..];
            let at = rest.windows(delimiter.len()).position(|window| window == &delimiter[..])?;
            Some(Bytes::copy_from_slice(&key[..list.prefix.len() + at + delimiter.len()]))
        });
        if let Some(after) = &list.after {
            let behind = key[..] <= after[..] || rolled.as_ref() == Some(after);
            if behind {
                continue;
            }
        }
        if rolled.is_some() && rolled.as_ref() == page.prefixes.last() {
            continue;
        }
        if full {
            page.next = last;
            break;
        }
        last = Some(rolled.clone().unwrap_or_else(|| Bytes::copy_from_slice(key)));
        match rolled {
            Some(prefix) => page.prefixes.push(prefix),
            None => {
                let etag = orcas_checksum::Etag::simple([0; 16]);
                let listed = Listed { modified_ms: 0, size: 0, etag, checksum: None, class: None };
                page.entries.push(ListEntry { key: Bytes::copy_from_slice(key), listed });
            }
        }
        full = page.entries.len() + page.prefixes.len() == list.max_keys;
    }
    page
}

fn key() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[ab/]{1,6}").unwrap()
}

fn pages(store: &Store, bucket: BucketId, keys: &BTreeSet<Vec<u8>>, list: &ListObjects) {
    let mut list = ListObjects { bucket, ..list.clone() };
    loop {
        let page = store.handle().list_objects(&list).unwrap();
        let expected = model(keys, &list);
        let names = |page: &ListPage| page.entries.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>();
        assert_eq!(names(&page), names(&expected), "{list:?}");
        assert_eq!(page.prefixes, expected.prefixes, "{list:?}");
        assert_eq!(page.next, expected.next, "{list:?}");
        list.after = page.next;
        if list.after.is_none() {
            return;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_page_is_the_page_of_the_model(
        first in proptest::collection::vec((key(), any::<bool>()), 1..60),
        second in proptest::collection::vec((key(), any::<bool>()), 0..40),
        lists in proptest::collection::vec(
            (key(), 0usize..3, proptest::option::of(prop_oneof![Just("/"), Just("ab"), Just("a")]),
             proptest::option::of(key()), 1usize..5),
            1..12,
        ),
    ) {
        let mut store = Store::new();
        let bucket = store.bucket("b");
        let mut keys = BTreeSet::new();
        let mut apply = |store: &Store, changes: &[(String, bool)]| {
            for (key, put) in changes {
                if *put {
                    store.put(&bucket, key, b"x").unwrap();
                    keys.insert(key.clone().into_bytes());
                } else {
                    store.delete(&bucket, key).unwrap();
                    keys.remove(key.as_bytes());
                }
            }
            keys.clone()
        };
        // The first changes are in the index, the second mostly in the overlay.
        apply(&store, &first);
        store.reopen();
        let keys = apply(&store, &second);
        for (prefix, cut, delimiter, after, max_keys) in lists {
            let prefix = Bytes::from(prefix.into_bytes().into_iter().take(cut).collect::<Vec<_>>());
            let list = ListObjects {
                bucket: bucket.id,
                prefix,
                delimiter: delimiter.map(|delimiter| Bytes::from_static(delimiter.as_bytes())),
                after: after.map(Bytes::from),
                max_keys,
            };
            pages(&store, bucket.id, &keys, &list);
        }
    }
}
