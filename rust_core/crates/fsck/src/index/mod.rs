//! What the log says the index should be, and what it is: replayed (`replay`), compared row by row (`compare`), and
//! recounted (`census`).

pub(crate) mod census;
pub(crate) mod compare;
pub(crate) mod replay;
