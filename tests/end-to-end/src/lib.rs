//! The job that the end-to-end tests kill: a real pipeline over files, by the public interface alone.
//!
//! Nothing in the library knows of these tests. A crash at an exact point is a subscriber of the library's own spans
//! that aborts the process; slowness is a source and a checkpoint store that wait.

mod crash;
mod job;
mod options;
mod slow;

pub use crash::{CrashPoint, SpanWatch};
pub use job::job;
pub use options::{Format, Options, Variant};
