//! What feeds a chain: a source, or an exchange behind another chain.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::event_time::TimestampAssigner;
use super::exchange::{CHANNEL, Exchange};
use super::route::{ByKey, Route};
use super::stage::{Chain, Signal, Stage, Tail};
use crate::checkpoint::SplitSnapshot;
use crate::error::SourceError;
use crate::identity::{SourceId, SubtaskIndex};
use crate::runtime::{
    Failure, Flow, Head, Inputs, JobError, Launch, SourceSubtask, SplitClocks, position_of,
};
use crate::source::{Source, SplitId};
use crate::time::Timestamp;

/// A source as the head of a chain.
pub struct SourceHead<S, A> {
    pub(crate) id: SourceId,
    pub(crate) source: Arc<S>,
    pub(crate) assigner: A,
}

impl<S: Source, A: TimestampAssigner<S::Record>> SourceHead<S, A> {
    /// Divides the splits of the checkpoint and of today among subtasks: in order, one after another.
    async fn assign(
        &self,
        launch: &mut Launch,
    ) -> Result<Vec<BTreeMap<SplitId, Option<SplitSnapshot>>>, SourceError> {
        let stored = launch.splits.iter().filter(|split| split.source == self.id);
        let stored: Vec<&SplitSnapshot> = stored.collect();
        let known: Vec<SplitId> = stored.iter().map(|split| split.split.clone()).collect();
        let today = self.source.splits(&known);
        let today = launch
            .calls
            .wait("splits", &self.id, today)
            .await?
            .into_iter();
        let today = today.map(|split| (split, None));
        let stored = (stored.into_iter()).map(|split| (split.split.clone(), Some(split.clone())));
        let all: BTreeMap<SplitId, Option<SplitSnapshot>> = today.chain(stored).collect();
        let mut assigned: Vec<_> = launch.subtasks().map(|_| BTreeMap::new()).collect();
        let count = assigned.len();
        for (index, (split, snapshot)) in all.into_iter().enumerate() {
            assigned[index % count].insert(split, snapshot);
        }
        Ok(assigned)
    }

    async fn subtask(
        &self,
        launch: &mut Launch,
        subtask: SubtaskIndex,
        splits: BTreeMap<SplitId, Option<SplitSnapshot>>,
    ) -> Result<SourceSubtask<S, A>, SourceError> {
        let mut clocks = SplitClocks::new();
        let mut unfinished = Vec::new();
        for (split, snapshot) in splits {
            let stored = snapshot
                .as_ref()
                .and_then(|snapshot| snapshot.position.as_ref());
            let position = stored
                .map(|stored| position_of::<S>(&split, stored))
                .transpose()?;
            let newest = snapshot.as_ref().and_then(|snapshot| snapshot.newest);
            let finished = snapshot.is_some_and(|snapshot| snapshot.finished);
            if !finished {
                unfinished.push((split.clone(), position.clone()));
            }
            clocks.add(split, position, newest, finished);
        }
        let reader = match unfinished.is_empty() {
            true => None,
            false => {
                let open = self.source.open(unfinished);
                Some(launch.calls.wait("open", &self.id, open).await?)
            }
        };
        Ok(SourceSubtask {
            id: self.id.clone(),
            reader,
            assigner: self.assigner.clone(),
            clocks,
            barriers: launch.barriers(),
            hold: launch.hold(),
            seat: launch.seat(subtask),
            records: launch.count(&self.id, "records"),
            skipped: launch.count(&self.id, "skipped"),
            said: Signal::Watermark(Timestamp::MIN),
            windows: launch.windows,
        })
    }
}

