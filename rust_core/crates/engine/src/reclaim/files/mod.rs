//! Reclaiming the space of log files (`logs`, `compaction`, `keep`) and packs (`packs`, `pack_space`), and rewriting what
//! an older key seals (`renew`, `left_to_renew`).

pub(crate) mod compaction;
pub(crate) mod keep;
pub(crate) mod left_to_renew;
pub(crate) mod logs;
pub(crate) mod pack_space;
pub(crate) mod packs;
pub(crate) mod renew;
