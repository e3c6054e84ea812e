#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

use std::path::PathBuf;

use super::{Call, Step, TraceError, parse};

/// As strace writes text: hexadecimal, in quotes.
fn text(text: &str) -> String {
    let bytes: String = text.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("\"{bytes}\"")
}

fn calls(trace: &str) -> Vec<Call> {
    let steps = parse(trace).unwrap();
    steps.into_iter().map(|step| step.call).collect()
}

fn open(path: &str, descriptor: i32) -> Call {
    Call::Open {
        path: path.into(),
        create: true,
        truncate: false,
        append: false,
        descriptor,
    }
}

fn write(descriptor: i32, at: Option<usize>, bytes: &str) -> Call {
    Call::Write {
        descriptor,
        at,
        bytes: bytes.into(),
    }
}

#[test]
fn every_call_is_read() {
    let (a, b) = (text("/a, (b)"), text("/b"));
    let (from, to) = (PathBuf::from("/a, (b)"), PathBuf::from("/b"));
    for (line, call) in [
        (
            format!("openat(AT_FDCWD, {a}, O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0666) = 9"),
            open("/a, (b)", 9),
        ),
        (
            format!("write(9, {}, 3) = 2", text("abc")),
            write(9, None, "ab"),
        ),
        (
            format!("pwrite64(9, {}, 2, 70) = 2", text("ab")),
            write(9, Some(70), "ab"),
        ),
        (
            format!(
                "writev(9, [{{iov_base={}, iov_len=1}}, {{iov_base={}, iov_len=2}}], 2) = 3",
                text("a"),
                text("bc")
            ),
            write(9, None, "abc"),
        ),
        (
            "ftruncate(9, 7) = 0".to_owned(),
            Call::Truncate {
                descriptor: 9,
                length: 7,
            },
        ),
        (
            "fcntl(9, F_DUPFD_CLOEXEC, 3) = 12".to_owned(),
            Call::Duplicate { from: 9, to: 12 },
        ),
        (
            format!("mkdir({b}, 0777) = 0"),
            Call::MakeFolder(to.clone()),
        ),
        (format!("rmdir({b}) = 0"), Call::RemoveFolder(to.clone())),
        (format!("unlink({b}) = 0"), Call::Unlink(to.clone())),
        (
            format!("unlinkat(AT_FDCWD, {b}, AT_REMOVEDIR) = 0"),
            Call::RemoveFolder(to.clone()),
        ),
        (
            format!("linkat(AT_FDCWD, {a}, AT_FDCWD, {b}, 0) = 0"),
            Call::Link(from.clone(), to.clone()),
        ),
        (
            format!("rename({a}, {b}) = 0"),
            Call::Rename(from.clone(), to.clone()),
        ),
    ] {
        assert_eq!(calls(&format!("17  {line}\n")), [call], "{line}");
    }
}

#[test]
fn calls_count_in_the_order_of_their_returns_and_closes_and_syncs_begin_before() {
    let a = text("/a");
    let trace = format!(
        "1  fsync(9 <unfinished ...>\n\
         2  close(10 <unfinished ...>\n\
         3  openat(AT_FDCWD, {a}, O_RDWR|O_CREAT, 0666 <unfinished ...>\n\
         3  <... openat resumed>)             = 10\n\
         2  <... close resumed>)              = 0\n\
         1  <... fsync resumed>)              = 0\n\
         3  +++ exited with 0 +++\n"
    );
    let step = |thread, call| Step { thread, call };
    let wanted = [
        step(1, Call::SyncBegins(9)),
        step(2, Call::Close(10)),
        step(3, open("/a", 10)),
        step(1, Call::Sync(9)),
    ];
    assert_eq!(parse(&trace).unwrap(), wanted);
}

#[test]
fn what_failed_or_died_has_no_effect() {
    let a = text("/a");
    let trace = format!(
        "1  mkdir({a}, 0777) = -1 EEXIST (File exists)\n\
         1  fcntl(9, F_GETFD) = 0x1 (flags FD_CLOEXEC)\n\
         1  unlink({a} <unfinished ...>\n\
         2  rmdir({a}) = ?\n\
         1  +++ killed by SIGABRT +++\n"
    );
    assert_eq!(calls(&trace), []);
}

#[test]
fn what_has_no_model_is_kept_with_all_that_it_names() {
    let (a, b) = (text("/a"), text("b"));
    let line = format!("1  renameat2(7, {b}, AT_FDCWD, {a}, RENAME_EXCHANGE) = 0");
    let [
        Call::Unmodelled {
            descriptors, paths, ..
        },
    ] = &calls(&line)[..]
    else {
        panic!("{:?}", calls(&line));
    };
    assert_eq!(*descriptors, [7]);
    assert_eq!(*paths, [PathBuf::from("b"), PathBuf::from("/a")]);
    let copy = calls("1  copy_file_range(7, NULL, 8, NULL, 4096, 0) = 4096");
    assert!(
        matches!(&copy[..], [Call::Unmodelled { descriptors, .. }] if descriptors.contains(&8))
    );
}

#[test]
fn what_is_not_whole_is_refused() {
    for line in [
        "1  write(3, \"\\x61\"..., 5000) = 5000",
        "1  write(3, \"a\", 1) = 1",
        "1  <... write resumed>) = 1",
        "1  fsync(3)",
        "strace: whatever",
    ] {
        assert_eq!(parse(line), Err(TraceError(strip(line))), "{line}");
    }
}

/// Errors inside a call name the call alone.
fn strip(line: &str) -> String {
    match line.contains("resumed") || line.starts_with("strace") {
        true => line.to_owned(),
        false => line.trim_start_matches("1  ").to_owned(),
    }
}
