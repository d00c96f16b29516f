//! The catalogue of S3 error codes (name, HTTP status, default message) and the error document.
//!
//! One macro row per code, so that a code without a status or a message does not compile. Statuses and messages
//! follow the API reference's list of error responses.

use std::borrow::Cow;

use super::xml::XmlWriter;

macro_rules! text {
    ($code:ident) => {
        stringify!($code)
    };
    ($code:ident $text:literal) => {
        $text
    };
}

macro_rules! catalogue {
    ($($code:ident $(= $text:literal)? $status:literal $message:literal;)+) => {
        /// An S3 error code; the variant's name is the code on the wire, unless another text is given.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode { $($code,)+ }

        impl ErrorCode {
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$code,)+];

            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().find(|code| code.as_str() == name).copied()
            }

            /// The code as it stands in the error document.
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$code => text!($code $($text)?),)+ }
            }

            /// The HTTP status of the answer.
            pub fn status(self) -> u16 {
                match self { $(ErrorCode::$code => $status,)+ }
            }

            /// The message if the caller gives none.
            pub fn default_message(self) -> &'static str {
                match self { $(ErrorCode::$code => $message,)+ }
            }
        }
    };
}

catalogue! {
    AccessControlListNotSupported 400 "The bucket does not allow ACLs";
    AccessDenied 403 "Access Denied";
    AccessForbidden 403 "CORSResponse: CORS is not enabled for this bucket.";
    AccountProblem 403 "There is a problem with your account that prevents the operation from completing successfully.";
    AnnotationLimitExceeded 400 "The request would exceed the maximum number of annotations allowed per object.";
    AnnotationNameTooLong 400 "The annotation name exceeds 512 bytes.";
    AuthorizationHeaderMalformed 400 "The authorization header is malformed.";
    AuthorizationQueryParametersError 400 "Query-string authentication parameters are malformed.";
    BadDigest 400 "The Content-MD5 you specified did not match what we received.";
    BadRequest 400 "Bad Request";
    BucketAlreadyExists 409 "The requested bucket name is not available. The bucket namespace is shared by all users of the system. Select a different name and try again.";
    BucketAlreadyOwnedByYou 409 "Your previous request to create the named bucket succeeded and you already own it.";
    BucketNotEmpty 409 "The bucket you tried to delete is not empty";
    ConditionalRequestConflict 409 "The conditional request cannot succeed due to a conflicting operation against this resource.";
    CredentialsNotSupported 400 "This request does not support credentials.";
    EntityTooLarge 400 "Your proposed upload exceeds the maximum allowed size";
    EntityTooSmall 400 "Your proposed upload is smaller than the minimum allowed size";
    ExpiredToken 400 "The provided token has expired.";
    IdempotencyParameterMismatch 400 "Parameters on this idempotent request are inconsistent with parameters used in previous request(s).";
    IllegalLocationConstraintException 400 "The specified location constraint is incompatible for the region specific endpoint this request was sent to.";
    IllegalVersioningConfigurationException 400 "The Versioning element must be specified";
    IncompleteBody 400 "You did not provide the number of bytes specified by the Content-Length HTTP header";
    IncorrectNumberOfFilesInPostRequest 400 "POST requires exactly one file upload per request.";
    InternalError 500 "We encountered an internal error. Please try again.";
    InvalidAccessKeyId 403 "The AWS Access Key Id you provided does not exist in our records.";
    InvalidAnnotationName 400 "The annotation name you provided is invalid.";
    InvalidArgument 400 "Invalid Argument";
    InvalidBucketAclWithBlockPublicAccessError 400 "Bucket cannot have public ACLs set with BlockPublicAccess enabled";
    InvalidBucketAclWithObjectOwnership 400 "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting";
    InvalidBucketName 400 "The specified bucket is not valid.";
    InvalidBucketState 409 "The request is not valid for the current state of the bucket.";
    InvalidChunkSizeError 400 "Only the last chunk is allowed to have a size less than 8192 bytes";
    InvalidDigest 400 "The Content-MD5 you specified was invalid.";
    InvalidEncryptionAlgorithmError 400 "The Encryption request you specified is not valid. Supported value: AES256.";
    InvalidLocationConstraint 400 "The specified location-constraint is not valid";
    InvalidObjectState 403 "The operation is not valid for the object's storage class";
    InvalidPart 400 "One or more of the specified parts could not be found.  The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.";
    InvalidPartNumber 416 "The requested partnumber is not satisfiable";
    InvalidPartOrder 400 "The list of parts was not in ascending order. Parts must be ordered by part number.";
    InvalidPolicyDocument 400 "The content of the form does not meet the conditions specified in the policy document.";
    InvalidPrefix 400 "The annotation prefix you provided is invalid.";
    InvalidRange 416 "The requested range is not satisfiable";
    InvalidRedirectLocation 400 "The website redirect location must have a prefix of 'http://' or 'https://' or '/'.";
    InvalidRequest 400 "Invalid Request";
    InvalidStorageClass 400 "The storage class you specified is not valid";
    InvalidTag 400 "The tag provided was not a valid tag. This error can occur if the tag did not pass input validation.";
    InvalidTargetBucketForLogging 400 "The target bucket for logging does not exist, is not owned by you, or does not have the appropriate grants for the log-delivery group";
    InvalidToken 400 "The provided token is malformed or otherwise invalid.";
    InvalidURI 400 "Couldn't parse the specified URI.";
    InvalidWriteOffset 400 "The write offset value that you specified does not match the current object size.";
    KmsDisabled = "KMS.DisabledException" 400 "The key is disabled.";
    KmsInvalidState = "KMS.KMSInvalidStateException" 400 "The key is pending deletion.";
    KmsNotFound = "KMS.NotFoundException" 400 "The key does not exist.";
    KeyTooLongError 400 "Your key is too long";
    MalformedACLError 400 "The XML you provided was not well-formed or did not validate against our published schema";
    MalformedPOSTRequest 400 "The body of your POST request is not well-formed multipart/form-data.";
    MalformedPolicy 400 "This policy contains invalid Json";
    MalformedTrailerError 400 "The request contained trailing data that was not well-formed or did not conform to our published schema.";
    MalformedXML 400 "The XML you provided was not well-formed or did not validate against our published schema";
    MaxMessageLengthExceeded 400 "Your request was too big.";
    MaxPostPreDataLengthExceededError 400 "Your POST request fields preceding the upload file were too large.";
    MetadataConfigurationNotFound 404 "The metadata configuration does not exist for this bucket.";
    MetadataTooLarge 400 "Your metadata headers exceed the maximum allowed metadata size";
    MethodNotAllowed 405 "The specified method is not allowed against this resource.";
    MissingContentLength 411 "You must provide the Content-Length HTTP header.";
    MissingRequestBodyError 400 "Request Body is empty";
    MissingSecurityHeader 400 "Your request was missing a required header";
    NoSuchAnnotation 404 "The specified annotation does not exist on this object.";
    NoSuchBucket 404 "The specified bucket does not exist";
    NoSuchBucketPolicy 404 "The bucket policy does not exist";
    NoSuchCORSConfiguration 404 "The CORS configuration does not exist";
    NoSuchConfiguration 404 "The specified configuration does not exist.";
    NoSuchKey 404 "The specified key does not exist.";
    NoSuchLifecycleConfiguration 404 "The lifecycle configuration does not exist";
    NoSuchObjectLockConfiguration 404 "The specified object does not have a ObjectLock configuration";
    NoSuchPublicAccessBlockConfiguration 404 "The public access block configuration was not found";
    NoSuchTagSet 404 "The TagSet does not exist";
    NoSuchUpload 404 "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.";
    NoSuchVersion 404 "The specified version does not exist.";
    NoSuchWebsiteConfiguration 404 "The specified bucket does not have a website configuration";
    NotImplemented 501 "A header or query you provided implies functionality that is not implemented";
    NotModified 304 "Not Modified";
    NotSignedUp 403 "Your account is not signed up";
    ObjectLockConfigurationNotFoundError 404 "Object Lock configuration does not exist for this bucket";
    OperationAborted 409 "A conflicting conditional operation is currently in progress against this resource. Try again.";
    OwnershipControlsNotFoundError 404 "The bucket ownership controls were not found";
    PreconditionFailed 412 "At least one of the pre-conditions you specified did not hold";
    QuotaExceeded 403 "The quota would be exceeded.";
    ReplicationConfigurationNotFoundError 404 "The replication configuration was not found";
    RequestHeaderSectionTooLarge 400 "Your request header section exceeds the maximum allowed request header section size";
    RequestTimeTooSkewed 403 "The difference between the request time and the current time is too large.";
    RequestTimeout 400 "Your socket connection to the server was not read from or written to within the timeout period.";
    ServerSideEncryptionConfigurationNotFoundError 404 "The server side encryption configuration was not found";
    ServiceUnavailable 503 "Service is unable to handle request.";
    SignatureDoesNotMatch 403 "The request signature we calculated does not match the signature you provided. Check your key and signing method.";
    SlowDown 503 "Please reduce your request rate.";
    TooManyBuckets 400 "You have attempted to create more buckets than allowed";
    TooManyParts 400 "You have attempted to upload more parts than allowed";
    UnauthorizedAccess 403 "The provided credentials are not allowed to perform this action.";
    UnexpectedContent 400 "This request does not support content";
    UnresolvableGrantByEmailAddress 400 "The e-mail address you provided does not match any account on record.";
    UnsupportedMediaType 415 "The annotation payload is not valid UTF-8 encoded text.";
    XAmzContentChecksumMismatch 400 "The provided 'x-amz-checksum' header does not match what was computed.";
    XAmzContentSHA256Mismatch 400 "The provided 'x-amz-content-sha256' header does not match what was computed.";
}

