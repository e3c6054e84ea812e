//! Ends of transactions: publish, withdraw, sweep. All of it blocks.

use std::fs;
use std::io;

use cofferdam::{CommitError, Committed, Fence, InDoubt, SinkError, TransactionId};

use super::local::{self, Content, Folder};
use super::name;
use super::transaction::StagedFile;
use crate::error::sink_error;

/// How often a commit looks at the two places again, when another process changes them meanwhile.
const LOOKS: usize = 3;

/// Publishes a staged file under its name in the output folder.
///
/// The hard link is the commit: it is atomic, and fails if the name exists, so nothing is ever overwritten.
pub(super) fn publish(
    folder: &Folder,
    id: &TransactionId,
    handle: &StagedFile,
) -> Result<Committed, CommitError> {
    check_handle(id, handle)?;
    let wanted = Content::from(handle);
    let (staged, published) = (folder.staged(&handle.name), folder.published(&handle.name));
    let mut last = None;
    for _ in 0..LOOKS {
        // Staged first: a committer links before it unlinks, so a file that is not staged any more is published.
        let waiting = local::content(&staged)?;
        if waiting == Some(wanted) {
            match fs::hard_link(&staged, &published) {
                Ok(()) => return published_now(folder, handle),
                // Published or withdrawn by another: look again.
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
                Err(cause) => return Err(sink_error("publish", &published, cause).into()),
            }
        }
        match local::content(&published)? {
            Some(found) if found == wanted => return published_before(folder, handle),
            Some(found) => {
                return Err(lost(
                    &format!("{} holds other data", published.display()),
                    wanted,
                    found,
                ));
            }
            None => last = waiting,
        }
        if let Some(found) = waiting.filter(|found| *found != wanted) {
            return Err(lost(
                &format!(
                    "{} is damaged, and {} doesn't exist",
                    staged.display(),
                    published.display()
                ),
                wanted,
                found,
            ));
        }
    }
    nowhere(folder, handle, last)
}

/// Only the file of this very transaction is ever touched, whatever a handle says.
fn check_handle(id: &TransactionId, handle: &StagedFile) -> Result<(), SinkError> {
    if name::parse(&handle.name).as_ref() == Some(id) {
        return Ok(());
    }
    Err(SinkError::rejected(format!(
        "the handle names {:?}, which is not a file of transaction {id}",
        handle.name
    ))
    .hint("the checkpoint pairs handles and transactions wrongly: nothing was touched"))
}

fn published_now(folder: &Folder, handle: &StagedFile) -> Result<Committed, CommitError> {
    folder.sync_root()?;
    unstage(folder, handle);
    Ok(Committed::Now)
}

fn published_before(folder: &Folder, handle: &StagedFile) -> Result<Committed, CommitError> {
    // Whoever linked it may have died before the name was durable.
    folder.sync_root()?;
    unstage(folder, handle);
    Ok(Committed::Before)
}

/// Removes the staged name of published data.
///
/// It needs neither success nor durability: a name that stays, or comes back after a power cut, is a second name of
/// published data, which later commits and sweeps remove.
fn unstage(folder: &Folder, handle: &StagedFile) {
    if let Err(error) = local::remove(&folder.staged(&handle.name)) {
        tracing::warn!(%error, name = handle.name, "a published file is still staged");
    }
}

fn lost(what: &str, wanted: Content, found: Content) -> CommitError {
    CommitError::Lost(format!(
        "{what}: expected {} bytes with CRC-32 {:08x}, found {} bytes with CRC-32 {:08x}",
        wanted.bytes, wanted.crc32, found.bytes, found.crc32
    ))
}

/// The file was in neither place, over and over.
fn nowhere(
    folder: &Folder,
    handle: &StagedFile,
    last: Option<Content>,
) -> Result<Committed, CommitError> {
    if last.is_some() {
        return Err(
            SinkError::transient(format!("{} changes while it is committed", handle.name)).into(),
        );
    }
    if !folder.is_there()? {
        // An unmounted disk looks like this: no proof of loss.
        return Err(SinkError::configuration(format!(
            "the folder {} doesn't exist, in which {} was staged",
            folder.staging().display(),
            handle.name
        ))
        .hint("check the path of the output folder, and that its disk is mounted")
        .into());
    }
    Err(CommitError::Lost(format!(
        "looked for {} ({} bytes with CRC-32 {:08x}): neither staged in {} nor published in {}",
        handle.name,
        handle.bytes,
        handle.crc32,
        folder.staging().display(),
        folder.root().display()
    )))
}

/// Removes a staged file whose checkpoint was decided against.
///
/// It need not be durable: a name that comes back after a power cut is swept by the next epoch.
pub(super) fn withdraw(
    folder: &Folder,
    id: &TransactionId,
    handle: &StagedFile,
) -> Result<(), SinkError> {
    check_handle(id, handle)?;
    let published = folder.published(&handle.name);
    if local::content(&published)? == Some(Content::from(handle)) {
        return Err(SinkError::rejected(format!(
            "can't abort {id}: it is committed as {}",
            published.display()
        )));
    }
    local::remove(&folder.staged(&handle.name))?;
    Ok(())
}

/// Removes what older epochs of the fence's job and sink left staged, but for what is decided.
///
/// It need not be durable either.
pub(super) fn sweep(folder: &Folder, fence: &Fence<StagedFile>) -> Result<Vec<InDoubt>, SinkError> {
    let staged = folder.list_staged()?;
    for (id, name) in &staged {
        fence.check_prepared(id, folder.staged(name).display())?;
    }
    // The epoch alone does not tell: each start takes one, also those that are refused here.
    for (id, name) in folder.list_published()? {
        fence.check_committed(&id, folder.published(&name).display())?;
    }
    let mut undone = Vec::new();
    for (id, name) in staged.iter().filter(|(id, _)| fence.is_stale(id)) {
        // A second name of published data goes too, but nothing is undone by that.
        let committed = local::exists(&folder.published(name))?;
        let staged = folder.staged(name);
        if local::remove(&staged)? && !committed {
            undone.push(InDoubt::new(id, staged.display().to_string()));
        }
    }
    Ok(undone)
}

/// The error about a published file that this run's checkpoints can't know of.
pub(super) fn newer_output(folder: &Folder, id: &TransactionId, name: &str) -> SinkError {
    SinkError::configuration(format!(
        "the output folder holds files of a newer run than the checkpoint store knows: {} is of epoch {} and checkpoint {}",
        folder.published(name).display(),
        id.epoch,
        id.checkpoint
    ))
    .hint("bring back the checkpoints that belong to this output, or choose an empty output folder or another job id")
}
