//! The start of a run: checks, and an end to all that older epochs left.

use cofferdam::{Fence, InDoubt, JobId, SinkError, Sweep};
use kafka_protocol::messages::TopicName;
use kafka_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use kafka_protocol::protocol::StrBytes;

use super::site::Site;
use crate::error::sink_error;
use crate::transactions::{
    FENCED_TIMEOUT, Lane, PreparedTransaction, TransactionDescription, TransactionState, expires_in,
};
use crate::wire::{Deadline, SPREADING, WireError};

impl Site {
    /// Aborts and fences what older epochs left, but for what is decided.
    pub(super) async fn abort_stale(
        &self,
        fence: &Fence<PreparedTransaction>,
    ) -> Result<Vec<InDoubt>, SinkError> {
        let deadline = self.transactions.cluster.deadline();
        self.producer_config(&self.names.probe(&fence.job, &fence.sink))?;
        self.check_topic(deadline).await?;
        self.check_timeout(fence, deadline).await?;
        self.check_evidence(fence, deadline).await?;
        let prefix = self.names.of_sink(&fence.job, &fence.sink);
        let listed = self.transactions.list(&prefix, deadline).await;
        let listed = listed.map_err(|error| sink_error("can't list transactions", error))?;
        let lane = |id: &str| self.names.parse(id).map(|(lane, _)| lane);
        for (id, _) in &listed {
            if let Some(lane) = lane(id) {
                fence.check(lane.epoch, format_args!("transactional id {id}"))?;
            }
        }
        let older = |id: &str| lane(id).filter(|lane| lane.epoch < fence.epoch);
        let ids = listed.into_iter().map(|(id, _)| id);
        let ids = ids.filter(|id| older(id).is_some()).collect();
        let described = self.transactions.describe_all(ids, deadline).await;
        let described =
            described.map_err(|error| sink_error("can't look at transactions", error))?;
        let mut aborted = Vec::new();
        for found in described {
            let is_open = found.state == TransactionState::Ongoing;
            if found.timeout == i64::from(FENCED_TIMEOUT) && !is_open {
                continue;
            }
            let id = &found.transactional_id;
            // What is decided is spared, and not all that has its id: committed, it made way for the transaction after it.
            let mut decided = fence.decided.iter();
            if decided.any(|(_, handle)| handle.is_newest(&found)) {
                continue;
            }
            let fenced = self
                .transactions
                .take_over(id, FENCED_TIMEOUT, deadline)
                .await;
            fenced.map_err(|error| sink_error(format!("can't fence {id}"), error))?;
            if let (true, Some(lane)) = (is_open, older(id)) {
                aborted.push(in_doubt(lane, &found));
            }
        }
        Ok(aborted)
    }

    /// All that is open or prepared under names of the job.
    pub(super) async fn in_doubt(&self, job: &JobId) -> Result<Vec<InDoubt>, SinkError> {
        let deadline = self.transactions.cluster.deadline();
        let failed = |error| sink_error("can't list transactions", error);
        let listed = self
            .transactions
            .list(&self.names.of_job(job), deadline)
            .await
            .map_err(failed)?;
        let open = listed
            .into_iter()
            .filter(|(_, state)| *state == TransactionState::Ongoing);
        let ids = open.map(|(id, _)| id).collect();
        let described = self
            .transactions
            .describe_all(ids, deadline)
            .await
            .map_err(failed)?;
        let mut all = Vec::new();
        for found in described {
            if let (TransactionState::Ongoing, Some((lane, _))) =
                (&found.state, self.names.parse(&found.transactional_id))
            {
                all.push(in_doubt(lane, &found));
            }
        }
        Ok(all)
    }

    async fn check_topic(&self, deadline: Deadline) -> Result<(), SinkError> {
        let name = TopicName(StrBytes::from_string(self.topic.to_string()));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![
                MetadataRequestTopic::default().with_name(Some(name)),
            ]))
            .with_allow_auto_topic_creation(false);
        let failed = |error| sink_error(format!("can't write to topic {}", self.topic), error);
        let spreading = Deadline::after(SPREADING);
        loop {
            let answer = self
                .transactions
                .cluster
                .metadata(&request, deadline)
                .await
                .map_err(failed)?;
            let code = answer.topics.first().map_or(0, |topic| topic.error_code);
            if code == 0 {
                return Ok(());
            }
            let refused = WireError::Refused {
                what: format!("topic {}", self.topic),
                code,
            };
            // A topic that was just created is not known to all brokers yet, or has no leader.
            let may_come = match refused.is_unknown_topic() {
                true => !spreading.is_over(),
                false => refused.is_retriable(),
            };
            if !may_come {
                return Err(failed(refused));
            }
            deadline.pause("Metadata", refused).await.map_err(failed)?;
        }
    }

    /// Whether the cluster takes our time limit, and lets us have transactions at all.
    async fn check_timeout(
        &self,
        fence: &Fence<PreparedTransaction>,
        deadline: Deadline,
    ) -> Result<(), SinkError> {
        let probe = self.names.probe(&fence.job, &fence.sink);
        let taken = self
            .transactions
            .take_over(&probe, self.timeout, deadline)
            .await;
        taken.map(drop).map_err(|error| {
            let what = format!(
                "can't have transactions that are kept for {} ms",
                self.timeout
            );
            sink_error(what, error)
        })
    }

    /// Checks that nothing is committed that the job's state does not know.
    async fn check_evidence(
        &self,
        fence: &Fence<PreparedTransaction>,
        deadline: Deadline,
    ) -> Result<(), SinkError> {
        let failed = |error| sink_error("can't read the evidence of commits", error);
        let (job, sink) = (&fence.job, &fence.sink);
        let of_sink = |group: &str| self.names.is_evidence_group(job, sink, group);
        let groups = self
            .transactions
            .groups(of_sink, deadline)
            .await
            .map_err(failed)?;
        for group in groups {
            let evidence = self
                .transactions
                .evidence(&group, deadline)
                .await
                .map_err(failed)?;
            let Some(evidence) = evidence else {
                continue;
            };
            if let Some(newest) = evidence.newest_epoch() {
                fence.check(newest, format_args!("a commit, says group {group},"))?;
            }
            let Some(committed) = evidence.newest_checkpoint() else {
                continue;
            };
            if fence.sweep == Sweep::Recovery
                && fence.newest.is_none_or(|newest| committed > newest)
            {
                let newest = fence
                    .newest
                    .map_or("none".to_owned(), |newest| newest.to_string());
                return Err(SinkError::configuration(format!(
                    "checkpoint {committed} is committed in Kafka, says group {group}, and the newest that the job knows \
                     is {newest}: it was given older state, and would write again what is there"
                ))
                .hint("give it its own checkpoints; or, to begin anew, another job id, or delete that group"));
            }
        }
        Ok(())
    }
}

fn in_doubt(lane: Lane, found: &TransactionDescription) -> InDoubt {
    let Lane {
        job,
        sink,
        epoch,
        subtask,
    } = lane;
    InDoubt::of_unknown_checkpoint(job, sink, epoch, subtask, found.transactional_id.as_str())
        .with_expires_in(expires_in(found.started_at, found.timeout))
}
