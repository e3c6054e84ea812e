//! The pipeline from files into files.

use cofferdam::{Job, OnMalformed, StoreError};
use cofferdam_object_store::{FileSource, StagedFileSink};

use crate::job;
use crate::options::{FileOptions, Format};

/// The job that the options ask for.
///
/// # Errors
/// If the checkpoint store can't be opened.
pub fn files_job(options: &FileOptions) -> Result<Job, StoreError> {
    let paths = options.input.clone();
    let source = match options.format {
        Format::Csv => FileSource::csv(paths),
        Format::Jsonl => FileSource::json_lines(paths),
    };
    let on_malformed = match options.skip_malformed {
        true => OnMalformed::Skip,
        false => OnMalformed::Fail,
    };
    let results = StagedFileSink::json_lines(options.output.join("results"));
    let late = StagedFileSink::json_lines(options.output.join("late"));
    let source = source.on_malformed(on_malformed);
    job::job(&options.job, source, results, late)
}
