//! The keyring of a store on its disk: opened with the master key, changed durably, and the data keys that are in use.
//!
//! A change is written to two files, one after the other, before anybody uses it. What readers see is one immutable
//! state, so they never wait for a disk. Must not know requests, records or the engine.
#![forbid(unsafe_code)]

#[cfg(test)]
mod control_tests;
mod copies;
mod environment;
mod error;
mod info;
mod keyring;
mod state;
#[cfg(test)]
mod tests;
mod times;
mod unsealing;

pub use copies::{NAMES, Presence, check_formats, inspect, presence, store_of};
pub use environment::{Environment, Now};
pub use error::{ChangeError, KeyError, Older, OpenError};
pub use info::KeyInfo;
pub use keyring::Keyring;
pub use times::KeyTimes;
