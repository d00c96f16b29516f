//! Content of objects on its way in and out: bodies (`body`, `held`), reads (`reads`); where it is stored (`stored`); and how
//! it is sealed and opened (`encrypting`, `sealing`, `seal_ids`). Must not know how mutations are decided and committed.

pub(crate) mod body;
pub(crate) mod encrypting;
pub(crate) mod held;
pub(crate) mod reads;
pub(crate) mod seal_ids;
pub(crate) mod sealing;
pub(crate) mod stored;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::health::faults::Faults;
use crate::health::space::DiskSpace;
use crate::metrics::EngineMetrics;
use encrypting::ObjectKeys;
use held::HeldBytes;
use orcas_base::buffers::Buffers;
use orcas_base::sync::Mutex;
use orcas_catalog::Catalog;
use orcas_chunks::Packs;
use orcas_log::LogReader;
use orcas_record::RefLevel;
use orcas_store::StoreKeys;
use seal_ids::SealIds;

/// Stores content and reads it.
pub struct Content {
    /// The chunk size of buckets that have none of their own, in bytes.
    pub(crate) chunk_size: u32,
    pub(crate) ref_level: RefLevel,
    pub(crate) keys: ObjectKeys,
    pub(crate) seal_ids: SealIds,
    pub(crate) store_keys: StoreKeys,
    pub(crate) scopes: Mutex<HashMap<Bytes, [u8; 32]>>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) space: Arc<DiskSpace>,
    pub(crate) metrics: Arc<EngineMetrics>,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) held: Arc<HeldBytes>,
    pub(crate) log_reader: LogReader,
    pub(crate) packs: Arc<Packs>,
}
