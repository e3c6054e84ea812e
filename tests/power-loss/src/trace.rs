//! System calls, as `strace -f -xx` writes them down.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// What to trace: all calls that change a file, a name or a descriptor. `?`: not every machine has them all.
pub const CALLS: &str = "trace=?open,?creat,openat,?openat2,close,?dup,?dup2,dup3,fcntl,\
    write,pwrite64,writev,pwritev,?pwritev2,?truncate,ftruncate,fallocate,copy_file_range,sendfile,splice,\
    fsync,fdatasync,sync_file_range,?mkdir,mkdirat,?rmdir,?unlink,unlinkat,?link,linkat,?symlink,symlinkat,\
    ?rename,?renameat,renameat2";

/// A call that took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Opened a file or folder.
    Open {
        /// What.
        path: PathBuf,
        /// It may have been created by this.
        create: bool,
        /// It was emptied.
        truncate: bool,
        /// Writes go to its end.
        append: bool,
        /// What stands for it from now on.
        descriptor: i32,
    },
    /// Let go of a descriptor. Placed where the call began: another thread may get the number before it returns.
    Close(i32),
    /// A second descriptor of the same file.
    Duplicate {
        /// The first.
        from: i32,
        /// The second.
        to: i32,
    },
    /// Wrote bytes: all that are here.
    Write {
        /// Where to.
        descriptor: i32,
        /// At which offset, if not where the last write ended.
        at: Option<usize>,
        /// What.
        bytes: Vec<u8>,
    },
    /// Changed the length of a file.
    Truncate {
        /// Of which.
        descriptor: i32,
        /// To how many bytes.
        length: usize,
    },
    /// Began to sync a file or folder. What comes after this is not covered.
    SyncBegins(i32),
    /// Has synced it: ends the [`Call::SyncBegins`] of the same thread.
    Sync(i32),
    /// Created a folder.
    MakeFolder(PathBuf),
    /// Removed a folder.
    RemoveFolder(PathBuf),
    /// Gave a file a second name.
    Link(PathBuf, PathBuf),
    /// Moved a file to another name, at which it replaced whatever was there.
    Rename(PathBuf, PathBuf),
    /// Removed a name.
    Unlink(PathBuf),
    /// Something else. Whoever meets it on a disk of interest must not go on as if it were nothing.
    Unmodelled {
        /// The call as text.
        text: String,
        /// The descriptors and other small numbers in it.
        descriptors: Vec<i32>,
        /// The paths in it.
        paths: Vec<PathBuf>,
    },
}

/// A call with the thread that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The thread.
    pub thread: u32,
    /// Its call.
    pub call: Call,
}

/// A line that is not understood.
#[derive(Debug, PartialEq, Eq)]
pub struct TraceError(pub String);

/// Reads a trace, in the order in which calls returned.
///
/// # Errors
/// If a line is not what `strace -f -xx` writes, or its data was cut.
pub fn parse(text: &str) -> Result<Vec<Step>, TraceError> {
    let mut steps = Vec::new();
    let mut unfinished: BTreeMap<u32, &str> = BTreeMap::new();
    for line in text.lines() {
        let refuse = || TraceError(line.to_owned());
        let (thread, event) = line.split_once(' ').ok_or_else(refuse)?;
        let thread = thread.parse().map_err(|_| refuse())?;
        let mut push = |call| steps.push(Step { thread, call });
        let event = event.trim_start();
        if event.starts_with("+++") || event.starts_with("---") {
            continue;
        }
        if let Some(begun) = event.strip_suffix("<unfinished ...>") {
            began(begun).into_iter().for_each(&mut push);
            unfinished.insert(thread, begun.trim_end());
        } else if let Some(resumed) = event.strip_prefix("<... ") {
            let (_, rest) = resumed.split_once(" resumed>").ok_or_else(refuse)?;
            let begun = unfinished.remove(&thread).ok_or_else(refuse)?;
            ended(&format!("{begun}{rest}"))?.map(&mut push);
        } else {
            began(event).into_iter().for_each(&mut push);
            ended(event)?.map(&mut push);
        }
    }
    Ok(steps)
}

/// What already counts when a call begins.
fn began(text: &str) -> Option<Call> {
    let (name, arguments) = text.split_once('(')?;
    let descriptor = || arguments.trim_end().split([',', ')']).next()?.parse().ok();
    match name {
        "close" => descriptor().map(Call::Close),
        "fsync" | "fdatasync" => descriptor().map(Call::SyncBegins),
        _ => None,
    }
}

