//! Errors of the protocol client, as errors of a source.

use cofferdam::SourceError;
use kafka_protocol::ResponseError;

use super::position::Partition;
use crate::wire::WireError;

/// An error of the protocol client, met while `trying` something.
pub(super) fn source_error(trying: &str, error: WireError) -> SourceError {
    let hint = error.hint();
    let told = SourceError::new(error.kind(), format!("can't {trying}"));
    let told = match hint {
        Some(hint) => told.hint(hint),
        None => told,
    };
    told.caused_by(error)
}

pub(super) fn is_missing(code: i16) -> bool {
    let error = ResponseError::try_from_code(code);
    matches!(
        error,
        Some(ResponseError::UnknownTopicOrPartition | ResponseError::UnknownTopicId)
    )
}

pub(super) fn missing_topic(topic: &str) -> SourceError {
    SourceError::configuration(format!("there is no topic {topic}"))
        .hint("create the topic first, or check its name; if it was deleted, its records are gone")
}

pub(super) fn recreated(topic: &str) -> SourceError {
    SourceError::configuration(format!(
        "the topic {topic} is not the one that was read: it was deleted and made anew"
    ))
    .hint("positions in the old topic mean nothing in the new one; start a job of another name to read it")
}

pub(super) fn out_of_range(
    partition: &Partition,
    wanted: i64,
    (first, end): (i64, i64),
) -> SourceError {
    let told = format!("{partition}: the offset {wanted} is to be read next, and");
    if wanted < first {
        SourceError::configuration(format!(
            "{told} the earliest is {first}: {} offsets were deleted unread",
            first - wanted
        ))
        .hint("raise the topic's retention; what is deleted is lost, so going on behind it takes a job of another name")
    } else {
        SourceError::configuration(format!("{told} the partition ends at {end}"))
            .hint("the brokers lost records that were read; going on would pass over what takes their place")
    }
}
