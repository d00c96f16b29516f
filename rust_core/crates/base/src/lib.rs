//! What the parts of the store share: errors, locks that a scheduler can drive, blocks and their checksums, and memory
//! that is used again. It knows none of them. `planted` has the deliberate defects of the suites.

pub mod block;
pub mod buffers;
pub mod error;
pub mod planted;
pub mod sync;
