//! What the server itself knows of a request: where it comes from, over what, and when. The front end says it when the
//! head has arrived, from the connection and its own configuration; nothing in the request can change it.

use std::net::IpAddr;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

#[derive(Clone, Copy, Debug)]
pub struct Ingress {
    /// The address of the client, if it has one.
    pub client: Option<IpAddr>,
    pub is_tls: bool,
    /// Bytes of the path below which the server is mounted. They are signed like the rest of the path, and name neither
    /// bucket nor key.
    pub mount_length: usize,
    /// When the head had arrived, for durations.
    pub began: Instant,
    /// The time in milliseconds since 1970.
    pub time_ms: i64,
}

impl Ingress {
    /// The ingress of a request whose head has arrived now. A `client` that is no address counts as unknown.
    pub fn now(client: &str, is_tls: bool, mount_length: usize) -> Self {
        Self { client: client.parse().ok(), is_tls, mount_length, began: Instant::now(), time_ms: now_ms() }
    }

    /// How the client writes the address of the server.
    pub fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// Whether nobody but client and server sees what is sent: the connection is encrypted or does not leave the machine.
    pub fn keeps_secrets(&self) -> bool {
        self.is_tls || self.client.is_some_and(|client| client.is_loopback())
    }
}

/// Milliseconds since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "where requests get their time")]
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_keeps_secrets_by_tls_or_on_one_machine() {
        for (client, is_tls, expected) in [
            ("127.0.0.1", false, true),
            ("::1", false, true),
            ("192.0.2.1", false, false),
            ("192.0.2.1", true, true),
            ("", false, false),
            ("testclient", false, false),
        ] {
            assert_eq!(Ingress::now(client, is_tls, 0).keeps_secrets(), expected, "{client} {is_tls}");
        }
    }
}
