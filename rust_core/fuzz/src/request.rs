//! Requests as text: `METHOD path?query`, then a `name: value` line for each header. What the seeds are written in.

use orcas_http::{Headers, RequestHead};

/// One request. Header names are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: Vec<u8>,
    pub path: Vec<u8>,
    pub query: Vec<u8>,
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Splits at the first `separator`, which belongs to neither side; all is the first side if there is none.
fn split(text: &[u8], separator: u8) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == separator) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, b""),
    }
}

impl Request {
    /// Reads any bytes. Values may hold anything but a line feed.
    pub fn parse(text: &[u8]) -> Self {
        let mut lines = text.split(|byte| *byte == b'\n');
        let (method, target) = split(lines.next().unwrap_or_default(), b' ');
        let (path, query) = split(target, b'?');
        let header = |line| {
            let (name, value) = split(line, b':');
            (name.to_ascii_lowercase(), value.strip_prefix(b" ").unwrap_or(value).to_vec())
        };
        Self {
            method: method.to_vec(),
            path: path.to_vec(),
            query: query.to_vec(),
            headers: lines.filter(|line| !line.is_empty()).map(header).collect(),
        }
    }

    /// The text of which `parse` makes this request.
    pub fn to_text(&self) -> Vec<u8> {
        let mut out = [&self.method, &b" "[..], &self.path].concat();
        if !self.query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(&self.query);
        }
        out.push(b'\n');
        for (name, value) in &self.headers {
            for piece in [name, &b": "[..], value, b"\n"] {
                out.extend_from_slice(piece);
            }
        }
        out
    }

    pub fn with_head<T>(&self, use_head: impl FnOnce(&RequestHead<'_>) -> T) -> T {
        let list: Vec<(&[u8], &[u8])> = self.headers.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        use_head(&RequestHead {
            method: &self.method,
            path: &self.path,
            query: &self.query,
            headers: Headers::new(&list),
        })
    }
}
