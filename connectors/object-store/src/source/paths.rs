//! The files that a source is told to read.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use cofferdam::{SourceError, SplitId};

use crate::error::source_error;

/// One path or several; each a file, or a folder whose files are meant.
///
/// Made from text, a path, or an array, slice or vector of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths(Vec<PathBuf>);

impl From<&str> for Paths {
    fn from(path: &str) -> Self {
        Self(vec![path.into()])
    }
}

impl From<String> for Paths {
    fn from(path: String) -> Self {
        Self(vec![path.into()])
    }
}

impl From<&Path> for Paths {
    fn from(path: &Path) -> Self {
        Self(vec![path.into()])
    }
}

impl From<PathBuf> for Paths {
    fn from(path: PathBuf) -> Self {
        Self(vec![path])
    }
}

impl<P: Into<PathBuf>> From<Vec<P>> for Paths {
    fn from(paths: Vec<P>) -> Self {
        paths.into_iter().collect()
    }
}

impl<P: Into<PathBuf>, const N: usize> From<[P; N]> for Paths {
    fn from(paths: [P; N]) -> Self {
        paths.into_iter().collect()
    }
}

impl<P: Into<PathBuf> + Clone> From<&[P]> for Paths {
    fn from(paths: &[P]) -> Self {
        paths.iter().cloned().collect()
    }
}

impl<P: Into<PathBuf>> FromIterator<P> for Paths {
    fn from_iter<I: IntoIterator<Item = P>>(paths: I) -> Self {
        Self(paths.into_iter().map(Into::into).collect())
    }
}

impl Paths {
    /// One split a file, in the order given; the files of a folder by name.
    pub(super) fn splits(&self) -> Result<Vec<SplitId>, SourceError> {
        if self.0.is_empty() {
            return Err(SourceError::configuration("the source has no paths")
                .hint("name at least one file or folder"));
        }
        let mut files = Vec::new();
        for path in &self.0 {
            let found = fs::metadata(path).map_err(|cause| source_error("read", path, cause))?;
            if found.is_dir() {
                files.append(&mut files_in(path)?);
            } else {
                files.push(path.clone());
            }
        }
        let splits: Vec<_> = files
            .iter()
            .map(|file| split(file))
            .collect::<Result<_, _>>()?;
        let mut seen = HashSet::new();
        match splits.iter().find(|split| !seen.insert(*split)) {
            Some(twice) => Err(SourceError::configuration(format!(
                "{twice} is named twice, and would be read twice"
            ))
            .hint("name each file once, alone or by its folder")),
            None => Ok(splits),
        }
    }
}

/// The regular files in a folder, by name; hidden ones and those on their way (`.…`, `_…`) are none.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let refused = |cause| source_error("list", folder, cause);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(refused)? {
        let entry = entry.map_err(refused)?;
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(b".") || name.as_encoded_bytes().starts_with(b"_") {
            continue;
        }
        let path = entry.path();
        let found = fs::metadata(&path).map_err(|cause| source_error("read", &path, cause))?;
        if found.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(SourceError::configuration(format!(
            "the folder {} holds no files",
            folder.display()
        ))
        .hint("check the path; names beginning with `.` or `_`, and folders in it, are not read"));
    }
    files.sort();
    Ok(files)
}

fn split(file: &Path) -> Result<SplitId, SourceError> {
    let text = file.to_str().ok_or_else(|| {
        SourceError::configuration(format!("the path {file:?} is not valid UTF-8"))
            .hint("rename the file: its path is kept as text in checkpoints")
    })?;
    Ok(SplitId::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_path_and_several_read_the_same() {
        let one = Paths::from("a");
        assert_eq!(one, Paths::from(["a"]));
        assert_eq!(one, Paths::from(vec![PathBuf::from("a")]));
        assert_eq!(one, Paths::from(Path::new("a")));
        assert_eq!(one, Paths::from(&[String::from("a")][..]));
    }
}
