//! Behaviour of the whole module.
