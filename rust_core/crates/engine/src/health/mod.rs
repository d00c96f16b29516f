//! How the store is (`condition`, `faults`), what it takes (`usage`), and the room that it has (`space`).

pub(crate) mod condition;
pub(crate) mod faults;
pub(crate) mod space;
pub(crate) mod usage;
