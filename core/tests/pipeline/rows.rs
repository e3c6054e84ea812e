//! A source over rows in memory, in batches of any size, with splits that pause.

use std::sync::Arc;

use cofferdam::{
    CheckpointId, Source, SourceBatch, SourceError, SourceEvent, SourceReader, SplitId, async_trait,
};

/// What a split holds.
#[derive(Debug, Clone)]
pub enum Row<T> {
    Record(T),
    /// The split has nothing for a time.
    Idle,
}

/// Splits of rows. Ends when all are read; if it is endless, more may come in each split, and never does.
#[derive(Debug, Clone)]
pub struct Rows<T> {
    pub splits: Arc<Vec<Vec<Row<T>>>>,
    pub batch: usize,
    pub endless: bool,
}

impl<T> Rows<T> {
    pub fn new(splits: Vec<Vec<Row<T>>>, batch: usize) -> Self {
        Self {
            splits: Arc::new(splits),
            batch,
            endless: false,
        }
    }
}

#[async_trait]
impl<T: Clone + std::fmt::Debug + Send + Sync + 'static> Source for Rows<T> {
    type Record = T;
    type Position = usize;
    type Reader = RowReader<T>;

    async fn splits(&self, _: &[SplitId]) -> Result<Vec<SplitId>, SourceError> {
        let name = |index| SplitId::new(format!("{index:03}"));
        Ok((0..self.splits.len()).map(name).collect())
    }

    async fn open(
        &self,
        splits: Vec<(SplitId, Option<usize>)>,
    ) -> Result<RowReader<T>, SourceError> {
        // A split that is opened again has something again.
        let awake = |(split, at): (SplitId, Option<usize>)| {
            let rows = &self.splits[index(&split)];
            let idle = |at: usize| rows[at..].iter().take_while(|row| matches!(row, Row::Idle));
            let at = at.map_or(0, |at| at + idle(at).count());
            (split, at)
        };
        let splits = splits.into_iter().map(awake).collect();
        Ok(RowReader {
            rows: self.clone(),
            splits,
            turn: 0,
        })
    }

    async fn notify(&self, _: CheckpointId, _: &[(SplitId, usize)]) -> Result<(), SourceError> {
        Ok(())
    }
}

/// Reads splits in turns.
#[derive(Debug)]
pub struct RowReader<T> {
    rows: Rows<T>,
    splits: Vec<(SplitId, usize)>,
    turn: usize,
}

#[async_trait]
impl<T: Clone + std::fmt::Debug + Send + Sync + 'static> SourceReader for RowReader<T> {
    type Record = T;
    type Position = usize;

    async fn next(&mut self) -> Result<SourceEvent<T, usize>, SourceError> {
        tokio::task::yield_now().await;
        if self.rows.endless {
            let rows = &self.rows.splits;
            self.splits
                .retain(|(split, at)| *at < rows[index(split)].len());
        }
        if self.splits.is_empty() {
            if self.rows.endless {
                std::future::pending::<()>().await;
            }
            return Ok(SourceEvent::End);
        }
        let turn = self.turn % self.splits.len();
        let (split, at) = &mut self.splits[turn];
        let rest = &self.rows.splits[index(split)][*at..];
        if rest.is_empty() {
            return Ok(SourceEvent::Finished(self.splits.remove(turn).0));
        }
        self.turn = turn + 1;
        let record = |row: &Row<T>| match row {
            Row::Record(record) => Some(record.clone()),
            Row::Idle => None,
        };
        let records: Vec<T> = rest
            .iter()
            .take(self.rows.batch)
            .map_while(record)
            .collect();
        if records.is_empty() {
            *at += 1;
            return Ok(SourceEvent::Idle(split.clone()));
        }
        *at += records.len();
        Ok(SourceEvent::Batch(SourceBatch {
            split: split.clone(),
            records,
            position: *at,
            skipped: 0,
        }))
    }
}

fn index(split: &SplitId) -> usize {
    split.as_str().parse().unwrap()
}
