//! The front as a Python object: connections of clients, served by threads that never attach to the interpreter.

#![allow(unsafe_code, reason = "Python lends the listening socket as the number of a descriptor")]

use std::os::fd::BorrowedFd;
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use super::cluster::ClusterNode;
use super::core::Core;
use super::owned::Owned;
use orcas_front::{Certificate, FrontOptions, Limits, Owner, Proxies, TlsOptions, UnderWay};

/// What the front is told, as a dict.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    threads: usize,
    reserved: Vec<String>,
    of_node: Vec<String>,
    is_owner: bool,
    /// Of a node of a cluster that is not its owner.
    reads_here: bool,
    domains: Vec<String>,
    website_host: Option<String>,
    trusted_proxies: Vec<String>,
    own_names: Option<Vec<String>>,
    body_budget: u64,
    max_head_size: usize,
    head_timeout_sec: u32,
    body_timeout_sec: u32,
    idle_timeout_sec: u32,
}

impl TryFrom<Options> for FrontOptions {
    type Error = PyErr;

    fn try_from(options: Options) -> PyResult<Self> {
        let trusted_proxies = Proxies::parse(options.trusted_proxies.iter().map(String::as_str));
        Ok(Self {
            threads: options.threads,
            limits: Limits {
                head_size_max: options.max_head_size,
                head_sec: options.head_timeout_sec,
                body_sec: options.body_timeout_sec,
                idle_sec: options.idle_timeout_sec,
            },
            reserved: options.reserved,
            of_node: options.of_node,
            is_owner: options.is_owner,
            cluster: None,
            domains: options.domains,
            website_host: options.website_host,
            trusted_proxies: trusted_proxies.ok_or_else(|| PyValueError::new_err("a proxy is no network"))?,
            own_names: options.own_names,
            body_budget: options.body_budget,
        })
    }
}

/// Chains, keys and names.
type Certificates = Vec<(String, String, Vec<String>)>;

/// What connections speak TLS with, as a dict.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Tls {
    certificates: Certificates,
    client_ca: Option<String>,
}

impl From<Tls> for TlsOptions {
    fn from(tls: Tls) -> Self {
        Self { certificates: certificates_of(tls.certificates), client_ca: tls.client_ca }
    }
}

fn certificates_of(given: Certificates) -> Vec<Certificate> {
    given.into_iter().map(|(chain, key, names)| Certificate { chain, key, names }).collect()
}

#[pyclass(frozen, module = "orcas._core")]
pub struct Front {
    inner: Owned<orcas_front::Front>,
}

#[pymethods]
impl Front {
    /// Serves connections to sockets that listen already, until `stop`. The caller keeps them open until then. What
    /// is not S3 is passed on over sockets, an end of each of which is sent over `application`. With `tls`, connections
    /// speak TLS. `node`: that of a cluster.
    #[staticmethod]
    #[pyo3(signature = (core, listeners, application, options, tls = None, node = None))]
    #[expect(clippy::needless_pass_by_value, reason = "as Python passes it")]
    fn start(
        py: Python<'_>,
        core: PyRef<'_, Core>,
        listeners: Vec<i32>,
        application: i32,
        options: Options,
        tls: Option<Tls>,
        node: Option<PyRef<'_, ClusterNode>>,
    ) -> PyResult<Self> {
        if application < 0 || listeners.iter().any(|listener| *listener < 0) {
            return Err(PyValueError::new_err("a socket is closed"));
        }
        let reads_here = options.reads_here;
        let cluster = node.map(|node| node.cluster(reads_here));
        let options = FrontOptions { cluster, ..FrontOptions::try_from(options)? };
        let (gateway, tls) = (core.gateway(), tls.map(TlsOptions::from));
        let started = py.detach(|| {
            // SAFETY: the caller keeps the sockets open during this call, which duplicates their descriptors.
            let borrow = |number| unsafe { BorrowedFd::borrow_raw(number) };
            let listeners: Vec<_> = listeners.into_iter().map(borrow).collect();
            orcas_front::Front::start(gateway, &listeners, borrow(application), options, tls.as_ref())
        });
        Ok(Self { inner: Owned::new("listener", started.map_err(PyOSError::new_err)?) })
    }