impl ErrorCode {
    /// Whether it answers an ordinary question of clients: whether something exists, or has changed.
    pub fn is_ordinary(self) -> bool {
        matches!(
            self,
            Self::NoSuchKey
                | Self::NoSuchVersion
                | Self::NoSuchAnnotation
                | Self::PreconditionFailed
                | Self::NotModified
                | Self::MetadataConfigurationNotFound
                | Self::NoSuchBucketPolicy
                | Self::NoSuchCORSConfiguration
                | Self::NoSuchConfiguration
                | Self::NoSuchLifecycleConfiguration
                | Self::NoSuchObjectLockConfiguration
                | Self::NoSuchPublicAccessBlockConfiguration
                | Self::NoSuchTagSet
                | Self::NoSuchWebsiteConfiguration
                | Self::ObjectLockConfigurationNotFoundError
                | Self::OwnershipControlsNotFoundError
                | Self::ReplicationConfigurationNotFoundError
                | Self::ServerSideEncryptionConfigurationNotFoundError
        )
    }
}

/// The bucket, key and other subjects of a request, for the errors that name them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named<'a> {
    pub bucket: Option<&'a [u8]>,
    pub key: Option<&'a [u8]>,
    pub upload: Option<Cow<'a, [u8]>>,
}

/// An answer that is an error: the code, a message, and the further elements of its document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Error {
    pub code: ErrorCode,
    pub message: Cow<'static, str>,
    /// Elements beside Code, Message, Resource, RequestId and HostId: static names, values as raw bytes.
    pub extra: Vec<(&'static str, Vec<u8>)>,
    /// The methods that the resource has, for the header `Allow`.
    pub allowed: Option<Box<str>>,
    /// Seconds until another attempt may succeed, for the header `Retry-After`.
    pub retry_after: Option<u32>,
    /// Words for the log of the server only: no answer has them.
    pub private: Option<Box<str>>,
}

