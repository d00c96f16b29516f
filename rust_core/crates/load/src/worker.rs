//! One thread of a load. It serves several clients, each with one connection and one operation in progress.
//!
//! A thread for each connection was measured to use more processor time, growing with the number of connections, and
//! the context switches slowed down the server as well. So one thread serves many connections with epoll. The latency
//! of an operation is measured from just before its first byte is written until just after its last byte is read.

use std::collections::HashMap;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::client::{
    BodyReceiver, Connection, ConnectionError, PIECE, Poller, RequestParts, Requests, UNSIGNED_PAYLOAD,
};
use super::job::{Body, Job, Next, Step, Written};
use super::pattern::{Content, mix};
use super::plan::{Operation, Target};
use super::tally::{Failure, Outcome, Tally};
use super::tasks::{LoadContext, Task, TaskSource};
use orcas_checksum::{ChecksumAlgorithm, Hasher};
use orcas_http::hex;
use orcas_sigv4::sha256_hex;

/// The interval at which timeouts and the request to stop are checked.
const TICK: Duration = Duration::from_millis(50);
/// The delay before the next attempt to connect or to find an object for an operation.
const PAUSE: Duration = Duration::from_millis(20);
/// Consecutive failures to connect after which a client is given up, so that a run ends if the server is gone.
const CONNECTS_MAX: u32 = 50;
/// Written objects that a thread keeps to be read back.
const SAMPLE: usize = 64;

/// What a client is doing.
enum Stage {
    /// No more tasks.
    Finished,
    Waiting(Instant),
    /// A long body is hashed before its request is sent.
    Hashing {
        step: Box<Step>,
        hasher: Hasher,
        done: u64,
    },
    Exchanging,
}

struct Client {
    connection: Connection,
    was_open: bool,
    job: Option<(Operation, Job)>,
    stage: Stage,
    /// When the first request of the operation was sent.
    started: Option<Instant>,
    /// When something was last sent or received.
    quiet_since: Instant,
    connects: u32,
}

/// The result of one thread in one phase.
pub struct PhaseResult {
    pub tally: Tally,
    pub started: Instant,
    pub ended: Instant,
    /// Processor time of this thread between `started` and `ended`.
    pub cpu: Duration,
}

pub struct Worker {
    target: Target,
    context: Arc<LoadContext>,
    clients: Vec<Client>,
    poller: Poller,
    requests: Requests,
    buffer: Box<[u8]>,
    random: u64,
    tally: Tally,
    active: usize,
    /// Clients that do not wait for their connection, because they hash or start the next operation.
    runnable: Vec<usize>,
    /// A uniform sample of what was written (Vitter's algorithm R), and the number that it was taken from.
    sample: Vec<Written>,
    sampled: u64,
    /// SHA-256 of identical bodies and parts, by offset and length.
    hashes: HashMap<(u64, u64), String>,
    ended: Instant,
}

/// Processor time of this thread.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

impl Worker {
    /// `None` when no request can be signed at the time of the system clock, or no poller can be created.
    pub fn new(target: Target, context: Arc<LoadContext>, connections: usize, number: usize) -> Option<Self> {
        let client = |token| Client {
            connection: Connection::new(token),
            was_open: false,
            job: None,
            stage: Stage::Finished,
            started: None,
            quiet_since: Instant::now(),
            connects: 0,
        };
        Some(Self {
            requests: Requests::new(target.clone())?,
            target,
            clients: (0..connections).map(client).collect(),
            poller: Poller::new().ok()?,
            buffer: vec![0; PIECE].into_boxed_slice(),
            random: mix(context.model.workload.seed ^ mix(number as u64 ^ 4)),
            context,
            tally: Tally::default(),
            active: 0,
            runnable: Vec::new(),
            sample: Vec::new(),
            sampled: 0,
            hashes: HashMap::new(),
            ended: Instant::now(),
        })
    }

    pub fn take_sample(&mut self) -> Vec<Written> {
        self.sampled = 0;
        std::mem::take(&mut self.sample)
    }

    /// Opens the connections, waits until all threads have done so, and works until the phase is over.
    pub fn run(&mut self, source: &TaskSource, together: &Barrier) -> PhaseResult {
        for client in &mut self.clients {
            client.connection.close_if_stale(&mut self.poller);
            client.connects = 0;
            if !client.connection.is_open() {
                // A failure here is counted when the client tries again for its first request.
                client.was_open |= client.connection.open(&self.target.address, &mut self.poller).is_ok();
            }
        }
        together.wait();
        let (started, cpu) = (Instant::now(), cpu_time());
        self.ended = started;
        self.active = self.clients.len();
        (0..self.clients.len()).for_each(|client| self.begin(client, source));
        self.work(source);
        let cpu = cpu_time().saturating_sub(cpu);
        PhaseResult { tally: std::mem::take(&mut self.tally), started, ended: self.ended, cpu }
    }

