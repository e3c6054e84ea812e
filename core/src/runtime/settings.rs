//! What can be set about a job.

use std::time::Duration;

use super::failure::JobError;
use super::restart::RestartStrategy;
use super::resume::Removed;
use crate::identity::TransactionId;
use crate::shard::MAX_SHARDS;

/// The longest time that can be set: clocks can't count much longer ones, and none is of use.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// What can be set about a job.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) parallelism: u32,
    pub(crate) shards: u32,
    pub(crate) checkpoint_interval: Duration,
    pub(crate) checkpoint_timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) stop_timeout: Duration,
    pub(crate) standby: Option<Duration>,
    pub(crate) tolerable_failures: u32,
    pub(crate) max_unconfirmed: usize,
    pub(crate) retained_checkpoints: usize,
    pub(crate) restart: RestartStrategy,
    pub(crate) accepted_losses: Vec<TransactionId>,
    pub(crate) removed: Removed,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            parallelism: 1,
            shards: 128,
            checkpoint_interval: Duration::from_secs(1),
            checkpoint_timeout: Duration::from_secs(60),
            call_timeout: Duration::from_secs(120),
            stop_timeout: Duration::from_secs(60),
            standby: None,
            tolerable_failures: 3,
            // Commits may fall behind barriers by so much before they hold them up.
            max_unconfirmed: 4,
            retained_checkpoints: 3,
            restart: RestartStrategy::default(),
            accepted_losses: Vec::new(),
            removed: Removed::default(),
        }
    }
}

impl Settings {
    pub(super) fn check(&self) -> Result<(), JobError> {
        let refuse = |what: String| Err(JobError::Plan(what));
        let Self {
            parallelism,
            shards,
            ..
        } = self;
        if *shards > MAX_SHARDS {
            return refuse(format!(
                "shards is set to {shards}: at most {MAX_SHARDS} are allowed"
            ));
        }
        if *parallelism == 0 || *shards == 0 {
            return refuse("parallelism and shards begin at 1".to_owned());
        }
        if parallelism > shards {
            return refuse(format!(
                "a parallelism of {parallelism} needs as many shards, and there are {shards}"
            ));
        }
        if self.checkpoint_interval.is_zero() || self.checkpoint_timeout.is_zero() {
            return refuse("checkpoint interval and timeout can't be zero".to_owned());
        }
        let set = [
            ("checkpoint_interval", Some(self.checkpoint_interval)),
            ("checkpoint_timeout", Some(self.checkpoint_timeout)),
            ("call_timeout", Some(self.call_timeout)),
            ("stop_timeout", Some(self.stop_timeout)),
            ("standby", self.standby),
        ];
        let set = set.into_iter().filter_map(|(name, set)| Some((name, set?)));
        let mut set = set.chain(self.restart.delays());
        if let Some((setting, set)) = set.find(|(_, set)| *set > LONGEST) {
            return refuse(format!(
                "{setting} is set to {set:?}: at most {LONGEST:?} (30 days) are allowed"
            ));
        }
        let interval = self.checkpoint_interval;
        if let Some(standby) = self.standby.filter(|standby| *standby <= interval) {
            return refuse(format!(
                "a standby of {standby:?} is not longer than the checkpoint interval of {interval:?}: every holder would \
                 look silent"
            ));
        }
        if self.call_timeout.is_zero() {
            return refuse("the call timeout can't be zero".to_owned());
        }
        if self.retained_checkpoints == 0 {
            return refuse("at least one checkpoint has to be kept".to_owned());
        }
        Ok(())
    }
}
