//! What can happen next.

use std::fmt;

use crate::outside::Transaction;

/// What comes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It is done and answered.
    Given,
    /// It is done, and the answer is lost.
    Lost,
    /// There is no answer, and it may be done later.
    Late,
}

/// A step. `who` is the number of a process, `subtask` that of a participant of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the text of each says what it is")]
pub enum Step {
    Start {
        who: usize,
    },
    Crash {
        who: usize,
    },
    Recover {
        who: usize,
        answer: Answer,
    },
    Trigger {
        who: usize,
    },
    Stop {
        who: usize,
    },
    Prepare {
        who: usize,
        subtask: usize,
    },
    Refuse {
        who: usize,
        subtask: usize,
    },
    Deliver {
        who: usize,
        subtask: usize,
    },
    DeliverAgain {
        who: usize,
        subtask: usize,
    },
    HearSource {
        who: usize,
    },
    TimeOut {
        who: usize,
    },
    Decide {
        who: usize,
        answer: Answer,
    },
    GiveUp {
        who: usize,
    },
    Settle {
        who: usize,
        answer: Answer,
    },
    Arrive {
        write: usize,
    },
    Notify {
        who: usize,
        subtask: usize,
        decision: usize,
    },
    Commit {
        who: usize,
        subtask: usize,
        answer: Answer,
    },
    Retire {
        who: usize,
    },
    Expire {
        transaction: Transaction,
    },
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => Ok(()),
            Self::Lost => f.write_str("; it is done, but the answer is lost"),
            Self::Late => f.write_str("; there is no answer, and it is still on its way"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { who } => write!(f, "process {who} starts"),
            Self::Crash { who } => write!(f, "process {who} crashes"),
            Self::Recover { who, answer } => {
                write!(
                    f,
                    "process {who} takes the next step of its recovery{answer}"
                )
            }
            Self::Trigger { who } => write!(f, "process {who} begins a checkpoint"),
            Self::Stop { who } => write!(f, "process {who} is asked to stop"),
            Self::Prepare { who, subtask } => {
                write!(f, "subtask {subtask} of process {who} prepares, and votes")
            }
            Self::Refuse { who, subtask } => {
                write!(f, "subtask {subtask} of process {who} can't prepare")
            }
            Self::Deliver { who, subtask } => {
                write!(f, "process {who} hears from its subtask {subtask}")
            }
            Self::DeliverAgain { who, subtask } => {
                write!(
                    f,
                    "process {who} hears from its subtask {subtask}, and will hear it again"
                )
            }
            Self::HearSource { who } => write!(f, "process {who} hears from its source"),
            Self::TimeOut { who } => write!(f, "process {who} waits for votes no longer"),
            Self::Decide { who, answer } => write!(f, "process {who} writes its decision{answer}"),
            Self::Settle { who, answer } => {
                write!(
                    f,
                    "process {who} records that everything is settled{answer}"
                )
            }
            Self::GiveUp { who } => write!(f, "process {who} gives up on its decision"),
            Self::Arrive { write } => {
                write!(f, "write {write} of those on their way arrives at the log")
            }
            Self::Notify {
                who,
                subtask,
                decision,
            } => {
                write!(
                    f,
                    "subtask {subtask} of process {who} is told of decision {decision}"
                )
            }
            Self::Commit {
                who,
                subtask,
                answer,
            } => {
                write!(f, "subtask {subtask} of process {who} commits{answer}")
            }
            Self::Retire { who } => write!(f, "process {who} deletes a retired checkpoint"),
            Self::Expire { transaction } => {
                write!(f, "the outside system forgets {transaction:?}")
            }
        }
    }
}