/// What counts when a call has returned; nothing if it failed, or died with its process.
fn ended(text: &str) -> Result<Option<Call>, TraceError> {
    let refuse = || TraceError(text.to_owned());
    let (name, rest) = text.split_once('(').ok_or_else(refuse)?;
    // No text but that in quotes can hold a parenthesis, and there all is hexadecimal.
    let (arguments, result) = rest.split_once(')').ok_or_else(refuse)?;
    let result = result.trim_start().strip_prefix("= ").ok_or_else(refuse)?;
    let result = result.split_whitespace().next().ok_or_else(refuse)?;
    if result == "?" {
        return Ok(None);
    }
    let result = match result.strip_prefix("0x") {
        Some(hexadecimal) => i64::from_str_radix(hexadecimal, 16),
        None => result.parse(),
    };
    let result = result.map_err(|_| refuse())?;
    if result < 0 {
        return Ok(None);
    }
    let call = Arguments::of(arguments).and_then(|arguments| arguments.call(name, result));
    call.map_err(|()| refuse()).map(|call| match call {
        Some(Call::Unmodelled {
            descriptors, paths, ..
        }) => Some(Call::Unmodelled {
            text: text.to_owned(),
            descriptors,
            paths,
        }),
        call => call,
    })
}

/// The arguments of a call.
struct Arguments<'a> {
    fields: Vec<&'a str>,
    /// Those in quotes.
    strings: Vec<Vec<u8>>,
}

impl<'a> Arguments<'a> {
    fn of(text: &'a str) -> Result<Self, ()> {
        // Strings that were cut end in dots.
        if text.contains("\"...") {
            return Err(());
        }
        let strings = text.split('"').skip(1).step_by(2).map(bytes);
        Ok(Self {
            fields: text.split(", ").collect(),
            strings: strings.collect::<Result<_, ()>>()?,
        })
    }

    fn number<T: TryFrom<i64>>(&self, at: usize) -> Result<T, ()> {
        let number: i64 = self.fields.get(at).ok_or(())?.parse().map_err(|_| ())?;
        T::try_from(number).map_err(|_| ())
    }

    fn paths(&self) -> Vec<PathBuf> {
        let path = |bytes: &Vec<u8>| PathBuf::from(OsString::from_vec(bytes.clone()));
        self.strings.iter().map(path).collect()
    }

    fn has(&self, flag: &str) -> bool {
        let mut flags = self.fields.iter().flat_map(|field| field.split('|'));
        flags.any(|found| found == flag)
    }

    fn call(&self, name: &str, result: i64) -> Result<Option<Call>, ()> {
        let whole = usize::try_from(result).map_err(|_| ())?;
        let path = || self.paths().into_iter().next().ok_or(());
        let pair = || <[PathBuf; 2]>::try_from(self.paths()).map_err(|_| ());
        // Then it does not matter which folder a call starts from.
        let plain = self.paths().iter().all(|path| path.is_absolute());
        let call = match name {
            "open" | "openat" if plain => Call::Open {
                path: path()?,
                create: self.has("O_CREAT"),
                truncate: self.has("O_TRUNC"),
                append: self.has("O_APPEND"),
                descriptor: i32::try_from(result).map_err(|_| ())?,
            },
            "dup" | "dup2" | "dup3" => Call::Duplicate {
                from: self.number(0)?,
                to: i32::try_from(result).map_err(|_| ())?,
            },
            "fcntl" if self.has("F_DUPFD") || self.has("F_DUPFD_CLOEXEC") => Call::Duplicate {
                from: self.number(0)?,
                to: i32::try_from(result).map_err(|_| ())?,
            },
            "write" | "writev" | "pwrite64" => {
                let mut bytes = self.strings.concat();
                bytes.truncate(whole);
                let at = (name == "pwrite64").then(|| self.number(3)).transpose()?;
                Call::Write {
                    descriptor: self.number(0)?,
                    at,
                    bytes,
                }
            }
            "ftruncate" => Call::Truncate {
                descriptor: self.number(0)?,
                length: self.number(1)?,
            },
            "fsync" | "fdatasync" => Call::Sync(self.number(0)?),
            "mkdir" | "mkdirat" if plain => Call::MakeFolder(path()?),
            "rmdir" => Call::RemoveFolder(path()?),
            "unlinkat" if plain && self.has("AT_REMOVEDIR") => Call::RemoveFolder(path()?),
            "unlink" | "unlinkat" if plain => Call::Unlink(path()?),
            "link" | "linkat" if plain => pair().map(|[from, to]| Call::Link(from, to))?,
            "rename" | "renameat" if plain => pair().map(|[from, to]| Call::Rename(from, to))?,
            "renameat2" if plain && self.fields.last() == Some(&"0") => {
                pair().map(|[from, to]| Call::Rename(from, to))?
            }
            // Their effect, if any, was noted when they began, or there is none.
            "close" | "fcntl" => return Ok(None),
            _ => Call::Unmodelled {
                text: String::new(),
                descriptors: (0..self.fields.len())
                    .filter_map(|at| self.number(at).ok())
                    .collect(),
                paths: self.paths(),
            },
        };
        Ok(Some(call))
    }
}

/// Reads `\x61\x62`.
fn bytes(text: &str) -> Result<Vec<u8>, ()> {
    let mut fields = text.split("\\x");
    if fields.next() != Some("") {
        return Err(());
    }
    fields
        .map(|field| u8::from_str_radix(field, 16).map_err(|_| ()))
        .collect()
}
