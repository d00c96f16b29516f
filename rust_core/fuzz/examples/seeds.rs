//! Writes the seeds in `corpus`: what the encoders of this version write, and requests as clients send them.
//!
//! `make fuzz-seeds` runs it. Seeds that were written before are replaced; found inputs are kept elsewhere.

use std::path::Path;

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use orcas_checksum::{Checksum, ChecksumAlgorithm, ChecksumType, Etag, ObjectChecksum, base64_encode};
use orcas_events::json::{Context, write_records};
use orcas_events::sse::write_event;
use orcas_events::{Event, EventName, Place};
use orcas_fuzz::{ACCESS_KEY, NOW_S, Request, SECRET};
use orcas_http::percent_encode_into;
use orcas_record::*;
use orcas_shared_log::objects::Head;
use orcas_shared_log::{Cursor, Entry, EntryId, NodeId, Snapshot};
use orcas_sigv4::Signer;
use sha1::Sha1;

#[allow(dead_code, reason = "tests of the crate need more of it")]
#[path = "../../crates/record/src/tests/samples.rs"]
mod samples;

#[allow(dead_code, reason = "the nodes of a cluster use more of it")]
#[path = "../../crates/cluster/src/change.rs"]
mod change;
#[allow(dead_code, reason = "the stores of shared logs use more of it")]
#[path = "../../crates/log_stores/src/format.rs"]
mod format;

use change::Change;

