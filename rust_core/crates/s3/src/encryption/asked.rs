//! What a request asks for, and the lines by which answers tell of a named key.

use super::super::errors::S3Error;
use super::super::form::json::{Json, parse};
use super::customer::{CustomerKey, OF_CUSTOMERS};
use super::names::{BUCKET_KEY, CONTEXT, ENCRYPTION, KEY_ID, KMS};
use crate::responses::header_block::HeaderBlock;
use orcas_checksum::{base64_decode, base64_encode};
use orcas_http::Headers;

/// Bytes of the longest encryption context.
const CONTEXT_LEN_MAX: usize = 4096;

/// The encryption that a request asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub method: Option<Method>,
    /// Whether a named key is to be used through a bucket key.
    pub bucket_key: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Method {
    /// Keys of the server.
    Managed,
    /// A named key: the default one without a name. The context is JSON as the client wrote it, or empty.
    Named {
        key: Option<String>,
        context: Vec<u8>,
    },
    Customer(CustomerKey),
}

impl Asked {
    /// Reads the headers.
    ///
    /// Errors: `InvalidArgument` for headers that contradict each other or have no meaning, `NotImplemented` for two
    /// layers of encryption, and those of [`CustomerKey::parse`].
    pub fn parse(headers: &Headers<'_>) -> Result<Self, S3Error> {
        let value = headers.get(ENCRYPTION).map(<[u8]>::trim_ascii);
        if let Some(value) = value
            && OF_CUSTOMERS.iter().any(|name| headers.get(name).is_some())
        {
            let message = "Server Side Encryption with Customer provided key is incompatible with the encryption method \
                           specified";
            return Err(S3Error::argument(message, ENCRYPTION, value));
        }
        let customer = CustomerKey::parse(headers)?;
        let (key, context) = (headers.get(KEY_ID), headers.get(CONTEXT));
        let bucket_key = headers.get(BUCKET_KEY).map(flag).transpose()?;
        let method = match (value, customer) {
            (_, Some(customer)) => Some(Method::Customer(customer)),
            (None, None) => None,
            (Some(b"AES256"), None) => Some(Method::Managed),
            (Some(b"aws:kms"), None) => {
                let key = key.map(key_name).transpose()?.filter(|key| !key.is_empty());
                let context = context.map(read_context).transpose()?.unwrap_or_default();
                return Ok(Self { method: Some(Method::Named { key, context }), bucket_key });
            }
            (Some(b"aws:kms:dsse"), None) => return Err(S3Error::header_not_implemented(ENCRYPTION.as_bytes())),
            (Some(other), None) => {
                return Err(S3Error::argument("The encryption method specified is not supported", ENCRYPTION, other));
            }
        };
        if key.is_some() || context.is_some() {
            let message = "Server Side Encryption with AWS KMS managed key requires HTTP header \
                           x-amz-server-side-encryption : aws:kms";
            return Err(S3Error::argument(message, ENCRYPTION, value.unwrap_or_default()));
        }
        Ok(Self { method, bucket_key })
    }
}

fn flag(value: &[u8]) -> Result<bool, S3Error> {
    match value.trim_ascii() {
        value if value.eq_ignore_ascii_case(b"true") => Ok(true),
        value if value.eq_ignore_ascii_case(b"false") => Ok(false),
        value => Err(S3Error::argument("The value must be true or false", BUCKET_KEY, value)),
    }
}

fn key_name(value: &[u8]) -> Result<String, S3Error> {
    let name = std::str::from_utf8(value.trim_ascii()).ok();
    name.map(str::to_owned).ok_or_else(|| S3Error::argument("The key id is not valid", KEY_ID, value))
}

/// The JSON of a context: an object of strings, no name of which is empty or repeated.
fn read_context(value: &[u8]) -> Result<Vec<u8>, S3Error> {
    let decoded = base64_decode(value.trim_ascii()).filter(|bytes| bytes.len() <= CONTEXT_LEN_MAX);
    let pairs = decoded.as_deref().and_then(|bytes| parse(std::str::from_utf8(bytes).ok()?));
    let is_map = match &pairs {
        Some(Json::Object(pairs)) => pairs.iter().enumerate().all(|(place, (name, value))| {
            let repeated = pairs[..place].iter().any(|(other, _)| other == name);
            !name.is_empty() && !repeated && matches!(value, Json::String(_))
        }),
        _ => false,
    };
    decoded.filter(|_| is_map).ok_or_else(|| {
        let message = "The header 'x-amz-server-side-encryption-context' shall be Base64-encoded UTF-8 string holding \
                       JSON which represents a string-string map";
        S3Error::argument(message, CONTEXT, value)
    })
}

