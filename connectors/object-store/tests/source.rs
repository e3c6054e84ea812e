//! The file source: exact positions, compression, errors that name the place, cancel safety.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

use std::fs;
use std::future::Future;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::task::{Context, Waker};

use cofferdam::{ErrorKind, Source, SourceError, SourceEvent, SourceReader, SplitId};
use cofferdam_object_store::{FilePosition, FileSource, OnMalformed};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Row {
    id: u64,
    note: String,
}

type Event<T> = SourceEvent<T, FilePosition>;

async fn open_at<T: DeserializeOwned + Send + 'static>(
    source: &FileSource<T>,
    splits: Vec<(SplitId, Option<FilePosition>)>,
) -> Result<Vec<Event<T>>, SourceError> {
    let mut reader = source.open(splits).await?;
    let mut events = Vec::new();
    loop {
        match reader.next().await? {
            SourceEvent::End => break,
            event => events.push(event),
        }
    }
    assert!(
        matches!(reader.next().await?, SourceEvent::End),
        "the end stays the end"
    );
    Ok(events)
}

async fn read<T: DeserializeOwned + Send + 'static>(
    source: &FileSource<T>,
) -> Result<Vec<Event<T>>, SourceError> {
    let splits = source
        .splits(&[])
        .await?
        .into_iter()
        .map(|split| (split, None))
        .collect();
    open_at(source, splits).await
}

fn records<T>(events: Vec<Event<T>>) -> (Vec<T>, u64) {
    let (mut records, mut skipped) = (Vec::new(), 0);
    for event in events {
        if let SourceEvent::Batch(mut batch) = event {
            records.append(&mut batch.records);
            skipped += batch.skipped;
        }
    }
    (records, skipped)
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    zstd::encode_all(text, 1).unwrap()
}

/// The text in every form that a file can have.
fn forms(text: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let (front, back) = text.split_at(text.len() / 3);
    vec![
        ("plain", text.to_vec()),
        ("gzip", gzip(text)),
        ("gzip of two members", [gzip(front), gzip(back)].concat()),
        ("zstd", zstd(text)),
        ("zstd of two frames", [zstd(front), zstd(back)].concat()),
    ]
}

fn write(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn rows(count: u64) -> Vec<Row> {
    (0..count)
        .map(|id| Row {
            id,
            note: format!("line one of {id}\nline \"two\", of\r\n{id} ä"),
        })
        .collect()
}

fn csv_text(rows: &[Row], line_end: &str) -> String {
    let mut text = format!("id,note{line_end}");
    for Row { id, note } in rows {
        text += &format!("{id},\"{}\"{line_end}", note.replace('"', "\"\""));
        if id % 7 == 0 {
            text += line_end;
        }
    }
    text
}

fn json_text(rows: &[Row], line_end: &str) -> String {
    let mut text = String::new();
    for Row { id, note } in rows {
        text += &format!("{{\"id\":{id},\"note\":{note:?}}}{line_end}");
        if id % 7 == 0 {
            text += &format!("  {line_end}");
        }
    }
    text.trim_end().to_owned()
}

/// Reads the file from each position that it gives out, and expects the rest each time.
async fn restores_at_every_batch(source: &FileSource<Row>, rows: &[Row], what: &str) {
    let events = read(source).await.unwrap();
    let mut done = 0;
    let mut batches = 0;
    for event in &events {
        let SourceEvent::Batch(batch) = event else {
            continue;
        };
        done += batch.records.len();
        batches += 1;
        // As in a checkpoint.
        let position = serde_json::to_string(&batch.position).unwrap();
        let position = serde_json::from_str(&position).unwrap();
        let rest = open_at(source, vec![(batch.split.clone(), Some(position))])
            .await
            .unwrap();
        assert!(
            matches!(rest.last(), Some(SourceEvent::Finished(_))),
            "{what}"
        );
        let last = rest.iter().rev().find_map(|event| match event {
            SourceEvent::Batch(batch) => Some(batch.position),
            _ => None,
        });
        if let Some(last) = last {
            let end = events.iter().rev().find_map(|event| match event {
                SourceEvent::Batch(batch) => Some(batch.position),
                _ => None,
            });
            assert_eq!(Some(last), end, "{what}: the same positions from any start");
        }
        assert_eq!(
            records(rest).0,
            rows[done..],
            "{what} at {position:?}",
            position = batch.position
        );
    }
    assert!(batches > 2, "{what}: {batches} batches");
    assert_eq!(records(events).0, rows, "{what}");
}

#[tokio::test]
async fn csv_goes_on_at_every_position() {
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(3000);
    for line_end in ["\n", "\r\n"] {
        for mark in ["", "\u{feff}"] {
            let text = format!("{mark}{}", csv_text(&rows, line_end));
            for (form, bytes) in forms(text.as_bytes()) {
                let path = write(&folder, "rows", &bytes);
                let what = format!("{form} {line_end:?} {mark:?}");
                restores_at_every_batch(&FileSource::csv(path), &rows, &what).await;
            }
        }
    }
}

#[tokio::test]
async fn json_lines_go_on_at_every_position() {
    let folder = tempfile::tempdir().unwrap();
    let rows: Vec<_> = rows(3000)
        .into_iter()
        .map(|row| Row {
            note: row.note.replace('\r', ""),
            ..row
        })
        .collect();
    for line_end in ["\n", "\r\n"] {
        for mark in ["", "\u{feff}"] {
            let text = format!("{mark}{}", json_text(&rows, line_end));
            for (form, bytes) in forms(text.as_bytes()) {
                let path = write(&folder, "rows", &bytes);
                let what = format!("{form} {line_end:?} {mark:?}");
                restores_at_every_batch(&FileSource::json_lines(path), &rows, &what).await;
            }
        }
    }
}

#[tokio::test]
async fn a_record_that_begins_with_a_byte_order_mark_is_restored_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::from("note,id\n");
    for id in 0..1100 {
        text += &format!("\u{feff}x,{id}\n");
    }
    let path = write(&folder, "a.csv", text.as_bytes());
    let source = FileSource::<Row>::csv(path);
    let events = read(&source).await.unwrap();
    let SourceEvent::Batch(batch) = &events[0] else {
        panic!()
    };
    let rest = open_at(&source, vec![(batch.split.clone(), Some(batch.position))])
        .await
        .unwrap();
    assert_eq!(
        records(rest).0[0],
        Row {
            id: 1024,
            note: "\u{feff}x".into()
        }
    );
}

