//! Bodies on their way between a request and the engine.

pub mod budget;
pub mod completions;
pub mod download;
pub mod intake;
pub mod pool;
pub mod problem;
pub mod stream;
