//! Signed requests: four control bytes, then a head as text, which is taken as it is, or signed here, in its headers or
//! in its query. What was signed is accepted; a request that differs in anything that it means is refused.
#![cfg_attr(fuzzing, no_main)]

use std::collections::{BTreeMap, BTreeSet};

use orcas_fuzz::{ACCESS_KEY, Input, NOW_S, Request, SECRET, fuzz_target};
use orcas_http::{Query, percent_decode};
use orcas_s3::query::is_resource_parameter;
use orcas_s3::target::hosted_bucket;
use orcas_sigv4::{
    Authenticated, Authentication, Credential, Requirements, SKEW_MAX_MS, ServerNames, SignatureError, Signer,
    SigningKeys, VersionTwo, authenticate, claimed_signature, claims_nobody, diagnose, explain,
};

const EXPIRES_S: i64 = 600;

fn credential(access_key: &str) -> Option<Credential> {
    (access_key == ACCESS_KEY).then(|| Credential { secret: SECRET.into(), generation: 1 })
}

fn requirements(now_ms: i64) -> Requirements<'static> {
    let version_two = Some(VersionTwo { domains: &[], hosted_bucket, is_resource: is_resource_parameter });
    Requirements {
        presign_max_s: orcas_sigv4::PRESIGN_EXPIRES_S_MAX,
        any_signature: false,
        region: None,
        may_lack_region: false,
        now_unix_ms: now_ms,
        skew_max_ms: SKEW_MAX_MS,
        service: "s3",
        body: None,
        session_token: None,
        version_two,
    }
}

fn verdict(request: &Request, now_ms: i64) -> Result<Authenticated, SignatureError> {
    request.with_head(|head| authenticate(head, &requirements(now_ms), &SigningKeys::new(), &credential))
}

/// Words with one space between them, as a signature sees a value.
fn trimmed(value: &[u8]) -> Vec<u8> {
    let words = value.split(|byte| byte.is_ascii_whitespace() || *byte == 0x0b).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(&b' ')
}

type Texts = BTreeMap<Vec<u8>, Vec<u8>>;

/// The values of the headers that `wanted` names, those of one joined with commas.
fn headers(request: &Request, wanted: impl Fn(&[u8]) -> bool) -> Texts {
    let mut found = Texts::new();
    for (name, value) in request.headers.iter().filter(|(name, _)| wanted(name)) {
        match found.get_mut(name) {
            Some(values) => values.extend_from_slice(&[b",", &trimmed(value)[..]].concat()),
            None => drop(found.insert(name.clone(), trimmed(value))),
        }
    }
    found
}

/// Names and values of the query, decoded and sorted.
fn parameters(request: &Request, wanted: impl Fn(&[u8]) -> bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let query = Query::parse(&request.query).expect("a signed query can be decoded");
    let mut pairs: Vec<_> =
        query.iter().filter(|(name, _)| wanted(name)).map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    pairs.sort();
    pairs
}

/// What a signature of version 4 covers; of the headers those in `signed`.
fn meaning(request: &Request, signed: &BTreeSet<Vec<u8>>) -> impl PartialEq + std::fmt::Debug + use<> {
    let path = percent_decode(&request.path).expect("a signed path can be decoded");
    let path = if path.is_empty() { b"/".to_vec() } else { path };
    let pairs = parameters(request, |name| name != b"X-Amz-Signature");
    let covered = |name: &[u8]| name.starts_with(b"x-amz-") || signed.contains(name);
    (request.method.clone(), path, pairs, headers(request, covered))
}

/// What a signature of version 2 covers. A header may stand in the query.
fn meaning_two(request: &Request) -> impl PartialEq + std::fmt::Debug + use<> {
    let host = request.with_head(|head| hosted_bucket(head.headers.get("host").unwrap_or_default(), &[]));
    let mut path = if request.path.is_empty() { b"/".to_vec() } else { request.path.clone() };
    // `/bucket` may be signed as `/bucket/`.
    if host.is_none() && path.len() > 1 && path.iter().rposition(|&byte| byte == b'/') == Some(0) {
        path.push(b'/');
    }
    let is_header = |name: &[u8]| {
        let name = name.to_ascii_lowercase();
        name.starts_with(b"x-amz-") || name == b"content-type" || name == b"content-md5"
    };
    let mut covered = headers(request, is_header);
    for (name, value) in parameters(request, is_header) {
        covered.insert(name.to_ascii_lowercase(), trimmed(&value));
    }
    covered.retain(|name, value| name.starts_with(b"x-amz-") || !value.is_empty());
    (request.method.clone(), path, host, covered, parameters(request, is_resource_parameter))
}