impl<S, A> fmt::Debug for SourceHead<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceHead")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<S: Source, A: TimestampAssigner<S::Record>> Head<S::Record> for SourceHead<S, A> {
    async fn launch<N: Stage<S::Record>>(
        &self,
        launch: &mut Launch,
        stages: Vec<N>,
    ) -> Result<(), JobError> {
        let failed = |cause| JobError::Source {
            source_id: self.id.clone(),
            cause,
        };
        let assigned = self.assign(launch).await.map_err(failed)?;
        for ((subtask, splits), stage) in launch.subtasks().zip(assigned).zip(stages) {
            let subtask = self
                .subtask(launch, subtask, splits)
                .await
                .map_err(failed)?;
            launch.task(subtask.run(stage));
        }
        Ok(())
    }
}

/// An exchange behind another chain, for what keeps state by key.
pub type KeyedHead<H, C, K, F> = ExchangeHead<H, C, ByKey<K, F>>;

/// An exchange behind another chain.
pub struct ExchangeHead<H, C, R> {
    pub(crate) before: H,
    pub(crate) chain: C,
    pub(crate) route: Arc<R>,
}

impl<H: fmt::Debug, C, R> fmt::Debug for ExchangeHead<H, C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExchangeHead")
            .field("before", &self.before)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<H, C, R> Head<R::Out> for ExchangeHead<H, C, R>
where
    H: Head<C::In>,
    C: Chain,
    R: Route<C::Out>,
{
    async fn launch<N: Stage<R::Out>>(
        &self,
        launch: &mut Launch,
        stages: Vec<N>,
    ) -> Result<(), JobError> {
        if launch.parallelism == 1 {
            return self.launch_locally(launch, stages).await;
        }
        let mut senders: Vec<Vec<_>> = launch.subtasks().map(|_| Vec::new()).collect();
        for (subtask, stage) in launch.subtasks().zip(stages) {
            let mut receivers = Vec::new();
            for senders in &mut senders {
                let (sender, receiver) = mpsc::channel(CHANNEL);
                senders.push(sender);
                receivers.push(receiver);
            }
            let seat = launch.seat(subtask);
            launch.task(Inputs::new(receivers).run(seat, stage));
        }
        let mut before = Vec::new();
        for (subtask, senders) in launch.subtasks().zip(senders) {
            let mut site = launch.site(subtask);
            let exchange = Exchange::new(Arc::clone(&self.route), site.sharding(), senders);
            before.push(self.chain.stage(&mut site, exchange).map_err(reason)?);
        }
        self.before.launch(launch, before).await
    }
}

impl<H, C, R> ExchangeHead<H, C, R>
where
    H: Head<C::In>,
    C: Chain,
    R: Route<C::Out>,
{
    /// With one subtask there is nothing to exchange: the chains before and behind run as one.
    async fn launch_locally<N: Stage<R::Out>>(
        &self,
        launch: &mut Launch,
        stages: Vec<N>,
    ) -> Result<(), JobError> {
        let mut before = Vec::new();
        for (subtask, stage) in launch.subtasks().zip(stages) {
            let local = R::local(&self.route, stage);
            let chain = self.chain.stage(&mut launch.site(subtask), local);
            before.push(chain.map_err(reason)?);
        }
        self.before.launch(launch, before).await
    }
}

/// A path through the pipeline, from its head to its end.
pub(crate) struct WholeFlow<H, C, E> {
    pub(crate) head: H,
    pub(crate) chain: C,
    pub(crate) end: E,
}

#[async_trait]
impl<H: Head<C::In>, C: Chain, E: Tail<C::Out>> Flow for WholeFlow<H, C, E> {
    async fn launch(&self, launch: &mut Launch) -> Result<(), JobError> {
        let mut stages = Vec::new();
        for subtask in launch.subtasks() {
            let mut site = launch.site(subtask);
            let end = self.end.stage(&mut site).map_err(reason)?;
            stages.push(self.chain.stage(&mut site, end).map_err(reason)?);
        }
        self.head.launch(launch, stages).await
    }
}

fn reason(failure: Failure) -> JobError {
    match failure {
        Failure::Error(error) => *error,
        Failure::Cancelled => JobError::RolledBack("cancelled at the start".to_owned()),
    }
}
