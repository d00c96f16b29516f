//! A load on a server, and its results as dicts.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use orcas_load::{self as load, Histogram, LoadError, Operation, Phase, Sizes, Tally};

/// The server, the bucket, and the key that signs.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Target {
    address: String,
    port: u16,
    host: String,
    bucket: String,
    region: String,
    access_key: String,
    secret_key: String,
    session_token: Option<String>,
    timeout_sec: f64,
}

/// The operations of a load.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Workload {
    connections: usize,
    threads: usize,
    mix: Vec<(String, u32)>,
    /// Bytes and weights; or, for a range, its bounds.
    sizes: Vec<(u64, u32)>,
    size_range: Option<(u64, u64)>,
    keys: u32,
    overwrite: bool,
    identical: bool,
    signed_payload: bool,
    verify: bool,
    list_page: u16,
    parts: u16,
    part_size: u64,
    seed: u64,
}

fn wrong(what: &str) -> PyErr {
    PyValueError::new_err(what.to_owned())
}

fn failed(error: LoadError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

impl TryFrom<Target> for load::Target {
    type Error = PyErr;

    fn try_from(target: Target) -> PyResult<Self> {
        let address: IpAddr = target.address.parse().map_err(|_| wrong("the address is none"))?;
        Ok(Self {
            address: SocketAddr::new(address, target.port),
            host: target.host,
            bucket: target.bucket,
            region: target.region,
            access_key: target.access_key,
            secret_key: target.secret_key,
            session_token: target.session_token,
            timeout: Duration::try_from_secs_f64(target.timeout_sec).map_err(|_| wrong("the time limit is none"))?,
        })
    }
}

impl TryFrom<Workload> for load::Workload {
    type Error = PyErr;

    fn try_from(workload: Workload) -> PyResult<Self> {
        let operation = |(name, weight): (String, u32)| {
            let operation = Operation::from_name(&name).ok_or_else(|| wrong("there is no such operation"))?;
            Ok((operation, weight))
        };
        Ok(Self {
            connections: workload.connections,
            threads: workload.threads,
            mix: workload.mix.into_iter().map(operation).collect::<PyResult<_>>()?,
            sizes: workload.size_range.map_or(Sizes::Table(workload.sizes), |(from, to)| Sizes::Range(from, to)),
            keys: workload.keys,
            overwrite: workload.overwrite,
            identical: workload.identical,
            signed_payload: workload.signed_payload,
            verify: workload.verify,
            list_page: workload.list_page,
            parts: workload.parts,
            part_size: workload.part_size,
            seed: workload.seed,
        })
    }
}

/// Latencies, in milliseconds.
#[derive(IntoPyObject)]
struct Latency {
    min: f64,
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

#[derive(IntoPyObject)]
struct OperationReport {
    done: u64,
    bytes: u64,
    raced: u64,
    wrong: u64,
    errors: BTreeMap<String, u64>,
    latency_ms: Option<Latency>,
}

/// The results of one phase or several.
#[derive(IntoPyObject)]
pub struct LoadReport {
    seconds: f64,
    client_cpu_seconds: f64,
    operations: BTreeMap<&'static str, OperationReport>,
    wrong_examples: Vec<String>,
    reconnects: u64,
    given_up: u64,
}

impl From<&Histogram> for Latency {
    fn from(latencies: &Histogram) -> Self {
        let ms = |ns: u64| ns as f64 / 1e6;
        let quantile = |quantile| ms(latencies.quantile(quantile));
        Self {
            min: ms(latencies.min()),
            mean: latencies.mean() / 1e6,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: ms(latencies.max()),
        }
    }
}

fn operations(tally: &Tally) -> BTreeMap<&'static str, OperationReport> {
    let mut reports = BTreeMap::new();
    for operation in Operation::ALL {
        let counts = tally.of(operation);
        if counts.done + counts.raced + counts.wrong > 0 || !counts.errors.is_empty() {
            let latency_ms = (counts.latencies.count() > 0).then(|| Latency::from(&counts.latencies));
            let report = OperationReport {
                done: counts.done,
                bytes: counts.bytes,
                raced: counts.raced,
                wrong: counts.wrong,
                errors: counts.errors.clone(),
                latency_ms,
            };
            reports.insert(operation.name(), report);
        }
    }
    reports
}

impl From<load::Report> for LoadReport {
    fn from(report: load::Report) -> Self {
        Self {
            seconds: report.elapsed.as_secs_f64(),
            client_cpu_seconds: report.cpu.as_secs_f64(),
            operations: operations(&report.tally),
            wrong_examples: report.tally.wrong_examples,
            reconnects: report.tally.reconnects,
            given_up: report.tally.given_up,
        }
    }
}

/// A load on one server, phase by phase.
#[pyclass(frozen, module = "orcas._core")]
pub struct Load {
    inner: load::Load,
}

#[pymethods]
impl Load {
    #[new]
    fn new(target: Target, workload: Workload) -> PyResult<Self> {
        let load = load::Load::new(target.try_into()?, workload.try_into()?);
        Ok(Self { inner: load.map_err(|error| wrong(&error.to_string()))? })
    }

    /// Begins to write the objects that exist before the measurement.
    fn prepare(&self) -> PyResult<()> {
        self.inner.start(Phase::Prepare).map_err(failed)
    }

    /// Begins the mix of operations, for a number of operations.
    fn run_count(&self, operations: u64) -> PyResult<()> {
        self.inner.start(Phase::Count(operations)).map_err(failed)
    }

    /// Begins the mix of operations, for a time; `counts` says whether it enters the total.
    fn run_seconds(&self, seconds: f64, counts: bool) -> PyResult<()> {
        let length = Duration::try_from_secs_f64(seconds).map_err(|_| wrong("the seconds are none"))?;
        let phase = if counts { Phase::Time(length) } else { Phase::Warm(length) };
        self.inner.start(phase).map_err(failed)
    }

    /// Begins to read a sample of what was written.
    fn read_back(&self) -> PyResult<()> {
        self.inner.start(Phase::ReadBack).map_err(failed)
    }

    fn wait(&self, py: Python<'_>, milliseconds: u64) -> bool {
        py.detach(|| self.inner.wait(Duration::from_millis(milliseconds)))
    }

    fn progress(&self) -> (u64, u64) {
        self.inner.progress()
    }

    fn stop(&self) {
        self.inner.stop();
    }

    fn finish(&self, py: Python<'_>) -> PyResult<LoadReport> {
        py.detach(|| self.inner.finish()).map(LoadReport::from).map_err(failed)
    }

    fn total(&self) -> LoadReport {
        self.inner.total().into()
    }
}
