//! A checkpoint folder that is removed while the job runs.

use std::sync::Arc;

use cofferdam::{DirectoryCheckpointStore, JobError};
use tokio::time::Instant;

use crate::plan::Plan;
use crate::world::{World, ms, run};

#[tokio::test(start_paused = true)]
async fn a_removed_checkpoint_folder_ends_the_job_at_once() {
    for put_back in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("checkpoints");
        let world = World {
            store: Arc::new(DirectoryCheckpointStore::open(&root).unwrap()),
            ..World::new()
        };
        let plan = Plan::none();
        let job = world.job(&plan);
        let mut handle = job.handle();
        let remove = async {
            while handle.progress().checkpoint.is_none() {
                assert!(handle.changed().await, "the job ended early");
            }
            std::fs::remove_dir_all(&root).unwrap();
            if put_back {
                std::fs::create_dir_all(root.join("log")).unwrap();
            }
            Instant::now()
        };
        let (outcome, removed) = tokio::join!(run(job, &plan), remove);
        let error = outcome.error();
        assert!(matches!(error, JobError::Checkpoint(_)), "{error}");
        assert!(!error.is_restartable(), "{error}");
        let text = error.to_string();
        assert!(text.contains("was removed or replaced"), "{text}");
        assert!(text.contains("bring the folder back"), "{text}");
        assert!(removed.elapsed() < ms(1000), "{:?}", removed.elapsed());
        assert_eq!(root.exists(), put_back, "made again");
    }
}
