//! The source of a simulated process: splits in memory, read at a pace of their own, behind calls that go wrong.

use std::sync::Arc;
use std::time::Duration;

use cofferdam::{
    CheckpointId, Source, SourceBatch, SourceError, SourceEvent, SourceReader, SplitId, async_trait,
};
use tokio::time::{Instant, sleep_until};

use crate::call::Wrong;
use crate::flaw::Flaw;
use crate::input::{Record, Row, Rows};
use crate::observed::Subject;
use crate::process::Process;
use crate::rare::Rare;
use crate::schedule::Op;

/// A source whose calls go wrong.
#[derive(Debug, Clone)]
pub struct SimulatedSource {
    /// What it holds.
    pub rows: Arc<Rows>,
    /// How many records come at once, at most.
    pub batch: usize,
    /// The longest time between two batches of a reader, in milliseconds.
    pub pause: u64,
    /// Who calls.
    pub process: Process,
    /// What is built wrong.
    pub flaw: Option<Flaw>,
}

impl From<Wrong> for SourceError {
    fn from(Wrong(kind): Wrong) -> Self {
        Self::new(kind, "planned")
    }
}

#[async_trait]
impl Source for SimulatedSource {
    type Record = Record;
    type Position = usize;
    type Reader = SimulatedReader;

    async fn splits(&self, _: &[SplitId]) -> Result<Vec<SplitId>, SourceError> {
        let call = self.process.enter(Op::Splits, Subject::Other).await?;
        let name = |index| SplitId::new(format!("{index:03}"));
        call.leave(Ok((0..self.rows.len()).map(name).collect()))
            .await
    }

    async fn open(
        &self,
        splits: Vec<(SplitId, Option<usize>)>,
    ) -> Result<SimulatedReader, SourceError> {
        let call = self.process.enter(Op::Open, Subject::Other).await?;
        let position = |at: Option<usize>| match (self.flaw, at) {
            (Some(Flaw::SkipsOneOnRestore), Some(at)) => at + 1,
            (Some(Flaw::ForgetsPosition), _) => 0,
            (_, at) => at.unwrap_or(0),
        };
        let open = |(id, at): (SplitId, Option<usize>)| Split {
            index: id.as_str().parse().unwrap_or(usize::MAX),
            at: position(at),
            idle: false,
            id,
        };
        let splits: Vec<Split> = splits.into_iter().map(open).collect();
        let opened: Vec<(SplitId, usize)> = splits
            .iter()
            .map(|split| (split.id.clone(), split.at))
            .collect();
        call.leave(Ok::<_, SourceError>(opened)).await?;
        Ok(SimulatedReader {
            source: self.clone(),
            splits,
            turn: 0,
            ready: None,
        })
    }

    async fn notify(
        &self,
        checkpoint: CheckpointId,
        _: &[(SplitId, usize)],
    ) -> Result<(), SourceError> {
        let call = self.process.enter(Op::Notify, Subject::Other).await?;
        let observed = self.process.observed().clone();
        let told = call.apply::<_, SourceError>(move || {
            let decided = observed.with(|facts| facts.checkpoints.contains(&checkpoint));
            observed.demand(decided, || {
                format!("the source is told of checkpoint {checkpoint}, which is not decided")
            });
            Box::pin(async { Ok(()) })
        });
        let told = told.await;
        call.leave(told).await
    }
}

#[derive(Debug)]
struct Split {
    id: SplitId,
    index: usize,
    at: usize,
    idle: bool,
}

/// Reads splits, now this one, now that.
#[derive(Debug)]
pub struct SimulatedReader {
    source: SimulatedSource,
    splits: Vec<Split>,
    turn: u64,
    /// When the next batch is there: kept, so that a dropped call loses no time.
    ready: Option<Instant>,
}

impl SimulatedReader {
    fn take(&mut self) -> (SourceEvent<Record, usize>, Subject, String) {
        let process = &self.source.process;
        let turn = process.chance([0x7E57, self.turn, self.splits.len() as u64]);
        self.turn += 1;
        let others_idle = self.splits.iter().filter(|split| split.idle).count();
        let count = self.splits.len() as u64;
        if count == 0 {
            return (SourceEvent::End, Subject::Other, "end".to_owned());
        }
        let turn = usize::try_from(turn % count).unwrap_or(0);
        let split = &mut self.splits[turn];
        let id = split.id.clone();
        let subject = Subject::Split(id.clone());
        let rest = self
            .source
            .rows
            .get(split.index)
            .and_then(|rows| rows.get(split.at..));
        let rest = rest.unwrap_or_default();
        if rest.is_empty() {
            let others_idle = others_idle - usize::from(split.idle);
            self.splits.remove(turn);
            if others_idle > 0 {
                process.observed().reached(Rare::EndedBesideIdle);
            }
            return (SourceEvent::Finished(id), subject, "finished".to_owned());
        }
        let record = |row: &Row| match row {
            Row::Record(record) => Some(*record),
            Row::Idle => None,
        };
        let batch = rest.iter().take(self.source.batch);
        let records: Vec<Record> = batch.map_while(record).collect();
        if records.is_empty() {
            split.at += 1;
            split.idle = true;
            return (SourceEvent::Idle(id), subject, "idle".to_owned());
        }
        if std::mem::take(&mut split.idle) {
            process.observed().reached(Rare::BackFromIdle);
        }
        split.at += records.len();
        let what = format!("{} records up to {}", records.len(), split.at);
        let batch = SourceBatch {
            split: id,
            records,
            position: split.at,
            skipped: 0,
        };
        (SourceEvent::Batch(batch), subject, what)
    }
}

#[async_trait]
impl SourceReader for SimulatedReader {
    type Record = Record;
    type Position = usize;

    async fn next(&mut self) -> Result<SourceEvent<Record, usize>, SourceError> {
        let pause = self.source.process.chance([0xBA7C, self.turn, 0]) % (self.source.pause + 1);
        let soon = Instant::now() + Duration::from_millis(pause);
        if self.source.flaw == Some(Flaw::NotCancelSafe) {
            let taken = self.take();
            sleep_until(soon).await;
            return Ok(taken.0);
        }
        sleep_until(*self.ready.get_or_insert(soon)).await;
        self.source.process.turn().await;
        let call = self.source.process.count(Op::Next, Subject::Other);
        call.before().await?;
        let (event, subject, what) = self.take();
        self.ready = None;
        call.about(subject).leave_at_once(event, what)
    }
}
