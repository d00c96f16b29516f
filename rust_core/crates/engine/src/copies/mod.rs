//! Copies that read their source: for a digest that is not stored (`copy`), or because what it holds is stored again, with
//! its annotations (`annotations_again`).

mod annotations_again;
pub(crate) mod copy;