    /// Accepts no more, and gives requests under way so many seconds to end. Returns what was cut off, as `under_way`.
    /// Blocks.
    fn stop(&self, py: Python<'_>, seconds: f64) -> PyResult<(usize, usize)> {
        let drain_timeout = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let front = self.inner.get()?;
        let cut = py.detach(|| front.stop(drain_timeout));
        Ok((cut.requests, cut.unread))
    }

    /// How many requests are under way, and how many answers their clients do not read.
    fn under_way(&self) -> PyResult<(usize, usize)> {
        let UnderWay { requests, unread } = self.inner.get()?.under_way();
        Ok((requests, unread))
    }

    /// Lets `stop` wait no longer.
    fn cut(&self) -> PyResult<()> {
        self.inner.get()?.cut();
        Ok(())
    }

    /// How many connections are open.
    fn connections(&self) -> PyResult<usize> {
        Ok(self.inner.get()?.connections())
    }

    /// How often connections were ended with an answer of their own, by error code.
    fn refusals(&self) -> PyResult<Vec<(&'static str, u64)>> {
        Ok(self.inner.get()?.refused().into_iter().collect())
    }

    /// The buckets for which the application fetches the objects that they lack.
    fn set_origins(&self, buckets: Vec<String>) -> PyResult<()> {
        self.inner.get()?.set_origins(buckets.into_iter().map(String::into_bytes).collect());
        Ok(())
    }

    /// New connections use these certificates. `ValueError` if they cannot be used; then those before stay.
    fn use_tls(&self, py: Python<'_>, tls: Tls) -> PyResult<()> {
        let front = self.inner.get()?;
        py.detach(|| front.use_tls(&tls.into())).map_err(PyValueError::new_err)
    }

    /// CAs that ask for challenges get these certificates, each for exactly its names, and no others. `ValueError` if they
    /// cannot be used; then those before stay.
    fn use_challenges(&self, py: Python<'_>, certificates: Certificates) -> PyResult<()> {
        let front = self.inner.get()?;
        py.detach(|| front.use_challenges(&certificates_of(certificates))).map_err(PyValueError::new_err)
    }

    /// `ValueError` if connections cannot use these certificates.
    #[staticmethod]
    fn check_tls(py: Python<'_>, tls: Tls) -> PyResult<()> {
        py.detach(|| orcas_front::check_tls(&tls.into())).map_err(PyValueError::new_err)
    }

    /// Whether the application answers everything from now on.
    fn hold(&self, held: bool) -> PyResult<()> {
        self.inner.get()?.hold(held);
        Ok(())
    }

    /// Requests are carried out here from now on, for so many seconds if they are given.
    #[pyo3(signature = (seconds = None))]
    fn be_owner(&self, seconds: Option<f64>) -> PyResult<()> {
        let front = self.inner.get()?;
        if let Some(seconds) = seconds {
            front.serve_for(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        }
        front.set_owner(Owner::Here).map_err(PyValueError::new_err)
    }

    /// Requests are passed on to the server at `url` from now on, or refused if it is none. `ValueError` if they cannot be
    /// passed on; then all stays as it was.
    #[pyo3(signature = (url, authorities = None))]
    fn set_owner(&self, py: Python<'_>, url: Option<String>, authorities: Option<String>) -> PyResult<()> {
        let (front, authorities) = (self.inner.get()?, authorities.unwrap_or_default());
        let owner = url.map_or(Owner::Nobody, |url| Owner::At { url, authorities });
        py.detach(|| front.set_owner(owner)).map_err(PyValueError::new_err)
    }

    /// How many requests were not for this node to carry out, by what came of them.
    fn passed(&self) -> PyResult<Vec<(&'static str, u64)>> {
        Ok(self.inner.get()?.passed().into())
    }
}
