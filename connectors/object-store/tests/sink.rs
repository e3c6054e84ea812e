//! The sink of staged files: hidden until commit, settled by evidence, swept by epoch.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

use std::fs;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Waker};

use cofferdam::{
    AtomicUnit, CheckpointId, CommitError, Committed, Epoch, ErrorKind, Evidence, Fence, Fencing,
    InDoubt, Isolation, JobId, SinkError, SinkId, Source, SourceEvent, SourceReader, Sweep,
    TransactionId, TwoPhaseCommitSinkFunction, Unfinished,
};
use cofferdam_object_store::{FileSource, StagedFile, StagedFileSink};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Row {
    id: u64,
    note: String,
}

type Sink = StagedFileSink<Row>;

fn rows(count: u64) -> Vec<Row> {
    (0..count)
        .map(|id| Row {
            id,
            note: format!("note \"{id}\",\nmore"),
        })
        .collect()
}

fn id(text: &str) -> TransactionId {
    text.parse().unwrap()
}

fn ids(found: &[InDoubt]) -> Vec<TransactionId> {
    found.iter().filter_map(InDoubt::id).collect()
}

fn fence(epoch: u64, decided: Vec<(TransactionId, StagedFile)>) -> Fence<StagedFile> {
    let (job, sink) = (JobId::new("job").unwrap(), SinkId::new("sink").unwrap());
    let mut fence = Fence::new(job, sink, Epoch(epoch));
    (fence.newest, fence.decided) = (Some(CheckpointId(20)), decided);
    fence
}

struct Output {
    folder: TempDir,
    sink: Arc<Sink>,
}

