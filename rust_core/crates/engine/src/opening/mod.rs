//! Opening a store and closing it (`open`): replaying what the index lacks (`recover`), repairing a store that is closed
//! (`repair`), and opening the copy of a store that is in use (`standby`).

pub(crate) mod open;
pub(crate) mod recover;
pub(crate) mod repair;
pub(crate) mod standby;
