//! From a request head to a verified, typed request, in one pure step: who asks, what for, and with which input.
//!
//! The verdict on the signature comes before anything about the store is looked at or told. Only the root identity
//! exists: whoever signs as another, or as nobody, is denied.

use std::sync::Arc;

use bytes::Bytes;

use super::answer::{Answer, Envelope};
use super::buckets::CreateBucket;
use super::copies::{CopyObject, MoveObject, Source, UploadPartCopy};
use super::deletes::{DeleteObject, DeleteObjects};
use super::instant::InstantUpload;
use super::intake::{Promise, transfer_encoded};
use super::lane::{Lane, now_ms};
use super::listing::{ListBuckets, ListObjects, ListParts, ListUploads, ObjectsQuery};
use super::metadata::stored;
use super::objects::ReadObject;
use super::problem::Problem;
use super::request::{BodyPlan, Input, Request};
use super::settings::{PutBucketSettings, SettingsChange};
use super::uploads::{AbortUpload, Becomes, CompleteUpload, CreateUpload, Upload, parse_upload_id};
use orcas_http::{Headers, Query, RequestHead};
use orcas_record::{Bucket, BucketSettings};
use orcas_s3::checksums::{CompleteChecksum, UploadChecksum, copy_algorithm, wants_checksum};
use orcas_s3::conditions::{ReadConditions, WriteCondition};
use orcas_s3::headers::Overrides;
use orcas_s3::metadata::{MetadataDirective, ObjectHeaders, multipart_object_size};
use orcas_s3::operations::{is_form, resolve};
use orcas_s3::query::{self, ListBucketsQuery, ListObjectsQuery, ListObjectsV2Query, ListPartsQuery, ListUploadsQuery};
use orcas_s3::range::{check_range_or_part, part_number};
use orcas_s3::support::{check_expected_owner, check_supported};
use orcas_s3::target::{CopySource, hosted_bucket};
use orcas_s3::{ErrorCode, Operation, S3Error, Target};
use orcas_sigv4::{Authentication, Authorized, PayloadMode, Policy, SKEW_MAX_MS, VersionTwo, authorize, claims_nobody};

/// Bytes of the largest document: 1,000 keys of a Delete or 10,000 parts fit, and a parser's memory is bounded.
const DOCUMENT_LEN_MAX: u64 = 2 * 1024 * 1024;

/// What writes are told while a store is open for salvage. Not a 503, which clients repeat.
const SALVAGE: &str = "The store is open for salvage: objects can be read and listed, nothing can be changed.";

/// Why a head was refused, as a ready answer.
pub type Refused = Box<Answer>;

impl Lane {
    /// Verifies and types a request. A refusal of a request with a body also ends its connection.
    pub fn accept(self: &Arc<Self>, head: &RequestHead<'_>) -> Result<Arc<Request>, Refused> {
        self.accept_below(head, 0)
    }

    /// The same below a path at which somebody has mounted the server: its `root` bytes are signed like the rest of the
    /// path, and name neither bucket nor key.
    pub fn accept_below(self: &Arc<Self>, head: &RequestHead<'_>, root: usize) -> Result<Arc<Request>, Refused> {
        let envelope = self.envelope(head.method, head.path);
        let has_body = has_body(&head.headers);
        match self.read(head, root) {
            Ok(read) => Ok(Request::new(Arc::clone(self), envelope, read, has_body)),
            Err(problem) => {
                let answer = match self.options.explains.then(|| self.diagnose(head)).flatten() {
                    Some(diagnosis) => envelope.explained(problem, diagnosis),
                    None => envelope.problem(problem),
                };
                Err(Box::new(if has_body { answer.closing() } else { answer }))
            }
        }
    }

    /// What answers to a request for `path`, as it stood in the request line, say about it.
    pub fn envelope(&self, method: &[u8], path: &[u8]) -> Envelope {
        Envelope {
            request_id: self.next_request_id(),
            host_id: Arc::clone(&self.host_id),
            resource: path.to_vec(),
            headless: method == b"HEAD",
        }
    }

