//! What is counted and logged of requests that are done.

pub mod access_log;
pub mod causes;
pub mod metering;
pub mod observation;
pub mod request_log;
pub mod stages;
pub mod traced;
