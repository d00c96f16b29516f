//! Whether a request's content is encrypted and with which key, whether a request may read encrypted content, and how
//! an answer says so. Must not know how keys are kept.

use orcas_admission::access_control::AccessControl;
use orcas_admission::documents::document;
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::{Problem, wrong_customer_key};
use orcas_catalog::PinnedObject;
use orcas_engine::{Handle, key_arn};
use orcas_record::{BucketId, DocumentKind, Encryption, NamedKey, Version};
use orcas_requests::services::Services;
use orcas_responses::response::HeaderBlock;
use orcas_s3::encryption::{
    AES256, Asked, BucketDefault, CustomerKey, Customers, DefaultKind, ENCRYPTION, Method, ShownKey,
    needs_version_four, of_the_store, show_named,
};
use orcas_s3::{ErrorCode, S3Error};
use orcas_store::{RequestKey, Sealing};
use std::sync::Arc;

/// The key that a customer sent, and what answers say of it.
#[derive(Clone)]
pub struct SentKey {
    pub key: RequestKey,
    shown: ShownKey,
}

impl SentKey {
    /// If the connection keeps it secret.
    fn of(context: &RequestContext<'_>, key: CustomerKey) -> Result<Self, Problem> {
        if !context.ingress.keeps_secrets() {
            let message = "Requests specifying Server Side Encryption with Customer provided keys must be made over a \
                           secure connection.";
            return Err(S3Error::with(ErrorCode::InvalidRequest, message).into());
        }
        check_can_encrypt(&context.access.engine)?;
        Ok(Self { key: context.access.engine.keys().request_key(key.expose())?, shown: key.shown() })
    }

    /// Of what it opens.
    pub fn sealing(&self) -> Sealing {
        Sealing { encryption: None, key: Some(self.key.clone()) }
    }
}

/// How what a request stores is encrypted.
#[derive(Clone, Default)]
pub struct Chosen {
    pub encryption: Option<Encryption>,
    pub key: Option<SentKey>,
    /// The request says so itself.
    pub asked: bool,
}

impl Chosen {
    pub fn sealing(&self) -> Sealing {
        let key = self.key.as_ref().map(|sent| sent.key.clone());
        Sealing { encryption: self.encryption.clone(), key }
    }
}

/// The encryption of what the request stores in the bucket: what its headers ask for, else the default of the bucket,
/// else that of the store.
///
/// # Errors
/// `NotImplemented` if it is to be encrypted and there is no keyring, `AccessDenied` if the bucket blocks it, and those of headers and keys.
pub fn chosen_encryption(context: &RequestContext<'_>, bucket: BucketId) -> Result<Chosen, Problem> {
    encryption_or(context, default_encryption(context.access, bucket)?)
}

/// The encryption that the headers ask for. Errors as of `chosen_encryption`.
pub fn asked_encryption(context: &RequestContext<'_>) -> Result<Chosen, Problem> {
    encryption_or(context, None)
}

fn encryption_or(context: &RequestContext<'_>, default: Option<BucketDefault>) -> Result<Chosen, Problem> {
    let sent = Asked::parse(context.headers())?;
    let asked = sent.method.is_some();
    if let (Some(Method::Customer(_)), Some(BucketDefault { customers: Customers::Blocked, .. })) =
        (&sent.method, &default)
    {
        let message = "The bucket blocks Server Side Encryption with Customer provided keys.";
        return Err(S3Error::with(ErrorCode::AccessDenied, message).into());
    }
    let (method, bucket_key) = match (sent.method, default) {
        (Some(method), _) => (method, sent.bucket_key.unwrap_or(false)),
        (None, None) => return Ok(Chosen::default()),
        (None, Some(BucketDefault { kind, bucket_key, .. })) => {
            let method = match kind {
                DefaultKind::Managed => Method::Managed,
                DefaultKind::Named(key) => Method::Named { key, context: Vec::new() },
            };
            (method, sent.bucket_key.unwrap_or(bucket_key))
        }
    };
    check_can_encrypt(&context.access.engine)?;
    let (encryption, key) = match method {
        Method::Managed => (Encryption::Managed, None),
        Method::Named { key, context: of_key } => {
            check_version_four(context)?;
            let id = context.access.engine.keys().named_key(key.as_deref())?;
            let named = NamedKey { id, context: of_key.into(), bucket_key };
            (Encryption::Named(Arc::new(named)), None)
        }
        Method::Customer(key) => {
            let sent = SentKey::of(context, key)?;
            (context.access.engine.keys().encryption_with(&sent.key)?, Some(sent))
        }
    };
    Ok(Chosen { encryption: Some(encryption), key, asked })
}