#[tokio::test]
async fn long_records_make_small_batches() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("{{\"id\":1,\"note\":\"{}\"}}\n", "x".repeat(1 << 20));
    let path = write(&folder, "a", line.repeat(12).as_bytes());
    let events = read(&FileSource::<Row>::json_lines(path)).await.unwrap();
    assert_eq!(events.len(), 4, "three batches and the end");
    assert_eq!(records(events).0.len(), 12);
}

#[tokio::test]
async fn files_are_splits_in_order() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["b", "a", ".hidden", "_staging"] {
        write(
            &folder,
            name,
            format!("{{\"id\":1,\"note\":\"{name}\"}}").as_bytes(),
        );
    }
    fs::create_dir(folder.path().join("c")).unwrap();
    let single = tempfile::tempdir().unwrap();
    let empty = write(&single, "_empty", b"");
    let source = FileSource::<Row>::json_lines([empty.as_path(), folder.path()]);
    let path = |name| SplitId::new(folder.path().join(name).to_str().unwrap());
    let splits = vec![SplitId::new(empty.to_str().unwrap()), path("a"), path("b")];
    assert_eq!(source.splits(&[]).await.unwrap(), splits);

    let events = read(&source).await.unwrap();
    let told: Vec<_> = events
        .iter()
        .map(|event| match event {
            SourceEvent::Batch(batch) => (&batch.split, false),
            SourceEvent::Finished(split) => (split, true),
            other => panic!("{other:?}"),
        })
        .collect();
    let [empty, a, b] = &splits[..] else { panic!() };
    assert_eq!(
        told,
        [(empty, true), (a, false), (a, true), (b, false), (b, true)]
    );
}

#[tokio::test]
async fn a_reader_without_splits_is_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let source = FileSource::<Row>::csv(folder.path());
    assert!(open_at(&source, vec![]).await.unwrap().is_empty());
}

