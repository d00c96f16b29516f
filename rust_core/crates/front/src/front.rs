//! The front as a whole: its threads, and how they start and stop.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Builder;
use tokio::sync::watch;

use crate::connections::conn::UnderWay;
use crate::connections::limits::FrontOptions;
use crate::connections::tls::{Certificate, TlsOptions};
use crate::context::{Context, Shared};
use crate::elsewhere::owner::Owner;
use crate::worker::{self, Phase};
use orcas_gateway::Gateway;

/// Time that requests have to end that were cut off.
const CUT: Duration = Duration::from_secs(5);

pub struct Front {
    shared: Arc<Shared>,
    contexts: Vec<Arc<Context>>,
    phase: watch::Sender<Phase>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Front {
    /// Serves connections to `listeners`, which listen already and outlive the front. What is not S3 is passed on over
    /// sockets that are sent over `application`. With `tls`, connections speak TLS.
    pub fn start(
        gateway: Arc<Gateway>,
        listeners: &[BorrowedFd<'_>],
        application: BorrowedFd<'_>,
        options: FrontOptions,
        tls: Option<&TlsOptions>,
    ) -> io::Result<Self> {
        let threads = options.threads.max(1);
        let shared = Shared::new(gateway, application.try_clone_to_owned()?, options);
        if let Some(tls) = tls {
            shared.tls.use_options(tls).map_err(io::Error::other)?;
        }
        let (phase, told) = watch::channel(Phase::Serve);
        let front = Self {
            contexts: (0..threads).map(|thread| Context::new(&shared, thread)).collect(),
            shared,
            phase,
            threads: Mutex::default(),
        };
        for context in &front.contexts {
            let listeners: Vec<_> = listeners.iter().map(BorrowedFd::try_clone_to_owned).collect::<io::Result<_>>()?;
            listeners.iter().try_for_each(|listener| rustix::io::ioctl_fionbio(listener, true))?;
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (context, told) = (Arc::clone(context), told.clone());
            let thread = std::thread::Builder::new().name("orcas-front".into()).spawn(move || {
                if let Err(error) = runtime.block_on(worker::run(context, listeners, told)) {
                    tracing::error!(%error, "A thread of the listener has ended");
                }
            })?;
            front.threads.lock().push(thread);
        }
        Ok(front)
    }

    /// Accepts no more and gives requests under way `drain_timeout` to end. Returns what was cut off. Blocks.
    pub fn stop(&self, drain_timeout: Duration) -> UnderWay {
        self.phase.send_if_modified(|phase| {
            let is_new = *phase < Phase::Drain;
            *phase = Phase::Drain.max(*phase);
            is_new
        });
        let threads = std::mem::take(&mut *self.threads.lock());
        let wait = |until: Instant| {
            while threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            threads.iter().all(JoinHandle::is_finished)
        };
        let until = Instant::now() + drain_timeout;
        while *self.phase.borrow() < Phase::Cut && Instant::now() < until {
            if wait(Instant::now() + Duration::from_millis(50)) {
                break;
            }
        }
        let cut = self.under_way();
        self.phase.send_replace(Phase::Cut);
        if wait(Instant::now() + CUT) {
            threads.into_iter().for_each(|thread| drop(thread.join()));
        }
        cut
    }

    /// Stops waiting in `stop`.
    pub fn cut(&self) {
        self.phase.send_replace(Phase::Cut);
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.contexts.iter().map(|context| context.count_conns()).sum()
    }

    /// The requests and answers that a stop would wait for.
    pub fn under_way(&self) -> UnderWay {
        self.contexts.iter().map(|context| context.under_way()).sum()
    }

    /// How often connections were ended with an answer of their own, by error code.
    pub fn refused(&self) -> BTreeMap<&'static str, u64> {
        self.shared.refused()
    }

    /// The buckets for which the application fetches what they lack.
    pub fn set_origins(&self, buckets: HashSet<Vec<u8>>) {
        self.shared.set_origins(buckets);
    }

    /// New connections speak TLS with these certificates.
    ///
    /// # Errors
    /// Says why they cannot be used; then those before stay.
    pub fn use_tls(&self, tls: &TlsOptions) -> Result<(), String> {
        self.shared.tls.use_options(tls)
    }

    /// CAs that ask for challenges get these certificates from now on, each for exactly its names, and no others.
    ///
    /// # Errors
    /// Says why they cannot be used; then those before stay.
    pub fn use_challenges(&self, certificates: &[Certificate]) -> Result<(), String> {
        self.shared.tls.use_challenges(certificates)
    }

    /// Whether the application answers everything.
    pub fn hold(&self, is_held: bool) {
        self.shared.hold(is_held);
    }

    /// The node that carries requests out from now on; those that were begun end where they are.
    ///
    /// # Errors
    /// Says why requests cannot be passed on to it; then it stays who it was.
    pub fn set_owner(&self, owner: Owner) -> Result<(), String> {
        self.shared.set_owner(owner)
    }

    /// From now on this node carries requests out for so long, unless that is prolonged, and refuses them then.
    pub fn serve_for(&self, time: Duration) {
        self.shared.serve_for(time);
    }

    /// How often requests were passed on to the owner, by what came of it.
    pub fn passed(&self) -> [(&'static str, u64); 5] {
        self.shared.passed.read()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        // The threads end by themselves: nothing waits for them here.
        self.phase.send_replace(Phase::Cut);
    }
}
