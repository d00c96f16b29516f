//! Counts of requests that are done, kept for whoever asks.

pub mod causes;
pub mod metering;
pub mod observation;
pub mod traced;
