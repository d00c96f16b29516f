//! The HTTP client of a load: requests as bytes, connections that never block, and responses as they arrive, each byte
//! compared with what was expected. Operations are unknown here.

mod connection;
pub(crate) mod page;
mod poller;
mod requests;
mod response;

pub(crate) use connection::{BodyReceiver, Connection, ConnectionError, PIECE, Response};
pub(crate) use poller::Poller;
pub(crate) use requests::{Kind, RequestParts, Requests, UNSIGNED_PAYLOAD, key_of, number_of};
