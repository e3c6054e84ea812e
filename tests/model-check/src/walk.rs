//! One way through a world that is too large to explore.

use std::collections::BTreeSet;

use stateright::{Expectation, Model};

use crate::bounds::Bounds;
use crate::model::CheckpointProtocol;
use crate::process::Process;
use crate::rules::names::{ENDS, REST};
use crate::step::{Answer, Step};
use crate::trace::Violation;
use crate::world::World;

/// What came of a walk.
#[derive(Debug)]
pub struct Walk {
    /// The first violation, with the steps before it.
    pub violation: Option<Violation>,
    /// The examples that it has met.
    pub met: BTreeSet<&'static str>,
}

/// The names of the examples that can be met within these bounds.
pub fn examples(bounds: &Bounds) -> BTreeSet<&'static str> {
    let all = CheckpointProtocol::new(bounds.clone(), None).properties();
    let examples = all
        .iter()
        .filter(|it| it.expectation == Expectation::Sometimes);
    examples.map(|it| it.name).collect()
}

/// Takes as many steps as there are picks. A pick chooses among the steps that can be taken then; one in sixteen chooses
/// among the rare ones. The rules that look ahead are asked at the end only.
pub fn walk(bounds: &Bounds, picks: &[u16]) -> Walk {
    let model = CheckpointProtocol::new(bounds.clone(), None);
    let properties = model.properties();
    let mut world = World::new(bounds.parallelism.len());
    let (mut steps, mut met) = (Vec::new(), BTreeSet::new());
    for (number, pick) in picks.iter().enumerate() {
        if let Some(step) = choose(&model, &world, usize::from(*pick)) {
            world.take(bounds, step);
            steps.push(step);
        }
        let at_end = number + 1 == picks.len();
        let mut violated = Vec::new();
        for property in &properties {
            let looks_ahead = [REST, ENDS].contains(&property.name);
            let holds = || (property.condition)(&model, &world);
            if property.expectation == Expectation::Sometimes {
                met.extend((!met.contains(property.name) && holds()).then_some(property.name));
            } else if (at_end || !looks_ahead) && !holds() {
                violated.push(property.name);
            }
        }
        if !violated.is_empty() {
            let violation = Some(Violation {
                rules: violated,
                steps,
            });
            return Walk { violation, met };
        }
    }
    Walk {
        violation: None,
        met,
    }
}

fn choose(model: &CheckpointProtocol, world: &World, pick: usize) -> Option<Step> {
    let mut steps = Vec::new();
    model.actions(world, &mut steps);
    let alive = |it: &Process| matches!(it, Process::Recovering(_) | Process::Running(_));
    let none_alive = !world.processes.iter().any(alive);
    let (rare, common): (Vec<_>, Vec<_>) = steps.into_iter().partition(|step| match step {
        Step::Start { .. } => !none_alive,
        Step::Crash { .. }
        | Step::GiveUp { .. }
        | Step::Stop { .. }
        | Step::TimeOut { .. }
        | Step::Refuse { .. }
        | Step::Expire { .. } => true,
        Step::Recover { answer, .. }
        | Step::Decide { answer, .. }
        | Step::Settle { answer, .. } => *answer == Answer::Late,
        _ => false,
    });
    let is_rare = pick.is_multiple_of(16);
    let among = match (is_rare, common.is_empty(), rare.is_empty()) {
        (true, _, false) | (false, true, false) => rare,
        _ => common,
    };
    let index = (pick / 16).checked_rem(among.len())?;
    among.get(index).copied()
}
