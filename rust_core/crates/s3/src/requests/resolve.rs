//! Which operation of the S3 API a request is.
//!
//! Resolution sees method, target, query and headers only; nothing is looked up. A query that
//! names a sub-resource never falls through to an operation on the object or bucket itself.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::operations::{AddressKind, Method, Operation, subresource};
use super::target::Target;
use crate::errors::{ErrorCode, S3Error};
use orcas_http::{Headers, Query};

/// Finds the operation that a request is.
///
/// Errors: `MethodNotAllowed` when the resource exists but not with this method, `InvalidArgument` for sub-resources
/// that are unknown or conflicting, `InvalidRequest` for those that are misplaced, and either for a wrong address of a
/// part.
pub fn resolve(method: &[u8], target: &Target, query: &Query, headers: &Headers<'_>) -> Result<Operation, S3Error> {
    if method == b"OPTIONS" {
        return Err(ErrorCode::AccessForbidden.into());
    }
    let resource = named_subresource(query)?;
    let verb = Method::parse(method).ok_or_else(|| match target {
        Target::Service => method_not_allowed(method, "SERVICE", OF_THE_SERVICE),
        Target::Bucket(_) => method_not_allowed(method, "BUCKET", OF_A_BUCKET),
        Target::Object { .. } | Target::ObjectLambda => method_not_allowed(method, "OBJECT", OF_AN_OBJECT),
    })?;
    match target {
        Target::Service => match resource {
            Some(name) => routed(name, AddressKind::Service, verb, method, query),
            None if verb == Method::Get => Ok(Operation::ListBuckets),
            None => Err(method_not_allowed(method, "SERVICE", OF_THE_SERVICE)),
        },
        Target::ObjectLambda if verb == Method::Post => Ok(Operation::WriteGetObjectResponse),
        Target::ObjectLambda => {
            Err(S3Error::new(ErrorCode::InvalidBucketName).field("BucketName", "WriteGetObjectResponse"))
        }
        Target::Bucket(_) => match resource {
            Some(name) => routed(name, AddressKind::Bucket, verb, method, query),
            None => on_bucket(verb, method, query, headers),
        },
        Target::Object { .. } => match resource {
            Some("renameObject") if headers.get("x-amz-rename-source").is_none() => {
                let message = "RenameObject needs the header x-amz-rename-source";
                Err(S3Error::with(ErrorCode::InvalidRequest, message))
            }
            Some(name) => routed(name, AddressKind::Object, verb, method, query),
            None => on_object(verb, method, query, headers),
        },
    }
}

/// The methods that resources have without a sub-resource.
const OF_THE_SERVICE: &str = "GET";
const OF_A_BUCKET: &str = "DELETE, GET, HEAD, POST, PUT";
const OF_AN_OBJECT: &str = "DELETE, GET, HEAD, PUT";
const OF_AN_UPLOAD: &str = "DELETE, GET, POST, PUT";
const OF_A_PART: &str = "PUT";

fn not_a_copy(name: &'static str, headers: &Headers<'_>) -> S3Error {
    let message = "You can only specify a copy source header for copy requests.";
    S3Error::argument(message, name, headers.get(name).unwrap_or_default())
}

fn on_bucket(verb: Method, method: &[u8], query: &Query, headers: &Headers<'_>) -> Result<Operation, S3Error> {
    let copies_nothing =
        matches!(verb, Method::Get | Method::Head | Method::Delete) || verb == Method::Post && query.has("uploadId");
    if copies_nothing && headers.get("x-amz-copy-source").is_some() {
        return Err(not_a_copy("x-amz-copy-source", headers));
    }
    match (query.has("uploadId"), query.has("partNumber")) {
        (false, false) => {}
        (true, true) => return Err(method_not_allowed(method, "PART", OF_A_PART)),
        (false, true) => return Err(S3Error::with(ErrorCode::InvalidRequest, "Object must have a valid key name.")),
        (true, false) if matches!(verb, Method::Get | Method::Post | Method::Delete) => {
            return Err(S3Error::with(ErrorCode::InvalidRequest, "A key must be specified"));
        }
        (true, false) => return Err(method_not_allowed(method, "UPLOAD", OF_AN_UPLOAD)),
    }
    match verb {
        Method::Get => match query.get("list-type") {
            None => Ok(Operation::ListObjects),
            Some(b"2") => Ok(Operation::ListObjectsV2),
            Some(other) => Err(S3Error::argument("Invalid List Type", "list-type", other)),
        },
        Method::Head => Ok(Operation::HeadBucket),
        Method::Put => Ok(Operation::CreateBucket),
        Method::Delete => Ok(Operation::DeleteBucket),
        Method::Post if is_form(headers) => Ok(Operation::PostObject),
        Method::Post => Err(S3Error::precondition("Bucket POST must be of the enclosure-type multipart/form-data")),
    }
}

