//! Barrier alignment of a subtask with several inputs.

use super::Barrier;
use crate::identity::CheckpointId;

/// Holds back each input whose barrier has come, until it has come on all.
///
/// Records on a held input belong to the next checkpoint, so they must not be worked on before the state is
/// snapshot. A barrier, once begun, is always completed, even if the coordinator has dropped its checkpoint.
///
/// ```
/// use cofferdam::CheckpointId;
/// use cofferdam::protocol::{Alignment, Barrier};
///
/// let mut alignment = Alignment::new(2);
/// let barrier = Barrier { checkpoint: CheckpointId(1), last: false };
/// assert_eq!(alignment.barrier(0, barrier)?, None);
/// assert!(alignment.is_held(0) && !alignment.is_held(1));
/// assert_eq!(alignment.barrier(1, barrier)?, Some(barrier));
/// assert!(!alignment.is_held(0));
/// # Ok::<(), cofferdam::protocol::AlignmentError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Alignment {
    held: Vec<bool>,
    open: Option<Barrier>,
    newest: Option<CheckpointId>,
}

/// Barriers came in an order that no run of the protocol produces.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("input {input} brought {found:?} while {expected:?} was expected")]
pub struct AlignmentError {
    /// The input.
    pub input: usize,
    /// What came.
    pub found: Barrier,
    /// The barrier under alignment; `None` if any newer one was fine.
    pub expected: Option<Barrier>,
}

impl Alignment {
    /// For a subtask with this many inputs.
    pub fn new(inputs: usize) -> Self {
        Self {
            held: vec![false; inputs],
            open: None,
            newest: None,
        }
    }

    /// Whether nothing may be taken from an input now.
    pub fn is_held(&self, input: usize) -> bool {
        self.held.get(input).copied().unwrap_or(true)
    }

    /// A barrier came on an input. Returns it once it has come on all; then all inputs are free again.
    ///
    /// # Errors
    /// If the input is unknown or held, or the barrier is not the one under alignment, or not newer than the last.
    pub fn barrier(
        &mut self,
        input: usize,
        barrier: Barrier,
    ) -> Result<Option<Barrier>, AlignmentError> {
        let newer = self.newest.is_none_or(|newest| newest < barrier.checkpoint);
        let fits = newer && self.open.is_none_or(|open| open == barrier) && !self.is_held(input);
        if !fits {
            return Err(AlignmentError {
                input,
                found: barrier,
                expected: self.open,
            });
        }
        self.open = Some(barrier);
        if let Some(held) = self.held.get_mut(input) {
            *held = true;
        }
        if !self.held.iter().all(|held| *held) {
            return Ok(None);
        }
        self.held.fill(false);
        self.open = None;
        self.newest = Some(barrier.checkpoint);
        Ok(Some(barrier))
    }
}
