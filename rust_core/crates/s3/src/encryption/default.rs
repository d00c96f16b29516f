//! The document by which a bucket has its new objects encrypted.

use super::super::errors::{ErrorCode, S3Error};
use super::super::xml::parse::{Element, document as parse_document, malformed};
use super::names::{AES256, KMS, KMS_DOUBLE};
use crate::configuration::configurations::document;

const ROOT: &str = "ServerSideEncryptionConfiguration";
const BLOCKED: &str = "BlockedEncryptionTypes";

/// The default encryption of a bucket, for requests that do not say how their objects are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketDefault {
    pub kind: DefaultKind,
    /// Matters for named keys only.
    pub bucket_key: bool,
    /// Whether objects may be stored with keys of customers.
    pub customers: Customers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Customers {
    /// The document says nothing about it.
    Unmentioned,
    /// The document says so.
    Allowed,
    Blocked,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultKind {
    /// Keys of the server.
    Managed,
    /// A named key; the default one for `None`.
    Named(Option<String>),
}

impl BucketDefault {
    /// Reads a document.
    ///
    /// Errors: `MalformedXML`, `NotImplemented` for two layers of encryption, and `InvalidArgument` for the id of a key
    /// that would not be used.
    pub fn read(body: &[u8]) -> Result<Self, S3Error> {
        let root = parse_document(body, ROOT)?;
        let [rule] = root.children.as_slice() else { return Err(malformed()) };
        let (mut algorithm, mut key, mut bucket_key, mut customers) = (None, None, false, Customers::Unmentioned);
        for child in &rule.children {
            match (rule.name.as_str(), child.name.as_str()) {
                ("Rule", "ApplyServerSideEncryptionByDefault") if algorithm.is_none() => {
                    for value in &child.children {
                        match (value.name.as_str(), value.leaf()?.trim()) {
                            ("SSEAlgorithm", text) => algorithm = Some(text.to_owned()),
                            ("KMSMasterKeyID", text) => key = Some(text.to_owned()),
                            _ => return Err(malformed()),
                        }
                    }
                }
                // S3 takes and returns it with keys of the server, too.
                ("Rule", "BucketKeyEnabled") => match child.leaf()?.trim() {
                    "true" => bucket_key = true,
                    "false" => bucket_key = false,
                    _ => return Err(malformed()),
                },
                ("Rule", BLOCKED) if customers == Customers::Unmentioned => {
                    customers = Customers::read(child)?;
                }
                _ => return Err(malformed()),
            }
        }
        let kind = match algorithm.as_deref() {
            Some(AES256) if key.is_some() => {
                let message =
                    "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or aws:kms:dsse";
                let error = S3Error::with(ErrorCode::InvalidArgument, message);
                return Err(error.field("ArgumentName", "ApplyServerSideEncryptionByDefault"));
            }
            Some(AES256) => DefaultKind::Managed,
            Some(KMS) => DefaultKind::Named(key.filter(|key| !key.is_empty())),
            Some(KMS_DOUBLE) => return Err(not_implemented(KMS_DOUBLE)),
            // S3 takes a rule that only blocks. The default is then its own.
            None if customers != Customers::Unmentioned => DefaultKind::Managed,
            _ => return Err(malformed()),
        };
        Ok(Self { kind, bucket_key, customers })
    }

    /// The document, as it is stored.
    pub fn document(&self) -> Vec<u8> {
        document(ROOT, |xml| {
            xml.open("Rule");
            xml.open("ApplyServerSideEncryptionByDefault");
            match &self.kind {
                DefaultKind::Managed => xml.plain("SSEAlgorithm", AES256),
                DefaultKind::Named(key) => {
                    xml.plain("SSEAlgorithm", KMS);
                    if let Some(key) = key {
                        xml.text("KMSMasterKeyID", key.as_bytes());
                    }
                }
            }
            xml.close("ApplyServerSideEncryptionByDefault");
            xml.boolean("BucketKeyEnabled", self.bucket_key);
            if let Some(name) = self.customers.name() {
                xml.open(BLOCKED);
                xml.plain("EncryptionType", name);
                xml.close(BLOCKED);
            }
            xml.close("Rule");
        })
    }
}

impl Customers {
    fn read(blocked: &Element) -> Result<Self, S3Error> {
        let [kind] = blocked.children.as_slice() else { return Err(malformed()) };
        match (kind.name.as_str(), kind.leaf()?.trim()) {
            ("EncryptionType", "SSE-C") => Ok(Self::Blocked),
            ("EncryptionType", "NONE") => Ok(Self::Allowed),
            _ => Err(malformed()),
        }
    }

    fn name(self) -> Option<&'static str> {
        match self {
            Self::Unmentioned => None,
            Self::Allowed => Some("NONE"),
            Self::Blocked => Some("SSE-C"),
        }
    }
}

