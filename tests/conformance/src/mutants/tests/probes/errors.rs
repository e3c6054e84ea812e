//! What does not go well.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use cofferdam::{CommitError, ErrorKind, SinkError, TwoPhaseCommitSinkFunction};
use tokio::time::timeout;

use super::{Finding, Handle, Probed, Site, claim, id, prepare, text, wrong};
use crate::factory::Odd;
use crate::observer::{Breakage, Observer};
use crate::reference::ReferenceRecord;
use crate::wrappers::proxy::Proxy;

/// The kind of the error that a call ends with, in time.
async fn kind<F: Probed, T>(
    site: &Site<F>,
    call: impl Future<Output = Result<T, SinkError>>,
) -> Result<ErrorKind, String> {
    match timeout(site.factory.patience() * 3, call).await {
        Err(_) => wrong("a call hangs"),
        Ok(Ok(_)) => wrong("a call succeeds that can't"),
        Ok(Err(error)) => Ok(error.kind()),
    }
}

pub(super) async fn have_kinds<F: Probed>(site: Site<F>) -> Finding {
    let breakages = [
        (Breakage::NoRights, ErrorKind::Configuration),
        (Breakage::Unreachable, ErrorKind::Transient),
        (Breakage::Silent, ErrorKind::Unknown),
    ];
    for (number, (breakage, expected)) in (1..).zip(breakages) {
        let prepared = id(1, 0, number);
        let handle = prepare(&site.open().await?, &prepared).await?;
        let sink = site.open().await?;
        site.place.break_down(breakage).await.unwrap();
        let begun = kind(&site, sink.begin(&id(1, 1, number))).await;
        let committed = kind(&site, async {
            match sink.commit(&prepared, &handle).await {
                Err(CommitError::NotYet(error)) => Err(error),
                // A kind that none of the breakages has.
                Err(CommitError::Lost(lost)) => Err(SinkError::fenced(lost)),
                Ok(committed) => Ok(committed),
            }
        })
        .await;
        site.place.mend().await.unwrap();
        claim(begun? == expected, "begin ends with another kind")?;
        claim(committed? == expected, "commit ends with another kind")?;
    }
    Ok(())
}

pub(super) async fn refuse_odd_records<F: Probed>(site: Site<F>) -> Finding {
    let sink = Arc::new(site.open().await?);
    for (number, odd) in (1..).zip([Odd::Refused, Odd::Oversize]) {
        let record = site.factory.odd_record(odd).map_err(text)?;
        let begun = sink.begin(&id(1, 0, number)).await;
        let mut transaction = begun.map_err(text)?;
        let refused = match sink.write(&mut transaction, vec![record]).await {
            Ok(()) => sink.pre_commit(transaction).await.err(),
            Err(error) => Some(error),
        };
        let rejected = refused.is_some_and(|error| error.kind() == ErrorKind::Rejected);
        claim(rejected, "an odd record was not refused")?;
    }
    let mut transaction = sink.begin(&id(1, 0, 3)).await.map_err(text)?;
    let writer = Arc::clone(&sink);
    let written = tokio::spawn(async move {
        let records = vec![ReferenceRecord::Panicking];
        writer.write(&mut transaction, records).await
    });
    claim(written.await.is_err(), "the encoder did not panic")?;
    prepare(&*sink, &id(1, 0, 4)).await.map(|_| ())
}

pub(super) async fn show_no_secret<F: Probed>(site: Site<F>) -> Finding {
    let sink = site.open().await?;
    site.place.break_down(Breakage::NoRights).await.unwrap();
    let Err(error) = sink.begin(&id(1, 0, 1)).await else {
        return wrong("a call succeeds that can't");
    };
    let shown = format!("{sink:?} {error} {error:?}");
    let secrets = site.place.secrets();
    let secret = secrets.iter().any(|secret| shown.contains(secret));
    claim(!secret, "a secret shows")
}

pub(super) async fn may_be_answers_that_are_lost<F: Probed>(site: Site<F>) -> Finding {
    let proxy = Proxy::start(site.place.socket_address()).await.unwrap();
    let through = || site.factory.open_through(&site.place, proxy.address());
    let mut ids = Vec::new();
    // Of a commit.
    for number in 1..=4 {
        let id = id(number, 0, number);
        let handle = prepare(&site.open().await?, &id).await?;
        let sink = through().await.map_err(text)?;
        proxy.swallow_answer(number);
        for _ in 0..3 {
            if let Err(CommitError::Lost(_)) = sink.commit(&id, &handle).await {
                return wrong("an answer is lost, and no more");
            }
        }
        proxy.disarm();
        ids.push(id);
        site.shows(&ids.iter().collect::<Vec<_>>()).await?;
    }
    // Of all that comes before a commit.
    for number in 1..=12 {
        let sink = through().await.map_err(text)?;
        let id = id(10 + number, 0, 10 + number);
        proxy.swallow_answer(number);
        let prepared = prepare(&sink, &id).await;
        proxy.disarm();
        if let Ok(handle) = prepared {
            let _now = sink.commit(&id, &handle).await.map_err(text)?;
            ids.push(id);
        }
        site.sweep(&sink, 11 + number).await.map_err(text)?;
        site.shows(&ids.iter().collect::<Vec<_>>()).await?;
    }
    Ok(())
}

pub(super) async fn may_be_calls_that_are_dropped<F: Probed>(site: Site<F>) -> Finding {
    let sink = site.open().await?;
    let mut ids = Vec::new();
    for polls in 1..12 {
        let id = id(1, 0, polls);
        let handle = prepare(&sink, &id).await?;
        {
            let mut commit = pin!(sink.commit(&id, &handle));
            for _ in 0..polls {
                let poll = poll_fn(|context| Poll::Ready(commit.as_mut().poll(context).is_ready()));
                if poll.await {
                    break;
                }
                tokio::time::sleep(Duration::from_micros(50)).await;
            }
        }
        let _now_or_before = sink.commit(&id, &handle).await.map_err(text)?;
        ids.push(id);
        site.shows(&ids.iter().collect::<Vec<_>>()).await?;
    }
    Ok(())
}

pub(super) async fn refuse_handles_of_others<F: Probed>(site: Site<F>) -> Finding {
    let sink = site.open().await?;
    let handle = prepare(&sink, &id(1, 0, 1)).await?;
    let taken = sink.commit(&id(1, 0, 2), &handle).await.is_ok();
    claim(!taken, "a handle of another transaction was taken")?;
    for json in ["{}", "null", r#"{"transaction":7,"rows":[]}"#] {
        let read = serde_json::from_str::<Handle<F>>(json).is_ok();
        claim(!read, "garbage was read")?;
    }
    Ok(())
}
