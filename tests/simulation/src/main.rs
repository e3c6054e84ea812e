//! Runs schedules by the million, replays one, makes a failing one smaller. `--help` says how.

mod arguments;

use std::process::ExitCode;
use std::time::Instant;
use std::{env, fs};

use arguments::{Arguments, HELP, What};
use cofferdam_simulation::{Rare, Report, Schedule, Sweep, draw, shrink, simulate, sweep};

/// How many failures are enough.
const ENOUGH: usize = 8;

fn main() -> ExitCode {
    let arguments = match Arguments::parse(env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("{problem}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match &arguments.what {
        What::Help => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        What::Seed(seed) => one(&arguments.flawed(draw(*seed, arguments.mode)), &arguments),
        What::Replay(file) => match read(file) {
            Ok(schedule) => one(&schedule, &arguments),
            Err(problem) => {
                eprintln!("{file}: {problem}");
                ExitCode::from(2)
            }
        },
        What::Seeds(seeds) => many(seeds.clone(), &arguments),
    }
}

fn read(file: &str) -> Result<Schedule, String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    Schedule::parse(&text).map_err(|error| error.to_string())
}

fn fails(schedule: &Schedule) -> bool {
    !simulate(schedule).wrong.is_empty()
}

/// One schedule, with the log of all calls.
fn one(schedule: &Schedule, arguments: &Arguments) -> ExitCode {
    println!("{}", schedule.text());
    let report = simulate(schedule);
    print(&report);
    if simulate(schedule).log != report.log {
        println!("ANOTHER LOG the second time: something is left to chance");
        return ExitCode::FAILURE;
    }
    if report.wrong.is_empty() {
        println!(
            "well; {} processes, {} calls",
            report.calls.len(),
            report.calls.iter().sum::<u32>()
        );
        return ExitCode::SUCCESS;
    }
    if arguments.shrinks {
        smaller(schedule);
    }
    ExitCode::FAILURE
}

fn print(report: &Report) {
    for entry in &report.log {
        println!("{entry}");
    }
    for wrong in &report.wrong {
        println!("WRONG: {wrong}");
    }
}

fn smaller(schedule: &Schedule) {
    let smaller = shrink(schedule, fails);
    println!(
        "\nas small as it gets; keep it as a file in regressions/:\n{}",
        smaller.text()
    );
    print(&simulate(&smaller));
}

fn many(seeds: std::ops::Range<u64>, arguments: &Arguments) -> ExitCode {
    let (start, all) = (Instant::now(), seeds.end - seeds.start);
    println!("seeds {}..{}", seeds.start, seeds.end);
    let report = sweep(
        seeds,
        ENOUGH,
        |seed| arguments.flawed(draw(seed, arguments.mode)),
        |done, failed| {
            if done % 4096 < 256 {
                let speed = done as f64 / start.elapsed().as_secs_f64();
                eprintln!("{done} of {all}, {failed} failed, {speed:.0} a second");
            }
        },
    );
    let Sweep {
        schedules,
        calls,
        reached,
        failed,
    } = report;
    println!(
        "{schedules} schedules, {calls} calls, {:.1?}",
        start.elapsed()
    );
    print!("{reached}");
    for rare in reached.never() {
        let rare: Rare = rare;
        println!("never: {rare:?}");
    }
    for (seed, schedule) in &failed {
        println!("\nSEED {seed} FAILS");
        for wrong in simulate(schedule).wrong {
            println!("  {wrong}");
        }
    }
    if let Some((_, first)) = failed.first().filter(|_| arguments.shrinks) {
        smaller(first);
    }
    match failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
