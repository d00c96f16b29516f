//! What engine and checks share when they open a store: its secrets (`keys`), the rows of its index as records
//! (`stored`), the keys that open what is sealed in it (`content_keys`, `opening`, `sealing`), and two files beside the log:
//! that of a store that was closed (`closed`), and the one that only takes space (`ballast`). Must not know who opens the
//! store, or what for.
#![forbid(unsafe_code)]

pub mod ballast;
pub mod closed;
mod content_keys;
mod keys;
mod opening;
mod sealing;
mod stored;

pub use content_keys::{ContentKeys, KeyId};
pub use keys::{KEY_FILES, StoreKeys, fingerprint};
pub use opening::{algorithm_of, blob_key, bound, is_authentic, key_of_blob, open_headers};
pub use sealing::{RequestKey, Sealing};
pub use stored::{part_of, upload_of, version_of};