/// Seeds by target and name.
type Seeds = Vec<(&'static str, String, Vec<u8>)>;

/// One record of every kind, the longest of several.
fn records(seeds: &mut Seeds) {
    let mut encoded: Vec<Vec<u8>> = Vec::new();
    for record in samples::samples() {
        let mut payload = vec![0];
        payload[0] = encode(&record, &mut payload);
        match encoded.iter_mut().find(|known| known[0] == payload[0]) {
            Some(known) if known.len() < payload.len() => *known = payload,
            Some(_) => {}
            None => encoded.push(payload),
        }
    }
    seeds.extend(encoded.into_iter().map(|payload| ("record", format!("kind-{:02}", payload[0]), payload)));
}

const GET: &str = "GET /photos/2026/a%20b.jpg?versionId=null&response-content-type=text%2Fplain\nhost: localhost:9000\n\
                   range: bytes=0-99\nif-none-match: \"d41d8cd98f00b204e9800998ecf8427e\"\n\
                   x-amz-checksum-mode: ENABLED\n";
const PUT: &str = "PUT /photos/%C3%A9/k\nhost: localhost:9000\ncontent-length: 4\ncontent-type: text/plain\n\
                   content-md5: hBotaJrYa9FhFEdFPCLG/g==\nx-amz-checksum-crc32c: yZRlqg==\nx-amz-meta-color: blue\n\
                   if-match: *\n";
const LIST: &str = "GET /?list-type=2&prefix=a%2F&delimiter=%2F&max-keys=7&encoding-type=url&fetch-owner=true&\
                    continuation-token=AcmUZaph\nhost: photos.s3.example.com\n";
const LIST_ONE: &str = "GET /photos?prefix=a&marker=b&max-keys=1000\nhost: localhost\n";
const BUCKETS: &str = "GET /?max-buckets=20&prefix=p\nhost: s3.example.com:443\n";
const UPLOADS: &str = "GET /photos?uploads&key-marker=a&upload-id-marker=b\nhost: localhost\n";
const COPY: &str = "PUT /photos/to?partNumber=3&uploadId=0123456789abcdef\nhost: localhost\n\
                    x-amz-copy-source: /photos/from%2Fhere+there?versionId=null\nx-amz-copy-source-range: bytes=5-9\n\
                    x-amz-copy-source-if-match: \"d41d8cd98f00b204e9800998ecf8427e\"\n";
const CREATE_UPLOAD: &str = "POST /photos/k?uploads\nhost: localhost\nx-amz-checksum-algorithm: CRC64NVME\n\
                             x-amz-checksum-type: FULL_OBJECT\ncache-control: no-store\n";
const COMPLETE: &str = "POST /photos/k?uploadId=0123456789abcdef\nhost: localhost\nx-amz-mp-object-size: 10485760\n\
                        if-none-match: *\nx-amz-checksum-type: COMPOSITE\n";
const RENAME: &str = "PUT /photos/new?renameObject\nhost: localhost\nx-amz-rename-source: old\n";
const ENCRYPTED: &str = "PUT /photos/k?annotation&annotationName=caf%C3%A9\nhost: localhost\n\
                         x-amz-server-side-encryption: aws:kms\nx-amz-server-side-encryption-bucket-key-enabled: true\n\
                         x-amz-server-side-encryption-aws-kms-key-id: name\n\
                         x-amz-server-side-encryption-context: eyJhIjoiYiJ9\nx-amz-object-if-match: *\n\
                         x-amz-object-annotation-directive: EXCLUDE\n";
const CUSTOMER: &str = "GET /photos/k?annotation&annotationName=a-1.b_\nhost: localhost\n\
                        x-amz-server-side-encryption-customer-algorithm: AES256\n\
                        x-amz-server-side-encryption-customer-key: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\
                        x-amz-server-side-encryption-customer-key-md5: cLyPS3KoaSFGi/joRB3OUQ==\n\
                        x-amz-copy-source-server-side-encryption-customer-algorithm: AES256\n\
                        x-amz-copy-source-server-side-encryption-customer-key: \
                        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\
                        x-amz-copy-source-server-side-encryption-customer-key-md5: cLyPS3KoaSFGi/joRB3OUQ==\n";

fn requests(seeds: &mut Seeds) {
    let all = [
        ("get", GET),
        ("put", PUT),
        ("list", LIST),
        ("list-one", LIST_ONE),
        ("buckets", BUCKETS),
        ("uploads", UPLOADS),
        ("copy", COPY),
        ("create-upload", CREATE_UPLOAD),
        ("complete", COMPLETE),
        ("rename", RENAME),
        ("encrypted", ENCRYPTED),
        ("customer", CUSTOMER),
    ];
    seeds.extend(all.map(|(name, text)| ("request", name.to_owned(), text.into())));
}

/// What buckets are configured with.
const CONFIGURATIONS: [(&str, &str); 6] = [
    (
        "lifecycle",
        "<LifecycleConfiguration><Rule><ID>a</ID><Filter><And><Prefix>p/</Prefix><Tag><Key>k</Key><Value>v</Value></Tag>\
         <ObjectSizeGreaterThan>10</ObjectSizeGreaterThan><ObjectSizeLessThan>20</ObjectSizeLessThan></And></Filter>\
         <Status>Enabled</Status><Expiration><Days>3</Days></Expiration><NoncurrentVersionExpiration><NoncurrentDays>4\
         </NoncurrentDays><NewerNoncurrentVersions>5</NewerNoncurrentVersions></NoncurrentVersionExpiration></Rule><Rule>\
         <Filter/><Status>Disabled</Status><AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation>\
         </AbortIncompleteMultipartUpload></Rule></LifecycleConfiguration>",
    ),
    (
        "lifecycle-old",
        "<LifecycleConfiguration><Rule><Prefix>p/</Prefix><Status>Enabled</Status><Expiration><Date>2030-01-01T00:00:00Z\
         </Date></Expiration></Rule></LifecycleConfiguration>",
    ),
    (
        "website",
        "<WebsiteConfiguration><IndexDocument><Suffix>index.html</Suffix></IndexDocument><ErrorDocument><Key>e</Key>\
         </ErrorDocument><RoutingRules><RoutingRule><Condition><KeyPrefixEquals>a/</KeyPrefixEquals>\
         <HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals></Condition><Redirect><Protocol>https</Protocol>\
         <HostName>h</HostName><ReplaceKeyPrefixWith>b/</ReplaceKeyPrefixWith><HttpRedirectCode>302</HttpRedirectCode>\
         </Redirect></RoutingRule></RoutingRules></WebsiteConfiguration>",
    ),
    (
        "website-redirect",
        "<WebsiteConfiguration><RedirectAllRequestsTo><HostName>h</HostName><Protocol>http</Protocol>\
         </RedirectAllRequestsTo></WebsiteConfiguration>",
    ),
    (
        "encryption",
        "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>aws:kms</SSEAlgorithm>\
         <KMSMasterKeyID>name</KMSMasterKeyID></ApplyServerSideEncryptionByDefault><BucketKeyEnabled>true\
         </BucketKeyEnabled></Rule></ServerSideEncryptionConfiguration>",
    ),
    (
        "logging",
        "<BucketLoggingStatus><LoggingEnabled><TargetBucket>logs</TargetBucket><TargetPrefix>p/</TargetPrefix>\
         <TargetObjectKeyFormat><PartitionedPrefix><PartitionDateSource>EventTime</PartitionDateSource></PartitionedPrefix>\
         </TargetObjectKeyFormat></LoggingEnabled></BucketLoggingStatus>",
    ),
];

fn documents(seeds: &mut Seeds) {
    const TAG: &str = "d41d8cd98f00b204e9800998ecf8427e";
    let all = [
        (
            "delete",
            format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                 <Object><Key> a&amp;b&#x9;&#10;</Key></Object><Object><Key>c</Key><VersionId>null</VersionId>\
                 <ETag>\"{TAG}\"</ETag></Object><Quiet>true</Quiet></Delete>"
            ),
        ),
        (
            "forbidden",
            "<Delete><Object x='&#x20;'><Key>a\u{1}b\u{ffff}&#x10;&#xFFFE;</Key></Object></Delete>".to_owned(),
        ),
        (
            "complete",
            format!(
                "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{TAG}</ETag></Part><Part>\
                 <ETag>&quot;{TAG}&quot;</ETag><PartNumber>10000</PartNumber><ChecksumCRC32>y/Q5Jg==</ChecksumCRC32>\
                 </Part></CompleteMultipartUpload>"
            ),
        ),
        (
            "acl",
            "<AccessControlPolicy xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Owner><ID>0a</ID></Owner>\
             <AccessControlList><Grant><Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
             xsi:type=\"CanonicalUser\"><ID> 0b </ID></Grantee><Permission>READ_ACP</Permission></Grant><Grant><Grantee>\
             <URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee><Permission>FULL_CONTROL</Permission>\
             </Grant></AccessControlList></AccessControlPolicy>"
                .to_owned(),
        ),
        (
            "notification",
            "<NotificationConfiguration><QueueConfiguration><Queue>arn:aws:sqs:::hook</Queue><Event>s3:ObjectCreated:*\
             </Event><Filter><S3Key><FilterRule><Name>prefix</Name><Value>a+b%2F</Value></FilterRule></S3Key></Filter>\
             </QueueConfiguration></NotificationConfiguration>"
                .to_owned(),
        ),
        (
            "region",
            "<x:CreateBucketConfiguration xmlns:x='u'><!-- c --><x:LocationConstraint> eu-west-1 <![CDATA[<]]>\
             </x:LocationConstraint></x:CreateBucketConfiguration>"
                .to_owned(),
        ),
    ];
    seeds.extend(all.map(|(name, text)| ("documents", name.to_owned(), text.into_bytes())));
    seeds.extend(CONFIGURATIONS.map(|(name, text)| ("documents", name.to_owned(), text.into())));
}

