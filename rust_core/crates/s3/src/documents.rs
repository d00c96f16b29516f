//! The configuration documents of buckets that are stored: what a client may write, in the form in which it is stored
//! and read again.
//!
//! Every document is read to its end and written anew, so nothing of what a client sent is stored that Orcas does not
//! know. Knows nothing of when a document has an effect.

use super::bucket_logging::BucketLogging;
use super::configurations::{PUBLIC_ACCESS_BLOCKS, document};
use super::cors::CorsConfiguration;
use super::encryption;
use super::errors::{ErrorCode, S3Error};
use super::event_targets::Targets;
use super::lifecycle::{Configuration, DefaultSize};
use super::notification;
use super::operations::Operation;
use super::tags::{self, Tags};
use super::website::Website;
use super::xml::configurations as parsed;
use orcas_http::Headers;

/// Bytes of one document, as sent and as stored: the limit of S3 for CORS.
pub const DOCUMENT_LEN_MAX: usize = 64 * 1024;
/// The same for a lifecycle configuration, which may have 1,000 rules.
pub const LIFECYCLE_LEN_MAX: usize = 1 << 20;

/// The document that a write of the bucket `name` stores. Empty: none is left. `targets` is what notifications can name.
///
/// Errors: `MalformedXML`, `MaxMessageLengthExceeded`, and those that S3 has for the values of the document;
/// `NotImplemented` for an operation that writes no such document.
pub fn stored(operation: Operation, body: &[u8], name: &str, targets: Targets<'_>) -> Result<Vec<u8>, S3Error> {
    check_length(body, DOCUMENT_LEN_MAX)?;
    let written = match operation {
        Operation::PutBucketAccelerateConfiguration => {
            let status = parsed::acceleration(body)?;
            if name.contains('.') {
                let message = "S3 Transfer Acceleration is not supported for buckets with periods (.) in their names";
                return Err(S3Error::with(ErrorCode::InvalidRequest, message));
            }
            document("AccelerateConfiguration", |xml| xml.plain("Status", &status))
        }
        Operation::PutBucketCors => CorsConfiguration::parse(body)?.document(),
        Operation::PutBucketLogging => match BucketLogging::parse(body)? {
            Some(logging) => logging.document(),
            None => return Ok(Vec::new()),
        },
        Operation::PutBucketNotificationConfiguration => notification::stored(body, targets)?,
        Operation::PutBucketOwnershipControls => ownership_controls(&parsed::ownership(body)?),
        Operation::PutBucketRequestPayment => {
            let payer = parsed::payer(body)?;
            document("RequestPaymentConfiguration", |xml| xml.plain("Payer", &payer))
        }
        Operation::PutBucketTagging => {
            let tags = tags::read_bucket_document(body)?;
            if tags.is_empty() {
                return Ok(Vec::new());
            }
            tagging(&tags)
        }
        Operation::PutPublicAccessBlock => {
            let set = parsed::public_access_block(body, &PUBLIC_ACCESS_BLOCKS)?;
            document("PublicAccessBlockConfiguration", |xml| {
                PUBLIC_ACCESS_BLOCKS.iter().zip(&set).for_each(|(name, set)| xml.boolean(name, *set));
            })
        }
        Operation::PutBucketEncryption => encryption::BucketDefault::read(body)?.document(),
        Operation::PutBucketWebsite => Website::parse(body)?.document(),
        other => return Err(other.not_implemented()),
    };
    check_length(&written, DOCUMENT_LEN_MAX)?;
    Ok(written)
}

fn ownership_controls(ownership: &str) -> Vec<u8> {
    document("OwnershipControls", |xml| {
        xml.open("Rule");
        xml.plain("ObjectOwnership", ownership);
        xml.close("Rule");
    })
}

/// The ownership controls that the header of CreateBucket asks for, unless it asks for those of every new bucket.
///
/// Errors: `InvalidArgument` for a value that S3 does not have.
pub fn ownership_of_new_bucket(headers: &Headers<'_>) -> Result<Option<Vec<u8>>, S3Error> {
    const NAME: &str = "x-amz-object-ownership";
    match headers.get(NAME).map(<[u8]>::trim_ascii) {
        None | Some(b"BucketOwnerEnforced") => Ok(None),
        Some(b"BucketOwnerPreferred") => Ok(Some(ownership_controls("BucketOwnerPreferred"))),
        Some(b"ObjectWriter") => Ok(Some(ownership_controls("ObjectWriter"))),
        Some(other) => {
            let message = format!("Invalid {NAME} header: {}", String::from_utf8_lossy(other));
            Err(S3Error::with(ErrorCode::InvalidArgument, message).field("ArgumentName", NAME))
        }
    }
}

