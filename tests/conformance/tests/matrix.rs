//! Proves the suite: each broken sink is failed by the checks that are there to catch it, and by no surprise.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cofferdam_conformance::mutants::{About, Bug, MutantFactory, Visitor, visit_all};
use cofferdam_conformance::{
    About as Check, Report, all_checks, for_each_mutant, keep_up_to_date, run_some,
};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The processes that are killed.
mod children {
    macro_rules! child_of_each {
        ($($bug:ident,)+) => { $(
            #[test]
            #[allow(non_snake_case, reason = "called as the sink is")]
            fn $bug() {
                use cofferdam_conformance::{child_process, mutants};
                child_process::<mutants::MutantFactory<mutants::$bug>>();
            }
        )+ };
    }
    super::for_each_mutant!(child_of_each);
}

/// The checks that kill child processes.
const BY_KILLING: &[&str] = &["DUR-2", "REC-12", "REC-13"];

/// The checks whose steps the machine times: threads race, processes are killed, or calls are cut at awaits, of which a
/// socket makes more or fewer. Whether they notice a fault that others are there for is no surprise either way.
const RACING: &[&str] = &[
    "ATO-1", "ATO-3", "IDE-3", "FEN-4", "FEN-5", "FEN-6", "FEN-8", "REC-3", "REC-4", "REC-5",
    "REC-12", "REC-13", "LIV-6", "CLE-2", "CLE-4", "CON-1", "CON-2", "CON-5", "CON-6",
];

/// How many suites run at once: much of their time is spent waiting.
const AT_ONCE: usize = 4;

/// How many times what differs is run again.
const AGAIN: usize = 2;

/// The checks of one broken sink that are to be run; all, if it is not there.
type Wanted = BTreeMap<&'static str, BTreeSet<String>>;

/// Runs the suite on each broken sink, or on some.
struct Matrix {
    running: JoinSet<(About, Report)>,
    room: Arc<Semaphore>,
    wanted: Option<Wanted>,
}

impl Matrix {
    async fn run(at_once: usize, wanted: Option<Wanted>) -> Vec<(About, BTreeSet<String>)> {
        let mut matrix = Self {
            running: JoinSet::new(),
            room: Arc::new(Semaphore::new(at_once)),
            wanted,
        };
        visit_all(&mut matrix);
        let mut reports = matrix.running.join_all().await;
        reports.sort_by_key(|(about, _)| number(about.id));
        let failed = |report: Report| report.failed().into_iter().map(str::to_owned).collect();
        reports
            .into_iter()
            .map(|(about, report)| (about, failed(report)))
            .collect()
    }
}

impl Visitor for Matrix {
    fn visit<B: Bug>(&mut self) {
        let wanted = match &self.wanted {
            None => None,
            Some(wanted) => match wanted.get(B::ABOUT.id) {
                None => return,
                some => some.cloned(),
            },
        };
        let room = Arc::clone(&self.room);
        // Starting processes takes long, so only those are killed whose fault shows in that way alone.
        let killed = B::ABOUT
            .caught_by
            .iter()
            .any(|check| BY_KILLING.contains(check));
        let child = killed.then(|| &*format!("children::{}", B::ABOUT.name).leak());
        self.running.spawn(async move {
            let _room = room.acquire_owned().await.expect("it is never closed");
            let is_wanted = |check: &Check| {
                wanted
                    .as_ref()
                    .is_none_or(|wanted| wanted.contains(check.id))
            };
            (
                B::ABOUT,
                run_some::<MutantFactory<B>>(child, is_wanted).await,
            )
        });
    }
}

fn number(id: &str) -> u32 {
    let number = id.trim_start_matches('M').parse();
    number.expect("ids are M and a number")
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("MUTANTS.md")
}

/// The checks that are known to fail each broken sink, by its id, from the page. Timing decides whether some of those
/// that are not named in bold do.
fn known() -> BTreeMap<String, BTreeSet<String>> {
    let page = std::fs::read_to_string(page()).unwrap_or_default();
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| M")?.split(" | ").collect();
        let (id, failed) = (cells.first()?.split(' ').next()?, cells.last()?);
        let failed = failed.trim_end_matches(" |").split(", ");
        let failed = failed.map(|check| check.trim_matches('*').to_owned());
        Some((
            format!("M{id}"),
            failed.filter(|check| !check.is_empty()).collect(),
        ))
    };
    page.lines().filter_map(row).collect()
}