/// A request with the control bytes of the target in front: not to be signed, and no change.
fn verified(name: &str, request: &Request) -> (&'static str, String, Vec<u8>) {
    ("signature", name.to_owned(), [&[0, 0, 0, 0][..], &request.to_text()].concat())
}

/// Requests that are signed, in each of the three ways, and one to be signed by the target.
fn signatures(seeds: &mut Seeds) {
    let signer = Signer::new(ACCESS_KEY, SECRET, "us-east-1", NOW_S).expect("a year of four digits");
    let (get, put) = (Request::parse(GET.as_bytes()), Request::parse(PUT.as_bytes()));
    let mut signed = put.clone();
    let added = put.with_head(|head| signer.sign_request(head, "UNSIGNED-PAYLOAD")).expect("it can be signed");
    signed.headers.extend(added.into_iter().map(|(name, value)| (name.into(), value.into())));
    seeds.push(verified("header", &signed));

    let mut presigned = get.clone();
    presigned.query = get.with_head(|head| signer.presign(head, 600)).expect("it can be signed").into();
    seeds.push(verified("presigned", &presigned));

    let expires = NOW_S + 600;
    let text = format!("GET\n\n\n{expires}\nx-amz-checksum-mode:ENABLED\n/photos/a?uploadId=x");
    let mac = Hmac::<Sha1>::new_from_slice(SECRET).expect("a key of any length").chain_update(text).finalize();
    let mut query = format!("uploadId=x&AWSAccessKeyId={ACCESS_KEY}&Expires={expires}&Signature=").into_bytes();
    percent_encode_into(&mut query, base64_encode(&mac.into_bytes()).as_bytes(), false);
    let mut two = Request::parse(b"GET /photos/a\nhost: localhost\nx-amz-checksum-mode: ENABLED\n");
    two.query = query;
    seeds.push(verified("version-two", &two));
    for (how, name) in [(1, "to-sign"), (2, "to-presign")] {
        seeds.push(("signature", name.to_owned(), [&[how, 1, 9, 32][..], GET.as_bytes()].concat()));
    }
}

