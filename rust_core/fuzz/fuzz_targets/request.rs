//! Request heads as text: addresses, query strings, and everything that is read from parameters and headers. Names
//! decode once and survive being encoded again, numbers stay within the limits of S3, and no line of a response can be
//! forged.
#![cfg_attr(fuzzing, no_main)]

use orcas_fuzz::{Request, bounded, fuzz_target};
use orcas_http::{Headers, Query, RequestHead, percent_decode, percent_encode_into};
use orcas_s3::annotations;
use orcas_s3::checksums::{CompleteChecksum, DeclaredChecksum, UploadChecksum, copy_algorithm};
use orcas_s3::conditions::{ReadConditions, WriteCondition};
use orcas_s3::encryption::{Asked, CustomerKey, Method, show_named};
use orcas_s3::header_block::HeaderBlock;
use orcas_s3::headers::Overrides;
use orcas_s3::metadata::{
    BodyLength, MetadataDirective, ObjectHeaders, UPLOAD_LEN_MAX, USER_METADATA_LEN_MAX, content_md5,
    multipart_object_size,
};
use orcas_s3::object_lock::LockHeaders;
use orcas_s3::query::{
    BUCKETS_LEN_MAX, Continuation, ListBucketsQuery, ListObjectsQuery, ListObjectsV2Query, ListPartsQuery,
    ListUploadsQuery, PAGE_LEN_MAX, UPLOAD_ID_LEN_MAX, hoisted_headers, part_address,
};
use orcas_s3::range::{PART_NUMBER_MAX, Span, copy_source_range, span};
use orcas_s3::resolve::resolve;
use orcas_s3::tags::{self, TaggingDirective};
use orcas_s3::target::{CopySource, KEY_LEN_MAX, once_valid_bucket_name};
use orcas_s3::{S3Error, Target};

/// Allocated bytes for each byte of a head, over all that is read from it here.
const GROWTH_MAX: usize = 512;
const ANY_MAX: usize = 64 * 1024;

fn encoded(raw: &[u8], keep_slash: bool) -> Vec<u8> {
    let mut out = Vec::new();
    percent_encode_into(&mut out, raw, keep_slash);
    out
}

fn check_name(bucket: &str, key: &[u8]) {
    assert!(once_valid_bucket_name(bucket), "{bucket}");
    assert!((1..=KEY_LEN_MAX).contains(&key.len()) && std::str::from_utf8(key).is_ok());
}

fn address(head: &RequestHead<'_>) -> Option<Target> {
    if let Some(decoded) = percent_decode(head.path) {
        assert!(decoded.len() <= head.path.len());
        assert_eq!(percent_decode(&encoded(&decoded, true)), Some(decoded));
    }
    let host = head.headers.get("host").unwrap_or_default();
    let domains = ["s3.example.com".to_owned()];
    let target = Target::parse(head.path, host, &domains).ok()?;
    let hosted = orcas_s3::target::hosted_bucket(host, &domains);
    if let Some(key) = target.key() {
        check_name(target.bucket().expect("an object has a bucket"), key);
        let bucket = hosted.is_none().then(|| format!("{}/", target.bucket().unwrap_or_default()));
        let path = [b"/", bucket.unwrap_or_default().as_bytes(), &encoded(key, true)].concat();
        assert_eq!(Target::parse(&path, host, &domains).as_ref(), Ok(&target));
    }
    Some(target)
}

/// A query that was decoded survives being encoded again.
fn query(head: &RequestHead<'_>) -> Option<Query> {
    let query = Query::parse(head.query)?;
    let pairs: Vec<Vec<u8>> =
        query.iter().map(|(name, value)| [encoded(name, false), encoded(value, false)].join(&b'=')).collect();
    assert_eq!(Query::parse(&pairs.join(&b'&')).as_ref(), Some(&query));
    Some(query)
}

fn listings(query: &Query) {
    if let Ok(list) = ListObjectsQuery::parse(query) {
        assert!(list.keys.max <= PAGE_LEN_MAX);
    }
    if let Ok(list) = ListObjectsV2Query::parse(query) {
        assert!(list.keys.max <= PAGE_LEN_MAX);
        if let Some(Continuation { after, .. }) = list.continuation.filter(|token| !token.after.is_empty()) {
            let sent = encoded(Continuation::token_after(&after).as_bytes(), false);
            let again = Query::parse(&[b"continuation-token=", &sent[..]].concat()).expect("it is encoded");
            let again = ListObjectsV2Query::parse(&again).expect("a token of this server");
            assert_eq!(again.continuation.expect("it was sent").after, after);
        }
    }
    if let Ok(list) = ListUploadsQuery::parse(query) {
        assert!(list.keys.max <= PAGE_LEN_MAX);
    }
    if let Ok(list) = ListBucketsQuery::parse(query) {
        assert!(list.max.unwrap_or_default() <= BUCKETS_LEN_MAX);
    }
    drop(ListPartsQuery::parse(query));
    if let Ok((number, upload)) = part_address(query) {
        assert!((1..=PART_NUMBER_MAX).contains(&number));
        assert!((1..=UPLOAD_ID_LEN_MAX).contains(&upload.len()));
    }
    drop(Overrides::parse(query));
}

