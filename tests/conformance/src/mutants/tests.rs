//! That the broken sinks are broken, and otherwise as sound as can be.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

mod probes;

use std::collections::BTreeSet;

use super::*;
use crate::for_each_mutant;

#[test]
fn there_are_many_and_each_is_described() {
    let all = all();
    assert!(all.len() >= 30, "{}", all.len());
    let ids: BTreeSet<_> = all.iter().map(|about| about.id).collect();
    assert_eq!(ids.len(), all.len());
    for number in 1..=all.len() {
        assert!(ids.contains(&*format!("M{number}")), "M{number} is missing");
    }
    for about in all {
        assert!(
            about.fault.ends_with('.') && !about.fault.starts_with(' '),
            "{about:?}"
        );
        assert!(
            !about.seen.is_empty() && !about.caught_by.is_empty(),
            "{about:?}"
        );
    }
}

#[test]
fn the_visitor_meets_all() {
    struct Ids(Vec<&'static str>);
    impl Visitor for Ids {
        fn visit<B: Bug>(&mut self) {
            self.0.push(B::ABOUT.id);
        }
    }
    let mut ids = Ids(Vec::new());
    visit_all(&mut ids);
    assert!(ids.0.iter().copied().eq(all().iter().map(|about| about.id)));
}

/// A test for each broken sink.
macro_rules! each_fails_a_probe {
    ($($bug:ident,)+) => {
        mod fails {
            $(
                #[tokio::test]
                #[allow(non_snake_case, reason = "called as the sink is")]
                async fn $bug() {
                    let failed = super::probes::failed::<super::MutantFactory<super::$bug>>().await;
                    println!("{}: {failed:?}", stringify!($bug));
                    assert!(!failed.is_empty());
                }
            )+
        }
    };
}
for_each_mutant!(each_fails_a_probe);

#[tokio::test]
async fn the_sound_sink_fails_none() {
    let failed = probes::failed::<crate::reference::ReferenceFactory>().await;
    assert!(failed.is_empty(), "{failed:?}");
}
