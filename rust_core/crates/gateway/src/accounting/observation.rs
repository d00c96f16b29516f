//! Observation of requests that are done: they are counted and logged.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::accounting::causes::Causes;
use crate::accounting::metering::UsageMeter;
use crate::accounting::traced::TracedQueue;
use orcas_admission::ingress::now_ms;
use orcas_engine::Usage;
use orcas_telemetry::access_log::batches::{Deliveries, Due, LogObject};
use orcas_telemetry::access_log::queue::LineQueue;

pub struct Observation {
    /// The meter of usage, by owner.
    pub meter: UsageMeter,
    /// Read a moment ago, for the page of metrics.
    pub usage: Mutex<Option<(Instant, Arc<Usage>)>>,
    /// Lines of the access log.
    pub access_lines: Arc<LineQueue>,
    /// Why requests were refused.
    pub causes: Causes,
    /// Traced requests that are done.
    pub traced: TracedQueue,
    /// Records for the buckets that want them.
    pub deliveries: Deliveries,
}

impl Observation {
    pub fn new(meters_usage: bool, access_lines: &Arc<LineQueue>) -> Self {
        Self {
            meter: UsageMeter::new(meters_usage, now_ms),
            usage: Mutex::new(None),
            access_lines: Arc::clone(access_lines),
            causes: Causes::default(),
            traced: TracedQueue::default(),
            deliveries: Deliveries::default(),
        }
    }

    /// The objects of records that have waited long enough.
    pub fn due_logs(&self, due: Due) -> Vec<LogObject> {
        self.deliveries.take(due, Instant::now(), now_ms())
    }
}
