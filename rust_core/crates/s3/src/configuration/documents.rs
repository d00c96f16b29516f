//! The configuration documents of buckets that are stored: what a client may write, in the form in which it is stored
//! and read again.
//!
//! Every document is read to its end and written anew, so nothing of what a client sent is stored that Orcas does not
//! know. Knows nothing of when a document has an effect.

use super::acl::Acl;
use super::bucket_logging::BucketLogging;
use super::configurations::{PUBLIC_ACCESS_BLOCKS, document};
use super::cors::CorsConfiguration;
use super::event_targets::Targets;
use super::lifecycle::{self, Configuration, DefaultSize};
use super::notification::{self, Notification};
use super::replication::Replication;
use super::website::Website;
use crate::encryption::BucketDefault;
use crate::errors::{ErrorCode, S3Error};
use crate::objects::tags::{self, Tags};
use crate::xml::configurations as parsed;
use orcas_access::{Policy, PolicyKind};
use orcas_http::Headers;
use orcas_lifecycle::Rules;
use orcas_record::{DOCUMENT_MAX, DocumentKind};

/// Bytes of one document, as sent and as stored: the limit of S3 for CORS.
pub const CONFIGURATION_LEN_MAX: usize = 64 * 1024;

/// The meaning of a stored document for requests. It is made of the document once, and kept with it.
pub trait BucketDocument: Sized + Send + Sync + 'static {
    const KIND: DocumentKind;

    /// The meaning; `None` for a document that cannot be read, and for one that was removed, if that is as if there had
    /// been none.
    fn load(stored: &[u8]) -> Option<Self>;
}

macro_rules! bucket_documents {
    ($($kind:ident: $type:ty = |$stored:ident| $load:expr;)+) => {
        $(impl BucketDocument for $type {
            const KIND: DocumentKind = DocumentKind::$kind;

            fn load($stored: &[u8]) -> Option<Self> {
                $load
            }
        })+
    };
}

bucket_documents! {
    Acl: Acl = |stored| Acl::load(stored);
    Cors: CorsConfiguration = |stored| CorsConfiguration::parse(stored).ok();
    Encryption: BucketDefault = |stored| BucketDefault::read(stored).ok();
    Lifecycle: Rules = |stored| lifecycle::rules(stored);
    Logging: BucketLogging = |stored| BucketLogging::parse(stored).ok().flatten();
    Notification: Vec<Notification> = |stored| notification::notifications(stored);
    Policy: BucketPolicy = |stored| BucketPolicy::of(stored);
    Replication: Replication = |stored| Replication::load(stored);
    OwnershipControls: OwnershipControls = |stored| Some(OwnershipControls::of(stored));
    PublicAccessBlock: PublicAccessBlock = |stored| Some(PublicAccessBlock::of(stored));
    Website: Website = |stored| Website::parse(stored).ok();
}

/// The ownership controls of a bucket.
pub struct OwnershipControls {
    /// ACLs are disabled, as for a new bucket, which has no document.
    pub disable_acls: bool,
    /// Objects that are written with the ACL bucket-owner-full-control belong to the owner of the bucket.
    pub prefers_bucket_owner: bool,
}

impl OwnershipControls {
    fn of(stored: &[u8]) -> Self {
        let is = |wanted| parsed::ownership(stored).is_ok_and(|owner| owner == wanted);
        Self { disable_acls: is("BucketOwnerEnforced"), prefers_bucket_owner: is("BucketOwnerPreferred") }
    }
}

/// The public access block of a bucket.
pub struct PublicAccessBlock {
    /// `BlockPublicAcls`: no public ACL is taken.
    pub blocks_public_acls: bool,
    /// `IgnorePublicAcls`: public grants of ACLs do not count.
    pub ignores_public_acls: bool,
    /// `BlockPublicPolicy`: no policy is taken that allows everybody something.
    pub blocks_public_policy: bool,
    /// `RestrictPublicBuckets`: such a policy allows nobody but the bucket's own account anything.
    pub restricts_public_buckets: bool,
}

