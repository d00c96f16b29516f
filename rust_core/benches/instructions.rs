//! Hot paths whose instructions callgrind counts: what a call costs, without a clock.
//!
//! `python benchmarks/instructions.py` runs this under callgrind, which counts inside `measured` alone and writes a
//! file whenever that returns. Every path is called `calls` times, and then twice as often: the difference is that of
//! `calls` calls, and what surrounds them cancels out. Said on stdout: what the processor can do, as callgrind shows
//! it, then each path with its calls, in the order of the files.

#[path = "support/gateway.rs"]
mod gateway;
#[path = "support/objects.rs"]
mod objects;
mod support;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orcas_checksum::{ChecksumAlgorithm, Etag, Hasher, Md5Hasher};
use orcas_chunks::chunker::Chunker;
use orcas_gateway::{IdentityTables, Request, ResponseBody, now_ms};
use orcas_http::Query;
use orcas_log::Batch;
use orcas_record::{
    Attributes, BucketId, Extent, Fingerprint, ObjectHeaders, Record, Version, VersionId, content_kind, encode,
};
use orcas_s3::format::{format_content_length, format_content_range, format_etag, format_last_modified};
use orcas_s3::headers::{ObjectAnswer, Overrides, StoredHeaders};
use orcas_s3::object_lock::LockHeaders;
use orcas_s3::query::ListObjectsV2Query;
use orcas_s3::resolve::resolve;
use orcas_s3::support::{Understood, check_supported};
use orcas_s3::xml::lists::{ObjectEntry, ObjectList, Owner};
use orcas_s3::{Operation, Target};
use orcas_sigv4::{Credential, Requirements, SKEW_MAX_MS, SigningKeys, authenticate, sha256_hex};
use orcas_telemetry::access_log::note::Ended;
use orcas_telemetry::metrics::requests::Finished;

use gateway::{ACCESS_KEY, HOST, OWNER, SECRET, Server, Signed};
use objects::{CONTENT_TYPE, OBJECTS, Object, Objects, object, small};
use support::scatter;

/// Calls of paths that take as long as a request.
const REQUESTS: usize = 64;
/// Calls of paths that take as long as a body.
const BODIES: usize = 4;
const KIB: usize = 1024;
/// Room for the document of a page, as the gateway takes it.
const PAGE: usize = 512 * KIB;

fn main() {
    println!("features {}", features().join(" "));
    formatting();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    requests(dir.path());
    records();
    page();
    bodies();
}