impl Output {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sink = Arc::new(Sink::json_lines(folder.path()));
        Self { folder, sink }
    }

    fn published(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn staged(&self, name: &str) -> PathBuf {
        self.folder.path().join("_staging").join(name)
    }

    /// What a reader sees.
    fn visible(&self) -> Vec<String> {
        names(self.folder.path())
            .into_iter()
            .filter(|name| !name.starts_with(['_', '.']))
            .collect()
    }

    fn waiting(&self) -> Vec<String> {
        names(&self.folder.path().join("_staging"))
    }

    async fn prepare(&self, id: &TransactionId) -> StagedFile {
        let mut transaction = self.sink.begin(id).await.unwrap();
        self.sink.write(&mut transaction, rows(3)).await.unwrap();
        self.sink.pre_commit(transaction).await.unwrap().unwrap()
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[track_caller]
fn assert_says(error: &SinkError, kind: ErrorKind, parts: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for part in parts {
        assert!(text.contains(part), "{text:?} lacks {part:?}");
    }
}

#[track_caller]
fn not_yet(outcome: Result<Committed, CommitError>) -> SinkError {
    match outcome {
        Err(CommitError::NotYet(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn lost(outcome: Result<Committed, CommitError>) -> String {
    match outcome {
        Err(CommitError::Lost(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_declares_what_it_can_do() {
    let capabilities = Output::new().sink.capabilities();
    assert!(matches!(capabilities.isolation, Isolation::HiddenIf(_)));
    assert_eq!(capabilities.evidence, Evidence::Data);
    assert_eq!(capabilities.fencing, Fencing::Names);
    assert_eq!(capabilities.atomic_unit, AtomicUnit::Subtask);
}

#[tokio::test]
async fn what_is_written_is_read_back_after_commit_and_not_before() {
    for csv in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        // Folders that don't exist yet are created.
        let root = folder.path().join("new").join("out");
        let (sink, extension) = match csv {
            true => (Sink::csv(&root), "csv"),
            false => (Sink::json_lines(&root), "jsonl"),
        };
        let id = id("job/sink/1/2/3");
        let mut transaction = sink.begin(&id).await.unwrap();
        // More than one buffer, in batches.
        let rows = rows(30_000);
        for batch in rows.chunks(1024) {
            sink.write(&mut transaction, batch.to_vec()).await.unwrap();
        }
        let handle = sink.pre_commit(transaction).await.unwrap().unwrap();
        assert_eq!(handle.name, format!("job.sink.1.2.3.{extension}"));
        assert_eq!(handle.records, 30_000);
        assert_eq!(names(&root), ["_staging"]);

        // By another process, from the stored handle alone.
        let stored = serde_json::to_string(&handle).unwrap();
        let handle: StagedFile = serde_json::from_str(&stored).unwrap();
        let other = match csv {
            true => Sink::csv(&root),
            false => Sink::json_lines(&root),
        };
        assert_eq!(other.commit(&id, &handle).await.unwrap(), Committed::Now);
        let bytes = fs::read(root.join(&handle.name)).unwrap();
        assert_eq!(handle.bytes, bytes.len() as u64);
        assert_eq!(handle.crc32, crc32fast::hash(&bytes));

        let source = match csv {
            true => FileSource::<Row>::csv(root),
            false => FileSource::json_lines(root),
        };
        let splits = source
            .splits(&[])
            .await
            .unwrap()
            .into_iter()
            .map(|split| (split, None));
        let mut reader = source.open(splits.collect()).await.unwrap();
        let mut found = Vec::new();
        loop {
            match reader.next().await.unwrap() {
                SourceEvent::Batch(mut batch) => found.append(&mut batch.records),
                SourceEvent::End => break,
                _ => {}
            }
        }
        assert!(found == rows);
    }
}

#[tokio::test]
async fn a_transaction_without_records_leaves_nothing() {
    let output = Output::new();
    let mut transaction = output.sink.begin(&id("job/sink/1/0/1")).await.unwrap();
    output.sink.write(&mut transaction, vec![]).await.unwrap();
    assert_eq!(output.sink.pre_commit(transaction).await.unwrap(), None);
    assert!(output.waiting().is_empty());
    assert!(output.visible().is_empty());
}

#[tokio::test]
async fn committing_twice_is_committing_once() {
    let output = Output::new();
    let id = id("job/sink/1/0/1");
    let handle = output.prepare(&id).await;
    assert_eq!(
        output.sink.commit(&id, &handle).await.unwrap(),
        Committed::Now
    );
    assert_eq!(
        output.sink.commit(&id, &handle).await.unwrap(),
        Committed::Before
    );
    assert_eq!(output.visible(), ["job.sink.1.0.1.jsonl"]);
    assert!(output.waiting().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_commits_at_once_are_one() {
    for round in 0..20 {
        let output = Output::new();
        let id = id(&format!("job/sink/1/0/{round}"));
        let handle = output.prepare(&id).await;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let (sink, id, handle) = (Arc::clone(&output.sink), id.clone(), handle.clone());
            tasks.spawn(async move { sink.commit(&id, &handle).await.unwrap() });
        }
        let outcomes = tasks.join_all().await;
        let now = outcomes
            .iter()
            .filter(|outcome| **outcome == Committed::Now)
            .count();
        assert_eq!((outcomes.len(), now), (8, 1));
        assert_eq!(output.visible(), [handle.name]);
        assert!(output.waiting().is_empty());
    }
}

#[tokio::test]
async fn a_crash_between_link_and_unlink_is_committed() {
    let output = Output::new();
    let id = id("job/sink/1/0/1");
    let handle = output.prepare(&id).await;
    fs::hard_link(output.staged(&handle.name), output.published(&handle.name)).unwrap();
    assert!(output.sink.in_doubt(&id.job).await.unwrap().is_empty());
    assert_eq!(
        output.sink.commit(&id, &handle).await.unwrap(),
        Committed::Before
    );
    assert!(output.waiting().is_empty());

    // Or nobody commits again: the sweep takes the second name away, and undoes nothing.
    fs::hard_link(output.published(&handle.name), output.staged(&handle.name)).unwrap();
    assert_eq!(
        output.sink.abort_stale(&fence(2, vec![])).await.unwrap(),
        []
    );
    assert!(output.waiting().is_empty());
    assert_eq!(output.visible(), [handle.name]);
}

#[tokio::test]
async fn an_aborted_transaction_is_gone() {
    let output = Output::new();
    let open = id("job/sink/1/0/1");
    let mut transaction = output.sink.begin(&open).await.unwrap();
    output.sink.write(&mut transaction, rows(3)).await.unwrap();
    output
        .sink
        .abort(Unfinished::Open(open, transaction))
        .await
        .unwrap();
    assert!(output.waiting().is_empty());

    let prepared = id("job/sink/1/0/2");
    let handle = output.prepare(&prepared).await;
    for _ in 0..2 {
        let unfinished = Unfinished::Prepared(prepared.clone(), handle.clone());
        output.sink.abort(unfinished).await.unwrap();
        assert!(output.waiting().is_empty());
    }
    let text = lost(output.sink.commit(&prepared, &handle).await);
    for part in [
        &handle.name,
        "staged in",
        "published in",
        output.folder.path().to_str().unwrap(),
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn a_committed_transaction_is_not_aborted() {
    let output = Output::new();
    let id = id("job/sink/1/0/1");
    let handle = output.prepare(&id).await;
    assert_eq!(
        output.sink.commit(&id, &handle).await.unwrap(),
        Committed::Now
    );
    let unfinished = Unfinished::Prepared(id, handle.clone());
    let error = output.sink.abort(unfinished).await.unwrap_err();
    assert_says(&error, ErrorKind::Rejected, &["committed", &handle.name]);
    assert_eq!(output.visible(), [handle.name]);
}

#[tokio::test]
async fn a_damaged_file_is_lost_and_never_published() {
    let output = Output::new();
    let id = id("job/sink/1/0/1");
    let handle = output.prepare(&id).await;
    let whole = fs::read(output.staged(&handle.name)).unwrap();
    let mut flipped = whole.clone();
    flipped[4] ^= 1;
    for damaged in [flipped, whole[1..].to_vec(), vec![]] {
        fs::write(output.staged(&handle.name), &damaged).unwrap();
        let text = lost(output.sink.commit(&id, &handle).await);
        for crc in [handle.crc32, crc32fast::hash(&damaged)] {
            assert!(text.contains(&format!("{crc:08x}")), "{text}");
        }
        assert!(output.visible().is_empty());
    }
    // With good published data the damage doesn't matter.
    fs::write(output.published(&handle.name), &whole).unwrap();
    assert_eq!(
        output.sink.commit(&id, &handle).await.unwrap(),
        Committed::Before
    );
}

#[tokio::test]
async fn published_data_is_never_overwritten() {
    let output = Output::new();
    let id = id("job/sink/1/0/1");
    let handle = output.prepare(&id).await;
    fs::write(output.published(&handle.name), "another's").unwrap();
    let text = lost(output.sink.commit(&id, &handle).await);
    for crc in [handle.crc32, crc32fast::hash(b"another's")] {
        assert!(text.contains(&format!("{crc:08x}")), "{text}");
    }
    assert_eq!(
        fs::read(output.published(&handle.name)).unwrap(),
        b"another's"
    );
    assert_eq!(output.waiting(), [handle.name]);
}

#[tokio::test]
async fn a_handle_of_another_transaction_is_refused() {
    let output = Output::new();
    let (one, two) = (id("job/sink/1/0/1"), id("job/sink/1/0/2"));
    let handle = output.prepare(&one).await;
    fs::write(output.published("victim"), "x").unwrap();
    let victim = StagedFile {
        name: "../victim".into(),
        bytes: 1,
        records: 1,
        crc32: crc32fast::hash(b"x"),
    };
    for wrong in [&handle, &victim] {
        let error = not_yet(output.sink.commit(&two, wrong).await);
        assert_says(
            &error,
            ErrorKind::Rejected,
            &[&wrong.name, "job/sink/1/0/2"],
        );
        let unfinished = Unfinished::Prepared(two.clone(), wrong.clone());
        let error = output.sink.abort(unfinished).await.unwrap_err();
        assert_says(&error, ErrorKind::Rejected, &["nothing was touched"]);
    }
    assert_eq!(output.visible(), ["victim"]);
    assert_eq!(output.waiting(), [handle.name]);
}

#[tokio::test]
async fn an_unmounted_folder_is_not_a_loss() {
    let output = Output::new();
    let id = id("job/sink/1/0/1");
    let handle = output.prepare(&id).await;
    let elsewhere = tempfile::tempdir().unwrap();
    for root in [
        elsewhere.path().to_owned(),
        elsewhere.path().join("missing"),
    ] {
        let error = not_yet(Sink::json_lines(&root).commit(&id, &handle).await);
        assert_says(
            &error,
            ErrorKind::Configuration,
            &[root.to_str().unwrap(), "mounted"],
        );
    }
}

#[tokio::test]
async fn the_sweep_takes_what_older_epochs_left_and_nobody_decided() {
    let output = Output::new();
    let mut handles = Vec::new();
    for transaction in [
        "job/sink/1/0/1",
        "job/sink/2/0/2",
        "job/sink/2/1/2",
        "job/sink/3/0/3",
        "job-b/sink/1/0/1",
        "jobs/sink/1/0/1",
        "jo/sink/1/0/1",
        "job/sink2/1/0/1",
        "job/sin/1/0/1",
    ] {
        let transaction = id(transaction);
        let handle = output.prepare(&transaction).await;
        handles.push((transaction, handle));
    }
    let open = output.sink.begin(&id("job/sink/2/2/2")).await.unwrap();
    for foreign in ["notes.txt", "job.sink.1.0.jsonl", "job.sink.01.0.1.jsonl"] {
        fs::write(output.staged(foreign), "").unwrap();
    }
    // A file of this sink in another format is its own as well.
    fs::write(output.staged("job.sink.1.5.1.csv"), "").unwrap();

    let decided = vec![handles[1].clone()];
    // A late sweep, beside the work of its own epoch.
    let mut fence = fence(3, decided);
    fence.sweep = Sweep::Late;
    let undone = output.sink.abort_stale(&fence).await.unwrap();
    let expected = [
        "job/sink/1/0/1",
        "job/sink/1/5/1",
        "job/sink/2/1/2",
        "job/sink/2/2/2",
    ];
    assert_eq!(ids(&undone), expected.map(id));
    let mut left: Vec<_> = [1, 3, 4, 5, 6, 7, 8]
        .map(|at: usize| handles[at].1.name.clone())
        .into();
    left.extend(["notes.txt", "job.sink.1.0.jsonl", "job.sink.01.0.1.jsonl"].map(String::from));
    left.sort();
    assert_eq!(output.waiting(), left);
    assert_eq!(output.sink.abort_stale(&fence).await.unwrap(), []);

    // The older run wakes up: its file is gone.
    let mut open = open;
    output.sink.write(&mut open, rows(1)).await.unwrap();
    let error = output.sink.pre_commit(open).await.unwrap_err();
    assert_says(&error, ErrorKind::Fenced, &["job.sink.2.2.2.jsonl"]);
}

#[tokio::test]
async fn a_newer_epoch_fences_the_sweep() {
    let output = Output::new();
    let old = output.prepare(&id("job/sink/1/0/1")).await;
    let new = output.prepare(&id("job/sink/4/0/2")).await;
    let error = output
        .sink
        .abort_stale(&fence(3, vec![]))
        .await
        .unwrap_err();
    assert_says(&error, ErrorKind::Fenced, &[&new.name, "epoch 4"]);
    assert_eq!(
        output.waiting(),
        [old.name, new.name],
        "nothing was touched"
    );
}

#[tokio::test]
async fn output_of_checkpoints_that_the_store_does_not_know_stops_the_job() {
    let output = Output::new();
    let transaction = id("job/sink/2/0/9");
    let handle = output.prepare(&transaction).await;
    assert_eq!(
        output.sink.commit(&transaction, &handle).await.unwrap(),
        Committed::Now
    );
    // The store is empty, or older than the output; its epochs have risen since, start by refused start.
    for newest in [None, Some(CheckpointId(8))] {
        let mut fence = fence(100, vec![]);
        fence.newest = newest;
        let error = output.sink.abort_stale(&fence).await.unwrap_err();
        let parts = ["newer run than the checkpoint store knows", &handle.name];
        assert_says(&error, ErrorKind::Configuration, &parts);
    }
    let mut fence = fence(100, vec![]);
    fence.newest = Some(CheckpointId(9));
    assert_eq!(output.sink.abort_stale(&fence).await.unwrap(), []);
}

#[tokio::test]
async fn output_of_a_newer_run_stops_the_job() {
    let output = Output::new();
    for (transaction, epoch) in [("job/sink/2/0/1", 2), ("job/sink/5/0/9", 3)] {
        let transaction = id(transaction);
        let handle = output.prepare(&transaction).await;
        assert_eq!(
            output.sink.commit(&transaction, &handle).await.unwrap(),
            Committed::Now
        );
        let error = output
            .sink
            .abort_stale(&fence(epoch, vec![]))
            .await
            .unwrap_err();
        let parts = [&handle.name, "this run has epoch", "checkpoint folder"];
        assert_says(&error, ErrorKind::Fenced, &parts);
        let parts = [
            "newer run than the checkpoint store knows",
            &handle.name,
            "checkpoints",
        ];
        // And even if nobody sweeps, the name is taken.
        let error = output.sink.begin(&transaction).await.unwrap_err();
        assert_says(&error, ErrorKind::Configuration, &parts);
        fs::remove_file(output.published(&handle.name)).unwrap();
    }
    // Output of older runs and of others is what one expects to find.
    for name in [
        "job.sink.2.0.1.jsonl",
        "job2.sink.9.0.1.jsonl",
        "job.sink2.9.0.1.jsonl",
        "x",
    ] {
        fs::write(output.published(name), "").unwrap();
    }
    assert_eq!(
        output.sink.abort_stale(&fence(3, vec![])).await.unwrap(),
        []
    );
}

#[tokio::test]
async fn without_a_folder_nothing_is_stale_or_in_doubt() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::csv(folder.path().join("missing"));
    assert_eq!(sink.abort_stale(&fence(3, vec![])).await.unwrap(), []);
    assert_eq!(
        sink.in_doubt(&JobId::new("job").unwrap()).await.unwrap(),
        []
    );
    assert!(names(folder.path()).is_empty());
}

#[tokio::test]
async fn what_is_in_doubt_is_listed() {
    let output = Output::new();
    let open = id("job/other/1/0/1");
    let _open = output.sink.begin(&open).await.unwrap();
    let prepared = id("job/sink/1/0/1");
    let handle = output.prepare(&prepared).await;
    output.prepare(&id("job-2/sink/1/0/1")).await;
    let committed = id("job/sink/1/0/2");
    let done = output.prepare(&committed).await;
    assert_eq!(
        output.sink.commit(&committed, &done).await.unwrap(),
        Committed::Now
    );

    let found = output.sink.in_doubt(&prepared.job).await.unwrap();
    assert_eq!(ids(&found), [open, prepared]);
    assert_eq!(Path::new(&found[1].location), output.staged(&handle.name));
    assert!(found.iter().all(|doubt| doubt.expires_in.is_none()));
}

#[tokio::test]
async fn a_second_process_under_the_same_epoch_is_fenced() {
    let output = Output::new();
    let id = id("job/sink/1/0/1");
    let handle = output.prepare(&id).await;
    let error = output.sink.begin(&id).await.unwrap_err();
    assert_says(&error, ErrorKind::Fenced, &[&handle.name, "share"]);
    assert_eq!(
        output.sink.commit(&id, &handle).await.unwrap(),
        Committed::Now
    );
}

#[tokio::test]
async fn jobs_that_readers_would_pass_over_are_refused() {
    let error = Output::new()
        .sink
        .begin(&id("_job/sink/1/0/1"))
        .await
        .unwrap_err();
    assert_says(&error, ErrorKind::Configuration, &["_job", "choose"]);
}

#[tokio::test]
async fn a_dropped_transaction_is_left_to_the_sweep() {
    let output = Output::new();
    let id = id("job/sink/1/0/1");
    drop(output.sink.begin(&id).await.unwrap());
    assert_eq!(output.waiting(), ["job.sink.1.0.1.jsonl"]);
    assert_eq!(
        ids(&output.sink.abort_stale(&fence(2, vec![])).await.unwrap()),
        [id]
    );
}

#[test]
fn a_write_that_is_cut_off_makes_the_transaction_useless() {
    // The only thread for file work is held, so that the write has to wait when its future is dropped.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime
        .max_blocking_threads(1)
        .build()
        .unwrap()
        .block_on(async {
            let output = Output::new();
            let mut transaction = output.sink.begin(&id("job/sink/1/0/1")).await.unwrap();
            let (release, held) = std::sync::mpsc::channel();
            let holder = tokio::task::spawn_blocking(move || held.recv());
            {
                let write = pin!(output.sink.write(&mut transaction, rows(20_000)));
                assert!(
                    write
                        .poll(&mut Context::from_waker(Waker::noop()))
                        .is_pending()
                );
            }
            release.send(()).unwrap();
            holder.await.unwrap().unwrap();

            let error = output
                .sink
                .write(&mut transaction, rows(1))
                .await
                .unwrap_err();
            assert_says(&error, ErrorKind::Unknown, &["cut off"]);
            assert!(output.sink.pre_commit(transaction).await.is_err());
            assert!(output.waiting().is_empty());
        });
}

#[derive(Serialize)]
struct Nested {
    id: u32,
    parts: Option<Vec<Vec<u32>>>,
}

#[tokio::test]
async fn a_record_without_text_is_named_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let sink =
        StagedFileSink::<std::collections::BTreeMap<(u8, u8), u8>>::json_lines(folder.path());
    let json = id("job/sink/1/0/1");
    let mut transaction = sink.begin(&json).await.unwrap();
    sink.write(&mut transaction, vec![Default::default()])
        .await
        .unwrap();
    let error = sink
        .write(
            &mut transaction,
            vec![Default::default(), [((1, 2), 3)].into()],
        )
        .await
        .unwrap_err();
    assert_says(&error, ErrorKind::Rejected, &["record 3 of job/sink/1/0/1"]);
    assert!(
        sink.pre_commit(transaction).await.is_err(),
        "it is not prepared without the record"
    );

    let sink = StagedFileSink::csv(folder.path());
    let csv = id("job/sink/1/0/2");
    let mut transaction = sink.begin(&csv).await.unwrap();
    let parts = Some(vec![vec![1], vec![2]]);
    let error = sink
        .write(&mut transaction, vec![Nested { id: 1, parts }])
        .await
        .unwrap_err();
    assert_says(&error, ErrorKind::Rejected, &["record 1 of job/sink/1/0/2"]);
    sink.abort(Unfinished::Open(csv, transaction))
        .await
        .unwrap();
    assert!(names(&folder.path().join("_staging")).is_empty());
}

#[tokio::test]
async fn a_file_where_a_folder_should_be_is_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let taken = folder.path().join("out");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("_staging"), "").unwrap();
    for root in [file.clone(), file.join("below"), taken] {
        let sink = Sink::json_lines(&root);
        let id = id("job/sink/1/0/1");
        let error = sink.begin(&id).await.unwrap_err();
        let parts = [root.to_str().unwrap(), "check the path"];
        assert_says(&error, ErrorKind::Configuration, &parts);
        let handle = StagedFile {
            name: "job.sink.1.0.1.jsonl".into(),
            bytes: 0,
            records: 0,
            crc32: 0,
        };
        assert_says(
            &not_yet(sink.commit(&id, &handle).await),
            ErrorKind::Configuration,
            &parts,
        );
    }
}

const CHILD: &str = "COFFERDAM_TEST_CHILD";

/// Runs one test of this binary again in a process with less rights.
fn again(test: &str, folder: &Path, command: &mut Command) {
    let output = command
        .args(["--exact", test])
        .env(CHILD, folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{output:?}"
    );
}

/// A limit on the size of files stands for a full disk: both refuse the write.
#[cfg(unix)]
#[tokio::test]
async fn a_disk_that_refuses_a_write_is_configuration() {
    if let Some(folder) = std::env::var_os(CHILD) {
        let sink = Sink::json_lines(&folder);
        for (id, count) in [("job/sink/1/0/1", 20_000), ("job/sink/1/0/2", 4_000)] {
            let id: TransactionId = id.parse().unwrap();
            let mut transaction = sink.begin(&id).await.unwrap();
            // The larger is refused while it is written, the smaller when its only buffer is flushed.
            let error = match sink.write(&mut transaction, rows(count)).await {
                Err(error) => {
                    assert_eq!(count, 20_000);
                    sink.abort(Unfinished::Open(id, transaction)).await.unwrap();
                    error
                }
                Ok(()) => {
                    assert_eq!(count, 4_000);
                    sink.pre_commit(transaction).await.unwrap_err()
                }
            };
            let parts = [folder.to_str().unwrap(), "free space", "quota"];
            assert_says(&error, ErrorKind::Configuration, &parts);
            assert!(std::error::Error::source(&error).is_some());
            assert!(names(&Path::new(&folder).join("_staging")).is_empty());
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let limited = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
    let binary = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", limited]).arg(binary);
    again(
        "a_disk_that_refuses_a_write_is_configuration",
        folder.path(),
        &mut command,
    );
}

/// The super user may write everywhere, so the test runs itself again as nobody.
#[cfg(unix)]
#[tokio::test]
async fn a_folder_without_the_right_to_write_is_configuration() {
    use std::os::unix::fs::PermissionsExt;

    let handle = StagedFile {
        name: "job.sink.1.0.1.jsonl".into(),
        bytes: 1,
        records: 1,
        crc32: crc32fast::hash(b"x"),
    };
    let id = id("job/sink/1/0/1");
    if let Some(folder) = std::env::var_os(CHILD) {
        let root = Path::new(&folder).join("out");
        let parts = [root.to_str().unwrap(), "right"];
        let new = "job/sink/1/0/2".parse().unwrap();
        let error = Sink::json_lines(&root).begin(&new).await.unwrap_err();
        assert_says(&error, ErrorKind::Configuration, &parts);
        let error = Sink::json_lines(root.join("new"))
            .begin(&new)
            .await
            .unwrap_err();
        assert_says(&error, ErrorKind::Configuration, &parts);
        let error = not_yet(Sink::json_lines(&root).commit(&id, &handle).await);
        assert_says(&error, ErrorKind::Configuration, &parts);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let staging = folder.path().join("out/_staging");
    fs::create_dir_all(&staging).unwrap();
    fs::write(staging.join(&handle.name), "x").unwrap();
    for path in [folder.path(), &folder.path().join("out"), &staging] {
        fs::set_permissions(path, PermissionsExt::from_mode(0o555)).unwrap();
    }
    // Where nobody can reach it.
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let binary = place.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    let mut command = if fs::write(staging.join("probe"), "").is_ok() {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .arg(binary);
        command
    } else {
        Command::new(binary)
    };
    again(
        "a_folder_without_the_right_to_write_is_configuration",
        folder.path(),
        &mut command,
    );
    // So that it can be cleaned up.
    for path in [folder.path(), &folder.path().join("out"), &staging] {
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
}