impl PublicAccessBlock {
    /// The block of a new bucket, which has no document, and of one whose document cannot be read.
    pub const EVERYTHING: Self = Self::of_set([true; 4]);

    /// In the order of `PUBLIC_ACCESS_BLOCKS`.
    const fn of_set(set: [bool; 4]) -> Self {
        Self {
            blocks_public_acls: set[0],
            ignores_public_acls: set[1],
            blocks_public_policy: set[2],
            restricts_public_buckets: set[3],
        }
    }

    fn of(stored: &[u8]) -> Self {
        if stored.is_empty() {
            return Self::of_set([false; 4]);
        }
        let set = parsed::public_access_block(stored, &PUBLIC_ACCESS_BLOCKS).ok();
        set.and_then(|set| set.try_into().ok()).map_or(Self::EVERYTHING, Self::of_set)
    }

    /// Whether it forbids that everybody reads a website.
    pub fn blocks_reads(&self) -> bool {
        self.blocks_public_policy || self.restricts_public_buckets
    }
}

/// The policy of a bucket.
pub struct BucketPolicy {
    pub policy: Policy,
    /// The policy allows everybody something.
    pub is_public: bool,
}

impl BucketPolicy {
    /// Of a document that was refused unless it could be read.
    fn of(stored: &[u8]) -> Option<Self> {
        let policy = Policy::parse(std::str::from_utf8(stored).ok()?, PolicyKind::Resource, None).ok()?;
        Some(Self { is_public: policy.is_public(), policy })
    }
}

/// The answer of GetBucketPolicyStatus.
pub fn policy_status(is_public: bool) -> Vec<u8> {
    document("PolicyStatus", |xml| xml.boolean("IsPublic", is_public))
}

/// The document of this kind that a write of the bucket `name` stores. Empty: none is left. `targets` is what
/// notifications can name.
///
/// Errors: `MalformedXML`, `MaxMessageLengthExceeded`, and those that S3 has for the values of the document;
/// `NotImplemented` for a kind that is not written like this.
pub fn stored(kind: DocumentKind, body: &[u8], name: &str, targets: Targets<'_>) -> Result<Vec<u8>, S3Error> {
    check_length(body, CONFIGURATION_LEN_MAX)?;
    let written = match kind {
        DocumentKind::Accelerate => {
            let status = parsed::acceleration(body)?;
            if name.contains('.') {
                let message = "S3 Transfer Acceleration is not supported for buckets with periods (.) in their names";
                return Err(S3Error::with(ErrorCode::InvalidRequest, message));
            }
            document("AccelerateConfiguration", |xml| xml.plain("Status", &status))
        }
        DocumentKind::Cors => CorsConfiguration::parse(body)?.document(),
        DocumentKind::Logging => match BucketLogging::parse(body)? {
            Some(logging) => logging.document(),
            None => return Ok(Vec::new()),
        },
        DocumentKind::Notification => notification::stored(body, targets)?,
        DocumentKind::OwnershipControls => ownership_controls(&parsed::ownership(body)?),
        DocumentKind::RequestPayment => {
            let payer = parsed::payer(body)?;
            document("RequestPaymentConfiguration", |xml| xml.plain("Payer", &payer))
        }
        DocumentKind::Tagging => {
            let tags = tags::read_bucket_document(body)?;
            if tags.is_empty() {
                return Ok(Vec::new());
            }
            tagging(&tags)
        }
        DocumentKind::PublicAccessBlock => {
            public_access_block(&parsed::public_access_block(body, &PUBLIC_ACCESS_BLOCKS)?)
        }
        DocumentKind::Encryption => BucketDefault::read(body)?.document(),
        DocumentKind::Website => Website::parse(body)?.document(),
        DocumentKind::Acl
        | DocumentKind::Lifecycle
        | DocumentKind::Policy
        | DocumentKind::Quota
        | DocumentKind::Replication => {
            return Err(ErrorCode::NotImplemented.into());
        }
    };
    check_length(&written, CONFIGURATION_LEN_MAX)?;
    Ok(written)
}

