//! Schedules that failed once are run for ever: what each was found by is in `regressions/README.md`.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::fs;
use std::path::Path;

use cofferdam_simulation::{Schedule, simulate};

#[test]
fn schedules_that_failed_once_go_well() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let schedule = Schedule::parse(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(
            simulate(&schedule).wrong,
            Vec::<String>::new(),
            "{}",
            path.display()
        );
        count += 1;
    }
    assert!(count > 0);
}
