//! How readers see the system.

use super::{State, Transaction};
use crate::reference::wire::StoredRow;

/// How many ordered logs there are.
const LANES: u32 = 2;

impl State {
    /// Each lane in its order. A lane is a log that readers follow: what is committed behind them would be missed. So a
    /// reader of committed rows stops before the first transaction that is undecided, as at the last stable offset of
    /// Kafka. To keep transactions whole, it stops there in all lanes.
    pub(crate) fn read(&self, committed_only: bool) -> Vec<StoredRow> {
        let stable = |one: &&Transaction| !committed_only || one.is_committed();
        let rows = self.transactions.iter().take_while(stable);
        let stored = |text: &String| StoredRow {
            lane: lane(text),
            text: text.clone(),
        };
        rows.flat_map(|one| &one.rows).map(stored).collect()
    }
}

fn lane(text: &str) -> String {
    format!("lane {}", crc32fast::hash(text.as_bytes()) % LANES)
}
