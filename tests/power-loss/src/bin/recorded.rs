//! Runs the job in a folder: `recorded <folder> <free|paced> [<word> <n>]`, to die at the n-th such word of the witness.

use std::env::args;
use std::error::Error;
use std::path::Path;

use cofferdam_power_loss::{Pace, Witness, job};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = args().skip(1).collect();
    let (folder, pace, dies_at) = match arguments.as_slice() {
        [folder, pace] => (folder, pace, None),
        [folder, pace, word, times] => (folder, pace, Some((word.clone(), times.parse()?))),
        _ => return Err("recorded <folder> <free|paced> [<word> <n>]".into()),
    };
    let pace = match pace.as_str() {
        "free" => Pace::Free,
        "paced" => Pace::WithCheckpoints,
        _ => return Err("a pace is free or paced".into()),
    };
    job(Path::new(folder), pace, Witness::new(dies_at))?
        .run()
        .await?;
    Ok(())
}
