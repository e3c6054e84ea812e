//! Runs checks, one or all.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use cofferdam::Capabilities;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::OnceCell;

use crate::check::{About, Check, Need, Stop};
use crate::checks;
use crate::factory::Factory;
use crate::report::{CheckResult, Report, Verdict};
use crate::subject::SetUp;
use crate::trial::Trial;

/// All checks, in the order in which they are reported.
pub fn all_checks() -> Vec<Check> {
    checks::all()
}

/// Runs all checks, one after the other.
///
/// `child_test` is the name of a test of the running executable that calls [`child_process`](crate::child_process): the checks that kill a
/// process run it again and again. Without it they are skipped.
pub async fn run_all<F: Factory>(child_test: Option<&'static str>) -> Report {
    run_some::<F>(child_test, |_| true).await
}

/// Runs those checks that are wanted, as [`run_all`] does.
pub async fn run_some<F: Factory>(
    child_test: Option<&'static str>,
    wanted: impl Fn(&About) -> bool,
) -> Report {
    let mut results = Vec::new();
    for check in all_checks()
        .into_iter()
        .filter(|check| wanted(&check.about))
    {
        results.push(run(&check, SetUp::of::<F>(), child_test).await);
    }
    report::<F>(results).await
}

async fn report<F: Factory>(results: Vec<CheckResult>) -> Report {
    let factory = F::default();
    let capabilities = match Trial::begin(SetUp::of::<F>(), None).await {
        Ok(trial) => fields(&trial.capabilities),
        // The checks tell what is wrong.
        Err(_) => Vec::new(),
    };
    Report {
        sink: factory.name(),
        reality: factory.reality(),
        capabilities,
        results,
    }
}

fn fields(capabilities: &Capabilities) -> Vec<(String, String)> {
    let Capabilities {
        resume,
        isolation,
        atomic_unit,
        evidence,
        fencing,
        lists_in_doubt,
        refuses_older_state,
        expiry,
        max_prepared,
        ordered,
        ..
    } = capabilities;
    [
        ("resume", format!("{resume:?}")),
        ("isolation", format!("{isolation:?}")),
        ("atomic_unit", format!("{atomic_unit:?}")),
        ("evidence", format!("{evidence:?}")),
        ("fencing", format!("{fencing:?}")),
        ("lists_in_doubt", format!("{lists_in_doubt:?}")),
        ("refuses_older_state", format!("{refuses_older_state:?}")),
        ("expiry", format!("{expiry:?}")),
        ("max_prepared", format!("{max_prepared:?}")),
        ("ordered", format!("{ordered:?}")),
    ]
    .map(|(field, value)| (field.to_owned(), value))
    .into()
}

/// Runs one check, in a place of its own.
pub(crate) async fn run(
    check: &Check,
    set_up: SetUp,
    child_test: Option<&'static str>,
) -> CheckResult {
    let verdict = match attempt(check, set_up, child_test).await {
        Ok(()) => Verdict::Passed,
        Err(Stop::Unsupported(reason)) => Verdict::Skipped(reason),
        Err(Stop::Failed(what)) => Verdict::Failed(what),
    };
    CheckResult {
        id: check.about.id.to_owned(),
        name: check.about.name.to_owned(),
        verdict,
    }
}

async fn attempt(
    check: &Check,
    set_up: SetUp,
    child_test: Option<&'static str>,
) -> Result<(), Stop> {
    let About { needs, .. } = check.about;
    let trial = Arc::new(Trial::begin(set_up, child_test).await?);
    if let Some(reason) = needs
        .iter()
        .find_map(|need| need.unmet(&trial.capabilities))
    {
        return Err(Stop::Unsupported(reason));
    }
    let limit = trial.site.call_limit() * 20 + Duration::from_secs(20);
    // A task of its own, so that a panic is the check's failure and not the end of the suite.
    let mut running = tokio::spawn((check.run)(Arc::clone(&trial)));
    let ended = match tokio::time::timeout(limit, &mut running).await {
        Ok(Ok(ended)) => ended,
        Ok(Err(panic)) => Err(Stop::failed(format!("a panic: {panic}"))),
        Err(_) => {
            running.abort();
            Err(Stop::failed(format!(
                "the check did not end within {limit:?}"
            )))
        }
    };
    match ended {
        Err(Stop::Unsupported(reason)) if needs.contains(&Need::Part) => {
            return Err(Stop::Unsupported(reason));
        }
        // A part that answers "unsupported" must not hide that a check went wrong: only what a check asks for may skip it.
        Err(Stop::Unsupported(reason)) => {
            return Err(Stop::failed(format!(
                "skipped without a declared need: {reason}"
            )));
        }
        Err(Stop::Failed(what)) => {
            // What the history shows may be the better explanation; both are told.
            let seen = match trial.verdict().await {
                Err(Stop::Failed(seen)) => format!("\n{seen}"),
                _ => format!("\n{}", trial.site.history()),
            };
            return Err(Stop::Failed(what + &seen));
        }
        Ok(()) => {}
    }
    trial.verdict().await
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let built = builder.worker_threads(2).enable_all().build();
    built.expect("a runtime needs threads and sockets, which a test may have")
}

