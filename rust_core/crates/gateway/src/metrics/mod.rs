//! The server in numbers: requests as they are counted, every metric there is, and the page of them. Must not know who
//! asks for it.

pub mod around;
pub mod documents;
mod events;
pub mod families;
pub mod page;
pub mod requests;
pub mod tasks;
pub mod usage;
pub mod values;
