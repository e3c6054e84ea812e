use std::io;
use std::path::PathBuf;

/// Why a service is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// A program that services need is not on this machine.
    #[error("{program} is missing: install it, on Debian with `apt-get install {package}`")]
    Missing {
        /// The program.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// The Java that is there is too old.
    #[error(
        "Java 17 or newer is needed, and this is {found}: `apt-get install default-jre-headless`"
    )]
    OldJava {
        /// What it says of itself.
        found: String,
    },
    /// A program that prepares something failed.
    #[error("{doing} failed:\n{output}")]
    Failed {
        /// What it was to do.
        doing: String,
        /// What it wrote, or the end of that.
        output: String,
    },
    /// A node ended while it started, or was not ready in time.
    #[error("node {node} {what}; its log ends with\n{log}")]
    NotReady {
        /// The node's number.
        node: usize,
        /// What it did instead.
        what: &'static str,
        /// The end of its log.
        log: String,
    },
    /// A node did not stop in time when it was asked to, and was killed.
    #[error("node {node} did not stop within {seconds} s and was killed; its log ends with\n{log}")]
    NotStopped {
        /// The node's number.
        node: usize,
        /// How long it had.
        seconds: u64,
        /// The end of its log.
        log: String,
    },
    /// There is no place for the jars: neither `XDG_CACHE_HOME` nor `HOME` is set.
    #[error("neither XDG_CACHE_HOME nor HOME says where jars can be kept")]
    NoCache,
    /// No free ports were found.
    #[error("no free ports on 127.0.0.1")]
    NoPorts,
    /// The operating system refused something.
    #[error("cannot {doing} {path}: {source}", path = .path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl ServiceError {
    pub(crate) fn io(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }
}
