//! Runs the checker, and finds the shortest way into a violation.

use std::fmt::Write;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use crate::bounds::Bounds;
use crate::model::CheckpointProtocol;
use crate::rules;
use crate::step::Step;

/// What an exhaustive check has seen.
#[derive(Debug, Clone)]
pub struct Explored {
    /// How many different states there are.
    pub states: usize,
    /// How many steps lead between them.
    pub steps: usize,
    /// How many steps the longest of the shortest ways to a state has.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// Rules that are violated, and examples that are not found.
    pub failures: Vec<String>,
}

/// A violated rule, with the shortest way to it.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The rules that do not hold after the last step.
    pub rules: Vec<&'static str>,
    /// The steps, from the start.
    pub steps: Vec<Step>,
}

impl Violation {
    /// The steps, one a line.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (number, step) in self.steps.iter().enumerate() {
            let _infallible = writeln!(text, "{:>4}. {step}", number + 1);
        }
        let _infallible = write!(text, "      violated: {}", self.rules.join("; "));
        text
    }
}

/// Explores every state within these bounds, or down to a depth.
pub fn explore(bounds: &Bounds, depth: Option<usize>, threads: usize) -> Explored {
    let begun = Instant::now();
    let mut builder = CheckpointProtocol::new(bounds.clone(), None)
        .checker()
        .threads(threads);
    builder = builder.finish_when(HasDiscoveries::AnyFailures);
    if let Some(depth) = depth {
        builder = builder.target_max_depth(states_up_to(depth));
    }
    let checker = builder.spawn_bfs().join();
    let found = checker.discoveries();
    let properties = checker.model().properties();
    let failures = properties
        .iter()
        .filter(|property| {
            let always = property.expectation == stateright::Expectation::Always;
            always == found.contains_key(property.name)
        })
        .map(|property| property.name.to_owned())
        .collect();
    Explored {
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        took: begun.elapsed(),
        failures,
    }
}

/// The shortest way into a violation of a rule, of any if none is named; `None` if there is none of so few steps.
pub fn shortest_violation(
    bounds: &Bounds,
    rule: Option<&'static str>,
    longest: usize,
) -> Option<Violation> {
    let mut shortest: Option<Violation> = None;
    // The checker looks at states in blocks, and gives the last violation of a block: not always the nearest.
    loop {
        let depth = match &shortest {
            Some(found) => found.steps.len().checked_sub(1),
            None => Some(longest),
        };
        let Some(violation) = depth.and_then(|depth| violation(bounds, rule, depth)) else {
            return shortest;
        };
        shortest = Some(violation);
    }
}

fn violation(bounds: &Bounds, rule: Option<&'static str>, depth: usize) -> Option<Violation> {
    let checker = CheckpointProtocol::new(bounds.clone(), rule)
        .checker()
        .threads(1)
        .finish_when(HasDiscoveries::AnyFailures)
        .target_max_depth(states_up_to(depth))
        .spawn_bfs()
        .join();
    let rules = rules::all();
    let path = rules
        .iter()
        .filter_map(|rule| checker.discovery(rule.name))
        .min_by_key(|path| path.clone().into_actions().len())?;
    let last = path.last_state();
    let violated = rules
        .iter()
        .filter(|rule| !(rule.condition)(checker.model(), last));
    Some(Violation {
        rules: violated.map(|rule| rule.name).collect(),
        steps: path.clone().into_actions(),
    })
}

/// The checker's target for ways of so many steps: it counts states, and leaves out the target itself.
fn states_up_to(depth: usize) -> usize {
    depth + 2
}
