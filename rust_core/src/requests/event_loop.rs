//! The event loop of Python as the front end of requests: what they wait for is queued, and a descriptor wakes the loop.

use std::path::Path;

use orcas_base::completions::{Completions, Drained};
use orcas_base::error::{Error, Result};
use orcas_gateway::{Completion, Responder};

pub struct EventLoop {
    completions: Completions<(u32, Completion)>,
}

impl EventLoop {
    pub fn new() -> Result<Self> {
        let failed = |source| Error::io("start", Path::new("event loop"), source);
        Ok(Self { completions: Completions::new().map_err(failed)? })
    }

    /// Readable while `drain` has something to return.
    pub fn raw_fd(&self) -> i32 {
        self.completions.raw_fd()
    }

    /// The slots that were completed since the last call.
    pub fn drain(&self) -> Drained<'_, (u32, Completion)> {
        self.completions.drain()
    }
}

impl Responder for EventLoop {
    fn complete_quietly(&self, slot: u32, completion: Completion) -> bool {
        self.completions.push_quietly((slot, completion))
    }

    fn wake(&self) {
        self.completions.wake();
    }
}
