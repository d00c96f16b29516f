//! The documents by which clients write configurations of buckets and objects, read as far as is needed to tell
//! whether they would change anything.
//!
//! Anything that is not of the published schema is `MalformedXML`.

use super::parse::{Element, document, malformed};
use crate::errors::S3Error;

/// The status of an AbacStatus document.
pub fn abac_status(body: &[u8]) -> Result<String, S3Error> {
    one_of(only(&document(body, "AbacStatus")?, "Status")?, &["Enabled", "Disabled"])
}

/// The rule of an OwnershipControls document.
pub fn ownership(body: &[u8]) -> Result<String, S3Error> {
    let root = document(body, "OwnershipControls")?;
    let rule = only(&root, "Rule")?;
    one_of(only(rule, "ObjectOwnership")?, &["BucketOwnerPreferred", "ObjectWriter", "BucketOwnerEnforced"])
}

/// Whether an AccelerateConfiguration document turns acceleration on, and how it says so.
pub fn acceleration(body: &[u8]) -> Result<String, S3Error> {
    one_of(only(&document(body, "AccelerateConfiguration")?, "Status")?, &["Enabled", "Suspended"])
}

/// The payer that a RequestPaymentConfiguration document names.
pub fn payer(body: &[u8]) -> Result<String, S3Error> {
    one_of(only(&document(body, "RequestPaymentConfiguration")?, "Payer")?, &["Requester", "BucketOwner"])
}

/// Which of `settings` a PublicAccessBlockConfiguration document sets.
///
/// Errors: `MalformedXML` also for a document without any.
pub fn public_access_block(body: &[u8], settings: &[&str]) -> Result<Vec<bool>, S3Error> {
    let root = document(body, "PublicAccessBlockConfiguration")?;
    let mut set = vec![None; settings.len()];
    for child in &root.children {
        let at = settings.iter().position(|name| *name == child.name).ok_or_else(malformed)?;
        let value = match child.leaf()?.trim() {
            "true" | "TRUE" => true,
            "false" | "FALSE" => false,
            _ => return Err(malformed()),
        };
        if set[at].replace(value).is_some() {
            return Err(malformed());
        }
    }
    if root.children.is_empty() {
        return Err(malformed());
    }
    Ok(set.into_iter().map(Option::unwrap_or_default).collect())
}

/// The child `name`, which is the only one.
fn only<'a>(element: &'a Element, name: &str) -> Result<&'a Element, S3Error> {
    match element.children.as_slice() {
        [child] if child.name == name => Ok(child),
        _ => Err(malformed()),
    }
}

fn one_of(element: &Element, values: &[&str]) -> Result<String, S3Error> {
    let text = element.leaf()?.trim();
    if values.contains(&text) { Ok(text.to_owned()) } else { Err(malformed()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::ErrorCode;

    #[test]
    fn values_that_the_schema_does_not_have_are_malformed() {
        let code = |result: Result<String, S3Error>| result.map_err(|error| error.code);
        assert_eq!(
            code(payer(b"<RequestPaymentConfiguration><Payer>Me</Payer></RequestPaymentConfiguration>")),
            Err(ErrorCode::MalformedXML)
        );
        assert_eq!(code(ownership(b"<OwnershipControls/>")), Err(ErrorCode::MalformedXML));
        assert_eq!(code(abac_status(b"<AbacStatus><Status>Enabled</Status></AbacStatus>")), Ok("Enabled".into()));
        let block = b"<PublicAccessBlockConfiguration><BlockPublicAcls>yes</BlockPublicAcls>\
                      </PublicAccessBlockConfiguration>";
        assert!(public_access_block(block, &["BlockPublicAcls"]).is_err());
    }
}
