//! Half of a broker's start is the loading of classes. A first broker, which nobody uses, leaves them in an archive as it
//! ends, and all that come later find them there. A Java that is not the archive's own ignores it.

use super::{Kafka, KafkaVersion};
use crate::{ServiceError, cache};
use std::path::Path;

const SUFFIX: &str = "classes";

/// Makes the archive of a release unless it is there.
pub(super) fn archive(version: KafkaVersion, jars: &Path) -> Result<(), ServiceError> {
    let made = cache::once(&format!("kafka-{version}.{SUFFIX}"), |folder| {
        let archive = folder.join(SUFFIX);
        let option = format!("-XX:ArchiveClassesAtExit={}", archive.display());
        Kafka::builder()
            .version(version)
            .start_with(jars, &[&option])?
            .stop(1)?;
        Ok(archive)
    });
    made.map(drop)
}

/// What tells Java of the archive that belongs to these jars, if there is one.
pub(super) fn option(jars: &Path) -> Option<String> {
    let archive = format!("{}.{SUFFIX}", jars.display());
    Path::new(&archive)
        .exists()
        .then(|| format!("-XX:SharedArchiveFile={archive}"))
}
