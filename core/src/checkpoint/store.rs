//! The contract of checkpoint stores.

use std::error::Error as StdError;
use std::fmt::{Debug, Display};

use async_trait::async_trait;

use super::name::ObjectNameError;

/// Where a job keeps its checkpoints: a small set of named objects, written once each.
///
/// Takeovers, decisions and retention rest on four guarantees. They hold between all handles to a store, in any process:
///
/// * **Linearizable create-if-absent.** Of all callers that [`create`] one name, one gets [`Create::Created`].
/// * **Read after create.** Once any call of `create` has returned for a name, [`read`] returns the whole object, and never
///   a part of it. After [`delete`] it returns `None`, and the name is free.
/// * **List after create.** [`list`] returns each object whose `create` returned before `list` began, unless it is deleted.
/// * **Durability.** An object whose `create` returned survives the death of the process and the loss of power.
///
/// A store that lost its objects, or can't tell whether they are its own, answers with an error. It is never empty
/// again: a log that begins from nothing would take the place of the lost one.
///
/// Names follow [`check_object_name`](crate::check_object_name), prefixes
/// [`check_object_prefix`](crate::check_object_prefix). Every operation refuses others with an error that can't be tried
/// again, as stored names may be damaged or hostile.
///
/// Calls may be dropped at each await. A dropped call is like one that returned an error: it may still take effect.
///
/// The crate `cofferdam-conformance` checks all this but the durability, in its module `stores`.
///
/// [`create`]: CheckpointStore::create
/// [`read`]: CheckpointStore::read
/// [`list`]: CheckpointStore::list
/// [`delete`]: CheckpointStore::delete
#[async_trait]
pub trait CheckpointStore: Debug + Send + Sync + 'static {
    /// Writes an object if none of this name exists.
    ///
    /// *Must* be atomic: of any number of callers at once, in any process, one gets [`Create::Created`]; nobody ever
    /// reads a part of an object. Once it returned `Created`, the object survives power loss.
    /// *After an error* nothing is known: the object may exist now, later, or never. The caller reads it back.
    /// *Cancel safety*: dropping the future is the same as an error.
    async fn create(&self, name: &str, bytes: Vec<u8>) -> Result<Create, StoreError>;

    /// Reads an object; `None` if there is none of this name.
    async fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// The names of all objects that begin with `prefix` (which ends with `/`), in ascending order.
    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError>;

    /// Deletes an object; deleting one that doesn't exist is fine.
    async fn delete(&self, name: &str) -> Result<(), StoreError>;

    /// Where the store is, for messages. Without secrets.
    fn location(&self) -> String;
}

/// What came of [`CheckpointStore::create`].
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Create {
    /// This call created the object.
    Created,
    /// An object of this name was there before. It may be this caller's own, if an earlier answer was lost.
    Exists,
}

/// The store gave no answer. Of a write, this proves nothing: not that it failed, not that it succeeded.
#[derive(Debug, thiserror::Error)]
#[error("can't {action} {object}: {cause}{}", hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default())]
pub struct StoreError {
    /// What was tried: a verb.
    pub action: &'static str,
    /// On which object, with the store's location.
    pub object: String,
    /// Whether trying again may help. A missing right or a full disk needs a human first.
    pub retriable: bool,
    /// What the reader of the error can do.
    pub hint: Option<&'static str>,
    /// The error behind it.
    #[source]
    pub cause: Box<dyn StdError + Send + Sync + 'static>,
}

impl StoreError {
    /// Refuses an object name or a prefix. Takes the error of [`check_object_name`](crate::check_object_name) or
    /// [`check_object_prefix`](crate::check_object_prefix).
    pub fn refused_name(
        action: &'static str,
        location: impl Display,
    ) -> impl FnOnce(ObjectNameError) -> Self {
        move |cause| Self {
            action,
            object: format!("{:?} in {location}", cause.name),
            retriable: false,
            hint: None,
            cause: cause.into(),
        }
    }
}