/// Whether a client could send such a head to be signed: nothing in it speaks of signatures, and no name is odd.
fn is_plain(request: &Request) -> bool {
    const OF_SIGNATURES: [&[u8]; 5] =
        [b"authorization", b"date", b"x-amz-date", b"x-amz-content-sha256", b"x-amz-security-token"];
    let token = |name: &[u8]| {
        let ok = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        !name.is_empty() && name.iter().all(ok) && !OF_SIGNATURES.contains(&name)
    };
    let Some(query) = Query::parse(&request.query) else { return false };
    let names: Vec<&[u8]> = query.iter().map(|(name, _)| name).collect();
    let distinct: BTreeSet<&[u8]> = names.iter().copied().collect();
    let claims = |name: &&[u8]| name.starts_with(b"X-Amz-") || matches!(*name, b"AWSAccessKeyId" | b"Signature");
    let has_host = request.headers.iter().any(|(name, _)| name == b"host");
    has_host
        && !request.method.is_empty()
        && request.method.iter().all(u8::is_ascii_graphic)
        && percent_decode(&request.path).is_some()
        && request.headers.len() <= 100
        && request.headers.iter().all(|(name, _)| token(name))
        && distinct.len() == names.len()
        && !names.iter().any(claims)
}

/// Signs it; `None` if it cannot be.
fn sign(request: &Request, in_query: bool) -> Option<Request> {
    let signer = Signer::new(ACCESS_KEY, SECRET, "us-east-1", NOW_S).expect("a year of four digits");
    let mut signed = request.clone();
    if in_query {
        signed.query = request.with_head(|head| signer.presign(head, EXPIRES_S)).ok()?.into();
    } else {
        let added = request.with_head(|head| signer.sign_request(head, "UNSIGNED-PAYLOAD")).ok()?;
        signed.headers.extend(added.into_iter().map(|(name, value)| (name.into(), value.into())));
    }
    Some(signed)
}

/// One change anywhere in a request.
fn changed(request: &Request, part: u8, at: u8, xor: u8) -> Request {
    let mut changed = request.clone();
    let flip = |bytes: &mut Vec<u8>| {
        let length = bytes.len();
        if length > 0 {
            bytes[usize::from(at) % length] ^= xor;
        }
    };
    let which = usize::from(at) % request.headers.len().max(1);
    match part % 8 {
        0 => flip(&mut changed.method),
        1 => flip(&mut changed.path),
        2 => flip(&mut changed.query),
        3 => changed.query.extend_from_slice(&[b'&', xor, b'=', at]),
        4 => changed.headers.push((b"x-amz-meta-more".to_vec(), vec![xor])),
        5 => changed.path.push(xor),
        6 if !request.headers.is_empty() => drop(changed.headers.remove(which)),
        _ => changed.headers.iter_mut().skip(usize::from(part >> 3)).take(1).for_each(|(_, value)| flip(value)),
    }
    changed
}

fn refused(request: &Request, error: &SignatureError) {
    let names = ServerNames { region: "us-east-1", domains: &[] };
    request.with_head(|head| {
        let told = diagnose(head, error, &requirements(NOW_S * 1000), &names, &credential);
        assert_eq!(told, diagnose(head, error, &requirements(NOW_S * 1000), &names, &credential));
        assert!(error.status() >= 400 && !error.code().is_empty());
        drop((explain(head), claimed_signature(head)));
    });
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let [how, part, at, xor] = input.array();
    let sent = Request::parse(input.rest());
    let request = match how % 3 {
        0 => Some(sent.clone()),
        how => sign(&sent, how == 2),
    };
    let Some(request) = request else { return };
    let verified = match verdict(&request, NOW_S * 1000) {
        Ok(verified) => verified,
        Err(error) => {
            assert!(how % 3 == 0 || !is_plain(&sent), "what was signed is refused: {error:?} {request:?}");
            assert_eq!(verdict(&request, NOW_S * 1000).map(|_| ()), Err(error.clone()));
            // What is behind a refusal is found by many trials, so not every time.
            if part % 4 == 0 {
                refused(&request, &error);
            }
            return;
        }
    };
    let nobody = request.with_head(|head| claims_nobody(&head.headers, &verified.query));
    assert_eq!(verified.how == Authentication::Anonymous, nobody);
    if verified.how == Authentication::Anonymous {
        return;
    }
    assert_eq!(verified.access_key, ACCESS_KEY);
    assert_eq!(request.with_head(claimed_signature).unwrap().0, ACCESS_KEY);
    if verified.how == Authentication::Header {
        assert!(verdict(&request, NOW_S * 1000 + 2 * SKEW_MAX_MS + 1).is_err(), "accepted for ever");
    }
    let other = changed(&request, part, at, xor);
    let Ok(again) = verdict(&other, NOW_S * 1000) else { return };
    if again.how == Authentication::Anonymous {
        return;
    }
    assert_eq!(again.how, verified.how);
    if verified.how == Authentication::PresignedVersionTwo {
        assert_eq!(meaning_two(&request), meaning_two(&other));
    } else {
        // Every header that was there when it was signed here, and what every signature must cover.
        let here = how % 3 != 0;
        let names = sent.headers.iter().filter(|_| here).map(|(name, _)| name.clone());
        let signed: BTreeSet<Vec<u8>> = names.chain([b"host".to_vec()]).collect();
        assert_eq!(meaning(&request, &signed), meaning(&other, &signed));
    }
});
