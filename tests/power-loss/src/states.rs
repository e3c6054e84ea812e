//! What a loss of power can leave of a disk.

use crate::disk::{Data, Disk, Tree};
use crate::random::Random;

/// So many changes are tried in all combinations.
const ALL_COMBINATIONS: usize = 5;
/// Of more, so many of the newest are each lost alone and kept alone.
const ONE_BY_ONE: usize = 8;
/// And so many combinations are drawn.
const DRAWN: usize = 12;

/// What a loss of power can leave.
#[derive(Debug, Clone)]
pub struct CrashState {
    /// How it differs from what was written.
    pub what: String,
    /// What is there.
    pub tree: Tree,
}

/// What a loss of power can leave: the extremes, all combinations of a few changes of names, samples of many. The seed
/// repeats the samples.
pub fn crash_states(disk: &Disk, seed: u64) -> Vec<CrashState> {
    let mut random = Random(seed);
    let mut states = Vec::new();
    let mut add = |what: String, kept: &dyn Fn(usize) -> bool, data: &mut dyn FnMut() -> Data| {
        let tree = disk.after_power_loss(kept, |_| data());
        states.push(CrashState { what, tree });
    };
    let datas = [Data::Lost, Data::Kept, Data::Torn, Data::Zeroed];
    for data in datas {
        add(format!("names kept, data {data:?}"), &|_| true, &mut || {
            data
        });
    }
    for data in datas {
        add(
            format!("names lost, data {data:?}"),
            &|_| false,
            &mut || data,
        );
    }
    let changes = disk.changes();
    let mut draw = || datas[usize::try_from(random.next() % 4).expect("below 4")];
    if changes <= ALL_COMBINATIONS {
        for set in 0_u64..1 << changes {
            let kept = |age: usize| set >> age & 1 == 1;
            add(
                format!("of {changes} names set {set:b} kept"),
                &kept,
                &mut draw,
            );
        }
        return states;
    }
    for one in changes.saturating_sub(ONE_BY_ONE)..changes {
        let what = format!("name {one} of {changes}");
        add(format!("{what} lost alone"), &|age| age != one, &mut draw);
        add(format!("{what} kept alone"), &|age| age == one, &mut draw);
    }
    for number in 0..DRAWN {
        let mut random = Random(seed ^ number as u64);
        let kept: Vec<bool> = (0..changes).map(|_| random.next() & 1 == 0).collect();
        let what = format!("sample {number} of seed {seed}");
        add(what, &|age| kept[age], &mut draw);
    }
    states
}
