//! What is counted, measured and logged of requests.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::accounting::causes::Causes;
use crate::accounting::metering::UsageMeter;
use crate::accounting::tally::Watch;
use crate::accounting::traced::TracedQueue;
use crate::gateway::{GatewayOptions, now_ms};
use orcas_engine::Usage;
use orcas_telemetry::access_log::parcels::Deliveries;
use orcas_telemetry::access_log::queue::LineQueue;
use orcas_telemetry::metrics::requests::RequestMetrics;

pub struct Observation {
    pub metrics: RequestMetrics,
    pub watch: Watch,
    /// What requests cost whom.
    pub meter: UsageMeter,
    /// Read a moment ago, for the page of metrics.
    pub usage: Mutex<Option<(Instant, Arc<Usage>)>>,
    /// Lines of the access log.
    pub access_lines: LineQueue,
    /// Why requests were refused.
    pub causes: Causes,
    /// Traced requests that are done.
    pub traced: TracedQueue,
    /// Records for the buckets that want them.
    pub deliveries: Deliveries,
}

impl Observation {
    pub fn new(options: &GatewayOptions) -> Self {
        Self {
            metrics: RequestMetrics::default(),
            watch: Watch::new(options.slow_request, options.metrics, options.traces),
            meter: UsageMeter::new(options.meters_usage, now_ms),
            usage: Mutex::new(None),
            access_lines: LineQueue::default(),
            causes: Causes::default(),
            traced: TracedQueue::default(),
            deliveries: Deliveries::default(),
        }
    }
}
