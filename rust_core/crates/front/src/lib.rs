//! Connections of clients: HTTP around the gateway, on threads of their own.
//!
//! Each thread has an event loop (tokio) and accepts from one shared socket. A request of S3 goes from hyper's head to the
//! gateway and back; what needs Python goes over a private socket to the application. No thread attaches to an interpreter.
//! Must not know Python, or operations of S3 by their names.
#![forbid(unsafe_code)]

mod answer;
mod connections;
mod context;
mod elsewhere;
mod exchange;
mod front;
mod head;
mod life;
mod origin;
mod receiving;
mod route;
#[cfg(test)]
mod tests;
mod waits;
mod worker;

pub use connections::conn::UnderWay;
pub use connections::limits::{FrontOptions, Limits};
pub use connections::proxies::Proxies;
pub use connections::tls::{Certificate, TlsOptions, check_tls};
pub use elsewhere::owner::Owner;
pub use elsewhere::reads::{Cluster, Index, Reads, Shown, Wanted};
pub use front::Front;
