//! What has to be reached at least once: a model that never gets there proves nothing.

use cofferdam::protocol::{Decision, SettlementAction};
use stateright::Property;

use crate::bounds::Bounds;
use crate::model::CheckpointProtocol;
use crate::outside::Fate;
use crate::process::{End, Over, Process, Recovery, Run};
use crate::world::World;

type Model = CheckpointProtocol;

/// The examples that a model within these bounds has to find.
pub(crate) fn of(bounds: &Bounds) -> Vec<Property<Model>> {
    let groups = [of_any(), of_zombies(bounds), of_faults(bounds)];
    groups.into_iter().flatten().flatten().collect()
}

type Example = Option<Property<Model>>;

fn example(wanted: bool, name: &'static str, seen: fn(&Model, &World) -> bool) -> Example {
    wanted.then(|| Property::sometimes(name, seen))
}

fn of_any() -> Vec<Example> {
    vec![
        example(true, "everything is committed", |model, world| {
            let newest = world.log.history.last();
            newest.is_some_and(|newest| newest.manifest.checkpoint.0 == model.bounds.checkpoints)
                && world.outside.in_doubt().next().is_none()
        }),
        example(true, "the answer to a decision is lost", |_, world| {
            runs(world).any(|(who, run)| {
                let written = world.log.records.get(&(run.held.newest + 1));
                run.deciding.is_some() && written.is_some_and(|record| record.owner == who)
            })
        }),
        example(true, "the answer to a takeover is lost", |_, world| {
            recoveries(world).any(|(who, recovery)| {
                let newest = world.log.records.values().next_back();
                matches!(recovery.action, SettlementAction::TakeEpoch)
                    && newest.is_some_and(|newest| newest.owner == who)
            })
        }),
        example(true, "a process crashes in its recovery", |_, world| {
            world
                .processes
                .contains(&Process::Ended(End::CrashedInRecovery))
        }),
    ]
}

fn of_zombies(bounds: &Bounds) -> Vec<Example> {
    let two = bounds.parallelism.len() > 1;
    vec![
        example(two, "two processes crash", |_, world| {
            let crashed = |process: &&Process| {
                matches!(
                    process,
                    Process::Ended(End::Crashed | End::CrashedInRecovery)
                )
            };
            world.processes.iter().filter(crashed).count() == 2
        }),
        example(two, "a zombie runs beside its successor", |_, world| {
            runs(world).filter(|(_, run)| run.is_on()).count() == 2
        }),
        example(
            two,
            "a zombie is in its recovery, and its successor runs",
            |_, world| {
                let running = runs(world).map(|(_, run)| run.held.epoch).max();
                recoveries(world).any(|(_, recovery)| {
                    recovery.held.epoch.0 > 0 && Some(recovery.held.epoch) < running
                })
            },
        ),
        example(two, "a zombie is fenced", |_, world| {
            runs(world).any(|(_, run)| matches!(run.over, Some(Over::Fenced(_))))
        }),
        example(two, "recovery commits what is in doubt", |_, world| {
            recoveries(world).any(|(_, recovery)| match recovery.action {
                SettlementAction::Commit(_, id) => world.outside.fate(id) == Some(Fate::Prepared),
                _ => false,
            })
        }),
        example(
            two && bounds.stops,
            "recovery finds a checkpoint that is settled",
            |_, world| {
                recoveries(world).any(|(_, recovery)| {
                    let newest = recovery.newest.as_ref();
                    newest.is_some_and(|newest| {
                        !newest.prepared.is_empty()
                            && recovery.held.settled >= Some(newest.checkpoint)
                            && !matches!(recovery.action, SettlementAction::RecordSettled { .. })
                    })
                })
            },
        ),
        example(two, "recovery aborts what is stale", |_, world| {
            let aborted = world.outside.with_fate(Fate::Aborted);
            aborted
                .into_iter()
                .any(|(id, _)| id.epoch < world.log.epoch())
        }),
    ]
}

fn of_faults(bounds: &Bounds) -> Vec<Example> {
    let uneven = bounds.parallelism.windows(2).any(|pair| pair[0] > pair[1]);
    let retires = bounds.checkpoints > bounds.retained as u64;
    vec![
        example(retires, "a checkpoint is retired", |_, world| {
            world.log.history.iter().any(|decided| decided.retired)
        }),
        example(bounds.stops, "a run finishes", |_, world| {
            let finished = |process: &Process| matches!(process, Process::Ended(End::Finished(_)));
            world.processes.iter().any(finished)
        }),
        example(
            bounds.time_outs && bounds.subsumes && bounds.checkpoints > 1,
            "what a dropped checkpoint prepared is committed",
            |_, world| {
                let mut committed = world.outside.with_fate(Fate::Committed);
                committed.any(|(id, _)| {
                    let mut history = world.log.history.iter();
                    history.all(|decided| decided.manifest.checkpoint != id.checkpoint)
                })
            },
        ),
        example(
            bounds.refusals && bounds.sinks > 1,
            "a participant aborts what was decided against",
            |_, world| {
                runs(world).any(|(_, run)| {
                    let mut aborted = world.outside.with_fate(Fate::Aborted);
                    let told = |told: &Decision| matches!(told, Decision::Abort(_));
                    run.notified.iter().any(told)
                        && run.held.epoch == world.log.epoch()
                        && aborted.any(|(id, _)| id.epoch == run.held.epoch)
                })
            },
        ),
        example(
            bounds.late_writes > 0,
            "a decision arrives after its process has given up",
            |_, world| {
                runs(world).any(|(_, run)| {
                    let own = |epoch| epoch == run.held.epoch;
                    let mut history = world.log.history.iter();
                    !run.is_on()
                        && run.deciding.is_none()
                        && run.notified.is_empty()
                        && history.any(|decided| own(decided.epoch))
                })
            },
        ),
        example(
            bounds.parallelism.len() > 2,
            "a zombie writes its decision into a gap",
            |_, world| {
                world.log.records.values().any(|record| {
                    let mut history = world.log.history.iter();
                    record.decided.is_some() && history.all(|decided| decided.epoch != record.epoch)
                })
            },
        ),
        example(
            uneven,
            "fewer subtasks recover what more have prepared",
            |_, world| {
                runs(world).any(|(_, run)| {
                    let mut prepared = run.from.iter().flat_map(|newest| &newest.prepared);
                    prepared.any(|id| id.subtask >= run.parallelism)
                })
            },
        ),
        example(bounds.expiries > 0, "a loss is found", |_, world| {
            world.processes.contains(&Process::Ended(End::Lost))
        }),
    ]
}

fn runs(world: &World) -> impl Iterator<Item = (usize, &Run)> {
    let numbered = world.processes.iter().enumerate();
    numbered.filter_map(|(who, process)| match process {
        Process::Running(run) => Some((who, &**run)),
        _ => None,
    })
}

fn recoveries(world: &World) -> impl Iterator<Item = (usize, &Recovery)> {
    let numbered = world.processes.iter().enumerate();
    numbered.filter_map(|(who, process)| match process {
        Process::Recovering(recovery) => Some((who, &**recovery)),
        _ => None,
    })
}
