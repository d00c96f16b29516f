//! The process-wide object behind every request: the open engine and the gateway.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::access::PyIdentityTables;
use super::admin::metrics::{Surroundings, format_of};
use super::admin::snapshots::{self, Snapshot};
use super::admin::{
    BackupPin, LifecycleState, Maintenance, Pools, PyAdminCaller, ReclaimState, ReclaimStats, Stats, UsageCounts, judge,
};
use super::cluster::{ClusterNode, PyGivenUp};
use super::errors::{StoreError, refusal_of, store_error};
use super::events::{
    EventDeliveries, EventListener, EventsStats, ListeningPermit, ProgressRow, ReplicatedBucket, ReplicatedEvents,
    progress_of, replicated_buckets,
};
use super::owned::Owned;
use super::requests::done::{self, PyAdmission, PyStages};
use super::requests::head::{self, ScopeHead, byte_pairs, header_objects};
use super::requests::{
    Description, Diagnosis, ErrorNote, EventLoop, Form, Postponed, Recovery, Request, RequestLogs, Response,
    accepted_object, piece_object,
};
use super::store::{
    CheckProgress, CopiedKeys, KeyringKeys, KeyringOptions, Opened, Options, PyKeyring, Report, SalvageReport,
    ScrubState, environment, environment_with,
};
use orcas_base::buffers::release_memory;
use orcas_base::error::Error;
use orcas_bodies::problem::Problem;
use orcas_engine::{
    Continuation, Effort, Engine, Environment, LogPosition, Replayed, Standby, SystemClock, salvage_store,
};
use orcas_event_streams::{BucketReader, DeliveryReader, ListenOptions, Listener, StreamFormat};
use orcas_fsck::CheckOptions;
use orcas_gateway::{
    Admission, Begun, BucketPrefix, Completion, CopiedObject, Done, Gateway, Identities, IdentityRow, IdentityTables,
    KeyRow, LimitRow, MovedPrefix, Needs, Responder,
};
use orcas_http::{Headers, RequestHead};
use orcas_s3::{ErrorCode, S3Error};
use orcas_seal::Secret;
use orcas_store::ContentKeys;

/// Bodies above this many bytes are processed without the GIL.
const TAKE_ATTACHED_MAX: usize = 1024;

/// How long statistics wait for the index.
const CATCH_UP_AT_MOST: Duration = Duration::from_secs(1);

#[pyclass(frozen, module = "orcas._core")]
pub struct Core {
    gateway: Arc<Gateway>,
    event_loop: Arc<EventLoop>,
    /// The event loop as requests know it: where their answers go.
    responder: Arc<dyn Responder>,
    /// None once closed.
    engine: Owned<Mutex<Option<Engine>>>,
    /// What follows the log of another store, and its keys. None unless this is a standby that is open.
    standby: Mutex<Option<(Standby, Arc<CopiedKeys>)>>,
    replayed: Replayed,
    keyring: Opened,
    /// That of a store in memory, whose tests may set it.
    test_clock: Option<Arc<SystemClock>>,
}

/// Why a store that is open for salvage refuses changes.
const SALVAGE: &str = "The store is open for salvage: objects can be read and listed, nothing can be changed.";
/// Why a standby does.
const STANDBY: &str = "This server is a standby: objects can be read and listed; write to the server that it follows.";

/// From here on content can be sealed, and what is sealed can be read.
fn use_keys(keyring: &Opened, engine: &Engine) {
    if let Opened::Open(keyring) = keyring {
        engine.handle().keys().set(Arc::new(KeyringKeys(Arc::clone(keyring))));
    }
}

/// The condition of the store.
#[pyclass(frozen, get_all, module = "orcas._core")]
pub struct Health {
    status: &'static str,
    reason: Option<String>,
    detail: Option<String>,
    writable: bool,
    durability: &'static str,
    lag_bytes: u64,
    lag_records: u64,
    pools: Pools,
}

