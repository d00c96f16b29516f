//! TLS to a store, by rustls, with the authorities that the options name.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use crate::error::Error;

pub(crate) fn connector(authorities: &str) -> Result<TlsConnector, Error> {
    let mut roots = RootCertStore::empty();
    for found in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        let found = found.map_err(|error| Error::Unfit(format!("the certificates of authorities: {error}")))?;
        // Collections for a whole system have certificates that nobody can use.
        let _ = roots.add(found);
    }
    if roots.is_empty() {
        return Err(Error::Unfit("TLS needs the certificates of authorities, and there are none".to_owned()));
    }
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

pub(crate) fn server_name(host: &str) -> io::Result<ServerName<'static>> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned()).map_err(io::Error::other)
}

/// TLS as tokio-postgres wants it. Without a connector, the configuration says that TLS is not used.
#[derive(Clone)]
pub(crate) struct PostgresTls(pub(crate) Option<TlsConnector>);

pub(crate) struct PostgresHandshake(Option<TlsConnector>, ServerName<'static>);

pub(crate) struct PostgresStream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for PostgresTls {
    type Stream = PostgresStream<S>;
    type TlsConnect = PostgresHandshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<PostgresHandshake> {
        // A socket in a directory has no name, and no TLS.
        let domain = if self.0.is_none() { "localhost" } else { domain };
        Ok(PostgresHandshake(self.0.clone(), server_name(domain)?))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for PostgresHandshake {
    type Stream = PostgresStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<PostgresStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let connector = self.0.ok_or_else(|| io::Error::other("TLS is off"))?;
            connector.connect(self.1, stream).await.map(PostgresStream)
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for PostgresStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for PostgresStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for PostgresStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