    fn read(&self, head: &RequestHead<'_>, root: usize) -> Result<(Operation, Input, BodyPlan), Problem> {
        if head.method == b"OPTIONS" {
            return Err(ErrorCode::AccessForbidden.into());
        }
        let (authorized, owner) =
            self.authorize(head).map_err(|problem| self.form_upload(head, root).unwrap_or(problem))?;
        let query = Query::parse(head.query).ok_or(ErrorCode::InvalidURI)?;
        let hoisted = match authorized.how {
            Authentication::Presigned => query::hoisted_headers(&query, &head.headers, &[]),
            Authentication::PresignedVersionTwo => {
                query::hoisted_headers(&query, &head.headers, &HOISTED_BY_VERSION_TWO)
            }
            Authentication::Header | Authentication::Anonymous => Vec::new(),
        };
        let list: Vec<(&[u8], &[u8])>;
        let extended: RequestHead<'_>;
        let head = if hoisted.is_empty() {
            head
        } else {
            list = head.headers.iter().chain(hoisted.iter().map(|(name, value)| (&name[..], &value[..]))).collect();
            extended = RequestHead { headers: Headers::new(&list), ..*head };
            &extended
        };
        let host = head.headers.get("host").unwrap_or_default();
        let target = Target::parse(below(head.path, root), host, &self.options.domains)?;
        let operation = resolve(head.method, &target, &query, &head.headers)?;
        check_supported(operation, &query, &head.headers)?;
        if self.options.salvage && operation.changes() {
            return Err(S3Error::with(ErrorCode::AccessDenied, SALVAGE).into());
        }
        let reading = Reading { lane: self, head, query, owner, payload: &authorized.payload };
        let input = reading.input(operation, &target)?;
        let body = reading.body(&input)?;
        Ok((operation, input, body))
    }

    /// The answer to a browser's form upload: what signs it stands in its body, which is not looked at, as the operation
    /// is not built.
    fn form_upload(&self, head: &RequestHead<'_>, root: usize) -> Option<Problem> {
        if head.method != b"POST" || !is_form(&head.headers) || !claims_nobody(head) {
            return None;
        }
        let host = head.headers.get("host").unwrap_or_default();
        match Target::parse(below(head.path, root), host, &self.options.domains) {
            Ok(Target::Bucket(_)) => Some(Operation::PostObject.unbuilt().into()),
            Ok(Target::Service | Target::Object { .. } | Target::ObjectLambda) | Err(_) => None,
        }
    }

    /// Who asks: the owner's id. Everybody but root is denied.
    pub fn authorize(&self, head: &RequestHead<'_>) -> Result<(Authorized, String), Problem> {
        let keys = &self.identities.keys;
        let credential = |key: &str| keys.get(key).map(|known| known.credential.clone());
        let authorized = authorize(head, &self.policy(), &self.signing_keys, &credential)?;
        let owner = keys.get(&authorized.access_key).map(|known| &known.owner);
        match (authorized.how, owner) {
            (Authentication::Anonymous, _) | (_, None) => Err(ErrorCode::AccessDenied.into()),
            (_, Some(owner)) if *owner != self.identities.root => Err(ErrorCode::AccessDenied.into()),
            (Authentication::Header | Authentication::Presigned | Authentication::PresignedVersionTwo, Some(owner)) => {
                Ok((authorized, owner.clone()))
            }
        }
    }

    /// What is demanded of signatures now.
    pub(super) fn policy(&self) -> Policy<'_> {
        Policy {
            region: self.options.strict_region.then_some(self.options.region.as_str()),
            now_unix_ms: now_ms(),
            skew_max_ms: SKEW_MAX_MS,
            version_two: self.options.presign_v2.then_some(VersionTwo {
                domains: &self.options.domains,
                hosted_bucket,
                is_resource: query::is_resource_parameter,
            }),
        }
    }
}

/// Headers without the prefix `x-amz-` that a presigned address of version 2 signs and carries in its query.
const HOISTED_BY_VERSION_TWO: [&str; 2] = ["content-md5", "content-type"];

/// What of a path names bucket and key.
pub(super) fn below(path: &[u8], root: usize) -> &[u8] {
    path.get(root..).unwrap_or_default()
}

