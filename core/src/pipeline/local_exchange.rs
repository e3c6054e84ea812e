//! The exchange of a pipeline with one subtask: records get their key and stay where they are.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use async_trait::async_trait;

use super::record::{Keyed, Record};
use super::stage::{Cut, Signal, Stage};
use crate::runtime::Failure;
use crate::shard::Sharding;

/// Gives records their key and hands them to the chain behind: both chains run as one.
pub(crate) struct LocalExchange<F, N> {
    pub(crate) key: Arc<F>,
    pub(crate) next: N,
}

impl<F, N> fmt::Debug for LocalExchange<F, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalExchange")
    }
}

#[async_trait]
impl<K, T, F, N> Stage<T> for LocalExchange<F, N>
where
    K: Hash + Send + 'static,
    T: Send + 'static,
    F: Fn(&T) -> K + Send + Sync + 'static,
    N: Stage<Keyed<K, T>>,
{
    #[inline]
    fn push(&mut self, record: Record<T>) {
        let key = (self.key)(&record.value);
        let hash = Sharding::hash(&key);
        self.next
            .push(record.with(|value| Keyed { hash, key, value }));
    }

    async fn signal(&mut self, signal: Signal, cut: &mut Cut) -> Result<(), Failure> {
        self.next.signal(signal, cut).await
    }
}
