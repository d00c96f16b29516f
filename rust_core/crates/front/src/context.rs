//! The state that the requests of one runtime thread share, and the state that those of all threads do.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use http::HeaderValue;
use parking_lot::Mutex;

use crate::connections::conn::{Conn, UnderWay};
use crate::connections::limits::FrontOptions;
use crate::connections::tls::Tls;
use crate::elsewhere::application::Application;
use crate::elsewhere::owner::{Owner, Ownership, PassedCounts, Place};
use crate::waits::Waits;
use orcas_bodies::incomplete::{INCOMPLETE_SHARE, IncompleteBodies, STRANGERS_SHARE};
use orcas_gateway::{Gateway, Responder, now_ms};

/// The application answers everything.
pub const HELD: u8 = 1;
/// Another node carries requests out, or none.
pub const ELSEWHERE: u8 = 2;
/// This node carries requests out until a time.
pub const LEASED: u8 = 4;

/// The state that all threads share.
pub struct Shared {
    pub gateway: Arc<Gateway>,
    pub options: FrontOptions,
    /// The way to the application that answers what is not S3.
    way: Arc<OwnedFd>,
    /// Which of the detours below requests take.
    detours: AtomicU8,
    ownership: Ownership,
    /// Until when this node carries requests out, if it is `LEASED`: in nanoseconds since the machine was started.
    serves_until: AtomicU64,
    pub passed: PassedCounts,
    /// Buckets that the application fetches objects for.
    origins: Mutex<Arc<HashSet<Vec<u8>>>>,
    pub incomplete: Arc<IncompleteBodies<Conn>>,
    pub unverified: Arc<IncompleteBodies<Conn>>,
    /// How often connections were ended, by error code.
    refused: Mutex<BTreeMap<&'static str, u64>>,
    next_conn: AtomicU64,
    pub tls: Tls,
}

impl Shared {
    pub fn new(gateway: Arc<Gateway>, way: OwnedFd, options: FrontOptions) -> Arc<Self> {
        Arc::new(Self {
            gateway,
            way: Arc::new(way),
            detours: AtomicU8::new(if options.is_owner { 0 } else { ELSEWHERE }),
            ownership: Ownership::new(options.threads.max(1), options.is_owner),
            serves_until: AtomicU64::new(0),
            passed: PassedCounts::default(),
            origins: Mutex::default(),
            incomplete: IncompleteBodies::new(options.body_budget / INCOMPLETE_SHARE),
            unverified: IncompleteBodies::new(options.body_budget / STRANGERS_SHARE),
            options,
            refused: Mutex::default(),
            next_conn: AtomicU64::new(0),
            tls: Tls::default(),
        })
    }

    /// Whether the application answers everything.
    pub fn hold(&self, is_held: bool) {
        self.take_detour(HELD, is_held);
    }

    /// The owner of the log is this one from now on.
    ///
    /// # Errors
    /// Says why it cannot be reached in that way; then it stays who it was.
    pub fn set_owner(&self, owner: Owner) -> Result<(), String> {
        self.ownership.set(owner, |place| self.take_detour(ELSEWHERE, !matches!(place, Place::Here)))
    }

    /// Carries requests out for so long from now on, unless that is prolonged.
    pub fn serve_for(&self, time: Duration) {
        let until = since_boot().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.serves_until.store(until, Ordering::Relaxed);
        self.take_detour(LEASED, true);
    }

    /// Whether the time of an owner is over. A process that was stopped learns it from the clock, which goes on also while
    /// the machine sleeps.
    pub fn is_overdue(&self, detours: u8) -> bool {
        detours & LEASED != 0 && since_boot() > self.serves_until.load(Ordering::Relaxed)
    }

    pub fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    fn take_detour(&self, detour: u8, is_taken: bool) {
        if is_taken {
            self.detours.fetch_or(detour, Ordering::Relaxed);
        } else {
            self.detours.fetch_and(!detour, Ordering::Relaxed);
        }
    }

    /// `HELD`, `ELSEWHERE` and `LEASED` (bits), or none, as for most servers at all times.
    pub fn detours(&self) -> u8 {
        self.detours.load(Ordering::Relaxed)
    }

    pub fn set_origins(&self, buckets: HashSet<Vec<u8>>) {
        *self.origins.lock() = Arc::new(buckets);
    }

    pub fn has_origin(&self, bucket: &[u8]) -> bool {
        let origins = Arc::clone(&self.origins.lock());
        origins.contains(bucket)
    }

    /// A connection was ended with an error of this code.
    pub fn count(&self, code: &'static str) {
        *self.refused.lock().entry(code).or_default() += 1;
    }

    pub fn refused(&self) -> BTreeMap<&'static str, u64> {
        self.refused.lock().clone()
    }
}

/// Nanoseconds.
fn since_boot() -> u64 {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    // There it goes on while the machine sleeps.
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The state that the requests of one thread share.
pub struct Context {
    /// Which of the threads it is.
    pub thread: usize,
    pub shared: Arc<Shared>,
    pub waits: Arc<Waits>,
    /// The waits of the thread, as the gateway knows them.
    pub responder: Arc<dyn Responder>,
    pub application: Application,
    date: Mutex<HeaderValue>,
    conns: Mutex<HashMap<u64, Arc<Conn>>>,
}

impl Context {
    pub fn new(shared: &Arc<Shared>, thread: usize) -> Arc<Self> {
        let waits = Arc::<Waits>::default();
        Arc::new(Self {
            thread,
            shared: Arc::clone(shared),
            responder: Arc::clone(&waits) as Arc<dyn Responder>,
            waits,
            application: Application::new(Arc::clone(&shared.way)),
            date: Mutex::new(date_now()),
            conns: Mutex::default(),
        })
    }

    /// The value of Date.
    pub fn date(&self) -> HeaderValue {
        self.date.lock().clone()
    }

    /// A second has passed.
    pub fn tick(&self) {
        *self.date.lock() = date_now();
        for conn in self.conns() {
            conn.tick(&self.shared.options.limits);
        }
    }

    /// The connections that are open.
    pub fn conns(&self) -> Vec<Arc<Conn>> {
        self.conns.lock().values().cloned().collect()
    }

    pub fn count_conns(&self) -> usize {
        self.conns.lock().len()
    }

    pub fn under_way(&self) -> UnderWay {
        self.conns.lock().values().map(|conn| conn.under_way()).sum()
    }

    /// A connection is open until the return value is dropped.
    pub fn open(self: &Arc<Self>, conn: &Arc<Conn>) -> Open {
        let number = self.shared.next_conn.fetch_add(1, Ordering::Relaxed);
        self.conns.lock().insert(number, Arc::clone(conn));
        Open { context: Arc::clone(self), number }
    }
}

pub struct Open {
    context: Arc<Context>,
    number: u64,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.context.conns.lock().remove(&self.number);
    }
}

fn date_now() -> HeaderValue {
    let now = UNIX_EPOCH + Duration::from_millis(now_ms().unsigned_abs());
    HeaderValue::try_from(httpdate::fmt_http_date(now)).unwrap_or(HeaderValue::from_static(""))
}
