//! Content that the store has already: pins on fingerprints (`pins`), the filter of known prefix hashes
//! (`prefix_hashes`, `filter`), the lookup itself (`lookup`), and objects of which an instant upload can be made
//! (`instant`).

mod filter;
mod instant;
mod lookup;
mod pins;
mod prefix_hashes;

pub use instant::instant_source;
pub use lookup::{fill_prefix_hash_filter, pin_known, published_blob};
pub use pins::FingerprintPins;
pub use prefix_hashes::PrefixHashFilter;
