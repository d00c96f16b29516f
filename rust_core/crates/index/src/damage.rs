//! Damage that was found in the files of an open index, and the listener to which it is reported once.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use orcas_base::error::Error;
use orcas_base::planted::{self, Bug};

type Listener = Box<dyn Fn(&Arc<str>) + Send + Sync>;

#[derive(Default)]
pub(super) struct Damage {
    /// How often the files were replaced. Errors of connections to earlier files are ignored.
    generation: AtomicU64,
    found: Mutex<Option<Arc<str>>>,
    listener: OnceLock<Listener>,
}

impl Damage {
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Records an error of a connection that was opened in `generation`, if it means damage, and reports the first one.
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

    /// Sets the listener, and calls it at once if damage was found before.
    pub fn listen(&self, listener: Listener) {
        let listener = self.listener.get_or_init(|| listener);
        if let Some(reason) = self.found() {
            listener(&reason);
        }
    }

    /// Starts a generation, because the files are being replaced.
    pub fn advance(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// To be called when intact files have replaced the damaged ones.
    pub fn clear(&self) {
        *self.found.lock() = None;
    }
}