/// What differs from what is listed: expected checks that passed, and others that failed.
fn differences(
    found: &[(About, BTreeSet<String>)],
    listed: &BTreeMap<String, BTreeSet<String>>,
) -> Wanted {
    let difference = |(about, failed): &(About, BTreeSet<String>)| {
        let missed = about
            .caught_by
            .iter()
            .filter(|check| !failed.contains(**check));
        let mut checks: BTreeSet<String> = missed.map(|check| (*check).to_owned()).collect();
        let listed = listed.get(about.id);
        let is_surprise = |check: &&String| {
            !RACING.contains(&check.as_str())
                && listed.is_none_or(|listed| !listed.contains(*check))
        };
        let surprises = failed.iter().filter(is_surprise).cloned();
        checks.extend(surprises.filter(|check| !about.caught_by.contains(&check.as_str())));
        (!checks.is_empty()).then_some((about.id, checks))
    };
    found.iter().filter_map(difference).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_broken_sink_is_failed_by_the_checks_that_should_and_by_no_surprise() {
    let updating = std::env::var_os("COFFERDAM_UPDATE").is_some();
    let mut listed = known();
    let mut found = Matrix::run(AT_ONCE, None).await;
    // On a busy machine a call may miss its deadline, or a kill its moment: what differs has to differ each time, alone.
    for _ in 0..AGAIN {
        for (about, failed_again) in Matrix::run(1, Some(differences(&found, &listed))).await {
            let known = found.iter_mut().find(|(known, _)| known.id == about.id);
            let (_, failed) = known.expect("it ran before");
            let expected = |check: &String| about.caught_by.contains(&check.as_str());
            let listed = listed.entry(about.id.to_owned()).or_default();
            failed.retain(|check| {
                let races = RACING.contains(&check.as_str());
                races || expected(check) || listed.contains(check) || failed_again.contains(check)
            });
            failed.extend(failed_again.into_iter().filter(expected));
        }
    }
    if updating {
        for (about, failed) in &found {
            let listed = listed.entry(about.id.to_owned()).or_default();
            listed.extend(failed.iter().cloned());
        }
    }

    let mut wrong = Vec::new();
    for (id, checks) in differences(&found, &listed) {
        wrong.push(format!(
            "{id} should have been failed by {checks:?}, or should not"
        ));
    }
    let seen_to_fail: BTreeSet<&str> = found
        .iter()
        .flat_map(|(_, failed)| failed)
        .map(String::as_str)
        .collect();
    let checks = all_checks();
    let ids = checks.iter().map(|check| check.about.id);
    let never: Vec<&str> = ids.filter(|id| !seen_to_fail.contains(id)).collect();
    // A check that no fault fails may be one that can't fail.
    if !never.is_empty() {
        wrong.push(format!("no broken sink is failed by {never:?}"));
    }
    if updating || wrong.is_empty() {
        keep_up_to_date(&page(), &text(&found, &listed));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The page.
fn text(
    found: &[(About, BTreeSet<String>)],
    listed: &BTreeMap<String, BTreeSet<String>>,
) -> String {
    let mut text = format!(
        "# {} broken sinks, and the checks that fail them\n\n\
         Written by `tests/matrix.rs`. In bold the checks that are there to catch the fault: each of them must. The others may\n\
         notice it too, which for some depends on timing; a check that is not listed must not, unless the machine times its steps.\n\n\
         | | fault | seen in | failed by |\n| --- | --- | --- | --- |\n",
        found.len()
    );
    for (about, _) in found {
        let About {
            id,
            name,
            fault,
            seen,
            caught_by,
            ..
        } = about;
        let mark = |check: &String| match caught_by.contains(&check.as_str()) {
            true => format!("**{check}**"),
            false => check.clone(),
        };
        let checks = listed
            .get(*id)
            .into_iter()
            .flatten()
            .map(mark)
            .collect::<Vec<_>>()
            .join(", ");
        writeln!(text, "| {id} {name} | {fault} | {seen} | {checks} |")
            .expect("text can be written to text");
    }
    text
}
