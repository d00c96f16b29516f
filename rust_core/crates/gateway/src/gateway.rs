//! The server as front ends see it: they begin and finish requests here. One per process; knows nothing of front ends.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::accounting::observation::Observation;
use orcas_admission::access_control::AccessControl;
use orcas_admission::ingress::now_ms;
use orcas_admission::options::GatewayOptions;
use orcas_admission::senders::identities::Identities;
use orcas_base::error::Result;
use orcas_engine::{Change, EventSink, Handle, Place};
use orcas_event_streams::EventStreams;
use orcas_metrics::Format;
use orcas_requests::services::Services;
use orcas_responses::response::Envelope;
use orcas_telemetry::metrics::page::Sources;
use orcas_telemetry::metrics::process::ProcessMetrics;

pub struct Gateway {
    pub engine: Handle,
    pub services: Arc<Services>,
    pub observation: Observation,
    pub events: Arc<EventStreams>,
    /// Streams of lines of those who are not root, by account.
    pub(crate) listening: Mutex<HashMap<String, usize>>,
}

impl Gateway {
    pub fn new(engine: Handle, options: GatewayOptions, identities: Identities) -> Result<Arc<Self>> {
        let services = Arc::new(Services::new(engine.clone(), options, identities)?);
        let options = &services.access.options;
        let host_id = Arc::clone(&services.ids.host_id);
        let gateway = Arc::new(Self {
            observation: Observation::new(options.meters_usage, &services.access.access_lines),
            events: EventStreams::new(engine.clone(), options.region.clone(), host_id, options.events_listeners_max),
            engine,
            services,
            listening: Mutex::default(),
        });
        // What is taken from here on is heard of; what was taken before is in the journal.
        gateway.engine.on_events(Arc::new(JournalListener(Arc::downgrade(&gateway))));
        gateway.events.hub.begin(gateway.engine.events_reached());
        if !gateway.access().options.event_targets.is_empty() {
            // As long as the server runs, somebody listens.
            gateway.engine.add_listener();
        }
        Ok(gateway)
    }

    /// The access control of the store.
    pub fn access(&self) -> &AccessControl {
        &self.services.access
    }

    /// The parts of responses that name the request for `path`, as it stood in the request line.
    pub fn envelope(&self, method: &[u8], path: &[u8]) -> Envelope {
        self.services.ids.envelope(method, path)
    }

    /// The page of all metrics. Blocks.
    pub fn metrics_page(&self, format: Format, around: &ProcessMetrics) -> String {
        let sources = Sources {
            engine: &self.engine,
            metrics: &self.services.metrics,
            usage: &self.observation.usage,
            access_lines: &self.observation.access_lines,
            lockouts: self.access().signers.lockouts.total(),
            deliveries: &self.observation.deliveries,
            budget: &self.services.bodies.budget,
            signing_keys: &self.access().signers.signing_keys,
            listeners: self.events.hub.listeners(),
            now_ms: now_ms(),
        };
        sources.page(format, around)
    }

    /// Runs what the workers have queued, then ends them. To be called before the engine is closed.
    pub fn close(&self) {
        self.services.bodies.intake_pool.close();
        self.services.pool.close();
    }
}

/// Passes on to listeners what the journal has taken.
struct JournalListener(Weak<Gateway>);

impl EventSink for JournalListener {
    fn taken(&self, changes: Option<&[Change]>, place: Place) {
        if let Some(gateway) = self.0.upgrade() {
            gateway.events.hub.taken(changes, place).into_iter().for_each(|resume| resume());
        }
    }
}
