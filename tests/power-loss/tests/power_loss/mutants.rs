//! Were one kind of sync left out, these tests would see it: so they see, and no sync is idle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use cofferdam_power_loss::{CHECKPOINTS, Call, Disk, Step, Tree};

use super::examine::examine;
use super::history::{Run, three_runs};
use super::recovery::recover;

/// Every kind of sync that the store and the sink do, in the folder that they are given.
const KINDS: [&str; 10] = [
    "data for checkpoints/log",
    "data for checkpoints/state",
    "data for output/results/_staging",
    "names in ",
    "names in checkpoints",
    "names in checkpoints/log",
    "names in checkpoints/state",
    "names in output",
    "names in output/results",
    "names in output/results/_staging",
];

#[test]
fn each_kind_of_sync_is_needed_and_its_lack_is_seen() {
    let runs = three_runs();
    let mut kinds: BTreeMap<String, BTreeSet<Place>> = BTreeMap::new();
    for (place, kind) in syncs(&runs) {
        kinds.entry(kind).or_default().insert(place);
    }
    let found: Vec<&str> = kinds.keys().map(String::as_str).collect();
    assert_eq!(found, KINDS);
    for (kind, places) in &kinds {
        let examined = examine(&without(&runs, places));
        let failure = find_failure(&examined.trees);
        println!(
            "without {kind:?}, {} syncs: {} of {} states break a promise; {}",
            places.len(),
            examined.broken.len(),
            examined.states,
            failure.as_deref().unwrap_or("recovery sees nothing")
        );
        assert!(!examined.broken.is_empty(), "no promise needs {kind:?}");
        assert!(failure.is_some(), "no recovery needs {kind:?}");
    }
}

/// Recovers from one tree after another, until something goes wrong.
fn find_failure(trees: &BTreeMap<Tree, String>) -> Option<String> {
    let mut trees = trees.iter();
    trees.find_map(|(tree, place)| Some(format!("{place}: {}", recover(tree).err()?)))
}

/// A call: of which run, and which.
type Place = (usize, usize);

/// Where a sync begins, and its kind.
fn syncs(runs: &[Run]) -> Vec<(Place, String)> {
    let mut disk = Disk::empty();
    let mut syncs = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        disk.begin_process(&run.root);
        for (at, step) in run.steps.iter().enumerate() {
            if let Some(path) = disk.synced_by(&step.call) {
                let is_file = disk.now().get(&path).is_some_and(Option::is_some);
                let kind = match is_file {
                    true => format!("data for {}", folder_of(&path, run, at).display()),
                    false => format!("names in {}", path.display()),
                };
                syncs.push(((number, at), kind));
            }
            disk.apply(step).expect("it was played before");
        }
    }
    syncs
}

/// The folder that a file is written for: what is written aside gets its name later.
fn folder_of<'a>(path: &'a Path, run: &'a Run, at: usize) -> &'a Path {
    let aside = path.starts_with(Path::new(CHECKPOINTS).join(".aside"));
    let whole = run.root.join(path);
    let linked = run.steps[at..].iter().find_map(|step| match &step.call {
        Call::Link(from, to) if aside && *from == whole => to.strip_prefix(&run.root).ok(),
        _ => None,
    });
    linked
        .unwrap_or(path)
        .parent()
        .expect("a file is in a folder")
}

/// The runs as they were, had these syncs not been done.
fn without(runs: &[Run], places: &BTreeSet<Place>) -> Vec<Run> {
    let without = |(number, run): (usize, &Run)| {
        let mut left_out = BTreeSet::new();
        let keep = |(at, step): (usize, &Step)| {
            let keep = match step.call {
                Call::SyncBegins(_) if places.contains(&(number, at)) => {
                    left_out.insert(step.thread);
                    false
                }
                Call::Sync(_) => !left_out.remove(&step.thread),
                _ => true,
            };
            keep.then(|| step.clone())
        };
        Run {
            root: run.root.clone(),
            steps: Arc::new(run.steps.iter().enumerate().filter_map(keep).collect()),
        }
    };
    runs.iter().enumerate().map(without).collect()
}
