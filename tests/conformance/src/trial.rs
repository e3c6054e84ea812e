//! One run of one check: a place of its own, and what happened there.

use std::net::SocketAddr;
use std::sync::Arc;

use cofferdam::{Capabilities, Isolation, Resume, TransactionId};

use crate::check::Stop;
use crate::checker::{Promise, check};
use crate::history::Event;
use crate::observer::{Observer, Row};
use crate::process::{Handle, Process};
use crate::site::Site;
use crate::subject::SetUp;
use crate::trouble::Trouble;

/// See the module.
pub(crate) struct Trial {
    set_up: SetUp,
    pub(crate) site: Arc<Site>,
    pub(crate) capabilities: Capabilities,
    /// The test of this executable that plays the part of a child process.
    pub(crate) child_test: Option<&'static str>,
}

impl Trial {
    /// A new place, and what the sink declares there.
    pub(crate) async fn begin(
        set_up: SetUp,
        child_test: Option<&'static str>,
    ) -> Result<Self, Stop> {
        let subject = (set_up.0)().await?;
        let sink = subject.open().await?;
        let site = Arc::new(Site::new(subject));
        let capabilities = Process::new(Arc::clone(&site), sink).capabilities();
        Ok(Self {
            set_up,
            site,
            capabilities,
            child_test,
        })
    }

    /// The same in another place, for what can't be done twice in one. It has its own verdict.
    pub(crate) async fn elsewhere(&self) -> Result<Self, Stop> {
        Self::begin(self.set_up, self.child_test).await
    }

    pub(crate) fn place(&self) -> &dyn Observer {
        self.site.subject.place()
    }

    /// Whether nothing may be visible before it is decided.
    pub(crate) fn hidden(&self) -> bool {
        self.capabilities.isolation != Isolation::Immediate
    }

    /// Whether prepared transactions can be finished by others.
    pub(crate) fn resumes(&self) -> bool {
        self.capabilities.resume == Resume::AnyProcess
    }

    /// A process with a new instance of the sink.
    pub(crate) async fn process(&self) -> Result<Process, Stop> {
        let sink = self.site.subject.open().await?;
        Ok(Process::new(Arc::clone(&self.site), sink))
    }

    /// A process whose sink reaches the system through a proxy.
    pub(crate) async fn process_through(&self, proxy: SocketAddr) -> Result<Process, Stop> {
        let sink = self.site.subject.open_through(proxy).await?;
        Ok(Process::new(Arc::clone(&self.site), sink))
    }

    pub(crate) fn decide(&self, handles: &[&Handle]) {
        let ids = handles.iter().map(|handle| handle.id.clone()).collect();
        self.site.note(Event::Decided(ids));
    }

    /// Without a handle, nothing is held back for the decision.
    pub(crate) fn decided(&self, id: &TransactionId) {
        self.site.note(Event::Decided(vec![id.clone()]));
    }

    pub(crate) fn decide_against(&self, ids: &[&TransactionId]) {
        let ids = ids.iter().map(|id| (*id).clone()).collect();
        self.site.note(Event::DecidedAgainst(ids));
    }

    pub(crate) fn remark(&self, what: impl Into<String>) {
        self.site.note(Event::Note(what.into()));
    }

    /// Looks as a reader, for the history.
    pub(crate) async fn read(&self) -> Result<Vec<Row>, Stop> {
        let rows = self.place().visible().await?;
        self.site.note(Event::Read(rows.clone()));
        Ok(rows)
    }

    /// Demands that so many rows are visible now.
    pub(crate) async fn expect_rows(&self, expected: usize) -> Result<(), Stop> {
        match self.read().await?.len() {
            count if count == expected => Ok(()),
            count => Err(Stop::failed(format!(
                "a reader sees {count} rows instead of {expected}"
            ))),
        }
    }

    /// Demands that nothing is left over beside what is visible.
    pub(crate) async fn expect_no_leftovers(&self) -> Result<(), Stop> {
        let leftovers = match self.place().leftovers().await {
            Err(Trouble::Unsupported(_)) => return Ok(()),
            leftovers => leftovers?,
        };
        if leftovers.is_empty() {
            return Ok(());
        }
        Err(Stop::failed(format!("left over: {}", leftovers.join(", "))))
    }

    /// What the history and the calls showed, once the steps of the check are done.
    pub(crate) async fn verdict(&self) -> Result<(), Stop> {
        self.read().await?;
        // Once more: what was visible must stay so.
        self.read().await?;
        self.site.note(Event::Quiet);
        let mut wrong = self.site.violations();
        let anomalies = check(&self.site.history(), Promise::of(&self.capabilities));
        wrong.extend(anomalies.iter().map(ToString::to_string));
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Stop::failed(wrong.join("\n")))
    }
}