/// Whether the body is a form, as browsers send it.
pub fn is_form(headers: &Headers<'_>) -> bool {
    headers.get("content-type").is_some_and(|kind| {
        let kind = kind.split(|&b| b == b';').next().unwrap_or_default().trim_ascii();
        kind.eq_ignore_ascii_case(b"multipart/form-data")
    })
}

fn on_object(verb: Method, method: &[u8], query: &Query, headers: &Headers<'_>) -> Result<Operation, S3Error> {
    let copies = headers.get("x-amz-copy-source").is_some();
    let moves = headers.get("x-amz-move-source").is_some();
    let renames = headers.get("x-amz-rename-source").is_some();
    if (copies || moves || renames) && verb != Method::Put {
        let name = if copies { "x-amz-copy-source" } else { "x-amz-move-source" };
        return Err(not_a_copy(name, headers));
    }
    if renames || (copies && moves) {
        let message = "The source headers contradict each other or the query";
        return Err(S3Error::with(ErrorCode::InvalidRequest, message));
    }
    match (verb, query.has("uploadId"), query.has("partNumber")) {
        (Method::Get, false, _) => Ok(Operation::GetObject),
        (Method::Head, false, _) => Ok(Operation::HeadObject),
        (Method::Get, true, false) => Ok(Operation::ListParts),
        (Method::Put, true, true) if moves => {
            Err(S3Error::with(ErrorCode::InvalidRequest, "A part cannot be moved into an upload"))
        }
        (Method::Put, true, true) if copies => Ok(Operation::UploadPartCopy),
        (Method::Put, true, true) => Ok(Operation::UploadPart),
        (Method::Put, false, false) if copies => Ok(Operation::CopyObject),
        (Method::Put, false, false) if moves => Ok(Operation::MoveObject),
        (Method::Put, false, false) => Ok(Operation::PutObject),
        (Method::Post, true, false) => Ok(Operation::CompleteMultipartUpload),
        (Method::Delete, true, false) => Ok(Operation::AbortMultipartUpload),
        (Method::Delete, false, false) => Ok(Operation::DeleteObject),
        (Method::Post, false, _) => Err(method_not_allowed(method, "OBJECT", OF_AN_OBJECT)),
        // A part has a number.
        (Method::Head, true, _) | (Method::Put, true, false) => Err(method_not_allowed(method, "UPLOAD", OF_AN_UPLOAD)),
        (_, false, true) => {
            // S3 shows the name in place of the value too.
            let message = "This operation does not accept partNumber without uploadId";
            Err(S3Error::argument(message, "partNumber", b"partNumber"))
        }
        (_, true, true) => {
            let value = query.get("partNumber").unwrap_or_default();
            Err(S3Error::argument("A part number does not belong to this operation", "partNumber", value))
        }
    }
}

/// The operation of the sub-resource `name`.
fn routed(name: &str, address: AddressKind, verb: Method, method: &[u8], query: &Query) -> Result<Operation, S3Error> {
    let (kind, shown) = match address {
        AddressKind::Service => ("SERVICE", "the service"),
        AddressKind::Bucket => ("BUCKET", "a bucket"),
        AddressKind::Object => ("OBJECT", "a key"),
    };
    let has_it =
        |operation: &&Operation| operation.spec().subresource == Some(name) && operation.spec().address == address;
    let at_level = || Operation::ALL.iter().filter(has_it);
    if at_level().next().is_none() {
        return Err(misplaced(name, shown));
    }
    if name == "uploads" && address == AddressKind::Object && verb == Method::Get {
        let message = "Key is not expected for the GET method ?uploads subresource";
        return Err(S3Error::with(ErrorCode::InvalidRequest, message));
    }
    let (mut plain, mut missing) = (None, None);
    for operation in at_level().filter(|operation| operation.spec().method == verb) {
        match operation.spec().parameter {
            None => plain = Some(*operation),
            Some(parameter) if query.has(parameter) => return Ok(*operation),
            Some(parameter) => missing = Some(parameter),
        }
    }
    match (plain, missing) {
        (Some(operation), _) => Ok(operation),
        (None, Some(parameter)) => Err(S3Error::argument("A required query parameter is missing", parameter, b"")),
        (None, None) => {
            let mut methods: Vec<&str> = at_level().map(|operation| operation.spec().method.name()).collect();
            methods.sort_unstable();
            methods.dedup();
            Err(method_not_allowed(method, kind, &methods.join(", ")).field("SubResource", name))
        }
    }
}

