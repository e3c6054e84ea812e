//! Rare events: each must come to pass in some schedule, or the schedules prove less than they seem to.

use std::fmt;

macro_rules! rare {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Something that rarely happens, and goes wrong easily when it does.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Rare {
            $($(#[$doc])* $name,)*
        }

        impl Rare {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

rare! {
    /// A process dies while something is decided and not committed.
    CrashBeforeCommit,
    /// It dies while one sink has committed its part of a checkpoint, and another has not.
    CrashBetweenSinks,
    /// Two processes in a row die during recovery.
    CrashInRecoveryTwice,
    /// A recovery commits what its predecessor had decided.
    SettledByRecovery,
    /// A recovery finds its checkpoint recorded as settled, and asks no sink about it.
    FoundSettled,
    /// The record that a checkpoint is settled is written, and its answer is lost.
    SettledWithoutAnswer,
    /// A transaction is committed a second time.
    CommittedBefore,
    /// A recovery aborts what was prepared and never decided.
    StaleAborted,
    /// The answer to the decision is lost, and the decision stands.
    DecisionWithoutAnswer,
    /// The decision comes to stand after its writer was told of an error.
    DecisionAppliedLater,
    /// The decision comes after another has taken the name.
    DecisionTooLate,
    /// A decision comes to stand while a successor is taking over.
    DecisionDuringTakeover,
    /// A process that was left behind is refused its decision.
    ZombieRefused,
    /// A process that was left behind prepares a transaction.
    ZombiePrepares,
    /// A process that was left behind commits what was decided.
    ZombieCommits,
    /// A process that was left behind writes into a gap of the log.
    WrittenIntoGap,
    /// A dropped checkpoint's transactions are decided with a later one.
    Subsumed,
    /// Transactions whose commits are not confirmed are named by the next decision too.
    NamedAgain,
    /// A job goes on at another parallelism while something is decided and not committed.
    RescaledWithPending,
    /// A job goes on at another parallelism after it was stopped.
    RescaledAfterStop,
    /// A process starts its job again by itself.
    RestartedInside,
    /// A prepared transaction comes to stand after the process has died or given up.
    PreparedLater,
    /// A process is started although another has completed the job.
    AlreadyComplete,
    /// A split brings records after it was idle.
    BackFromIdle,
    /// A split ends while another is idle.
    EndedBesideIdle,
    /// A record is late only because its split was idle.
    LateByIdleness,
    /// A process panics, and goes on or is followed.
    Panicked,
}

/// How often each rare event has come to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reached([u64; Rare::ALL.len()]);

impl Reached {
    /// It has come to pass.
    pub fn count(&mut self, rare: Rare) {
        self.0[rare as usize] += 1;
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }

    /// How often it has come to pass.
    #[must_use]
    pub fn times(&self, rare: Rare) -> u64 {
        self.0[rare as usize]
    }

    /// What never has.
    pub fn never(&self) -> impl Iterator<Item = Rare> + '_ {
        Rare::ALL
            .iter()
            .copied()
            .filter(|rare| self.times(*rare) == 0)
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rare in Rare::ALL {
            writeln!(f, "{:>10}  {rare:?}", self.times(*rare))?;
        }
        Ok(())
    }
}