/// Bodies as clients frame them, without signatures, and content that the target frames and signs.
fn bodies(seeds: &mut Seeds) {
    let unsigned = b"\x00\x01\x05\x09\x03\x0a\x00a\r\n0123456789\r\n0\r\nx-amz-checksum-crc32:pmhBUw==\r\n\r\n";
    let signed = b"\x03\x00\x05\x40\x03\x00\x00\x00\x10\x00\x01\x08twenty-three bytes long";
    let trailed = b"\x03\x01\x05\x40\x03\x00\x00\x01\x80\x00\x20\x10twenty-three bytes long";
    for (name, body) in [("unsigned", &unsigned[..]), ("signed", signed), ("signed-trailer", trailed)] {
        seeds.push(("chunked", name.to_owned(), body.to_vec()));
    }
}

/// Forms as browsers send them, with the cuts of the target in front.
fn forms(seeds: &mut Seeds) {
    const POLICY: &str = r#"{"expiration": "2027-01-01T00:00:00.000Z", "conditions": [{"bucket": "bucket"},
        ["starts-with", "$key", "dir/"], ["eq", "$success_action_redirect", "http://h/p?q#f"],
        ["content-length-range", 0, "1000"]]}"#;
    let part = |parameters: &str, value: &str| {
        format!("--x\r\nContent-Disposition: form-data; {parameters}\r\nContent-Type: text/plain\r\n\r\n{value}\r\n")
    };
    let fields = part("name=\"key\"", "dir/${filename}")
        + &part("name=\"x-amz-meta-a\"", "")
        + &part("name=\"success_action_redirect\"", "http://h/p?q#f")
        + &part("name=\"policy\"", &base64_encode(POLICY.as_bytes()));
    let file = part("name=\"file\"; filename=\"C:\\a\\f.txt\"", "content\r\n--\r\n-");
    for (name, body) in [
        ("whole", format!("{fields}{file}--x--\r\n")),
        ("more", format!("\r\n{fields}{file}{}--x--", part("name=submit", "Upload"))),
        ("none", format!("{fields}--x--\r\n")),
    ] {
        seeds.push(("form", name.to_owned(), [&[30, 200, 9][..], body.as_bytes()].concat()));
    }
}

