//! The signature of an upload by a form. It covers the policy, as the form holds it, and nothing else; the policy says
//! what the rest of the form may be.
//!
//! Rules of <https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-authentication-HTTPPOST.html>, and of Version 2.

use std::borrow::Cow;

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

use super::authentication::{NOBODY, Requirements, check_session_token};
use super::canonical::{SERVICE, is_graphic, parse_hex};
use super::claim::{ACCESS_KEY_BYTES_MAX, ALGORITHM, NO_REGION, Scope};
use super::date::Timestamp;
use super::error::SignatureError;
use super::keys::{Credential, SigningKey};
use orcas_checksum::base64_decode;

/// The fields that sign a form, as sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct SignedForm<'a> {
    pub policy: Option<&'a [u8]>,
    pub algorithm: Option<&'a [u8]>,
    pub credential: Option<&'a [u8]>,
    pub date: Option<&'a [u8]>,
    pub signature: Option<&'a [u8]>,
    pub security_token: Option<&'a [u8]>,
    /// `AWSAccessKeyId` and `signature`, of Version 2.
    pub access_key: Option<&'a [u8]>,
    pub signature_of_version_two: Option<&'a [u8]>,
}

/// Why the signature of a form is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormError {
    /// A form with a signature needs a field of this name.
    Missing(&'static str),
    /// A field has a value that S3 does not accept.
    Field {
        name: &'static str,
        value: Vec<u8>,
        message: Cow<'static, str>,
    },
    /// The credential names another region than the only one accepted.
    WrongRegion {
        credential: Vec<u8>,
        given: String,
        expected: String,
    },
    Signature(SignatureError),
}

impl From<SignatureError> for FormError {
    fn from(error: SignatureError) -> Self {
        Self::Signature(error)
    }
}

/// A form whose signature is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticatedForm<'a> {
    pub access_key: String,
    /// The policy that is signed.
    pub policy: &'a [u8],
}

/// Verifies the signature of a form. `None` for one that has none. Says nothing about the policy, not even that it has
/// not expired.
pub fn authenticate_form<'a>(
    form: &SignedForm<'a>,
    requirements: &Requirements<'_>,
    credential: &dyn Fn(&str) -> Option<Credential>,
) -> Result<Option<AuthenticatedForm<'a>>, FormError> {
    let version_four = [form.algorithm, form.credential, form.date, form.signature].iter().any(Option::is_some);
    let version_two = [form.access_key, form.signature_of_version_two].iter().any(Option::is_some);
    let verified = match (version_four, version_two) {
        (false, false) => return Ok(None),
        (true, true) => {
            let message = "Only one auth mechanism allowed; a form has the fields of one version of signatures";
            return Err(SignatureError::InvalidArgument(message).into());
        }
        (true, false) => of_version_four(form, requirements, credential)?,
        (false, true) => of_version_two(form, requirements, credential)?,
    };
    check_session_token(form.security_token, requirements.session_token)?;
    Ok(Some(verified))
}

fn of_version_four<'a>(
    form: &SignedForm<'a>,
    requirements: &Requirements<'_>,
    credential: &dyn Fn(&str) -> Option<Credential>,
) -> Result<AuthenticatedForm<'a>, FormError> {
    let required = |value: Option<&'a [u8]>, name| value.ok_or(FormError::Missing(name));
    let algorithm = required(form.algorithm, "X-Amz-Algorithm")?;
    let claimed = required(form.credential, "X-Amz-Credential")?;
    let date = required(form.date, "X-Amz-Date")?;
    let signature = required(form.signature, "X-Amz-Signature")?;
    let policy = required(form.policy, "policy")?;
    let fault = |name, value: &[u8], message| FormError::Field { name, value: value.to_vec(), message };
    if algorithm != ALGORITHM.as_bytes() {
        let message = "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"";
        return Err(fault("X-Amz-Algorithm", algorithm, message.into()));
    }
    let scope = std::str::from_utf8(claimed)
        .map_err(|_| "the Credential is not UTF-8.".into())
        .and_then(|it| Scope::parse(it, SERVICE))
        .and_then(|it| if it.region.is_empty() { Err(NO_REGION.into()) } else { Ok(it) });
    let scope = scope.map_err(|message| fault("X-Amz-Credential", claimed, message))?;
    let timestamp = Timestamp::parse_iso(date)
        .ok_or_else(|| fault("X-Amz-Date", date, "X-Amz-Date must be formated via ISO8601 Long format".into()))?;
    if timestamp.day() != scope.day {
        let message = "the date of the credential is not the date of the form";
        return Err(fault("X-Amz-Credential", claimed, message.into()));
    }
    if let Some(expected) = requirements.region.filter(|expected| *expected != scope.region) {
        let (given, expected) = (scope.region.to_owned(), expected.to_owned());
        return Err(FormError::WrongRegion { credential: claimed.to_vec(), given, expected });
    }
    let found = credential(scope.access_key);
    let secret = found.as_ref().map_or(NOBODY, |it| &it.secret[..]);
    // Forms are rare: the key is derived for each, so that a refusal takes as long for every access key.
    let key = SigningKey::derive(secret, &scope.day, scope.region, SERVICE);
    let signature = parse_hex(signature).ok_or(SignatureError::SignatureDoesNotMatch)?;
    let verified = [found.is_some(), key.verify(policy, &signature)];
    decide(verified.map(|it| it || requirements.any_signature), scope.access_key, policy)
}

fn of_version_two<'a>(
    form: &SignedForm<'a>,
    requirements: &Requirements<'_>,
    credential: &dyn Fn(&str) -> Option<Credential>,
) -> Result<AuthenticatedForm<'a>, FormError> {
    // Such a signature is valid in every region, so a server that accepts only its own refuses it.
    if requirements.version_two.is_none() || requirements.region.is_some() {
        return Err(SignatureError::UnsupportedMechanism.into());
    }
    let required = |value: Option<&'a [u8]>, name| value.ok_or(FormError::Missing(name));
    let access_key = required(form.access_key, "AWSAccessKeyId")?;
    let signature = required(form.signature_of_version_two, "Signature")?;
    let policy = required(form.policy, "policy")?;
    let access_key = std::str::from_utf8(access_key)
        .ok()
        .filter(|key| !key.is_empty() && key.len() <= ACCESS_KEY_BYTES_MAX && is_graphic(key.as_bytes()))
        .ok_or(SignatureError::InvalidAccessKeyId)?;
    let signature = base64_decode(signature).ok_or(SignatureError::SignatureDoesNotMatch)?;
    let found = credential(access_key);
    let secret = found.as_ref().map_or(NOBODY, |it| &it.secret[..]);
    let key = Hmac::<Sha1>::new_from_slice(secret).expect("HMAC is defined for keys of any length");
    // In constant time.
    let matches = key.chain_update(policy).verify_slice(&signature).is_ok();
    decide([found.is_some(), matches].map(|it| it || requirements.any_signature), access_key, policy)
}

/// `verified`: whether the access key is known, and whether its signature is right.
fn decide<'a>(verified: [bool; 2], access_key: &str, policy: &'a [u8]) -> Result<AuthenticatedForm<'a>, FormError> {
    match verified {
        [false, _] => Err(SignatureError::InvalidAccessKeyId.into()),
        [true, false] => Err(SignatureError::SignatureDoesNotMatch.into()),
        [true, true] => Ok(AuthenticatedForm { access_key: access_key.to_owned(), policy }),
    }
}
