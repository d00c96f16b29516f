//! Forms: what their signers may do, and what the log says about them.

use super::identities::{cause, shown};
use super::*;
use orcas_s3::Operation;

const POLICY: &str = r#"{"expiration":"2999-01-01T00:00:00.000Z","conditions":[{"bucket":"bucket"},{"key":"k"}]}"#;
/// Access keys, and the signatures of the policy with their secrets:
/// `printf %s "$POLICY" | base64 -w0 | openssl dgst -sha1 -hmac "$SECRET" -binary | base64`
const OF_ROOT: (&str, &str) = ("ROOT", "UiTLigont52OTKxt7SQKePS/1Gc=");
const OF_OTHER: (&str, &str) = ("OTHER", "J2i4AqvJdrN7fR/95XexSUbRx/M=");

fn form((access_key, signature): (&str, &str), content: &[u8]) -> Vec<u8> {
    let policy = base64_encode(POLICY.as_bytes());
    unsigned(&[("key", "k"), ("AWSAccessKeyId", access_key), ("policy", &policy), ("signature", signature)], content)
}

/// A form with these fields and this content.
pub(super) fn unsigned(fields: &[(&str, &str)], content: &[u8]) -> Vec<u8> {
    let part = |name: &str| format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
    let fields: String = fields.iter().map(|(name, value)| part(name) + value + "\r\n").collect();
    [fields.as_bytes(), part("file").as_bytes(), content, b"\r\n--x--\r\n"].concat()
}

impl Fixture {
    /// Sends a form to the bucket `bucket`.
    fn post(&self, body: &[u8]) -> Response {
        self.post_to("bucket", body)
    }

    pub(super) fn post_to(&self, bucket: &str, body: &[u8]) -> Response {
        let (path, length) = (format!("/{bucket}"), body.len().to_string());
        let list: [(&[u8], &[u8]); 3] = [
            (b"host", b"localhost:9000"),
            (b"content-type", b"multipart/form-data; boundary=x"),
            (b"content-length", length.as_bytes()),
        ];
        let head = RequestHead { method: b"POST", path: path.as_bytes(), query: b"", headers: Headers::new(&list) };
        let form = self.gateway.form(&head, &near(0), &self.responder()).unwrap();
        let form = form.unwrap_or_else(|refused| panic!("{}", code(&refused.answer)));
        let admission = form.push(&self.gateway, body, true).unwrap_or_else(|_| panic!("the fields have no end"));
        match admission.request.and_then(|postponed| self.accepted(&postponed)) {
            Ok(request) => self.carry_out(&request, &body[admission.taken..]),
            Err(answer) => *answer,
        }
    }
}

#[test]
fn a_form_needs_the_permission_of_its_signer() {
    let fixture = Fixture::new();
    let without_bucket = shown(&fixture.post(&form(OF_OTHER, b"content")));
    let message = format!(
        "User: arn:aws:iam::{OTHER_ACCOUNT}:user/other is not authorized to perform: s3:PutObject on resource: \"arn:aws:s3:::bucket/k\" because no \
         identity-based policy allows the s3:PutObject action</Message>"
    );
    assert!(without_bucket.replace("&quot;", "\"").contains(&message), "{without_bucket}");
    assert_eq!(code(&fixture.post(&form(OF_ROOT, b"content"))), "NoSuchBucket");
    assert_eq!(fixture.call("PUT", "/bucket", &[], b"").status, 200);
    assert_eq!(shown(&fixture.post(&form(OF_OTHER, b"content"))), without_bucket);
    assert_eq!(fixture.call("HEAD", "/bucket/k", &[], b"").status, 404);
    assert_eq!(fixture.post(&form(OF_ROOT, b"content")).status, 204);
    fixture.gateway.access().signers.replace(IdentityTables::of_root(OWNER, &[])).unwrap();
    assert_eq!(code(&fixture.post(&form(OF_ROOT, b"content"))), "InvalidAccessKeyId");
}

#[test]
fn the_log_says_which_form_caused_an_upload() {
    let fixture = Fixture::new();
    assert_eq!(fixture.call("PUT", "/bucket", &[], b"").status, 200);
    // One whose body is collected, and one whose body is written as it arrives.
    let causes = [7, 200_000].map(|size| {
        let answer = fixture.post(&form(OF_ROOT, &noise(size)));
        assert_eq!(answer.status, 204, "{}", code(&answer));
        cause(Operation::PostObject, &answer)
    });
    fixture.reopened(|data| {
        let files = std::fs::read_dir(data.join("log")).unwrap();
        let log: Vec<u8> = files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
        for cause in &causes {
            assert_eq!(memchr::memmem::find_iter(&log, cause).count(), 1);
        }
    });
}
