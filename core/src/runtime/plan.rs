//! What a job runs: the pipeline, with its types erased.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;

use super::erased::ErasedSink;
use super::failure::JobError;
use super::settings::Settings;
use super::site::Launch;
use crate::checkpoint::Manifest;
use crate::error::SourceError;
use crate::identity::{JobId, OperatorId, SinkId, SourceId};
use crate::pipeline::Stage;
use crate::source::{Source, SplitId};

/// The part of a pipeline in front of a chain: what feeds it.
#[async_trait]
pub trait Head<T>: Send + Sync + 'static {
    /// Adds to the run the subtasks that feed these chains, one each.
    async fn launch<N: Stage<T>>(
        &self,
        launch: &mut Launch,
        stages: Vec<N>,
    ) -> Result<(), JobError>;
}

/// How long a job may take to come back after a crash, when it has to be in time for what it left prepared.
const RESTART: Duration = Duration::from_secs(30);

/// A path through the pipeline from a source to a sink.
#[async_trait]
pub trait Flow: Send + Sync {
    /// Adds all its subtasks to the run.
    async fn launch(&self, launch: &mut Launch) -> Result<(), JobError>;
}

/// A source, as far as decided checkpoints are told to it.
#[async_trait]
pub(crate) trait ErasedSource: Send + Sync {
    async fn notify(&self, id: &SourceId, manifest: &Manifest) -> Result<(), SourceError>;
}

#[async_trait]
impl<S: Source> ErasedSource for Arc<S> {
    async fn notify(&self, id: &SourceId, manifest: &Manifest) -> Result<(), SourceError> {
        let positions = manifest.splits.iter().filter(|split| split.source == *id);
        let positions = positions
            .filter_map(|split| Some((&split.split, split.position.as_ref()?)))
            .map(|(split, position)| Ok((split.clone(), position_of::<S>(split, position)?)))
            .collect::<Result<Vec<_>, SourceError>>()?;
        S::notify(self, manifest.checkpoint, &positions).await
    }
}

/// A position as its source wrote it.
pub(crate) fn position_of<S: Source>(
    split: &SplitId,
    position: &serde_json::Value,
) -> Result<S::Position, SourceError> {
    S::Position::deserialize(position).map_err(|error| {
        SourceError::configuration(format!(
            "the stored position of split {split} can't be read"
        ))
        .hint("was the source exchanged for one of another kind?")
        .caused_by(error)
    })
}

/// A whole pipeline.
pub(crate) struct Plan {
    pub(crate) job: JobId,
    pub(crate) sources: BTreeMap<SourceId, Arc<dyn ErasedSource>>,
    pub(crate) operators: Vec<OperatorId>,
    pub(crate) sinks: BTreeMap<SinkId, Arc<dyn ErasedSink>>,
    pub(crate) flows: Vec<Box<dyn Flow>>,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("job", &self.job)
            .finish_non_exhaustive()
    }
}

impl Plan {
    /// The least number of prepared transactions that a sink of this job can hold, if one is limited.
    pub(super) fn max_prepared(&self) -> Option<usize> {
        self.sinks
            .values()
            .filter_map(|sink| sink.capabilities().max_prepared)
            .min()
    }

    /// How long sources may be held back while older checkpoints are committed: as [`check_expiry`](Self::check_expiry) counts
    /// on, if an outside system keeps transactions for a limited time.
    pub(super) fn longest_hold(&self, settings: &Settings) -> Duration {
        let expires = |sink: &Arc<dyn ErasedSink>| sink.capabilities().expiry.is_some();
        match self.sinks.values().any(expires) {
            true => settings.checkpoint_timeout,
            false => Duration::MAX,
        }
    }

    /// Whether each sink's outside system keeps transactions until they are decided and committed, also after a restart.
    pub(super) fn check_expiry(&self, settings: &Settings) -> Result<(), JobError> {
        // What is prepared for a checkpoint that is dropped rides with the next, for as long as is tolerated.
        let tries = settings.tolerable_failures.saturating_add(1);
        let (interval, timeout) = (settings.checkpoint_interval, settings.checkpoint_timeout);
        let undecided = interval.saturating_add(timeout).saturating_mul(tries);
        // A transaction may be open while sources are held back, as too many checkpoints wait for their commits.
        let needed = undecided.saturating_add(timeout).saturating_add(RESTART);
        for (sink, erased) in &self.sinks {
            let Some(expiry) = erased.capabilities().expiry else {
                continue;
            };
            if expiry < needed {
                return Err(JobError::Plan(format!(
                    "sink {sink}: its outside system keeps a transaction for {expiry:?}, and it may take {needed:?} until it \
                     is committed: {tries} times a checkpoint interval of {interval:?} and a time-out of {timeout:?} (as {} \
                     failed checkpoints are tolerated), {timeout:?} for older commits, and {RESTART:?} for a restart. Set the outside system to keep \
                     it for longer, or lower checkpoint_interval, checkpoint_timeout or tolerable_checkpoint_failures",
                    settings.tolerable_failures
                )));
            }
        }
        Ok(())
    }
}

/// Two readers of one split would both read its records: only a source can have brought that about.
pub(super) fn check_readers(manifest: &Manifest) -> Result<(), JobError> {
    let mut seen = BTreeSet::new();
    let mut splits = manifest.splits.iter();
    match splits.find(|split| !seen.insert((&split.source, &split.split))) {
        None => Ok(()),
        Some(twice) => {
            let text = format!("two of its readers read split {}", twice.split);
            Err(JobError::Source {
                source_id: twice.source.clone(),
                cause: SourceError::rejected(text),
            })
        }
    }
}
