//! A process is killed at a call, the next one goes on and comes to its end, and then the power is cut: what the first
//! one wrote and did not sync is seen by the second, which must not take it for durable.

use cofferdam_power_loss::{Data, Disk, Tree, materialise};

use super::examine::{in_parallel, recover_all};
use super::history::{Run, again_if_cut_off, compare, folder, play, record, said, three_runs};
use super::promises::Promises;

#[test]
fn what_a_killed_process_did_not_sync_is_not_taken_for_durable() {
    let mut disk = Disk::empty();
    let mut kills = Vec::new();
    for (number, run) in three_runs().iter().enumerate() {
        disk.begin_process(&run.root);
        for (at, step) in run.steps.iter().enumerate() {
            if disk.apply(step).expect("it was played before") {
                let place = format!("run {number} killed after call {at}");
                kills.push((place, disk.clone()));
            }
        }
    }
    println!("{} kills", kills.len());
    assert!(kills.len() > 200);
    let broken = in_parallel(&kills, |(place, disk)| {
        go_on(disk).map_err(|broken| format!("{place}: {broken}"))
    });
    assert_eq!(broken, Vec::<String>::new());
}

/// Goes on after a kill, to the end. At each promise all that is not durable may be lost.
fn go_on(killed: &Disk) -> Result<(), String> {
    let (mut disk, run) = again_if_cut_off(|| {
        let folder = folder();
        materialise(&killed.now(), folder.path()).expect("room for a tree");
        let run = record(folder.path(), &["free"]);
        let mut disk = killed.clone();
        play(&mut disk, std::slice::from_ref(&run))?;
        compare(&disk, folder.path())?;
        Ok((killed.clone(), run))
    });
    let mut promises = Promises::default();
    let Run { root, steps } = run;
    disk.begin_process(&root);
    for step in &*steps {
        disk.apply(step).expect("it was played before");
        if let Some((word, of)) = said(step) {
            promises.hear(word, of, &disk.now());
            promises.check(&durable(&disk))?;
        }
    }
    let end = (durable(&disk), "at the end".to_owned());
    match recover_all(&[end].into()).pop() {
        None => Ok(()),
        Some(failure) => Err(failure),
    }
}

fn durable(disk: &Disk) -> Tree {
    disk.after_power_loss(|_| false, |_| Data::Lost)
}
