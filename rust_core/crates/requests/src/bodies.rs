//! The threads and the memory that bodies of requests and responses share.

use std::path::Path;
use std::sync::Arc;

use crate::store_body::StoreBody;
use orcas_base::buffers::Buffers;
use orcas_base::error::{Error, Result};
use orcas_bodies::budget::Budget;
use orcas_bodies::download::Downloads;
use orcas_bodies::pool::Pool;
use orcas_bodies::prefixes::Prefixes;
use orcas_bodies::worker_group::WorkerGroup;

pub struct Bodies {
    /// Streamed bodies without a SHA-256. A pool of their own, so that hashing and syncs do not delay reads. Fewer
    /// workers than processors, because connections need one and because fewer workers have more bodies per turn.
    pub intake: Arc<WorkerGroup<StoreBody>>,
    /// Streamed bodies with a SHA-256, which gains little from several bodies per turn: one worker per processor.
    pub intake_sha256: Arc<WorkerGroup<StoreBody>>,
    /// The threads of both. Those that are left run the ends of bodies, and pieces of requests that take long.
    pub intake_pool: Arc<Pool>,
    pub budget: Arc<Budget>,
    pub downloads: Arc<Downloads>,
    /// The engine's.
    pub buffers: Arc<Buffers>,
    pub prefixes: Arc<Prefixes>,
}

impl Bodies {
    /// `readers` read what downloads send; `workers` threads receive, and `budget` bytes are in memory at most.
    pub fn new(readers: &Arc<Pool>, buffers: &Arc<Buffers>, workers: usize, budget: u64) -> Result<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        // At most a third of the threads for each group, the others for the ends of bodies.
        let threads = workers.max(3);
        let failed = |source| Error::io("start", Path::new("gateway"), source);
        let intake_pool = Arc::new(Pool::yielding(threads).map_err(failed)?);
        let group = |workers: usize| WorkerGroup::new(Arc::clone(&intake_pool), workers.clamp(1, threads / 3));
        Ok(Self {
            intake: group(processors - 1),
            intake_sha256: group(processors),
            downloads: Downloads::new(Arc::clone(readers), Arc::clone(buffers), budget),
            budget: Budget::new(budget),
            buffers: Arc::clone(buffers),
            prefixes: Arc::default(),
            intake_pool,
        })
    }
}
