//! Bodies on their way between a request and the engine.

pub mod budget;
pub mod completions;
pub mod pool;
pub mod stream;