/// What libraries choose their code by. Valgrind shows no more than AVX2, and no SHA extensions.
fn features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let known = [
        ("sse4.2", is_x86_feature_detected!("sse4.2")),
        ("pclmulqdq", is_x86_feature_detected!("pclmulqdq")),
        ("bmi2", is_x86_feature_detected!("bmi2")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("sha", is_x86_feature_detected!("sha")),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let known: [(&str, bool); 0] = [];
    known.into_iter().filter_map(|(name, there)| there.then_some(name)).collect()
}

/// Measures `path`, which is given the number of the call.
fn count(name: &str, calls: usize, mut path: impl FnMut(usize)) {
    // What stays from call to call is there from now on.
    (0..calls).for_each(&mut path);
    measured(calls, &mut path);
    measured(2 * calls, &mut path);
    println!("path {calls} {name}");
}

/// What callgrind counts.
#[inline(never)]
fn measured(calls: usize, path: &mut dyn FnMut(usize)) {
    (0..calls).for_each(path);
}

fn formatting() {
    let objects: Box<Objects> = Box::new(std::array::from_fn(|number| object(number, small)));
    let mut out = Vec::with_capacity(128);
    let mut value = |name, format: fn(&mut Vec<u8>, &Object)| {
        count(name, OBJECTS, |call| {
            out.clear();
            format(&mut out, black_box(&objects[call % OBJECTS]));
            black_box(&out);
        });
    };
    value("format-etag", |out, object| format_etag(out, &object.etag));
    value("format-content-length", |out, object| format_content_length(out, object.length));
    value("format-last-modified", |out, object| format_last_modified(out, object.modified_ms));
    value("format-content-range", |out, object| {
        let (first, last, size) = object.range;
        format_content_range(out, first, last, size);
    });
    let overrides = Overrides::default();
    let user = [(Bytes::from_static(b"made-by"), Bytes::from_static(b"a client that says so"))];
    count("headers-of-get", OBJECTS, |call| {
        let object = black_box(&objects[call % OBJECTS]);
        let stored =
            StoredHeaders { content_type: Some(CONTENT_TYPE.as_bytes()), user: &user, ..StoredHeaders::default() };
        let answer = ObjectAnswer {
            etag: object.etag,
            size: object.length,
            modified_ms: object.modified_ms,
            stored,
            overrides: &overrides,
            range: None,
            checksum: None,
            version: None,
            tag_count: 0,
            lock: LockHeaders::default(),
            parts_count: None,
            shares_origin: true,
        };
        black_box(answer.headers());
    });
}

/// What a GetObject may ask for.
const UNDERSTOOD: Understood = Understood { version_id: true, reads_clear: true, ..Understood::NOTHING };

/// A GET from its head to its answer: first some of the steps, then all.
fn requests(data: &Path) {
    let server = Server::open(data, true);
    let get = object_and_get(&server);
    get.head(|head| {
        let (keys, known) = (SigningKeys::new(), Credential { secret: SECRET.into(), generation: 0 });
        let requirements = Requirements {
            may_lack_region: false,
            presign_max_s: orcas_sigv4::PRESIGN_EXPIRES_S_MAX,
            any_signature: false,
            region: None,
            now_unix_ms: now_ms(),
            skew_max_ms: SKEW_MAX_MS,
            service: "s3",
            body: None,
            session_token: None,
            version_two: None,
        };
        count("verify-signature-of-get", REQUESTS, |_| {
            black_box(authenticate(black_box(head), &requirements, &keys, &|_| Some(known.clone())).expect("verified"));
        });
        count("resolve-get", REQUESTS, |_| {
            let head = black_box(head);
            let query = Query::parse(head.query).expect("a query");
            let host = head.headers.get("host").unwrap_or_default();
            let target = Target::parse(head.path, host, &[]).expect("a target");
            let operation = resolve(head.method, &target, &query, &head.headers).expect("an operation");
            check_supported(&UNDERSTOOD, &query, &head.headers).expect("supported");
            black_box((target, operation));
        });
        count("accept-get", REQUESTS, |_| drop(black_box(server.accept(black_box(head)))));
        let request = server.accept(head);
        let answer = |request: &Arc<dyn Request>| {
            let answer = Arc::clone(request).start(Bytes::new(), 0).expect("at hand, because it was just read");
            assert!(answer.status == 200 && matches!(answer.body, ResponseBody::Bytes(_)), "status {}", answer.status);
            answer
        };
        count("answer-get-1kib-cached", REQUESTS, |_| drop(black_box(answer(black_box(&request)))));
        server.gateway.observation.access_lines.open();
        let noted = server.accept(head);
        let finished = finished();
        count("access-line-of-get", REQUESTS, |_| {
            let note = black_box(&noted).note().expect("the log is open");
            let ended = Ended {
                decisions: &[],
                remote: "127.0.0.1",
                request_id: "5CB0AE5CAB5F9586",
                trace_id: None,
                finished: &finished,
                began_ms: now_ms(),
            };
            server.gateway.observation.access_lines.push(|out| note.write_line(black_box(&ended), out));
        });
        count("accept-get-noted", REQUESTS, |_| drop(black_box(server.accept(black_box(head)))));
        server.gateway.observation.access_lines.close();
        count("get-1kib-cached", REQUESTS, |_| drop(black_box(answer(&server.accept(black_box(head))))));
        authorize_by_policies(&server);
        count("accept-get-by-user", REQUESTS, |_| drop(black_box(server.accept(black_box(head)))));
    });
}

/// Gives the bucket a policy of 20 statements, and the key of root to a user with five policies of ten statements.
fn authorize_by_policies(server: &Server) {
    let statement = |effect: &str, more: &str, resource: &str| {
        format!(
            "{{\"Effect\": \"{effect}\", {more} \"Action\": \"s3:GetObject\", \"Resource\": \"arn:aws:s3:::{resource}/*\"}}"
        )
    };
    let document = |statements: Vec<String>| {
        format!("{{\"Version\": \"2012-10-17\", \"Statement\": [{}]}}", statements.join(", "))
    };
    let denied = (0..20).map(|n| statement("Deny", "\"Principal\": \"*\",", &format!("benchmark/secret-{n}")));
    let policy = document(denied.collect());
    server.call(&server.sign("PUT", "/benchmark".into(), "policy", policy.len()), policy.as_bytes());
    let of_user = |policy: usize| {
        let others = (0..9).map(|n| statement("Allow", "", &format!("other-{policy}-{n}")));
        document(others.chain([statement("Allow", "", "bench*")]).collect())
    };
    let root = IdentityTables::of_root(OWNER, &[]);
    let number = root.accounts[0].0.clone();
    let (arn, secret) =
        (format!("arn:aws:iam::{number}:user/bench"), String::from_utf8(SECRET.to_vec()).expect("text"));
    let policies: Vec<_> = (0..5).map(|policy| (format!("policy-{policy}"), of_user(policy))).collect();
    let ids = policies.iter().map(|(id, _)| id.clone()).collect();
    let user = (arn.clone(), "user".into(), number, "AIDABENCH".into(), "bench".into(), ids, None, Vec::new());
    let keys = vec![(ACCESS_KEY.to_owned(), secret, arn, None, true)];
    let identities = root.identities.into_iter().chain([user]).collect();
    server.gateway.access().signers.replace(IdentityTables { policies, identities, keys, ..root }).expect("identities");
}

/// A GET of 1 KiB that was answered.
fn finished() -> Finished {
    Finished {
        operation: Some(Operation::GetObject),
        status: Some(200),
        code: None,
        time: Duration::from_micros(345),
        first_byte: Duration::from_micros(340),
        received: 0,
        sent: KIB as u64,
        broken: false,
    }
}

/// Stores an object of 1 KiB, reads it once, and returns a GET of it as boto3 sends it.
fn object_and_get(server: &Server) -> Signed {
    let path = "/benchmark/data/2026/part-00017.parquet";
    server.call(&server.sign("PUT", "/benchmark".into(), "", 0), b"");
    let content = scatter(1).to_le_bytes().repeat(KIB / 8);
    let length = content.len().to_string();
    let headers = [("host", HOST), ("content-length", &length), ("content-type", "binary/octet-stream")];
    server.call(&server.sign_headers("PUT", path.into(), "", &headers, "UNSIGNED-PAYLOAD"), &content);
    server.settle();
    let headers = [
        ("host", HOST),
        ("accept-encoding", "identity"),
        ("user-agent", "Boto3/1.40.0 md/Botocore#1.40.0 ua/2.1 os/linux md/arch#x86_64 lang/python#3.12.0"),
        ("x-amz-checksum-mode", "ENABLED"),
        ("amz-sdk-invocation-id", "6b9d2f4e-53a5-4f2b-9d0e-0c3f7f1f5a11"),
        ("amz-sdk-request", "attempt=1"),
    ];
    // The hash of an empty body, which is what boto3 signs.
    let get = server.sign_headers("GET", path.into(), "", &headers, &sha256_hex(b""));
    assert_eq!(server.call(&get, b""), KIB as u64);
    get
}

/// A PUT of 1 KiB as the log takes it: a content and a version.
fn records() {
    let (fingerprint, content) = (Fingerprint([0x5a; 32]), vec![0xa5; KIB]);
    let version = Record::PutVersion(Version {
        bucket: BucketId(1),
        key: Bytes::from_static(b"data/2026/part-00017.parquet"),
        version_id: VersionId::Null,
        delete_marker: false,
        modified_ms: 1_700_000_000_000,
        size: KIB as u64,
        etag: Etag { md5: [7; 16], parts: 0 },
        sha256: None,
        checksum: None,
        headers: ObjectHeaders {
            content_type: Some(Bytes::from_static(CONTENT_TYPE.as_bytes())),
            ..ObjectHeaders::default()
        },
        attributes: Attributes::default(),
        parts: Vec::new(),
        manifest: vec![Extent::Blob { blob: 1, start: 0, length: KIB as u32 }],
    });
    let mut batch = Batch::new();
    count("batch-put-1kib", REQUESTS, |call| {
        // Each batch holds as many as there are calls; its memory stays.
        if call % REQUESTS == 0 {
            batch.clear();
        }
        let sequence = 2 * (call % REQUESTS) as u64 + 1;
        batch.push(sequence, content_kind(true, None), &[&fingerprint.0, black_box(&content)]);
        let mut payload = Vec::with_capacity(256);
        let kind = encode(black_box(&version), &mut payload);
        batch.push(sequence + 1, kind, &[&payload]);
    });
}

/// The document of a page of 1,000 keys.
fn page() {
    let keys: Vec<String> = (0..1000).map(|number| format!("data/2026/part-{number:05}.parquet")).collect();
    let query = Query::parse(b"list-type=2&prefix=data/&encoding-type=url").expect("a query");
    let query = ListObjectsV2Query::parse(&query).expect("a query of a list");
    let owner = Owner { id: "00112233445566778899aabbccddeeff", display_name: "root" };
    count("list-1000-keys-xml", BODIES, |_| {
        let mut list = ObjectList::v2(Vec::with_capacity(PAGE), "bucket", &query, owner);
        for (number, key) in keys.iter().enumerate() {
            let object = object(number, small);
            list.entry(&ObjectEntry {
                key: key.as_bytes(),
                modified_ms: object.modified_ms,
                etag: object.etag,
                size: object.length,
                checksum: None,
                storage_class: None,
                owner: None,
            });
        }
        black_box(list.end(keys.last().map(String::as_bytes), false));
    });
}

/// What every byte of a body goes through. SHA-256 is not among it: without the SHA extensions it is other code than
/// the one that servers run.
fn bodies() {
    let mut bytes = vec![0; KIB * KIB];
    blake3::Hasher::new().update(b"orcas instructions").finalize_xof().fill(&mut bytes);
    count("chunker-1mib", BODIES, |_| {
        let (mut chunker, mut chunks) = (Chunker::new(64 * KIB as u32), 0);
        for mut piece in black_box(&bytes[..]).chunks(64 * KIB) {
            while let Some(end) = chunker.next(piece) {
                chunks += 1;
                piece = &piece[end..];
            }
        }
        black_box(chunks);
    });
    let block = &bytes[..64 * KIB];
    count("md5-64kib", BODIES, |_| {
        black_box(Md5Hasher::digest(black_box(block)));
    });
    let mut gateways = vec![Md5Hasher::new(); 8];
    count("md5-8-lanes-64kib", BODIES, |_| {
        Md5Hasher::update_all(gateways.iter_mut().map(|gateway| (gateway, black_box(block))));
    });
    count("blake3-64kib", BODIES, |_| {
        black_box(blake3::keyed_hash(&[1; 32], black_box(block)));
    });
    for (name, algorithm) in [
        ("crc32-64kib", ChecksumAlgorithm::Crc32),
        ("crc32c-64kib", ChecksumAlgorithm::Crc32c),
        ("crc64nvme-64kib", ChecksumAlgorithm::Crc64Nvme),
    ] {
        count(name, BODIES, |_| {
            black_box(Hasher::digest(algorithm, black_box(block)));
        });
    }
}
