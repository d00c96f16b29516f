//! Headers of trusted proxies about a request: the client that sent it to them, and whether it used TLS.
//!
//! A header counts only if a trusted proxy sent the request, and of its list only what the trusted proxies at its end have
//! added: everything before may be the client's own invention. Must not know connections.

use std::net::IpAddr;

use http::HeaderMap;

/// The proxies that are trusted, as networks: addresses and the lengths of their prefixes.
#[derive(Clone, Debug, Default)]
pub struct Proxies(Vec<(IpAddr, u32)>);

impl Proxies {
    /// The proxies in networks that are written like `10.0.0.0/8`. `None` if a text is no network.
    pub fn parse<'a>(networks: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let parsed = networks.into_iter().map(|text| {
            let (address, length) = text.split_once('/').unzip();
            let address: IpAddr = address.unwrap_or(text).parse().ok()?;
            let bits = if address.is_ipv4() { 32 } else { 128 };
            let length = length.map_or(Some(bits), |length| length.parse().ok())?;
            (length <= bits).then_some((address, length))
        });
        parsed.collect::<Option<_>>().map(Self)
    }

    pub fn trusts(&self, host: IpAddr) -> bool {
        let host = host.to_canonical();
        self.0.iter().any(|(network, length)| match (host, network) {
            (IpAddr::V4(host), IpAddr::V4(network)) => {
                same(host.to_bits().into(), network.to_bits().into(), *length, 32)
            }
            (IpAddr::V6(host), IpAddr::V6(network)) => same(host.to_bits(), network.to_bits(), *length, 128),
            _ => false,
        })
    }

    /// The client of a request that the trusted proxy `host` has passed on, and whether it used TLS, if the proxy says it.
    pub fn origin(&self, host: IpAddr, headers: &HeaderMap) -> (IpAddr, Option<bool>) {
        let mut scheme = elements(headers, "x-forwarded-proto").pop().unwrap_or_default().to_ascii_lowercase();
        let mut nodes = elements(headers, "x-forwarded-for");
        if nodes.is_empty() {
            let said = elements(headers, "forwarded");
            nodes = said.iter().map(|element| parameter(element, "for").unwrap_or_default()).collect();
            if let Some(last) = said.last().filter(|_| scheme.is_empty()) {
                scheme = parameter(last, "proto").unwrap_or_default().to_ascii_lowercase();
            }
        }
        let is_tls = match &*scheme {
            "https" => Some(true),
            "http" => Some(false),
            _ => None,
        };
        (self.client(host, &nodes), is_tls)
    }

    /// The last address of the list that is not a trusted proxy's, else the first one that proxies have said.
    fn client(&self, host: IpAddr, nodes: &[String]) -> IpAddr {
        let mut client = host;
        for node in nodes.iter().rev() {
            let Some(address) = address_of(node) else { break };
            client = address;
            if !self.trusts(client) {
                break;
            }
        }
        client
    }
}

fn same(host: u128, network: u128, length: u32, bits: u32) -> bool {
    let shift = bits - length;
    shift >= 128 || host >> shift == network >> shift
}

/// The elements of a list that may be spread over several headers.
fn elements(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).iter();
    let text = values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect::<Vec<_>>().join(",");
    if text.is_empty() { Vec::new() } else { text.split(',').map(|element| element.trim().to_owned()).collect() }
}

/// A parameter of an element of `Forwarded` (RFC 7239).
fn parameter(element: &str, wanted: &str) -> Option<String> {
    let mut found = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, value) = found.rfind(|(name, _)| name.trim().eq_ignore_ascii_case(wanted))?;
    let value = value.trim();
    Some(value.strip_prefix('"').and_then(|rest| rest.split('"').next()).unwrap_or(value).to_owned())
}

/// The address of a node: IPv6 may be in brackets, and a port may follow brackets or an IPv4 address.
fn address_of(node: &str) -> Option<IpAddr> {
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let bare = match node.strip_prefix('[') {
        Some(rest) => {
            let (address, after) = rest.split_once(']')?;
            (after.is_empty() || after.strip_prefix(':').is_some_and(is_port)).then_some(address)?
        }
        None => match node.split_once(':') {
            Some((address, port)) if !port.contains(':') => is_port(port).then_some(address)?,
            _ => node,
        },
    };
    bare.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(headers: &[(&'static str, &str)]) -> (String, Option<bool>) {
        let proxies = Proxies::parse(["10.0.0.0/8", "fd00::/8", "127.0.0.1"]).unwrap();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let (client, is_tls) = proxies.origin("10.0.0.1".parse().unwrap(), &map);
        (client.to_string(), is_tls)
    }

    #[test]
    fn only_what_trusted_proxies_have_added_counts() {
        for (headers, client, is_tls) in [
            (&[][..], "10.0.0.1", None),
            (&[("x-forwarded-for", "1.2.3.4, 5.6.7.8")], "5.6.7.8", None),
            (&[("x-forwarded-for", "5.6.7.8, 10.1.1.1")], "5.6.7.8", None),
            (&[("x-forwarded-for", "10.1.1.2, 10.1.1.1")], "10.1.1.2", None),
            (&[("x-forwarded-for", "5.6.7.8"), ("x-forwarded-for", "10.1.1.1:80")], "5.6.7.8", None),
            (&[("x-forwarded-for", "nonsense")], "10.0.0.1", None),
            (&[("x-forwarded-for", "[2001:db8::1]:80"), ("x-forwarded-proto", "HTTPS")], "2001:db8::1", Some(true)),
            (&[("x-forwarded-for", "::ffff:5.6.7.8"), ("x-forwarded-proto", "ftp")], "5.6.7.8", None),
            (&[("forwarded", "for=1.1.1.1, For=\"[2001:db8::2]:1\";proto=http")], "2001:db8::2", Some(false)),
        ] {
            assert_eq!(origin(headers), (client.to_owned(), is_tls), "{headers:?}");
        }
    }

    #[test]
    fn networks_are_compared_by_their_prefixes() {
        let proxies = Proxies::parse(["10.0.0.0/8", "fd00::/8", "0.0.0.0/0"]).unwrap();
        assert!(proxies.trusts("::ffff:1.2.3.4".parse().unwrap()));
        assert!(proxies.trusts("fdff::1".parse().unwrap()));
        assert!(!proxies.trusts("fe80::1".parse().unwrap()));
        assert!(!Proxies::default().trusts("10.0.0.1".parse().unwrap()));
        assert!(Proxies::parse(["10.0.0.0/33"]).is_none());
    }
}
