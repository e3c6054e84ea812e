//! The operators without state.

use std::fmt;

use super::record::Record;
use super::stage::{Operator, Stage};

macro_rules! operator {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $type<F>(pub(crate) F);

        impl<F> fmt::Debug for $type<F> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($type))
            }
        }
    };
}

operator!(
    /// One record out for each record in.
    Map
);
operator!(
    /// A record out if it is wanted.
    Filter
);
operator!(
    /// Any number of records out for each record in.
    FlatMap
);

impl<T, U, F> Operator<T> for Map<F>
where
    U: Send + 'static,
    F: Fn(T) -> U + Clone + Send + Sync + 'static,
{
    type Out = U;

    #[inline]
    fn process<N: Stage<U>>(&self, record: Record<T>, next: &mut N) {
        next.push(record.with(&self.0));
    }
}

impl<T, F> Operator<T> for Filter<F>
where
    T: Send + 'static,
    F: Fn(&T) -> bool + Clone + Send + Sync + 'static,
{
    type Out = T;

    #[inline]
    fn process<N: Stage<T>>(&self, record: Record<T>, next: &mut N) {
        if (self.0)(&record.value) {
            next.push(record);
        }
    }
}

impl<T, I, F> Operator<T> for FlatMap<F>
where
    I: IntoIterator,
    I::Item: Send + 'static,
    F: Fn(T) -> I + Clone + Send + Sync + 'static,
{
    type Out = I::Item;

    #[inline]
    fn process<N: Stage<I::Item>>(&self, record: Record<T>, next: &mut N) {
        let Record {
            value,
            timestamp,
            watermark,
        } = record;
        for value in (self.0)(value) {
            next.push(Record {
                value,
                timestamp,
                watermark,
            });
        }
    }
}