/// Parameters that address a part of an object. Beside a sub-resource, they conflict with it.
const ADDRESSES: [&str; 2] = ["uploadId", "partNumber"];

/// The parameter of an annotation, and the sub-resource that it belongs to.
const ANNOTATION_NAME: &str = "annotationName";
const ANNOTATION: &str = "annotation";

/// The one known sub-resource that the query names. Refuses two of them, and bare names that nothing explains.
///
/// Any two sub-resources conflict on S3, as do a sub-resource and the address of a part, whatever the method and whether
/// the bucket exists or not. It names all of them in alphabetical order.
fn named_subresource(query: &Query) -> Result<Option<&'static str>, S3Error> {
    let mut found: Option<&'static str> = None;
    let (mut conflicts, mut addresses) = (false, false);
    for (name, value) in query.iter() {
        if let Some(known) = subresource(name) {
            conflicts |= found.is_some_and(|other| other != known);
            found = Some(known);
        } else if is_address(name) {
            addresses = true;
        } else if value.is_empty() && !known_parameter(name) {
            return Err(S3Error::argument("Unknown sub-resource", "ResourceType", name));
        }
    }
    let foreign = found.is_some() && found != Some(ANNOTATION) && query.has(ANNOTATION_NAME);
    if conflicts || foreign || (addresses && found.is_some()) { Err(conflicting(query)) } else { Ok(found) }
}

fn is_address(name: &[u8]) -> bool {
    ADDRESSES.iter().any(|address| address.as_bytes() == name)
}

/// The error for what cannot stand in one query.
fn conflicting(query: &Query) -> S3Error {
    let foreign = |name: &[u8]| name == ANNOTATION_NAME.as_bytes() && !query.has(ANNOTATION);
    let conflicts = |name: &&[u8]| subresource(name).is_some() || is_address(name) || foreign(name);
    let parts = query.iter().map(|(name, _)| name).filter(conflicts);
    let names: BTreeSet<Cow<'_, str>> = parts.map(String::from_utf8_lossy).collect();
    let list = names.iter().map(|name| &**name).collect::<Vec<_>>().join(", ");
    let first = names.first().map_or(&b""[..], |name| name.as_bytes());
    S3Error::argument(format!("Conflicting query string parameters: {list}"), "ResourceType", first)
}

/// Parameters that may be empty without being a sub-resource.
fn known_parameter(name: &[u8]) -> bool {
    const NAMES: [&str; 26] = [
        "prefix",
        "delimiter",
        "marker",
        "max-keys",
        "encoding-type",
        "list-type",
        "continuation-token",
        "start-after",
        "fetch-owner",
        "key-marker",
        "upload-id-marker",
        "version-id-marker",
        "max-uploads",
        "max-parts",
        "part-number-marker",
        "partNumber",
        "uploadId",
        "versionId",
        "max-buckets",
        "bucket-region",
        "id",
        "select-type",
        "annotationName",
        "x-id",
        "Expires",
        "Signature",
    ];
    NAMES.iter().any(|known| known.as_bytes() == name)
        || name.starts_with(b"response-")
        || name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case(b"x-amz-"))
}

fn method_not_allowed(method: &[u8], resource: &'static str, allowed: &str) -> S3Error {
    let error = S3Error::new(ErrorCode::MethodNotAllowed).field("Method", method).field("ResourceType", resource);
    S3Error { allowed: Some(allowed.into()), ..error }
}