impl S3Error {
    pub fn new(code: ErrorCode) -> Self {
        Self::with(code, code.default_message())
    }

    pub fn with(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), extra: Vec::new(), allowed: None, retry_after: None, private: None }
    }

    /// Adds one element to the document, e.g. `Key`, `BucketName`, `Condition`.
    #[must_use]
    pub fn field(mut self, name: &'static str, value: impl Into<Vec<u8>>) -> Self {
        self.extra.push((name, value.into()));
        self
    }

    /// Adds the name of the bucket, key or upload that errors of this code have, unless it is there.
    #[must_use]
    pub fn about(self, named: &Named<'_>) -> Self {
        let (name, value) = match self.code {
            ErrorCode::NoSuchBucket
            | ErrorCode::BucketAlreadyExists
            | ErrorCode::BucketAlreadyOwnedByYou
            | ErrorCode::BucketNotEmpty => ("BucketName", named.bucket),
            ErrorCode::NoSuchKey | ErrorCode::NoSuchVersion | ErrorCode::ConditionalRequestConflict => {
                ("Key", named.key)
            }
            ErrorCode::NoSuchUpload | ErrorCode::InvalidPart | ErrorCode::InvalidPartOrder => {
                ("UploadId", named.upload.as_deref())
            }
            _ => return self,
        };
        match value {
            Some(value) if !self.extra.iter().any(|(known, _)| *known == name) => self.field(name, value),
            _ => self,
        }
    }

    /// `InvalidArgument` naming the argument and the value refused.
    pub fn argument(message: impl Into<Cow<'static, str>>, name: &'static str, value: &[u8]) -> Self {
        Self::with(ErrorCode::InvalidArgument, message).field("ArgumentName", name).field("ArgumentValue", value)
    }

    /// `NotImplemented` for a header that S3 itself refuses, in its words.
    pub fn header_not_on_s3(name: &'static str) -> Self {
        let message = "A header you provided implies functionality that is not implemented";
        Self::with(ErrorCode::NotImplemented, message).field("Header", name)
    }

    /// `NotImplemented`, naming the header.
    pub fn header_not_implemented(name: &[u8]) -> Self {
        let shown = String::from_utf8_lossy(name).into_owned();
        let message = format!("The request header {shown} implies functionality that is not implemented");
        Self::with(ErrorCode::NotImplemented, message).field("Header", name)
    }

    /// `InvalidRange` with the range asked for and the size of the object in bytes.
    pub fn unsatisfiable(range: &[u8], size: u64) -> Self {
        Self::new(ErrorCode::InvalidRange).field("RangeRequested", range).field("ActualObjectSize", size.to_string())
    }

    /// `PreconditionFailed` naming the header that did not hold.
    pub fn precondition(condition: &'static str) -> Self {
        Self::new(ErrorCode::PreconditionFailed).field("Condition", condition)
    }

    /// The XML document of the answer. `resource` is the path as it stood in the request line.
    ///
    /// Characters that XML 1.0 forbids, and bytes that are not UTF-8, become U+FFFD: nothing that a client
    /// sent can make the document unreadable.
    pub fn document(&self, resource: &[u8], request_id: &str, host_id: &str) -> Vec<u8> {
        let mut xml = XmlWriter::document(256 + self.message.len() + resource.len());
        xml.open("Error");
        xml.lossy("Code", self.code.as_str().as_bytes());
        xml.lossy("Message", self.message.as_bytes());
        for (name, value) in &self.extra {
            xml.lossy(name, value);
        }
        xml.lossy("Resource", resource);
        xml.lossy("RequestId", request_id.as_bytes());
        xml.lossy("HostId", host_id.as_bytes());
        xml.close("Error");
        xml.finish()
    }
}

