//! State parts: what decided checkpoints name beside the log.

use super::CheckpointError;
use super::log::object;
use super::manifest::StatePart;
use super::store::{CheckpointStore, Create};
use crate::envelope::{self, Kind};
use crate::identity::{CheckpointId, Epoch, OperatorId, SubtaskIndex};

/// Where state parts are.
pub(super) const FOLDER: &str = "state/";

/// Writes a state part, before the decision that names it. Its name is unique to epoch, checkpoint and subtask.
pub(crate) async fn write_state(
    store: &dyn CheckpointStore,
    epoch: Epoch,
    checkpoint: CheckpointId,
    operator: &OperatorId,
    subtask: SubtaskIndex,
    content: &[u8],
) -> Result<StatePart, CheckpointError> {
    let object = format!("{FOLDER}{:020}.{epoch}.{operator}.{subtask}", checkpoint.0);
    // "Exists" is this very part, from a try whose answer was lost: no one else has this epoch.
    let _created: Create = store
        .create(&object, envelope::seal(Kind::State, content))
        .await?;
    Ok(StatePart {
        operator: operator.clone(),
        subtask,
        object,
    })
}

/// Reads a state part that a decided checkpoint names.
pub(crate) async fn read_state(
    store: &dyn CheckpointStore,
    part: &StatePart,
) -> Result<Vec<u8>, CheckpointError> {
    let object = || object(store, &part.object);
    let bytes = store.read(&part.object).await?;
    let bytes = bytes.ok_or_else(|| CheckpointError::MissingPart { object: object() })?;
    let content =
        envelope::open(Kind::State, &bytes).map_err(|cause| CheckpointError::Envelope {
            object: object(),
            cause,
        })?;
    Ok(content.to_vec())
}

/// The epoch that wrote a state part, by its name.
pub(super) fn epoch_of(object: &str) -> Option<Epoch> {
    let mut fields = object.strip_prefix(FOLDER)?.split('.').skip(1);
    fields.next()?.parse().ok().map(Epoch)
}
