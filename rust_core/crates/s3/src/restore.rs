//! The document of RestoreObject, and which storage classes are archives.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/API_RestoreObject.html>

use super::errors::{ErrorCode, S3Error};
use super::xml::parse::{document, malformed};

const TIERS: [&str; 3] = ["Standard", "Bulk", "Expedited"];

/// Whether S3 keeps objects of this class in an archive, from which they must be restored before they can be read.
pub fn is_archive(class: Option<&[u8]>) -> bool {
    matches!(class, Some(b"GLACIER" | b"DEEP_ARCHIVE"))
}

/// The error for objects outside of an archive.
pub fn not_archived() -> S3Error {
    let message = "Restore is not allowed for the object's current storage class";
    S3Error::with(ErrorCode::InvalidObjectState, message)
}

/// Checks a request to restore an object for some days.
///
/// # Errors
/// `MalformedXML`; `InvalidArgument` for days that are not positive; `NotImplemented` for queries of archives.
pub fn check_request(body: &[u8]) -> Result<(), S3Error> {
    let root = document(body, "RestoreRequest")?;
    let mut days = None;
    for child in &root.children {
        match child.name.as_str() {
            "Days" if days.is_none() => days = Some(child.leaf()?.trim()),
            "Tier" => check_tier(child.leaf()?)?,
            "GlacierJobParameters" => {
                let [tier] = child.children.as_slice() else { return Err(malformed()) };
                if tier.name != "Tier" {
                    return Err(malformed());
                }
                check_tier(tier.leaf()?)?;
            }
            "Description" => drop(child.leaf()?),
            "Type" | "SelectParameters" | "OutputLocation" => {
                return Err(S3Error::with(
                    ErrorCode::NotImplemented,
                    "Queries of archived objects are not implemented",
                ));
            }
            _ => return Err(malformed()),
        }
    }
    let days = days.ok_or_else(malformed)?;
    match days.parse::<i32>() {
        Ok(1..) => Ok(()),
        Ok(_) => Err(S3Error::argument("restoration days should be at least 1", "Days", days.as_bytes())),
        Err(_) => Err(malformed()),
    }
}

fn check_tier(text: &str) -> Result<(), S3Error> {
    if TIERS.contains(&text.trim()) { Ok(()) } else { Err(malformed()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(content: &str) -> Result<(), ErrorCode> {
        check_request(format!("<RestoreRequest>{content}</RestoreRequest>").as_bytes()).map_err(|error| error.code)
    }

    #[test]
    fn documents() {
        for good in [
            "<Days>1</Days>",
            "<Days>365</Days><GlacierJobParameters><Tier>Bulk</Tier></GlacierJobParameters><Tier>Expedited</Tier>",
            "<Description>why</Description><Days>7</Days>",
        ] {
            assert_eq!(checked(good), Ok(()), "{good}");
        }
        for (bad, code) in [
            ("", ErrorCode::MalformedXML),
            ("<Days>one</Days>", ErrorCode::MalformedXML),
            ("<Days>1</Days><Days>2</Days>", ErrorCode::MalformedXML),
            ("<Days>0</Days>", ErrorCode::InvalidArgument),
            ("<Days>-1</Days>", ErrorCode::InvalidArgument),
            ("<Days>1</Days><Tier>Slow</Tier>", ErrorCode::MalformedXML),
            ("<Days>1</Days><GlacierJobParameters/>", ErrorCode::MalformedXML),
            ("<Days>1</Days><GlacierJobParameters><Other>Bulk</Other></GlacierJobParameters>", ErrorCode::MalformedXML),
            ("<Days>1</Days><Other/>", ErrorCode::MalformedXML),
            ("<Type>SELECT</Type>", ErrorCode::NotImplemented),
        ] {
            assert_eq!(checked(bad), Err(code), "{bad}");
        }
    }

    #[test]
    fn archives() {
        assert!(is_archive(Some(b"GLACIER")) && is_archive(Some(b"DEEP_ARCHIVE")));
        assert!(!is_archive(None) && !is_archive(Some(b"GLACIER_IR")));
    }
}
