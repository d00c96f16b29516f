//! Content that the store has already: pins on fingerprints (`pins`), the filter of known heads (`heads`, `filter`),
//! the lookup itself (`lookup`), and objects of which an instant upload can be made (`instant`).

mod filter;
mod heads;
mod instant;
mod lookup;
mod pins;

pub use heads::HeadFilter;
pub use instant::instant_source;
pub use lookup::{fill_head_filter, pin_known, published_blob};
pub use pins::FingerprintPins;
