//! TLS of connections: the certificates in use, which may be replaced at any time, those of challenges and of clients, and
//! handshakes, whose number is bounded.
//!
//! The first byte tells whether the client speaks TLS. Of too many handshakes the oldest ends, because one that is meant to
//! end does within milliseconds. Must not know HTTP, or whom certificates of clients are about.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use tokio::sync::oneshot;

/// The first byte of a client that speaks TLS, and of no other.
pub const HANDSHAKE: u8 = 0x16;
/// HTTP/2, as the two negotiate it.
pub const HTTP_2: &[u8] = b"h2";
/// The protocol in which a CA asks whether the server has the challenge that it was given (TLS-ALPN-01, RFC 8737).
pub const CHALLENGE: &[u8] = b"acme-tls/1";
const HANDSHAKES_MAX: usize = 1024;

/// The certificates and CAs of connections with TLS.
pub struct TlsOptions {
    /// Clients that name no host, or one that none of these has, get the first.
    pub certificates: Vec<Certificate>,
    /// The CAs of clients (PEM). A client may show a certificate, which one of them must have signed.
    pub client_ca: Option<String>,
}

/// A certificate of the server and its key (PEM).
pub struct Certificate {
    pub chain: String,
    pub key: String,
    /// The host names of the certificate, in lower case. One that begins with `*.` stands for all names with one more
    /// label.
    pub names: Vec<String>,
}

#[derive(Default)]
pub struct Tls {
    config: RwLock<Option<Arc<ServerConfig>>>,
    /// The configuration for those who ask for a challenge, while there are any.
    challenges: RwLock<Option<Arc<ServerConfig>>>,
    handshakes: Mutex<Handshakes>,
}

#[derive(Default)]
struct Handshakes {
    /// Handshakes by their order. To drop one ends it.
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
    /// Connections speak TLS from now on, with these certificates.
    ///
    /// # Errors
    /// Says why they cannot be used.
    pub fn use_options(&self, options: &TlsOptions) -> Result<(), String> {
        let config = config_of(options).map_err(|error| error.to_string())?;
        *self.config.write() = Some(Arc::new(config));
        Ok(())
    }

    /// The configuration of TLS; `None` if connections do not speak it.
    pub fn config(&self) -> Option<Arc<ServerConfig>> {
        self.config.read().clone()
    }

    /// The certificates of challenges from now on, each for exactly its names. Without any, nobody gets one.
    ///
    /// # Errors
    /// Says why they cannot be used; then those before stay.
    pub fn use_challenges(&self, certificates: &[Certificate]) -> Result<(), String> {
        let config = match certificates {
            [] => None,
            _ => Some(Arc::new(config_of_challenges(certificates).map_err(|error| error.to_string())?)),
        };
        *self.challenges.write() = config;
        Ok(())
    }

    /// The configuration for a client with this greeting: that of challenges, if it speaks nothing else, and otherwise
    /// `ordinary`.
    pub fn choose(&self, hello: &ClientHello<'_>, ordinary: Arc<ServerConfig>) -> Arc<ServerConfig> {
        let mut protocols = hello.alpn().into_iter().flatten();
        if protocols.next() == Some(CHALLENGE) && protocols.next().is_none() {
            return self.challenges.read().clone().unwrap_or(ordinary);
        }
        ordinary
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

/// Whether connections could speak TLS with these.
///
/// # Errors
/// Says why not.
pub fn check_tls(options: &TlsOptions) -> Result<(), String> {
    config_of(options).map(drop).map_err(|error| error.to_string())
}

fn config_of(options: &TlsOptions) -> Result<ServerConfig, Box<dyn Error>> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let own = Certificates::new(&options.certificates, &provider)?;
    let builder = match &options.client_ca {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for ca in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                roots.add(ca?)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.allow_unauthenticated().build()?)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(own));
    // A client that speaks both should use HTTP/1.1: those of S3 open a connection for each request at a time, and
    // connections are spread over threads where streams of one are not.
    config.alpn_protocols = vec![b"http/1.1".to_vec(), HTTP_2.to_vec()];
    Ok(config)
}

fn config_of_challenges(certificates: &[Certificate]) -> Result<ServerConfig, Box<dyn Error>> {
    let provider = Arc::new(ring::default_provider());
    let mut by_name = HashMap::new();
    for Certificate { chain, key, names } in certificates {
        let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>()?;
        let key = provider.key_provider.load_private_key(PrivateKeyDer::from_pem_slice(key.as_bytes())?)?;
        // Not `from_der`, which refuses certificates with a critical extension that it does not know.
        let certified = Arc::new(CertifiedKey::new(chain, key));
        by_name.extend(names.iter().map(|name| (name.clone(), Arc::clone(&certified))));
    }
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::new(Challenges { by_name }));
    config.alpn_protocols = vec![CHALLENGE.to_vec()];
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// The certificates of challenges, by the names of hosts. Clients that ask for another get none.
#[derive(Debug)]
struct Challenges {
    by_name: HashMap<String, Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Challenges {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.by_name.get(hello.server_name()?).cloned()
    }
}

/// The certificates of the server, by the names of hosts.
#[derive(Debug)]
struct Certificates {
    default: Arc<CertifiedKey>,
    by_name: HashMap<String, Arc<CertifiedKey>>,
}

impl Certificates {
    fn new(options: &[Certificate], provider: &CryptoProvider) -> Result<Self, Box<dyn Error>> {
        let (mut default, mut by_name) = (None, HashMap::new());
        for Certificate { chain, key, names } in options {
            let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>()?;
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
            let certified = Arc::new(CertifiedKey::from_der(chain, key, provider)?);
            for name in names {
                by_name.entry(name.clone()).or_insert_with(|| Arc::clone(&certified));
            }
            default.get_or_insert(certified);
        }
        Ok(Self { default: default.ok_or("there is no certificate")?, by_name })
    }

    /// The certificate for a host, whose name is in lower case.
    fn find(&self, host: &str) -> Option<&Arc<CertifiedKey>> {
        self.by_name.get(host).or_else(|| self.by_name.get(&format!("*.{}", host.split_once('.')?.1)))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // rustls has put the name into lower case.
        let named = hello.server_name().and_then(|host| self.find(host));
        Some(Arc::clone(named.unwrap_or(&self.default)))
    }
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        self.tls.handshakes.lock().under_way.remove(&self.number);
    }
}
