//! What a job leaves when the power is cut: a process that is killed keeps the page cache, a machine that stops does not.
//!
//! The system calls of a real job are recorded ([`parse`]) and played on a model of a disk ([`Disk`]) that knows what is
//! durable and what merely is written. After each call the power may be cut; what can be left then is listed
//! ([`crash_states`]), put into a folder, and recovered from by the same job. The job's store and sink tell what they
//! have promised ([`Witness`]), and that must be there.

mod disk;
mod job;
mod random;
mod source;
mod states;
mod trace;
mod witness;

pub use disk::{Data, Disk, Tree, materialise};
pub use job::{CHECKPOINTS, RESULTS, expected, job};
pub use source::Pace;
pub use states::{CrashState, crash_states};
pub use trace::{CALLS, Call, Step, TraceError, parse};
pub use witness::Witness;
