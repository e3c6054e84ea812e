//! What is prepared, and what is committed, outlives whoever did it.

use std::sync::Arc;

use cofferdam::{CommitError, Committed};

use crate::check::{Stop, checks};
use crate::factory::Factory;
use crate::observer::Observer;
use crate::process::Handle;
use crate::site::id;
use crate::trial::Trial;
use crate::trouble::Trouble;
use crate::wrappers::child::{Child, Step};

checks! {
    "DUR-1" another_process_commits_what_was_prepared [Resume]
        "Prepares, drops the sink, cuts its connections: a new instance commits from the text of the handle alone."
        another_process;
    "DUR-2" what_is_prepared_survives_kill_9 [Resume, Part]
        "A child process prepares, hands its handle out and is killed with SIGKILL: this process commits."
        survives_kill;
    "DUR-3" what_is_prepared_survives_a_restart_of_the_system [Resume, Part]
        "Prepares, kills the outside system hard and starts it again: the transaction is committed, with all its records."
        prepared_survives_restart;
    "DUR-4" what_is_committed_survives_a_restart_of_the_system [Part]
        "Commits, kills the outside system hard and starts it again: a reader sees all."
        committed_survives_restart;
    "DUR-5" a_handle_is_plain_data [Resume]
        "The handle's text reads back to the same text, is below 64 KiB, and what is cut, garbled or foreign is an error: no panic, no commit, no row."
        plain_data;
    "DUR-6" handles_of_earlier_versions_still_commit [Resume, Part]
        "For each golden handle: it can be read, and a handle of today with no more fields than it has is committed."
        golden_handles;
}

async fn another_process<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let handle = process.prepare(&id(1, 0, 1), 100).await?;
    drop(process);
    match trial.place().kill_connections().await {
        // There are none to be cut.
        Ok(()) | Err(Trouble::Unsupported(_)) => {}
        Err(failed) => return Err(failed.into()),
    }
    trial.decide(&[&handle]);
    let next = trial.process().await?;
    committed_now(&next.commit(&handle).await?)?;
    trial.expect_rows(100).await
}

fn committed_now(committed: &Committed) -> Result<(), Stop> {
    match committed {
        Committed::Now => Ok(()),
        Committed::Before => Err(Stop::failed(
            "the first commit says that there was one before",
        )),
    }
}

async fn survives_kill<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let records = trial.site.new_records(100);
    let mut child = Child::start(&trial, &id(1, 0, 1), records, Step::Prepared).await?;
    let handle = child
        .reached()
        .await?
        .ok_or_else(|| Stop::failed("pre_commit returned no handle"))?;
    child.kill().await?;
    trial.expect_rows(0).await?;
    trial.decide(&[&handle]);
    let process = trial.process().await?;
    process.recover(2, 1, &[handle]).await?;
    trial.expect_rows(100).await
}

async fn prepared_survives_restart<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let handle = process.prepare(&id(1, 0, 1), 100).await?;
    trial.place().restart().await?;
    trial.expect_rows(0).await?;
    trial.decide(&[&handle]);
    drop(process);
    let next = trial.process().await?;
    next.recover(2, 1, &[handle]).await?;
    trial.expect_rows(100).await
}

async fn committed_survives_restart<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let mut open = process.begin(&id(1, 0, 1)).await?;
    process.write(&mut open, 100).await?;
    let transaction = open.id.clone();
    match process.pre_commit(open).await? {
        Some(handle) => {
            trial.decide(&[&handle]);
            let _ = process.commit(&handle).await?;
        }
        None => trial.decided(&transaction),
    }
    trial.place().restart().await?;
    trial.expect_rows(100).await
}

/// The longest handle: many of them stand in each checkpoint.
const LONGEST_HANDLE: usize = 64 * 1024;

async fn plain_data<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let process = trial.process().await?;
    let handle = process.prepare(&id(1, 0, 1), 100).await?;
    if handle.json.len() > LONGEST_HANDLE {
        let length = handle.json.len();
        return Err(Stop::failed(format!(
            "a handle of {length} bytes: more than 64 KiB"
        )));
    }
    let again = serde_json::to_string(&process.decode(&handle)?).unwrap_or_default();
    if again != handle.json {
        return Err(Stop::failed(format!(
            "the handle {} reads back as {again}",
            handle.json
        )));
    }
    // Of a transaction that nobody prepared; a damaged handle must not lead to the real one.
    let foreign = id(1, 7, 3);
    for json in damaged(&handle.json) {
        let damaged = Handle {
            id: foreign.clone(),
            json,
        };
        match process.commit(&damaged).await {
            Err(CommitError::Lost(_) | CommitError::NotYet(_)) => {}
            Ok(committed) => {
                return Err(Stop::failed(format!(
                    "commit of {foreign}, which nobody prepared, with the handle {} says {committed:?}",
                    damaged.json
                )));
            }
        }
    }
    trial.expect_rows(0).await?;
    trial.decide(&[&handle]);
    let _ = process.commit(&handle).await?;
    trial.expect_rows(100).await
}

/// A handle, cut at each character, with each character changed, and as some other things.
fn damaged(json: &str) -> impl Iterator<Item = String> {
    let cut = (0..json.len())
        .step_by(3)
        .filter_map(|end| json.get(..end))
        .map(str::to_owned);
    let changed = (0..json.len()).step_by(3).filter_map(|at| {
        let mut text = json.to_owned();
        text.replace_range(
            at..=at,
            if json[at..].starts_with('9') {
                "8"
            } else {
                "9"
            },
        );
        Some(text)
    });
    let garbage = [
        "",
        "null",
        "{}",
        "[]",
        "0",
        "\"\"",
        "\u{0}",
        "{\"a\":{\"b\":[1,2,3]}}",
    ];
    let large = [format!("\"{}\"", "x".repeat(1 << 20)), "[".repeat(100_000)];
    (cut.collect::<Vec<_>>().into_iter())
        .chain(changed.collect::<Vec<_>>())
        .chain(garbage.map(str::to_owned))
        .chain(large)
}

async fn golden_handles<F: Factory>(trial: Arc<Trial<F>>) -> Result<(), Stop> {
    let golden = trial.site.factory.golden_handles();
    if golden.is_empty() {
        return Err(Stop::Unsupported(
            "there are no handles of earlier versions".to_owned(),
        ));
    }
    let process = trial.process().await?;
    for (golden, checkpoint) in golden.into_iter().zip(1..) {
        let version = &golden.version;
        let old = Handle {
            id: id(1, 0, checkpoint),
            json: golden.json,
        };
        process.decode(&old).map_err(|error| {
            Stop::failed(format!(
                "the handle of version {version} can't be read: {error}"
            ))
        })?;
        let mut handle = process.prepare(&id(1, 0, checkpoint), 10).await?;
        let parse =
            |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap_or_default();
        let mut today = parse(&handle.json);
        strip(&mut today, &parse(&old.json));
        handle.json = today.to_string();
        trial.remark(format!(
            "as version {version} would have written it: {}",
            handle.json
        ));
        trial.decide(&[&handle]);
        let _ = process.commit(&handle).await?;
    }
    Ok(())
}

/// Takes away the fields that the older version did not have.
fn strip(today: &mut serde_json::Value, old: &serde_json::Value) {
    if let (Some(today), Some(old)) = (today.as_object_mut(), old.as_object()) {
        today.retain(|field, _| old.contains_key(field));
        for (field, value) in today {
            strip(value, &old[field]);
        }
    }
}