/// What goes into the formats on disk: the targets build the files themselves, so that a few numbers do.
fn files(seeds: &mut Seeds) {
    for format in 0..6_u8 {
        let bytes: Vec<u8> = [format].into_iter().chain((1..=200).map(|at: u8| at.wrapping_mul(37))).collect();
        seeds.push(("frames", format!("format-{format}"), bytes));
    }
    // Magic and length behind an offset; class and length of a log frame behind its seal and offset.
    let chunk = [&[2][..], &[0, 16, 0, 0, 0, 0, 0, 0], &[0; 4], b"CHNK", &[9, 0, 0, 0], &[7; 48], &[1, 2, 3]].concat();
    seeds.push(("frames", "chunk".to_owned(), chunk));
    let frame = [&[0][..], &[5; 40], &[0, 16, 0, 0, 0, 0, 0, 0], &[0; 4], &[7, 1, 0, 0, 44, 1, 0, 0], &[0; 4], &[3; 8]];
    seeds.push(("frames", "frame".to_owned(), frame.concat()));

    let changes: [(&str, &[u8]); 6] = [
        ("none", &[0, 0]),
        ("closed", &[1, 3]),
        ("flip", &[0, 0, 1, 1, 0, 18, 4]),
        ("cut", &[1, 0, 2, 0, 100, 20]),
        ("resealed", &[0, 2, 1, 0, 9, 16, 1, 6, 0, 0, 0, 0]),
        ("copied", &[0, 0, 3, 0, 0, 16, 1, 0, 16, 0, 32]),
    ];
    seeds.extend(changes.map(|(name, bytes)| ("log", name.to_owned(), bytes.to_vec())));
    let copies: [(&str, &[u8]); 3] =
        [("flipped", &[0b0011, 20, 1]), ("cut", &[0b1000, 100]), ("both", &[0b1111, 9, 1, 30, 2])];
    seeds.extend(copies.map(|(name, bytes)| ("keys", name.to_owned(), bytes.to_vec())));
    let copies: [(&str, &[u8]); 4] = [
        ("flipped", &[0b0011, 20, 1]),
        ("cut", &[0b1000, 100]),
        ("newer", &[0b0011, 104, 2]),
        ("later", &[0b1100, 8, 3]),
    ];
    seeds.extend(copies.map(|(name, bytes)| ("keyring", name.to_owned(), bytes.to_vec())));
    // The inside: one key with one version, and one data key.
    let key = [&[1, 0, 0, 0][..], &[4; 16], &[1, 0, b'a', 1], &[0; 8], &[5; 8], &[1, 0], &[6; 8], &[7; 32]].concat();
    let data_key = [&[1, 0, 0, 0, 2, b'm', b'e', 1, 1, 0, 0, 1, 0, 0, 0][..], &[4; 16], &[8; 16], &[9; 80]].concat();
    seeds.push(("keyring", "inside".to_owned(), [&[0x80][..], &key, &data_key].concat()));
    minio(seeds);
    pages_and_segments(seeds);
    let logs: [(&str, &[u8]); 3] = [
        ("damaged", &[0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 3, 1, 10, 2, 20, 3, 30, 4, 40, 15, 40, 16, 0, 0, 1]),
        ("header", &[1, 0, 0, 0x37, 0x7f, 0x06, 0x82, 0, 0x2d, 0xe2, 0x18, 0, 0, 16, 0]),
        ("remembered", &[2, 0, 1, 5, 3, 1, 5, 3, 1, 6, 1, 1, 7, 40, 3, 1, 9]),
    ];
    seeds.extend(logs.map(|(name, bytes)| ("wal", name.to_owned(), bytes.to_vec())));
}

/// Lists of versions as MinIO writes them: of 1.3, with a header before each, and before, as an array.
fn minio(seeds: &mut Seeds) {
    let object = [
        &b"\x82\xa4Type\x01\xa5V2Obj\x8d\xa2ID\xc4\x10"[..],
        &[7; 16],
        b"\xa4DDir\xc4\x10",
        &[8; 16],
        b"\xa3EcM\x02\xa3EcN\x01\xa7EcBSize\xd2\x00\x10\x00\x00\xa7EcIndex\x01\xa6EcDist\x93\x01\x02\x03",
        b"\xa8PartNums\x91\x01\xa9PartSizes\x91\x05\xaaPartASizes\x91\x05\xa5MTime\xd3\x17\x00\x00\x00\x00\x00\x00\x00",
        b"\xa7MetaSys\x81\xa1k\xc4\x01v\xa7MetaUsr\x81\xa4etag\xa1x",
    ]
    .concat();
    let deleted = b"\x82\xa4Type\x02\xa6DelObj\x82\xa5MTime\x01\xa7MetaSys\xc0";
    let headed = |version: &[u8]| [&[0xc4, 0, 0xc5][..], &(version.len() as u16).to_be_bytes(), version].concat();
    let indexed = [&[3, 3, 3, 2][..], &headed(&object), &headed(deleted)].concat();
    seeds.push(("minio", "indexed".to_owned(), indexed));
    let listed = [&[2][..], b"\x81\xa8Versions\x92", &object, deleted].concat();
    seeds.push(("minio", "listed".to_owned(), listed));
    seeds.push(("minio", "first".to_owned(), [&[0][..], b"XL2 1   \x81\xa8Versions\x91", deleted].concat()));
}

