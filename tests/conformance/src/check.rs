//! What a check is.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use cofferdam::{Capabilities, CommitError, Evidence, Fencing, Isolation, Resume, SinkError};

use crate::trial::Trial;
use crate::trouble::Trouble;

/// What a check takes for granted. A sink that declares the absence skips the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// [`Resume::AnyProcess`].
    Resume,
    /// An isolation other than [`Isolation::Immediate`].
    Hidden,
    /// An evidence other than [`Evidence::None`].
    Evidence,
    /// [`Fencing::Server`].
    ServerFencing,
    /// [`Capabilities::expiry`].
    Expiry,
    /// [`Capabilities::max_prepared`].
    PreparedLimit,
    /// A subtask that writes while its last transaction is not committed: [`Capabilities::ordered`] is not set.
    Overlap,
    /// Room for this many prepared transactions of a subtask at once.
    Prepared(usize),
    /// [`Capabilities::refuses_older_state`].
    RefusesOlderState,
    /// An optional part of the factory or the observer. What it is, is told by the one that lacks it.
    Part,
}

impl Need {
    /// Why a sink of these capabilities does not meet the need; `None` if it does.
    pub(crate) fn unmet(self, capabilities: &Capabilities) -> Option<String> {
        let Capabilities {
            resume,
            isolation,
            evidence,
            fencing,
            expiry,
            max_prepared,
            ..
        } = capabilities;
        let (met, declared) = match self {
            Self::Resume => (*resume == Resume::AnyProcess, format!("resume: {resume:?}")),
            Self::Hidden => (
                *isolation != Isolation::Immediate,
                format!("isolation: {isolation:?}"),
            ),
            Self::Evidence => (
                *evidence != Evidence::None,
                format!("evidence: {evidence:?}"),
            ),
            Self::ServerFencing => (*fencing == Fencing::Server, format!("fencing: {fencing:?}")),
            Self::Expiry => (expiry.is_some(), "expiry: None".to_owned()),
            Self::PreparedLimit => (max_prepared.is_some(), "max_prepared: None".to_owned()),
            Self::Prepared(room) => (
                max_prepared.is_none_or(|limit| limit >= room),
                format!("max_prepared: {max_prepared:?}"),
            ),
            Self::Overlap => (!capabilities.ordered, "ordered: true".to_owned()),
            Self::RefusesOlderState => (
                capabilities.refuses_older_state,
                "refuses_older_state: false".to_owned(),
            ),
            Self::Part => (true, String::new()),
        };
        (!met).then(|| format!("declares {declared}"))
    }
}

/// Why a check did not get to its end.
#[derive(Debug)]
pub enum Stop {
    /// A part that the check needs is not there.
    Unsupported(String),
    /// The sink does not keep the contract.
    Failed(String),
}

impl Stop {
    /// The sink does not keep the contract, because of this.
    pub(crate) fn failed(what: impl Into<String>) -> Self {
        Self::Failed(what.into())
    }
}

/// An error with all its causes.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Unsupported(reason) => Self::Unsupported(reason),
            failed @ Trouble::Failed { .. } => Self::Failed(chain(&failed)),
        }
    }
}

impl From<SinkError> for Stop {
    fn from(error: SinkError) -> Self {
        let kind = error.kind();
        Self::Failed(format!(
            "an error where none should be: {kind:?}: {}",
            chain(&error)
        ))
    }
}

impl From<CommitError> for Stop {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::NotYet(error) => error.into(),
            lost @ CommitError::Lost(_) => {
                Self::failed(format!("an error where none should be: {lost}"))
            }
        }
    }
}

/// What is needed, in words.
impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resume => "a sink whose prepared transactions any process can finish",
            Self::Hidden => "a sink that hides what is not committed",
            Self::Evidence => "evidence of commits",
            Self::ServerFencing => "a system that refuses older epochs",
            Self::Expiry => "prepared transactions that expire",
            Self::PreparedLimit => "a limit of prepared transactions",
            Self::Overlap => "transactions of a subtask that overlap",
            Self::Prepared(room) => {
                return write!(f, "room for {room} prepared transactions of a subtask");
            }
            Self::RefusesOlderState => "a sink that refuses older state",
            Self::Part => "an optional part of the factory or the observer",
        })
    }
}

type Running = Pin<Box<dyn Future<Output = Result<(), Stop>> + Send>>;

/// One check.
pub struct Check {
    /// What it is about.
    pub about: About,
    pub(crate) run: fn(Arc<Trial>) -> Running,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.about.fmt(f)
    }
}

/// What a check is about, for reports and docs.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// A short name that never changes: `REC-2`.
    pub id: &'static str,
    /// The claim, as a test's name: `what_was_decided_is_committed_from_its_handle_alone`.
    pub name: &'static str,
    /// How it is tested, and what passes.
    pub how: &'static str,
    /// What it takes for granted.
    pub needs: &'static [Need],
}

/// A function with the checks of one group, from a list of `id name [needs] how, |trial| body`.
macro_rules! checks {
    ($($id:literal $name:ident [$($need:ident $(($room:literal))?),*] $how:literal $run:path;)+) => {
        /// The checks of this group.
        pub(crate) fn checks() -> Vec<crate::check::Check> {
            vec![$(crate::check::Check {
                about: crate::check::About {
                    id: $id,
                    name: stringify!($name),
                    how: $how,
                    needs: &[$(crate::check::Need::$need $(($room))?),*],
                },
                run: |trial| Box::pin($run(trial)),
            }),+]
        }
    };
}
pub(crate) use checks;
