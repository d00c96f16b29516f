//! The server in numbers: counts of requests, the table of all metrics, and the page that shows them. Must not know who
//! asks for it.

pub mod documents;
mod events;
pub mod families;
pub mod page;
pub mod process;
pub mod requests;
pub mod tasks;
pub mod values;
