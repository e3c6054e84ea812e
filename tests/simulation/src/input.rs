//! What a source holds: records that follow from the seed, and pauses.

use crate::random::{Random, mixed};
use crate::schedule::{Schedule, Shape};

/// A record. Its id occurs once in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Source, split, and place in it.
    pub id: u32,
    /// What windows are keyed by.
    pub key: u8,
    /// Event time, in milliseconds.
    pub at: i64,
}

/// What a split holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// A record.
    Record(Record),
    /// The split says that it has nothing for now.
    Idle,
}

/// The splits of one source.
pub type Rows = Vec<Vec<Row>>;

/// How windows are cut, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Length of a window.
    pub size: i64,
    /// From one window to the next.
    pub slide: i64,
    /// How long a window stays open after its end.
    pub lateness: i64,
    /// How far records may be out of order.
    pub bound: i64,
}

/// The length of the second windows of [`Shape::Chained`], in milliseconds.
pub const LARGE: i64 = 800;
const SIZE: i64 = 200;

impl Schedule {
    /// How windows are cut.
    #[must_use]
    pub fn cut(&self) -> Cut {
        let covering = match self.workload.shape {
            Shape::Windows { covering } | Shape::Late { covering } => i64::from(covering.max(1)),
            _ => 1,
        };
        let lateness = Random::new(mixed(&[self.seed, 1])).below(80);
        Cut {
            size: SIZE,
            slide: SIZE / covering,
            lateness: i64::try_from(lateness).unwrap_or(0),
            bound: 50,
        }
    }

    /// How many sources there are.
    #[must_use]
    pub fn sources(&self) -> u32 {
        if self.workload.shape == Shape::Twice {
            2
        } else {
            1
        }
    }

    /// What a source holds. Fewer splits or records are the beginning of more.
    #[must_use]
    pub fn rows(&self, source: u32) -> Rows {
        let splits = u32::try_from(self.workload.splits).unwrap_or(u32::MAX);
        (0..splits).map(|split| self.split(source, split)).collect()
    }

    fn split(&self, source: u32, split: u32) -> Vec<Row> {
        let mut random = Random::new(mixed(&[self.seed, 2, u64::from(source), u64::from(split)]));
        let number = |random: &mut Random, below| i64::try_from(random.below(below)).unwrap_or(0);
        let mut now = number(&mut random, 4) * 400;
        let count = 1 + random.below(1000) * self.workload.records as u64 / 1000;
        let mut rows = Vec::new();
        for place in 0..u32::try_from(count).unwrap_or(u32::MAX) {
            now += number(&mut random, 40);
            let behind = match random.one_in(12) {
                true => number(&mut random, 600),
                false => number(&mut random, 60),
            };
            let key = u8::try_from(random.below(4)).unwrap_or(0);
            let pauses = match random.one_in(6) {
                true => random.within(1, 12),
                false => 0,
            };
            if self.workload.idle {
                rows.extend((0..pauses).map(|_| Row::Idle));
            }
            rows.push(Row::Record(Record {
                id: source * 1_000_000 + split * 10_000 + place + 1,
                key,
                at: now - behind,
            }));
        }
        rows
    }
}

/// The records of a split.
pub fn records(split: &[Row]) -> impl Iterator<Item = Record> + '_ {
    split.iter().filter_map(|row| match row {
        Row::Record(record) => Some(*record),
        Row::Idle => None,
    })
}