fn ranges(headers: &Headers<'_>, size: u64) {
    let value = headers.get("range");
    match span(value, size) {
        Span::Part { first, last } => assert!(first <= last && last < size),
        Span::Whole => {}
        Span::Unsatisfiable => assert!(value.is_some()),
    }
    if let Some(Ok((first, last))) = value.map(|value| copy_source_range(value, size)) {
        assert!(first <= last && last < size);
        assert_eq!(span(value, size), Span::Part { first, last });
    }
}

/// What is stored of the headers comes back in lines of its own.
fn metadata(headers: &Headers<'_>) {
    let Ok(stored) = ObjectHeaders::parse(headers) else { return };
    let user: usize = stored.user.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert!(user <= USER_METADATA_LEN_MAX);
    let mut block = HeaderBlock::new();
    for (name, value) in &stored.user {
        assert!(block.push_prefixed("x-amz-meta-", name, value));
    }
    if let Some(value) = &stored.content_type {
        block.push("content-type", value);
    }
    assert!(!block.is_flawed());
    let mut lines = Vec::new();
    block.write_lines(&mut lines);
    let count = stored.user.len() + usize::from(stored.content_type.is_some());
    assert_eq!(lines.iter().filter(|byte| **byte == b'\n').count(), count);
}

fn sources(headers: &Headers<'_>) -> Result<(), S3Error> {
    for (_, value) in headers.iter() {
        if let Ok(source) = CopySource::parse("x-amz-copy-source", value) {
            check_name(&source.bucket, &source.key);
            let whole = [source.bucket.as_bytes(), b"/", &source.key].concat();
            let current = CopySource { version: None, ..source };
            assert_eq!(CopySource::parse("x-amz-copy-source", &encoded(&whole, true))?, current);
        }
        if let Ok(source) = CopySource::parse_rename("x-amz-rename-source", "bucket", value) {
            assert!((1..=KEY_LEN_MAX).contains(&source.key.len()));
        }
    }
    Ok(())
}

fn declarations(headers: &Headers<'_>) {
    if let Ok(length) = BodyLength::parse(headers) {
        for chunked in [false, true] {
            assert!(length.of_content(headers, chunked).unwrap_or_default() <= UPLOAD_LEN_MAX);
        }
    }
    drop((DeclaredChecksum::parse(headers), UploadChecksum::parse(headers), CompleteChecksum::parse(headers)));
    drop((copy_algorithm(headers), MetadataDirective::parse(headers), multipart_object_size(headers)));
    drop((LockHeaders::parse(headers), TaggingDirective::parse(headers), tags::of_header(headers)));
    drop((annotations::object_condition(headers), annotations::copies_annotations(headers)));
    drop((content_md5(headers), WriteCondition::parse(headers), ReadConditions::of_read(headers)));
}

/// How an object is to be encrypted. A context that was read is shown as it can be sent again.
fn encryption(headers: &Headers<'_>) {
    let asked = Asked::parse(headers).ok();
    assert_eq!(asked.as_ref(), Asked::parse(headers).ok().as_ref());
    for key in [CustomerKey::parse(headers), CustomerKey::of_source(headers)].into_iter().flatten().flatten() {
        let mut block = HeaderBlock::new();
        key.shown().show(&mut block);
        assert!(!block.is_flawed());
    }
    let Some(Asked { method: Some(Method::Named { context, .. }), bucket_key }) = asked else { return };
    assert!(context.is_empty() || std::str::from_utf8(&context).is_ok());
    let mut block = HeaderBlock::new();
    show_named(&mut block, "arn:aws:kms:::key/k", Some(&context), bucket_key.unwrap_or_default());
    assert!(!block.is_flawed());
    let lines: Vec<(&[u8], &[u8])> = block.iter().map(|(name, value)| (name.as_bytes(), value)).collect();
    let again = Asked::parse(&Headers::new(&lines)).expect("what is shown can be sent");
    assert!(matches!(again.method, Some(Method::Named { context: ref shown, .. }) if *shown == context));
}

/// The name of an annotation that can be written is text, and is answered as XML.
fn annotation(query: &Query) {
    let name = annotations::name_in(query);
    if annotations::check_name(name).is_ok() {
        assert!((1..=512).contains(&name.len()) && std::str::from_utf8(name).is_ok());
        let answer = annotations::written(b"key", name);
        assert!(answer.windows(name.len()).any(|window| window == name), "nothing of it needs to be escaped");
    }
}

fn read(head: &RequestHead<'_>) {
    let target = address(head);
    let query = query(head);
    if let (Some(target), Some(query)) = (&target, &query) {
        let operation = resolve(head.method, target, query, &head.headers);
        assert_eq!(operation, resolve(head.method, target, query, &head.headers));
    }
    if let Some(query) = &query {
        listings(query);
        annotation(query);
        for (name, _) in hoisted_headers(query, &head.headers, &["content-type"]) {
            assert!(!head.headers.iter().any(|(sent, _)| sent == name), "a header that was sent stands before it");
        }
    }
    for size in [0, 1, 1000, u64::MAX] {
        ranges(&head.headers, size);
    }
    metadata(&head.headers);
    declarations(&head.headers);
    encryption(&head.headers);
    sources(&head.headers).expect("what was decoded can be encoded");
}

fuzz_target!(|data: &[u8]| {
    let request = Request::parse(data);
    bounded(GROWTH_MAX * data.len() + ANY_MAX, || request.with_head(read));
});