/// Whether a body follows the head.
fn has_body(headers: &Headers<'_>) -> bool {
    transfer_encoded(headers) || headers.get("content-length").is_some_and(|length| length.trim_ascii() != b"0")
}

/// A head whose sender is known.
struct Reading<'a> {
    lane: &'a Lane,
    head: &'a RequestHead<'a>,
    query: Query,
    owner: String,
    payload: &'a PayloadMode,
}

impl Reading<'_> {
    fn headers(&self) -> &Headers<'_> {
        &self.head.headers
    }

    fn input(&self, operation: Operation, target: &Target) -> Result<Input, Problem> {
        match target {
            Target::Service => match operation {
                Operation::ListBuckets => Ok(Input::ListBuckets(ListBuckets {
                    query: ListBucketsQuery::parse(&self.query)?,
                    owner: self.owner.clone(),
                })),
                other => Err(other.unbuilt().into()),
            },
            Target::ObjectLambda => Err(operation.unbuilt().into()),
            Target::Bucket(name) if operation == Operation::CreateBucket => Ok(Input::CreateBucket(CreateBucket {
                name: name.clone(),
                owner: self.owner.clone(),
                settings: SettingsChange::parse(self.headers())?.applied_to(BucketSettings::default()),
            })),
            Target::Bucket(name) => self.on_bucket(operation, self.bucket(name)?),
            Target::Object { bucket, key } => {
                self.on_object(operation, self.bucket(bucket)?, Bytes::copy_from_slice(key))
            }
        }
    }

    fn bucket(&self, name: &str) -> Result<Arc<Bucket>, Problem> {
        let bucket = self.lane.engine.bucket(name.as_bytes());
        let bucket =
            bucket.ok_or_else(|| S3Error::new(ErrorCode::NoSuchBucket).field("BucketName", name.as_bytes()))?;
        let owner = std::str::from_utf8(&bucket.owner).unwrap_or_default();
        check_expected_owner(self.headers(), "x-amz-expected-bucket-owner", owner)?;
        Ok(bucket)
    }

    fn on_bucket(&self, operation: Operation, bucket: Arc<Bucket>) -> Result<Input, Problem> {
        let query = &self.query;
        Ok(match operation {
            Operation::HeadBucket => Input::HeadBucket(bucket),
            Operation::DeleteBucket => Input::DeleteBucket(bucket),
            Operation::GetBucketLocation => Input::GetBucketLocation(bucket),
            Operation::PutBucketSettings => {
                Input::PutBucketSettings(Box::new(PutBucketSettings::parse(self.headers(), bucket)?))
            }
            Operation::DeleteObjects => Input::DeleteObjects(DeleteObjects::new(bucket)),
            Operation::ListObjects => {
                Input::ListObjects(ListObjects { bucket, query: ObjectsQuery::V1(ListObjectsQuery::parse(query)?) })
            }
            Operation::ListObjectsV2 => {
                Input::ListObjects(ListObjects { bucket, query: ObjectsQuery::V2(ListObjectsV2Query::parse(query)?) })
            }
            Operation::ListMultipartUploads => {
                Input::ListUploads(ListUploads { bucket, query: ListUploadsQuery::parse(query)? })
            }
            other => return Err(other.unbuilt().into()),
        })
    }

    fn on_object(&self, operation: Operation, bucket: Arc<Bucket>, key: Bytes) -> Result<Input, Problem> {
        let (headers, query) = (self.headers(), &self.query);
        Ok(match operation {
            Operation::GetObject | Operation::HeadObject => Input::ReadObject(Box::new(self.read_object(bucket, key)?)),
            Operation::PutObject => {
                let condition = WriteCondition::parse(headers)?;
                self.check_early(&condition, &bucket, &key)?;
                let headers = Box::new(stored(ObjectHeaders::parse(headers)?));
                let becomes = Becomes::Object { condition, headers };
                Input::Upload(Box::new(Upload { bucket, key, becomes }))
            }
            Operation::InstantUpload => {
                let upload = InstantUpload::parse(headers, &self.owner, bucket, key)?;
                self.check_early(&upload.condition, &upload.bucket, &upload.key)?;
                Input::InstantUpload(Box::new(upload))
            }
            Operation::UploadPart => {
                let (number, upload) = self.part_address()?;
                Input::Upload(Box::new(Upload { bucket, key, becomes: Becomes::Part { upload, number } }))
            }
            Operation::DeleteObject => {
                Input::DeleteObject(DeleteObject { bucket, key, condition: WriteCondition::parse(headers)? })
            }
            Operation::CopyObject => Input::CopyObject(Box::new(self.copy_object(bucket, key)?)),
            Operation::UploadPartCopy => {
                let (number, upload) = self.part_address()?;
                let source = self.copy_source()?;
                let range = headers.get("x-amz-copy-source-range").map(<[u8]>::to_vec);
                Input::UploadPartCopy(Box::new(UploadPartCopy { source, bucket, key, upload, number, range }))
            }
            Operation::RenameObject | Operation::MoveObject => {
                Input::MoveObject(Box::new(self.move_object(operation, bucket, key)?))
            }
            Operation::CreateMultipartUpload => Input::CreateUpload(Box::new(CreateUpload {
                bucket,
                key,
                headers: stored(ObjectHeaders::parse(headers)?),
                checksum: UploadChecksum::parse(headers)?,
            })),
            Operation::CompleteMultipartUpload => Input::CompleteUpload(Box::new(CompleteUpload {
                location: self.location(),
                bucket,
                key,
                upload: self.upload_id()?,
                condition: WriteCondition::parse(headers)?,
                checksum: CompleteChecksum::parse(headers)?,
                size: multipart_object_size(headers)?,
            })),
            Operation::AbortMultipartUpload => {
                Input::AbortUpload(AbortUpload { bucket, key, upload: self.upload_id()? })
            }
            Operation::ListParts => {
                let query = ListPartsQuery::parse(query)?;
                Input::ListParts(ListParts { bucket, key, upload: parse_upload_id(&query.upload_id)?, query })
            }
            other => return Err(other.unbuilt().into()),
        })
    }

    fn read_object(&self, bucket: Arc<Bucket>, key: Bytes) -> Result<ReadObject, Problem> {
        let headers = self.headers();
        let range = headers.get("range").map(<[u8]>::to_vec);
        let part = part_number(&self.query)?;
        check_range_or_part(range.as_deref(), part)?;
        Ok(ReadObject {
            bucket,
            key,
            conditions: ReadConditions::of_read(headers),
            range,
            if_range: headers.get("if-range").map(<[u8]>::to_vec),
            part,
            overrides: Overrides::parse(&self.query)?,
            wants_checksum: wants_checksum(headers),
        })
    }

    fn copy_object(&self, bucket: Arc<Bucket>, key: Bytes) -> Result<CopyObject, Problem> {
        let headers = self.headers();
        let source = self.copy_source()?;
        let replaced = match MetadataDirective::parse(headers)? {
            MetadataDirective::Replace => Some(stored(ObjectHeaders::parse(headers)?)),
            MetadataDirective::Copy => None,
        };
        let algorithm = copy_algorithm(headers)?;
        let itself = source.name.bucket.as_bytes() == bucket.name && source.name.key == key;
        if itself && replaced.is_none() && algorithm.is_none() {
            let message = "This copy request is illegal because it is trying to copy an object to itself without \
                           changing the object's metadata, storage class, website redirect location or encryption \
                           attributes.";
            return Err(S3Error::with(ErrorCode::InvalidRequest, message).into());
        }
        let condition = WriteCondition::parse(headers)?;
        Ok(CopyObject { source, bucket, key, condition, headers: replaced, algorithm })
    }

    fn copy_source(&self) -> Result<Source, Problem> {
        const HEADER: &str = "x-amz-copy-source";
        let value = self.headers().get(HEADER).unwrap_or_default();
        Ok(Source {
            name: CopySource::parse(HEADER, value)?,
            conditions: ReadConditions::of_copy_source(self.headers()),
            expected_owner: self.expected_source_owner(),
        })
    }

    fn move_object(&self, operation: Operation, bucket: Arc<Bucket>, key: Bytes) -> Result<MoveObject, Problem> {
        let headers = self.headers();
        let (name, conditions) = if operation == Operation::RenameObject {
            let value = headers.get("x-amz-rename-source").unwrap_or_default();
            let bucket = std::str::from_utf8(&bucket.name).unwrap_or_default();
            (CopySource::parse_rename(bucket, value)?, ReadConditions::of_rename_source(headers))
        } else {
            const HEADER: &str = "x-amz-move-source";
            let value = headers.get(HEADER).unwrap_or_default();
            (CopySource::parse(HEADER, value)?, ReadConditions::of_copy_source(headers))
        };
        let source = Source { name, conditions, expected_owner: self.expected_source_owner() };
        Ok(MoveObject { source, bucket, key, condition: WriteCondition::parse(headers)? })
    }

    fn expected_source_owner(&self) -> Option<Vec<u8>> {
        self.headers().get("x-amz-source-expected-bucket-owner").map(<[u8]>::to_vec)
    }

    fn part_address(&self) -> Result<(u16, orcas_record::UploadId), Problem> {
        let (number, id) = query::part_address(&self.query)?;
        Ok((number, parse_upload_id(&id)?))
    }

    fn upload_id(&self) -> Result<orcas_record::UploadId, Problem> {
        Ok(parse_upload_id(&query::upload_id(&self.query)?)?)
    }

    /// Refuses a write whose condition fails already, before its body travels. The decision asks again.
    fn check_early(&self, condition: &WriteCondition, bucket: &Bucket, key: &Bytes) -> Result<(), Problem> {
        if *condition == WriteCondition::Always {
            return Ok(());
        }
        let Some(found) = self.lane.engine.try_object(bucket.id, key) else { return Ok(()) };
        let etag = found.as_ref().map(|found| &found.object.version.etag);
        condition.judge(etag).map_err(|code| match (code, condition) {
            (ErrorCode::PreconditionFailed, WriteCondition::Absent) => S3Error::precondition("If-None-Match").into(),
            (ErrorCode::PreconditionFailed, _) => S3Error::precondition("If-Match").into(),
            (code, _) => Problem::from(code),
        })
    }

    /// The address under which the client knows the object.
    fn location(&self) -> String {
        let host = String::from_utf8_lossy(self.headers().get("host").unwrap_or_default());
        format!("http://{host}{}", String::from_utf8_lossy(self.head.path))
    }

    fn body(&self, input: &Input) -> Result<BodyPlan, Problem> {
        match input {
            Input::Upload(upload) => {
                let promise = Promise::parse(self.headers(), self.payload)?;
                let promise = Box::new(promise.keeping_sha256(upload.keeps_sha256()));
                let whole = promise.length <= self.lane.options.whole_body_max;
                Ok(if whole { BodyPlan::Whole(promise) } else { BodyPlan::Stream(promise) })
            }
            Input::CreateBucket(_) | Input::DeleteObjects(_) | Input::CompleteUpload(_) => {
                let promise = match input {
                    Input::CompleteUpload(_) => Promise::of_part_list(self.headers(), self.payload)?,
                    _ => Promise::of_document(self.headers(), self.payload)?,
                };
                if promise.length > DOCUMENT_LEN_MAX {
                    return Err(ErrorCode::MaxMessageLengthExceeded.into());
                }
                if matches!(input, Input::DeleteObjects(_)) && !promise.has_integrity_header() {
                    let message = "Missing required header for this request: Content-MD5 or x-amz-checksum-";
                    return Err(S3Error::with(ErrorCode::InvalidRequest, message).into());
                }
                Ok(BodyPlan::Whole(Box::new(promise)))
            }
            Input::ListBuckets(_)
            | Input::HeadBucket(_)
            | Input::DeleteBucket(_)
            | Input::GetBucketLocation(_)
            | Input::PutBucketSettings(_)
            | Input::ListObjects(_)
            | Input::ReadObject(_)
            | Input::InstantUpload(_)
            | Input::DeleteObject(_)
            | Input::CopyObject(_)
            | Input::MoveObject(_)
            | Input::CreateUpload(_)
            | Input::UploadPartCopy(_)
            | Input::AbortUpload(_)
            | Input::ListParts(_)
            | Input::ListUploads(_) => Ok(BodyPlan::None),
        }
    }
}
