//! The job that the end-to-end tests kill: a real pipeline over files or Kafka, by the public interface
//! alone.
//!
//! Nothing in the library knows of these tests. A crash at an exact point is a subscriber of the library's own spans
//! that aborts the process; slowness is a source and a checkpoint store that wait.

mod crash;
mod files;
mod job;
mod kafka;
mod options;
mod run;
mod slow;

pub use crash::{CrashPoint, SpanWatch};
pub use files::files_job;
pub use kafka::kafka_job;
pub use options::{FileOptions, Format, JobOptions, KafkaOptions, Variant};
pub use run::run;
