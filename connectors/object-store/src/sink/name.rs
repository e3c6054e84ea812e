//! File names: a pure function of the transaction, and back.

use cofferdam::TransactionId;

use crate::format::Format;

/// The name of a transaction's file: `<job>.<sink>.<epoch>.<subtask>.<checkpoint>.<extension>`.
///
/// No part can hold a `.`, so no two transactions share a name. The longest name has 156 bytes.
pub(super) fn file_name(id: &TransactionId, format: Format) -> String {
    format!("{}.{}", id.dotted(), format.extension())
}

/// The transaction behind a name; `None` for every name that [`file_name`] doesn't write.
pub(super) fn parse(name: &str) -> Option<TransactionId> {
    let (stem, extension) = name.rsplit_once('.')?;
    Format::of_extension(extension)?;
    TransactionId::from_dotted(stem).ok()
}

#[cfg(test)]
mod tests {
    use cofferdam::{CheckpointId, Epoch, JobId, MAX_NAME_LENGTH, SinkId, SubtaskIndex};

    use super::*;

    fn id(job: &str, sink: &str, numbers: (u64, u32, u64)) -> TransactionId {
        TransactionId {
            job: JobId::new(job).unwrap(),
            sink: SinkId::new(sink).unwrap(),
            epoch: Epoch(numbers.0),
            subtask: SubtaskIndex(numbers.1),
            checkpoint: CheckpointId(numbers.2),
        }
    }

    #[test]
    fn a_name_leads_back_to_its_transaction() {
        let longest = "x".repeat(MAX_NAME_LENGTH);
        for id in [
            id("orders", "files", (3, 0, 17)),
            id("a-b", "_", (0, 0, 0)),
            id(&longest, &longest, (u64::MAX, u32::MAX, u64::MAX)),
        ] {
            for format in [Format::Csv, Format::JsonLines] {
                let name = file_name(&id, format);
                assert!(name.len() <= 156, "{name}");
                assert_eq!(parse(&name), Some(id.clone()), "{name}");
            }
        }
    }

    #[test]
    fn only_what_is_written_is_read() {
        for name in [
            "",
            ".",
            "orders.files.3.0.17",
            "orders.files.3.0.17.",
            "orders.files.3.0.17.txt",
            "orders.files.3.0.17.jsonl.tmp",
            "orders.files.3.0.17.JSONL",
            "orders.files.3.0.jsonl",
            "orders.files.3.0.17.1.jsonl",
            "orders.files.03.0.17.jsonl",
            "orders.files.+3.0.17.jsonl",
            "orders.files.3.0.17 .jsonl",
            "orders/files.3.0.17.jsonl",
            "../orders.files.3.0.17.jsonl",
            "orders.files.3.4294967296.17.jsonl",
            ".files.3.0.17.jsonl",
            "ördersfiles.3.0.17.jsonl",
        ] {
            assert_eq!(parse(name), None, "{name:?}");
        }
    }
}
