//! Crashes at the spans of the protocol: for the steps that are no call to anything outside.

use tracing::span::{Attributes, Id};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::Registry;

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::plan::{Plan, When};

/// Crashes a plan when the n-th span of a name opens, or closes.
#[derive(Debug)]
pub struct CrashAt {
    plan: Plan,
    name: &'static str,
    when: When,
    n: usize,
    seen: AtomicUsize,
}

impl CrashAt {
    /// Watches the spans of this thread for as long as the guard lives.
    pub fn watch(plan: &Plan, name: &'static str, when: When, n: usize) -> DefaultGuard {
        let layer = Self {
            plan: plan.clone(),
            name,
            when,
            n,
            seen: AtomicUsize::new(0),
        };
        tracing::subscriber::set_default(Registry::default().with(layer))
    }

    fn see(&self, name: &str, when: When) {
        let hit = name == self.name && when == self.when;
        if hit && self.seen.fetch_add(1, Ordering::Relaxed) + 1 == self.n {
            self.plan.crash();
        }
    }
}

impl<S> Layer<S> for CrashAt
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.see(attributes.metadata().name(), When::Before);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(span) = context.span(&id) {
            self.see(span.name(), When::After);
        }
    }
}
