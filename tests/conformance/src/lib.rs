//! Crashes any sink at every step, and tells by named checks whether it keeps the contract.

mod check;
mod checker;
mod checks;
mod factory;
mod history;
mod macros;
mod observer;
mod pipeline;
mod process;
mod random;
pub mod reference;
mod report;
mod reserved_port;
mod scenario;
mod site;
mod suite;
mod token;
mod trial;
mod trouble;
mod wrappers;

pub use check::{About, Check, Need};
pub use checker::{Anomaly, Kind, Promise, check};
pub use checks::GROUPS;
pub use factory::{Factory, GoldenHandle, Odd, Reality};
pub use history::{Event, History};
pub use observer::{Breakage, Observer, Row};
pub use report::{CheckResult, Report, Verdict};
pub use suite::{Results, all_checks, keep_up_to_date, run_all, test_in};
pub use token::{CorruptToken, Token};
pub use trouble::Trouble;
pub use wrappers::child::child_process;
pub use wrappers::proxy::{Passage, Proxy};

for_each_check!(names, ());
