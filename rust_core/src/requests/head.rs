//! The head of a request as bytes, from its ASGI scope.

use std::net::{IpAddr, SocketAddr};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use orcas_gateway::Ingress;
use orcas_http::{Headers, RequestHead};

pub type HeaderObjects<'py> = Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>;

/// What a scope says of a head. `head` borrows its bytes.
pub struct ScopeHead<'py> {
    method: Bound<'py, PyString>,
    path: Bound<'py, PyBytes>,
    query: Bound<'py, PyBytes>,
    headers: HeaderObjects<'py>,
}

impl<'py> ScopeHead<'py> {
    pub fn of(scope: &Bound<'py, PyDict>) -> PyResult<Self> {
        let py = scope.py();
        Ok(Self {
            method: field(scope, intern!(py, "method"))?.cast_into()?,
            path: field(scope, intern!(py, "raw_path"))?.cast_into()?,
            query: field(scope, intern!(py, "query_string"))?.cast_into()?,
            headers: header_objects(field(scope, intern!(py, "headers"))?.cast::<PyList>()?)?,
        })
    }

    /// The bytes of the header list, for `head`.
    pub fn pairs(&self) -> Vec<(&[u8], &[u8])> {
        byte_pairs(&self.headers)
    }

    pub fn head<'a>(&'a self, pairs: &'a [(&'a [u8], &'a [u8])]) -> PyResult<RequestHead<'a>> {
        let (method, headers) = (self.method.to_str()?.as_bytes(), Headers::new(pairs));
        Ok(RequestHead { method, path: self.path.as_bytes(), query: self.query.as_bytes(), headers })
    }
}

/// What the connection of a scope says: to be asked when the head has arrived.
pub fn ingress(scope: &Bound<'_, PyDict>, mount_length: usize) -> PyResult<Ingress> {
    let scheme = field(scope, intern!(scope.py(), "scheme"))?;
    let is_tls = scheme.cast::<PyString>().is_ok_and(|scheme| scheme == "https");
    let client = client(scope)?;
    let client = client.as_ref().map_or(Ok(""), |client| client.to_str())?;
    Ok(Ingress::now(client, is_tls, mount_length))
}

/// The address of the client, if a scope has one.
pub fn client<'py>(scope: &Bound<'py, PyDict>) -> PyResult<Option<Bound<'py, PyString>>> {
    let client = field(scope, intern!(scope.py(), "client"))?;
    // A host and a port, which servers give as a tuple, or None.
    let host = match client.cast::<PyTuple>() {
        Ok(pair) => pair.get_item(0),
        Err(_) if client.is_none() => return Ok(None),
        Err(_) => client.get_item(0),
    };
    Ok(host.ok().and_then(|host| host.cast_into().ok()))
}

/// Address and port of the client, if a scope has one. The port 0 stands for one that is not known.
pub fn address(scope: &Bound<'_, PyDict>) -> PyResult<Option<String>> {
    let Some(host) = client(scope)? else { return Ok(None) };
    let host = host.to_string_lossy().into_owned();
    let port = field(scope, intern!(scope.py(), "client"))?.get_item(1).and_then(|port| port.extract()).unwrap_or(0);
    Ok(Some(match (host.parse::<IpAddr>(), port) {
        (_, 0) => host,
        (Ok(ip), port) => SocketAddr::new(ip, port).to_string(),
        (Err(_), port) => format!("{host}:{port}"),
    }))
}

/// A field of a scope; None if it is left out.
pub fn field<'py>(scope: &Bound<'py, PyDict>, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    let py = scope.py();
    scope.get_item(name).map(|found| found.unwrap_or_else(|| py.None().into_bound(py)))
}

/// An ASGI header list.
pub fn header_objects<'py>(headers: &Bound<'py, PyList>) -> PyResult<HeaderObjects<'py>> {
    // `collect` does not know how many there are, because one may be wrong.
    let mut objects = Vec::with_capacity(headers.len());
    for pair in headers {
        objects.push(header(&pair)?);
    }
    Ok(objects)
}

/// The bytes of it. White space around a value does not belong to it (RFC 9110, section 5.5), but llhttp leaves it behind.
pub fn byte_pairs<'a>(objects: &'a HeaderObjects<'_>) -> Vec<(&'a [u8], &'a [u8])> {
    objects.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes().trim_ascii())).collect()
}

/// One pair of it.
fn header<'py>(pair: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    // Servers give tuples, whose items are at hand; ASGI allows any iterable.
    match pair.cast::<PyTuple>() {
        Ok(pair) => Ok((pair.get_item(0)?.cast_into::<PyBytes>()?, pair.get_item(1)?.cast_into::<PyBytes>()?)),
        Err(_) => Ok((pair.get_item(0)?.cast_into::<PyBytes>()?, pair.get_item(1)?.cast_into::<PyBytes>()?)),
    }
}
