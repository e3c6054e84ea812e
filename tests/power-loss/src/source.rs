//! Readings, made up, and given out step by step with the checkpoints.

use std::time::Duration;

use cofferdam::{
    CheckpointId, Source, SourceBatch, SourceError, SourceEvent, SourceReader, SplitId, async_trait,
};
use tokio::sync::watch;

/// How many splits there are.
pub(crate) const SPLITS: usize = 2;
/// How many batches a split has.
pub(crate) const BATCHES: usize = 5;
/// How many readings a batch has.
pub(crate) const BATCH: usize = 24;

/// A value of a sensor at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) time: i64,
    pub(crate) sensor: usize,
    pub(crate) value: i64,
}

impl Reading {
    /// The readings of a split, a tenth of a second apart.
    pub(crate) fn of(split: usize, position: usize) -> Self {
        let number = position * SPLITS + split;
        let number = i64::try_from(number).expect("few");
        Self {
            time: number * 50,
            sensor: (position * 7 + split * 3) % 8,
            value: number * number % 1009,
        }
    }
}

/// When a batch comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// At once.
    Free,
    /// Once a checkpoint was decided for each batch before it: so the job makes as many checkpoints as there are batches.
    WithCheckpoints,
}

impl Pace {
    /// How often the job makes checkpoints.
    pub(crate) fn checkpoint_interval(self) -> Duration {
        match self {
            Self::Free => Duration::from_secs(3600),
            Self::WithCheckpoints => Duration::from_millis(5),
        }
    }
}

/// All readings.
#[derive(Debug)]
pub(crate) struct Readings {
    pace: Pace,
    decided: watch::Sender<usize>,
}

impl Readings {
    pub(crate) fn new(pace: Pace) -> Self {
        Self {
            pace,
            decided: watch::Sender::new(0),
        }
    }
}

#[async_trait]
impl Source for Readings {
    type Record = Reading;
    type Position = usize;
    type Reader = Reader;

    async fn splits(&self, _: &[SplitId]) -> Result<Vec<SplitId>, SourceError> {
        Ok((0..SPLITS)
            .map(|split| SplitId::new(split.to_string()))
            .collect())
    }

    async fn open(&self, splits: Vec<(SplitId, Option<usize>)>) -> Result<Reader, SourceError> {
        let splits = splits
            .into_iter()
            .map(|(id, position)| (id, position.unwrap_or(0)))
            .collect();
        Ok(Reader {
            splits,
            next: 0,
            begun: 0,
            pace: self.pace,
            decided: self.decided.subscribe(),
        })
    }

    async fn notify(&self, _: CheckpointId, _: &[(SplitId, usize)]) -> Result<(), SourceError> {
        self.decided.send_modify(|decided| *decided += 1);
        Ok(())
    }
}

/// Reads splits in turns.
pub(crate) struct Reader {
    splits: Vec<(SplitId, usize)>,
    next: usize,
    /// Batches that were given out.
    begun: usize,
    pace: Pace,
    decided: watch::Receiver<usize>,
}

#[async_trait]
impl SourceReader for Reader {
    type Record = Reading;
    type Position = usize;

    async fn next(&mut self) -> Result<SourceEvent<Reading, usize>, SourceError> {
        if self.pace == Pace::WithCheckpoints {
            let begun = self.begun;
            let released = self.decided.wait_for(|decided| *decided >= begun).await;
            released.map_err(|_| SourceError::configuration("the source is gone"))?;
        }
        if self.splits.is_empty() {
            return Ok(SourceEvent::End);
        }
        let at = self.next % self.splits.len();
        let (id, position) = &mut self.splits[at];
        if *position == BATCHES * BATCH {
            return Ok(SourceEvent::Finished(self.splits.remove(at).0));
        }
        let split: usize = (id.as_str().parse())
            .map_err(|_| SourceError::configuration(format!("there is no split {id}")))?;
        let records = (*position..*position + BATCH)
            .map(|position| Reading::of(split, position))
            .collect();
        *position += BATCH;
        let (split, position) = (id.clone(), *position);
        self.next = at + 1;
        self.begun += 1;
        Ok(SourceEvent::Batch(SourceBatch {
            split,
            records,
            position,
            skipped: 0,
        }))
    }
}
