//! Disks and folders to write to.

use std::fs;

use super::{assert_fails, assert_goes_on, open_folders, set_mode, site, slow, without_rights};
use crate::support::data::{self, Format};
use crate::support::model::Variant;
use crate::support::site::{Site, Start};

/// Lets no file grow beyond so many blocks of 512 bytes; a write beyond fails, as on a full disk.
fn limited(blocks: u32, start: Start) -> Start {
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    Start {
        under: vec!["sh".to_owned(), "-c".to_owned(), script],
        ..start
    }
}

#[test]
fn a_disk_that_takes_no_more_output_ends_the_job() {
    let site = site(Format::Csv);
    // One checkpoint at the end: its results are larger than all else.
    let start = Start {
        interval: 3_600_000,
        ..Start::default()
    };
    let parts = [
        "pre-commit for checkpoint",
        "_staging",
        "free space on the disk",
    ];
    assert_fails(&site, &limited(64, start), &parts);
    assert_goes_on(&site, "with space");
}

#[test]
fn a_disk_that_takes_no_more_checkpoints_ends_the_job() {
    // The second file is not begun while the first is read, so no window closes: state becomes larger than all else.
    let files = data::generate(9, &[6000, 6000]);
    let site = Site::new(&files, Format::JsonLines, Variant::Sliding);
    let checkpoints = site.checkpoints.display().to_string();
    let parts = ["can't create", &checkpoints, "state/", "free some space"];
    let start = Start {
        parallelism: 1,
        ..slow()
    };
    assert_fails(&site, &limited(64, start), &parts);
    assert_goes_on(&site, "with space");
}

#[test]
fn an_output_folder_without_the_right_to_write_is_named() {
    let site = site(Format::Csv);
    let start = without_rights(&site, slow());
    open_folders(&[&site.output, &site.checkpoints]);
    set_mode(&site.output, 0o555);
    let output = site.output.display().to_string();
    assert_fails(
        &site,
        &start,
        &[&output, "give the user of this process the right"],
    );
    set_mode(&site.output, 0o777);
    site.run(&start).report();
    site.assert_exact("with the right to write");
}

#[test]
fn a_folder_around_that_can_only_be_passed_through_is_no_obstacle() {
    let site = site(Format::Csv);
    let start = without_rights(&site, slow());
    open_folders(&[&site.output, &site.checkpoints]);
    set_mode(site.root(), 0o711);
    site.run(&start).report();
    site.assert_exact("without the right to list the folder around");
}

#[test]
fn a_file_where_the_output_folder_should_be_is_named() {
    let site = site(Format::Csv);
    fs::write(&site.output, "a file").expect("a file");
    let output = site.output.display().to_string();
    assert_fails(
        &site,
        &slow(),
        &[&output, "a file stands where a folder should be"],
    );
    fs::remove_file(&site.output).expect("the file");
    assert_goes_on(&site, "out of the way");
}
