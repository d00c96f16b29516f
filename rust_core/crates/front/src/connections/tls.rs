//! TLS of connections: the certificate in use, which may be replaced at any time, and handshakes, whose number is bounded.
//!
//! The first byte tells whether the client speaks TLS. Of too many handshakes the oldest ends, because one that is meant to
//! end does within milliseconds. Must not know HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::oneshot;

/// What a client sends first that speaks TLS, and no other does.
pub const HANDSHAKE: u8 = 0x16;
/// HTTP/2, as the two negotiate it.
pub const HTTP_2: &[u8] = b"h2";
const HANDSHAKES_MAX: usize = 1024;

#[derive(Default)]
pub struct Tls {
    config: RwLock<Option<Arc<ServerConfig>>>,
    handshakes: Mutex<Handshakes>,
}

#[derive(Default)]
struct Handshakes {
    /// By their order. To drop one ends it.
    under_way: BTreeMap<u64, oneshot::Sender<()>>,
    next: u64,
}

/// A handshake under way.
pub struct Handshake<'a> {
    tls: &'a Tls,
    number: u64,
    /// Resolves when this handshake has to end.
    pub ended: oneshot::Receiver<()>,
}

impl Tls {
    /// Connections speak TLS from now on, with this certificate and its key (PEM).
    ///
    /// # Errors
    /// Says why they cannot be used.
    pub fn use_certificate(&self, chain: &[u8], key: &[u8]) -> Result<(), String> {
        let unusable = |error: &dyn std::fmt::Display| error.to_string();
        let chain = CertificateDer::pem_slice_iter(chain).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| unusable(&error))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable(&error))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| unusable(&error))?;
        // A client that speaks both should use HTTP/1.1: those of S3 open a connection for each request at a time, and
        // connections are spread over threads where streams of one are not.
        config.alpn_protocols = vec![b"http/1.1".to_vec(), HTTP_2.to_vec()];
        *self.config.write() = Some(Arc::new(config));
        Ok(())
    }

    /// `None` if connections do not speak TLS.
    pub fn config(&self) -> Option<Arc<ServerConfig>> {
        self.config.read().clone()
    }

    pub fn begin(&self) -> Handshake<'_> {
        let mut handshakes = self.handshakes.lock();
        if handshakes.under_way.len() >= HANDSHAKES_MAX {
            handshakes.under_way.pop_first();
        }
        let (end, ended) = oneshot::channel();
        handshakes.next += 1;
        let number = handshakes.next;
        handshakes.under_way.insert(number, end);
        Handshake { tls: self, number, ended }
    }
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        self.tls.handshakes.lock().under_way.remove(&self.number);
    }
}
