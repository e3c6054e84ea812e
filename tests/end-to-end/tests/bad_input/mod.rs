//! Input, disks and checkpoints that are not as they should be: the job ends, says why, and goes on exactly once it is
//! repaired.

mod checkpoints;
mod files;
mod folders;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::support::data::{self, Files, Format};
use crate::support::log::names;
use crate::support::model::Variant;
use crate::support::site::{Site, Start};
use crate::support::victim::eventually;

/// No error may take longer than this to end the job.
const BOUND: Duration = Duration::from_secs(20);

fn files() -> Files {
    data::generate(5, &[3000, 4000, 5000, 6000])
}

fn site(format: Format) -> Site {
    Site::new(&files(), format, Variant::Tumbling)
}

/// Slow enough for checkpoints before the end.
fn slow() -> Start {
    Start {
        parallelism: 2,
        batch_delay: 15,
        interval: 10,
        ..Start::default()
    }
}

/// Starts it: it must fail soon, with all of these in its error, and double nothing. A further start must do the same.
fn assert_fails(site: &Site, start: &Start, parts: &[&str]) {
    for again in ["first", "second"] {
        let end = site.spawn(start).wait_within(BOUND);
        let error = end.error();
        for part in parts {
            assert!(
                error.contains(part),
                "{again} start: no {part:?} in: {error}"
            );
        }
        site.assert_nothing_doubled(again);
    }
}

/// Starts it after the repair: it must come to the exact output.
fn assert_goes_on(site: &Site, what: &str) {
    let report = site.run(&Start::default()).report();
    assert_eq!(report["restarts"], 0, "{what}: {report}");
    site.assert_exact(what);
}

/// Runs it until some more files are published, and kills it: far from its end, as it waits long for each batch.
fn run_partly(site: &Site) {
    let published = || names(&site.output.join("late")).len();
    let before = published();
    let victim = site.spawn(&Start {
        batch_delay: 200,
        ..slow()
    });
    eventually("output", || published() > before + 2);
    drop(victim);
}

/// Runs a victim as a user without rights: permissions stop nobody who is root.
fn without_rights(site: &Site, start: Start) -> Start {
    let program = site.root().join("victim");
    if !program.exists() {
        fs::copy(&start.program, &program).expect("a copy of the victim");
    }
    set_mode(site.root(), 0o755);
    set_mode(&program, 0o755);
    let ids = "--reuid 65534 --regid 65534 --clear-groups";
    let under = std::iter::once("setpriv").chain(ids.split(' '));
    let under = under.map(str::to_owned).collect();
    // Who is not root needs no other user, and can't become one.
    match is_root(site.root()) {
        true => Start {
            under,
            program,
            ..start
        },
        false => start,
    }
}

fn is_root(own: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(own).expect("a folder").uid() == 0
}

fn set_mode(path: &Path, mode: u32) {
    let set = fs::set_permissions(path, Permissions::from_mode(mode));
    set.unwrap_or_else(|error| panic!("{path:?}: {error}"));
}

/// Lets a user without rights write these folders.
fn open_folders(folders: &[&Path]) {
    for folder in folders {
        fs::create_dir_all(folder).expect("a folder");
        set_mode(folder, 0o777);
    }
}
