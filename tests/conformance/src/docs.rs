//! Pages that are generated from the suite.

#[doc = include_str!("../CHECKS.md")]
pub mod checks {}

#[doc = include_str!("../MUTANTS.md")]
pub mod broken_sinks {}
