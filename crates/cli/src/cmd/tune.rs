//! `foreread tune`: which window a device needs.
//!
//! In:    the name of a model.
//! Out:   a probe that answers for it.
//! Never: a device that is not named.

#[cfg(test)]
pub(crate) mod simulated;
