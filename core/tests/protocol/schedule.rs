//! What can happen next, and how it is drawn.

use proptest::prelude::*;

/// What comes of a write to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    Answered,
    AppliedUnanswered,
    NotApplied,
    /// No answer; the write is still on its way.
    OnItsWay,
}

/// What comes of a call to an outside system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Answered,
    AppliedUnanswered,
    NotYet,
}

/// Who acts and what is picked are taken modulo what there is; what can't happen now is passed over.
#[derive(Debug, Clone)]
pub enum Step {
    Start {
        parallelism: u32,
    },
    Crash {
        who: usize,
    },
    Trigger {
        who: usize,
        records: u64,
    },
    Stop {
        who: usize,
        records: u64,
    },
    Prepare {
        who: usize,
        sink: usize,
        fails: bool,
    },
    Vote {
        who: usize,
        pick: usize,
    },
    TimeOut {
        who: usize,
        pick: usize,
    },
    Write {
        who: usize,
        how: Write,
    },
    GiveUp {
        who: usize,
    },
    LateWrite {
        pick: usize,
    },
    Notify {
        who: usize,
        sink: usize,
        pick: usize,
    },
    Commit {
        who: usize,
        sink: usize,
        how: Call,
    },
    Confirm {
        who: usize,
        pick: usize,
        again: bool,
    },
    /// An event that comes late, twice, or for a checkpoint that is not under way.
    Stray {
        who: usize,
        pick: usize,
        kind: u8,
    },
    Recover {
        who: usize,
        how: Call,
    },
    /// Some steps as they go when nothing is lost; perhaps only as far as a decision is to be written, perhaps with
    /// commits that fall behind.
    Progress {
        who: usize,
        steps: usize,
        records: u64,
        up_to_write: bool,
        commits: bool,
    },
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        4 => Just(Write::Answered),
        2 => Just(Write::AppliedUnanswered),
        1 => Just(Write::NotApplied),
        2 => Just(Write::OnItsWay),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => Just(Call::Answered),
        1 => Just(Call::AppliedUnanswered),
        1 => Just(Call::NotYet),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    // Each process is as likely as any other, however old: so zombies act.
    let who = || 0..4usize;
    let pick = || 0..64usize;
    let records = || 0..5u64;
    let faults = prop_oneof![
        3 => (1..=2u32).prop_map(|parallelism| Step::Start { parallelism }),
        1 => who().prop_map(|who| Step::Crash { who }),
        4 => (who(), pick()).prop_map(|(who, pick)| Step::TimeOut { who, pick }),
        2 => who().prop_map(|who| Step::GiveUp { who }),
        5 => pick().prop_map(|pick| Step::LateWrite { pick }),
        1 => (who(), records()).prop_map(|(who, records)| Step::Stop { who, records }),
        2 => (who(), pick(), any::<u8>())
            .prop_map(|(who, pick, kind)| Step::Stray { who, pick, kind }),
    ];
    let work = prop_oneof![
           3 => (who(), records()).prop_map(|(who, records)| Step::Trigger { who, records }),
           3 => (who(), pick(), prop::bool::weighted(0.2))
               .prop_map(|(who, sink, fails)| Step::Prepare { who, sink, fails }),
           3 => (who(), pick()).prop_map(|(who, pick)| Step::Vote { who, pick }),
           5 => (who(), write()).prop_map(|(who, how)| Step::Write { who, how }),
           2 => (who(), pick(), pick()).prop_map(|(who, sink, pick)| Step::Notify { who, sink, pick }),
           2 => (who(), pick(), call()).prop_map(|(who, sink, how)| Step::Commit { who, sink, how }),
           2 => (who(), pick(), any::<bool>())
               .prop_map(|(who, pick, again)| Step::Confirm { who, pick, again }),
           3 => (who(), call()).prop_map(|(who, how)| Step::Recover { who, how }),
           6 => (who(), 1..16usize, records(), any::<bool>(), any::<bool>()).prop_map(
            |(who, steps, records, up_to_write, commits)| Step::Progress {
                who,
                steps,
                records,
                up_to_write,
                commits,
            }
        ),
    ];
    prop_oneof![1 => faults, 5 => work]
}

/// How the coordinators of a world are set.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub tolerable_failures: u32,
    pub max_unconfirmed: usize,
    pub subsumes: bool,
    pub retained: usize,
}

pub fn settings() -> impl Strategy<Value = Settings> {
    let subsuming =
        (0..3u32, 1..4usize, 1..4usize).prop_map(|(tolerable, unconfirmed, retained)| Settings {
            tolerable_failures: tolerable,
            max_unconfirmed: unconfirmed,
            subsumes: true,
            retained,
        });
    // As the runtime sets it for sinks that can hold so many prepared transactions only.
    let holding_few =
        (0..3u32, 1..3usize, 1..4usize).prop_map(|(tolerable, held, retained)| Settings {
            tolerable_failures: tolerable,
            max_unconfirmed: held,
            subsumes: false,
            retained,
        });
    prop_oneof![3 => subsuming, 1 => holding_few]
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 20..160)
}
