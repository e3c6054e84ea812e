//! What the command was asked for.

use std::ops::Range;

use cofferdam_simulation::{Flaw, Mode, Schedule};

/// How the command is used.
pub const HELP: &str = "\
Runs the real runtime through seeded schedules of faults on a simulated clock.

  cofferdam-simulation --seeds 0..1000000     runs a schedule for each seed, on all processors
  cofferdam-simulation --seed 17              runs one, with the log of all its calls
  cofferdam-simulation --replay FILE          runs the schedule in a file

  --mode safety|liveness   demands only that nothing wrong is seen; or also that faults end and the job completes.
                           Not given: as drawn from the seed
  --flaw NAME              builds something wrong on purpose, to see that it is found: such as appends_on_retry
  --no-shrink              does not make the first failing schedule smaller
  --help                   this

Exit code: 0 if all is well, 1 if something failed, 2 if the command is wrong.";

/// What the command was asked for.
#[derive(Debug)]
pub struct Arguments {
    pub what: What,
    pub mode: Option<Mode>,
    pub flaw: Option<Flaw>,
    pub shrinks: bool,
}

/// What is to be run.
#[derive(Debug)]
pub enum What {
    Help,
    Seed(u64),
    Seeds(Range<u64>),
    Replay(String),
}

impl Arguments {
    /// Reads the words after the command.
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self {
            what: What::Help,
            mode: None,
            flaw: None,
            shrinks: true,
        };
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--help" | "-h" => arguments.what = What::Help,
                "--seed" => arguments.what = What::Seed(number(&value()?)?),
                "--seeds" => arguments.what = What::Seeds(range(&value()?)?),
                "--replay" => arguments.what = What::Replay(value()?),
                "--mode" => arguments.mode = Some(named(&value()?)?),
                "--flaw" => arguments.flaw = Some(named(&value()?)?),
                "--no-shrink" => arguments.shrinks = false,
                other => return Err(format!("{other} is not known")),
            }
        }
        Ok(arguments)
    }

    /// A schedule, with the flaw that is wanted.
    pub fn flawed(&self, schedule: Schedule) -> Schedule {
        Schedule {
            flaw: self.flaw.or(schedule.flaw),
            ..schedule
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let (start, end) = text
        .split_once("..")
        .ok_or_else(|| format!("{text} is not like 0..1000"))?;
    let range = number(start)?..number(end)?;
    match range.is_empty() {
        true => Err(format!("there is nothing in {text}")),
        false => Ok(range),
    }
}

fn named<T: serde::de::DeserializeOwned>(name: &str) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::String(name.to_owned()))
        .map_err(|error| error.to_string())
}
