use super::KafkaVersion;
use crate::{ServiceError, cache, programs};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The folder with the jars of a release, downloaded once and kept in `$XDG_CACHE_HOME/cofferdam` (`~/.cache/cofferdam`).
///
/// Callers in parallel wait for the one that downloads; a download that breaks off leaves nothing that counts.
///
/// # Errors
///
/// If Maven is missing, or fails.
pub fn fetch(version: KafkaVersion) -> Result<PathBuf, ServiceError> {
    cache::once(&format!("kafka-{version}"), |folder| {
        let project = folder.join("pom.xml");
        fs::write(&project, include_str!("pom.xml"))
            .map_err(ServiceError::io("write", &project))?;
        let jars = folder.join("jars");
        let mut maven = Command::new("mvn");
        maven
            .args(["--batch-mode", "--quiet", "--file"])
            .arg(&project)
            .arg("dependency:copy-dependencies")
            .arg(format!("-Dkafka.version={version}"))
            .arg(format!("-DoutputDirectory={}", jars.display()));
        programs::run(
            &mut maven,
            &format!("the download of Kafka {version}"),
            "maven",
            "mvn",
        )?;
        Ok(jars)
    })
}
