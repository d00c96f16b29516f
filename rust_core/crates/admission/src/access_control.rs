//! What it takes to find out who sends a request and what they may do: identities, the documents of buckets, and what the
//! operator chose.

use std::sync::Arc;

use crate::ingress::now_ms;
use crate::options::GatewayOptions;
use crate::senders::identities::Identities;
use crate::senders::signers::Signers;
use orcas_base::sync::Loaded;
use orcas_bodies::pool::Pool;
use orcas_engine::Handle;
use orcas_telemetry::access_log::queue::LineQueue;

pub struct AccessControl {
    pub engine: Handle,
    /// Threads that may wait for the index.
    pub pool: Arc<Pool>,
    pub signers: Signers,
    pub options: GatewayOptions,
    /// Lines of the access log, which have access decisions if somebody takes them.
    pub access_lines: Arc<LineQueue>,
}

impl AccessControl {
    /// Who may sign, and who may do what, at this moment.
    #[inline]
    pub fn identities(&self) -> Loaded<Identities> {
        self.signers.identities()
    }

    /// The time by which signatures and sessions expire.
    pub fn now_ms(&self) -> i64 {
        now_ms() + self.engine.clock_ahead_ms()
    }
}
