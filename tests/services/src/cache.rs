use crate::ServiceError;
use std::env;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What is made once and kept in `$XDG_CACHE_HOME/cofferdam` (`~/.cache/cofferdam`), under this name.
///
/// `make` gets an empty folder, and gives the path of what it made there. Callers in parallel wait for the one that makes;
/// one that fails or dies leaves nothing that counts.
pub(crate) fn once(
    name: &str,
    make: impl FnOnce(&Path) -> Result<PathBuf, ServiceError>,
) -> Result<PathBuf, ServiceError> {
    let cache = folder()?;
    let kept = cache.join(name);
    if kept.exists() {
        return Ok(kept);
    }
    fs::create_dir_all(&cache).map_err(ServiceError::io("create", &cache))?;
    let path = cache.join(format!("{name}.lock"));
    let lock = File::create(&path).map_err(ServiceError::io("create", &path))?;
    lock.lock().map_err(ServiceError::io("lock", &path))?;
    if !kept.exists() {
        let path = cache.join(format!("{name}.unfinished"));
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(ServiceError::io("remove", path)(error));
            }
            _ => {}
        }
        let unfinished = tempfile::Builder::new()
            .prefix(&format!("{name}.unfinished"))
            .rand_bytes(0)
            .tempdir_in(&cache);
        let unfinished = unfinished.map_err(ServiceError::io("create", path))?;
        let made = make(unfinished.path())?;
        fs::rename(made, &kept).map_err(ServiceError::io("create", &kept))?;
    }
    Ok(kept)
}

fn folder() -> Result<PathBuf, ServiceError> {
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