/// The results of one suite, shared by the tests of an executable. Made by
/// [`conformance_tests`](crate::conformance_tests).
#[derive(Debug)]
pub struct Results {
    cells: LazyLock<Vec<OnceCell<CheckResult>>>,
}

impl Results {
    /// No results yet.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "a static needs a const function"
    )]
    pub const fn new() -> Self {
        Self {
            cells: LazyLock::new(|| crate::NAMES.iter().map(|_| OnceCell::new()).collect()),
        }
    }

    /// The result at a place in the list of checks; it is run if nobody has.
    async fn get<F: Factory>(&self, at: usize, child_test: &'static str) -> &CheckResult {
        let run =
            || async move { run(&all_checks()[at], SetUp::of::<F>(), Some(child_test)).await };
        self.cells[at].get_or_init(run).await
    }

    /// Runs the check of a name, as a test.
    ///
    /// # Panics
    /// If the sink fails it.
    pub fn test<F: Factory>(&self, name: &str, child_test: &'static str) {
        let at = crate::NAMES.iter().position(|known| *known == name);
        let at = at.expect("the macro that makes the tests knows the names");
        let result = runtime().block_on(self.get::<F>(at, child_test));
        match &result.verdict {
            Verdict::Passed => {}
            Verdict::Skipped(reason) => println!("skipped: {reason}"),
            Verdict::Failed(what) => panic!("{} {}: {what}", result.id, result.name),
        }
    }

    /// Waits for all checks, prints the report, and compares it with the one that is kept in a file, as
    /// [`keep_up_to_date`] does: the first run writes the file.
    ///
    /// # Panics
    /// If they differ. With `COFFERDAM_UPDATE=1` in the environment the file is written instead.
    pub fn report<F: Factory>(&self, child_test: &'static str, file: &Path) {
        let made = runtime().block_on(async {
            let mut results = Vec::new();
            for at in 0..crate::NAMES.len() {
                results.push(self.get::<F>(at, child_test).await.clone());
            }
            report::<F>(results).await
        });
        println!("{made}");
        keep_up_to_date(file, &made.to_json());
    }
}

/// Compares a generated text with the file that it is kept in. If there is no such file yet, the text is written, and a line
/// on standard error names it.
///
/// # Panics
/// If they differ, or the file can't be read or written. With `COFFERDAM_UPDATE=1` in the environment the file is written instead.
pub fn keep_up_to_date(file: &Path, text: &str) {
    let updating = std::env::var_os("COFFERDAM_UPDATE").is_some();
    if let Some(line) = keep(file, text, updating) {
        // Past the capture of the test harness, which shows nothing of a test that passes.
        let _not_shown = writeln!(std::io::stderr(), "{line}");
    }
}

/// Does the work of [`keep_up_to_date`], and returns the line to print if the file was not there.
fn keep(file: &Path, text: &str, updating: bool) -> Option<String> {
    let kept = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        kept => Some(kept.unwrap_or_else(|error| panic!("can't read {}: {error}", file.display()))),
    };
    if !updating && let Some(kept) = &kept {
        assert!(
            kept == text,
            "{} is out of date: run this test again with COFFERDAM_UPDATE=1, and look at what has changed",
            file.display()
        );
        return None;
    }
    let folder = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = folder.and_then(|()| std::fs::write(file, text));
    written.unwrap_or_else(|error| panic!("can't write {}: {error}", file.display()));
    kept.is_none().then(|| {
        format!(
            "{} did not exist, and was written: keep it with the code",
            file.display()
        )
    })
}

/// The name of a test of the running executable, from the path of its module.
#[must_use]
pub fn test_in(module_path: &'static str) -> &'static str {
    // Test names don't have the name of the crate.
    module_path.split_once("::").map_or("", |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_run_writes_the_file_and_names_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("reports/sink.json");
        let kept = || std::fs::read_to_string(&file).expect("a report");
        let line = keep(&file, "first", false).expect("a line");
        assert!(line.contains(&file.display().to_string()), "{line}");
        assert_eq!(kept(), "first");
        assert_eq!(keep(&file, "first", false), None);
        let compared = std::panic::catch_unwind(|| keep(&file, "second", false));
        let message = compared.expect_err("they differ");
        let message = message.downcast_ref::<String>().expect("a text");
        assert!(message.contains("COFFERDAM_UPDATE=1"), "{message}");
        assert_eq!(kept(), "first");
        assert_eq!(keep(&file, "second", true), None);
        assert_eq!(kept(), "second");
    }

    #[test]
    fn a_report_has_every_capability() {
        let all = format!("{:#?}", Capabilities::TRANSACTIONAL);
        for line in all.lines().filter(|line| line.starts_with("    ")) {
            let Some((field, _)) = line.trim().split_once(": ") else {
                continue;
            };
            let told = fields(&Capabilities::TRANSACTIONAL);
            assert!(told.iter().any(|(name, _)| name == field), "{field}");
        }
    }
}