fn public_access_block(set: &[bool]) -> Vec<u8> {
    document("PublicAccessBlockConfiguration", |xml| {
        PUBLIC_ACCESS_BLOCKS.iter().zip(set).for_each(|(name, set)| xml.boolean(name, *set));
    })
}

/// The public access block of a new bucket for which nothing is blocked.
pub fn open_access_block() -> Vec<u8> {
    public_access_block(&[false; PUBLIC_ACCESS_BLOCKS.len()])
}

/// The ownership controls of a new bucket in which ACLs are enabled though it did not ask for that.
pub fn open_ownership() -> Vec<u8> {
    ownership_controls("ObjectWriter")
}

fn ownership_controls(ownership: &str) -> Vec<u8> {
    document("OwnershipControls", |xml| {
        xml.open("Rule");
        xml.plain("ObjectOwnership", ownership);
        xml.close("Rule");
    })
}

/// The ownership controls that the header of CreateBucket asks for, if any.
///
/// Errors: `InvalidArgument` for a value that S3 does not have.
pub fn ownership_of_new_bucket(headers: &Headers<'_>) -> Result<Option<Vec<u8>>, S3Error> {
    const NAME: &str = "x-amz-object-ownership";
    match headers.get(NAME).map(<[u8]>::trim_ascii) {
        None => Ok(None),
        Some(b"BucketOwnerEnforced") => Ok(Some(ownership_controls("BucketOwnerEnforced"))),
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

/// The lifecycle configuration that a write stores. It may have 1,000 rules, and be as long as any document can be.
/// `default_size` is what its header says.
///
/// Errors: as [`Configuration::parse`], and `MaxMessageLengthExceeded`.
pub fn stored_lifecycle(body: &[u8], default_size: DefaultSize) -> Result<Vec<u8>, S3Error> {
    check_length(body, DOCUMENT_MAX)?;
    let mut configuration = Configuration::parse(body)?;
    configuration.default_size = default_size;
    let written = configuration.stored();
    check_length(&written, DOCUMENT_MAX)?;
    Ok(written)
}

/// The replication configuration that a write stores. It may have 1,000 rules, as a lifecycle configuration. A rule begins
/// where one with its destination in `former` began, or behind the sequence `now`.
///
/// Errors: as [`Replication::parse`], and `MaxMessageLengthExceeded`.
pub fn stored_replication(
    body: &[u8],
    former: Option<&Replication>,
    now: u64,
) -> Result<(Replication, Vec<u8>), S3Error> {
    check_length(body, DOCUMENT_MAX)?;
    let mut replication = Replication::parse(body)?;
    replication.begin(former, now);
    let written = replication.stored();
    check_length(&written, DOCUMENT_MAX)?;
    Ok((replication, written))
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
    use DocumentKind::{Accelerate, Cors, Encryption, RequestPayment, Tagging};

    const NO_TARGETS: Targets<'_> = Targets { region: "us-east-1", known: Some(&[]) };

    fn store(kind: DocumentKind, body: &str) -> Result<String, ErrorCode> {
        let written = stored(kind, body.as_bytes(), "b-1", NO_TARGETS).map_err(|error| error.code)?;
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
        for (kind, names, content) in [
            (Accelerate, &["AccelerateConfiguration", "Status"][..], "Suspended"),
            (DocumentKind::OwnershipControls, &["OwnershipControls", "Rule", "ObjectOwnership"], "ObjectWriter"),
            (RequestPayment, &["RequestPaymentConfiguration", "Payer"], "Requester"),
            (Tagging, &["Tagging", "TagSet"], tags),
            (DocumentKind::PublicAccessBlock, &["PublicAccessBlockConfiguration", "BlockPublicAcls"], "TRUE"),
            (Cors, &["CORSConfiguration", "CORSRule"], rule),
            (DocumentKind::Website, &["WebsiteConfiguration", "RedirectAllRequestsTo", "HostName"], "a.b"),
        ] {
            let body = within(names, content);
            let written = store(kind, &body).unwrap();
            assert_ne!(written, body);
            assert_eq!(store(kind, &written).as_ref(), Ok(&written), "{kind:?}");
            assert_eq!(store(kind, ""), Err(ErrorCode::MissingRequestBodyError));
            for bad in ["<Foreign/>", &within(names, "<Other/>")] {
                assert_eq!(store(kind, bad), Err(ErrorCode::MalformedXML), "{kind:?} {bad}");
            }
        }
    }

    #[test]
    fn settings_of_a_public_access_block_that_are_missing_are_off() {
        let block = |content: &str| {
            store(DocumentKind::PublicAccessBlock, &within(&["PublicAccessBlockConfiguration"], content))
        };
        let policy = "<BlockPublicPolicy>true</BlockPublicPolicy>";
        assert!(block(policy).unwrap().contains(&format!("<IgnorePublicAcls>false</IgnorePublicAcls>{policy}")));
        assert_eq!(block(&policy.repeat(2)), Err(ErrorCode::MalformedXML));
        assert_eq!(block(""), Err(ErrorCode::MalformedXML));
    }

    #[test]
    fn what_everybody_may_read_is_forbidden_unless_the_block_says_otherwise() {
        let block = |name: &str| within(&["PublicAccessBlockConfiguration", name], "true");
        for (document, blocks) in [
            (String::new(), false),
            (block("BlockPublicPolicy"), true),
            (block("RestrictPublicBuckets"), true),
            (block("BlockPublicAcls"), false),
            (block("IgnorePublicAcls"), false),
            ("<Damaged".to_owned(), true),
        ] {
            let loaded = PublicAccessBlock::of(document.as_bytes());
            assert_eq!(loaded.blocks_reads(), blocks, "{document}");
        }
    }

    #[test]
    fn nothing_is_stored_that_nothing_enforces() {
        let encryption = "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault>\
                          <SSEAlgorithm>aws:kms:dsse</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule>\
                          </ServerSideEncryptionConfiguration>";
        assert_eq!(store(Encryption, encryption), Err(ErrorCode::NotImplemented));
    }

    #[test]
    fn a_new_bucket_has_the_ownership_of_its_header() {
        let read = |value: &str| {
            let list: [(&[u8], &[u8]); 1] = [(b"x-amz-object-ownership", value.as_bytes())];
            ownership_of_new_bucket(&Headers::new(&list))
        };
        assert_eq!(ownership_of_new_bucket(&Headers::new(&[])), Ok(None));
        for value in ["BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"] {
            let named = within(&["OwnershipControls", "Rule", "ObjectOwnership"], value);
            let expected = stored(DocumentKind::OwnershipControls, named.as_bytes(), "b-1", NO_TARGETS);
            assert_eq!(read(value), expected.map(Some), "{value}");
        }
        let refused = read("Me").unwrap_err();
        assert_eq!(
            (refused.code, &*refused.message),
            (ErrorCode::InvalidArgument, "Invalid x-amz-object-ownership header: Me",)
        );
    }

    #[test]
    fn an_empty_set_of_tags_is_no_document() {
        assert_eq!(store(Tagging, "<Tagging><TagSet/></Tagging>"), Ok(String::new()));
    }

    #[test]
    fn documents_and_names_have_limits() {
        let accelerate = "<AccelerateConfiguration><Status>Enabled</Status></AccelerateConfiguration>";
        assert!(store(Accelerate, accelerate).is_ok());
        let dotted = stored(Accelerate, accelerate.as_bytes(), "b.1", NO_TARGETS);
        assert_eq!(dotted.unwrap_err().code, ErrorCode::InvalidRequest);
        let long = format!("{accelerate}{}", " ".repeat(CONFIGURATION_LEN_MAX));
        assert_eq!(store(Accelerate, &long), Err(ErrorCode::MaxMessageLengthExceeded));
        // Short as it was sent, too long as it is written: each quote becomes an entity.
        let origin = "\"".repeat(CONFIGURATION_LEN_MAX / 2);
        let grows = format!(
            "<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>{origin}</AllowedOrigin>\
             </CORSRule></CORSConfiguration>"
        );
        assert_eq!(store(Cors, &grows), Err(ErrorCode::MaxMessageLengthExceeded));
    }
}
