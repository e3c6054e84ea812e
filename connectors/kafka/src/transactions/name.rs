//! Names in Kafka: a transactional id tells job, sink, epoch, subtask and slot; a group tells job, sink and subtask.
//!
//! Slots are a pool: an id is used again once the transaction that had it is settled. So ten thousand checkpoints leave
//! three or four ids in each subtask, where a new id each would fill the memory of the brokers for seven days
//! (`transactional.id.expiration.ms`). The epoch in the name keeps a process that was overtaken from the ids of its
//! successor, which it would abort by initialising them.

use cofferdam::{Epoch, JobId, SinkId, SubtaskIndex, TransactionId};

/// What all names begin with, for access control by prefix.
const PREFIX: &str = "cofferdam";

/// The subtask of a sink in one run: its ids are a pool of their own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Lane {
    pub(crate) job: JobId,
    pub(crate) sink: SinkId,
    pub(crate) epoch: Epoch,
    pub(crate) subtask: SubtaskIndex,
}

impl Lane {
    pub(crate) fn of(id: &TransactionId) -> Self {
        Self {
            job: id.job.clone(),
            sink: id.sink.clone(),
            epoch: id.epoch,
            subtask: id.subtask,
        }
    }

    /// The transactional id of a slot. Job and sink names hold no dots.
    pub(crate) fn transactional_id(&self, slot: u32) -> String {
        let Self { job, sink, epoch, subtask } = self;
        format!("{PREFIX}.{job}.{sink}.{epoch}.{subtask}.{slot}")
    }

    /// The lane and the slot of a transactional id; `None` if it is none of ours.
    pub(crate) fn parse(transactional_id: &str) -> Option<(Self, u32)> {
        let mut parts = transactional_id.split('.');
        let mut part = || parts.next();
        if part()? != PREFIX {
            return None;
        }
        let lane = Self {
            job: JobId::new(part()?).ok()?,
            sink: SinkId::new(part()?).ok()?,
            epoch: Epoch(part()?.parse().ok()?),
            subtask: SubtaskIndex(part()?.parse().ok()?),
        };
        let slot = part()?.parse().ok()?;
        // Numbers have many spellings ("+1", "01"); only the one that we write is a name of ours.
        let same = lane.transactional_id(slot) == transactional_id;
        (parts.next().is_none() && same).then_some((lane, slot))
    }
}

/// What the transactional ids of a job begin with.
pub(crate) fn prefix_of_job(job: &JobId) -> String {
    format!("{PREFIX}.{job}.")
}

/// The transactional id that asks the cluster, at the start of a run, whether it would take our time limit.
pub(crate) fn probe(job: &JobId, sink: &SinkId) -> String {
    format!("{PREFIX}.{job}.{sink}.start")
}

/// The group in which a subtask leaves the evidence of its commits, over all epochs.
pub(crate) fn evidence_group(job: &JobId, sink: &SinkId, subtask: SubtaskIndex) -> String {
    format!("{}{subtask}", prefix_of_groups(job, sink))
}

/// What the groups of a sink begin with.
pub(crate) fn prefix_of_groups(job: &JobId, sink: &SinkId) -> String {
    format!("{PREFIX}.{job}.{sink}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_all_that_it_was_made_of() {
        let lane = Lane {
            job: JobId::new("orders-eu").unwrap(),
            sink: SinkId::new("out_1").unwrap(),
            epoch: Epoch(u64::MAX),
            subtask: SubtaskIndex(7),
        };
        let name = lane.transactional_id(3);
        assert_eq!(name, "cofferdam.orders-eu.out_1.18446744073709551615.7.3");
        assert_eq!(Lane::parse(&name), Some((lane, 3)));
    }

    #[test]
    fn what_is_not_spelled_as_we_do_is_not_ours() {
        for name in [
            "",
            "cofferdam",
            "cofferdam.a.b.1.2",
            "cofferdam.a.b.1.2.3.4",
            "cofferdam.a.b.01.2.3",
            "cofferdam.a.b.1.+2.3",
            "cofferdam.a.b.1.2.",
            "cofferdam.a.b.start",
            "cofferdam.ä.b.1.2.3",
            "other.a.b.1.2.3",
            "Cofferdam.a.b.1.2.3",
        ] {
            assert_eq!(Lane::parse(name), None, "{name:?}");
        }
    }
}
