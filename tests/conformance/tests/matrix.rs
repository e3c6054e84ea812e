//! Proves the suite: each broken sink is failed by the checks that are there to catch it, and by no surprise.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cofferdam_conformance::mutants::{About, Bug, MutantFactory, Visitor, visit_all};
use cofferdam_conformance::{Report, all_checks, for_each_mutant, keep_up_to_date, run_all};
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

/// How many suites run at once: much of their time is spent waiting.
const AT_ONCE: usize = 6;

/// Runs the suite on each broken sink.
struct Matrix {
    running: JoinSet<(About, Report)>,
    room: Arc<Semaphore>,
}

impl Visitor for Matrix {
    fn visit<B: Bug>(&mut self) {
        let room = Arc::clone(&self.room);
        // Starting processes takes long, so only those are killed whose fault shows in that way alone.
        let killed = B::ABOUT
            .caught_by
            .iter()
            .any(|check| BY_KILLING.contains(check));
        let child = killed.then(|| &*format!("children::{}", B::ABOUT.name).leak());
        self.running.spawn(async move {
            let _room = room.acquire_owned().await.expect("it is never closed");
            (B::ABOUT, run_all::<MutantFactory<B>>(child).await)
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_broken_sink_is_failed_by_the_checks_that_should_and_by_no_surprise() {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let running = JoinSet::new();
    let mut matrix = Matrix { running, room };
    visit_all(&mut matrix);
    let mut reports = matrix.running.join_all().await;
    reports.sort_by_key(|(about, _)| number(about.id));

    let known = known();
    let updating = std::env::var_os("COFFERDAM_UPDATE").is_some();
    let mut text = format!(
        "# {} broken sinks, and the checks that fail them\n\n\
         Written by `tests/matrix.rs`. In bold the checks that are there to catch the fault: each of them must. The others may \n\
         notice it too, which for some depends on timing; a check that is not listed must not.\n\n\
         | | fault | seen in | failed by |\n| --- | --- | --- | --- |\n",
        reports.len()
    );
    let mut wrong = Vec::new();
    let mut seen_to_fail = BTreeSet::new();
    for (about, report) in &reports {
        let About {
            id,
            name,
            fault,
            seen,
            caught_by,
            ..
        } = about;
        let failed: BTreeSet<String> = report.failed().into_iter().map(str::to_owned).collect();
        let missed = caught_by.iter().filter(|check| !failed.contains(**check));
        wrong.extend(missed.map(|check| format!("{id} {name} is not failed by {check}")));
        let mut listed = known.get(*id).cloned().unwrap_or_default();
        if updating {
            listed.extend(failed.iter().cloned());
        }
        let surprises = failed.difference(&listed);
        wrong
            .extend(surprises.map(|check| format!("{id} {name} is failed by {check}: a surprise")));
        let mark = |check: &String| match caught_by.contains(&check.as_str()) {
            true => format!("**{check}**"),
            false => check.clone(),
        };
        let cell = listed.iter().map(mark).collect::<Vec<_>>().join(", ");
        writeln!(text, "| {id} {name} | {fault} | {seen} | {cell} |")
            .expect("text can be written to text");
        seen_to_fail.extend(failed);
    }
    let checks = all_checks();
    let ids = checks.iter().map(|check| check.about.id);
    let never: Vec<&str> = ids.filter(|id| !seen_to_fail.contains(*id)).collect();
    // A check that no fault fails may be one that can't fail.
    if !never.is_empty() {
        wrong.push(format!("no broken sink is failed by {never:?}"));
    }
    if updating || wrong.is_empty() {
        keep_up_to_date(&page(), &text);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