fn not_implemented(what: &str) -> S3Error {
    let message = format!("Default encryption with {what} is not implemented; {AES256} and {KMS} are.");
    S3Error::with(ErrorCode::NotImplemented, message)
}

/// The default of a store that encrypts everything.
pub fn of_the_store() -> BucketDefault {
    BucketDefault { kind: DefaultKind::Managed, bucket_key: false, customers: Customers::Unmentioned }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_rule(rule: &str) -> Result<BucketDefault, ErrorCode> {
        let read = BucketDefault::read(format!("<{ROOT}><Rule>{rule}</Rule></{ROOT}>").as_bytes());
        read.map_err(|error| error.code)
    }

    fn of(algorithm: &str, more: &str) -> Result<BucketDefault, ErrorCode> {
        of_rule(&format!(
            "<ApplyServerSideEncryptionByDefault><SSEAlgorithm>{algorithm}</SSEAlgorithm>{more}\
             </ApplyServerSideEncryptionByDefault>"
        ))
    }

    #[test]
    fn a_document_names_keys_of_the_server_or_a_named_key() {
        assert_eq!(of("AES256", ""), Ok(of_the_store()));
        let named = |key: Option<&str>| DefaultKind::Named(key.map(str::to_owned));
        let with = |kind| Ok(BucketDefault { kind, ..of_the_store() });
        assert_eq!(of("aws:kms", ""), with(named(None)));
        assert_eq!(of("aws:kms", "<KMSMasterKeyID/>"), with(named(None)));
        assert_eq!(of("aws:kms", "<KMSMasterKeyID>alias/a&amp;b</KMSMasterKeyID>"), with(named(Some("alias/a&b"))));
        assert_eq!(of("AES256", "<KMSMasterKeyID>k</KMSMasterKeyID>"), Err(ErrorCode::InvalidArgument));
        assert_eq!(of("aws:kms:dsse", ""), Err(ErrorCode::NotImplemented));
        assert_eq!(of("ROT13", ""), Err(ErrorCode::MalformedXML));
        assert_eq!(of_rule(""), Err(ErrorCode::MalformedXML));
        assert_eq!(of_rule("<BucketKeyEnabled>true</BucketKeyEnabled>"), Err(ErrorCode::MalformedXML));
        let empty = BucketDefault::read(format!("<{ROOT}/>").as_bytes());
        assert_eq!(empty.map_err(|error| error.code), Err(ErrorCode::MalformedXML));
    }

    #[test]
    fn a_document_may_block_keys_of_customers() {
        let blocked = |types: &str| of_rule(&format!("<BlockedEncryptionTypes>{types}</BlockedEncryptionTypes>"));
        let with = |customers| Ok(BucketDefault { customers, ..of_the_store() });
        assert_eq!(blocked("<EncryptionType>SSE-C</EncryptionType>"), with(Customers::Blocked));
        assert_eq!(blocked("<EncryptionType>NONE</EncryptionType>"), with(Customers::Allowed));
        for bad in ["", "<EncryptionType>aws:kms</EncryptionType>", "<EncryptionType/>", "<Other>SSE-C</Other>"] {
            assert_eq!(blocked(bad), Err(ErrorCode::MalformedXML), "{bad}");
        }
        let both = "<EncryptionType>SSE-C</EncryptionType><EncryptionType>NONE</EncryptionType>";
        assert_eq!(blocked(both), Err(ErrorCode::MalformedXML));
    }

    #[test]
    fn what_is_stored_says_the_same() {
        for kind in [DefaultKind::Managed, DefaultKind::Named(None), DefaultKind::Named(Some("alias/a&b".to_owned()))] {
            for bucket_key in [false, true] {
                for customers in [Customers::Unmentioned, Customers::Allowed, Customers::Blocked] {
                    let default = BucketDefault { kind: kind.clone(), bucket_key, customers };
                    assert_eq!(BucketDefault::read(&default.document()), Ok(default));
                }
            }
        }
    }
}
