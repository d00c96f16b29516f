//! The origin of a request: the client, and whether nobody reads along on its way.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;

use crate::connections::proxies::Proxies;

#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The address of the client. Its port is 0 if a proxy has passed the request on, which does not say it.
    pub client: SocketAddr,
    pub is_tls: bool,
}

impl Origin {
    /// The origin that a trusted proxy names in these headers, if this is a trusted proxy; otherwise this one.
    #[must_use]
    pub fn said_by(self, proxies: &Proxies, headers: &HeaderMap) -> Self {
        let own = self.client.ip();
        if !proxies.trusts(own) {
            return self;
        }
        let (client, is_tls) = proxies.origin(own, headers);
        let client = if client == own { self.client } else { SocketAddr::new(client, 0) };
        Self { client, is_tls: is_tls.unwrap_or(self.is_tls) }
    }

    pub fn ip(&self) -> IpAddr {
        self.client.ip()
    }

    /// How the client writes the address of the server.
    pub fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }
}

/// For the log.
impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.client.port() {
            0 => self.client.ip().fmt(formatter),
            _ => self.client.fmt(formatter),
        }
    }
}