#[test]
fn a_dropped_next_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(20_000);
    let path = write(&folder, "rows", &gzip(csv_text(&rows, "\n").as_bytes()));
    // One thread for file work, which is held in turn, so that `next` has to wait each time.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime
        .max_blocking_threads(1)
        .build()
        .unwrap()
        .block_on(async {
            let source = FileSource::<Row>::csv(path.clone());
            let split = SplitId::new(path.to_str().unwrap());
            let mut reader = source.open(vec![(split, None)]).await.unwrap();
            let mut found = Vec::new();
            loop {
                let (release, held) = std::sync::mpsc::channel();
                let holder = tokio::task::spawn_blocking(move || held.recv());
                // Whatever was ahead of the holder.
                let first = reader.next().await.unwrap();
                // The one after waits behind it: polled once and dropped, over and over.
                for _ in 0..10 {
                    let dropped = pin!(reader.next()).poll(&mut Context::from_waker(Waker::noop()));
                    assert!(dropped.is_pending());
                }
                release.send(()).unwrap();
                holder.await.unwrap().unwrap();
                let event = match first {
                    SourceEvent::Batch(mut batch) => {
                        found.append(&mut batch.records);
                        reader.next().await.unwrap()
                    }
                    event => event,
                };
                match event {
                    SourceEvent::Batch(mut batch) => found.append(&mut batch.records),
                    SourceEvent::Finished(_) => break,
                    event => panic!("{event:?}"),
                }
            }
            assert!(matches!(reader.next().await.unwrap(), SourceEvent::End));
            assert!(found == rows);
        });
}

#[tokio::test]
async fn a_dropped_reader_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, "rows", csv_text(&rows(5000), "\n").as_bytes());
    let source = FileSource::<Row>::csv(path);
    let splits: Vec<_> = source
        .splits(&[])
        .await
        .unwrap()
        .into_iter()
        .map(|split| (split, None))
        .collect();
    let mut reader = source.open(splits.clone()).await.unwrap();
    reader.next().await.unwrap();
    drop(reader);
    drop(source.open(splits).await.unwrap());
}

async fn error<T: DeserializeOwned + Send + std::fmt::Debug + 'static>(
    source: FileSource<T>,
) -> SourceError {
    read(&source).await.expect_err("an error")
}

#[track_caller]
fn assert_says(error: &SourceError, kind: ErrorKind, parts: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for part in parts {
        assert!(text.contains(part), "{text:?} lacks {part:?}");
    }
}

#[tokio::test]
async fn malformed_csv_is_named_by_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&[u8], &[&str]); 7] = [
        (
            b"id,note\n1,a\n\nx,b\n",
            &["line 4", "field \"id\"", "invalid digit"],
        ),
        (
            b"id,note\r\n1,\"a\r\nb\"\r\nx,b\r\n",
            &["line 4", "field \"id\""],
        ),
        (
            b"id,note\n1,a\n2,b,c\n",
            &["line 3", "3 fields", "header 2"],
        ),
        (b"id,note\n1\n", &["line 2", "1 fields"]),
        (b"id,note\n1,\xff\n", &["line 2", "field \"note\"", "utf-8"]),
        (b"id,n\xffte\n1,x\n", &["line 1", "utf-8"]),
        (
            b"id,text\n1,a\n",
            &["line 2", "no column \"note\"", "columns are: id, text"],
        ),
    ];
    for (text, parts) in cases {
        for (_, bytes) in forms(text) {
            let path = write(&folder, "bad", &bytes);
            let error = error(FileSource::<Row>::csv(path.clone())).await;
            assert_says(&error, ErrorKind::Rejected, &[path.to_str().unwrap()]);
            assert_says(&error, ErrorKind::Rejected, parts);
        }
    }
}

#[tokio::test]
async fn the_line_is_right_after_a_restore() {
    let folder = tempfile::tempdir().unwrap();
    let rows = rows(1500);
    let mut text = csv_text(&rows, "\r\n");
    let line = 1 + text.matches('\n').count();
    text += "oops,x\r\n";
    for (_, bytes) in forms(text.as_bytes()) {
        let path = write(&folder, "rows", &bytes);
        let source = FileSource::<Row>::csv(path.clone());
        let split = SplitId::new(path.to_str().unwrap());
        let mut reader = source.open(vec![(split.clone(), None)]).await.unwrap();
        let SourceEvent::Batch(batch) = reader.next().await.unwrap() else {
            panic!()
        };
        let error = open_at(&source, vec![(split, Some(batch.position))])
            .await
            .unwrap_err();
        assert_says(&error, ErrorKind::Rejected, &[&format!("line {line},")]);
    }
}

