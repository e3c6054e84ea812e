//! The ways to bring records of a key together.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use super::local_exchange::LocalExchange;
use super::record::Keyed;
use super::stage::Stage;
use crate::shard::Sharding;

/// Picks the subtask that a record goes to.
pub trait Route<T>: Send + Sync + 'static {
    /// The element that arrives there.
    type Out: Send + 'static;
    /// The stage in place of the exchange where there is one subtask only.
    type Local<N: Stage<Self::Out>>: Stage<T>;

    /// Returns the hash of the record's key, which picks the subtask, and what to send there.
    fn route(&self, value: T) -> (u64, Self::Out);

    /// Stands in for the exchange, in front of what follows it.
    fn local<N: Stage<Self::Out>>(route: &Arc<Self>, next: N) -> Self::Local<N>;
}

/// By key, for what keeps state by key: records carry their key from here on.
pub struct ByKey<K, F> {
    key: F,
    keys: PhantomData<fn() -> K>,
}

impl<K, F> ByKey<K, F> {
    pub(crate) fn new(key: F) -> Self {
        let keys = PhantomData;
        Self { key, keys }
    }
}

impl<K, F> fmt::Debug for ByKey<K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByKey")
    }
}

impl<K, T, F> Route<T> for ByKey<K, F>
where
    K: Hash + Send + 'static,
    T: Send + 'static,
    F: Fn(&T) -> K + Send + Sync + 'static,
{
    type Out = Keyed<K, T>;
    type Local<N: Stage<Keyed<K, T>>> = LocalExchange<Self, N>;

    #[inline]
    fn route(&self, value: T) -> (u64, Keyed<K, T>) {
        let key = (self.key)(&value);
        let hash = Sharding::hash(&key);
        (hash, Keyed { hash, key, value })
    }

    fn local<N: Stage<Keyed<K, T>>>(route: &Arc<Self>, next: N) -> LocalExchange<Self, N> {
        let route = Arc::clone(route);
        LocalExchange { route, next }
    }
}

/// By key, for what only has to meet: the key is not kept, and not computed where there is one subtask.
pub struct Together<K, F> {
    key: F,
    keys: PhantomData<fn() -> K>,
}

impl<K, F> Together<K, F> {
    pub(crate) fn new(key: F) -> Self {
        let keys = PhantomData;
        Self { key, keys }
    }
}

impl<K, F> fmt::Debug for Together<K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Together")
    }
}

impl<K, T, F> Route<T> for Together<K, F>
where
    K: Hash + 'static,
    T: Send + 'static,
    F: Fn(&T) -> K + Send + Sync + 'static,
{
    type Out = T;
    type Local<N: Stage<T>> = N;

    #[inline]
    fn route(&self, value: T) -> (u64, T) {
        (Sharding::hash(&(self.key)(&value)), value)
    }

    fn local<N: Stage<T>>(_: &Arc<Self>, next: N) -> N {
        next
    }
}
