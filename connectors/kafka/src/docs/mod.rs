//! Pages for those who run jobs.

#[doc = include_str!("operations.md")]
pub mod operations {}