impl From<ErrorCode> for S3Error {
    fn from(code: ErrorCode) -> Self {
        Self::new(code)
    }
}

impl std::fmt::Display for S3Error {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.code.as_str(), self.message)
    }
}

impl std::error::Error for S3Error {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_document_names_code_message_resource_and_extras() {
        let error = S3Error::argument("Part number must be an integer", "partNumber", b"<a&b>");
        let text = String::from_utf8(error.document(b"/b/k%20x", "R1", "H1")).unwrap();
        assert_eq!(
            text,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>InvalidArgument</Code>\
             <Message>Part number must be an integer</Message><ArgumentName>partNumber</ArgumentName>\
             <ArgumentValue>&lt;a&amp;b&gt;</ArgumentValue><Resource>/b/k%20x</Resource>\
             <RequestId>R1</RequestId><HostId>H1</HostId></Error>"
        );
    }

    #[test]
    fn errors_name_what_they_are_about_once() {
        let upload = Some(Cow::Borrowed(&b"u"[..]));
        let subject = Named { bucket: Some(b"b"), key: Some(b"k"), upload };
        for (code, named) in [
            (ErrorCode::BucketNotEmpty, &[("BucketName", b"b".to_vec())][..]),
            (ErrorCode::NoSuchKey, &[("Key", b"k".to_vec())]),
            (ErrorCode::InvalidPartOrder, &[("UploadId", b"u".to_vec())]),
            (ErrorCode::AccessDenied, &[]),
        ] {
            let error = S3Error::new(code).about(&subject);
            assert_eq!(error.extra, named);
            assert_eq!(error.clone().about(&subject), error);
            assert_eq!(S3Error::new(code).about(&Named::default()), code.into());
        }
    }

    #[test]
    fn codes_carry_their_status() {
        assert_eq!(ErrorCode::NoSuchKey.status(), 404);
        assert_eq!(ErrorCode::NotImplemented.status(), 501);
        assert_eq!(ErrorCode::MissingContentLength.status(), 411);
        assert!(ErrorCode::ALL.iter().all(|code| (300..=599).contains(&code.status())));
    }

    proptest! {
        #[test]
        fn whatever_a_client_sent_the_document_parses(value in proptest::collection::vec(any::<u8>(), 0..64)) {
            let document = S3Error::argument("no", "x", &value).document(&value, "r", "h");
            let text = String::from_utf8(document).unwrap();
            let legal = text.chars().all(|c| matches!(c, '\n' | '\t' | ' '..='\u{fffd}' | '\u{10000}'..));
            prop_assert!(legal);
            let mut reader = quick_xml::Reader::from_str(&text);
            loop {
                match reader.read_event() {
                    Ok(quick_xml::events::Event::Eof) => break,
                    Ok(_) => {}
                    Err(error) => return Err(TestCaseError::fail(error.to_string())),
                }
            }
        }
    }
}
