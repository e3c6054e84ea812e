//! What a job writes to its log, kept for a test to read.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, OnceLock};

use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Level};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::Registry;

/// The warnings of this thread, and what it says of stops, one text each.
#[derive(Debug, Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Listens for as long as the guard lives.
    pub fn watch() -> (Self, DefaultGuard) {
        // While there is one subscriber only, `tracing` asks the thread that first comes to an event whether anyone listens,
        // and keeps the answer for all threads.
        static OTHER: OnceLock<Dispatch> = OnceLock::new();
        OTHER.get_or_init(|| Dispatch::new(Registry::default()));
        let warnings = Self::default();
        let listens = Registry::default().with(warnings.clone());
        (warnings, tracing::subscriber::set_default(listens))
    }

    /// Those that have all of these parts.
    pub fn matching(&self, parts: &[&str]) -> Vec<String> {
        let mut matching = self.all();
        matching.retain(|text| parts.iter().all(|part| text.contains(part)));
        matching
    }

    /// How many have all of these parts.
    pub fn with(&self, parts: &[&str]) -> usize {
        self.matching(parts).len()
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// All fields of an event as one text.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl<S: tracing::Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() > Level::INFO {
            return;
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }
}
