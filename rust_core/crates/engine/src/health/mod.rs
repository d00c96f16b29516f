//! How the store is (`condition`, `faults`), what it takes (`usage`), and what it keeps to have room (`space`, `ballast`).

pub(crate) mod ballast;
pub(crate) mod condition;
pub(crate) mod faults;
pub(crate) mod space;
pub(crate) mod usage;