/// Changes to the pages of the index and to the segments of the journal, and what goes into a segment.
fn pages_and_segments(seeds: &mut Seeds) {
    let pages: [(&str, &[u8]); 6] = [
        ("memory", &[0, 0, 0x10, 0x20, 0, 0, 0, 1]),
        ("memory-bytes", &[0, 4, 0, 0x30, 0, 0, 4, 0, 0, 255, 255]),
        ("memory-page", &[0, 6, 0, 0x10, 0, 0, 3]),
        ("flip", &[1, 0, 0x10, 0x20, 0, 0, 0, 1]),
        ("page", &[1, 6, 0, 0x10, 0, 0, 3]),
        ("cut", &[1, 7, 0, 0x30, 0, 0, 0]),
    ];
    seeds.extend(pages.map(|(name, bytes)| ("index", name.to_owned(), bytes.to_vec())));
    let segments: [(&str, &[u8]); 6] = [
        ("whole", &[0]),
        ("flip", &[0, 0, 1, 0x40, 1, 8]),
        ("cut", &[0, 3, 2, 0x40, 1]),
        ("removed", &[0, 4, 0, 0, 0]),
        ("resealed", &[0, 0, 0, 24, 0, 1, 5, 0, 0, 0, 0]),
        ("written", &[0, 2, 2, 0x90, 0, 4, 1, 2, 3, 4]),
    ];
    seeds.extend(segments.map(|(name, bytes)| ("journal", name.to_owned(), bytes.to_vec())));
    let bytes: Vec<u8> = [1].into_iter().chain((1..=200).map(|at: u8| at.wrapping_mul(37))).collect();
    seeds.push(("journal", "formats".to_owned(), bytes));
}

fn events(seeds: &mut Seeds) {
    let event = Event {
        name: EventName::ObjectCreatedPut,
        place: Place { sequence: 42, ordinal: 0 },
        time_ms: 1_369_353_600_000,
        bucket: orcas_events::Bucket { name: "photos".into(), owner: "owner".into(), id: 7 },
        object: Some(orcas_events::Object { key: "a b.jpg".into(), size: Some(3), ..Default::default() }),
        principal: "alice".into(),
        request_id: "AB".into(),
        source_address: "127.0.0.1".into(),
    };
    let mut json = vec![0; 3];
    write_records(
        &mut json,
        Context { region: "eu-west-1", host_id: "h", configuration_id: "c", name_prefix: "" },
        [&event],
    );
    let mut stream = vec![5, 1, 90];
    write_event(&mut stream, &event.place.to_string(), "message", &json[3..100]);
    let lines = b"\x01\x02\x03\xef\xbb\xbfretry: 10\r\n: comment\r\rid: 1\ndata:a\ndata\n\nid: \0\ndata: b\r\n\r\n";
    seeds.push(("events", "json".to_owned(), json));
    seeds.push(("events", "stream".to_owned(), stream));
    seeds.push(("events", "lines".to_owned(), lines.to_vec()));
}

fn sessions(seeds: &mut Seeds) {
    let claims = br#"{"access_key":"ASIA1","secret":"s","identity":"arn:aws:iam::111122223333:role/reader","id":"AROA","by":null,"arn":"arn:aws:sts::111122223333:assumed-role/reader/s","user_id":"AROA:s","issued_ms":1000,"ends_ms":9000,"tags":[["a","b"]],"transitive":[],"policies":[],"document":"{\"Statement\":{\"Effect\":\"Allow\",\"Action\":\"s3:*\",\"Resource\":\"*\"}}","provider":null,"name":"s"}"#;
    seeds.push(("session", "claims".to_owned(), [&[1], &claims[..]].concat()));
    let token = base64_encode(&[&[1][..], &[7; 8], &[3; 12], &[0; 64]].concat());
    seeds.push(("session", "token".to_owned(), [&[0], token.as_bytes()].concat()));
}