#[pymethods]
impl Core {
    /// Opens or creates the store and starts its threads; `node` owns the log of its cluster. Blocks while the log is
    /// replayed.
    #[staticmethod]
    #[pyo3(signature = (settings, event_targets, workers, identities, keyring, node = None))]
    fn open(
        py: Python<'_>,
        settings: Options,
        event_targets: Vec<(String, String)>,
        workers: usize,
        identities: PyIdentityTables,
        keyring: KeyringOptions,
        node: Option<PyRef<'_, ClusterNode>>,
    ) -> PyResult<Self> {
        let data = settings.data().to_owned();
        let clock = Arc::new(SystemClock::new());
        let environment = environment_with(Arc::clone(&clock));
        let fs = node.map_or(Ok(Arc::clone(&environment.fs)), |node| node.files())?;
        let environment = Environment { fs: Arc::clone(&fs), ..environment };
        let test_clock = settings.is_in_memory().then_some(clock);
        let engine_options = settings.engine()?;
        let lifecycle_options = settings.lifecycle();
        let gateway_options = settings.gateway(event_targets, workers, None)?;
        let identities = Identities::new(identities.into()).map_err(PyValueError::new_err)?;
        py.detach(|| {
            let advised = |error: Error| StoreError::new_err(format!("{error}{}", error.advice()));
            let mut engine = Engine::open(engine_options, environment).map_err(advised)?;
            let keyring = keyring.open_in(fs, &data, engine.handle().store_id())?;
            use_keys(&keyring, &engine);
            engine.start_lifecycle(lifecycle_options).map_err(advised)?;
            let gateway = Gateway::new(engine.handle(), gateway_options, identities).map_err(advised)?;
            let core = Self::over(engine, gateway, keyring, test_clock).map_err(advised)?;
            // What Python's imports and this opening have freed: 3 of the 68 MiB of a server that has just started.
            release_memory();
            Ok(core)
        })
    }

    /// Opens what is left of a store for reading, without changing anything in it, and reports what is damaged. Blocks
    /// while everything is read.
    #[staticmethod]
    fn salvage(
        py: Python<'_>,
        settings: Options,
        event_targets: Vec<(String, String)>,
        workers: usize,
        identities: PyIdentityTables,
        keyring: KeyringOptions,
    ) -> PyResult<(Self, SalvageReport)> {
        let data = settings.data().to_owned();
        let engine_options = settings.engine()?;
        let gateway_options = settings.gateway(event_targets, workers, Some(SALVAGE))?;
        let identities = Identities::new(identities.into()).map_err(PyValueError::new_err)?;
        let opened = py.detach(|| {
            let owner = bytes::Bytes::copy_from_slice(identities.root().as_bytes());
            let (engine, report) = salvage_store(engine_options, environment(), &owner)?;
            let gateway = Gateway::new(engine.handle(), gateway_options, identities)?;
            Ok((engine, gateway, report))
        });
        let (engine, gateway, report) = opened.map_err(store_error)?;
        let keyring = py.detach(|| keyring.open(&data, engine.handle().store_id()))?;
        use_keys(&keyring, &engine);
        Ok((Self::over(engine, gateway, keyring, None).map_err(store_error)?, report.into()))
    }

    /// Opens the copy of a store that is in use elsewhere, for reading. Blocks while the index follows the log.
    #[staticmethod]
    fn standby(
        py: Python<'_>,
        settings: Options,
        workers: usize,
        identities: PyIdentityTables,
        keyring: KeyringOptions,
    ) -> PyResult<Self> {
        let data = settings.data().to_owned();
        let engine_options = settings.engine()?;
        let gateway_options = settings.gateway(Vec::new(), workers, Some(STANDBY))?;
        let identities = Identities::new(identities.into()).map_err(PyValueError::new_err)?;
        let opened = py.detach(|| {
            let (engine, standby) = Engine::open_standby(engine_options, environment())?;
            let gateway = Gateway::new(engine.handle(), gateway_options, identities)?;
            Ok((engine, standby, gateway))
        });
        let (engine, standby, gateway) = opened.map_err(store_error)?;
        let store = engine.handle().store_id();
        let keyring = py.detach(|| keyring.open(&data, store))?;
        let keys = Arc::new(CopiedKeys::new(store));
        keys.replace(keyring.keyring());
        engine.handle().keys().set(Arc::clone(&keys) as Arc<dyn ContentKeys>);
        let core = Self::over(engine, gateway, keyring, None).map_err(store_error)?;
        *core.standby.lock() = Some((standby, keys));
        Ok(core)
    }

