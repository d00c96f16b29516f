//! A node of a cluster as a Python object.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::errors::{StoreError, store_error};
use orcas_cluster::{Followed, Node, NodeError, NodeOptions};
use orcas_front::{Cluster, Index, Reads, Shown, Wanted};
use orcas_fs::real::RealFileSystem;
use orcas_fs::{FileSystem, GivenUp};
use orcas_log_stores::{Credentials, Options};
use orcas_shared_log::{Cursor, EntryId};

/// What opens a shared log, as a dict.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct LogOptions {
    url: String,
    /// The URL without secrets.
    log: String,
    /// Access key, secret key and session token, of a bucket.
    credentials: Option<(String, String, Option<String>)>,
    authorities: String,
    call_timeout_sec: f64,
    deadline_sec: f64,
}

impl From<LogOptions> for NodeOptions {
    fn from(options: LogOptions) -> Self {
        let credentials = options.credentials.map(|(access_key, secret_key, session_token)| Credentials {
            access_key,
            secret_key,
            session_token,
        });
        Self {
            url: options.url,
            log: options.log,
            store: Options {
                credentials,
                authorities: options.authorities,
                call_timeout: Duration::from_secs_f64(options.call_timeout_sec),
                deadline: Duration::from_secs_f64(options.deadline_sec),
            },
        }
    }
}

/// Files, ends of files and holes in files, and files that are there anew.
#[derive(FromPyObject, IntoPyObject)]
pub struct PyGivenUp(Vec<String>, Vec<(String, u64)>, Vec<(String, u64, u64)>, Vec<String>);

impl From<GivenUp> for PyGivenUp {
    fn from(GivenUp { files, ends, holes, anew }: GivenUp) -> Self {
        Self(files, ends, holes, anew)
    }
}

impl From<PyGivenUp> for GivenUp {
    fn from(PyGivenUp(files, ends, holes, anew): PyGivenUp) -> Self {
        Self { files, ends, holes, anew }
    }
}

/// What a node is to show: term, sequence, position, and the id of the entry before it; or all of the log, with the number
/// of the question.
#[derive(IntoPyObject)]
enum PyWanted {
    Index((u64, u64, u64, u128)),
    End(u64),
}

/// What a step has brought, as a dict.
#[derive(IntoPyObject)]
struct Brought {
    entries: u64,
    changed: bool,
    keys: bool,
    given_up: PyGivenUp,
    small: Vec<String>,
    notes: Vec<Py<PyBytes>>,
    at_the_end: bool,
    term: u64,
    next: u64,
}

impl Brought {
    fn new(py: Python<'_>, followed: Followed) -> Self {
        let Followed { applied, entries, is_at_the_end, term, next } = followed;
        Self {
            entries,
            changed: applied.changed,
            keys: applied.keys,
            given_up: applied.given_up.into(),
            small: applied.small,
            notes: applied.notes.iter().map(|note| PyBytes::new(py, note).unbind()).collect(),
            at_the_end: is_at_the_end,
            term,
            next,
        }
    }
}

fn failed(error: NodeError) -> PyErr {
    match error {
        NodeError::Files(error) => store_error(error),
        NodeError::OwnStore => PyValueError::new_err(error.to_string()),
        error => StoreError::new_err(error.to_string()),
    }
}

/// A place in the log, between two entries.
#[pyclass(frozen, module = "orcas._core")]
pub struct LogPlace {
    cursor: Cursor,
}

#[pyclass(frozen, module = "orcas._core")]
pub struct ClusterNode {
    node: Arc<Node>,
    reads: Arc<Reads>,
}

impl ClusterNode {
    /// The files for the engine of the owner.
    pub fn files(&self) -> PyResult<Arc<dyn FileSystem>> {
        self.node.files().map(|files| files as Arc<dyn FileSystem>).map_err(failed)
    }

    /// What a front has to know of the log. `reads_here`: it answers reads while another node owns it.
    pub fn cluster(&self, reads_here: bool) -> Cluster {
        let node = Arc::clone(&self.node);
        Cluster { reads: Arc::clone(&self.reads), reads_here, end: Arc::new(move || end_of(&node)) }
    }
}

/// The end of the log in the term of its owner, if that is `node`.
fn end_of(node: &Node) -> Option<(u64, u64, u128)> {
    let (term, Cursor { next, last }) = node.end()?;
    Some((term, next, last?.0))
}

#[pymethods]
impl ClusterNode {
    /// Opens the log. Blocks.
    #[new]
    fn new(py: Python<'_>, data: PathBuf, options: LogOptions) -> PyResult<Self> {
        let node = py.detach(|| Node::open(Arc::new(RealFileSystem), &data, options.into())).map_err(failed)?;
        Ok(Self { node: Arc::new(node), reads: Arc::default() })
    }

