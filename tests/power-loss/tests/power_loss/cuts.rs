//! The power is cut at every call of a run that begins with nothing, of one that settles and of one that sweeps.

use super::examine::{examine, recover_all};
use super::history::three_runs;

#[test]
fn no_loss_of_power_loses_or_doubles_anything() {
    let examined = examine(&three_runs());
    println!(
        "{} cuts, {} states, {} different ones, at most {} promises",
        examined.cuts,
        examined.states,
        examined.trees.len(),
        examined.promises
    );
    // Enough to mean something: a few checkpoints, each with the records of two subtasks.
    assert!(examined.cuts > 200 && examined.promises >= 12);
    assert_eq!(examined.broken, Vec::<String>::new());
    assert_eq!(recover_all(&examined.trees), Vec::<String>::new());
}
