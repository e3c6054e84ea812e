//! A real pipeline with the sink under test at its end.

mod crash;
mod decisions;
mod sink;
mod source;

use std::time::Duration;

use cofferdam::memory::MemorySource;
use cofferdam::{JobEnd, JobError, JobReport, NoEventTime, Pipeline, RestartStrategy};

pub(crate) use self::crash::Crash;
pub(crate) use self::decisions::Decisions;
use self::decisions::PipelineStore;
use self::sink::PipelineSink;
use self::source::Paced;
use crate::check::Stop;
use crate::site::{job, sink};
use crate::trial::Trial;

/// Splits of the source, and records of each.
const SPLITS: u64 = 3;
const PER_SPLIT: u64 = 320;
/// All of them.
const RECORDS: u64 = SPLITS * PER_SPLIT;

/// One run of the pipeline: a process of its own, with a new instance of the sink.
pub(crate) struct Run<'a> {
    trial: &'a Trial,
    decisions: &'a Decisions,
    parallelism: u32,
}

/// How a run ended by itself; `None` if it died.
type Ended = Option<Result<JobReport, JobError>>;

impl<'a> Run<'a> {
    pub(crate) fn new(trial: &'a Trial, decisions: &'a Decisions) -> Self {
        Self {
            trial,
            decisions,
            parallelism: 1,
        }
    }

    pub(crate) fn parallelism(self, parallelism: u32) -> Self {
        Self {
            parallelism,
            ..self
        }
    }

    /// Runs to the end, or to the crash.
    pub(crate) async fn go(self, crash: Crash) -> Result<Ended, Stop> {
        let process = self.trial.process().await?;
        let expiry = process.capabilities().expiry;
        let sink_function = PipelineSink {
            process,
            crash: crash.clone(),
        };
        let store = PipelineStore {
            decisions: self.decisions.clone(),
            crash: crash.clone(),
        };
        let first = self.decisions.first_record;
        let splits = (0..SPLITS).map(|split| {
            let start = first + split * PER_SPLIT;
            (start..start + PER_SPLIT).collect()
        });
        let run = Pipeline::new(job().as_str())
            .source("numbers", Paced(MemorySource::new(splits)), NoEventTime)
            .sink(sink().as_str(), sink_function)
            .job(store)
            .parallelism(self.parallelism)
            .checkpoint_interval(Duration::from_millis(4))
            .checkpoint_timeout(checkpoint_timeout(expiry))
            .restart(RestartStrategy::FixedDelay {
                restarts: 5,
                delay: Duration::from_millis(1),
            })
            .run();
        tokio::select! {
            ended = run => Ok(Some(ended)),
            () = crash.died() => Ok(None),
        }
    }

    /// Runs to the end without a crash, which must be a good one.
    pub(crate) async fn complete(self) -> Result<(), Stop> {
        match self.go(Crash::never()).await? {
            Some(Ok(report))
                if matches!(report.end, JobEnd::Completed | JobEnd::AlreadyComplete) =>
            {
                Ok(())
            }
            Some(Ok(report)) => Err(Stop::failed(format!(
                "the last run ends with {:?}",
                report.end
            ))),
            Some(Err(error)) => Err(Stop::failed(format!(
                "the last run fails: {}",
                crate::check::chain(&error)
            ))),
            None => Err(Stop::failed("the last run died")),
        }
    }
}

/// The usual one, or what a job lets pass with a sink whose system is made to forget soon, so that no check waits for long:
/// five times this, and half a minute, have to be less than the expiry.
fn checkpoint_timeout(expiry: Option<Duration>) -> Duration {
    let usual = Duration::from_secs(60);
    let (shortest, restart) = (Duration::from_millis(1), Duration::from_secs(30));
    expiry.map_or(usual, |expiry| {
        (expiry.saturating_sub(restart) / 6).clamp(shortest, usual)
    })
}
