//! Sockets of clients: accepted ones and their limits, TLS, what proxies say of clients, and refusals without a request.

pub(crate) mod conn;
pub(crate) mod connection;
pub(crate) mod http2;
pub(crate) mod io;
pub(crate) mod limits;
pub(crate) mod message;
pub(crate) mod proxies;
pub(crate) mod refusals;
pub(crate) mod tls;
