//! How requests ask for encryption, and how answers tell of it: with keys of the server (SSE-S3), with a named key
//! (SSE-KMS), or with a key of the customer (SSE-C). And the default of a bucket. Must not know the keys of the server.

mod asked;
mod customer;
mod default;
mod names;

pub use asked::{Asked, Method, needs_version_four, show_named};
pub use customer::{CustomerKey, OF_A_SOURCE, OF_CUSTOMERS, ShownKey};
pub use default::{BucketDefault, Customers, DefaultKind, of_the_store};
pub use names::{AES256, BUCKET_KEY, CONTEXT, ENCRYPTION, KEY_ID};
