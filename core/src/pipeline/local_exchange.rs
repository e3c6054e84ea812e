//! The exchange of a pipeline with one subtask: records get their key and stay where they are.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use async_trait::async_trait;

use super::record::{Keyed, Record};
use super::stage::{BatchStage, Cut, HANDFUL, Signal, Stage};
use crate::runtime::Failure;
use crate::shard::Sharding;

/// Gives records their key and hands them to the chain behind, a handful at a time.
pub(crate) struct LocalExchange<K, T, F> {
    key: Arc<F>,
    handful: Vec<Record<Keyed<K, T>>>,
    next: Box<dyn BatchStage<Keyed<K, T>>>,
}

impl<K, T, F> LocalExchange<K, T, F> {
    pub(crate) fn new(key: Arc<F>, next: Box<dyn BatchStage<Keyed<K, T>>>) -> Self {
        Self {
            key,
            handful: Vec::with_capacity(HANDFUL),
            next,
        }
    }
}

impl<K, T, F> fmt::Debug for LocalExchange<K, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalExchange")
    }
}

#[async_trait]
impl<K, T, F> Stage<T> for LocalExchange<K, T, F>
where
    K: Hash + Send + 'static,
    T: Send + 'static,
    F: Fn(&T) -> K + Send + Sync + 'static,
{
    #[inline]
    fn push(&mut self, record: Record<T>) {
        let key = (self.key)(&record.value);
        let hash = Sharding::hash(&key);
        self.handful
            .push(record.with(|value| Keyed { hash, key, value }));
        if self.handful.len() == HANDFUL {
            self.next.push_all(&mut self.handful);
        }
    }

    async fn signal(&mut self, signal: Signal, cut: &mut Cut) -> Result<(), Failure> {
        self.next.push_all(&mut self.handful);
        self.next.signal(signal, cut).await
    }
}
