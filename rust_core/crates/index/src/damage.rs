//! What was found out about the files of an index while it is open: that they are damaged, once, to whoever listens.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use orcas_base::error::Error;
use orcas_base::planted::{self, Bug};

type Listener = Box<dyn Fn(&Arc<str>) + Send + Sync>;

#[derive(Default)]
pub(super) struct Damage {
    /// How often the files were replaced. What a connection to earlier ones meets is of no account.
    generation: AtomicU64,
    found: Mutex<Option<Arc<str>>>,
    listener: OnceLock<Listener>,
}

impl Damage {
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// A connection of `generation` has failed.
    pub fn note(&self, generation: u64, error: &Error) {
        let Error::IndexDamaged { reason } = error else { return };
        {
            let mut found = self.found.lock();
            if found.is_some() || generation != self.generation() || planted::is(Bug::IndexDamageIgnored) {
                return;
            }
            *found = Some(Arc::clone(reason));
        }
        if let Some(listener) = self.listener.get() {
            listener(reason);
        }
    }

    pub fn found(&self) -> Option<Arc<str>> {
        self.found.lock().clone()
    }

    /// Told of damage from now on; of damage that was found before, at once.
    pub fn listen(&self, listener: Listener) {
        let listener = self.listener.get_or_init(|| listener);
        if let Some(reason) = self.found() {
            listener(&reason);
        }
    }

    /// The files are being replaced.
    pub fn advance(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Whole files have taken the place of the damaged ones.
    pub fn clear(&self) {
        *self.found.lock() = None;
    }
}
