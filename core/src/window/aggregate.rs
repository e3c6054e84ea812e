//! What is computed over the records of a window.

use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::ops::AddAssign;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A computation over the records of one window and key. Records come one by one; only the accumulator is kept.
///
/// Several at once are one aggregate too: a tuple of up to six gives a tuple of results.
///
/// ```
/// use cofferdam::{Aggregate, count, max, mean};
///
/// let delays = (count(), mean(|delay: &i64| Some(*delay as f64)), max(|delay: &i64| Some(*delay)));
/// let mut accumulator = delays.create();
/// for delay in [3, 5, 10] {
///     delays.add(&mut accumulator, &delay);
/// }
/// assert_eq!(delays.finish(accumulator), (3, Some(6.0), Some(10)));
/// ```
pub trait Aggregate<T>: Clone + Send + Sync + 'static {
    /// What is kept per window and key, also in checkpoints.
    type Accumulator: Serialize + DeserializeOwned + Send + 'static;
    /// The result.
    type Output: Send + 'static;

    /// The accumulator of no records.
    fn create(&self) -> Self::Accumulator;
    /// Takes a record in.
    fn add(&self, accumulator: &mut Self::Accumulator, record: &T);
    /// The result for all records taken in.
    fn finish(&self, accumulator: Self::Accumulator) -> Self::Output;
}

/// See [`count`].
#[derive(Debug, Clone, Copy)]
pub struct Count;

/// The number of records.
pub fn count() -> Count {
    Count
}

impl<T> Aggregate<T> for Count {
    type Accumulator = u64;
    type Output = u64;

    fn create(&self) -> u64 {
        0
    }

    #[inline]
    fn add(&self, count: &mut u64, _: &T) {
        *count += 1;
    }

    fn finish(&self, count: u64) -> u64 {
        count
    }
}

macro_rules! by_field {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        pub struct $type<N, F> {
            of: F,
            number: PhantomData<fn() -> N>,
        }

        impl<N, F: Clone> Clone for $type<N, F> {
            fn clone(&self) -> Self {
                Self { of: self.of.clone(), number: PhantomData }
            }
        }

        impl<N, F> Debug for $type<N, F> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($type))
            }
        }
    };
}

by_field!(
    /// See [`sum`].
    Sum
);
by_field!(
    /// See [`min`].
    Min
);
by_field!(
    /// See [`max`].
    Max
);

/// The sum of a number of each record. Choose a type wide enough: it overflows as its `+=` does.
pub fn sum<T, N, F: Fn(&T) -> N>(of: F) -> Sum<N, F> {
    Sum {
        of,
        number: PhantomData,
    }
}

impl<T, N, F> Aggregate<T> for Sum<N, F>
where
    N: AddAssign + Default + Serialize + DeserializeOwned + Send + 'static,
    F: Fn(&T) -> N + Clone + Send + Sync + 'static,
{
    type Accumulator = N;
    type Output = N;

    fn create(&self) -> N {
        N::default()
    }

    #[inline]
    fn add(&self, sum: &mut N, record: &T) {
        *sum += (self.of)(record);
    }

    fn finish(&self, sum: N) -> N {
        sum
    }
}

/// The least of a value of each record; records with `None` don't count. `None` if no record counted.
pub fn min<T, N, F: Fn(&T) -> Option<N>>(of: F) -> Min<N, F> {
    Min {
        of,
        number: PhantomData,
    }
}

/// The greatest of a value of each record; records with `None` don't count. `None` if no record counted.
pub fn max<T, N, F: Fn(&T) -> Option<N>>(of: F) -> Max<N, F> {
    Max {
        of,
        number: PhantomData,
    }
}

macro_rules! extreme {
    ($type:ident, $better:tt) => {
        impl<T, N, F> Aggregate<T> for $type<N, F>
        where
            N: PartialOrd + Serialize + DeserializeOwned + Send + 'static,
            F: Fn(&T) -> Option<N> + Clone + Send + Sync + 'static,
        {
            type Accumulator = Option<N>;
            type Output = Option<N>;

            fn create(&self) -> Option<N> {
                None
            }

            #[inline]
            fn add(&self, best: &mut Option<N>, record: &T) {
                if let Some(value) = (self.of)(record)
                    && best.as_ref().is_none_or(|best| value $better *best)
                {
                    *best = Some(value);
                }
            }

            fn finish(&self, best: Option<N>) -> Option<N> {
                best
            }
        }
    };
}

extreme!(Min, <);
extreme!(Max, >);

/// See [`mean`].
#[derive(Clone)]
pub struct Mean<F> {
    of: F,
}

impl<F> Debug for Mean<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mean")
    }
}

/// The mean of a number of each record; records with `None` don't count. `None` if no record counted.
///
/// Whole numbers whose sum stays below 2⁵³ give the same mean in whatever order they come.
pub fn mean<T, F: Fn(&T) -> Option<f64>>(of: F) -> Mean<F> {
    Mean { of }
}

impl<T, F> Aggregate<T> for Mean<F>
where
    F: Fn(&T) -> Option<f64> + Clone + Send + Sync + 'static,
{
    type Accumulator = (f64, u64);
    type Output = Option<f64>;

    fn create(&self) -> (f64, u64) {
        (0.0, 0)
    }

    #[inline]
    fn add(&self, (sum, count): &mut (f64, u64), record: &T) {
        if let Some(value) = (self.of)(record) {
            *sum += value;
            *count += 1;
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "no window holds 2⁵³ records")]
    fn finish(&self, (sum, count): (f64, u64)) -> Option<f64> {
        (count > 0).then(|| sum / count as f64)
    }
}

/// See [`fold`].
#[derive(Clone)]
pub struct Fold<A, F> {
    initial: A,
    step: F,
}

impl<A, F> Debug for Fold<A, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fold")
    }
}

/// Your own: starts from `initial` and takes each record in by `step`.
pub fn fold<T, A, F: Fn(&mut A, &T)>(initial: A, step: F) -> Fold<A, F> {
    Fold { initial, step }
}

impl<T, A, F> Aggregate<T> for Fold<A, F>
where
    A: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
    F: Fn(&mut A, &T) + Clone + Send + Sync + 'static,
{
    type Accumulator = A;
    type Output = A;

    fn create(&self) -> A {
        self.initial.clone()
    }

    #[inline]
    fn add(&self, accumulator: &mut A, record: &T) {
        (self.step)(accumulator, record);
    }

    fn finish(&self, accumulator: A) -> A {
        accumulator
    }
}

macro_rules! tuple {
    ($($part:ident $accumulator:ident $index:tt),+) => {
        impl<T, $($part: Aggregate<T>),+> Aggregate<T> for ($($part,)+) {
            type Accumulator = ($($part::Accumulator,)+);
            type Output = ($($part::Output,)+);

            fn create(&self) -> Self::Accumulator {
                ($(self.$index.create(),)+)
            }

            #[inline]
            fn add(&self, accumulator: &mut Self::Accumulator, record: &T) {
                $(self.$index.add(&mut accumulator.$index, record);)+
            }

            fn finish(&self, ($($accumulator,)+): Self::Accumulator) -> Self::Output {
                ($(self.$index.finish($accumulator),)+)
            }
        }
    };
}

tuple!(A a 0, B b 1);
tuple!(A a 0, B b 1, C c 2);
tuple!(A a 0, B b 1, C c 2, D d 3);
tuple!(A a 0, B b 1, C c 2, D d 3, E e 4);
tuple!(A a 0, B b 1, C c 2, D d 3, E e 4, G g 5);
