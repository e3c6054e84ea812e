//! Mistakes that a driver around the machines can make.

/// A mistake of the drivers. The model has to catch each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Mutant {
    /// Commits what it has voted for, before the decision.
    CommitsAtVote,
    /// Takes the lost answer to a decision for a failure, and aborts.
    LostAnswerIsFailure,
    /// Aborts what older epochs left as soon as it starts, as a client library that "initialises transactions" does.
    AbortsOnStart,
    /// Aborts what is stale before it has settled what is decided.
    AbortsBeforeSettling,
    /// Appends its decision wherever the log ends, whoever has taken over.
    NoFencing,
    /// Takes any record at its number for its own.
    ExistsIsDecided,
    /// Counts a record that was created, without a look whether a newer one is there.
    CountsRecordsInGaps,
    /// Aborts all that is in doubt and not decided, of newer epochs too.
    AbortsNewerEpochs,
    /// Recovers the first sink only.
    RecoversFirstSinkOnly,
    /// Reads the newest decision, and then takes over.
    ReadsThenTakesOver,
    /// Settles what the newest checkpoint prepared, and not what rides with it.
    SettlesNewestOnly,
    /// Confirms what is decided before it is committed.
    ConfirmsBeforeCommit,
    /// Votes with what this checkpoint prepared, and not with what is pending since before.
    ForgetsPending,
    /// Aborts what was prepared for a checkpoint that is dropped, though it rides with the next.
    AbortsDropped,
    /// Takes a transaction that is nowhere to be found for committed before.
    UnknownIsCommitted,
    /// Takes over under the epoch that it finds.
    KeepsEpoch,
    /// Tells its participants to abort when it can't find out whether it has decided.
    AbortsUndecidable,
    /// Does not tell the coordinator that a sink can't hold more.
    IgnoresLimit,
    /// Forgets to tell the coordinator that all is committed.
    NeverConfirms,
    /// Deletes decisions that are kept, with what is old.
    DeletesKept,
    /// Takes the newest decision for settled, whatever the log says.
    TakesDecidedForSettled,
    /// Records a checkpoint as settled with its own decision.
    DecidesAsSettled,
}
