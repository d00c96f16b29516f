//! Content that the store has already: pins on fingerprints (`pins`), the filter of known heads (`heads`), the memory
//! for chunks that wait to be looked up (`held`), and the lookup itself (`lookup`).

mod heads;
mod held;
mod lookup;
mod pins;

pub(super) use heads::HeadFilter;
pub(super) use held::{HeldBytes, HeldMemory};
pub(super) use lookup::fill_head_filter;
pub(super) use pins::FingerprintPins;
