//! The description of a window operator that is stored with its state.

use serde::{Deserialize, Serialize};

use super::Windows;

/// All that decides how stored state is to be read. Lateness and parallelism are no part of it: they may change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Description {
    /// Of a window, in milliseconds.
    size: i64,
    /// From one window to the next, in milliseconds.
    slide: i64,
    /// The name of the aggregate.
    aggregate: String,
    /// The shape of keys.
    key: String,
    /// The shape of accumulators.
    accumulator: String,
}

impl Description {
    pub(super) fn new(
        windows: Windows,
        aggregate: String,
        key: String,
        accumulator: String,
    ) -> Self {
        Self {
            size: windows.size_millis(),
            slide: windows.slide_millis(),
            aggregate,
            key,
            accumulator,
        }
    }

    fn windows(&self) -> String {
        let Self { size, slide, .. } = self;
        match size == slide {
            true => format!("tumbling, {size} ms"),
            false => format!("sliding, {size} ms every {slide} ms"),
        }
    }

    /// The differences between this operator and the one that stored the state; `None` if there are none.
    pub(super) fn changes_since(&self, stored: &Self) -> Option<String> {
        let windows = (stored.windows(), self.windows());
        let changes = [
            ("the windows", &windows.0, &windows.1),
            ("the aggregate", &stored.aggregate, &self.aggregate),
            ("the type of the key", &stored.key, &self.key),
            (
                "the type of the accumulator",
                &stored.accumulator,
                &self.accumulator,
            ),
        ];
        let changes: Vec<String> = (changes.into_iter())
            .filter(|(_, was, is)| was != is)
            .map(|(what, was, is)| format!("{what}: {was} in the state, {is} in this pipeline"))
            .collect();
        (!changes.is_empty()).then(|| changes.join("; "))
    }
}
