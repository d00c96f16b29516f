//! Forms: the example of the documentation, and what must be refused.

use super::*;
use crate::form::FormError;
use crate::{SignedForm, VersionTwo, authenticate_form};

/// The policy and signature of
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-post-example.html>.
const POLICY: &[u8] = b"eyAiZXhwaXJhdGlvbiI6ICIyMDE1LTEyLTMwVDEyOjAwOjAwLjAwMFoiLA0KICAiY29uZGl0aW9ucyI6IFsNCiAgICB7ImJ1Y2tldCI6ICJzaWd2NGV4YW1wbGVidWNrZXQifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRrZXkiLCAidXNlci91c2VyMS8iXSwNCiAgICB7ImFjbCI6ICJwdWJsaWMtcmVhZCJ9LA0KICAgIHsic3VjY2Vzc19hY3Rpb25fcmVkaXJlY3QiOiAiaHR0cDovL3NpZ3Y0ZXhhbXBsZWJ1Y2tldC5zMy5hbWF6b25hd3MuY29tL3N1Y2Nlc3NmdWxfdXBsb2FkLmh0bWwifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRDb250ZW50LVR5cGUiLCAiaW1hZ2UvIl0sDQogICAgeyJ4LWFtei1tZXRhLXV1aWQiOiAiMTQzNjUxMjM2NTEyNzQifSwNCiAgICB7IngtYW16LXNlcnZlci1zaWRlLWVuY3J5cHRpb24iOiAiQUVTMjU2In0sDQogICAgWyJzdGFydHMtd2l0aCIsICIkeC1hbXotbWV0YS10YWciLCAiIl0sDQoNCiAgICB7IngtYW16LWNyZWRlbnRpYWwiOiAiQUtJQUlPU0ZPRE5ON0VYQU1QTEUvMjAxNTEyMjkvdXMtZWFzdC0xL3MzL2F3czRfcmVxdWVzdCJ9LA0KICAgIHsieC1hbXotYWxnb3JpdGhtIjogIkFXUzQtSE1BQy1TSEEyNTYifSwNCiAgICB7IngtYW16LWRhdGUiOiAiMjAxNTEyMjlUMDAwMDAwWiIgfQ0KICBdDQp9";
const SIGNATURE: &[u8] = b"8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e";
const CREDENTIAL: &[u8] = b"AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request";

const EXAMPLE: SignedForm<'_> = SignedForm {
    policy: Some(POLICY),
    algorithm: Some(b"AWS4-HMAC-SHA256"),
    credential: Some(CREDENTIAL),
    date: Some(b"20151229T000000Z"),
    signature: Some(SIGNATURE),
    security_token: None,
    access_key: None,
    signature_of_version_two: None,
};

/// A form signed with version 2.
const OLDER: SignedForm<'_> = SignedForm {
    policy: Some(b"eyJhIjoxfQ=="),
    algorithm: None,
    credential: None,
    date: None,
    signature: None,
    security_token: None,
    access_key: Some(b"AKIAIOSFODNN7EXAMPLE"),
    // `printf 'eyJhIjoxfQ==' | openssl dgst -sha1 -hmac "$SECRET" -binary | base64`
    signature_of_version_two: Some(b"0x1e/mguux7FcW60ms9P29wyA7w="),
};

fn verify(form: &SignedForm<'_>, region: Option<&str>, version_two: bool) -> Result<Option<String>, FormError> {
    let rules = VersionTwo { domains: &[], hosted_bucket: |_, _| None, is_resource: |_| false };
    let requirements = Requirements {
        may_lack_region: false,
        presign_max_s: crate::PRESIGN_EXPIRES_S_MAX,
        any_signature: false,
        region,
        now_unix_ms: 0,
        skew_max_ms: crate::SKEW_MAX_MS,
        service: "s3",
        body: None,
        session_token: None,
        version_two: version_two.then_some(rules),
    };
    let found = authenticate_form(form, &requirements, &|key| {
        (key == "AKIAIOSFODNN7EXAMPLE").then(|| Credential { secret: SECRET.into(), generation: 1 })
    });
    found.map(|found| {
        found.map(|it| {
            assert_eq!(Some(it.policy), form.policy);
            it.access_key
        })
    })
}

#[test]
fn the_documented_example_and_one_of_version_two() {
    let root = Ok(Some("AKIAIOSFODNN7EXAMPLE".to_owned()));
    assert_eq!(verify(&EXAMPLE, None, false), root);
    assert_eq!(verify(&EXAMPLE, Some("us-east-1"), true), root);
    assert_eq!(verify(&OLDER, None, true), root);
    assert_eq!(verify(&SignedForm { policy: Some(POLICY), ..SignedForm::default() }, None, true), Ok(None));
}

