//! Crashes any sink at every step, and tells by named checks whether it keeps the contract.

mod checker;
mod factory;
mod history;
pub mod mutants;
mod observer;
pub mod reference;
mod reserved_port;
mod token;
mod trouble;
pub mod wrappers;

pub use checker::{Anomaly, Kind, Promise, check};
pub use factory::{Factory, GoldenHandle, Odd, Reality};
pub use history::{Event, History};
pub use observer::{Breakage, Observer, Row};
pub use token::{CorruptToken, Token};
pub use trouble::Trouble;
