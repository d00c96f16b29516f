//! Buckets: their names, settings and quotas, snapshots and forks, and the layers that these are made of.

pub(crate) mod changes;
pub(crate) mod creation;
pub(crate) mod histories;
pub(crate) mod layers;
pub(crate) mod quotas;
pub(crate) mod snapshots;
