//! Encryption with keys of the server (SSE-S3): the header, and the document by which a bucket has it for all new
//! objects. Keys of clients and of a key service are not implemented.

use super::configurations::document;
use super::errors::{ErrorCode, S3Error};
use super::xml::parse::{document as parse_document, malformed};
use orcas_http::Headers;

/// The header that asks for encryption, and that says of an object how it is encrypted.
pub const ENCRYPTION: &str = "x-amz-server-side-encryption";
/// Its value for keys of the server.
pub const AES256: &str = "AES256";

const ROOT: &str = "ServerSideEncryptionConfiguration";

/// Whether a request asks for encryption with keys of the server.
///
/// Errors: `NotImplemented` for any other value, as for the keys of a key service.
pub fn asked(headers: &Headers<'_>) -> Result<bool, S3Error> {
    let Some(value) = headers.get(ENCRYPTION) else { return Ok(false) };
    match value.trim_ascii() {
        b"AES256" => Ok(true),
        _ => Err(S3Error::header_not_implemented(ENCRYPTION.as_bytes())),
    }
}

/// A ServerSideEncryptionConfiguration document that asks for keys of the server, as it is stored.
///
/// Errors: `MalformedXML`, `NotImplemented` for keys of a key service, and `InvalidArgument` for the id of such a key.
pub fn read(body: &[u8]) -> Result<Vec<u8>, S3Error> {
    let root = parse_document(body, ROOT)?;
    let [rule] = root.children.as_slice() else { return Err(malformed()) };
    let (mut algorithm, mut names_key, mut bucket_key) = (None, false, false);
    for child in &rule.children {
        match (rule.name.as_str(), child.name.as_str()) {
            ("Rule", "ApplyServerSideEncryptionByDefault") if algorithm.is_none() => {
                for value in &child.children {
                    match (value.name.as_str(), value.leaf()?.trim()) {
                        ("SSEAlgorithm", text) => algorithm = Some(text.to_owned()),
                        ("KMSMasterKeyID", _) => names_key = true,
                        _ => return Err(malformed()),
                    }
                }
            }
            // It matters for keys of a key service only. S3 takes and returns it with keys of the server, too.
            ("Rule", "BucketKeyEnabled") => match child.leaf()?.trim() {
                "true" => bucket_key = true,
                "false" => bucket_key = false,
                _ => return Err(malformed()),
            },
            ("Rule", "BlockedEncryptionTypes") => return Err(not_implemented("BlockedEncryptionTypes")),
            _ => return Err(malformed()),
        }
    }
    match algorithm.as_deref() {
        Some(AES256) if names_key => {
            let message =
                "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or aws:kms:dsse";
            Err(S3Error::with(ErrorCode::InvalidArgument, message))
        }
        Some(AES256) => Ok(written(bucket_key)),
        Some(other @ ("aws:kms" | "aws:kms:dsse")) => Err(not_implemented(other)),
        _ => Err(malformed()),
    }
}

fn not_implemented(what: &str) -> S3Error {
    S3Error::with(ErrorCode::NotImplemented, format!("Default encryption with {what} is not implemented; AES256 is."))
}

/// The document of a bucket whose new objects are encrypted with keys of the server.
pub fn by_default() -> Vec<u8> {
    written(false)
}

fn written(bucket_key: bool) -> Vec<u8> {
    document(ROOT, |xml| {
        xml.open("Rule");
        xml.open("ApplyServerSideEncryptionByDefault");
        xml.plain("SSEAlgorithm", AES256);
        xml.close("ApplyServerSideEncryptionByDefault");
        xml.boolean("BucketKeyEnabled", bucket_key);
        xml.close("Rule");
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(value: &str) -> Result<bool, ErrorCode> {
        let list: [(&[u8], &[u8]); 1] = [(ENCRYPTION.as_bytes(), value.as_bytes())];
        asked(&Headers::new(&list)).map_err(|error| error.code)
    }

    #[test]
    fn only_keys_of_the_server_are_implemented() {
        assert_eq!(asked(&Headers::new(&[])), Ok(false));
        assert_eq!(asks("AES256"), Ok(true));
        assert_eq!(asks("aws:kms"), Err(ErrorCode::NotImplemented));
        assert_eq!(asks("aws:kms:dsse"), Err(ErrorCode::NotImplemented));
        assert_eq!(asks("aes256"), Err(ErrorCode::NotImplemented));
    }

    fn of_rule(rule: &str) -> Result<Vec<u8>, ErrorCode> {
        read(format!("<{ROOT}><Rule>{rule}</Rule></{ROOT}>").as_bytes()).map_err(|error| error.code)
    }

    #[test]
    fn a_document_for_keys_of_the_server_is_accepted_and_no_other() {
        assert_eq!(read(&by_default()), Ok(by_default()));
        let of = |algorithm: &str| {
            of_rule(&format!(
                "<ApplyServerSideEncryptionByDefault><SSEAlgorithm>{algorithm}</SSEAlgorithm>\
                 </ApplyServerSideEncryptionByDefault>"
            ))
        };
        assert_eq!(of("AES256"), Ok(by_default()));
        assert_eq!(of("aws:kms"), Err(ErrorCode::NotImplemented));
        assert_eq!(of("ROT13"), Err(ErrorCode::MalformedXML));
        assert_eq!(of_rule(""), Err(ErrorCode::MalformedXML));
        assert_eq!(of_rule("<BucketKeyEnabled>true</BucketKeyEnabled>"), Err(ErrorCode::MalformedXML));
        assert_eq!(read(format!("<{ROOT}/>").as_bytes()).map_err(|e| e.code), Err(ErrorCode::MalformedXML));
    }

    #[test]
    fn what_a_document_says_of_keys_of_a_key_service_is_neither_dropped_nor_changed() {
        let rule = |more: &str, bucket_key: &str| {
            format!(
                "<ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm>{more}\
                 </ApplyServerSideEncryptionByDefault><BucketKeyEnabled>{bucket_key}</BucketKeyEnabled>"
            )
        };
        let named = of_rule(&rule("<KMSMasterKeyID>k</KMSMasterKeyID>", "false"));
        assert_eq!(named, Err(ErrorCode::InvalidArgument));
        assert_eq!(of_rule(&rule("", "false")), Ok(by_default()));
        let with_bucket_key = of_rule(&rule("", "true")).unwrap();
        assert!(with_bucket_key.windows(4).any(|text| text == b"true"));
        assert_eq!(read(&with_bucket_key), Ok(with_bucket_key));
    }
}
