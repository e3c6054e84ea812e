//! The exchange of a pipeline with one subtask: records get their key and stay where they are.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::record::Record;
use super::route::Route;
use super::stage::{Cut, Signal, Stage};
use crate::runtime::Failure;

/// Gives records their key and hands them to the chain behind: both chains run as one.
pub struct LocalExchange<R, N> {
    pub(crate) route: Arc<R>,
    pub(crate) next: N,
}

impl<R, N> fmt::Debug for LocalExchange<R, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalExchange")
    }
}

#[async_trait]
impl<T, R, N> Stage<T> for LocalExchange<R, N>
where
    T: Send + 'static,
    R: Route<T>,
    N: Stage<R::Out>,
{
    #[inline]
    fn push(&mut self, record: Record<T>) {
        self.next
            .push(record.with(|value| self.route.route(value).1));
    }

    async fn signal(&mut self, signal: Signal, cut: &mut Cut) -> Result<(), Failure> {
        self.next.signal(signal, cut).await
    }
}
