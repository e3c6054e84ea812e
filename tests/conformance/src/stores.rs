//! The suite for checkpoint stores: what [`CheckpointStore`] demands, as named checks.
//!
//! A test of a store runs them all, and fails with what was seen. On a runtime with several threads, races are real.
//!
//! ```no_run
//! # async fn example() {
//! use std::path::Path;
//! use std::sync::Arc;
//! use cofferdam::DirectoryCheckpointStore;
//! use cofferdam_conformance::stores;
//!
//! let folder = Path::new("/tmp/stores");
//! let results = stores::check(|place| {
//!     Ok(Arc::new(DirectoryCheckpointStore::open(folder.join(place))?))
//! });
//! assert_eq!(stores::failures(&results.await), "");
//! # }
//! ```

use std::error::Error;
use std::fmt::Write as _;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use cofferdam::{CheckpointStore, Create, StoreError};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::report::{CheckResult, Verdict};

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;
type Checking = Pin<Box<dyn Future<Output = Outcome> + Send>>;
type Handle = Arc<dyn CheckpointStore>;

/// Two handles to one empty store, as two processes have them.
#[derive(Clone)]
struct Pair {
    one: Handle,
    other: Handle,
}

macro_rules! checks {
    ($($id:literal $function:ident $name:literal,)*) => {
        const CHECKS: &[(&str, &str, fn(Pair) -> Checking)] =
            &[$(($id, $name, |pair| Box::pin($function(pair))),)*];
    };
}

checks! {
    "STO-1" absent "an object that was not created is absent, and deleting it is no error",
    "STO-2" created_once "an object is created once, and never overwritten",
    "STO-3" one_winner "of many that race for a name, one creates the object",
    "STO-4" whole "an object is read as a whole or not at all, while it is created",
    "STO-5" listed "a list has all objects below its prefix, and no others, in order",
    "STO-6" listed_at_once "a list has every object whose creation returned before it began",
    "STO-7" deleted "a deleted object is gone at once, and its name is free",
    "STO-8" names "a name that could lead elsewhere is refused by every operation",
    "STO-9" large "a large object is read as it was written",
    "STO-10" shared "two handles see one store",
    "STO-11" cancelled "a creation that is dropped leaves no part of an object",
}

/// The ids of all checks.
pub fn ids() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|(id, _, _)| *id)
}

/// Runs all checks on a store. `open` opens the store at a place of its own, which is empty at first; opening a place
/// twice gives two handles to one store, as two processes have them.
pub async fn check<F>(mut open: F) -> Vec<CheckResult>
where
    F: FnMut(&str) -> Result<Arc<dyn CheckpointStore>, StoreError>,
{
    let mut results = Vec::with_capacity(CHECKS.len());
    for (id, name, check) in CHECKS {
        let opened = open(id).and_then(|one| {
            let other = open(id)?;
            Ok(Pair { one, other })
        });
        let outcome = match opened {
            Ok(pair) => check(pair).await,
            Err(error) => Err(error.into()),
        };
        results.push(CheckResult {
            id: (*id).to_owned(),
            name: (*name).to_owned(),
            verdict: match outcome {
                Ok(()) => Verdict::Passed,
                Err(seen) => Verdict::Failed(seen.to_string()),
            },
        });
    }
    results
}

/// The checks that failed, a line for each; empty if the store passed.
pub fn failures(results: &[CheckResult]) -> String {
    let mut text = String::new();
    for CheckResult { id, name, verdict } in results {
        if let Verdict::Failed(seen) = verdict {
            // Writing to a string never fails.
            let _written = writeln!(text, "{id} {name}: {seen}");
        }
    }
    text
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers compare what they have just made"
)]
fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: expected {expected:?}, found {found:?}").into())
}

async fn create(store: &Handle, name: &str, bytes: &[u8]) -> Outcome {
    let created = store.create(name, bytes.to_vec()).await?;
    expect(&format!("create {name}"), created, Create::Created)
}

async fn holds(store: &Handle, name: &str, bytes: &[u8]) -> Outcome {
    match store.read(name).await? {
        Some(found) if found == bytes => Ok(()),
        Some(found) => {
            let (found, written) = (found.len(), bytes.len());
            Err(format!("{name} is not what was written: {found} bytes, of {written}").into())
        }
        None => Err(format!("{name} is not there").into()),
    }
}

async fn absent(Pair { one, .. }: Pair) -> Outcome {
    expect("read", one.read("log/a").await?, None)?;
    expect("list", one.list("log/").await?, Vec::new())?;
    one.delete("log/a").await?;
    Ok(())
}

async fn created_once(Pair { one, .. }: Pair) -> Outcome {
    create(&one, "log/a", b"first").await?;
    let again = one.create("log/a", b"second".to_vec()).await?;
    expect("create again", again, Create::Exists)?;
    holds(&one, "log/a", b"first").await?;
    create(&one, "log/empty", b"").await?;
    holds(&one, "log/empty", b"").await
}

