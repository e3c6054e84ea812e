//! A source that takes its time, so that checkpoints come between its batches.

use std::time::Duration;

use cofferdam::memory::{MemoryReader, MemorySource};
use cofferdam::{
    CheckpointId, Source, SourceError, SourceEvent, SourceReader, SplitId, async_trait,
};

/// See the module.
#[derive(Debug)]
pub(super) struct Paced(pub(super) MemorySource<u64>);

pub(super) struct PacedReader(MemoryReader<u64>);

#[async_trait]
impl Source for Paced {
    type Record = u64;
    type Position = usize;
    type Reader = PacedReader;

    async fn splits(&self, known: &[SplitId]) -> Result<Vec<SplitId>, SourceError> {
        self.0.splits(known).await
    }

    async fn open(
        &self,
        splits: Vec<(SplitId, Option<usize>)>,
    ) -> Result<PacedReader, SourceError> {
        Ok(PacedReader(self.0.open(splits).await?))
    }

    async fn notify(&self, _: CheckpointId, _: &[(SplitId, usize)]) -> Result<(), SourceError> {
        Ok(())
    }
}

#[async_trait]
impl SourceReader for PacedReader {
    type Record = u64;
    type Position = usize;

    async fn next(&mut self) -> Result<SourceEvent<u64, usize>, SourceError> {
        // Before anything is taken, so it is cancel safe.
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.0.next().await
    }
}
