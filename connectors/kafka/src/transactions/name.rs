//! Names in Kafka: a transactional id tells job, sink, epoch, subtask and slot; a group tells job, sink and subtask.
//!
//! Slots are a pool: an id is used again once the transaction that had it is settled. So ten thousand checkpoints leave
//! three or four ids in each subtask, where a new id each would fill the memory of the brokers for seven days
//! (`transactional.id.expiration.ms`). The epoch in the name keeps a process that was overtaken from the ids of its
//! successor, which it would abort by initialising them.

use std::sync::Arc;

use cofferdam::{Epoch, JobId, SinkId, SubtaskIndex, TransactionId};

/// What all names begin with if the sink is not told otherwise.
pub(crate) const PREFIX: &str = "cofferdam";

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
}

/// The names of a sink, all with one prefix: for access control, and for jobs of one name that share a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    prefix: Arc<str>,
}

impl Names {
    pub(crate) fn new(prefix: impl Into<Arc<str>>) -> Self {
        Self {
            prefix: prefix.into(),
        }
    }

    /// The transactional id of a slot. Job and sink names hold no dots.
    pub(crate) fn transactional_id(&self, lane: &Lane, slot: u32) -> String {
        let Lane {
            job,
            sink,
            epoch,
            subtask,
        } = lane;
        format!("{}.{job}.{sink}.{epoch}.{subtask}.{slot}", self.prefix)
    }

    /// The lane and the slot of a transactional id; `None` if it is none of ours.
    pub(crate) fn parse(&self, transactional_id: &str) -> Option<(Lane, u32)> {
        let mut parts = transactional_id
            .strip_prefix(&*self.prefix)?
            .strip_prefix('.')?
            .split('.');
        let mut part = || parts.next();
        let lane = Lane {
            job: JobId::new(part()?).ok()?,
            sink: SinkId::new(part()?).ok()?,
            epoch: Epoch(part()?.parse().ok()?),
            subtask: SubtaskIndex(part()?.parse().ok()?),
        };
        let slot = part()?.parse().ok()?;
        // Numbers have many spellings ("+1", "01"); only the one that we write is a name of ours.
        let same = self.transactional_id(&lane, slot) == transactional_id;
        (parts.next().is_none() && same).then_some((lane, slot))
    }

    /// What the transactional ids of a job begin with.
    pub(crate) fn of_job(&self, job: &JobId) -> String {
        format!("{}.{job}.", self.prefix)
    }

    /// What the transactional ids of a sink begin with, and its groups.
    pub(crate) fn of_sink(&self, job: &JobId, sink: &SinkId) -> String {
        format!("{}.{job}.{sink}.", self.prefix)
    }

    /// The transactional id that asks the cluster, at the start of a run, whether it would take our time limit.
    pub(crate) fn probe(&self, job: &JobId, sink: &SinkId) -> String {
        format!("{}start", self.of_sink(job, sink))
    }

    /// The group in which a subtask leaves the evidence of its commits, over all epochs.
    pub(crate) fn evidence_group(
        &self,
        job: &JobId,
        sink: &SinkId,
        subtask: SubtaskIndex,
    ) -> String {
        format!("{}{subtask}", self.of_sink(job, sink))
    }

    /// Whether this is the name of such a group.
    pub(crate) fn is_evidence_group(&self, job: &JobId, sink: &SinkId, group: &str) -> bool {
        group
            .strip_prefix(&self.of_sink(job, sink))
            .is_some_and(|subtask| {
                subtask
                    .parse()
                    .is_ok_and(|number: u32| number.to_string() == subtask)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_all_that_it_was_made_of() {
        let names = Names::new("team.a");
        let lane = Lane {
            job: JobId::new("orders-eu").expect("a name"),
            sink: SinkId::new("out_1").expect("a name"),
            epoch: Epoch(u64::MAX),
            subtask: SubtaskIndex(7),
        };
        let name = names.transactional_id(&lane, 3);
        assert_eq!(name, "team.a.orders-eu.out_1.18446744073709551615.7.3");
        assert_eq!(names.parse(&name), Some((lane, 3)));
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
            "cofferdamn.a.b.1.2.3",
            "other.a.b.1.2.3",
            "Cofferdam.a.b.1.2.3",
        ] {
            assert_eq!(Names::new(PREFIX).parse(name), None, "{name:?}");
        }
    }

    #[test]
    fn a_group_of_a_sink_is_not_that_of_one_whose_name_begins_alike() {
        let (names, job) = (Names::new(PREFIX), JobId::new("job").expect("a name"));
        let sink = |name: &str| SinkId::new(name).expect("a name");
        assert!(names.is_evidence_group(&job, &sink("out"), "cofferdam.job.out.12"));
        for group in [
            "cofferdam.job.out.x",
            "cofferdam.job.out.01",
            "cofferdam.job.out2.1",
            "cofferdam.job.out.",
        ] {
            assert!(
                !names.is_evidence_group(&job, &sink("out"), group),
                "{group}"
            );
        }
    }
}