/// The document about the tags of a bucket.
pub fn tagging(tags: &Tags) -> Vec<u8> {
    tags::write_document(tags.iter().map(|(key, value)| (key.as_slice(), value.as_slice())))
}

/// Whether a public access block forbids what everybody may read. `document` is what is stored: a new bucket has none
/// and forbids it, a removed one is empty.
pub fn blocks_public_reads(document: Option<&[u8]>) -> bool {
    let Some(document) = document else { return true };
    // In the order of `PUBLIC_ACCESS_BLOCKS`: the last two are about buckets, the others about ACLs.
    let forbids = |set: Vec<bool>| set[2] || set[3];
    !document.is_empty() && parsed::public_access_block(document, &PUBLIC_ACCESS_BLOCKS).map_or(true, forbids)
}

/// The lifecycle configuration that a write stores. `default_size` is what its header says.
///
/// Errors: as [`Configuration::parse`], and `MaxMessageLengthExceeded`.
pub fn stored_lifecycle(body: &[u8], default_size: DefaultSize) -> Result<Vec<u8>, S3Error> {
    check_length(body, LIFECYCLE_LEN_MAX)?;
    let mut configuration = Configuration::parse(body)?;
    configuration.default_size = default_size;
    let written = configuration.stored();
    check_length(&written, LIFECYCLE_LEN_MAX)?;
    Ok(written)
}

