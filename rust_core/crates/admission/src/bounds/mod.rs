//! Bounds of the requests of one sender: wrong signatures, requests and bytes a second, and requests that come twice.

pub mod lockouts;
pub mod rates;
pub mod replays;
