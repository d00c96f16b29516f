//! One thread of a load: its connections in turn, each with one operation under way, the next as soon as one has ended.
//!
//! One thread and epoll for many connections: a thread for each connection was measured to cost more processor time, the
//! more so the more there are, in the server too, from which switching between them takes its share. The clock of an
//! operation runs from just before its first byte is written until just after its last one was read.

use std::collections::HashMap;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::connection::{Broken, Connection, PIECE, Receiver};
use super::job::{Body, Job, Next, Step, Written};
use super::pattern::{Content, mix};
use super::plan::{Operation, Target};
use super::poller::Poller;
use super::requests::{Draft, Requests, UNSIGNED_PAYLOAD};
use super::tally::{Failure, Outcome, Tally};
use super::tasks::{LoadContext, Task, TaskSource};
use orcas_checksum::{ChecksumAlgorithm, Hasher};
use orcas_http::hex;
use orcas_sigv4::sha256_hex;

/// How often time limits and the wish to stop are looked at.
const TICK: Duration = Duration::from_millis(50);
/// Before the next attempt to connect, or to find something to act on.
const PAUSE: Duration = Duration::from_millis(20);
/// Attempts to connect, one after the other, after which a connection is given up: a server that is gone ends a run.
const CONNECTS_MAX: u32 = 50;
/// Things written that are kept to be read again.
const SAMPLE: usize = 64;

/// What one connection is doing.
enum Stage {
    /// Nothing more.
    Resting,
    Pausing(Instant),
    /// A long body is being hashed, up to here.
    Hashing {
        step: Box<Step>,
        hasher: Hasher,
        done: u64,
    },
    Exchanging,
}

struct Lane {
    connection: Connection,
    was_open: bool,
    job: Option<(Operation, Job)>,
    stage: Stage,
    /// Of the operation. `None` until its first request is sent.
    started: Option<Instant>,
    /// Since when nothing was sent or received.
    quiet_since: Instant,
    connects: u32,
}

/// What a thread did in one phase.
pub struct Ran {
    pub tally: Tally,
    pub started: Instant,
    pub ended: Instant,
    /// Processor time of this thread between the two.
    pub cpu: Duration,
}

pub struct Worker {
    target: Target,
    context: Arc<LoadContext>,
    lanes: Vec<Lane>,
    poller: Poller,
    requests: Requests,
    buffer: Box<[u8]>,
    random: u64,
    tally: Tally,
    active: usize,
    /// Lanes that go on without waiting for their connection: they hash, or begin anew.
    eager: Vec<usize>,
    /// A sample of what was written, each as likely as the others (Vitter's algorithm R), and how many there were.
    sample: Vec<Written>,
    sampled: u64,
    /// Of identical bodies and parts, by offset and length.
    hashes: HashMap<(u64, u64), String>,
    ended: Instant,
}

/// Processor time of this thread.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

