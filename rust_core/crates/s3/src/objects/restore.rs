//! The document of RestoreObject, and which storage classes are archives.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/API_RestoreObject.html>

use crate::errors::{ErrorCode, S3Error};
use crate::xml::parse::{document, malformed};

/// How fast S3 retrieves an object from an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    #[default]
    Standard,
    Bulk,
    Expedited,
}

/// Whether S3 keeps objects of this class in an archive, from which they must be restored before they can be read.
fn is_archive(class: Option<&[u8]>) -> bool {
    matches!(class, Some(b"GLACIER" | b"DEEP_ARCHIVE"))
}

/// Checks that an object of a class can be restored by a tier.
///
/// # Errors
/// `InvalidObjectState` for objects outside of an archive; `InvalidArgument` for an expedited retrieval from the deep
/// archive.
pub fn check_restorable(class: Option<&[u8]>, tier: Tier) -> Result<(), S3Error> {
    if !is_archive(class) {
        let message = "Restore is not allowed for the object's current storage class";
        return Err(S3Error::with(ErrorCode::InvalidObjectState, message));
    }
    if class == Some(b"DEEP_ARCHIVE") && tier == Tier::Expedited {
        let message = "Retrieval option is not supported by this storage class";
        return Err(S3Error::argument(message, "Tier", b"Expedited"));
    }
    Ok(())
}

/// Checks a request to restore an object for some days, and returns its tier.
///
/// # Errors
/// `MalformedXML`; `InvalidArgument` for days that are not positive; `NotImplemented` for queries of archives.
pub fn check_request(body: &[u8]) -> Result<Tier, S3Error> {
    let root = document(body, "RestoreRequest")?;
    let (mut days, mut of_job, mut of_query) = (None, None, None);
    for child in &root.children {
        match child.name.as_str() {
            "Days" if days.is_none() => days = Some(child.leaf()?.trim()),
            "Tier" => of_query = Some(tier(child.leaf()?)?),
            "GlacierJobParameters" => {
                let [named] = child.children.as_slice() else { return Err(malformed()) };
                if named.name != "Tier" {
                    return Err(malformed());
                }
                of_job = Some(tier(named.leaf()?)?);
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
        Ok(1..) => Ok(of_job.or(of_query).unwrap_or_default()),
        Ok(_) => Err(S3Error::argument("restoration days should be at least 1", "Days", days.as_bytes())),
        Err(_) => Err(malformed()),
    }
}

fn tier(text: &str) -> Result<Tier, S3Error> {
    match text.trim() {
        "Standard" => Ok(Tier::Standard),
        "Bulk" => Ok(Tier::Bulk),
        "Expedited" => Ok(Tier::Expedited),
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(content: &str) -> Result<Tier, ErrorCode> {
        check_request(format!("<RestoreRequest>{content}</RestoreRequest>").as_bytes()).map_err(|error| error.code)
    }

    #[test]
    fn documents() {
        for (good, tier) in [
            ("<Days>1</Days>", Tier::Standard),
            (
                "<Days>365</Days><GlacierJobParameters><Tier>Bulk</Tier></GlacierJobParameters><Tier>Expedited</Tier>",
                Tier::Bulk,
            ),
            ("<Tier>Expedited</Tier><Days>1</Days>", Tier::Expedited),
            ("<Description>why</Description><Days>7</Days>", Tier::Standard),
        ] {
            assert_eq!(checked(good), Ok(tier), "{good}");
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
        let check = |class: Option<&[u8]>, tier| check_restorable(class, tier).map_err(|error| error.code);
        for tier in [Tier::Standard, Tier::Bulk, Tier::Expedited] {
            assert_eq!(check(Some(b"GLACIER"), tier), Ok(()));
            assert_eq!(check(Some(b"GLACIER_IR"), tier), Err(ErrorCode::InvalidObjectState));
            assert_eq!(check(None, tier), Err(ErrorCode::InvalidObjectState));
        }
        assert_eq!(check(Some(b"DEEP_ARCHIVE"), Tier::Bulk), Ok(()));
        assert_eq!(check(Some(b"DEEP_ARCHIVE"), Tier::Expedited), Err(ErrorCode::InvalidArgument));
    }
}
