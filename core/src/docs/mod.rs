//! Longer reading: how to write a sink, how the protocol works, what is promised.

#[doc = include_str!("writing_a_sink.md")]
#[doc = "```"]
#[doc = include_str!("folder_sink.rs")]
#[doc = "```"]
#[doc = include_str!("full_contract.md")]
#[doc = include_str!("proving_a_sink.md")]
pub mod writing_a_sink {}

#[doc = include_str!("running.md")]
pub mod running {}

#[doc = include_str!("guarantees.md")]
pub mod guarantees {}