impl Worker {
    /// `None` when nothing can be signed at this machine's time, or the system gives no poller.
    pub fn new(target: Target, context: Arc<LoadContext>, connections: usize, number: usize) -> Option<Self> {
        let lane = |token| Lane {
            connection: Connection::new(token),
            was_open: false,
            job: None,
            stage: Stage::Resting,
            started: None,
            quiet_since: Instant::now(),
            connects: 0,
        };
        Some(Self {
            requests: Requests::new(target.clone())?,
            target,
            lanes: (0..connections).map(lane).collect(),
            poller: Poller::new().ok()?,
            buffer: vec![0; PIECE].into_boxed_slice(),
            random: mix(context.know.workload.seed ^ mix(number as u64 ^ 4)),
            context,
            tally: Tally::default(),
            active: 0,
            eager: Vec::new(),
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

    /// Opens what is not open, waits until all threads have, and works until there is no more to do.
    pub fn run(&mut self, source: &TaskSource, together: &Barrier) -> Ran {
        for lane in &mut self.lanes {
            lane.connection.close_if_stale(&mut self.poller);
            lane.connects = 0;
            if !lane.connection.is_open() {
                // Who has no connection by then tries again, and counts it.
                lane.was_open |= lane.connection.open(&self.target.address, &mut self.poller).is_ok();
            }
        }
        together.wait();
        let (started, cpu) = (Instant::now(), cpu_time());
        self.ended = started;
        self.active = self.lanes.len();
        (0..self.lanes.len()).for_each(|lane| self.begin(lane, source));
        self.work(source);
        let cpu = cpu_time().saturating_sub(cpu);
        Ran { tally: std::mem::take(&mut self.tally), started, ended: self.ended, cpu }
    }

    fn work(&mut self, source: &TaskSource) {
        let mut ready = Vec::new();
        let mut ticked = Instant::now();
        while self.active > 0 && !self.context.is_stopped() {
            let timeout = if self.eager.is_empty() { TICK } else { Duration::ZERO };
            if self.poller.wait(timeout, &mut ready).is_err() {
                break;
            }
            let now = Instant::now();
            for lane in std::mem::take(&mut self.eager) {
                match self.lanes[lane].stage {
                    Stage::Hashing { .. } => self.hash(lane),
                    _ => self.tick(lane, now, source),
                }
            }
            for &lane in &ready {
                self.turn(lane, now, source);
            }
            if now.duration_since(ticked) >= TICK || ready.is_empty() {
                ticked = now;
                (0..self.lanes.len()).for_each(|lane| self.tick(lane, now, source));
            }
        }
        // Stopped: what is under way is not waited for, and nobody knows what became of it.
        for at in 0..self.lanes.len() {
            if let Some((_, job)) = self.lanes[at].job.take() {
                self.lanes[at].connection.close(&mut self.poller);
                let _ = job.settle(&self.context.know, &Outcome::Failed(Failure::Broken("stopped".to_owned())));
            }
            self.lanes[at].stage = Stage::Resting;
        }
        self.eager.clear();
    }

    fn tick(&mut self, at: usize, now: Instant, source: &TaskSource) {
        let lane = &self.lanes[at];
        match lane.stage {
            Stage::Pausing(until) if now >= until => self.begin(at, source),
            Stage::Exchanging if now.duration_since(lane.quiet_since) > self.target.timeout => {
                self.broke(at, &Broken::TimedOut);
            }
            _ => {}
        }
    }

    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(1);
        mix(self.random)
    }

    /// Begins the next operation of a lane, if there is one.
    fn begin(&mut self, at: usize, source: &TaskSource) {
        let random = self.draw();
        let Some(task) = source.next(&self.context) else { return self.rest(at) };
        let know = &self.context.know;
        let (operation, job) = match task {
            Task::Ask(operation) => (operation, Job::pick(operation, know, random)),
            Task::Fill => (Operation::Put, know.space.claim_new().map(Job::Put)),
            Task::Read(written) => (Operation::Get, Job::read_back(written, know)),
        };
        let Some(job) = job else {
            if !matches!(task, Task::Read(_)) {
                self.tally.record(operation, Outcome::Failed(Failure::NothingThere), 0);
                self.context.count(0);
            }
            self.lanes[at].stage = Stage::Pausing(Instant::now() + PAUSE);
            return;
        };
        let lane = &mut self.lanes[at];
        lane.job = Some((operation, job));
        lane.started = None;
        self.prepare(at);
    }

    fn rest(&mut self, at: usize) {
        self.lanes[at].stage = Stage::Resting;
        self.active -= 1;
    }

    /// Makes the next request of a lane's operation.
    fn prepare(&mut self, at: usize) {
        let context = Arc::clone(&self.context);
        let know = &context.know;
        let Some((_, job)) = &self.lanes[at].job else { return };
        let step = job.step(know);
        let (signed, identical) = (know.workload.signed_payload, know.workload.identical);
        match step.body {
            Body::Content { offset, length, .. } if signed && self.hashes.contains_key(&(offset, length)) => {
                let hash = self.hashes[&(offset, length)].clone();
                self.send(at, step, Some(&hash));
            }
            Body::Content { content, offset, length } if signed && length <= PIECE as u64 => {
                let body = &mut self.buffer[..length as usize];
                know.pattern.fill(&content, offset, body);
                let hash = sha256_hex(body);
                if identical {
                    self.hashes.insert((offset, length), hash.clone());
                }
                self.send(at, step, Some(&hash));
            }
            Body::Content { .. } if signed => {
                self.lanes[at].stage =
                    Stage::Hashing { step: Box::new(step), hasher: Hasher::new(ChecksumAlgorithm::Sha256), done: 0 };
                self.eager.push(at);
            }
            _ => self.send(at, step, None),
        }
    }

    /// Hashes one piece of a long body, so that the other lanes get their turn.
    fn hash(&mut self, at: usize) {
        let stage = std::mem::replace(&mut self.lanes[at].stage, Stage::Resting);
        let Stage::Hashing { step, mut hasher, done } = stage else {
            self.lanes[at].stage = stage;
            return;
        };
        let Body::Content { content, offset, length } = step.body else { return };
        let piece = (length - done).min(PIECE as u64);
        let bytes = &mut self.buffer[..piece as usize];
        self.context.know.pattern.fill(&content, offset + done, bytes);
        hasher.update(bytes);
        if done + piece < length {
            self.lanes[at].stage = Stage::Hashing { step, hasher, done: done + piece };
            self.eager.push(at);
            return;
        }
        let hash = hex(hasher.finish().as_bytes());
        if self.context.know.workload.identical {
            self.hashes.insert((offset, length), hash.clone());
        }
        self.send(at, *step, Some(&hash));
    }

    /// Signs a request and begins to send it. `hash`: of its content, if that is signed.
    fn send(&mut self, at: usize, step: Step, hash: Option<&str>) {
        if !self.connect(at) {
            return;
        }
        let lane = &mut self.lanes[at];
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
        let draft = Draft { method: step.method, key: &step.key, query: &step.query, header, body };
        let out = lane.connection.buffer();
        self.requests.write(&draft, out);
        let rest = match &step.body {
            Body::None => None,
            Body::Bytes(bytes) => {
                out.extend_from_slice(bytes);
                None
            }
            Body::Content { content, offset, length } => {
                let first = (*length).min(PIECE as u64);
                append(&self.context.know.pattern, content, *offset, first, out);
                (first < *length).then_some((*content, offset + first, offset + length))
            }
        };
        let receiver = Receiver::new(step.checker);
        lane.connection.request(rest, step.method == "HEAD", receiver);
        lane.stage = Stage::Exchanging;
        if let (None, Some((_, Job::Put(claim) | Job::Delete(claim)))) = (lane.started, &lane.job) {
            self.context.know.space.begin(claim);
        }
        let now = Instant::now();
        lane.started.get_or_insert(now);
        lane.quiet_since = now;
        if let Err(broken) = lane.connection.write(&self.context.know.pattern, &mut self.poller) {
            self.broke(at, &broken);
        }
    }

    /// Whether the lane has a connection. If not, its operation has failed.
    fn connect(&mut self, at: usize) -> bool {
        let lane = &mut self.lanes[at];
        if lane.connection.is_open() {
            return true;
        }
        match lane.connection.open(&self.target.address, &mut self.poller) {
            Ok(()) => {
                self.tally.reconnects += u64::from(lane.was_open);
                (lane.was_open, lane.connects) = (true, 0);
                true
            }
            Err(broken) => {
                lane.connects += 1;
                self.broke(at, &broken);
                false
            }
        }
    }

    /// Goes on with what a lane sends and receives.
    fn turn(&mut self, at: usize, now: Instant, source: &TaskSource) {
        let lane = &mut self.lanes[at];
        if !matches!(lane.stage, Stage::Exchanging) {
            // Nothing was asked: the server ends the connection, or says what nobody wants to know.
            lane.connection.close(&mut self.poller);
            return;
        }
        lane.quiet_since = now;
        let answer = match lane.connection.turn(&self.context.know.pattern, &mut self.poller, &mut self.buffer) {
            Ok(None) => return,
            Ok(Some(answer)) => answer,
            Err(broken) => return self.broke(at, &broken),
        };
        if answer.head.closes {
            lane.connection.close(&mut self.poller);
        }
        let Some((_, job)) = &mut lane.job else { return };
        match job.answer(&self.context.know, &answer) {
            Next::Step => self.prepare(at),
            Next::Finished(outcome) => {
                self.finish(at, outcome, answer.at);
                self.begin(at, source);
            }
        }
    }

    /// There is no answer: the operation has failed, and the connection is of no more use.
    fn broke(&mut self, at: usize, broken: &Broken) {
        self.lanes[at].connection.close(&mut self.poller);
        let now = Instant::now();
        let name = broken.name();
        let sent = self.lanes[at].started.is_some();
        self.finish(at, Outcome::Failed(if sent { Failure::Broken(name) } else { Failure::NotSent(name) }), now);
        if self.lanes[at].connects >= CONNECTS_MAX {
            self.tally.given_up += 1;
            return self.rest(at);
        }
        if matches!(broken, Broken::Connect(_)) {
            self.lanes[at].stage = Stage::Pausing(now + PAUSE);
        } else {
            self.lanes[at].stage = Stage::Pausing(now);
            self.eager.push(at);
        }
    }

    fn finish(&mut self, at: usize, outcome: Outcome, now: Instant) {
        let lane = &mut self.lanes[at];
        let Some((operation, job)) = lane.job.take() else { return };
        let took = lane.started.map_or(Duration::ZERO, |started| now.duration_since(started));
        self.ended = self.ended.max(now);
        let bytes = if let Outcome::Done(bytes) = outcome { bytes } else { 0 };
        if let Some(written) = job.settle(&self.context.know, &outcome) {
            self.keep(written);
        }
        self.tally.record(operation, outcome, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        self.context.count(bytes);
    }

    fn keep(&mut self, written: Written) {
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

/// Appends `length` bytes of a content.
fn append(pattern: &super::pattern::Pattern, content: &Content, offset: u64, length: u64, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + length as usize, 0);
    pattern.fill(content, offset, &mut out[start..]);
}
