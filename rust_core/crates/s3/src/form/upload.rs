//! What the fields of a form say about the object and the answer, in the terms of the request that they stand for.

use super::fields::Form;
use super::{S3Error, missing_field};
use crate::objects::tags::{Tags, read_document};
use crate::requests::target::checked_key;
use orcas_http::Headers;

/// Fields that stand for the headers of the same names.
const HEADERS: [&str; 7] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-md5",
    "content-type",
    "expires",
];

/// Fields that sign the form. Any other field `x-amz-…` stands for the header of that name.
const SIGNING: [&str; 4] = ["x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature"];

/// Headers as a form stands for them: names in lower case, and values.
type HeaderList<'a> = Vec<(&'a [u8], &'a [u8])>;

/// The answer to a successful upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuccessAction {
    /// 200 or 204, without a document.
    Empty(u16),
    /// 201 with a PostResponse.
    Document,
    /// 303 to this address, which holds no control characters.
    Redirect(Vec<u8>),
}

impl SuccessAction {
    /// Reads the form. As on S3, a status or an address that cannot be used counts as absent.
    pub fn of(form: &Form) -> Self {
        let redirect = form.get("success_action_redirect").or_else(|| form.get("redirect"));
        match (redirect.filter(|url| is_address(url)), form.get("success_action_status")) {
            (Some(url), _) => Self::Redirect(url.to_vec()),
            (None, Some(b"200")) => Self::Empty(200),
            (None, Some(b"201")) => Self::Document,
            (None, _) => Self::Empty(204),
        }
    }
}

/// Whether a browser can be sent to `url`, and a header can hold it.
fn is_address(url: &[u8]) -> bool {
    let begins = |scheme: &[u8]| url.len() > scheme.len() && url[..scheme.len()].eq_ignore_ascii_case(scheme);
    (begins(b"http://") || begins(b"https://")) && !url.iter().any(u8::is_ascii_control)
}

/// `url` with bucket, key and entity tag in its query. `etag` is hexadecimal, without quotes.
pub fn redirection(url: &[u8], bucket: &str, key: &[u8], etag: &[u8]) -> Vec<u8> {
    let end = memchr::memchr(b'#', url).unwrap_or(url.len());
    let mut out = url[..end].to_vec();
    let mut separator = if out.contains(&b'?') { b'&' } else { b'?' };
    let quoted = [b"\"", etag, b"\""].concat();
    for (name, value) in [("bucket", bucket.as_bytes()), ("key", key), ("etag", &quoted)] {
        out.push(separator);
        separator = b'&';
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        for part in value.split_inclusive(|&byte| byte == b' ') {
            let (text, space) = part.strip_suffix(b" ").map_or((part, false), |text| (text, true));
            orcas_http::percent_encode_into(&mut out, text, false);
            if space {
                out.push(b'+');
            }
        }
    }
    out.extend_from_slice(&url[end..]);
    out
}

impl Form {
    /// The key of the object.
    pub fn key(&self) -> Result<Vec<u8>, S3Error> {
        let key = self.get("key").filter(|key| !key.is_empty()).ok_or_else(|| missing_field("key"))?;
        checked_key(key.to_vec())
    }

    /// The tags of the object, which the form holds as a document.
    pub fn tags(&self) -> Result<Option<Tags>, S3Error> {
        self.get("tagging").filter(|tags| !tags.is_empty()).map(read_document).transpose()
    }

    /// The headers that the fields stand for, names in lower case.
    ///
    /// Errors: `InvalidArgument` for another bucket than the address has.
    pub fn headers(&self, bucket: &str) -> Result<HeaderList<'_>, S3Error> {
        if let Some(named) = self.get("bucket").filter(|named| *named != bucket.as_bytes()) {
            return Err(S3Error::argument("The form is for another bucket", "bucket", named));
        }
        let named = self
            .iter()
            .filter(|(name, ..)| HEADERS.contains(name) || name.starts_with("x-amz-") && !SIGNING.contains(name));
        let acl = self.get("acl").map(|acl| (&b"x-amz-acl"[..], acl));
        Ok(named.map(|(name, _, value)| (name.as_bytes(), value)).chain(acl).collect())
    }
}

