//! Runs the checker, and finds the shortest way into a violation.

use std::fmt::Write;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use crate::bounds::Bounds;
use crate::model::CheckpointProtocol;
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
    let mut builder = CheckpointProtocol::new(bounds.clone())
        .checker()
        .threads(threads);
    builder = builder.finish_when(HasDiscoveries::AnyFailures);
    if let Some(depth) = depth {
        builder = builder.target_max_depth(depth + 2);
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

/// The shortest way into a violation of any rule; `None` if there is none within these bounds and this many steps.
pub fn shortest_violation(bounds: &Bounds, longest: usize) -> Option<Violation> {
    let mut shortest = None;
    let mut depth = longest;
    // The checker looks at states in blocks, and gives the last violation of a block: not always the nearest.
    loop {
        // A state after n steps is the n+1st of its way, and is looked at if the target is beyond it.
        let checker = CheckpointProtocol::new(bounds.clone())
            .checker()
            .threads(1)
            .finish_when(HasDiscoveries::AnyFailures)
            .target_max_depth(depth + 2)
            .spawn_bfs()
            .join();
        let properties = checker.model().properties();
        let rules: Vec<_> = properties
            .iter()
            .filter(|property| property.expectation == stateright::Expectation::Always)
            .collect();
        let found = rules
            .iter()
            .filter_map(|rule| checker.discovery(rule.name))
            .min_by_key(|path| path.clone().into_actions().len());
        let Some(path) = found else {
            return shortest;
        };
        let last = path.last_state();
        let violated = rules
            .iter()
            .filter(|rule| !(rule.condition)(checker.model(), last))
            .map(|rule| rule.name)
            .collect();
        let steps = path.clone().into_actions();
        depth = steps.len().checked_sub(1)?;
        shortest = Some(Violation {
            rules: violated,
            steps,
        });
    }
}