#[tokio::test]
async fn malformed_json_is_named_by_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let good = "{\"id\":1,\"note\":\"a\"}\n\n";
    let cases: [(&[u8], &[&str]); 4] = [
        (b"{\"id\":2,", &["line 3", "column 8", "EOF"]),
        (
            b"{\"id\":\"x\",\"note\":\"a\"}",
            &["line 3", "column 9", "invalid type"],
        ),
        (b"{\"id\":2}", &["line 3", "missing field `note`"]),
        (b"{\"id\":2,\"note\":\"\xff\"}", &["line 3", "column"]),
    ];
    for (line, parts) in cases {
        let path = write(&folder, "bad", &[good.as_bytes(), line].concat());
        let error = error(FileSource::<Row>::json_lines(path.clone())).await;
        assert_says(&error, ErrorKind::Rejected, parts);
        assert_says(&error, ErrorKind::Rejected, &[path.to_str().unwrap()]);
        assert!(!error.to_string().contains("line 1"), "{error}");
    }
}

#[tokio::test]
async fn malformed_records_are_skipped_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let csv = write(
        &folder,
        "a.csv",
        b"id,note\nx,a\n1,a\n2,\xff\n3\n4,d\n5,e,f\n",
    );
    let source = FileSource::<Row>::csv(csv).on_malformed(OnMalformed::Skip);
    let (found, skipped) = records(read(&source).await.unwrap());
    assert_eq!(found.iter().map(|row| row.id).collect::<Vec<_>>(), [1, 4]);
    assert_eq!(skipped, 4);

    // More than a batch of nothing but malformed lines: the position moves on without records.
    let json = write(&folder, "a.jsonl", &b"oops\n".repeat(1500));
    let source = FileSource::<Row>::json_lines(json).on_malformed(OnMalformed::Skip);
    let events = read(&source).await.unwrap();
    let SourceEvent::Batch(batch) = &events[0] else {
        panic!()
    };
    assert_eq!(
        (batch.records.len(), batch.skipped, batch.position.line),
        (0, 1024, 1025)
    );
    let rest = open_at(&source, vec![(batch.split.clone(), Some(batch.position))])
        .await
        .unwrap();
    assert_eq!(records(rest).1, 476);
}

#[tokio::test]
async fn a_missing_column_is_never_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, "a.csv", b"id,text\n1,a\n");
    let error = error(FileSource::<Row>::csv(path).on_malformed(OnMalformed::Skip)).await;
    assert_says(&error, ErrorKind::Rejected, &["no column \"note\""]);
}

#[tokio::test]
async fn compressed_files_cut_anywhere_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = b"{\"id\":1,\"note\":\"abc\"}\n";
    let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9][..], &zstd(text)].concat();
    for (whole, joint) in [
        (gzip(text), 0),
        ([gzip(text), gzip(text)].concat(), gzip(text).len()),
        (zstd(text), 0),
        ([zstd(text), zstd(text)].concat(), zstd(text).len()),
        (skippable, 10),
    ] {
        let path = write(&folder, "whole", &whole);
        assert!(
            !records(read(&FileSource::<Row>::json_lines(path)).await.unwrap())
                .0
                .is_empty()
        );
        for length in 1..whole.len() {
            // A cut between members leaves a whole file.
            let stump = whole[0] == 0x50 && length < 4;
            if length == joint || stump {
                continue;
            }
            let path = write(&folder, "cut", &whole[..length]);
            for on_malformed in [OnMalformed::Fail, OnMalformed::Skip] {
                let source = FileSource::<Row>::json_lines(path.clone()).on_malformed(on_malformed);
                let error = error(source).await;
                assert_says(
                    &error,
                    ErrorKind::Rejected,
                    &["cut short", path.to_str().unwrap()],
                );
                assert!(std::error::Error::source(&error).is_some());
            }
        }
    }
}

#[tokio::test]
async fn damaged_compression_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = gzip(csv_text(&rows(100), "\n").as_bytes());
    let crc = bytes.len() - 6;
    bytes[crc] ^= 1;
    let path = write(&folder, "bad", &bytes);
    let error = error(FileSource::<Row>::csv(path).on_malformed(OnMalformed::Skip)).await;
    assert_says(&error, ErrorKind::Rejected, &["damaged"]);
}

#[tokio::test]
async fn a_changed_file_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, "a.csv", csv_text(&rows(1100), "\n").as_bytes());
    let source = FileSource::<Row>::csv(path.clone());
    let events = read(&source).await.unwrap();
    let SourceEvent::Batch(batch) = &events[0] else {
        panic!()
    };
    let was = batch.position.length;
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"1,x\n").unwrap();
    let error = open_at(&source, vec![(batch.split.clone(), Some(batch.position))])
        .await
        .unwrap_err();
    let (was, now) = (format!("had {was} bytes"), format!("has {} now", was + 4));
    assert_says(
        &error,
        ErrorKind::Configuration,
        &["changed since the checkpoint", &was, &now],
    );
}

