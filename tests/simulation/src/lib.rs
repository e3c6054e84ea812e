//! Runs the real runtime through seeded schedules of faults on a simulated clock.
//!
//! A [`Schedule`] says what a job works on and all that goes wrong: crashes, frozen processes, lost answers, effects that
//! come late or twice, second starts, other parallelisms. [`simulate`] runs it: the runtime is the real one, on one
//! thread and a clock that moves by itself; store, sink and source are those in memory, behind calls that take a seeded
//! time and go wrong as laid down. The same schedule gives the same log of calls, each time.
//!
//! What readers see is judged by the checker of `cofferdam-conformance`, and compared with a plain loop over the input.
//!
//! A schedule that fails is made smaller by [`shrink`], and kept in `regressions/`.

mod call;
mod draw;
mod expected;
mod flaw;
mod input;
mod observed;
mod outside;
mod pipeline;
mod process;
mod random;
mod rare;
mod schedule;
mod shrink;
mod sink;
mod source;
mod store;
mod supervisor;
mod sweep;
mod world;

pub use draw::draw;
pub use flaw::Flaw;
pub use observed::{Entry, Subject};
pub use rare::{Rare, Reached};
pub use schedule::{Effect, Fault, Mode, Moment, Op, Schedule, Shape, When, Workload};
pub use shrink::shrink;
pub use supervisor::{Report, simulate};
pub use sweep::{Sweep, sweep};