    fn work(&mut self, source: &TaskSource) {
        let mut ready = Vec::new();
        let mut ticked = Instant::now();
        while self.active > 0 && !self.context.is_stopped() {
            let timeout = if self.runnable.is_empty() { TICK } else { Duration::ZERO };
            if self.poller.wait(timeout, &mut ready).is_err() {
                break;
            }
            let now = Instant::now();
            for client in std::mem::take(&mut self.runnable) {
                match self.clients[client].stage {
                    Stage::Hashing { .. } => self.hash(client),
                    _ => self.tick(client, now, source),
                }
            }
            for &client in &ready {
                self.turn(client, now, source);
            }
            if now.duration_since(ticked) >= TICK || ready.is_empty() {
                ticked = now;
                (0..self.clients.len()).for_each(|client| self.tick(client, now, source));
            }
        }
        // After a stop, the result of operations in progress is unknown.
        for at in 0..self.clients.len() {
            if let Some((_, job)) = self.clients[at].job.take() {
                self.clients[at].connection.close(&mut self.poller);
                let _ =
                    job.settle(&self.context.model, &Outcome::Failed(Failure::ConnectionError("stopped".to_owned())));
            }
            self.clients[at].stage = Stage::Finished;
        }
        self.runnable.clear();
    }

    fn tick(&mut self, at: usize, now: Instant, source: &TaskSource) {
        let client = &self.clients[at];
        match client.stage {
            Stage::Waiting(until) if now >= until => self.begin(at, source),
            Stage::Exchanging if now.duration_since(client.quiet_since) > self.target.timeout => {
                self.fail(at, &ConnectionError::TimedOut);
            }
            _ => {}
        }
    }

    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(1);
        mix(self.random)
    }

    /// Starts the next operation of a client, if there is one.
    fn begin(&mut self, at: usize, source: &TaskSource) {
        let random = self.draw();
        let Some(task) = source.next(&self.context) else { return self.retire(at) };
        let model = &self.context.model;
        let (operation, job) = match task {
            Task::Operation(operation) => (operation, Job::pick(operation, model, random)),
            Task::Fill => (Operation::Put, model.objects.claim_new().map(Job::Put)),
            Task::Read(written) => (Operation::Get, Job::read_back(written, model)),
        };
        let Some(job) = job else {
            if !matches!(task, Task::Read(_)) {
                self.tally.record(operation, Outcome::Failed(Failure::NoObject), 0);
                self.context.count(0);
            }
            self.clients[at].stage = Stage::Waiting(Instant::now() + PAUSE);
            return;
        };
        let client = &mut self.clients[at];
        client.job = Some((operation, job));
        client.started = None;
        self.prepare(at);
    }

    fn retire(&mut self, at: usize) {
        self.clients[at].stage = Stage::Finished;
        self.active -= 1;
    }

    /// Makes the next request of the operation of a client.
    fn prepare(&mut self, at: usize) {
        let context = Arc::clone(&self.context);
        let model = &context.model;
        let Some((_, job)) = &self.clients[at].job else { return };
        let step = job.step(model);
        let (signed, identical) = (model.workload.signed_payload, model.workload.identical);
        match step.body {
            Body::Content { offset, length, .. } if signed && self.hashes.contains_key(&(offset, length)) => {
                let hash = self.hashes[&(offset, length)].clone();
                self.send(at, step, Some(&hash));
            }
            Body::Content { content, offset, length } if signed && length <= PIECE as u64 => {
                let body = &mut self.buffer[..length as usize];
                model.pattern.fill(&content, offset, body);
                let hash = sha256_hex(body);
                if identical {
                    self.hashes.insert((offset, length), hash.clone());
                }
                self.send(at, step, Some(&hash));
            }
            Body::Content { .. } if signed => {
                self.clients[at].stage =
                    Stage::Hashing { step: Box::new(step), hasher: Hasher::new(ChecksumAlgorithm::Sha256), done: 0 };
                self.runnable.push(at);
            }
            _ => self.send(at, step, None),
        }
    }

    /// Hashes one piece of a long body, so that clients take turns.
    fn hash(&mut self, at: usize) {
        let stage = std::mem::replace(&mut self.clients[at].stage, Stage::Finished);
        let Stage::Hashing { step, mut hasher, done } = stage else {
            self.clients[at].stage = stage;
            return;
        };
        let Body::Content { content, offset, length } = step.body else { return };
        let piece = (length - done).min(PIECE as u64);
        let bytes = &mut self.buffer[..piece as usize];
        self.context.model.pattern.fill(&content, offset + done, bytes);
        hasher.update(bytes);
        if done + piece < length {
            self.clients[at].stage = Stage::Hashing { step, hasher, done: done + piece };
            self.runnable.push(at);
            return;
        }
        let hash = hex(hasher.finish().as_bytes());
        if self.context.model.workload.identical {
            self.hashes.insert((offset, length), hash.clone());
        }
        self.send(at, *step, Some(&hash));
    }

    /// Signs a request and starts to send it. `hash` is the SHA-256 of its content, if that is signed.
    fn send(&mut self, at: usize, step: Step, hash: Option<&str>) {
        if !self.connect(at) {
            return;
        }
        let client = &mut self.clients[at];
        let document_hash;
        let body = match &step.body {
            Body::None => None,
            Body::Bytes(bytes) => {
                document_hash = sha256_hex(bytes);
                Some((bytes.len() as u64, document_hash.as_str()))
            }
            Body::Content { length, .. } => Some((*length, hash.unwrap_or(UNSIGNED_PAYLOAD))),
        };
        let header = step.header.as_ref().map(|(name, value)| (*name, value.as_str()));
        let parts = RequestParts { method: step.method, key: &step.key, query: &step.query, header, body };
        let out = client.connection.buffer();
        self.requests.write(&parts, out);
        let rest = match &step.body {
            Body::None => None,
            Body::Bytes(bytes) => {
                out.extend_from_slice(bytes);
                None
            }
            Body::Content { content, offset, length } => {
                let first = (*length).min(PIECE as u64);
                append(&self.context.model.pattern, content, *offset, first, out);
                (first < *length).then_some((*content, offset + first, offset + length))
            }
        };
        let receiver = BodyReceiver::new(step.checker);
        client.connection.request(rest, step.method == "HEAD", receiver);
        client.stage = Stage::Exchanging;
        if let (None, Some((_, Job::Put(claim) | Job::Delete(claim)))) = (client.started, &client.job) {
            self.context.model.objects.begin(claim);
        }
        let now = Instant::now();
        client.started.get_or_insert(now);
        client.quiet_since = now;
        if let Err(error) = client.connection.write(&self.context.model.pattern, &mut self.poller) {
            self.fail(at, &error);
        }
    }

    /// Connects if necessary. Returns whether there is a connection; if not, the operation has failed.
    fn connect(&mut self, at: usize) -> bool {
        let client = &mut self.clients[at];
        if client.connection.is_open() {
            return true;
        }
        match client.connection.open(&self.target.address, &mut self.poller) {
            Ok(()) => {
                self.tally.reconnects += u64::from(client.was_open);
                (client.was_open, client.connects) = (true, 0);
                true
            }
            Err(error) => {
                client.connects += 1;
                self.fail(at, &error);
                false
            }
        }
    }

    /// Sends and receives for a client whose connection is ready.
    fn turn(&mut self, at: usize, now: Instant, source: &TaskSource) {
        let client = &mut self.clients[at];
        if !matches!(client.stage, Stage::Exchanging) {
            // There is no request, so the server closes the connection or sends something unexpected.
            client.connection.close(&mut self.poller);
            return;
        }
        client.quiet_since = now;
        let response = match client.connection.turn(&self.context.model.pattern, &mut self.poller, &mut self.buffer) {
            Ok(None) => return,
            Ok(Some(response)) => response,
            Err(error) => return self.fail(at, &error),
        };
        if response.head.closes {
            client.connection.close(&mut self.poller);
        }
        let Some((_, job)) = &mut client.job else { return };
        match job.judge(&self.context.model, &response) {
            Next::Step => self.prepare(at),
            Next::Finished(outcome) => {
                self.finish(at, outcome, response.at);
                self.begin(at, source);
            }
        }
    }

    /// Counts the operation as failed and closes the connection.
    fn fail(&mut self, at: usize, error: &ConnectionError) {
        self.clients[at].connection.close(&mut self.poller);
        let now = Instant::now();
        let name = error.name();
        let sent = self.clients[at].started.is_some();
        self.finish(
            at,
            Outcome::Failed(if sent { Failure::ConnectionError(name) } else { Failure::NotSent(name) }),
            now,
        );
        if self.clients[at].connects >= CONNECTS_MAX {
            self.tally.given_up += 1;
            return self.retire(at);
        }
        if matches!(error, ConnectionError::Connect(_)) {
            self.clients[at].stage = Stage::Waiting(now + PAUSE);
        } else {
            self.clients[at].stage = Stage::Waiting(now);
            self.runnable.push(at);
        }
    }

    fn finish(&mut self, at: usize, outcome: Outcome, now: Instant) {
        let client = &mut self.clients[at];
        let Some((operation, job)) = client.job.take() else { return };
        let took = client.started.map_or(Duration::ZERO, |started| now.duration_since(started));
        self.ended = self.ended.max(now);
        let bytes = if let Outcome::Done(bytes) = outcome { bytes } else { 0 };
        if let Some(written) = job.settle(&self.context.model, &outcome) {
            self.sample_written(written);
        }
        self.tally.record(operation, outcome, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        self.context.count(bytes);
    }

    fn sample_written(&mut self, written: Written) {
        self.sampled += 1;
        if self.sample.len() < SAMPLE {
            self.sample.push(written);
        } else {
            let place = self.draw() % self.sampled;
            if place < SAMPLE as u64 {
                self.sample[place as usize] = written;
            }
        }
    }
}

/// Appends `length` bytes of `content`, from `offset` on.
fn append(pattern: &super::pattern::Pattern, content: &Content, offset: u64, length: u64, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + length as usize, 0);
    pattern.fill(content, offset, &mut out[start..]);
}
