//! Opening a store and closing it (`open`): replaying what the index lacks (`recover`), and repairing a store that is
//! closed (`repair`).

pub(crate) mod open;
pub(crate) mod recover;
pub(crate) mod repair;