async fn one_winner(Pair { one, other }: Pair) -> Outcome {
    for round in 0..16 {
        let name = format!("log/{round}");
        let mut racing = JoinSet::new();
        let start = Arc::new(Barrier::new(8));
        for racer in 0..8_u8 {
            let store = Arc::clone(if racer % 2 == 0 { &one } else { &other });
            let (name, start) = (name.clone(), Arc::clone(&start));
            racing.spawn(async move {
                start.wait().await;
                let created = store.create(&name, vec![racer; 4096]).await?;
                let found = store.read(&name).await?.unwrap_or_default();
                Ok::<_, StoreError>((racer, created, found))
            });
        }
        let (mut winners, mut seen) = (Vec::new(), Vec::new());
        while let Some(raced) = racing.join_next().await {
            let (racer, created, found) = raced??;
            if created == Create::Created {
                winners.push(racer);
            }
            seen.push(found);
        }
        let [winner] = winners[..] else {
            return Err(format!("{name} was created by {winners:?}").into());
        };
        if seen.iter().any(|found| *found != vec![winner; 4096]) {
            return Err(format!("not all racers read what {winner} wrote to {name}").into());
        }
    }
    Ok(())
}

async fn whole(Pair { one, other }: Pair) -> Outcome {
    for round in 0..8 {
        let (name, content) = (format!("log/{round}"), vec![7; 1 << 20]);
        let writer = tokio::spawn({
            let (one, name, content) = (Arc::clone(&one), name.clone(), content.clone());
            async move { one.create(&name, content).await }
        });
        loop {
            let listed = other.list("log/").await?.contains(&name);
            match other.read(&name).await? {
                Some(found) if found == content => break,
                Some(found) => return Err(format!("read {} bytes", found.len()).into()),
                None if listed => return Err(format!("{name} is listed, and absent").into()),
                None if writer.is_finished() && !listed => {
                    holds(&other, &name, &content).await?;
                }
                None => tokio::task::yield_now().await,
            }
        }
        expect("create", writer.await??, Create::Created)?;
    }
    Ok(())
}

async fn listed(Pair { one, other }: Pair) -> Outcome {
    let below = [
        "log/10",
        "log/9",
        "log/a",
        "log/deep/a",
        "log/deep/er/x",
        "log/z",
    ];
    let beside = ["logs/z", "log-1/a", "state/a", "top"];
    for name in below.iter().rev().chain(&beside) {
        create(&one, name, b"").await?;
    }
    expect(
        "log/",
        other.list("log/").await?,
        below.map(str::to_owned).to_vec(),
    )?;
    let deep = other.list("log/deep/").await?;
    expect(
        "log/deep/",
        deep,
        below[3..5].iter().map(|name| (*name).to_owned()).collect(),
    )
}

async fn listed_at_once(Pair { one, other }: Pair) -> Outcome {
    for number in 0..100 {
        let name = format!("log/{number:03}");
        create(&one, &name, b"").await?;
        expect("newest", other.list("log/").await?.pop(), Some(name))?;
    }
    Ok(())
}

async fn deleted(Pair { one, other }: Pair) -> Outcome {
    for content in [b"first", b"again"] {
        create(&one, "log/a", content).await?;
        holds(&other, "log/a", content).await?;
        one.delete("log/a").await?;
        expect("read", other.read("log/a").await?, None)?;
        expect("list", other.list("log/").await?, Vec::new())?;
        other.delete("log/a").await?;
    }
    Ok(())
}

async fn names(Pair { one, .. }: Pair) -> Outcome {
    let refused = |what: &str, name: &str, error: Option<StoreError>| match error {
        Some(error) if !error.retriable => Ok(()),
        Some(error) => Err(format!("{what} {name:?} can be tried again: {error}")),
        None => Err(format!("{what} takes {name:?}")),
    };
    let long = "x".repeat(cofferdam::MAX_OBJECT_NAME_LENGTH + 1);
    let hostile = [
        "",
        ".",
        "/",
        "/a",
        "../a",
        "log/../../a",
        "log/..",
        "log//a",
        "log/",
        "log/.a",
        "log\\a",
        "log/a b",
        "log/\0",
        "log/\u{e4}",
        &long,
    ];
    for name in hostile {
        refused("create", name, one.create(name, Vec::new()).await.err())?;
        refused("read", name, one.read(name).await.err())?;
        refused("delete", name, one.delete(name).await.err())?;
    }
    for prefix in ["", "/", "log", "../", "log/../", "log//", ".a/"] {
        refused("list", prefix, one.list(prefix).await.err())?;
    }
    Ok(())
}

async fn large(Pair { one, other }: Pair) -> Outcome {
    let bytes: Vec<u8> = (0..=250).cycle().take(8 << 20).collect();
    create(&one, "state/large", &bytes).await?;
    holds(&other, "state/large", &bytes).await
}

async fn shared(Pair { one, other }: Pair) -> Outcome {
    create(&one, "log/a", b"one").await?;
    holds(&other, "log/a", b"one").await?;
    let again = other.create("log/a", b"other".to_vec()).await?;
    expect("create through the other", again, Create::Exists)?;
    create(&other, "log/b", b"other").await?;
    holds(&one, "log/b", b"other").await
}

async fn cancelled(Pair { one, other }: Pair) -> Outcome {
    for polls in 1..=16 {
        let name = format!("log/{polls}");
        let content = vec![polls; 1 << 16];
        let mut creating = one.create(&name, content.clone());
        for _ in 0..polls {
            let done = poll_fn(|context| Poll::Ready(creating.as_mut().poll(context).is_ready()));
            if done.await {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(creating);
        if let Some(found) = other.read(&name).await? {
            expect("length after the drop", found.len(), content.len())?;
        }
        // It exists now or later, or never: whoever tries again gets an answer, and the object is whole.
        let _either: Create = other.create(&name, content.clone()).await?;
        holds(&other, &name, &content).await?;
    }
    Ok(())
}
