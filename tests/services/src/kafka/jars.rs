use super::KafkaVersion;
use crate::{ServiceError, programs};
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder with the jars of a release, downloaded once and kept in `$XDG_CACHE_HOME/cofferdam` (`~/.cache/cofferdam`).
///
/// Callers in parallel wait for the one that downloads; a download that breaks off leaves nothing that counts.
///
/// # Errors
///
/// If Maven is missing, or fails.
pub fn fetch(version: KafkaVersion) -> Result<PathBuf, ServiceError> {
    let cache = cache()?;
    let jars = cache.join(format!("kafka-{version}"));
    if jars.is_dir() {
        return Ok(jars);
    }
    fs::create_dir_all(&cache).map_err(ServiceError::io("create", &cache))?;
    let path = cache.join(format!("kafka-{version}.lock"));
    let lock = File::create(&path).map_err(ServiceError::io("create", &path))?;
    lock.lock().map_err(ServiceError::io("lock", &path))?;
    if !jars.is_dir() {
        let unfinished =
            tempfile::tempdir_in(&cache).map_err(ServiceError::io("create a folder in", &cache))?;
        download(version, unfinished.path())?;
        fs::rename(unfinished.path().join("jars"), &jars)
            .map_err(ServiceError::io("create", &jars))?;
    }
    Ok(jars)
}

fn cache() -> Result<PathBuf, ServiceError> {
    let set = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let caches = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    caches
        .map(|caches| caches.join("cofferdam"))
        .ok_or(ServiceError::NoCache)
}

fn download(version: KafkaVersion, folder: &Path) -> Result<(), ServiceError> {
    let project = folder.join("pom.xml");
    fs::write(&project, include_str!("pom.xml")).map_err(ServiceError::io("write", &project))?;
    let mut maven = Command::new("mvn");
    maven
        .args(["--batch-mode", "--quiet", "--file"])
        .arg(&project)
        .arg("dependency:copy-dependencies")
        .arg(format!("-Dkafka.version={version}"))
        .arg(format!(
            "-DoutputDirectory={}",
            folder.join("jars").display()
        ));
    programs::run(
        &mut maven,
        &format!("the download of Kafka {version}"),
        "maven",
        "mvn",
    )
    .map(drop)
}
