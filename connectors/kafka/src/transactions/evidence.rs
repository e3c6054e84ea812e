//! The evidence of commits: a group offset that each transaction moves, with a short history beside it.
//!
//! The offset is part of the transaction, so it moves if and only if the transaction is committed. It is the number of
//! the checkpoint; its metadata lists, for the last epochs, the newest checkpoint that each committed in this subtask. A
//! subtask commits in the order of its checkpoints, and an epoch that aborts is over: so what an epoch began, up to its
//! newest, is committed, and what it began beyond is not.

use cofferdam::{CheckpointId, Epoch, TransactionId};

/// How many epochs are listed: some 600 bytes, well within `offset.metadata.max.bytes` (4096 by default).
const EPOCHS: usize = 16;

/// What the metadata begins with: a form that may change has a number.
const FORM: &str = "cofferdam-1";

/// What a subtask has committed, over its epochs. Newest epoch first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    newest: Vec<(Epoch, CheckpointId)>,
}

/// What the evidence says of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    Committed,
    NotCommitted,
    /// Its epoch is too long ago.
    Forgotten,
}

impl Evidence {
    /// Reads the metadata of the group offset.
    pub(crate) fn parse(metadata: &str) -> Option<Self> {
        let entries = metadata.strip_prefix(FORM)?.split_ascii_whitespace();
        let entry = |entry: &str| {
            let (epoch, checkpoint) = entry.split_once(':')?;
            Some((
                Epoch(epoch.parse().ok()?),
                CheckpointId(checkpoint.parse().ok()?),
            ))
        };
        let newest = entries.map(entry).collect::<Option<Vec<_>>>()?;
        Some(Self { newest })
    }

    /// The metadata of the group offset.
    pub(crate) fn to_metadata(&self) -> String {
        let mut text = FORM.to_owned();
        for (epoch, checkpoint) in &self.newest {
            text.push_str(&format!(" {epoch}:{checkpoint}"));
        }
        text
    }

    /// The evidence that the commit of `id` leaves.
    #[must_use]
    pub(crate) fn with(&self, id: &TransactionId) -> Self {
        let mut newest = vec![(id.epoch, id.checkpoint)];
        newest.extend(self.newest.iter().filter(|(epoch, _)| *epoch != id.epoch));
        newest.truncate(EPOCHS);
        Self { newest }
    }

    /// The newest epoch that has committed.
    pub(crate) fn newest_epoch(&self) -> Option<Epoch> {
        self.newest.iter().map(|(epoch, _)| *epoch).max()
    }

    /// The newest checkpoint that was committed in any epoch.
    pub(crate) fn newest_checkpoint(&self) -> Option<CheckpointId> {
        self.newest.iter().map(|(_, checkpoint)| *checkpoint).max()
    }

    /// Whether this transaction was committed.
    pub(crate) fn of(&self, id: &TransactionId) -> Proof {
        let entry = self.newest.iter().find(|(epoch, _)| *epoch == id.epoch);
        match entry {
            Some((_, newest)) if id.checkpoint <= *newest => Proof::Committed,
            Some(_) => Proof::NotCommitted,
            None => match self.newest.last() {
                Some((oldest, _)) if self.newest.len() == EPOCHS && id.epoch < *oldest => {
                    Proof::Forgotten
                }
                _ => Proof::NotCommitted,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

    use super::*;

    fn id(epoch: u64, checkpoint: u64) -> TransactionId {
        format!("job/sink/{epoch}/0/{checkpoint}")
            .parse()
            .expect("an id")
    }

    #[test]
    fn it_tells_what_each_epoch_committed() {
        let evidence = Evidence::default()
            .with(&id(1, 4))
            .with(&id(1, 5))
            .with(&id(3, 6));
        assert_eq!(evidence.to_metadata(), "cofferdam-1 3:6 1:5");
        assert_eq!(
            Evidence::parse(&evidence.to_metadata()),
            Some(evidence.clone())
        );
        assert_eq!(evidence.newest_checkpoint(), Some(CheckpointId(6)));
        for (epoch, checkpoint, proof) in [
            (1, 3, Proof::Committed), // rode with a later one
            (1, 5, Proof::Committed),
            (1, 6, Proof::NotCommitted), // epoch 3 wrote that checkpoint again
            (2, 6, Proof::NotCommitted),
            (3, 6, Proof::Committed),
            (3, 7, Proof::NotCommitted),
            (4, 7, Proof::NotCommitted),
        ] {
            assert_eq!(
                evidence.of(&id(epoch, checkpoint)),
                proof,
                "{epoch}/{checkpoint}"
            );
        }
    }

    #[test]
    fn what_is_too_long_ago_is_not_guessed() {
        let mut evidence = Evidence::default();
        for epoch in 1..=40 {
            evidence = evidence.with(&id(epoch, epoch));
        }
        assert!(evidence.to_metadata().len() < 1000);
        assert_eq!(evidence.of(&id(24, 24)), Proof::Forgotten);
        assert_eq!(evidence.of(&id(25, 25)), Proof::Committed);
    }

    #[test]
    fn what_others_wrote_is_no_evidence() {
        for metadata in [
            "",
            "cofferdam-2 1:1",
            "cofferdam-1 1",
            "cofferdam-1 1:x",
            "cofferdam-1 1:1 :",
        ] {
            assert_eq!(Evidence::parse(metadata), None, "{metadata:?}");
        }
        assert_eq!(Evidence::parse("cofferdam-1"), Some(Evidence::default()));
    }
}
