//! Checkpoints: what is in one, and where decisions are kept.

mod directory;
mod log;
mod manifest;
mod memory;
mod name;
mod state;
mod store;
#[cfg(test)]
mod tests;

use crate::envelope::EnvelopeError;
use crate::identity::JobId;

pub use directory::DirectoryCheckpointStore;
pub use memory::MemoryCheckpointStore;
pub use name::{MAX_OBJECT_NAME_LENGTH, ObjectNameError, check_object_name, check_object_prefix};
pub use store::{CheckpointStore, Create, StoreError};

pub(crate) use log::{CheckpointLog, Decisions, Nonce, Written};
pub(crate) use manifest::{Manifest, PreparedTransaction, SplitSnapshot, StatePart};
pub(crate) use state::{read_state, write_state};

/// Why a checkpoint can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The store gave no answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Stored bytes are not what was written, or a newer program wrote them.
    #[error("can't use {object}: {cause}")]
    Envelope {
        /// The object, with the store's location.
        object: String,
        /// What is wrong with it.
        #[source]
        cause: EnvelopeError,
    },
    /// Stored content is whole, but does not say what it should.
    #[error("can't use {object}: {cause}")]
    Malformed {
        /// The object, with the store's location.
        object: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The store belongs to another job.
    #[error(
        "{location} holds the checkpoints of job {found}, not of {expected}: give each job a checkpoint store of its own"
    )]
    OtherJob {
        /// The store's location.
        location: String,
        /// The job in the log.
        found: JobId,
        /// The job that was started.
        expected: JobId,
    },
    /// The log names a decision that is not there.
    #[error("can't use {object}: the log names a decision here, and there is none")]
    MissingDecision {
        /// The object, with the store's location.
        object: String,
    },
    /// A decided checkpoint names a state part that is not there.
    #[error(
        "{object} is missing, but a decided checkpoint names it: restore it from a copy of the checkpoint store"
    )]
    MissingPart {
        /// The object, with the store's location.
        object: String,
    },
}

impl CheckpointError {
    /// Whether trying again may help.
    pub(crate) fn is_retriable(&self) -> bool {
        matches!(self, Self::Store(error) if error.retriable)
    }

    /// Returns whether an object is there, and is not what was written.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Self::Envelope { .. } | Self::Malformed { .. })
    }

    /// Whether something named is gone: by damage, or retired by a newer epoch.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::MissingDecision { .. } | Self::MissingPart { .. }
        )
    }
}
