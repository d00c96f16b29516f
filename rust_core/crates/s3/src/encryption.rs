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

/// Checks a ServerSideEncryptionConfiguration document that asks for keys of the server.
///
/// Errors: `MalformedXML`, and `NotImplemented` for keys of a key service.
pub fn check(body: &[u8]) -> Result<(), S3Error> {
    let root = parse_document(body, ROOT)?;
    let [rule] = root.children.as_slice() else { return Err(malformed()) };
    let mut algorithm = None;
    for child in &rule.children {
        match (rule.name.as_str(), child.name.as_str()) {
            ("Rule", "ApplyServerSideEncryptionByDefault") if algorithm.is_none() => {
                for value in &child.children {
                    match (value.name.as_str(), value.leaf()?.trim()) {
                        ("SSEAlgorithm", text) => algorithm = Some(text.to_owned()),
                        ("KMSMasterKeyID", _) => {}
                        _ => return Err(malformed()),
                    }
                }
            }
            // A bucket key is of keys of a key service only; S3 accepts it here.
            ("Rule", "BucketKeyEnabled") => match child.leaf()?.trim() {
                "true" | "false" => {}
                _ => return Err(malformed()),
            },
            ("Rule", "BlockedEncryptionTypes") => return Err(not_implemented("BlockedEncryptionTypes")),
            _ => return Err(malformed()),
        }
    }
    match algorithm.as_deref() {
        Some(AES256) => Ok(()),
        Some(other @ ("aws:kms" | "aws:kms:dsse")) => Err(not_implemented(other)),
        _ => Err(malformed()),
    }
}

fn not_implemented(what: &str) -> S3Error {
    S3Error::with(ErrorCode::NotImplemented, format!("Default encryption with {what} is not implemented; AES256 is."))
}

/// The document of a bucket whose new objects are encrypted with keys of the server.
pub fn by_default() -> Vec<u8> {
    document(ROOT, |xml| {
        xml.open("Rule");
        xml.open("ApplyServerSideEncryptionByDefault");
        xml.plain("SSEAlgorithm", AES256);
        xml.close("ApplyServerSideEncryptionByDefault");
        xml.boolean("BucketKeyEnabled", false);
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

    fn checked(rule: &str) -> Result<(), ErrorCode> {
        check(format!("<{ROOT}><Rule>{rule}</Rule></{ROOT}>").as_bytes()).map_err(|error| error.code)
    }

    #[test]
    fn a_document_for_keys_of_the_server_is_accepted_and_no_other() {
        assert_eq!(check(&by_default()), Ok(()));
        let of = |algorithm: &str| {
            checked(&format!(
                "<ApplyServerSideEncryptionByDefault><SSEAlgorithm>{algorithm}</SSEAlgorithm>\
                 </ApplyServerSideEncryptionByDefault>"
            ))
        };
        assert_eq!(of("AES256"), Ok(()));
        assert_eq!(of("aws:kms"), Err(ErrorCode::NotImplemented));
        assert_eq!(of("ROT13"), Err(ErrorCode::MalformedXML));
        assert_eq!(checked(""), Err(ErrorCode::MalformedXML));
        assert_eq!(checked("<BucketKeyEnabled>true</BucketKeyEnabled>"), Err(ErrorCode::MalformedXML));
        assert_eq!(check(format!("<{ROOT}/>").as_bytes()).map_err(|e| e.code), Err(ErrorCode::MalformedXML));
    }
}
