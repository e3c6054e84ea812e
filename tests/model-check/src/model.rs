//! The model for the checker.

use std::collections::HashSet;
use std::sync::Mutex;

use stateright::{Model, Property};

use crate::bounds::Bounds;
use crate::step::Step;
use crate::world::World;
use crate::{examples, rules};

/// The checkpoint protocol, driven in every order of events within [`Bounds`].
#[derive(Debug)]
pub struct CheckpointProtocol {
    pub(crate) bounds: Bounds,
    /// The only rule to look at; `None` for all, and the examples.
    pub(crate) only: Option<&'static str>,
    /// What is left behind by processes that are all gone, and is known to come to rest.
    pub(crate) comes_to_rest: Mutex<HashSet<u64>>,
    /// Runs that are known to end if they are asked to.
    pub(crate) ends: Mutex<HashSet<u64>>,
}

impl CheckpointProtocol {
    /// The model within these bounds, with this rule only, or with all and the examples.
    pub fn new(bounds: Bounds, only: Option<&'static str>) -> Self {
        Self {
            bounds,
            only,
            comes_to_rest: Mutex::default(),
            ends: Mutex::default(),
        }
    }
}

impl Model for CheckpointProtocol {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.bounds.parallelism.len())]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        world.steps(&self.bounds, steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        next.take(&self.bounds, step);
        (next != *world).then_some(next)
    }

    fn format_action(&self, step: &Step) -> String {
        step.to_string()
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = rules::all();
        match self.only {
            Some(only) => properties.retain(|rule| rule.name == only),
            None => properties.extend(examples::of(&self.bounds)),
        }
        properties
    }
}
