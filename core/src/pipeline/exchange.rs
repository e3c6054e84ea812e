//! The end of a chain that hands its records to the subtasks that own their keys.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::record::Record;
use super::route::Route;
use super::stage::{BATCH, Cut, Signal, Stage};
use crate::protocol::Barrier;
use crate::runtime::Failure;
use crate::shard::Sharding;
use crate::time::Timestamp;

/// What travels between subtasks.
#[derive(Debug)]
pub(crate) enum Element<T> {
    Batch(Vec<Record<T>>),
    Watermark(Timestamp),
    Idle,
    Barrier(Barrier),
}

/// How many elements a channel holds before the sender has to wait.
pub(crate) const CHANNEL: usize = 8;

/// Divides records by key among subtasks.
pub(crate) struct Exchange<R, O> {
    route: Arc<R>,
    sharding: Sharding,
    outputs: Vec<Output<O>>,
}

struct Output<T> {
    batch: Vec<Record<T>>,
    channel: mpsc::Sender<Element<T>>,
}

impl<T> Output<T> {
    async fn send(&mut self, element: Element<T>) -> Result<(), Failure> {
        // The receiver is gone: it has failed, or the run is over. It has said why itself.
        self.channel
            .send(element)
            .await
            .map_err(|_| Failure::Cancelled)
    }

    async fn send_batch(&mut self, at_least: usize) -> Result<(), Failure> {
        if self.batch.len() < at_least {
            return Ok(());
        }
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        self.send(Element::Batch(batch)).await
    }
}

impl<R, O> Exchange<R, O> {
    pub(crate) fn new(
        route: Arc<R>,
        sharding: Sharding,
        channels: Vec<mpsc::Sender<Element<O>>>,
    ) -> Self {
        let output = |channel| Output {
            batch: Vec::with_capacity(BATCH),
            channel,
        };
        Self {
            route,
            sharding,
            outputs: channels.into_iter().map(output).collect(),
        }
    }
}

impl<R, O> fmt::Debug for Exchange<R, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("outputs", &self.outputs.len())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<T, R> Stage<T> for Exchange<R, R::Out>
where
    T: Send + 'static,
    R: Route<T>,
{
    #[inline]
    fn push(&mut self, record: Record<T>) {
        let Record {
            value,
            timestamp,
            watermark,
        } = record;
        let (hash, value) = self.route.route(value);
        let subtask = self.sharding.subtask(hash);
        if let Some(output) = self.outputs.get_mut(subtask) {
            output.batch.push(Record {
                value,
                timestamp,
                watermark,
            });
        }
    }

    async fn signal(&mut self, signal: Signal, _: &mut Cut) -> Result<(), Failure> {
        for output in &mut self.outputs {
            let element = match signal {
                Signal::BatchEnd => {
                    output.send_batch(BATCH).await?;
                    continue;
                }
                Signal::Flush => {
                    output.send_batch(1).await?;
                    continue;
                }
                Signal::Cancel => continue,
                Signal::Watermark(watermark) => Element::Watermark(watermark),
                Signal::Idle => Element::Idle,
                Signal::Barrier(barrier) => Element::Barrier(barrier),
            };
            output.send_batch(1).await?;
            output.send(element).await?;
        }
        Ok(())
    }
}
