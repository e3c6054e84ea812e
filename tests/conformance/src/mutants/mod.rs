//! Sinks that are broken on purpose, to prove the suite: each has one fault that was seen in the world, and is caught.
//!
//! A broken sink is the [reference sink](crate::reference) with one step changed by a [`Bug`].
//! [`for_each_mutant!`](crate::for_each_mutant) names them all, [`visit_all`] goes through them as types, and [`all`]
//! tells about them.

mod bug;
mod durability;
mod evidence;
mod fencing;
mod hygiene;
mod mutant;
mod names;
mod outcome;
mod recovery;
#[cfg(test)]
mod tests;
mod visibility;
mod write_ahead;
mod writing;

pub use bug::{About, Bug, Call, Described, NotedHandle, Sink};
pub use durability::*;
pub use evidence::*;
pub use fencing::*;
pub use hygiene::*;
pub use mutant::{MutantFactory, MutantHandle, MutantSink};
pub use names::*;
pub use outcome::*;
pub use recovery::*;
pub use visibility::*;
pub use write_ahead::*;
pub use writing::*;

/// Hands the names of all bugs, as they stand in [`mutants`](crate::mutants), to a macro.
#[macro_export]
macro_rules! for_each_mutant {
    ($callback:ident) => {
        $callback! {
            // Visibility
            Eager, Dirty, Torn, Understated, Later,
            // Writing
            ForgetTail, Reorder, SwallowedWrite, RetriedWrite, Truncates, RefusesEmpty, ForgetsEmpty, MakesRoom,
            // Durability
            MemoryHandle, Liar, NotPrepared, UnsyncedCommit, AbortOnOpen,
            // Evidence
            UnknownIsDone, UnknownIsFailed, ReadErrorMeansAbort, Swallow, LocalClock, CountIsEvidence, TrustsHandle,
            LateToken, TwoSteps, AppendOnRetry,
            // Fencing
            AbortAll, PrefixMatch, NoFence, IgnoresNewest, SweepsItself, SparesTheLast, SparesNames, SparesItsOwn, NeverLate,
            AbortsDecided,
            NoSubtaskInName, NoEpochInName, RandomName,
            // Recovery
            RestoreNoop, FirstOnly, OnlySubtaskZero, Leak, LeavesOpen, SelfDeadlock,
            // Outcomes
            NoAnswerIsNo, FencedIsTransient, NoRightsIsTransient, AbortOnce, AbortsCommitted, NothingInDoubt,
            // Connections, locks, secrets and deadlines
            DeleteOnClose, DirtyPool, LeaksConnections, SecretInError, SecretInDebug, PanicOnGarbage, HangingCommit,
            EndlessRetry, PoisonedLock,
        }
    };
}

/// Something that is done with every bug.
pub trait Visitor {
    /// Does it with one of them.
    fn visit<B: Bug>(&mut self);
}

/// Takes a visitor to every bug.
pub fn visit_all(visitor: &mut impl Visitor) {
    macro_rules! visit {
        ($($bug:ident,)+) => { $(visitor.visit::<$bug>();)+ };
    }
    for_each_mutant!(visit);
}

/// What is known of every bug.
pub fn all() -> Vec<About> {
    macro_rules! about {
        ($($bug:ident,)+) => { vec![$(<$bug as Described>::ABOUT),+] };
    }
    for_each_mutant!(about)
}
