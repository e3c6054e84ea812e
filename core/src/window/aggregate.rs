//! What is computed over the records of a window.

use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::time::Duration;

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
///     delays.add(&mut accumulator, &delay)?;
/// }
/// assert_eq!(delays.finish(accumulator), (3, Some(6.0), Some(10)));
/// # Ok::<(), cofferdam::AggregateError>(())
/// ```
pub trait Aggregate<T>: Clone + Send + Sync + 'static {
    /// What is kept per window and key, also in checkpoints.
    type Accumulator: Serialize + DeserializeOwned + Send + 'static;
    /// The result.
    type Output: Send + 'static;

    /// Names the computation. The name is stored with the accumulators, and state stored under another name is refused:
    /// change it when accumulators get another meaning, keep it otherwise.
    ///
    /// Functions, such as those in [`sum`] and [`fold`], have no name: a pipeline that changes them continues with the
    /// accumulators that the old ones have made, as long as their types stay the same.
    fn name(&self) -> String;
    /// The accumulator of no records.
    fn create(&self) -> Self::Accumulator;
    /// Takes a record in. An error ends the job.
    fn add(&self, accumulator: &mut Self::Accumulator, record: &T) -> Result<(), AggregateError>;
    /// The result for all records taken in.
    fn finish(&self, accumulator: Self::Accumulator) -> Self::Output;
}

/// The reason why an aggregate can't take a record in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AggregateError(Cow<'static, str>);

impl AggregateError {
    /// An error with its text, which says what is wrong and what to do about it.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self(text.into())
    }
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

    fn name(&self) -> String {
        "count".to_owned()
    }

    fn create(&self) -> u64 {
        0
    }

    #[inline]
    fn add(&self, count: &mut u64, _: &T) -> Result<(), AggregateError> {
        *count += 1;
        Ok(())
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

/// A number that [`sum`] can add up.
pub trait Addend: Default + Serialize + DeserializeOwned + Send + 'static {
    /// The sum of two; `None` if it does not fit the type.
    fn checked_add(&self, other: &Self) -> Option<Self>;
}

macro_rules! addends {
    ($($type:ty)+) => {$(
        impl Addend for $type {
            #[inline]
            fn checked_add(&self, other: &Self) -> Option<Self> {
                <$type>::checked_add(*self, *other)
            }
        }
    )+};
}

addends!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize Duration);

macro_rules! float_addends {
    ($($type:ty)+) => {$(
        impl Addend for $type {
            /// Never `None`: a sum that is too large is infinite.
            #[inline]
            fn checked_add(&self, other: &Self) -> Option<Self> {
                Some(self + other)
            }
        }
    )+};
}

float_addends!(f32 f64);

/// The sum of a number of each record. A sum that does not fit the type ends the job with
/// [`JobError::Aggregate`](crate::JobError::Aggregate): choose a type that is wide enough.
pub fn sum<T, N, F: Fn(&T) -> N>(of: F) -> Sum<N, F> {
    Sum {
        of,
        number: PhantomData,
    }
}

impl<T, N, F> Aggregate<T> for Sum<N, F>
where
    N: Addend,
    F: Fn(&T) -> N + Clone + Send + Sync + 'static,
{
    type Accumulator = N;
    type Output = N;

    fn name(&self) -> String {
        "sum".to_owned()
    }

    fn create(&self) -> N {
        N::default()
    }

    #[inline]
    fn add(&self, sum: &mut N, record: &T) -> Result<(), AggregateError> {
        match sum.checked_add(&(self.of)(record)) {
            Some(larger) => {
                *sum = larger;
                Ok(())
            }
            None => Err(AggregateError::new(
                "the sum does not fit its type: sum a wider one, such as i128",
            )),
        }
    }

    fn finish(&self, sum: N) -> N {
        sum
    }
}

/// The least of a value of each record. Records with `None` don't count, nor do values such as NaN that are not equal to
/// themselves. `None` if no record counted.
pub fn min<T, N, F: Fn(&T) -> Option<N>>(of: F) -> Min<N, F> {
    Min {
        of,
        number: PhantomData,
    }
}

/// The greatest of a value of each record. Records with `None` don't count, nor do values such as NaN that are not equal
/// to themselves. `None` if no record counted.
pub fn max<T, N, F: Fn(&T) -> Option<N>>(of: F) -> Max<N, F> {
    Max {
        of,
        number: PhantomData,
    }
}

macro_rules! extreme {
    ($type:ident, $name:literal, $better:tt) => {
        impl<T, N, F> Aggregate<T> for $type<N, F>
        where
            N: PartialOrd + Serialize + DeserializeOwned + Send + 'static,
            F: Fn(&T) -> Option<N> + Clone + Send + Sync + 'static,
        {
            type Accumulator = Option<N>;
            type Output = Option<N>;

            fn name(&self) -> String {
                $name.to_owned()
            }

            fn create(&self) -> Option<N> {
                None
            }

            #[inline]
            fn add(&self, best: &mut Option<N>, record: &T) -> Result<(), AggregateError> {
                if let Some(value) = (self.of)(record)
                    && best.as_ref().is_none_or(|best| value $better *best)
                    // Nothing is better than NaN: kept, it would depend on the order in which records come.
                    && value.partial_cmp(&value).is_some()
                {
                    *best = Some(value);
                }
                Ok(())
            }

            fn finish(&self, best: Option<N>) -> Option<N> {
                best
            }
        }
    };
}

extreme!(Min, "min", <);
extreme!(Max, "max", >);

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

    fn name(&self) -> String {
        "mean".to_owned()
    }

    fn create(&self) -> (f64, u64) {
        (0.0, 0)
    }

    #[inline]
    fn add(&self, (sum, count): &mut (f64, u64), record: &T) -> Result<(), AggregateError> {
        if let Some(value) = (self.of)(record) {
            *sum += value;
            *count += 1;
        }
        Ok(())
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

    fn name(&self) -> String {
        "fold".to_owned()
    }

    fn create(&self) -> A {
        self.initial.clone()
    }

    #[inline]
    fn add(&self, accumulator: &mut A, record: &T) -> Result<(), AggregateError> {
        (self.step)(accumulator, record);
        Ok(())
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

            fn name(&self) -> String {
                format!("({})", [$(self.$index.name()),+].join(", "))
            }

            fn create(&self) -> Self::Accumulator {
                ($(self.$index.create(),)+)
            }

            #[inline]
            fn add(&self, accumulator: &mut Self::Accumulator, record: &T) -> Result<(), AggregateError> {
                $(self.$index.add(&mut accumulator.$index, record)?;)+
                Ok(())
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
