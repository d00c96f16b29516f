//! The VersioningConfiguration document.

use super::XmlWriter;
use super::parse::{document, malformed};
use crate::errors::{ErrorCode, S3Error};

/// Versioning of a bucket that has been switched on once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Enabled,
    Suspended,
}

/// What a document asks for.
///
/// Errors: `MalformedXML`, `IllegalVersioningConfigurationException` without a status, `NotImplemented` for MFA delete.
pub fn read(body: &[u8]) -> Result<Status, S3Error> {
    let mut status = None;
    for child in &document(body, "VersioningConfiguration")?.children {
        match (child.name.as_str(), child.leaf()?.trim()) {
            ("Status", "Enabled") if status.is_none() => status = Some(Status::Enabled),
            ("Status", "Suspended") if status.is_none() => status = Some(Status::Suspended),
            ("MfaDelete", "Disabled") => {}
            ("MfaDelete", "Enabled") => {
                return Err(S3Error::with(ErrorCode::NotImplemented, "MFA delete is not implemented"));
            }
            _ => return Err(malformed()),
        }
    }
    status.ok_or_else(|| ErrorCode::IllegalVersioningConfigurationException.into())
}

/// The document of a bucket; empty if versioning was never switched on.
pub fn write(status: Option<Status>) -> Vec<u8> {
    let mut xml = XmlWriter::document(160);
    xml.open_root("VersioningConfiguration");
    match status {
        Some(Status::Enabled) => xml.plain("Status", "Enabled"),
        Some(Status::Suspended) => xml.plain("Status", "Suspended"),
        None => {}
    }
    xml.close("VersioningConfiguration");
    xml.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        for status in [Status::Enabled, Status::Suspended] {
            assert_eq!(read(&write(Some(status))), Ok(status));
        }
        let code = |content: &str| {
            let body = format!("<VersioningConfiguration>{content}</VersioningConfiguration>");
            read(body.as_bytes()).map_err(|error| error.code)
        };
        let enabled = "<Status>Enabled</Status>";
        assert_eq!(code(&format!("{enabled}<MfaDelete>Disabled</MfaDelete>")), Ok(Status::Enabled));
        assert_eq!(code(&format!("{enabled}<MfaDelete>Enabled</MfaDelete>")), Err(ErrorCode::NotImplemented));
        assert_eq!(code(""), Err(ErrorCode::IllegalVersioningConfigurationException));
        for bad in ["<Status>enabled</Status>", "<Other/>", &enabled.repeat(2), "<Status><x/></Status>"] {
            assert_eq!(code(bad), Err(ErrorCode::MalformedXML), "{bad}");
        }
    }
}