    /// Opens the keyring of a standby again: its files are new. Blocks.
    fn reopen_keyring(&self, py: Python<'_>, data: PathBuf, keyring: KeyringOptions) -> PyResult<()> {
        py.detach(|| {
            let opened = keyring.open(&data, self.gateway.engine.store_id())?;
            if let Some((_, keys)) = &*self.standby.lock() {
                keys.replace(opened.keyring());
            }
            Ok(())
        })
    }

    /// Whether the log continues the copy of a standby that ends at a position: true, false, or None if that cannot be
    /// told any more. Blocks.
    fn continues(&self, py: Python<'_>, position: Vec<u8>) -> PyResult<Option<bool>> {
        let Some(at) = LogPosition::decode(&position) else { return Ok(Some(false)) };
        let found = py.detach(|| self.gateway.engine.continues(&at)).map_err(store_error)?;
        Ok(match found {
            Continuation::Yes => Some(true),
            Continuation::No => Some(false),
            Continuation::Unknown => None,
        })
    }

    /// The log is not rewritten beyond the record that this standby of the store has, for ten minutes.
    fn hold_log_for(&self, standby: String, has: u64) {
        self.gateway.engine.hold_log_for(standby, has);
    }

    /// Publishes what the copy of the log has beyond the last call, up to the record `until`, and gives up what the other
    /// store does not have when nobody reads it any more. Returns the sequence of the last record. Blocks.
    #[pyo3(signature = (given_up, until = None))]
    fn follow(&self, py: Python<'_>, given_up: PyGivenUp, until: Option<u64>) -> PyResult<u64> {
        py.detach(|| match &mut *self.standby.lock() {
            Some((standby, _)) => standby.follow(given_up.into(), until.unwrap_or(u64::MAX)),
            None => Err(Error::Closed),
        })
        .map_err(store_error)
    }

    /// Whether the copy of the log has nothing beyond what was published, and no bucket acknowledges what is not durable.
    /// Blocks.
    fn shows_all(&self, py: Python<'_>) -> PyResult<bool> {
        let shown = || self.standby.lock().as_ref().map_or(Err(Error::Closed), |(standby, _)| standby.shows_all());
        py.detach(shown).map_err(store_error)
    }

    /// The last record that readers see.
    fn published_sequence(&self) -> u64 {
        self.gateway.engine.published_sequence()
    }

    /// The last record in the index.
    fn applied_sequence(&self) -> u64 {
        self.gateway.engine.applied_sequence()
    }

    /// Who may sign from now on, and what they may do.
    fn replace_identities(
        &self,
        py: Python<'_>,
        accounts: Vec<(String, String, String)>,
        policies: Vec<(String, String)>,
        identities: Vec<IdentityRow>,
        keys: Vec<KeyRow>,
        limits: Vec<LimitRow>,
    ) -> PyResult<()> {
        let rows = IdentityTables { accounts, policies, identities, keys, limits };
        py.detach(|| self.gateway.access().signers.replace(rows)).map_err(PyValueError::new_err)
    }

    /// Replaces rows that are new or changed, and removes those that are gone.
    #[expect(clippy::too_many_arguments, reason = "kinds of rows")]
    fn change_identities(
        &self,
        py: Python<'_>,
        accounts: Vec<(String, String, String)>,
        policies: Vec<(String, String)>,
        identities: Vec<IdentityRow>,
        keys: Vec<KeyRow>,
        limits: Vec<LimitRow>,
        removed: Vec<String>,
    ) -> PyResult<()> {
        let rows = IdentityTables { accounts, policies, identities, keys, limits };
        py.detach(|| self.gateway.access().signers.change(rows, &removed)).map_err(PyValueError::new_err)
    }

    /// Opens tokens of sessions with these keys from now on: ids and keys.
    fn use_session_keys(&self, py: Python<'_>, keys: Vec<([u8; 8], [u8; 32])>) {
        let keys = keys.iter().map(|(id, key)| (*id, Secret::new(key))).collect();
        py.detach(|| self.gateway.access().signers.use_session_keys(keys));
    }

    /// Milliseconds since 1970, as signatures and sessions expire.
    fn now_ms(&self) -> i64 {
        self.gateway.access().now_ms()
    }

