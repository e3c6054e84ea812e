//! Errors of Kafka as errors of sinks and sources.

use cofferdam::SinkError;

use crate::wire::WireError;

/// An error of the protocol client, with what was tried.
pub(crate) fn sink_error(what: impl Into<String>, error: WireError) -> SinkError {
    let hint = error.hint();
    let sink_error = SinkError::new(error.kind(), what).caused_by(error);
    match hint {
        Some(hint) => sink_error.hint(hint),
        None => sink_error,
    }
}