/// Refuses headers of the request itself that would say something about the object: no policy covers them.
pub fn check_form_head(headers: &Headers<'_>) -> Result<(), S3Error> {
    let of_object = |name: &[u8]| {
        name == b"content-md5"
            || name.strip_prefix(b"x-amz-").is_some_and(|rest| !crate::requests::support::has_no_effect(rest))
    };
    match headers.iter().find(|(name, _)| of_object(name)) {
        Some((name, _)) => Err(S3Error::header_not_implemented(name)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::tests::{body, read};
    use super::*;
    use crate::ErrorCode;

    fn form(fields: &[(&str, &str)]) -> Form {
        read(&[&body(fields, "f.txt")]).unwrap().0
    }

    #[test]
    fn success_actions() {
        let redirect = |url: &str| SuccessAction::Redirect(url.as_bytes().to_vec());
        for (fields, action) in [
            (vec![], SuccessAction::Empty(204)),
            (vec![("success_action_status", "200")], SuccessAction::Empty(200)),
            (vec![("success_action_status", "201")], SuccessAction::Document),
            (vec![("Success_Action_Status", "204")], SuccessAction::Empty(204)),
            (vec![("success_action_status", "404")], SuccessAction::Empty(204)),
            (vec![("redirect", "http://a/b"), ("success_action_status", "201")], redirect("http://a/b")),
            (vec![("redirect", "http://a"), ("success_action_redirect", "HTTPS://b")], redirect("HTTPS://b")),
            (vec![("success_action_redirect", "/relative")], SuccessAction::Empty(204)),
            (vec![("success_action_redirect", "http://")], SuccessAction::Empty(204)),
            (vec![("success_action_redirect", "javascript:x")], SuccessAction::Empty(204)),
            (vec![("success_action_redirect", "http://a/\r\nx: y")], SuccessAction::Empty(204)),
        ] {
            assert_eq!(SuccessAction::of(&form(&fields)), action, "{fields:?}");
        }
    }

    #[test]
    fn redirections_name_what_was_stored() {
        let to = |url: &str| String::from_utf8(redirection(url.as_bytes(), "b", "a/é &b".as_bytes(), b"0f")).unwrap();
        let query = "bucket=b&key=a%2F%C3%A9+%26b&etag=%220f%22";
        assert_eq!(to("http://h/p"), format!("http://h/p?{query}"));
        assert_eq!(to("http://h/p?x=y"), format!("http://h/p?x=y&{query}"));
        assert_eq!(to("http://h/p#part?"), format!("http://h/p?{query}#part?"));
    }

    #[test]
    fn fields_stand_for_headers() {
        let sent = form(&[
            ("Content-Type", "text/plain"),
            ("X-Amz-Meta-A", "1"),
            ("acl", "private"),
            ("x-amz-date", "d"),
            ("submit", "Go"),
            ("tagging", ""),
            ("bucket", "b"),
        ]);
        let headers: [(&[u8], &[u8]); 3] =
            [(b"content-type", b"text/plain"), (b"x-amz-meta-a", b"1"), (b"x-amz-acl", b"private")];
        assert_eq!(sent.headers("b"), Ok(headers.to_vec()));
        assert_eq!(sent.headers("c").unwrap_err().code, ErrorCode::InvalidArgument);
        assert_eq!(sent.tags(), Ok(None));
        let tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>";
        assert_eq!(form(&[("tagging", tags)]).tags(), Ok(Some(vec![(b"a".to_vec(), b"1".to_vec())])));
        assert_eq!(form(&[("tagging", "not-xml")]).tags().unwrap_err().code, ErrorCode::MalformedXML);
        assert_eq!(form(&[("key", "")]).key().unwrap_err().code, ErrorCode::InvalidArgument);
        assert_eq!(form(&[("key", "d/${filename}")]).key(), Ok(b"d/f.txt".to_vec()));
    }

    #[test]
    fn headers_beside_a_form_say_nothing_about_the_object() {
        let check = |name: &str| check_form_head(&Headers::new(&[(name.as_bytes(), b"x")])).map_err(|it| it.code);
        for name in ["content-type", "origin", "x-amz-user-agent"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        for name in ["content-md5", "x-amz-meta-a", "x-amz-acl", "x-amz-checksum-crc32"] {
            assert_eq!(check(name), Err(ErrorCode::NotImplemented), "{name}");
        }
    }
}
