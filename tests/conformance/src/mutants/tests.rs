//! That the broken sinks are all there; `tests/matrix.rs` shows that each is broken.

use std::collections::BTreeSet;

use super::*;

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