    /// What an operator should know about the store of the log.
    fn warning(&self) -> Option<&'static str> {
        self.node.warning()
    }

    /// Whether there seems to be something new. Blocks.
    fn glance(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| self.node.glance()).map_err(failed)
    }

    /// Seconds that it takes to read the head of the log. Blocks.
    fn latency(&self, py: Python<'_>) -> PyResult<f64> {
        py.detach(|| self.node.latency()).map(|took| took.as_secs_f64()).map_err(failed)
    }

    /// Whether nothing listens at the address of a server. Blocks.
    fn is_refused(&self, py: Python<'_>, host: &str, port: u16, limit_sec: f64) -> bool {
        let limit = Duration::try_from_secs_f64(limit_sec).unwrap_or_default();
        py.detach(|| self.node.is_refused(host, port, limit))
    }

    /// Applies what is new in the log, up to a position if it is given, with the id of the entry before it. Blocks.
    #[pyo3(signature = (until = None))]
    fn follow(&self, py: Python<'_>, until: Option<(u64, u128)>) -> PyResult<Brought> {
        let until = until.map(|(next, last)| Cursor { next, last: Some(EntryId(last)) });
        let followed = py.detach(|| self.node.follow(until)).map_err(failed)?;
        Ok(Brought::new(py, followed))
    }

    /// Gives up what the owner has given up; the store is not open. Blocks.
    fn give_up(&self, py: Python<'_>, given_up: PyGivenUp) -> PyResult<()> {
        py.detach(|| self.node.give_up(&given_up.into())).map_err(failed)
    }

    /// What reads wait for; None after some seconds, or after `wake`. Blocks.
    fn wait(&self, py: Python<'_>, seconds: f64) -> Option<PyWanted> {
        let wanted = py.detach(|| self.reads.wait(Duration::try_from_secs_f64(seconds).unwrap_or_default()));
        wanted.map(|wanted| match wanted {
            Wanted::Index(Index { term, sequence, position, last }) => {
                PyWanted::Index((term, sequence, position, last))
            }
            Wanted::End(number) => PyWanted::End(number),
        })
    }

    /// Ends `wait`.
    fn wake(&self) {
        self.reads.wake();
    }

    /// What this node shows: term, sequence and position; None if it is nothing that reads may have. `known` is the last
    /// record that an owner has shown, `ended` the last question about all of the log, and whether this shows all of it.
    #[pyo3(signature = (index, known = 0, ended = (0, false)))]
    fn show(&self, index: Option<(u64, u64, u64)>, known: u64, ended: (u64, bool)) {
        let index = index.map(|(term, sequence, position)| Index { term, sequence, position, last: 0 });
        self.reads.show(Shown { index, known, ended });
    }

    /// Takes the log; None if another node was faster. Blocks.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Brought>> {
        let taken = py.detach(|| self.node.take()).map_err(failed)?;
        Ok(taken.map(|followed| Brought::new(py, followed)))
    }

    /// Follows again, from the mark. Blocks.
    fn step_down(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.node.step_down()).map_err(failed)
    }

    /// Appends every file of the store, which is not open. Blocks.
    fn append_all(&self, py: Python<'_>) -> PyResult<()> {
        let files = self.node.files().map_err(failed)?;
        py.detach(|| files.append_all()).map_err(store_error)
    }

    /// Appends a message for the other nodes. Blocks.
    fn note(&self, py: Python<'_>, message: Vec<u8>) -> PyResult<()> {
        py.detach(|| self.node.note(message.into())).map_err(failed)
    }

    /// Changes the head of the log, by which an owner learns that it is none. Blocks.
    fn renew(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.node.renew()).map_err(failed)
    }

    /// Replaces a small file on all nodes. Blocks.
    fn replace(&self, py: Python<'_>, name: &str, content: Vec<u8>) -> PyResult<()> {
        py.detach(|| self.node.replace_small(name, content.into())).map_err(failed)
    }

    /// Why this node does not own the log any more, which it has taken.
    fn over(&self) -> Option<String> {
        self.node.over().map(|error| error.to_string())
    }

    /// The term in which this node owns the log.
    fn term(&self) -> Option<u64> {
        self.node.term()
    }

    /// Makes durable what the files have of the log. Returns its place in the log. Blocks.
    fn mark(&self, py: Python<'_>) -> PyResult<LogPlace> {
        py.detach(|| self.node.mark()).map(|cursor| LogPlace { cursor }).map_err(failed)
    }

    /// Lets the log begin at a place. Blocks.
    fn truncate(&self, py: Python<'_>, place: &LogPlace) -> PyResult<()> {
        py.detach(|| self.node.truncate(place.cursor)).map_err(failed)
    }
}