#[test]
fn what_is_missing_is_named() {
    for (form, name) in [
        (SignedForm { algorithm: None, credential: None, ..EXAMPLE }, "X-Amz-Algorithm"),
        (SignedForm { credential: None, ..EXAMPLE }, "X-Amz-Credential"),
        (SignedForm { date: None, ..EXAMPLE }, "X-Amz-Date"),
        (SignedForm { signature: None, ..EXAMPLE }, "X-Amz-Signature"),
        (SignedForm { policy: None, ..EXAMPLE }, "policy"),
        (SignedForm { access_key: None, ..OLDER }, "AWSAccessKeyId"),
        (SignedForm { signature_of_version_two: None, ..OLDER }, "Signature"),
        (SignedForm { policy: None, ..OLDER }, "policy"),
    ] {
        assert_eq!(verify(&form, None, true), Err(FormError::Missing(name)));
    }
}

#[test]
fn wrong_signatures_are_refused() {
    use SignatureError as E;
    let longer = [POLICY, b"="].concat();
    let upper = SIGNATURE.to_ascii_uppercase();
    for (form, error) in [
        (SignedForm { policy: Some(&POLICY[..100]), ..EXAMPLE }, E::SignatureDoesNotMatch),
        (SignedForm { policy: Some(&longer), ..EXAMPLE }, E::SignatureDoesNotMatch),
        (SignedForm { signature: Some(&upper), ..EXAMPLE }, E::SignatureDoesNotMatch),
        (SignedForm { signature: Some(&SIGNATURE[..62]), ..EXAMPLE }, E::SignatureDoesNotMatch),
        (SignedForm { signature: Some(b""), ..EXAMPLE }, E::SignatureDoesNotMatch),
        (
            SignedForm { credential: Some(b"NOBODY/20151229/us-east-1/s3/aws4_request"), ..EXAMPLE },
            E::InvalidAccessKeyId,
        ),
        (
            SignedForm { credential: Some(b"AKIAIOSFODNN7EXAMPLE/20151229/eu-west-1/s3/aws4_request"), ..EXAMPLE },
            E::SignatureDoesNotMatch,
        ),
        (SignedForm { security_token: Some(b"t"), ..EXAMPLE }, E::InvalidToken),
        (SignedForm { access_key: Some(b"NOBODY"), ..OLDER }, E::InvalidAccessKeyId),
        (SignedForm { access_key: Some(b""), ..OLDER }, E::InvalidAccessKeyId),
        (SignedForm { policy: Some(b"eyJhIjoyfQ=="), ..OLDER }, E::SignatureDoesNotMatch),
        (SignedForm { signature_of_version_two: Some(b"AAAA"), ..OLDER }, E::SignatureDoesNotMatch),
        (SignedForm { signature_of_version_two: Some(b"!"), ..OLDER }, E::SignatureDoesNotMatch),
    ] {
        assert_eq!(verify(&form, None, true), Err(FormError::Signature(error)), "{form:?}");
    }
    let without_token = SignedForm { security_token: Some(b""), ..EXAMPLE };
    verify(&without_token, None, true).expect("an empty token is none");
    let both = SignedForm { access_key: OLDER.access_key, ..EXAMPLE };
    assert!(matches!(verify(&both, None, true), Err(FormError::Signature(E::InvalidArgument(_)))));
    for (region, version_two) in [(None, false), (Some("us-east-1"), true)] {
        let refused = verify(&OLDER, region, version_two);
        assert_eq!(refused, Err(FormError::Signature(E::UnsupportedMechanism)));
    }
}

#[test]
fn fields_that_are_malformed_are_named() {
    for (form, field) in [
        (SignedForm { algorithm: Some(b"AWS4"), ..EXAMPLE }, "X-Amz-Algorithm"),
        (SignedForm { date: Some(b"2015-12-29"), ..EXAMPLE }, "X-Amz-Date"),
        (SignedForm { date: Some(b"20151230T000000Z"), ..EXAMPLE }, "X-Amz-Credential"),
        (SignedForm { credential: Some(b"AKIAIOSFODNN7EXAMPLE"), ..EXAMPLE }, "X-Amz-Credential"),
        (SignedForm { credential: Some(b"/20151229/us-east-1/s3/aws4_request"), ..EXAMPLE }, "X-Amz-Credential"),
        (SignedForm { credential: Some(b"\xff"), ..EXAMPLE }, "X-Amz-Credential"),
    ] {
        let error = verify(&form, None, true);
        assert!(matches!(error, Err(FormError::Field { name, .. }) if name == field), "{error:?}");
    }
    let elsewhere = verify(&EXAMPLE, Some("eu-west-1"), true);
    assert!(matches!(elsewhere, Err(FormError::WrongRegion { given, .. }) if given == "us-east-1"));
}
