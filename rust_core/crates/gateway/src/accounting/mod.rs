//! What is counted of requests that are done, and kept for whoever asks.

pub mod causes;
pub mod metering;
pub mod observation;
pub mod traced;
