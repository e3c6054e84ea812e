//! Checks that a pipeline can resume from the newest checkpoint: everything in it needs a place to go.

use std::collections::BTreeSet;

use super::failure::JobError;

use super::plan::Plan;
use super::settings::Settings;
use crate::checkpoint::{Decisions, Manifest};

/// Names of the parts that were taken out of the pipeline on purpose.
#[derive(Debug, Clone, Default)]
pub(crate) struct Removed {
    pub(crate) sources: BTreeSet<String>,
    pub(crate) operators: BTreeSet<String>,
    pub(crate) sinks: BTreeSet<String>,
}

impl Plan {
    /// Checks the newest checkpoint against this pipeline, before anything outside is touched.
    pub(super) fn check(&self, decisions: &Decisions, settings: &Settings) -> Result<(), JobError> {
        self.check_removed(&settings.removed)?;
        let Some(newest) = &decisions.newest else {
            return Ok(());
        };
        let checked = check_shards(newest, settings)
            .and_then(|()| self.check_parts(newest, &settings.removed))
            .and_then(|()| self.check_transactions(newest, decisions.settled));
        checked.map_err(|reason| JobError::OtherPipeline {
            checkpoint: newest.checkpoint,
            reason,
        })
    }

    /// A part that is removed and still there is a mistake in one of the two.
    fn check_removed(&self, removed: &Removed) -> Result<(), JobError> {
        let sources = self
            .sources
            .keys()
            .map(|id| ("source", id.as_str(), &removed.sources));
        let operators = self
            .operators
            .iter()
            .map(|id| ("operator", id.as_str(), &removed.operators));
        let sinks = self
            .sinks
            .keys()
            .map(|id| ("sink", id.as_str(), &removed.sinks));
        let mut parts = sources.chain(operators).chain(sinks);
        match parts.find(|(_, id, removed)| removed.contains(*id)) {
            None => Ok(()),
            Some((part, id, _)) => Err(JobError::Plan(format!(
                "{part} {id} is to be removed, and the pipeline still has it: take it out of the pipeline, or don't \
                 remove it"
            ))),
        }
    }

    fn check_parts(&self, newest: &Manifest, removed: &Removed) -> Result<(), String> {
        let gone = |part: &str, id: &dyn std::fmt::Display, call: &str| {
            Err(format!(
                "it has {part} {id}, which is gone from the pipeline: put it back, or remove it on purpose with \
                 Job::{call}(\"{id}\")"
            ))
        };
        let mut splits = newest.splits.iter().map(|split| &split.source);
        if let Some(id) = splits
            .find(|id| !self.sources.contains_key(id) && !removed.sources.contains(id.as_str()))
        {
            return gone("positions of source", id, "remove_source");
        }
        let mut operators = newest.state.iter().map(|part| &part.operator);
        if let Some(id) = operators
            .find(|id| !self.operators.contains(id) && !removed.operators.contains(id.as_str()))
        {
            return gone("state of operator", id, "remove_operator");
        }
        let mut sinks = newest.sinks.iter();
        match sinks.find(|id| !self.sinks.contains_key(id) && !removed.sinks.contains(id.as_str()))
        {
            Some(id) => gone("output of sink", id, "remove_sink"),
            None => Ok(()),
        }
    }

    fn check_transactions(&self, newest: &Manifest, settled: bool) -> Result<(), String> {
        for transaction in &newest.transactions {
            let id = &transaction.id;
            if id.job != self.job {
                return Err(format!("it names a transaction of job {}: {id}", id.job));
            }
            if !settled && !self.sinks.contains_key(&id.sink) {
                return Err(format!(
                    "it names transaction {id}, and nothing records that it is committed: start the job with sink {} once \
                     more and stop it cleanly, then remove the sink",
                    id.sink
                ));
            }
        }
        Ok(())
    }
}

fn check_shards(newest: &Manifest, settings: &Settings) -> Result<(), String> {
    let (stored, set) = (newest.shards, settings.shards);
    if stored == set {
        return Ok(());
    }
    Err(format!(
        "it has {stored} shards, and this job is set to {set}: set it to {stored}, the number is fixed"
    ))
}
