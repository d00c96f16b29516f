//! Upload ids in the form in which clients see them: 32 hexadecimal digits.

use std::borrow::Cow;

use orcas_bodies::problem::Problem;
use orcas_http::{Query, hex, parse_hex};
use orcas_record::{Bucket, UploadId};
use orcas_s3::{ErrorCode, Named, S3Error, query};

pub fn upload_id_text(id: UploadId) -> String {
    hex(&id.0)
}

/// The names in errors of requests about an upload.
pub fn named_upload<'a>(bucket: &'a Bucket, key: &'a [u8], id: UploadId) -> Named<'a> {
    let upload = Some(Cow::Owned(upload_id_text(id).into_bytes()));
    Named { bucket: Some(&bucket.name), key: Some(key), upload }
}

/// Anything that this server cannot have given out is `NoSuchUpload`.
pub fn parse_upload_id(text: &[u8]) -> Result<UploadId, S3Error> {
    let lower = Some(text).filter(|text| !text.iter().any(u8::is_ascii_uppercase));
    Ok(UploadId(lower.and_then(parse_hex).ok_or(ErrorCode::NoSuchUpload)?))
}

pub fn upload_id(query: &Query) -> Result<UploadId, Problem> {
    Ok(parse_upload_id(&query::upload_id(query)?)?)
}

/// Part number and upload of the query.
pub fn part_address(query: &Query) -> Result<(u16, UploadId), Problem> {
    let (number, id) = query::part_address(query)?;
    Ok((number, parse_upload_id(&id)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upload_ids_have_one_spelling() {
        let id = UploadId(std::array::from_fn(|n| n as u8 * 17));
        let text = upload_id_text(id);
        assert_eq!(parse_upload_id(text.as_bytes()), Ok(id));
        for bad in ["", "00", &text.to_uppercase(), &format!("{text}0"), &text.replace('0', "g")] {
            assert_eq!(parse_upload_id(bad.as_bytes()).unwrap_err().code, ErrorCode::NoSuchUpload, "{bad}");
        }
    }
}
