//! The rule for object names, stated once: for every store and for names that come out of stored objects.

use serde::{Deserialize, Deserializer};

use super::state;

/// Longest name of an object in a [`CheckpointStore`](crate::CheckpointStore), in bytes.
pub const MAX_OBJECT_NAME_LENGTH: usize = 255;

/// A name that no object may have. It could lead out of the store or be read in two ways.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} can't name objects: use up to {MAX_OBJECT_NAME_LENGTH} characters out of A-Z a-z 0-9 _ - . in parts that \
     are separated by / and do not begin with a dot; a prefix ends with /"
)]
pub struct ObjectNameError {
    /// The refused name.
    pub name: String,
}

/// Checks the name of an object. Every [`CheckpointStore`](crate::CheckpointStore) refuses the names that this function
/// refuses.
///
/// # Errors
/// [`ObjectNameError`] unless the name is relative, of `/`-separated parts out of `A-Z a-z 0-9 _ - .` that do not begin with
/// a dot, and at most [`MAX_OBJECT_NAME_LENGTH`] bytes long.
pub fn check_object_name(name: &str) -> Result<(), ObjectNameError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && part.bytes().all(allowed);
    if name.len() <= MAX_OBJECT_NAME_LENGTH && name.split('/').all(is_part) {
        return Ok(());
    }
    Err(ObjectNameError {
        name: name.to_owned(),
    })
}

/// Checks a prefix to list: the parts of an object name, with a `/` behind each.
///
/// # Errors
/// [`ObjectNameError`] if the prefix does not end with `/`, or no object name can begin with it.
pub fn check_object_prefix(prefix: &str) -> Result<(), ObjectNameError> {
    let folder = prefix.strip_suffix('/').unwrap_or_default();
    check_object_name(folder).map_err(|_| ObjectNameError {
        name: prefix.to_owned(),
    })
}

/// Decodes the name of a state part. A manifest can't name anything but state.
pub(super) fn state_object<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    use serde::de::Error;
    let name = String::deserialize(input)?;
    check_object_name(&name).map_err(D::Error::custom)?;
    if !name.starts_with(state::FOLDER) {
        let folder = state::FOLDER;
        let problem = format!("a state part is named {name:?}, which is not below {folder}");
        return Err(D::Error::custom(problem));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in hostile() {
            assert!(check_object_name(&name).is_err(), "{name:?}");
        }
        for name in [
            "log/00000000000000000001.json",
            "top",
            "a/b/c",
            "a..b",
            "A_-.",
        ] {
            assert!(check_object_name(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn a_prefix_ends_with_a_slash() {
        for prefix in ["log/", "a/b/"] {
            assert!(check_object_prefix(prefix).is_ok(), "{prefix:?}");
        }
        for prefix in ["", "/", "log", "../", "log/../", "log//", ".aside/"] {
            assert!(check_object_prefix(prefix).is_err(), "{prefix:?}");
        }
    }

    fn hostile() -> Vec<String> {
        let long = "x".repeat(MAX_OBJECT_NAME_LENGTH + 1);
        let names = [
            "",
            "/",
            ".",
            "..",
            "/etc/x",
            "../x",
            "log/../../x",
            "log//x",
            "log/",
            "log/.x",
            ".aside/x",
            "log\\x",
            "C:x",
            "log/ä",
            "log/a b",
            "log/\0",
            "log/%2e%2e",
            "log/\n",
            &long,
        ];
        names.map(str::to_owned).to_vec()
    }
}
