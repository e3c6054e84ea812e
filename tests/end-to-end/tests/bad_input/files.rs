//! Input files.

use std::fs;
use std::path::Path;

use super::{
    assert_fails, assert_goes_on, files, open_folders, run_partly, set_mode, site, slow,
    without_rights,
};
use crate::support::data::{self, Format};
use crate::support::model::{self, Variant};
use crate::support::site::{Site, Start};

/// Puts other text in the place of some. Only if it is as long can the file be resumed.
fn edit(path: &Path, line: usize, from: &str, to: &str) {
    let text = fs::read_to_string(path).expect("text");
    let lines = text
        .split_inclusive('\n')
        .enumerate()
        .map(|(at, text)| match at + 1 == line {
            true => text.replacen(from, to, 1),
            false => text.to_owned(),
        });
    let edited: String = lines.collect();
    assert_ne!(edited, text, "{from:?} is not in line {line}");
    fs::write(path, edited).expect("the file");
}

/// Field `value` of a CSV line, with the commas around it.
fn value_of(path: &Path, line: usize) -> String {
    let text = fs::read_to_string(path).expect("text");
    let line = text.lines().nth(line - 1).expect("the line");
    format!(",{},", line.split(',').nth(2).expect("a value"))
}

#[test]
fn a_malformed_csv_record_is_named_by_file_line_and_field() {
    let site = site(Format::Csv);
    run_partly(&site);
    let path = &site.inputs[3];
    let good = value_of(path, 4500);
    let bad = format!(",{},", "x".repeat(good.len() - 2));
    edit(path, 4500, &good, &bad);
    let place = format!("{}, line 4500, field \"value\"", path.display());
    assert_fails(
        &site,
        &slow(),
        &["source readings", &place, "correct the file"],
    );
    edit(path, 4500, &bad, &good);
    assert_goes_on(&site, "corrected");
}

#[test]
fn a_correction_that_changes_the_length_is_refused_with_the_way_out() {
    let site = site(Format::Csv);
    let path = &site.inputs[3];
    let good = value_of(path, 4500);
    edit(path, 4500, &good, ",????????,");
    // Slow, so that a checkpoint holds a position in it.
    let start = Start {
        batch_delay: 150,
        ..slow()
    };
    assert_fails(&site, &start, &["field \"value\""]);
    edit(path, 4500, ",????????,", &good);
    let path = path.display().to_string();
    assert_fails(
        &site,
        &slow(),
        &["changed since the checkpoint", &path, "bring back the file"],
    );
}

#[test]
fn malformed_records_can_be_left_out_and_are_counted() {
    let mut readings = files();
    let mut site = Site::new(&readings, Format::Csv, Variant::Tumbling);
    for line in [1500, 4500] {
        let path = &site.inputs[3];
        let good = value_of(path, line);
        edit(
            path,
            line,
            &good,
            &format!(",{},", "x".repeat(good.len() - 2)),
        );
    }
    // Line 1 is the header; from behind, so that the first removal moves nothing.
    readings[3].remove(4498);
    readings[3].remove(1498);
    site.expected = model::expected(&readings, Variant::Tumbling);
    let start = Start {
        skip_malformed: true,
        ..slow()
    };
    let report = site.run(&start).report();
    assert_eq!(report["counts"]["readings.skipped"], 2, "{report}");
    let read = readings.iter().map(Vec::len).sum::<usize>();
    assert_eq!(report["counts"]["readings.records"], read, "{report}");
    site.assert_exact("skipped");
}

#[test]
fn a_missing_column_is_named_with_those_that_are_there() {
    let site = site(Format::Csv);
    edit(&site.inputs[3], 1, "samples", "sambles");
    let path = site.inputs[3].display().to_string();
    let hint = "its columns are: time, sensor, value, sambles";
    assert_fails(
        &site,
        &slow(),
        &[&path, "the header has no column \"samples\"", hint],
    );
    edit(&site.inputs[3], 1, "sambles", "samples");
    assert_goes_on(&site, "corrected");
}

#[test]
fn a_malformed_json_line_is_named_by_file_line_and_column() {
    let site = site(Format::JsonLines);
    let path = &site.inputs[3];
    edit(path, 4321, "\"sensor\":", "\"sensor\";");
    let place = format!("{}, line 4321, column", path.display());
    assert_fails(&site, &slow(), &[&place, "correct the file"]);
    edit(path, 4321, "\"sensor\";", "\"sensor\":");
    assert_goes_on(&site, "corrected");
}

#[test]
fn a_file_that_may_not_be_read_is_named() {
    let site = site(Format::Csv);
    let start = without_rights(&site, slow());
    open_folders(&[&site.output, &site.checkpoints]);
    set_mode(&site.inputs[2], 0o000);
    let path = site.inputs[2].display().to_string();
    assert_fails(
        &site,
        &start,
        &[&path, "give the user of this process the right"],
    );
    set_mode(&site.inputs[2], 0o644);
    site.run(&start).report();
    site.assert_exact("with the right to read");
}

#[test]
fn a_missing_file_is_named() {
    let site = site(Format::Csv);
    let elsewhere = site.root().join("elsewhere");
    fs::rename(&site.inputs[1], &elsewhere).expect("a file");
    let path = site.inputs[1].display().to_string();
    assert_fails(&site, &slow(), &[&path, "check the path"]);
    fs::rename(&elsewhere, &site.inputs[1]).expect("a file");
    run_partly(&site);
    fs::rename(&site.inputs[3], &elsewhere).expect("a file");
    let path = site.inputs[3].display().to_string();
    assert_fails(&site, &slow(), &[&path, "check the path"]);
    fs::rename(&elsewhere, &site.inputs[3]).expect("a file");
    assert_goes_on(&site, "brought back");
}

#[test]
fn a_truncated_gzip_file_is_told_from_a_whole_one() {
    let site = site(Format::Csv);
    let path = &site.inputs[1];
    let whole = fs::read(path).expect("the file");
    // Within its first batch: no checkpoint holds a position in it.
    fs::write(path, &whole[..2000]).expect("the file");
    let named = path.display().to_string();
    assert_fails(
        &site,
        &slow(),
        &[&named, "damaged or cut short", "bring a whole copy"],
    );
    fs::write(path, &whole).expect("the file");
    assert_goes_on(&site, "a whole copy");
}

#[test]
fn a_gzip_file_that_is_cut_far_in_is_refused_when_it_has_become_whole() {
    let site = site(Format::Csv);
    let path = &site.inputs[1];
    let whole = data::gzip(&data::csv_text(&files()[1]));
    fs::write(path, &whole[..whole.len() - 2000]).expect("the file");
    let named = path.display().to_string();
    // Slow, so that a checkpoint holds a position in it.
    let start = Start {
        batch_delay: 300,
        ..slow()
    };
    assert_fails(
        &site,
        &start,
        &[&named, "damaged or cut short", "bring a whole copy"],
    );
    fs::write(path, &whole).expect("the file");
    assert_fails(&site, &slow(), &["changed since the checkpoint", &named]);
}
