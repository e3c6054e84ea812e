use super::{Kafka, jars, java};
use crate::ServiceError;

/// What a user may do to a [`Resource`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are Kafka's own words")]
pub enum Operation {
    All,
    Alter,
    AlterConfigs,
    Create,
    Delete,
    Describe,
    DescribeConfigs,
    IdempotentWrite,
    Read,
    TwoPhaseCommit,
    Write,
}

/// What a rule is about. A name of `*` stands for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'a> {
    /// The cluster as a whole.
    Cluster,
    /// A topic.
    Topic(&'a str),
    /// All topics that begin so.
    Topics(&'a str),
    /// A consumer group.
    Group(&'a str),
    /// All consumer groups that begin so.
    Groups(&'a str),
    /// A transactional id.
    TransactionalId(&'a str),
    /// All transactional ids that begin so.
    TransactionalIds(&'a str),
}

impl<'a> Resource<'a> {
    fn arguments(self) -> Vec<&'a str> {
        const LITERAL: [&str; 2] = ["--resource-pattern-type", "literal"];
        const PREFIXED: [&str; 2] = ["--resource-pattern-type", "prefixed"];
        let (kind, name, pattern) = match self {
            Self::Cluster => return vec!["--cluster"],
            Self::Topic(name) => ("--topic", name, LITERAL),
            Self::Topics(name) => ("--topic", name, PREFIXED),
            Self::Group(name) => ("--group", name, LITERAL),
            Self::Groups(name) => ("--group", name, PREFIXED),
            Self::TransactionalId(name) => ("--transactional-id", name, LITERAL),
            Self::TransactionalIds(name) => ("--transactional-id", name, PREFIXED),
        };
        [&[kind, name], pattern.as_slice()].concat()
    }
}

/// Rules of access on the guarded listeners. Each call takes a second or two, and brokers follow a moment later.
impl Kafka {
    /// Allows a user something.
    ///
    /// # Errors
    ///
    /// If the cluster has no guarded listeners, or does not answer.
    pub fn allow(
        &self,
        user: &str,
        operations: &[Operation],
        resource: Resource<'_>,
    ) -> Result<(), ServiceError> {
        self.change_access(
            &["--add"],
            &["--allow-principal"],
            user,
            operations,
            resource,
        )
    }

    /// Forbids a user something, whatever is allowed.
    ///
    /// # Errors
    ///
    /// As [`Self::allow`].
    pub fn deny(
        &self,
        user: &str,
        operations: &[Operation],
        resource: Resource<'_>,
    ) -> Result<(), ServiceError> {
        self.change_access(
            &["--add"],
            &["--deny-principal"],
            user,
            operations,
            resource,
        )
    }

    /// Takes back what was allowed and forbidden in these words.
    ///
    /// # Errors
    ///
    /// As [`Self::allow`].
    pub fn take_back(
        &self,
        user: &str,
        operations: &[Operation],
        resource: Resource<'_>,
    ) -> Result<(), ServiceError> {
        self.change_access(
            &["--remove", "--force"],
            &["--allow-principal", "--deny-principal"],
            user,
            operations,
            resource,
        )
    }

    fn change_access(
        &self,
        change: &[&str],
        kinds: &[&str],
        user: &str,
        operations: &[Operation],
        resource: Resource<'_>,
    ) -> Result<(), ServiceError> {
        let principal = format!("User:{user}");
        let operations: Vec<String> = operations
            .iter()
            .map(|operation| format!("{operation:?}"))
            .collect();
        let bootstrap = self.bootstrap();
        let mut arguments = vec![self.version.access_tool(), "--bootstrap-server", &bootstrap];
        arguments.extend(change);
        arguments.extend(kinds.iter().flat_map(|kind| [*kind, &principal]));
        arguments.extend(
            operations
                .iter()
                .flat_map(|operation| ["--operation", operation]),
        );
        arguments.extend(resource.arguments());
        let command = java::command(
            &jars::fetch(self.version)?,
            self.folder.path(),
            &["-XX:TieredStopAtLevel=1"],
            &arguments,
        );
        java::run(&command, "a change of access rules").map(drop)
    }
}
