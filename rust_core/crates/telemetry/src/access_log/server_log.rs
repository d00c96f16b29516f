//! A record of the access log as a line of S3's server access log.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/LogFormat.html>

use std::borrow::Cow;
use std::fmt::Write;

use super::note::Auth;
use super::record::{AccessRecord, millis};
use orcas_http::calendar::civil_from_days;
use orcas_http::{form_decode, percent_encode_into};
use orcas_s3::Operation;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Characters of a field: the longest key has as many when it is encoded twice.
const FIELD_MAX: usize = 5 * 1024;
/// Bytes of a header or a version id in a line.
const HEADER_MAX: usize = 1024;
/// Parameters whose values open what they were made for, or what is encrypted.
const SECRET: [&str; 5] = ["x-amz-signature", "x-amz-security-token", "signature", "webidentitytoken", "tokencode"];
/// Part of the names of parameters that stand for headers with a key.
const CUSTOMER_KEY: &str = "customer-key";

impl AccessRecord<'_> {
    /// The line, with its end. `owner` is that of the bucket, `host_id` that of the server.
    pub fn server_log_line(&self, owner: &str, host_id: &str) -> String {
        let finished = self.finished;
        let mut line = Line { out: String::with_capacity(768) };
        line.word(Some(owner));
        line.word(self.bucket.as_deref());
        line.next();
        // The only field with a space of its own.
        line.out.push_str(&time(self.began_ms));
        line.word(Some(self.remote));
        line.word(Some(self.principal));
        line.word(Some(self.request_id));
        line.word(Some(&operation_name(self.operation, self.head.method)));
        line.word(self.key.as_deref().map(encoded_twice).as_deref());
        line.quoted(Some(&self.request_line()));
        line.word(finished.status.map(|status| status.to_string()).as_deref());
        line.word(finished.code.map(|code| code.as_str()));
        line.word(Some(finished.sent).filter(|sent| *sent > 0).map(|sent| sent.to_string()).as_deref());
        line.word(self.object_size().as_deref());
        line.word(Some(&millis(finished.time).to_string()));
        line.word(Some(&millis(finished.first_byte).to_string()));
        line.quoted(self.referer());
        line.quoted(self.header("user-agent"));
        line.word(self.version_id.as_deref().map(bounded).as_deref());
        line.word(Some(host_id));
        line.word(self.signature_version());
        // Cipher suite.
        line.word(None);
        line.word(match self.auth {
            Auth::Header => Some("AuthHeader"),
            Auth::Query => Some("QueryString"),
            Auth::Form | Auth::Anonymous => None,
        });
        line.word(self.header("host").map(bounded).as_deref());
        // TLS version, access point, whether an ACL was required.
        (0..3).for_each(|_| line.word(None));
        line.out.push('\n');
        line.out
    }

    /// The request line, without the values of signatures.
    fn request_line(&self) -> Vec<u8> {
        let mut out = [self.head.method, b" ", self.head.path].concat();
        for (place, parameter) in self.head.query.split(|byte| *byte == b'&').enumerate() {
            if self.head.query.is_empty() {
                break;
            }
            out.push(if place == 0 { b'?' } else { b'&' });
            let name = parameter.split(|byte| *byte == b'=').next().unwrap_or_default();
            if is_secret(name) {
                out.extend_from_slice(name);
                out.extend_from_slice(b"=REDACTED");
            } else {
                out.extend_from_slice(parameter);
            }
        }
        out.extend_from_slice(b" HTTP/");
        out.extend_from_slice(self.http_version.as_bytes());
        out
    }

    /// Bytes of the whole object, where the answer says it or the request has it.
    fn object_size(&self) -> Option<String> {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        match self.operation? {
            Operation::GetObject | Operation::HeadObject if matches!(self.finished.status, Some(200 | 206)) => {
                self.object_size.map(|size| size.to_string())
            }
            Operation::PutObject | Operation::UploadPart if self.finished.status == Some(200) => {
                self.header("x-amz-decoded-content-length").or(self.header("content-length")).map(text)
            }
            _ => None,
        }
    }

    fn signature_version(&self) -> Option<&'static str> {
        let is_two = |query: &[u8]| query.split(|byte| *byte == b'&').any(|part| part.starts_with(b"Signature="));
        match self.auth {
            Auth::Anonymous => None,
            Auth::Query if is_two(self.head.query) => Some("SigV2"),
            Auth::Header | Auth::Query | Auth::Form => Some("SigV4"),
        }
    }
}

/// Whether the value of a parameter with this name, as it stands in the query, must not be shown.
fn is_secret(name: &[u8]) -> bool {
    // A name that cannot be decoded belongs to no request that is accepted.
    let name = form_decode(name).unwrap_or_else(|| name.to_vec()).to_ascii_lowercase();
    let name = String::from_utf8_lossy(&name);
    SECRET.contains(&&*name) || name.contains(CUSTOMER_KEY)
}

