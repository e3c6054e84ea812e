//! Opening sources, and gathering what readers tell.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use cofferdam::{Source, SourceError, SourceEvent, SourceReader, SplitId};
use cofferdam_kafka::{Decoder, KafkaPosition, KafkaReader, KafkaSource};

use super::cluster::PATIENCE;

pub type Positions = BTreeMap<String, KafkaPosition>;

/// Opens one reader of all splits, as the first run of a job does.
pub async fn first<D: Decoder>(
    source: &KafkaSource<D>,
) -> Result<KafkaReader<D::Output>, SourceError> {
    let splits = source.splits(&[]).await?;
    source
        .open(splits.into_iter().map(|split| (split, None)).collect())
        .await
}

/// Opens one reader of all splits, as a run does that goes on.
pub async fn again<D: Decoder>(
    source: &KafkaSource<D>,
    positions: &Positions,
) -> Result<KafkaReader<D::Output>, SourceError> {
    let known: Vec<SplitId> = positions
        .keys()
        .map(|split| SplitId::new(&**split))
        .collect();
    let splits = source.splits(&known).await?;
    let position = |split: SplitId| (split.clone(), positions.get(split.as_str()).cloned());
    source
        .open(splits.into_iter().map(position).collect())
        .await
}

/// All that a reader has told.
#[derive(Debug)]
pub struct Told<T> {
    /// By split, in order.
    pub records: BTreeMap<String, Vec<T>>,
    pub positions: Positions,
    pub idle: BTreeSet<String>,
    pub finished: BTreeSet<String>,
    pub skipped: u64,
    pub end: bool,
}

impl<T> Default for Told<T> {
    fn default() -> Self {
        Self {
            records: BTreeMap::new(),
            positions: BTreeMap::new(),
            idle: BTreeSet::new(),
            finished: BTreeSet::new(),
            skipped: 0,
            end: false,
        }
    }
}

impl<T: Debug + Send + 'static> Told<T> {
    /// Takes events until something holds.
    pub async fn until(
        &mut self,
        reader: &mut KafkaReader<T>,
        holds: impl Fn(&Self) -> bool,
    ) -> Result<(), SourceError> {
        let taking = async {
            while !holds(self) {
                let event = reader.next().await?;
                self.take(event);
            }
            Ok(())
        };
        match tokio::time::timeout(PATIENCE, taking).await {
            Ok(taken) => taken,
            Err(_) => panic!("not within {PATIENCE:?}; told so far: {self:#?}"),
        }
    }

    pub fn take(&mut self, event: SourceEvent<T, KafkaPosition>) {
        assert!(!self.end, "{event:?} after the end");
        match event {
            SourceEvent::Batch(batch) => {
                let split = batch.split.as_str().to_owned();
                assert!(
                    !self.finished.contains(&split),
                    "{split} goes on after its end"
                );
                self.idle.remove(&split);
                self.skipped += batch.skipped;
                self.records
                    .entry(split.clone())
                    .or_default()
                    .extend(batch.records);
                let before = self.positions.insert(split, batch.position.clone());
                assert!(before.is_none_or(|before| before.offset <= batch.position.offset));
            }
            SourceEvent::Idle(split) => {
                self.idle.insert(split.as_str().to_owned());
            }
            SourceEvent::Finished(split) => {
                assert!(self.finished.insert(split.as_str().to_owned()));
            }
            SourceEvent::End => self.end = true,
        }
    }

    pub fn offset(&self, split: &str) -> Option<i64> {
        Some(self.positions.get(split)?.offset)
    }

    pub fn of(&self, split: &str) -> &[T] {
        self.records.get(split).map_or(&[], Vec::as_slice)
    }
}

/// Reads a bounded source to its end.
pub async fn all<D: Decoder>(source: &KafkaSource<D>) -> Told<D::Output>
where
    D::Output: Debug,
{
    let mut told = Told::default();
    let mut reader = first(source).await.unwrap();
    told.until(&mut reader, |told| told.end).await.unwrap();
    told
}
