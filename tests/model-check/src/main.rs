//! Explores the checkpoint protocol within chosen bounds.

use std::process::ExitCode;

use clap::Parser;
use cofferdam_model_check::{Bounds, Mutant, explore, shortest_violation};

/// Explores the checkpoint protocol in every order of events, and says what it has seen.
#[derive(Debug, Parser)]
struct Arguments {
    /// Processes that may ever be started.
    #[arg(long, default_value_t = 2)]
    processes: usize,
    /// Sinks, of one subtask each.
    #[arg(long, default_value_t = 2)]
    sinks: usize,
    /// The last checkpoint that is begun.
    #[arg(long, default_value_t = 2)]
    checkpoints: u64,
    /// Writes to the log, in all, that may be applied late.
    #[arg(long, default_value_t = 0)]
    late_writes: usize,
    /// Votes may be too late.
    #[arg(long)]
    time_outs: bool,
    /// Sinks may fail to prepare.
    #[arg(long)]
    refusals: bool,
    /// Runs may be asked to stop.
    #[arg(long)]
    stops: bool,
    /// Open transactions are there for others to see.
    #[arg(long)]
    opens: bool,
    /// Prepared transactions that outside systems may forget.
    #[arg(long, default_value_t = 0)]
    expiries: usize,
    /// Coordinators hear at once what their subtasks tell.
    #[arg(long)]
    prompt: bool,
    /// Look only so many steps ahead.
    #[arg(long)]
    depth: Option<usize>,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Drivers that make a mistake: find the shortest way into a violation, within the depth (or 40 steps).
    #[arg(long, value_enum)]
    mutant: Option<Mutant>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let bounds = Bounds {
        late_writes: arguments.late_writes,
        time_outs: arguments.time_outs,
        refusals: arguments.refusals,
        stops: arguments.stops,
        opens: arguments.opens,
        expiries: arguments.expiries,
        prompt: arguments.prompt,
        mutant: arguments.mutant,
        ..Bounds::new(arguments.processes, arguments.sinks, arguments.checkpoints)
    };
    if arguments.mutant.is_none() {
        let explored = explore(&bounds, arguments.depth, arguments.threads);
        println!("{explored:#?}");
        if explored.failures.is_empty() {
            return ExitCode::SUCCESS;
        }
    }
    match shortest_violation(&bounds, None, arguments.depth.unwrap_or(40)) {
        Some(violation) => println!("{}", violation.text()),
        None => println!("no rule is violated"),
    }
    // Without a mistake, an example is missing; with one, it is either seen here or ought to be.
    ExitCode::FAILURE
}