fn bounded(value: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&value[..value.len().min(HEADER_MAX)])
}

/// `[06/Feb/2019:00:00:38 +0000]`.
fn time(ms: i64) -> String {
    let seconds = ms.div_euclid(1000);
    let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
    let month = usize::try_from(month - 1).ok().and_then(|month| MONTHS.get(month)).unwrap_or(&"Jan");
    let second = seconds.rem_euclid(86_400);
    format!("[{day:02}/{month}/{year}:{:02}:{:02}:{:02} +0000]", second / 3600, second / 60 % 60, second % 60)
}

/// The key as it is logged: encoded as in a path, and once more.
fn encoded_twice(key: &str) -> String {
    let (mut once, mut twice) = (Vec::new(), Vec::new());
    percent_encode_into(&mut once, key.as_bytes(), true);
    percent_encode_into(&mut twice, &once, true);
    String::from_utf8_lossy(&twice).into_owned()
}

/// `REST.GET.OBJECT`: the method and what it was applied to.
fn operation_name(operation: Option<Operation>, method: &[u8]) -> Cow<'static, str> {
    let Some(operation) = operation else {
        return format!("REST.{}.UNKNOWN", String::from_utf8_lossy(method)).into();
    };
    let row = operation.spec();
    let composed = || format!("REST.{}.{}", row.method.name(), operation.name().to_ascii_uppercase()).into();
    row.log.map_or_else(composed, Cow::Borrowed)
}

struct Line {
    out: String,
}

impl Line {
    /// A field without spaces. `-` stands for none.
    fn word(&mut self, value: Option<&str>) {
        self.next();
        match value {
            None | Some("") => self.out.push('-'),
            Some(value) => self.escaped(value, |letter| letter.is_whitespace() || letter == '"' || letter == '['),
        }
    }

    fn quoted(&mut self, value: Option<&[u8]>) {
        self.next();
        match value {
            None => self.out.push('-'),
            Some(value) => {
                self.out.push('"');
                self.escaped(&String::from_utf8_lossy(&value[..value.len().min(HEADER_MAX)]), |letter| letter == '"');
                self.out.push('"');
            }
        }
    }

    fn next(&mut self) {
        if !self.out.is_empty() {
            self.out.push(' ');
        }
    }

    /// The text, with control characters and `also` as `%XX`.
    fn escaped(&mut self, text: &str, also: impl Fn(char) -> bool) {
        for letter in text.chars().take(FIELD_MAX) {
            if letter.is_control() || also(letter) {
                for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                    // Writing to a string never fails.
                    let _ = write!(self.out, "%{byte:02X}");
                }
            } else {
                self.out.push(letter);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_keys_are_those_of_s3() {
        assert_eq!(time(1_549_411_238_123), "[06/Feb/2019:00:00:38 +0000]");
        assert_eq!(encoded_twice("a/b c"), "a/b%2520c");
    }

    #[test]
    fn operations_have_the_names_of_s3() {
        for (operation, expected) in [
            (Operation::GetObject, "REST.GET.OBJECT"),
            (Operation::ListObjectsV2, "REST.GET.BUCKET"),
            (Operation::CopyObject, "REST.COPY.OBJECT"),
            (Operation::PutBucketLogging, "REST.PUT.LOGGING_STATUS"),
            (Operation::GetBucketAccelerateConfiguration, "REST.GET.GETBUCKETACCELERATECONFIGURATION"),
        ] {
            assert_eq!(operation_name(Some(operation), b"GET"), expected);
        }
        assert_eq!(operation_name(None, b"GET"), "REST.GET.UNKNOWN");
    }

    #[test]
    fn secret_parameters_are_known_however_they_are_written() {
        for name in [
            "X-Amz-Signature",
            "x-amz-%73ignature",
            "X%2DAmz-Security-Token",
            "WebIdentityToken",
            "Signature",
            "x-amz-server-side-encryption-customer-key",
            "X-Amz-Copy-Source-Server-Side-Encryption-Customer-Key",
        ] {
            assert!(is_secret(name.as_bytes()), "{name}");
        }
        assert!(!is_secret(b"X-Amz-Date") && !is_secret(b"versionId") && !is_secret(b"%zz"));
    }

    #[test]
    fn no_field_ends_another() {
        let mut line = Line { out: String::new() };
        line.word(Some("a b\n"));
        line.word(None);
        line.quoted(Some(b"c\" d\x7f"));
        line.word(Some("[\na \"forged\" record +0000]"));
        line.word(Some(&"x".repeat(100_000)));
        let (fields, long) = line.out.rsplit_once(' ').unwrap();
        assert_eq!(fields, "a%20b%0A - \"c%22 d%7F\" %5B%0Aa%20%22forged%22%20record%20+0000]");
        assert_eq!(long.len(), FIELD_MAX);
    }
}
