//! The services that requests in progress share. There is one set per process; it knows nothing of front ends.

use std::path::Path;
use std::sync::Arc;

use crate::aborted::Aborted;
use crate::bodies::Bodies;
use crate::challenge::Challenger;
use crate::replication::Replications;
use crate::tally::Watch;
use orcas_admission::access_control::AccessControl;
use orcas_admission::ingress::now_ms;
use orcas_admission::options::GatewayOptions;
use orcas_admission::senders::identities::Identities;
use orcas_admission::senders::signers::Signers;
use orcas_base::error::{Error, Result};
use orcas_bodies::pool::Pool;
use orcas_engine::Handle;
use orcas_responses::request_ids::RequestIds;
use orcas_telemetry::metrics::requests::RequestMetrics;

pub struct Services {
    pub engine: Handle,
    /// Cold reads, listings, small bodies.
    pub pool: Arc<Pool>,
    pub access: AccessControl,
    pub bodies: Bodies,
    pub ids: RequestIds,
    pub metrics: RequestMetrics,
    pub watch: Watch,
    pub challenger: Challenger,
    pub aborted: Aborted,
    pub replications: Replications,
}

impl Services {
    pub fn new(engine: Handle, options: GatewayOptions, identities: Identities) -> Result<Self> {
        let failed = |source| Error::io("start", Path::new("gateway"), source);
        let random =
            |bytes: &mut [u8]| getrandom::fill(bytes).map_err(|error| failed(std::io::Error::other(error.to_string())));
        let (mut mask, mut host, mut challenges) = ([0; 8], [0; 12], [0; 32]);
        random(&mut mask)?;
        random(&mut host)?;
        random(&mut challenges)?;
        let pool = Arc::new(Pool::new(options.workers).map_err(failed)?);
        Ok(Self {
            bodies: Bodies::new(&pool, engine.buffers(), options.workers, options.body_budget)?,
            ids: RequestIds::new(mask, orcas_checksum::base64_encode(&host).into()),
            metrics: RequestMetrics::default(),
            watch: Watch::new(options.slow_request, options.metrics, options.traces),
            challenger: Challenger::new(&challenges),
            aborted: Aborted::default(),
            replications: Replications::default(),
            access: AccessControl {
                engine: engine.clone(),
                pool: Arc::clone(&pool),
                signers: Signers::new(identities, &options.lockout, now_ms()),
                options,
                access_lines: Arc::default(),
            },
            engine,
            pool,
        })
    }
}