#[tokio::test]
async fn what_is_appended_while_a_file_is_read_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    // So long that the first batches are read before the end is reached.
    let rows = rows(20_000);
    let path = write(&folder, "a.csv", csv_text(&rows, "\n").as_bytes());
    let source = FileSource::<Row>::csv(path.clone());
    let split = SplitId::new(path.to_str().unwrap());
    let mut reader = source.open(vec![(split, None)]).await.unwrap();
    let mut found = Vec::new();
    loop {
        match reader.next().await.unwrap() {
            SourceEvent::Batch(mut batch) => found.append(&mut batch.records),
            SourceEvent::End => break,
            _ => continue,
        }
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"1,x\n").unwrap();
    }
    assert!(found == rows);
}

#[tokio::test]
async fn a_file_that_shrinks_while_it_is_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, "a.csv", csv_text(&rows(20_000), "\n").as_bytes());
    let source = FileSource::<Row>::csv(path.clone());
    let split = SplitId::new(path.to_str().unwrap());
    let mut reader = source.open(vec![(split, None)]).await.unwrap();
    reader.next().await.unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(300_000)
        .unwrap();
    let error = loop {
        match reader.next().await {
            Ok(SourceEvent::Batch(_)) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert_says(&error, ErrorKind::Configuration, &["became shorter"]);
    assert!(
        reader.next().await.is_err(),
        "an error is never followed by the end"
    );
}

#[tokio::test]
async fn positions_beyond_the_text_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = csv_text(&rows(10), "\n");
    for (_, bytes) in forms(text.as_bytes()) {
        let path = write(&folder, "a", &bytes);
        let split = SplitId::new(path.to_str().unwrap());
        for offset in [1, text.len() as u64 + 1, u64::MAX] {
            let position = FilePosition {
                offset,
                line: 1,
                length: bytes.len() as u64,
            };
            let source = FileSource::<Row>::csv(path.clone());
            let error = open_at(&source, vec![(split.clone(), Some(position))])
                .await
                .unwrap_err();
            assert_says(&error, ErrorKind::Configuration, &["in the checkpoint"]);
        }
    }
}

#[tokio::test]
async fn paths_that_cannot_be_read_are_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    write(&folder, "_hidden", b"");
    let file = write(&folder, "a", b"");
    for (paths, part) in [
        (vec![missing.clone()], "missing"),
        (vec![empty], "holds no files"),
        (vec![file.join("below")], "below"),
        (vec![file.clone(), folder.path().to_owned()], "named twice"),
        (vec![], "no paths"),
    ] {
        let error = error(FileSource::<Row>::csv(paths)).await;
        assert_says(&error, ErrorKind::Configuration, &[part, "("]);
    }
    // A split of the checkpoint whose file is gone, and one that is a folder.
    for path in [missing.as_path(), folder.path()] {
        let split = SplitId::new(path.to_str().unwrap());
        let source = FileSource::<Row>::csv("unused");
        let error = open_at(&source, vec![(split, None)]).await.unwrap_err();
        assert_says(&error, ErrorKind::Configuration, &[path.to_str().unwrap()]);
    }
}

const UNPRIVILEGED: &str = "COFFERDAM_TEST_UNREADABLE";

/// The super user may read everything, so the test runs itself again as nobody.
#[cfg(unix)]
#[tokio::test]
async fn unreadable_files_are_configuration() {
    use std::os::unix::fs::PermissionsExt;

    if let Some(path) = std::env::var_os(UNPRIVILEGED) {
        let error = error(FileSource::<Row>::csv(Path::new(&path))).await;
        assert_says(
            &error,
            ErrorKind::Configuration,
            &[path.to_str().unwrap(), "right"],
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let file = write(&folder, "secret", b"id,note\n");
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    for path in [&file, &closed] {
        fs::set_permissions(path, PermissionsExt::from_mode(0o000)).unwrap();
    }
    let binary = folder.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    let privileged = fs::read(&file).is_ok();
    for path in [&file, &closed] {
        let mut command = if privileged {
            let mut command = Command::new("setpriv");
            command
                .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
                .arg(&binary);
            command
        } else {
            Command::new(&binary)
        };
        let output = command
            .args(["--exact", "unreadable_files_are_configuration"])
            .env(UNPRIVILEGED, path)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{output:?}"
        );
    }
}