/// Entries, with their checksums and without, heads and snapshots, behind a byte for the kind.
fn shared_logs(seeds: &mut Seeds) {
    let fence = Entry { id: EntryId(7 << 100), term: 3, previous: None, batch: None };
    let batch = Entry { previous: Some(fence.id), batch: Some(Bytes::from_static(b"a batch")), ..fence };
    for (name, entry) in [("fence", &fence), ("batch", &batch)] {
        let whole = format::encode_entry(entry);
        seeds.push(("shared", name.to_owned(), [&[0], &whole[..]].concat()));
        seeds.push(("shared", format!("{name}-fields"), [&[1], &whole[..whole.len() - 32]].concat()));
    }
    let (log, pack) = ("log/00000000000000000001.log".to_owned(), "chunks/1.pack".to_owned());
    let mut changes = vec![4];
    for change in [
        Change::Write { name: log.clone(), offset: 4096, bytes: Bytes::from_static(b"a batch") },
        Change::Cut { name: log, length: 8192 },
        Change::Punch { name: pack.clone(), offset: 4096, length: 4096 },
        Change::Rename { from: "keyring.draft".to_owned(), to: "keyring".to_owned() },
        Change::Remove { name: pack },
        Change::Replace { name: "root.json".to_owned(), bytes: Bytes::from_static(b"{}") },
        Change::Note(Bytes::from_static(b"{}")),
    ] {
        change.encode(&mut changes);
    }
    seeds.push(("shared", "changes".to_owned(), changes));
    let at = Cursor { next: 9, last: Some(EntryId(u128::MAX)) };
    let snapshots = vec![Snapshot { at, term: 2 }, Snapshot { at: Cursor::default(), term: 1 }];
    let text = format::encode_snapshots(&snapshots);
    let head = Head { term: 3, owner: NodeId(1 << 99), changes: 4, floor: 5, snapshots };
    seeds.push(("shared", "head".to_owned(), [&[2], format::encode_head(&head).as_bytes()].concat()));
    seeds.push(("shared", "snapshots".to_owned(), [&[3], text.as_bytes()].concat()));
}

/// A byte for the kind, then the text.
fn policies(seeds: &mut Seeds) {
    const IDENTITY: &str = r#"{"Version": "2012-10-17", "Statement": [{"Sid": "a", "Effect": "Allow", "NotAction": "s3:Delete*",
        "Resource": ["arn:aws:s3:::photos/${aws:username, 'guest'}/*", "arn:aws:s3:::photos"], "Condition": {
        "StringLikeIfExists": {"s3:prefix": ["a*", ""]}, "ForAllValues:StringNotEquals": {"s3:RequestObjectTagKeys": "x"},
        "NumericLessThan": {"s3:max-keys": "10"}, "DateGreaterThan": {"aws:CurrentTime": "2026-01-01T00:00:00Z"},
        "NotIpAddress": {"aws:SourceIp": ["10.0.0.0/8", "2001:db8::/32"]}, "Null": {"aws:Referer": "true"},
        "ArnLike": {"aws:PrincipalArn": "arn:aws:iam::*:user/a?"}, "Bool": {"aws:SecureTransport": "false"}}}]}"#;
    const BUCKET: &str = r#"{"Statement": {"Effect": "Deny", "NotPrincipal": {"AWS": ["arn:aws:iam::111122223333:user/alice",
        "111122223333"]}, "Action": ["s3:GetObject", "s3:List*"], "NotResource": "arn:aws:s3:::photos/public/*"}}"#;
    const TRUST: &str = r#"{"Version": "2008-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Federated":
        "arn:aws:iam::111122223333:oidc-provider/a.test"}, "Action": "sts:AssumeRoleWithWebIdentity", "Condition": {
        "ForAnyValue:StringEqualsIgnoreCase": {"a.test:aud": ["me", "you"]}}}]}"#;
    for (kind, text) in [IDENTITY, IDENTITY, IDENTITY, BUCKET, TRUST].into_iter().enumerate() {
        seeds.push(("policy", format!("kind-{kind}"), [&[kind as u8], text.as_bytes()].concat()));
    }
}

fn main() -> std::io::Result<()> {
    let mut seeds = Seeds::new();
    for write in
        [records, requests, documents, signatures, bodies, forms, files, events, sessions, policies, shared_logs]
    {
        write(&mut seeds);
    }
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    if corpus.exists() {
        std::fs::remove_dir_all(&corpus)?;
    }
    for (target, name, bytes) in &seeds {
        let dir = corpus.join(target);
        std::fs::create_dir_all(&dir)?;
        std::fs::write(dir.join(name), bytes)?;
    }
    println!("{} seeds in {}", seeds.len(), corpus.display());
    Ok(())
}
