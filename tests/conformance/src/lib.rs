//! Crashes any sink at every step, and tells by named checks whether it keeps the contract.

mod factory;
mod observer;
pub mod reference;
mod reserved_port;
mod trouble;

pub use factory::{Factory, GoldenHandle, Odd, Reality};
pub use observer::{Breakage, Observer, Row};
pub use trouble::Trouble;