/// The lines of an answer about an object that a named key encrypts. The context is shown to whoever stores it.
pub fn show_named(block: &mut HeaderBlock, arn: &str, context: Option<&[u8]>, bucket_key: bool) {
    block.push(ENCRYPTION, KMS.as_bytes());
    block.push(KEY_ID, arn.as_bytes());
    if let Some(context) = context.filter(|context| !context.is_empty()) {
        block.push(CONTEXT, base64_encode(context).as_bytes());
    }
    if bucket_key {
        block.push(BUCKET_KEY, b"true");
    }
}

/// An operation that a signature of version 4 alone may ask for.
pub fn needs_version_four() -> S3Error {
    let message =
        "Requests specifying Server Side Encryption with AWS KMS managed keys require AWS Signature Version 4.";
    S3Error::argument(message, "Authorization", b"null")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::ErrorCode;

    fn asks(list: &[(&str, &str)]) -> Result<Asked, ErrorCode> {
        let list: Vec<(&[u8], &[u8])> = list.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        Asked::parse(&Headers::new(&list)).map_err(|error| error.code)
    }

    fn named(key: Option<&str>, context: &str) -> Asked {
        let method = Method::Named { key: key.map(str::to_owned), context: context.into() };
        Asked { method: Some(method), bucket_key: None }
    }

    #[test]
    fn a_request_asks_for_one_method() {
        assert_eq!(asks(&[]), Ok(Asked::default()));
        assert_eq!(asks(&[(ENCRYPTION, "AES256")]).map(|asked| asked.method), Ok(Some(Method::Managed)));
        assert_eq!(asks(&[(ENCRYPTION, "aws:kms")]), Ok(named(None, "")));
        assert_eq!(asks(&[(ENCRYPTION, "aws:kms"), (KEY_ID, "alias/a")]), Ok(named(Some("alias/a"), "")));
        assert_eq!(asks(&[(ENCRYPTION, "aws:kms:dsse")]), Err(ErrorCode::NotImplemented));
        for list in [
            &[(ENCRYPTION, "aes256")][..],
            &[(KEY_ID, "k")],
            &[(ENCRYPTION, "AES256"), (KEY_ID, "k")],
            &[(ENCRYPTION, "AES256"), (CONTEXT, "e30=")],
            &[(BUCKET_KEY, "yes")],
        ] {
            assert_eq!(asks(list), Err(ErrorCode::InvalidArgument), "{list:?}");
        }
        assert_eq!(asks(&[(BUCKET_KEY, "true")]).map(|asked| asked.bucket_key), Ok(Some(true)));
    }

    #[test]
    fn a_context_is_a_map_of_strings() {
        let of = |json: &str| asks(&[(ENCRYPTION, "aws:kms"), (CONTEXT, &base64_encode(json.as_bytes()))]);
        for good in ["{}", r#"{"a": "b"}"#, r#"{"a":"b","c":""}"#] {
            assert_eq!(of(good), Ok(named(None, good)));
        }
        for bad in ["", "[]", "null", r#"{"a": 1}"#, r#"{"": "b"}"#, r#"{"a": "b", "a": "b"}"#, r#"{"a": {}}"#, "{"] {
            assert_eq!(of(bad), Err(ErrorCode::InvalidArgument), "{bad}");
        }
        assert_eq!(of(&format!(r#"{{"a": "{}"}}"#, "x".repeat(CONTEXT_LEN_MAX))), Err(ErrorCode::InvalidArgument));
        let no_base64 = asks(&[(ENCRYPTION, "aws:kms"), (CONTEXT, "{}")]);
        assert_eq!(no_base64, Err(ErrorCode::InvalidArgument));
    }
}
