//! Checkpoint folders.

use std::fs;
use std::path::PathBuf;

use super::{assert_fails, assert_goes_on, run_partly, site, slow};
use crate::support::data::Format;
use crate::support::log::names;
use crate::support::site::{Site, Start};

/// A job with published output, that is not at its end.
fn half_done() -> Site {
    let site = site(Format::Csv);
    run_partly(&site);
    site
}

/// The newest record that holds a decision.
fn newest_decision(site: &Site) -> PathBuf {
    let records = site.log().records;
    let decision = |path: &&PathBuf| {
        let text = fs::read_to_string(path).expect("a record");
        text.contains("\"manifest\"")
    };
    records
        .iter()
        .rev()
        .find(decision)
        .expect("a decision")
        .clone()
}

/// Damages a file, sees the job refuse it, repairs it, and sees the job go on.
fn damage(site: &Site, path: &PathBuf, damaged: &[u8], parts: &[&str]) {
    let whole = fs::read(path).expect("the file");
    assert_ne!(whole, damaged);
    fs::write(path, damaged).expect("the file");
    let before = site.lines();
    let name = path.file_name().expect("a name").to_str().expect("text");
    assert_fails(site, &slow(), &[&[name], parts].concat());
    assert_eq!(site.lines(), before);
    fs::write(path, whole).expect("the file");
    assert_goes_on(site, "repaired");
}

#[test]
fn checkpoints_of_another_job_are_refused() {
    let site = half_done();
    let before = site.lines();
    let other = Start {
        job: "another",
        ..slow()
    };
    let parts = [
        "of job readings, not of another",
        "a checkpoint store of its own",
    ];
    assert_fails(&site, &other, &parts);
    assert_eq!(site.lines(), before);
    assert_goes_on(&site, "with its own name");
}

#[test]
fn checkpoints_of_a_newer_program_are_refused() {
    let site = half_done();
    let path = newest_decision(&site);
    let text = fs::read_to_string(&path).expect("a record");
    let newer = text.replacen("COFFERDAM log 2 ", "COFFERDAM log 3 ", 1);
    damage(
        &site,
        &path,
        newer.as_bytes(),
        &["format version 3", "run a newer program"],
    );
}

#[test]
fn a_flipped_byte_in_a_manifest_is_noticed() {
    let site = half_done();
    let path = newest_decision(&site);
    let mut bytes = fs::read(&path).expect("a record");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    damage(&site, &path, &bytes, &["checksum", "corrupt"]);
}

#[test]
fn a_cut_manifest_is_noticed() {
    let site = half_done();
    let path = newest_decision(&site);
    let bytes = fs::read(&path).expect("a record");
    damage(&site, &path, &bytes[..bytes.len() - 100], &["it was cut"]);
}

#[test]
fn a_missing_state_part_is_noticed() {
    let site = half_done();
    // Also what the newest decision does not name is taken away: the names alone tell nothing here.
    let aside = site.root().join("aside");
    fs::rename(site.checkpoints.join("state"), &aside).expect("state");
    let before = site.lines();
    let parts = ["state/", "is missing", "restore it from a copy"];
    assert_fails(&site, &slow(), &parts);
    assert_eq!(before.results.len(), site.lines().results.len());
    fs::remove_dir_all(site.checkpoints.join("state")).ok();
    fs::rename(&aside, site.checkpoints.join("state")).expect("state");
    assert_goes_on(&site, "repaired");
}

#[test]
fn output_without_its_checkpoints_is_refused_at_each_start() {
    let site = half_done();
    let aside = site.root().join("aside");
    fs::rename(&site.checkpoints, &aside).expect("checkpoints");
    let before = site.lines();
    let parts = [
        "than the checkpoint store knows",
        "bring back the checkpoints",
    ];
    // A supervisor starts it over and over: the epochs of those starts must not wear the refusal out.
    for _ in 0..3 {
        assert_fails(&site, &slow(), &parts);
    }
    assert_eq!(site.lines(), before);
    fs::remove_dir_all(&site.checkpoints).expect("new checkpoints");
    fs::rename(&aside, &site.checkpoints).expect("checkpoints");
    assert_goes_on(&site, "brought back");
}

#[test]
fn an_older_copy_of_the_checkpoints_is_refused() {
    let site = half_done();
    let copy = site.root().join("copy");
    fs::create_dir_all(copy.join("state")).expect("a folder");
    fs::create_dir_all(copy.join("log")).expect("a folder");
    for folder in ["log", "state"] {
        for path in names(&site.checkpoints.join(folder)) {
            let name = path.file_name().expect("a name");
            fs::copy(&path, copy.join(folder).join(name)).expect("a copy");
        }
    }
    run_partly(&site);
    let (before, newer) = (site.lines(), site.root().join("newer"));
    fs::rename(&site.checkpoints, &newer).expect("checkpoints");
    fs::rename(&copy, &site.checkpoints).expect("checkpoints");
    for _ in 0..3 {
        assert_fails(&site, &slow(), &["bring back the checkpoints"]);
    }
    assert_eq!(site.lines(), before);
    fs::remove_dir_all(&site.checkpoints).expect("old checkpoints");
    fs::rename(&newer, &site.checkpoints).expect("checkpoints");
    assert_goes_on(&site, "brought back");
}
