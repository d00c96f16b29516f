//! `postgresql://USER:PASSWORD@HOST:PORT/DATABASE?log=NAME`, with the parameters of tokio-postgres.

use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::error::Error;
use crate::options::Options;
use crate::tls::{PostgresTls, connector};

const LONGEST_NAME: usize = 40;

/// Where a database is, and how it is reached.
pub(super) struct Place {
    pub(super) config: Config,
    pub(super) tls: PostgresTls,
    pub(super) timeout: Duration,
}

/// The place, and the name of the log: its tables begin with it.
pub(super) fn parse(url: &str, options: &Options) -> Result<(Place, String), Error> {
    let wrong = |what: &str| Error::Url(format!("{what} (postgresql://USER:PASSWORD@HOST:PORT/DATABASE?log=NAME)"));
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (own, passed): (Vec<_>, Vec<_>) =
        query.split('&').filter(|pair| !pair.is_empty()).partition(|pair| pair.starts_with("log="));
    let log = own.first().map_or("orcas", |pair| &pair["log=".len()..]);
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins = log.starts_with(|first: char| first.is_ascii_lowercase());
    if !begins || log.len() > LONGEST_NAME || !log.bytes().all(is_name) {
        return Err(wrong("the name of its log has other characters than a-z, 0-9 and _"));
    }
    let asks = passed.iter().any(|pair| pair.starts_with("sslmode="));
    // rustls always verifies.
    let passed = passed.iter().map(|pair| match *pair {
        "sslmode=verify-full" | "sslmode=verify-ca" => "sslmode=require",
        pair => pair,
    });
    let text = format!("{base}?{}", passed.collect::<Vec<_>>().join("&"));
    // The text of the error has nothing of the URL, in which there is a password.
    let mut config: Config = text.trim_end_matches('?').parse().map_err(|_| wrong("it is malformed"))?;
    if config.get_hosts().is_empty() {
        return Err(wrong("it names no host"));
    }
    if !asks {
        let is_near = config.get_hosts().iter().all(is_near);
        config.ssl_mode(if is_near { SslMode::Disable } else { SslMode::Require });
    }
    let tls = match config.get_ssl_mode() {
        SslMode::Require => Some(connector(&options.authorities)?),
        SslMode::Disable => None,
        _ => return Err(wrong("its sslmode is neither disable nor require")),
    };
    config
        .application_name("orcas")
        .connect_timeout(options.call_timeout)
        .tcp_user_timeout(options.call_timeout)
        .target_session_attrs(TargetSessionAttrs::ReadWrite);
    Ok((Place { config, tls: PostgresTls(tls), timeout: options.call_timeout }, log.to_owned()))
}

/// Whether nothing leaves the machine.
fn is_near(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        Host::Unix(_) => true,
    }
}
