//! What is generated from the checks and from the reports is up to date.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use cofferdam_conformance::{GROUPS, NAMES, Need, Report, all_checks, keep_up_to_date};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn each_check_has_a_test_of_its_name_and_an_id_of_its_own() {
    let checks = all_checks();
    let names: Vec<&str> = checks.iter().map(|check| check.about.name).collect();
    assert_eq!(names, NAMES);
    let ids: BTreeSet<&str> = checks.iter().map(|check| check.about.id).collect();
    assert_eq!(ids.len(), checks.len());
}

/// A claim as a sentence.
fn sentence(name: &str) -> String {
    let text = name.replace('_', " ");
    let (first, rest) = text.split_at(1);
    first.to_uppercase() + rest
}

fn needs(needs: &[Need]) -> String {
    let texts: Vec<String> = needs.iter().map(ToString::to_string).collect();
    if texts.is_empty() {
        return "nothing".to_owned();
    }
    texts.join("; ")
}

#[test]
fn the_page_of_checks_is_up_to_date() {
    let checks = all_checks();
    let mut page = format!(
        "# The {} checks of the conformance suite\n\n\
         Generated from the checks. A check that needs what a sink declares absent, or what its observer does not offer, is\n\
         skipped, and the report says why.\n",
        checks.len()
    );
    for (group, title) in GROUPS {
        write!(page, "\n## {title}\n").expect("text can be written to text");
        for check in checks
            .iter()
            .filter(|check| check.about.id.starts_with(group))
        {
            let about = check.about;
            write!(
                page,
                "\n**{}: {}.** {}\n*Needs {}.*\n",
                about.id,
                sentence(about.name),
                about.how,
                needs(about.needs)
            )
            .expect("text can be written to text");
        }
    }
    keep_up_to_date(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("CHECKS.md"),
        &page,
    );
}

/// The reports that stand in the README, in its order.
const REPORTS: &[&str] = &[
    "connectors/kafka/tests/conformance/report.json",
    "connectors/object-store/tests/conformance.json",
    "examples/reports/sqlite.json",
    "examples/reports/journal.json",
    "tests/conformance/reports/memory.json",
];

fn reports() -> Vec<Report> {
    let read = |path: &&str| {
        let text = std::fs::read_to_string(root().join(path)).expect("a report is kept there");
        serde_json::from_str(&text).expect("a report is JSON")
    };
    REPORTS.iter().map(read).collect()
}

#[test]
fn no_report_has_a_failure_and_each_has_all_checks() {
    for report in reports() {
        assert_eq!(report.failed(), Vec::<&str>::new(), "{}", report.sink);
        let names: Vec<&str> = report
            .results
            .iter()
            .map(|result| result.name.as_str())
            .collect();
        assert_eq!(names, NAMES, "{}", report.sink);
    }
}

fn row(table: &mut String, cells: impl IntoIterator<Item = String>) {
    let cells: Vec<String> = cells.into_iter().collect();
    writeln!(table, "| {} |", cells.join(" | ")).expect("text can be written to text");
}

fn guarantees(reports: &[Report]) -> String {
    let mut table = String::new();
    let line = |name: &str, cell: &dyn Fn(&Report) -> String| -> Vec<String> {
        std::iter::once(name.to_owned())
            .chain(reports.iter().map(cell))
            .collect()
    };
    row(&mut table, line("", &|report| report.sink.clone()));
    row(&mut table, line("---", &|_| "---".to_owned()));
    row(
        &mut table,
        line("outside system", &|report| {
            format!("{:?}", report.reality).to_lowercase()
        }),
    );
    for (field, title) in [
        ("isolation", "visible"),
        ("atomic_unit", "atomic"),
        ("resume", "resumed by"),
        ("evidence", "evidence"),
        ("expiry", "prepared expires"),
    ] {
        let value = |report: &Report| {
            let value = report.capabilities.iter().find(|(name, _)| name == field);
            in_words(&value.expect("reports have all fields").1)
        };
        row(&mut table, line(title, &value));
    }
    for (group, title) in GROUPS {
        row(
            &mut table,
            line(&format!("{title} ({group})"), &|report| {
                counts(report.counts_of(group))
            }),
        );
    }
    row(&mut table, line("all", &|report| counts(report.counts())));
    table
}

/// A declared value, for people.
fn in_words(value: &str) -> String {
    if let Some(setting) = value.strip_prefix("HiddenIf(\"") {
        return format!(
            "after commit, if readers {}",
            setting.trim_end_matches("\")")
        );
    }
    let known = match value {
        "Hidden" => "after commit",
        "Subtask" => "what a subtask wrote for a checkpoint",
        "Partition" => "what a subtask wrote for a checkpoint into one partition",
        "AnyProcess" => "any process with the handle",
        "Data" => "the data itself",
        "Ledger" => "a ledger",
        "None" => "never",
        other => other.trim_start_matches("Some(").trim_end_matches(')'),
    };
    known.to_owned()
}

fn counts((passed, skipped, failed): (usize, usize, usize)) -> String {
    let mut text = format!("{passed} passed");
    if skipped > 0 {
        write!(text, ", {skipped} skipped").expect("text can be written to text");
    }
    if failed > 0 {
        write!(text, ", **{failed} failed**").expect("text can be written to text");
    }
    text
}

#[test]
fn the_guarantees_in_the_readme_are_those_of_the_reports() {
    const BEGIN: &str = "<!-- from the reports of the conformance suite -->\n";
    const END: &str = "<!-- end -->";
    let readme = root().join("README.md");
    let text = std::fs::read_to_string(&readme).expect("there is a README");
    let (before, rest) = text
        .split_once(BEGIN)
        .expect("the README has a place for the table");
    let (_, after) = rest.split_once(END).expect("the place has an end");
    keep_up_to_date(
        &readme,
        &format!("{before}{BEGIN}{}{END}{after}", guarantees(&reports())),
    );
}
