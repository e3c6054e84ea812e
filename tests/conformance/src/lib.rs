//! Crashes any sink at every step, and tells by named checks whether it keeps the contract.
//!
//! Whoever writes a [`TwoPhaseCommitSinkFunction`](cofferdam::TwoPhaseCommitSinkFunction) runs this suite on it. It kills
//! processes, drops futures at each await, swallows answers after the outside system has done what was asked, wakes up
//! zombies, takes prepared transactions away, restarts the system; and after each of these it counts what a reader sees.
//!
//! # A suite in a page
//!
//! A [`Factory`] makes places in the outside system and opens sinks there; an [`Observer`] looks at a place from outside.
//! Here both are those of the memory sink, where a clone of the sink stands for another process.
//!
//! ```
//! use cofferdam::async_trait;
//! use cofferdam::memory::MemorySink;
//! use cofferdam_conformance::{Factory, Observer, Reality, Row, Trouble, run_all};
//!
//! #[derive(Default)]
//! struct Memory;
//!
//! struct Shelf(MemorySink<String>);
//!
//! #[async_trait]
//! impl Factory for Memory {
//!     type Sink = MemorySink<String>;
//!     type Place = Shelf;
//!
//!     fn name(&self) -> String {
//!         "memory".to_owned()
//!     }
//!     fn reality(&self) -> Reality {
//!         Reality::Simulated
//!     }
//!     async fn place(&self) -> Result<Shelf, Trouble> {
//!         Ok(Shelf(MemorySink::new()))
//!     }
//!     async fn open(&self, place: &Shelf) -> Result<MemorySink<String>, Trouble> {
//!         Ok(place.0.clone())
//!     }
//!     fn record(&self, text: &str) -> String {
//!         text.to_owned()
//!     }
//! }
//!
//! #[async_trait]
//! impl Observer for Shelf {
//!     async fn visible(&self) -> Result<Vec<Row>, Trouble> {
//!         let row = |text| Row { text, lane: Some("shelf".to_owned()) };
//!         Ok(self.0.visible().into_iter().map(row).collect())
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() {
//! let report = run_all::<Memory>(None).await;
//! println!("{report}");
//! assert!(report.failed().is_empty());
//! # }
//! ```
//!
//! In a test file one line does it, and each check becomes a test that bears its claim as name:
//!
//! ```no_run
//! # mod suite {
//! # type Memory = cofferdam_conformance::reference::ReferenceFactory;
//! cofferdam_conformance::conformance_tests!(Memory, report = "tests/conformance.json");
//! # }
//! ```
//!
//! # Skips
//!
//! What a sink [declares](cofferdam::Capabilities) decides what is asked of it; each declared presence is tried. A check is
//! skipped only for a declared absence, or because an optional part of the observer is not there; the report gives the reason.
//! A skip is never a pass. The more an observer can do, the more is known: [`Observer`] says what each part is for.
//!
//! # Four levels
//!
//! | level | how | what it needs |
//! | --- | --- | --- |
//! | in process | calls dropped at each await, zombies, races, a whole pipeline that dies at each call | nothing |
//! | against the system | connections cut, transactions taken away or expired, the system broken or restarted | [`Observer`]'s optional parts |
//! | child process | SIGKILL after each step, and at each await of a commit | [`Observer::address`], [`Factory::attach`] |
//! | fault proxy | each answer swallowed after the system has acted, each request cut off | [`Observer::endpoint`], [`Factory::open_through`] |
//!
//! # How to read a failure
//!
//! It tells the claim that does not hold, and the shortest history that shows it: who wrote what, what was decided, what a
//! reader saw. [`Kind`] says what each anomaly means. Numbers of a check that draws lots come from a seed that never
//! changes, so a failure comes again. [`docs::checks`] tells how each of them works.
//!
//! # How do we know that the suite sees?
//!
//! It is run on broken sinks, each with a fault that was found in a real system, and each is failed by the
//! checks that should fail it, and by no other: [`docs::broken_sinks`]. [`check()`] has a bad history for each anomaly.
//! The [`reference`](mod@reference) sink, which speaks to a small system over TCP, has every optional part and passes all checks.

mod check;
mod checker;
mod checks;
pub mod docs;
mod factory;
mod history;
mod macros;
pub mod mutants;
mod observer;
mod pipeline;
mod process;
mod random;
pub mod reference;
mod report;
mod reserved_port;
mod scenario;
mod site;
pub mod stores;
mod subject;
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
pub use suite::{Results, all_checks, keep_up_to_date, run_all, run_some, test_in};
pub use token::{CorruptToken, Token};
pub use trouble::Trouble;
pub use wrappers::child::child_process;
pub use wrappers::proxy::{Passage, Proxy};

for_each_check!(names, ());
