//! `s3://BUCKET/PREFIX?endpoint=http://HOST:PORT&region=REGION`.

use orcas_http::{Query, lossy_text};

use crate::error::Error;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) tls: bool,
    /// Host and port as a request names them.
    pub(super) host: String,
    pub(super) region: String,
    pub(super) bucket: String,
    /// Empty, or with a slash at its end.
    pub(super) prefix: String,
}

pub(super) fn parse(url: &str) -> Result<Place, Error> {
    let wrong = |what: &str| Error::Url(format!("{what} (s3://BUCKET/PREFIX?endpoint=URL&region=REGION)"));
    let rest = url.strip_prefix("s3://").ok_or_else(|| wrong("it does not begin with s3://"))?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
    if bucket.is_empty() || !bucket.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)) {
        return Err(wrong("it names no bucket"));
    }
    let query = Query::parse(query.as_bytes()).ok_or_else(|| wrong("its query is malformed"))?;
    if let Some((name, _)) = query.iter().find(|(name, _)| !matches!(*name, b"endpoint" | b"region")) {
        return Err(wrong(&format!("it has the unknown parameter {}", lossy_text(name))));
    }
    let text = |name| query.get(name).map(|value| lossy_text(value).into_owned());
    let region = text("region").unwrap_or_else(|| "us-east-1".to_owned());
    let endpoint = text("endpoint").unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
    let (tls, host) = match (endpoint.strip_prefix("https://"), endpoint.strip_prefix("http://")) {
        (Some(host), _) => (true, host),
        (_, Some(host)) => (false, host),
        _ => return Err(wrong("its endpoint begins neither with http:// nor with https://")),
    };
    let host = host.trim_end_matches('/').to_owned();
    if host.is_empty() || host.contains(['/', '@', '?']) {
        return Err(wrong("its endpoint is not a host with a port"));
    }
    let prefix = prefix.trim_matches('/');
    let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    Ok(Place { tls, host, region, bucket: bucket.to_owned(), prefix })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let place = parse("s3://logs/team/a/?endpoint=http://127.0.0.1:9000/&region=eu-1").unwrap();
        let expected = Place {
            tls: false,
            host: "127.0.0.1:9000".to_owned(),
            region: "eu-1".to_owned(),
            bucket: "logs".to_owned(),
            prefix: "team/a/".to_owned(),
        };
        assert_eq!(place, expected);
        let place = parse("s3://logs?region=eu-2").unwrap();
        assert_eq!((place.tls, place.host.as_str(), place.prefix.as_str()), (true, "s3.eu-2.amazonaws.com", ""));
    }

    #[test]
    fn wrong_urls_are_refused() {
        for url in [
            "http://logs",
            "s3://",
            "s3:///prefix",
            "s3://lo gs",
            "s3://logs?endpoint=127.0.0.1:9000",
            "s3://logs?endpoint=http://a/b",
            "s3://logs?endpoint=http://user@a",
            "s3://logs?colour=red",
            "s3://logs?region=%zz",
        ] {
            assert!(matches!(parse(url), Err(Error::Url(_))), "{url}");
        }
    }
}