    /// The keyring, or why there is none; None if the store has none and no master key was given.
    fn keyring<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.keyring {
            Opened::Open(keyring) => Ok(Bound::new(py, PyKeyring { inner: Arc::clone(keyring) })?.into_any()),
            Opened::Absent => Ok(py.None().into_bound(py)),
            Opened::Closed(reason) => Ok(reason.into_pyobject(py)?.into_any()),
        }
    }

    /// Finishes submitted work, flushes and releases the lock. Blocks. Without effect when called again.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let engine = self.engine.get()?.lock().take();
        let standby = self.standby.lock().take();
        let Some(engine) = engine else { return Ok(()) };
        py.detach(|| {
            self.gateway.close();
            let finished = standby.map_or(Ok(()), |(standby, _)| standby.finish());
            engine.close().and(finished)
        })
        .map_err(store_error)
    }

    /// Verifies the head of a request: returns a Request, the Form that makes one, the Response that refuses it, or
    /// Postponed, because only a worker can tell. The first `mount_length` bytes of the path are signed, and name neither
    /// bucket nor key.
    fn accept<'py>(
        &self,
        py: Python<'py>,
        scope: &Bound<'py, PyDict>,
        mount_length: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let ingress = head::ingress(scope, mount_length)?;
        let scope = ScopeHead::of(scope)?;
        let pairs = scope.pairs();
        match self.gateway.begin(&scope.head(&pairs)?, &ingress, &self.responder) {
            Begun::Accepted(accepted) => accepted_object(py, &self.responder, accepted, ingress.began),
            Begun::Form(head) => {
                let (gateway, responder) = (Arc::clone(&self.gateway), Arc::clone(&self.responder));
                Ok(Bound::new(py, Form::new(gateway, responder, head))?.into_any())
            }
            Begun::Postponed(inner) => {
                Ok(Bound::new(py, Postponed::new(inner, &self.responder, &Arc::default()))?.into_any())
            }
        }
    }

    /// Begins an operation with its collected body. None: one completion for `slot` follows.
    fn start<'py>(
        &self,
        py: Python<'py>,
        request: &Request,
        body: &[u8],
        slot: u32,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let inner = Arc::clone(&request.inner);
        let start = || inner.start(self.gateway.services.bodies.buffers.copy(body), slot);
        let answer = if body.len() > TAKE_ATTACHED_MAX { py.detach(start) } else { start() };
        answer.map(|answer| self.response(py, answer)).transpose()
    }

    /// Counts a request that is done: what `accept` returned for it, and its response, or None if the client
    /// disconnected. With its scope, it goes to the logs of requests. `refusal`: status and code, if the connection
    /// answered instead. Returns its stages if it was slow.
    #[pyo3(signature = (admission, response, scope = None, mount_length = 0, refusal = None))]
    fn finish(
        &self,
        admission: PyAdmission<'_>,
        response: Option<&Bound<'_, Response>>,
        scope: Option<&Bound<'_, PyDict>>,
        mount_length: usize,
        refusal: Option<(u16, String)>,
    ) -> PyResult<Option<PyStages>> {
        let response = response.map(Bound::get);
        let refusal = refusal.as_ref().map(|(status, code)| (*status, code.as_str()));
        let done = Done { admission: admission.inner(), response: response.map(|response| &response.summary), refusal };
        let finished = self.gateway.finish(&done);
        if let Some(scope) = scope.filter(|_| self.gateway.logs_requests()) {
            done::log(&self.gateway, &done, &finished, (scope, mount_length))?;
        }
        let Some(stages) = self.gateway.stages(&done, &finished) else { return Ok(None) };
        let slow = stages.slow.then(|| PyStages::from(&stages));
        if let Some(scope) = scope.filter(|_| stages.trace.is_some()) {
            done::hand_on(&self.gateway, stages, (scope, mount_length))?;
        }
        Ok(slow)
    }

    /// Gives up a request that `accept` begins anew with the same scope: only that one counts.
    fn pass_on(&self, request: &Request, scope: &Bound<'_, PyDict>) -> PyResult<()> {
        let scope = ScopeHead::of(scope)?;
        let pairs = scope.pairs();
        self.gateway.pass_on(Admission::Request(&*request.inner), &scope.head(&pairs)?.headers);
        Ok(())
    }

    /// The logs of requests.
    fn request_logs(&self) -> RequestLogs {
        RequestLogs::new(Arc::clone(&self.gateway))
    }

    /// What is stored and asked for, and by whom.
    fn usage(&self) -> UsageCounts {
        UsageCounts::new(Arc::clone(&self.gateway))
    }

    /// The page of all metrics. Blocks.
    fn metrics(&self, py: Python<'_>, openmetrics: bool, around: Surroundings) -> String {
        let around = around.with(&self.keyring, self.gateway.services.watch.declined());
        py.detach(|| self.gateway.metrics_page(format_of(openmetrics), &around))
    }

    /// What a head says about itself, for the log.
    #[pyo3(signature = (scope, mount_length = 0))]
    fn describe(&self, scope: &Bound<'_, PyDict>, mount_length: usize) -> PyResult<Description> {
        let scope = ScopeHead::of(scope)?;
        let pairs = scope.pairs();
        Ok(self.gateway.describe(&scope.head(&pairs)?, mount_length).into())
    }

    /// What is wrong with the signature of a refused head, for the log. None if no cause was found.
    fn diagnose(&self, py: Python<'_>, scope: &Bound<'_, PyDict>) -> PyResult<Option<Diagnosis>> {
        let scope = ScopeHead::of(scope)?;
        let pairs = scope.pairs();
        let head = scope.head(&pairs)?;
        Ok(py.detach(|| self.gateway.diagnose(&head)).map(Diagnosis::from))
    }

    /// Keeps why the request of a scope was refused, if somebody watches.
    fn note_cause(&self, scope: &Bound<'_, PyDict>, note: &ErrorNote) -> PyResult<()> {
        let scope = ScopeHead::of(scope)?;
        let pairs = scope.pairs();
        self.gateway.note_cause(&scope.head(&pairs)?, &note.inner);
        Ok(())
    }

    /// What was done at the start.
    fn recovery(&self) -> Recovery {
        self.replayed.into()
    }

    /// The response to a request that Python failed to handle. It ends the connection.
    fn failure<'py>(&self, py: Python<'py>, method: &str, raw_path: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let envelope = self.gateway.envelope(method.as_bytes(), raw_path);
        let problem = Problem::from(ErrorCode::InternalError);
        self.response(py, envelope.problem(problem).closing())
    }

    /// A response that Python wants instead of that of the operation: an error with this code, and with its usual
    /// message unless another one is given. `ValueError` if S3 has no such code.
    #[pyo3(signature = (method, raw_path, code, message = None))]
    fn refusal<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        raw_path: &[u8],
        code: &str,
        message: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let unknown = || PyValueError::new_err(format!("S3 has no error {code}"));
        let code = ErrorCode::from_name(code).ok_or_else(unknown)?;
        let message = message.unwrap_or_else(|| code.default_message()).to_owned();
        let envelope = self.gateway.envelope(method.as_bytes(), raw_path);
        self.response(py, envelope.problem(Problem::from(S3Error::with(code, message))))
    }

    /// Readable while `drain` has something to return.
    fn fileno(&self) -> i32 {
        self.event_loop.raw_fd()
    }

    /// What has completed since the last call: (slot, Response | memoryview | str | None).
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for (slot, completion) in self.event_loop.drain().drain(..) {
            let value = match completion {
                Completion::Committed(request, result) => self.response(py, request.committed(result))?,
                Completion::Answered(answer) => self.response(py, answer)?,
                Completion::Piece(piece) => piece_object(py, piece)?,
                Completion::Resume => py.None().into_bound(py),
            };
            list.append(PyTuple::new(py, [slot.into_pyobject(py)?.into_any(), value])?)?;
        }
        Ok(list)
    }

    fn health(&self) -> Health {
        let health = self.gateway.engine.health();
        Health {
            status: health.condition.name(),
            reason: health.condition.reason(),
            detail: health.condition.detail(),
            writable: health.writable,
            durability: health.durability.name(),
            lag_bytes: health.lag_bytes,
            lag_records: health.lag_records,
            pools: health.pools.into(),
        }
    }

    /// Checks who has signed a request to the admin API, and that it may send it. `action`: what it must be allowed, on the
    /// server or on `bucket`; None: only root may send it; empty: whoever has signed it. `once`: it is granted once.
    fn authenticate_admin(
        &self,
        scope: &Bound<'_, PyDict>,
        action: Option<&str>,
        bucket: Option<&str>,
        once: bool,
    ) -> PyResult<PyAdminCaller> {
        let needs = match action {
            None => Needs::Root,
            Some("") => Needs::Signature,
            Some(action) => Needs::Action(action, bucket),
        };
        let ingress = head::ingress(scope, 0)?;
        let scope = ScopeHead::of(scope)?;
        let pairs = scope.pairs();
        judge(&self.gateway, &scope.head(&pairs)?, &ingress, needs, once)
    }

    /// Checks who has signed a request to the catalog of tables. `service`: for which it must be signed; `body`: the SHA-256
    /// of its body, if that was received already.
    fn authenticate_tables(
        &self,
        scope: &Bound<'_, PyDict>,
        service: &str,
        body: Option<[u8; 32]>,
    ) -> PyResult<PyAdminCaller> {
        let service = match service {
            "s3" => "s3",
            "s3tables" => "s3tables",
            _ => return Err(PyValueError::new_err("the catalog has no such service")),
        };
        let ingress = head::ingress(scope, 0)?;
        let scope = ScopeHead::of(scope)?;
        let pairs = scope.pairs();
        judge(&self.gateway, &scope.head(&pairs)?, &ingress, Needs::SignatureFor(service, body), false)
    }

    /// When each of these access keys has signed a request, in milliseconds since 1970; None if it has not since the start.
    #[expect(clippy::needless_pass_by_value, reason = "as Python passes it")]
    fn keys_used(&self, access_keys: Vec<String>) -> Vec<Option<i64>> {
        let identities = self.gateway.access().identities();
        access_keys.iter().map(|access_key| identities.used_ms(access_key)).collect()
    }

    /// The access key that has signed a request for the service `iam` or `sts`. `body`: the SHA-256 of its body; `client`: the
    /// address of its sender.
    #[expect(clippy::too_many_arguments, reason = "the parts of a head")]
    fn authenticate(
        &self,
        method: &str,
        raw_path: &[u8],
        query: &[u8],
        headers: &Bound<'_, PyList>,
        service: &str,
        body: [u8; 32],
        client: &str,
    ) -> PyResult<String> {
        let objects = header_objects(headers)?;
        let list = byte_pairs(&objects);
        let head = RequestHead { method: method.as_bytes(), path: raw_path, query, headers: Headers::new(&list) };
        let service = match service {
            "iam" => "iam",
            "sts" => "sts",
            _ => return Err(PyValueError::new_err("there is no such service")),
        };
        let client = client.parse().ok();
        self.gateway
            .access()
            .authenticate_for(&head, service, body, client)
            .map_err(|problem| refusal_of(problem.error))
    }

    /// Refuses a request that nobody signs if its sender is locked out. `client`: the address.
    fn check_not_locked_out(&self, client: &str) -> PyResult<()> {
        self.gateway
            .access()
            .check_not_locked_out(client.parse().ok(), self.gateway.access().now_ms())
            .map_err(refusal_of)
    }

    /// Counts what proves to be forged as a wrong signature of this address.
    fn count_forgery(&self, client: &str) {
        self.gateway.access().count_forgery(client.parse().ok(), self.gateway.access().now_ms());
    }

    /// Counts and sizes of what is stored: of everything acknowledged, unless the index is far behind or cannot follow.
    /// Blocks.
    fn stats(&self, py: Python<'_>) -> PyResult<Stats> {
        py.detach(|| {
            let engine = &self.gateway.engine;
            // A store that does not sync would count new objects only much later, one in memory never.
            let _ = engine.catch_up(CATCH_UP_AT_MOST);
            engine.usage()
        })
        .map(Stats::from)
        .map_err(store_error)
    }

    /// Reclaims now; with `compact` files are rewritten as well. Blocks until it is done or the store is closed.
    fn reclaim(&self, py: Python<'_>, compact: bool) -> PyResult<ReclaimStats> {
        let effort = if compact { Effort::Compact } else { Effort::Collect };
        py.detach(|| self.gateway.engine.reclaim(effort)).map(ReclaimStats::from).map_err(store_error)
    }

    fn reclaim_progress(&self) -> ReclaimState {
        self.gateway.engine.reclaim_progress().into()
    }

    /// Moves all objects of one bucket whose keys begin with a prefix to another prefix, or to another bucket, at once.
    /// Returns their number and bytes. Blocks.
    fn move_prefix(
        &self,
        py: Python<'_>,
        source: (String, String),
        target: (String, String),
        overwrite: bool,
        limit: usize,
    ) -> PyResult<(u64, u64)> {
        let from = BucketPrefix { bucket: &source.0, prefix: &source.1 };
        let to = BucketPrefix { bucket: &target.0, prefix: &target.1 };
        let moved = py.detach(|| self.gateway.move_prefix(from, to, overwrite, limit));
        moved.map(|MovedPrefix { objects, bytes }| (objects, bytes)).map_err(|problem| refusal_of(problem.error))
    }

    /// Copies objects of one bucket into another one, or within it: all of them, or none. Blocks.
    fn copy_objects(&self, py: Python<'_>, source: &str, bucket: &str, copies: Vec<CopiedObject>) -> PyResult<()> {
        let copied = py.detach(|| self.gateway.copy_objects(source, bucket, copies));
        copied.map_err(|problem| refusal_of(problem.error))
    }

    /// What is to be done at intervals.
    fn maintenance(&self) -> Maintenance {
        Maintenance::new(self.gateway.engine.clone())
    }

    fn lifecycle_progress(&self) -> LifecycleState {
        self.gateway.engine.lifecycle_progress().into()
    }

    /// Checks the whole open store. Blocks; `progress` shows how far it is and can cancel it.
    fn check(
        &self,
        py: Python<'_>,
        progress: &CheckProgress,
        read_content: bool,
        threads: usize,
        bytes_per_sec: u64,
    ) -> PyResult<Report> {
        let options = CheckOptions { read_content, threads, bytes_per_sec };
        let progress = progress.shared();
        let checked = py.detach(|| self.gateway.engine.check(&options, &progress));
        checked.map(|report| Report::new(report, &self.keyring)).map_err(store_error)
    }

    /// The progress of the scrub in the background.
    fn scrub_progress(&self) -> ScrubState {
        self.gateway.engine.scrub_progress().into()
    }

    /// Names what a bucket holds now. Blocks.
    fn create_snapshot(&self, py: Python<'_>, bucket: &str, name: &str) -> PyResult<()> {
        py.detach(|| snapshots::create(&self.gateway.engine, bucket, name))
    }

    /// Forgets a snapshot. Blocks.
    fn delete_snapshot(&self, py: Python<'_>, bucket: &str, name: &str) -> PyResult<()> {
        py.detach(|| snapshots::delete(&self.gateway.engine, bucket, name))
    }

    /// Creates the bucket `name` with the objects of a bucket, or of its snapshot. Blocks.
    fn fork_bucket(&self, py: Python<'_>, bucket: &str, snapshot: Option<&str>, name: &str) -> PyResult<()> {
        py.detach(|| snapshots::fork(&self.gateway.engine, bucket, snapshot, name))
    }

    /// Gives a bucket the objects of its snapshot. Blocks.
    fn restore_bucket(&self, py: Python<'_>, bucket: &str, snapshot: &str) -> PyResult<()> {
        py.detach(|| snapshots::restore(&self.gateway.engine, bucket, snapshot))
    }

    /// Deletes a bucket with all that it has, locked or not. Blocks.
    fn drop_bucket(&self, py: Python<'_>, bucket: &str) -> PyResult<()> {
        py.detach(|| snapshots::drop_bucket(&self.gateway.engine, bucket))
    }

    /// The names of all buckets.
    fn bucket_names(&self) -> Vec<String> {
        self.gateway.engine.buckets().iter().map(|bucket| String::from_utf8_lossy(&bucket.name).into_owned()).collect()
    }

    /// The number of the bucket with this name, which no other one ever has. None if there is none.
    fn bucket_id(&self, name: &str) -> Option<u64> {
        self.gateway.engine.bucket(name.as_bytes()).map(|bucket| bucket.id.0)
    }

    /// Sets the clock of a store in memory so many milliseconds ahead of that of the machine, or behind it if negative. A
    /// store on disk refuses.
    fn set_clock_ahead(&self, ms: i64) -> PyResult<()> {
        let clock = self.test_clock.as_ref();
        clock.map(|clock| clock.set_ahead(ms)).ok_or_else(|| PyValueError::new_err("the store is not in memory"))
    }

    /// The snapshots of a bucket, by name. None if there is no such bucket.
    fn list_snapshots(&self, bucket: &str) -> Option<Vec<Snapshot>> {
        snapshots::list(&self.gateway.engine, bucket)
    }

    /// Begins a stream of events, server-sent or as lines.
    #[expect(clippy::too_many_arguments, reason = "the parameters of a query")]
    fn listen(
        &self,
        names: Vec<String>,
        buckets: Vec<String>,
        prefix: Vec<u8>,
        suffix: Vec<u8>,
        last_id: Option<String>,
        start: Option<String>,
        lines: bool,
    ) -> PyResult<EventListener> {
        let format = if lines { StreamFormat::Lines } else { StreamFormat::Sse };
        let options = ListenOptions { names, buckets, prefix, suffix, last_id, start };
        let inner = Listener::open(&self.gateway.events, options, format).map_err(refusal_of)?;
        Ok(EventListener { inner, responder: Arc::clone(&self.responder) })
    }

    /// Verifies a request to listen to a bucket, or to all. None: root has sent it.
    fn authorize_listener(&self, scope: &Bound<'_, PyDict>, bucket: Option<&str>) -> PyResult<Option<ListeningPermit>> {
        let ingress = head::ingress(scope, 0)?;
        let scope = ScopeHead::of(scope)?;
        let pairs = scope.pairs();
        let permit = self.gateway.authorize_listener(&scope.head(&pairs)?, &ingress, bucket);
        Ok(permit.map_err(|problem| refusal_of(problem.error))?.map(|inner| ListeningPermit { inner }))
    }

    /// Ends all streams of events, and refuses new ones.
    fn end_listeners(&self) {
        self.gateway.events.hub.close().into_iter().for_each(|resume| resume());
    }

    /// The events for a target, behind a place or from now on. None if there is no journal.
    fn deliveries(&self, target: &str, after: Option<&str>) -> Option<EventDeliveries> {
        DeliveryReader::open(&self.gateway.events, target, after).map(EventDeliveries::new)
    }

    /// The buckets with rules for replication, and the rules.
    fn replicated_buckets(&self) -> Vec<ReplicatedBucket> {
        replicated_buckets(&self.gateway.engine)
    }

    /// The changes of a bucket that its rules may be about, behind a place or, without one, behind a sequence. None if
    /// there is no journal.
    fn replicated_events(&self, bucket: u64, after: Option<&str>, begins_after: u64) -> Option<ReplicatedEvents> {
        BucketReader::open(&self.gateway.events, bucket, after, begins_after).map(ReplicatedEvents::new)
    }

    /// Names the targets that rules for replication may name.
    fn set_replication_targets(&self, names: Vec<String>) {
        self.gateway.services.replications.set_targets(names.into_iter().collect());
    }

    /// Says how far the copies of each bucket are.
    fn show_replication(&self, progress: Vec<ProgressRow>) {
        self.gateway.services.replications.show(progress.into_iter().map(progress_of).collect());
    }

    /// How the journal of events is. None if there is none.
    fn events(&self) -> Option<EventsStats> {
        let listeners = self.gateway.events.hub.listeners();
        self.gateway.engine.events_state().map(|state| EventsStats::new(state, listeners))
    }

    /// Makes everything acknowledged durable and keeps all files of this moment in place. Blocks.
    fn pin_for_backup(&self, py: Python<'_>) -> PyResult<BackupPin> {
        py.detach(|| BackupPin::take(&self.gateway.engine)).map_err(store_error)
    }
}

impl Core {
    pub fn gateway(&self) -> Arc<Gateway> {
        Arc::clone(&self.gateway)
    }

    fn over(
        engine: Engine,
        gateway: Arc<Gateway>,
        keyring: Opened,
        test_clock: Option<Arc<SystemClock>>,
    ) -> Result<Self, Error> {
        let event_loop = Arc::new(EventLoop::new()?);
        let responder = Arc::clone(&event_loop) as Arc<dyn Responder>;
        let replayed = engine.replayed();
        let (engine, standby) = (Owned::new("store", Mutex::new(Some(engine))), Mutex::new(None));
        Ok(Self { gateway, event_loop, responder, engine, standby, replayed, keyring, test_clock })
    }

    fn response<'py>(&self, py: Python<'py>, answer: orcas_gateway::Response) -> PyResult<Bound<'py, PyAny>> {
        let response = Response::new(py, &self.responder, answer)?;
        Ok(Bound::new(py, response)?.into_any())
    }
}
