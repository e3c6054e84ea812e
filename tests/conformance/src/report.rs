//! What a run of the suite found, as text and as JSON.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::factory::Reality;

/// What came of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The sink keeps this part of the contract.
    Passed,
    /// Not tried, for a declared reason. Not a pass.
    Skipped(String),
    /// The sink does not keep this part of the contract; how it was seen.
    Failed(String),
}

/// One check, with what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The short name of the check.
    pub id: String,
    /// The claim.
    pub name: String,
    /// What came of it.
    pub verdict: Verdict,
}

/// What a run of the suite on one sink found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The sink.
    pub sink: String,
    /// How much of the outside system was real.
    pub reality: Reality,
    /// What the sink declares, by field.
    pub capabilities: Vec<(String, String)>,
    /// All checks, in the order of the suite.
    pub results: Vec<CheckResult>,
}

impl Report {
    /// The ids of the checks that failed.
    pub fn failed(&self) -> Vec<&str> {
        let failed = |result: &&CheckResult| matches!(result.verdict, Verdict::Failed(_));
        let results = self.results.iter().filter(failed);
        results.map(|result| result.id.as_str()).collect()
    }

    /// How many checks passed, were skipped, and failed.
    pub fn counts(&self) -> (usize, usize, usize) {
        count(&self.results)
    }

    /// The counts of one group of checks, by the letters of its ids.
    pub fn counts_of(&self, group: &str) -> (usize, usize, usize) {
        let ours = |result: &&CheckResult| result.id.split('-').next() == Some(group);
        count(self.results.iter().filter(ours))
    }

    /// The report as JSON, for programs; the same for the same results.
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("text, numbers and lists are JSON");
        json + "\n"
    }
}

fn count<'a>(results: impl IntoIterator<Item = &'a CheckResult>) -> (usize, usize, usize) {
    let (mut passed, mut skipped, mut failed) = (0, 0, 0);
    for result in results {
        match result.verdict {
            Verdict::Passed => passed += 1,
            Verdict::Skipped(_) => skipped += 1,
            Verdict::Failed(_) => failed += 1,
        }
    }
    (passed, skipped, failed)
}

/// One line a check; below a failed one, what was seen.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passed, skipped, failed) = self.counts();
        writeln!(f, "{} ({:?})", self.sink, self.reality)?;
        for (field, value) in &self.capabilities {
            writeln!(f, "  declares {field}: {value}")?;
        }
        for CheckResult { id, name, verdict } in &self.results {
            match verdict {
                Verdict::Passed => writeln!(f, "  passed   {id:6} {name}")?,
                Verdict::Skipped(reason) => writeln!(f, "  skipped  {id:6} {name}: {reason}")?,
                Verdict::Failed(what) => {
                    writeln!(f, "  FAILED   {id:6} {name}")?;
                    for line in what.lines() {
                        writeln!(f, "             {line}")?;
                    }
                }
            }
        }
        writeln!(f, "{passed} passed, {skipped} skipped, {failed} failed")
    }
}