pub(crate) fn check_length(document: &[u8], len_max: usize) -> Result<(), S3Error> {
    if document.len() > len_max {
        let limit = len_max.to_string();
        return Err(S3Error::new(ErrorCode::MaxMessageLengthExceeded).field("MaxMessageLengthBytes", limit));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Operation::{
        PutBucketAccelerateConfiguration, PutBucketCors, PutBucketEncryption, PutBucketOwnershipControls,
        PutBucketRequestPayment, PutBucketTagging, PutBucketWebsite, PutPublicAccessBlock,
    };

    const NO_TARGETS: Targets<'_> = Targets { region: "us-east-1", known: &[] };

    fn store(operation: Operation, body: &str) -> Result<String, ErrorCode> {
        let written = stored(operation, body.as_bytes(), "b-1", NO_TARGETS).map_err(|error| error.code)?;
        Ok(String::from_utf8(written).unwrap())
    }

    /// `content` in these elements, the outermost first.
    fn within(names: &[&str], content: &str) -> String {
        names.iter().rev().fold(content.to_owned(), |inner, name| format!("<{name}>{inner}</{name}>"))
    }

    #[test]
    fn what_is_stored_is_stored_again_as_it_is() {
        let tags = "<Tag><Value>1</Value><Key>b</Key></Tag><Tag><Key>a</Key><Value/></Tag>";
        let rule = "<AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin>";
        for (operation, names, content) in [
            (PutBucketAccelerateConfiguration, &["AccelerateConfiguration", "Status"][..], "Suspended"),
            (PutBucketOwnershipControls, &["OwnershipControls", "Rule", "ObjectOwnership"], "ObjectWriter"),
            (PutBucketRequestPayment, &["RequestPaymentConfiguration", "Payer"], "Requester"),
            (PutBucketTagging, &["Tagging", "TagSet"], tags),
            (PutPublicAccessBlock, &["PublicAccessBlockConfiguration", "BlockPublicAcls"], "TRUE"),
            (PutBucketCors, &["CORSConfiguration", "CORSRule"], rule),
            (PutBucketWebsite, &["WebsiteConfiguration", "RedirectAllRequestsTo", "HostName"], "a.b"),
        ] {
            let body = within(names, content);
            let written = store(operation, &body).unwrap();
            assert_ne!(written, body);
            assert_eq!(store(operation, &written).as_ref(), Ok(&written), "{operation:?}");
            assert_eq!(store(operation, ""), Err(ErrorCode::MissingRequestBodyError));
            for bad in ["<Foreign/>", &within(names, "<Other/>")] {
                assert_eq!(store(operation, bad), Err(ErrorCode::MalformedXML), "{operation:?} {bad}");
            }
        }
    }

    #[test]
    fn settings_of_a_public_access_block_that_are_missing_are_off() {
        let block = |content: &str| store(PutPublicAccessBlock, &within(&["PublicAccessBlockConfiguration"], content));
        let policy = "<BlockPublicPolicy>true</BlockPublicPolicy>";
        assert!(block(policy).unwrap().contains(&format!("<IgnorePublicAcls>false</IgnorePublicAcls>{policy}")));
        assert_eq!(block(&policy.repeat(2)), Err(ErrorCode::MalformedXML));
        assert_eq!(block(""), Err(ErrorCode::MalformedXML));
    }

    #[test]
    fn what_everybody_may_read_is_forbidden_unless_the_block_says_otherwise() {
        let block = |name: &str| within(&["PublicAccessBlockConfiguration", name], "true");
        for (document, blocks) in [
            (None, true),
            (Some(String::new()), false),
            (Some(block("BlockPublicPolicy")), true),
            (Some(block("RestrictPublicBuckets")), true),
            (Some(block("BlockPublicAcls")), false),
            (Some(block("IgnorePublicAcls")), false),
            (Some("<Damaged".to_owned()), true),
        ] {
            assert_eq!(blocks_public_reads(document.as_deref().map(str::as_bytes)), blocks, "{document:?}");
        }
    }

    #[test]
    fn nothing_is_stored_that_nothing_enforces() {
        let encryption = "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>\
                          <SSEAlgorithm>aws:kms:dsse</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule>\
                          </ServerSideEncryptionConfiguration>";
        assert_eq!(store(PutBucketEncryption, encryption), Err(ErrorCode::NotImplemented));
    }

    #[test]
    fn a_new_bucket_has_the_ownership_of_its_header() {
        let read = |value: &str| {
            let list: [(&[u8], &[u8]); 1] = [(b"x-amz-object-ownership", value.as_bytes())];
            ownership_of_new_bucket(&Headers::new(&list))
        };
        assert_eq!(ownership_of_new_bucket(&Headers::new(&[])), Ok(None));
        assert_eq!(read("BucketOwnerEnforced"), Ok(None));
        let writer = within(&["OwnershipControls", "Rule", "ObjectOwnership"], "ObjectWriter");
        assert_eq!(
            read("ObjectWriter"),
            stored(PutBucketOwnershipControls, writer.as_bytes(), "b-1", NO_TARGETS).map(Some)
        );
        let refused = read("Me").unwrap_err();
        assert_eq!(
            (refused.code, &*refused.message),
            (ErrorCode::InvalidArgument, "Invalid x-amz-object-ownership header: Me",)
        );
    }

    #[test]
    fn an_empty_set_of_tags_is_no_document() {
        assert_eq!(store(PutBucketTagging, "<Tagging><TagSet/></Tagging>"), Ok(String::new()));
    }

    #[test]
    fn documents_and_names_have_limits() {
        let accelerate = "<AccelerateConfiguration><Status>Enabled</Status></AccelerateConfiguration>";
        assert!(store(PutBucketAccelerateConfiguration, accelerate).is_ok());
        let dotted = stored(PutBucketAccelerateConfiguration, accelerate.as_bytes(), "b.1", NO_TARGETS);
        assert_eq!(dotted.unwrap_err().code, ErrorCode::InvalidRequest);
        let long = format!("{accelerate}{}", " ".repeat(DOCUMENT_LEN_MAX));
        assert_eq!(store(PutBucketAccelerateConfiguration, &long), Err(ErrorCode::MaxMessageLengthExceeded));
        // Short as it was sent, too long as it is written: each quote becomes an entity.
        let origin = "\"".repeat(DOCUMENT_LEN_MAX / 2);
        let grows = format!(
            "<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>{origin}</AllowedOrigin>\
             </CORSRule></CORSConfiguration>"
        );
        assert_eq!(store(PutBucketCors, &grows), Err(ErrorCode::MaxMessageLengthExceeded));
    }
}
