//! Things built wrong on purpose: each must be found.

use serde::{Deserialize, Serialize};

/// What is built wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flaw {
    /// Store: a create replaces what is there.
    CreateOverwrites,
    /// Store: whoever loses the race for a name is told that it won.
    LostRaceIsWon,
    /// Store: a listing may lack the newest name.
    ListingIsStale,
    /// Sink: what is prepared is visible at once.
    CommitsInPreCommit,
    /// Sink: the last batch of a transaction is not flushed.
    ForgetsLastBatch,
    /// Sink: a second commit shows the records again.
    AppendsOnRetry,
    /// Sink: cleaning up does not look at epochs.
    AbortsNewerEpochs,
    /// Sink: prepared work dies with its process, and an unknown transaction is taken for committed.
    UnknownIsDone,
    /// Sink: a commit shows the first record, and the others with the next commit.
    ShowsInParts,
    /// Sink: what older epochs left is never cleaned up.
    NeverAbortsStale,
    /// Sink: some commits are confirmed, and show nothing.
    CommitsNothing,
    /// Source: goes on one record too late.
    SkipsOneOnRestore,
    /// Source: goes on from the start.
    ForgetsPosition,
    /// Source: what it had taken when a call was dropped is gone.
    NotCancelSafe,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::CreateOverwrites,
        Self::LostRaceIsWon,
        Self::ListingIsStale,
        Self::CommitsInPreCommit,
        Self::ForgetsLastBatch,
        Self::AppendsOnRetry,
        Self::AbortsNewerEpochs,
        Self::UnknownIsDone,
        Self::ShowsInParts,
        Self::NeverAbortsStale,
        Self::CommitsNothing,
        Self::SkipsOneOnRestore,
        Self::ForgetsPosition,
        Self::NotCancelSafe,
    ];
}