/// The key that the request sends for an object that exists, or for a part.
pub fn sent_key(context: &RequestContext<'_>) -> Result<Option<SentKey>, Problem> {
    CustomerKey::parse(context.headers())?.map(|key| SentKey::of(context, key)).transpose()
}

/// The key that the request sends for the source of a copy.
pub fn sent_source_key(context: &RequestContext<'_>) -> Result<Option<SentKey>, Problem> {
    CustomerKey::of_source(context.headers())?.map(|key| SentKey::of(context, key)).transpose()
}

fn check_version_four(context: &RequestContext<'_>) -> Result<(), S3Error> {
    if context.is_sigv4() { Ok(()) } else { Err(needs_version_four()) }
}

fn default_encryption(access: &AccessControl, bucket: BucketId) -> Result<Option<BucketDefault>, Problem> {
    let of_the_store = || access.options.encrypt_by_default.then(of_the_store);
    if !access.engine.has_default_encryption() {
        return Ok(of_the_store());
    }
    if !has_own_encryption(&access.engine, bucket) {
        return Ok(of_the_store());
    }
    let unreadable = || Problem::internal("the default encryption of a bucket cannot be read");
    let default = document::<BucketDefault>(&access.engine, bucket).ok_or_else(unreadable)?;
    Ok(Some(BucketDefault::clone(&default)))
}

/// Whether default encryption was put to the bucket, whatever it says.
pub fn has_own_encryption(engine: &Handle, bucket: BucketId) -> bool {
    engine.document(bucket, DocumentKind::Encryption).is_some_and(|document| !document.bytes.is_empty())
}

/// # Errors
/// `NotImplemented`, which says what to configure.
pub fn check_can_encrypt(engine: &Handle) -> Result<(), S3Error> {
    if engine.keys().can_seal() {
        return Ok(());
    }
    let message = "Server-side encryption and default encryption need a master key: start the server with \
                   ORCAS_MASTER_KEY or ORCAS_MASTER_PASSPHRASE.";
    Err(S3Error::with(ErrorCode::NotImplemented, message))
}

/// Refuses to tell of a version, or to read it, without the key or the signature that it demands.
pub fn check_readable(
    engine: &Handle,
    version: &Version,
    key: Option<&SentKey>,
    is_sigv4: bool,
) -> Result<(), Problem> {
    match (&version.attributes.encryption, key) {
        (Some(Encryption::Customer(_)), None) => {
            let message = "The object was stored using a form of Server Side Encryption. The correct parameters must \
                           be provided to retrieve the object.";
            Err(S3Error::with(ErrorCode::InvalidRequest, message).into())
        }
        (Some(Encryption::Customer(check)), Some(sent)) => match engine.keys().is_key_of(&sent.key, check)? {
            true => Ok(()),
            false => Err(wrong_customer_key().into()),
        },
        (_, Some(_)) => {
            let message = "The encryption parameters are not applicable to this object.";
            Err(S3Error::with(ErrorCode::InvalidRequest, message).into())
        }
        (Some(Encryption::Named(_)), None) if !is_sigv4 => Err(needs_version_four().into()),
        (_, None) => Ok(()),
    }
}

/// The lines that say how a stored object is encrypted.
pub fn show_stored(
    services: &Services,
    encryption: Option<&Encryption>,
    key: Option<&SentKey>,
    headers: &mut HeaderBlock,
) {
    show_encryption(services, encryption, (key, true), headers);
}

/// Adds the headers about encryption for an object that is read.
pub fn show_encryption_of(services: &Services, version: &Version, key: Option<&SentKey>, headers: &mut HeaderBlock) {
    show_encryption(services, version.attributes.encryption.as_ref(), (key, false), headers);
}

fn show_encryption(
    services: &Services,
    encryption: Option<&Encryption>,
    (key, with_context): (Option<&SentKey>, bool),
    headers: &mut HeaderBlock,
) {
    match encryption {
        None => {}
        Some(Encryption::Managed) => headers.push(ENCRYPTION, AES256.as_bytes()),
        Some(Encryption::Named(named)) => {
            let arn = key_arn(named.id, &services.access.options.region);
            let context = with_context.then_some(&named.context[..]);
            show_named(headers, &arn, context, named.bucket_key);
        }
        Some(Encryption::Customer(_)) => {
            if let Some(sent) = key {
                sent.shown.show(headers);
            }
        }
    }
}

/// What was found, to be opened with the key that was sent.
pub fn opened(found: PinnedObject, key: Option<&SentKey>) -> PinnedObject {
    match key {
        None => found,
        Some(sent) => found.with_key(Some(sent.key.clone())),
    }
}
