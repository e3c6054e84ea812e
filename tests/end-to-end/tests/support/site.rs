//! A place where a job runs: input, output and checkpoints, with what must come out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use super::data::{self, Files, Format};
use super::log::{Log, names};
use super::model::{self, Lines, Variant};
use super::victim::{End, Victim};

/// A job with its folders.
#[derive(Debug)]
pub struct Site {
    root: TempDir,
    pub variant: Variant,
    pub format: Format,
    pub inputs: Vec<PathBuf>,
    pub output: PathBuf,
    pub checkpoints: PathBuf,
    pub expected: Lines,
    starts: AtomicU32,
}

/// How the job is started.
#[derive(Debug, Clone)]
pub struct Start {
    pub job: &'static str,
    pub parallelism: u32,
    pub interval: u64,
    pub retained: usize,
    pub batch_delay: u64,
    pub decision_delay: u64,
    pub crash_at: Option<String>,
    pub skip_malformed: bool,
    /// A program, with arguments, that runs the victim.
    pub under: Vec<String>,
    /// The victim itself, or a copy.
    pub program: PathBuf,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            job: "readings",
            parallelism: 1,
            interval: 20,
            retained: 3,
            batch_delay: 0,
            decision_delay: 0,
            crash_at: None,
            skip_malformed: false,
            under: Vec::new(),
            program: env!("CARGO_BIN_EXE_victim").into(),
        }
    }
}

impl Site {
    pub fn new(files: &Files, format: Format, variant: Variant) -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let inputs = data::write(&root.path().join("input"), files, format);
        Self {
            inputs,
            output: root.path().join("output"),
            checkpoints: root.path().join("checkpoints"),
            expected: model::expected(files, variant),
            starts: AtomicU32::new(0),
            root,
            variant,
            format,
        }
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn spawn(&self, start: &Start) -> Victim {
        let number = self.starts.fetch_add(1, Ordering::SeqCst);
        let file = |kind: &str| self.root().join(format!("{kind}.{number}"));
        let mut command = match start.under.split_first() {
            None => Command::new(&start.program),
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(&start.program);
                command
            }
        };
        for input in &self.inputs {
            command.arg("--input").arg(input);
        }
        let format = match self.format {
            Format::Csv => "csv",
            Format::JsonLines => "jsonl",
        };
        command.arg("--output").arg(&self.output);
        command.arg("--checkpoints").arg(&self.checkpoints);
        command.args(["--job", start.job, "--format", format]);
        command.args(["--variant", self.variant.name()]);
        for (name, value) in [
            ("--parallelism", u64::from(start.parallelism)),
            ("--interval", start.interval),
            ("--retained", start.retained as u64),
            ("--batch-delay", start.batch_delay),
            ("--decision-delay", start.decision_delay),
        ] {
            command.arg(name).arg(value.to_string());
        }
        if let Some(point) = &start.crash_at {
            command.args(["--crash-at", point]);
        }
        if start.skip_malformed {
            command.arg("--skip-malformed");
        }
        // A user without rights can't write a trace.
        if start.under.is_empty() {
            command.arg("--trace").arg(file("trace"));
        }
        Victim::spawn(command, file("stdout"), file("stderr"), file("trace"))
    }

    pub fn run(&self, start: &Start) -> End {
        self.spawn(start).wait()
    }

    pub fn log(&self) -> Log {
        Log::read(&self.checkpoints)
    }

    /// All lines that a reader sees, sorted.
    pub fn lines(&self) -> Lines {
        let lines = |folder: &str| {
            let mut lines = Vec::new();
            for (_, text) in visible(&self.output.join(folder)) {
                lines.extend(text.lines().map(str::to_owned));
            }
            lines.sort();
            lines
        };
        Lines {
            results: lines("results"),
            late: lines("late"),
        }
    }

    /// Exactly what must come out is visible, and nothing is left over.
    pub fn assert_exact(&self, what: &str) {
        self.assert_exact_to_readers(what);
        self.assert_nothing_staged(what);
    }

    /// Exactly what must come out is visible.
    pub fn assert_exact_to_readers(&self, what: &str) {
        self.lines().assert_equal(&self.expected, what);
    }

    pub fn assert_nothing_staged(&self, what: &str) {
        for folder in ["results", "late"] {
            let staged = names(&self.output.join(folder).join("_staging"));
            assert!(staged.is_empty(), "{what}: left over: {staged:?}");
        }
    }

    /// What is visible is part of what must come out: no line doubled, none made up.
    pub fn assert_nothing_doubled(&self, what: &str) {
        self.lines().assert_within(&self.expected, what);
    }

    /// The checkpoint folder holds what retention allows, and no state but what its decisions name.
    pub fn assert_retention(&self, what: &str, decisions: usize) {
        let log = self.log();
        let found = log.decisions.len();
        assert!(found <= decisions, "{what}: {found} decisions: {log:?}");
        assert!(log.takeovers <= 1, "{what}: {log:?}");
        for part in names(&self.checkpoints.join("state")) {
            let name = part.file_name().expect("a name").to_str().expect("text");
            let named = log.state.contains(&format!("state/{name}"));
            assert!(named, "{what}: {part:?} is named by no decision");
        }
        let aside = names(&self.checkpoints.join(".aside"));
        assert!(aside.is_empty(), "{what}: {aside:?}");
    }

    /// Everything that readers and recovery see, byte by byte.
    pub fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut contents = BTreeMap::new();
        for folder in [
            self.output.join("results"),
            self.output.join("late"),
            self.checkpoints.join("log"),
        ] {
            for path in names(&folder).into_iter().filter(|path| path.is_file()) {
                let bytes = fs::read(&path).expect("a file");
                contents.insert(path, bytes);
            }
        }
        contents
    }
}

/// The files that a reader sees in an output folder, read completely.
pub fn visible(folder: &Path) -> Vec<(PathBuf, String)> {
    let shown = |path: &PathBuf| {
        let name = path.file_name().expect("a name").as_encoded_bytes();
        !name.starts_with(b"_") && !name.starts_with(b".")
    };
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path);
        // Published files never vanish: not even between listing and reading.
        let text = text.unwrap_or_else(|error| panic!("{path:?} can't be read: {error}"));
        (path, text)
    };
    names(folder).into_iter().filter(shown).map(read).collect()
}
