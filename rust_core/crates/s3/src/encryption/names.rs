//! The names of headers about encryption, and the values that say which one.

/// The header that asks for encryption, and that says of an object how it is encrypted.
pub const ENCRYPTION: &str = "x-amz-server-side-encryption";
/// The value for keys of the server.
pub const AES256: &str = "AES256";
/// The value for a named key.
pub const KMS: &str = "aws:kms";
/// The value for two layers of encryption with a named key.
pub const KMS_DOUBLE: &str = "aws:kms:dsse";
pub const KEY_ID: &str = "x-amz-server-side-encryption-aws-kms-key-id";
pub const CONTEXT: &str = "x-amz-server-side-encryption-context";
pub const BUCKET_KEY: &str = "x-amz-server-side-encryption-bucket-key-enabled";