fn misplaced(name: &str, address: &str) -> S3Error {
    let message = format!("There is no such thing as the ?{name} sub-resource for {address}");
    S3Error::with(ErrorCode::InvalidRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::operations::tests::REFERENCE;

    fn resolve_at(method: &str, uri: &str, headers: &[(&[u8], &[u8])]) -> Result<Operation, S3Error> {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let target = Target::parse(path.as_bytes(), b"h", &[]).unwrap();
        let query = Query::parse(query.as_bytes()).unwrap();
        resolve(method.as_bytes(), &target, &query, &Headers::new(headers))
    }

    fn subresources() -> impl Iterator<Item = &'static str> {
        Operation::ALL.iter().filter_map(|operation| operation.spec().subresource)
    }

    fn code(method: &str, uri: &str) -> ErrorCode {
        resolve_at(method, uri, &[]).unwrap_err().code
    }

    #[test]
    fn every_operation_of_the_model_resolves_to_itself() {
        assert_eq!(REFERENCE.lines().count(), 116);
        for line in REFERENCE.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let headers: [(&[u8], &[u8]); 1] = [(fields[3].as_bytes(), b"bucket/k")];
            // Five names of the model are older or directory-bucket names of the same request.
            let expected = match fields[0] {
                "GetBucketLifecycle" => "GetBucketLifecycleConfiguration",
                "PutBucketLifecycle" => "PutBucketLifecycleConfiguration",
                "GetBucketNotification" => "GetBucketNotificationConfiguration",
                "PutBucketNotification" => "PutBucketNotificationConfiguration",
                "ListDirectoryBuckets" => "ListBuckets",
                name => name,
            };
            let resolved = resolve_at(fields[1], fields[2], &headers).map(Operation::name);
            assert_eq!(resolved, Ok(expected), "{line}");
        }
    }

    #[test]
    fn no_known_sub_resource_falls_through_with_any_method() {
        for name in subresources() {
            for method in ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH"] {
                for path in ["/", "/bucket", "/bucket/key"] {
                    for query in [name.to_owned(), format!("{name}=x&x-id=GetObject")] {
                        let headers: [(&[u8], &[u8]); 1] = [(b"x-amz-rename-source", b"/k")];
                        if let Ok(operation) = resolve_at(method, &format!("{path}?{query}"), &headers) {
                            let of_row = operation.spec().subresource;
                            assert_eq!(of_row, Some(name), "{method} {path}?{query} -> {operation:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn wrong_methods_and_unknown_names() {
        assert_eq!(code("PUT", "/bucket/key?frobnicate"), ErrorCode::InvalidArgument);
        assert_eq!(code("GET", "/bucket?ACL"), ErrorCode::InvalidArgument);
        assert_eq!(code("PUT", "/bucket/key?acl&tagging"), ErrorCode::InvalidArgument);
        assert_eq!(code("PUT", "/bucket/key?uploads"), ErrorCode::MethodNotAllowed);
        assert_eq!(code("GET", "/bucket/key?policy"), ErrorCode::InvalidRequest);
        assert_eq!(code("GET", "/bucket?torrent"), ErrorCode::InvalidRequest);
        assert_eq!(code("GET", "/?acl"), ErrorCode::InvalidRequest);
        assert_eq!(code("GET", "/bucket/key?uploads"), ErrorCode::InvalidRequest);
        assert_eq!(code("PUT", "/bucket/key?uploadId=u"), ErrorCode::MethodNotAllowed);
        assert_eq!(code("PUT", "/bucket/key?partNumber=1"), ErrorCode::InvalidArgument);
        assert_eq!(code("DELETE", "/bucket/key?partNumber=1"), ErrorCode::InvalidArgument);
        assert_eq!(code("POST", "/bucket/key"), ErrorCode::MethodNotAllowed);
        assert_eq!(code("POST", "/bucket"), ErrorCode::PreconditionFailed);
        assert_eq!(code("PATCH", "/bucket/key"), ErrorCode::MethodNotAllowed);
        assert_eq!(code("DELETE", "/"), ErrorCode::MethodNotAllowed);
        assert_eq!(code("GET", "/bucket?uploadId=u"), ErrorCode::InvalidRequest);
        assert_eq!(code("PUT", "/bucket?uploadId=u"), ErrorCode::MethodNotAllowed);
        assert_eq!(code("PUT", "/bucket?partNumber=1"), ErrorCode::InvalidRequest);
        assert_eq!(code("PUT", "/bucket?partNumber=1&uploadId=u"), ErrorCode::MethodNotAllowed);
        assert_eq!(code("OPTIONS", "/bucket/key"), ErrorCode::AccessForbidden);
        assert_eq!(code("GET", "/bucket?list-type=3"), ErrorCode::InvalidArgument);
        assert_eq!(code("PUT", "/bucket/key?renameObject"), ErrorCode::InvalidRequest);
        assert_eq!(resolve_at("PUT", "/bucket/key?x-id=PutObject&foreign=1", &[]), Ok(Operation::PutObject));
        assert_eq!(resolve_at("GET", "/bucket?prefix=&delimiter=", &[]), Ok(Operation::ListObjects));
        assert_eq!(resolve_at("GET", "/bucket/key?partNumber=2", &[]), Ok(Operation::GetObject));
    }

    #[test]
    fn any_two_sub_resources_conflict() {
        let mut names: Vec<&str> = subresources().chain(ADDRESSES).collect();
        names.dedup();
        let pairs = || names.iter().flat_map(|one| names.iter().map(move |other| (*one, *other)));
        for (one, other) in pairs().filter(|(one, other)| one != other) {
            if ADDRESSES.contains(&one) && ADDRESSES.contains(&other) {
                continue;
            }
            let (first, second) = (one.min(other), one.max(other));
            for uri in [format!("/bucket?{one}=1&{other}=1"), format!("/bucket/key?{one}=1&x-id=a&{other}")] {
                for method in ["GET", "HEAD", "PUT", "POST", "DELETE"] {
                    let error = resolve_at(method, &uri, &[]).unwrap_err();
                    assert_eq!(error.message, format!("Conflicting query string parameters: {first}, {second}"));
                    let argument =
                        [("ArgumentName", b"ResourceType".to_vec()), ("ArgumentValue", first.as_bytes().to_vec())];
                    assert_eq!((error.code, error.extra), (ErrorCode::InvalidArgument, argument.to_vec()), "{uri}");
                }
            }
        }
        let message = |uri: &str| resolve_at("GET", uri, &[]).unwrap_err().message;
        let three = "Conflicting query string parameters: acl, policy, uploadId";
        assert_eq!(message("/bucket/key?uploadId=u&policy&acl"), three);
        let named = "Conflicting query string parameters: acl, annotationName";
        assert_eq!(message("/bucket/key?annotationName=a&acl"), named);
        assert_eq!(
            resolve_at("GET", "/bucket/key?annotation&annotationName=a", &[]),
            Ok(Operation::GetObjectAnnotation)
        );
        assert!(resolve_at("GET", "/bucket/key?acl&acl", &[]).is_ok(), "it names one");
    }

    #[test]
    fn source_headers_distinguish_copies_and_moves() {
        let with = |method: &str, uri: &str, names: &[&'static str]| {
            let headers: Vec<(&[u8], &[u8])> =
                names.iter().map(|name| (name.as_bytes(), b"bucket/k".as_slice())).collect();
            resolve_at(method, uri, &headers)
        };
        let (copy, shift) = ("x-amz-copy-source", "x-amz-move-source");
        assert_eq!(with("PUT", "/bucket/key", &[copy]), Ok(Operation::CopyObject));
        assert_eq!(with("PUT", "/bucket/key", &[shift]), Ok(Operation::MoveObject));
        assert_eq!(with("PUT", "/bucket/key?partNumber=1&uploadId=u", &[copy]), Ok(Operation::UploadPartCopy));
        for (method, uri, names) in [
            ("PUT", "/bucket/key", vec![copy, shift]),
            ("PUT", "/bucket/key", vec!["x-amz-rename-source"]),
            ("PUT", "/bucket/key?partNumber=1&uploadId=u", vec![shift]),
        ] {
            assert_eq!(with(method, uri, &names).unwrap_err().code, ErrorCode::InvalidRequest, "{method} {names:?}");
        }
        assert_eq!(with("GET", "/bucket/key", &[copy]).unwrap_err().code, ErrorCode::InvalidArgument);
        assert_eq!(with("POST", "/bucket?uploadId=u", &[copy]).unwrap_err().code, ErrorCode::InvalidArgument);
    }

    #[test]
    fn a_refused_method_says_which_there_are() {
        let allowed = |method: &str, uri: &str| resolve_at(method, uri, &[]).unwrap_err().allowed.unwrap();
        assert_eq!(&*allowed("DELETE", "/bucket?acl"), "GET, PUT");
        assert_eq!(&*allowed("GET", "/bucket/key?restore"), "POST");
        assert_eq!(&*allowed("PATCH", "/bucket/key"), OF_AN_OBJECT);
        assert_eq!(&*allowed("POST", "/"), OF_THE_SERVICE);
    }

    #[test]
    fn form_uploads_are_told_by_their_content_type() {
        let headers: [(&[u8], &[u8]); 1] = [(b"content-type", b"Multipart/Form-Data; boundary=x")];
        assert_eq!(resolve_at("POST", "/bucket", &headers), Ok(Operation::PostObject));
    }
}
