//! Rules for what a sweep finds: own or foreign, older or newer, decided or not.

use std::fmt;

use crate::error::SinkError;
use crate::identity::{CheckpointId, TransactionId};
use crate::sink::{Fence, Sweep};

impl<P> Fence<P> {
    /// Returns whether a transaction belongs to the fence's job and sink.
    pub fn owns(&self, id: &TransactionId) -> bool {
        id.job == self.job && id.sink == self.sink
    }

    /// Returns whether a transaction that is open or prepared has to be aborted: it belongs to the fence's job and sink, its epoch is
    /// older, and no decided checkpoint names it.
    pub fn is_stale(&self, id: &TransactionId) -> bool {
        let decided = || self.decided.iter().any(|(decided, _)| decided == id);
        self.owns(id) && id.epoch < self.epoch && !decided()
    }

    /// Checks a transaction of any job and sink that was found open or prepared; `work` names it in the error.
    ///
    /// # Errors
    /// Those of [`check`](Self::check), if the fence's job and sink own it.
    pub fn check_prepared(
        &self,
        id: &TransactionId,
        work: impl fmt::Display,
    ) -> Result<(), SinkError> {
        match self.owns(id) {
            true => self.check(id.epoch, work),
            false => Ok(()),
        }
    }

    /// Checks a transaction of any job and sink that was found committed; `work` names it in the error.
    ///
    /// # Errors
    /// Those of [`check`](Self::check) and [`check_visible`](Self::check_visible), if the fence's job and sink own it.
    pub fn check_committed(
        &self,
        id: &TransactionId,
        work: impl fmt::Display,
    ) -> Result<(), SinkError> {
        if !self.owns(id) {
            return Ok(());
        }
        self.check(id.epoch, &work)?;
        self.check_visible(id.checkpoint, work)
    }

    /// Checks the checkpoint of visible output of this job and sink; `work` names it in the error.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) if it is newer than [`newest`](Self::newest), in
    /// recovery: its records would be written again.
    pub fn check_visible(
        &self,
        checkpoint: CheckpointId,
        work: impl fmt::Display,
    ) -> Result<(), SinkError> {
        if self.sweep == Sweep::Late || Some(checkpoint) <= self.newest {
            return Ok(());
        }
        Err(SinkError::configuration(format!(
            "{work} is of checkpoint {checkpoint}: it belongs to a newer run than the checkpoint store knows, and its records \
             would be written again"
        ))
        .hint(
            "bring back the checkpoints that belong to this output, or choose an empty output or another job id",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::identity::Epoch;

    fn id(text: &str) -> TransactionId {
        text.parse().unwrap()
    }

    fn fence() -> Fence<()> {
        let this = id("job/sink/5/0/7");
        let mut fence = Fence::new(this.job, this.sink, Epoch(5));
        fence.newest = Some(CheckpointId(7));
        fence.decided = vec![(id("job/sink/4/0/7"), ())];
        fence
    }

    #[test]
    fn only_what_is_older_and_not_decided_is_stale() {
        for (text, stale) in [
            ("job/sink/4/1/7", true),
            ("job/sink/4/0/8", true),
            ("job/sink/4/0/7", false),
            ("job/sink/5/0/8", false),
            ("job/sink/6/0/8", false),
            ("job2/sink/4/1/7", false),
            ("job/sink2/4/1/7", false),
        ] {
            assert_eq!(fence().is_stale(&id(text)), stale, "{text}");
        }
    }

    #[test]
    fn output_that_no_checkpoint_knows_is_refused_in_recovery_alone() {
        let mut fence = fence();
        let kind = |fence: &Fence<()>, text: &str| {
            let checked = fence.check_committed(&id(text), text);
            checked.err().map(|error| error.kind())
        };
        assert_eq!(kind(&fence, "job/sink/4/0/7"), None);
        assert_eq!(
            kind(&fence, "job/sink/4/0/8"),
            Some(ErrorKind::Configuration)
        );
        assert_eq!(kind(&fence, "job/sink/5/0/7"), Some(ErrorKind::Fenced));
        assert_eq!(kind(&fence, "job2/sink/6/0/8"), None);
        fence.newest = None;
        assert_eq!(
            kind(&fence, "job/sink/4/0/1"),
            Some(ErrorKind::Configuration)
        );
        fence.sweep = Sweep::Late;
        assert_eq!(kind(&fence, "job/sink/4/0/8"), None);
        assert_eq!(kind(&fence, "job/sink/6/0/8"), Some(ErrorKind::Fenced));
    }
}
