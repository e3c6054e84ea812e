//! A call that is under way: it goes wrong before its effect, in it, or on the way back.

use std::future::pending;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::time::Duration;

use cofferdam::ErrorKind;
use tokio::time::sleep;

use crate::observed::Subject;
use crate::process::Process;
use crate::rare::Rare;
use crate::schedule::{Effect, Op, When};

/// The caller gets an error of this kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrong(pub ErrorKind);

/// An answer that a call gives, or will give.
pub type Answer<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// A call that is under way.
#[derive(Debug)]
pub struct Call {
    process: Process,
    op: Op,
    number: u32,
    all: u32,
    subject: Subject,
    fault: Option<(When, Effect)>,
}

impl Call {
    /// A call of a process: its numbers among those of its operation and among all, and what goes wrong in it.
    #[must_use]
    pub fn new(
        process: &Process,
        op: Op,
        [number, all]: [u32; 2],
        subject: Subject,
        fault: Option<(When, Effect)>,
    ) -> Self {
        Self {
            process: process.clone(),
            op,
            number,
            all,
            subject,
            fault,
        }
    }

    /// Its number among the calls of its operation.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The number of the call among all of its process.
    #[must_use]
    pub fn all(&self) -> u32 {
        self.all
    }

    /// Whether its effect comes later than its answer.
    #[must_use]
    pub fn is_late(&self) -> bool {
        matches!(
            self.fault,
            Some((_, Effect::Later(_) | Effect::CrashLater(_)))
        )
    }

    fn log(&self, what: String) {
        let op = Some((self.op, self.number));
        let process = &self.process;
        process
            .observed()
            .log(process.number(), op, self.subject.clone(), what);
    }

    /// What goes wrong before the effect.
    ///
    /// # Errors
    /// What the caller gets instead of an answer.
    pub async fn before(&self) -> Result<(), Wrong> {
        match self.fault {
            Some((When::Before, effect)) => self.goes_wrong(effect, ErrorKind::Transient).await,
            _ => Ok(()),
        }
    }

    async fn goes_wrong(&self, effect: Effect, unknown: ErrorKind) -> Result<(), Wrong> {
        let process = &self.process;
        match effect {
            Effect::Crash => {
                self.log("the process dies".to_owned());
                process.die();
                pending::<()>().await;
            }
            Effect::Freeze(millis) => process.freeze(millis),
            Effect::Unknown => {
                self.log(format!("{unknown:?}"));
                return Err(Wrong(unknown));
            }
            Effect::Refused => {
                // A sink can't say of what it has done that it is refused. A store says nothing in any case, only that
                // there is no use in trying again.
                let kind = match unknown {
                    ErrorKind::Unknown if !self.op.is_of_the_store() => unknown,
                    _ => ErrorKind::Rejected,
                };
                self.log(format!("{kind:?}"));
                return Err(Wrong(kind));
            }
            Effect::Delay(millis) => sleep(Duration::from_millis(millis)).await,
            Effect::Panic => {
                self.log("panics".to_owned());
                process.observed().reached(Rare::Panicked);
                // As `panic!`, but for the report on the terminal.
                resume_unwind(Box::new("planned"))
            }
            Effect::Later(_) | Effect::CrashLater(_) | Effect::Twice => {}
            Effect::Stop | Effect::StartTwice => {}
        }
        process.turn().await;
        Ok(())
    }

    /// Has the effect, once or as often as is laid down, now or later.
    ///
    /// # Errors
    /// What the caller gets instead of an answer; or the error of the call itself.
    pub async fn apply<T: Send + 'static, E: From<Wrong> + Send + 'static>(
        &self,
        effect: impl Fn() -> Answer<T, E> + Send + 'static,
    ) -> Result<T, E> {
        match self.fault {
            Some((_, Effect::Twice)) if self.op.is_request() => {
                self.log("arrives twice".to_owned());
                let _lost = effect().await;
            }
            _ => return self.apply_once(effect).await,
        }
        effect().await
    }

    /// Has the effect, now or later.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub async fn apply_once<T: Send + 'static, E: From<Wrong> + Send + 'static>(
        &self,
        effect: impl FnOnce() -> Answer<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let (millis, dies) = match self.fault {
            Some((_, Effect::Later(millis))) => (millis, false),
            Some((_, Effect::CrashLater(millis))) => (millis, true),
            _ => return effect().await,
        };
        self.log(format!("comes {millis} later"));
        let (process, op, subject) = (self.process.clone(), self.op, self.subject.clone());
        let number = self.number;
        let late = tokio::spawn(async move {
            sleep(Duration::from_millis(millis)).await;
            let answer = if effect().await.is_ok() {
                "comes now"
            } else {
                "comes now, in vain"
            };
            if op == Op::PreCommit {
                process.observed().reached(Rare::PreparedLater);
            }
            process.observed().log(
                process.number(),
                Some((op, number)),
                subject,
                answer.to_owned(),
            );
        });
        self.process.observed().with(|facts| facts.late.push(late));
        if dies {
            self.process.die();
            pending::<()>().await;
        }
        Err(E::from(Wrong(ErrorKind::Unknown)))
    }

    /// Ends a call: what goes wrong after its effect, and the delay on the way back.
    ///
    /// # Errors
    /// What the caller gets instead of the answer; or the error of the call itself.
    pub async fn leave<T: std::fmt::Debug, E: From<Wrong> + std::fmt::Debug>(
        self,
        answer: Result<T, E>,
    ) -> Result<T, E> {
        self.log(match &answer {
            Ok(answer) => format!("{answer:?}"),
            Err(error) => format!("{error:?}"),
        });
        if let Some((When::After, effect)) = self.fault
            && answer.is_ok()
        {
            let without_answer = match (self.op, effect) {
                (Op::CreateDecision, Effect::Unknown) => Some(Rare::DecisionWithoutAnswer),
                (Op::CreateSettled, Effect::Unknown) => Some(Rare::SettledWithoutAnswer),
                _ => None,
            };
            if let Some(rare) = without_answer {
                self.process.observed().reached(rare);
            }
            self.goes_wrong(effect, ErrorKind::Unknown).await?;
        }
        let delay = self.process.delay(self.op, self.number, When::After);
        self.process.wait(delay).await;
        answer
    }

    /// Says what it turned out to be about.
    #[must_use]
    pub fn about(mut self, subject: Subject) -> Self {
        self.subject = subject;
        self
    }

    /// As [`leave`](Self::leave), without a turn for others: what was taken must be handed over at once.
    ///
    /// # Errors
    /// What the caller gets instead of the answer.
    pub fn leave_at_once<T, E: From<Wrong>>(self, answer: T, what: String) -> Result<T, E> {
        self.log(what);
        match self.fault {
            Some((When::After, Effect::Unknown | Effect::Refused)) => {
                self.log("Unknown".to_owned());
                Err(Wrong(ErrorKind::Unknown).into())
            }
            Some((When::After, Effect::Panic)) => {
                self.process.observed().reached(Rare::Panicked);
                resume_unwind(Box::new("planned"))
            }
            Some((When::After, Effect::Crash)) => {
                self.process.die();
                Ok(answer)
            }
            // A delay here would be a place to be dropped at.
            _ => Ok(answer),
        }
    }
}
