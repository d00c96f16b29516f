//! What finds content that is stored already: where content is cut into chunks, and which beginnings may be known.
//! Pure. It knows neither where chunks are kept nor who asks.
#![forbid(unsafe_code)]

pub mod chunker;
pub mod filter;
