//! Sealing uploads that are not completed: clients see no change, and go on.

use super::super::super::{CopyPartRequest, Left};
use super::super::sealing::OneKey;
use super::super::sealing::stored::{has, key, pieces};
use super::super::support::{Store, noise};
use orcas_catalog::ListParts;
use orcas_checksum::Etag;
use orcas_decide::{Failure, Intent, Outcome, Refusal, SourceConditions};
use orcas_fsck::{CheckOptions, CheckProgress};
use orcas_record::{Bucket, Encryption, ObjectHeaders, Part, UploadId};

/// What a client sees of the parts of an upload.
fn parts(store: &Store, upload: UploadId) -> Vec<Part> {
    let page = store.handle().list_parts(ListParts { upload, after: 0, max_parts: 1_000 }).unwrap();
    page.entries.iter().map(|part| Part { manifest: Vec::new(), ..Part::clone(part) }).collect()
}

fn create_upload_with(store: &Store, bucket: &Bucket, of: &str, headers: ObjectHeaders) -> UploadId {
    let (headers, attributes) = (Box::new(headers), Default::default());
    let create = Intent::CreateUpload { bucket: bucket.id, key: key(of), headers, attributes, checksum: None };
    match store.handle().execute(create) {
        Ok(Outcome::Upload(id)) => id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn incomplete_uploads_are_sealed_and_go_on() {
    let mut store = Store::new();
    let bucket = store.bucket("b");
    let contents = [noise(5 << 20, 1), noise(100, 2), noise(3_000, 3), noise(70_000, 4), noise(2_000, 5)];
    let headers = ObjectHeaders {
        content_type: Some("text/some".into()),
        user: vec![("a".into(), "secret-of-a".into())],
        ..Default::default()
    };
    let long = create_upload_with(&store, &bucket, "long", headers.clone());
    let named = [0, 1].map(|at| store.put_part(&bucket, "long", long, at as u16 + 1, &contents[at]));
    let short = store.create_upload(&bucket, "short");
    store.put_part(&bucket, "short", short, 7, &contents[2]);
    let of_short = store.put_part(&bucket, "short", short, 7, &contents[3]);
    let others: Vec<_> = (0..4).map(|_| store.create_upload(&bucket, "empty")).collect();
    store.put(&bucket, "object", &contents[4]).unwrap();
    // Applied, so that some of it is in the index only.
    store.reopen();
    store.handle().keys().set(OneKey::new(7));
    let of_empty = store.put_part(&bucket, "empty", others[0], 1, &contents[2]);
    // More than are listed at a time.
    for number in 1..=4 {
        store.put_part(&bucket, "empty", others[1], number, &contents[2]);
    }
    let all = [long, short].into_iter().chain(others.iter().copied()).collect::<Vec<_>>();
    let before: Vec<_> = all.iter().map(|upload| parts(&store, *upload)).collect();
    let report = store.seal_stored();
    assert_eq!((report.uploads, report.versions, report.left), (6, 1, Left::default()), "{report:?}");
    for _ in 0..2 {
        assert_eq!(all.iter().map(|upload| parts(&store, *upload)).collect::<Vec<_>>(), before);
        for id in &all {
            let upload = store.handle().shared.catalog.open_upload(*id).unwrap().unwrap();
            assert_eq!(upload.attributes.encryption, Some(Encryption::Managed));
            assert_eq!(upload.headers.sealed.is_some(), *id == long);
        }
        store.close();
        for piece in contents.iter().flat_map(|content| pieces(content)).chain([&b"secret-of-a"[..]]) {
            assert!(!has(store.path(), piece));
        }
        store.open();
        store.check_rebuild();
        store.handle().keys().set(OneKey::new(7));
    }
    let options = CheckOptions { read_content: true, threads: 1, bytes_per_sec: 0 };
    let report = store.handle().check(&options, &CheckProgress::default()).unwrap();
    assert!(report.is_clean(), "{report:#?}");
    // Nothing is left to do.
    let report = store.seal_stored();
    assert_eq!((report.uploads, report.versions, report.left), (0, 0, Left::default()), "{report:?}");
    let late = store.try_put_part(&bucket, "short", short, 8, b"late");
    assert!(matches!(late, Err(Failure::Refused(Refusal::UploadSealed))), "{late:?}");
    store.complete(&bucket, "long", long, &named).unwrap();
    store.complete(&bucket, "short", short, &[of_short]).unwrap();
    let completed = store.complete(&bucket, "empty", others[0], &[of_empty]).unwrap();
    // The answer is still there for who repeats the request.
    assert_eq!(store.complete(&bucket, "empty", others[0], &[of_empty]).unwrap(), completed);
    assert_eq!(Some(completed.etag), Etag::multipart([&of_empty.1]));
    for (key, content) in [("long", contents[..2].concat()), ("short", contents[3].clone())] {
        assert!(store.get(&bucket, key).unwrap() == Some(content), "{key}");
    }
    let found = store.handle().object(bucket.id, &key("long")).unwrap().unwrap();
    assert_eq!(found.object.version.attributes.encryption, Some(Encryption::Managed));
    assert_eq!(*store.handle().content().headers(&found).unwrap(), headers);
}

#[test]
fn an_upload_that_was_sealed_takes_copies_of_parts() {
    let store = Store::new();
    store.handle().keys().set(OneKey::new(7));
    let bucket = store.bucket("b");
    store.put(&bucket, "source", &noise(3_000, 1)).unwrap();
    let upload = store.create_upload(&bucket, "k");
    assert_eq!(store.seal_stored().uploads, 1);
    store.put(&bucket, "plain", &noise(2_000, 2)).unwrap();
    for (number, source) in [(1, "source"), (2, "plain")] {
        let request = CopyPartRequest {
            source: (bucket.id, key(source), None),
            source_conditions: SourceConditions::default(),
            range: None,
            bucket: bucket.id,
            key: key("k"),
            upload,
            number,
            keys: Default::default(),
        };
        let copied = crate::run_copy(store.handle().copy_part(&request));
        assert!(matches!(copied, Ok(Outcome::Part(_))), "{copied:?}");
    }
    assert_eq!(parts(&store, upload).iter().map(|part| part.size).collect::<Vec<_>>(), [3_000, 2_000]);
}
