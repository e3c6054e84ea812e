//! All brokers of a cluster: who answers for what, with connections that are kept.

use std::collections::HashMap;
use std::future::Future;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{FindCoordinatorRequest, MetadataRequest, MetadataResponse};
use kafka_protocol::protocol::{Request, StrBytes};
use tokio::time::Instant;

use super::connection::{Connection, name};
use super::error::WireError;
use crate::connection::KafkaConnection;

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(5);

/// The longest wait for one answer, so that a silent broker leaves time to ask another.
const PATIENCE_OF_A_CALL: Duration = Duration::from_secs(5);

/// How long a topic may be missing before it is: not all brokers know at once of one that was just made.
pub(crate) const SPREADING: Duration = Duration::from_secs(2);

/// Who coordinates what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Coordinator {
    /// The offsets of a group.
    Group = 0,
    /// The transactions of a transactional id.
    Transaction = 1,
}

/// When an operation has to be over, however many calls it makes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    patience: Duration,
}

impl Deadline {
    pub(crate) fn after(patience: Duration) -> Self {
        Self {
            at: Instant::now() + patience,
            patience,
        }
    }

    /// What is left, for one call.
    fn left(&self) -> Duration {
        self.at
            .saturating_duration_since(Instant::now())
            .min(PATIENCE_OF_A_CALL)
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.at
    }

    /// Waits a little before the next try. When the time is over, says so, with what the last try met.
    pub(crate) async fn pause(
        &self,
        request: &'static str,
        last: WireError,
    ) -> Result<(), WireError> {
        if Instant::now() + PAUSE >= self.at {
            return Err(self.over(request, Some(last)));
        }
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }

    fn over(&self, request: &'static str, last: Option<WireError>) -> WireError {
        WireError::TimedOut {
            request,
            address: None,
            seconds: self.patience.as_secs(),
            last: last.map(Box::new),
        }
    }
}

/// A cluster. Shared by all who speak to it.
#[derive(Debug)]
pub(crate) struct Cluster {
    connection: KafkaConnection,
    id: OnceLock<String>,
    idle: Mutex<HashMap<String, Vec<Connection>>>,
    coordinators: Mutex<HashMap<(Coordinator, Arc<str>), String>>,
}

impl Cluster {
    pub(crate) fn new(connection: KafkaConnection) -> Self {
        Self {
            connection,
            id: OnceLock::new(),
            idle: Mutex::default(),
            coordinators: Mutex::default(),
        }
    }

    pub(crate) fn connection(&self) -> &KafkaConnection {
        &self.connection
    }

    /// The deadline of an operation that begins now.
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(self.connection.settings.patience)
    }

    /// Sends a request to a broker, in the newest of `versions` that both know.
    ///
    /// Cancel safety: a dropped call closes its connection; whether the request was done is unknown.
    pub(crate) async fn call<R: Request>(
        &self,
        address: &str,
        request: &R,
        versions: RangeInclusive<i16>,
        deadline: Deadline,
    ) -> Result<R::Response, WireError> {
        let call = async {
            let mut connection = self.take(address).await?;
            let version = connection.version::<R>(&versions)?;
            let answer = connection.call_at_version(request, version).await?;
            self.give_back(connection);
            Ok(answer)
        };
        in_time(name::<R>(), address, deadline, call).await
    }

    /// The newest version of a request, out of `versions`, that a broker knows.
    pub(crate) async fn version_of<R: Request>(
        &self,
        address: &str,
        versions: RangeInclusive<i16>,
        deadline: Deadline,
    ) -> Result<i16, WireError> {
        let ask = async {
            let connection = self.take(address).await?;
            let version = connection.version::<R>(&versions);
            self.give_back(connection);
            version
        };
        in_time("ApiVersions", address, deadline, ask).await
    }

    /// A connection to a broker: one that was kept, or a new one.
    async fn take(&self, address: &str) -> Result<Connection, WireError> {
        let kept = lock(&self.idle).get_mut(address).and_then(Vec::pop);
        match kept {
            Some(connection) => Ok(connection),
            None => Connection::open(address, &self.connection.settings).await,
        }
    }

    /// Keeps a connection that has no answer to come.
    fn give_back(&self, connection: Connection) {
        let mut idle = lock(&self.idle);
        idle.entry(connection.address().to_owned())
            .or_default()
            .push(connection);
    }

    /// Sends a request to whichever broker answers.
    pub(crate) async fn call_any<R: Request>(
        &self,
        request: &R,
        versions: RangeInclusive<i16>,
        deadline: Deadline,
    ) -> Result<R::Response, WireError> {
        let mut last = None;
        loop {
            for address in &self.connection.settings.bootstrap {
                match self
                    .call(address, request, versions.clone(), deadline)
                    .await
                {
                    Err(error) if error.is_retriable() => {
                        self.forget(address);
                        // A try that the end of the time cut short says less than the one before.
                        if last.is_none() || !deadline.is_over() {
                            last = Some(error);
                        }
                    }
                    answer => return answer,
                }
            }
            if deadline.is_over() {
                return Err(deadline.over(name::<R>(), last));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Closes the kept connections to a broker, and asks anew who coordinates what.
    pub(crate) fn forget(&self, address: &str) {
        lock(&self.idle).remove(address);
        lock(&self.coordinators).retain(|_, coordinator| coordinator != address);
    }

    /// Brokers, partitions and the id of the cluster.
    pub(crate) async fn metadata(
        &self,
        request: &MetadataRequest,
        deadline: Deadline,
    ) -> Result<MetadataResponse, WireError> {
        self.call_any(request, 9..=12, deadline).await
    }

    /// The id of the cluster, which tells it from any other.
    pub(crate) async fn id(&self, deadline: Deadline) -> Result<String, WireError> {
        if let Some(id) = self.id.get() {
            return Ok(id.clone());
        }
        let nothing = MetadataRequest::default().with_topics(Some(Vec::new()));
        let answer = self.metadata(&nothing, deadline).await?;
        let id = answer
            .cluster_id
            .map(|id| id.to_string())
            .unwrap_or_default();
        Ok(self.id.get_or_init(|| id).clone())
    }

    /// The addresses of all brokers.
    pub(crate) async fn brokers(&self, deadline: Deadline) -> Result<Vec<String>, WireError> {
        let nothing = MetadataRequest::default().with_topics(Some(Vec::new()));
        let answer = self.metadata(&nothing, deadline).await?;
        let brokers = answer.brokers.iter();
        Ok(brokers
            .map(|broker| format!("{}:{}", broker.host.as_str(), broker.port))
            .collect())
    }

    /// Sends a request to the coordinator of `key`. `code` finds the error in the answer; where that says that another
    /// broker coordinates now, or that this one can't answer yet, it is asked again.
    pub(crate) async fn call_coordinator<R: Request>(
        &self,
        (kind, key): (Coordinator, &str),
        request: &R,
        versions: RangeInclusive<i16>,
        deadline: Deadline,
        code: impl Fn(&R::Response) -> i16,
    ) -> Result<R::Response, WireError> {
        loop {
            let address = self.coordinator(kind, key, deadline).await?;
            let failed = match self
                .call(&address, request, versions.clone(), deadline)
                .await
            {
                Ok(answer) => match code(&answer) {
                    code if is_elsewhere(code) => WireError::Refused {
                        what: format!("{} at {address}", name::<R>()),
                        code,
                    },
                    _ => return Ok(answer),
                },
                Err(error) if error.is_retriable() => error,
                Err(error) => return Err(error),
            };
            self.forget(&address);
            deadline.pause(name::<R>(), failed).await?;
        }
    }

    /// The keys by the address of their coordinators, asked in one request.
    pub(crate) async fn coordinators(
        &self,
        kind: Coordinator,
        keys: &[String],
        deadline: Deadline,
    ) -> Result<HashMap<String, Vec<String>>, WireError> {
        let names = keys
            .iter()
            .map(|key| StrBytes::from_string(key.clone()))
            .collect();
        let request = FindCoordinatorRequest::default()
            .with_key_type(kind as i8)
            .with_coordinator_keys(names);
        'ask: loop {
            let answer = self.call_any(&request, 4..=6, deadline).await?;
            let mut coordinators: HashMap<String, Vec<String>> = HashMap::new();
            for found in answer.coordinators {
                if found.error_code != 0 {
                    let what = format!("no coordinator of {}", found.key.as_str());
                    let code = found.error_code;
                    let refused = WireError::Refused { what, code };
                    if !is_elsewhere(code) {
                        return Err(refused);
                    }
                    deadline.pause("FindCoordinator", refused).await?;
                    continue 'ask;
                }
                let address = format!("{}:{}", found.host.as_str(), found.port);
                coordinators
                    .entry(address)
                    .or_default()
                    .push(found.key.to_string());
            }
            return Ok(coordinators);
        }
    }

    /// The address of a coordinator.
    pub(crate) async fn coordinator(
        &self,
        kind: Coordinator,
        key: &str,
        deadline: Deadline,
    ) -> Result<String, WireError> {
        let known = lock(&self.coordinators)
            .get(&(kind, Arc::from(key)))
            .cloned();
        if let Some(address) = known {
            return Ok(address);
        }
        let found = self.coordinators(kind, &[key.to_owned()], deadline).await?;
        let address = found.into_keys().next().ok_or_else(|| WireError::Refused {
            what: format!("no coordinator of {key}"),
            code: ResponseError::CoordinatorNotAvailable.code(),
        })?;
        lock(&self.coordinators).insert((kind, Arc::from(key)), address.clone());
        Ok(address)
    }
}

/// Waits for an answer as long as one call may take.
async fn in_time<T>(
    request: &'static str,
    address: &str,
    deadline: Deadline,
    call: impl Future<Output = Result<T, WireError>>,
) -> Result<T, WireError> {
    let left = deadline.left();
    match tokio::time::timeout(left, call).await {
        Ok(answer) => answer,
        Err(_) => Err(WireError::TimedOut {
            request,
            address: Some(address.to_owned()),
            seconds: left.as_secs(),
            last: None,
        }),
    }
}

/// Whether the answer is to be had somewhere else, or a little later.
fn is_elsewhere(code: i16) -> bool {
    use ResponseError::{CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator};
    let error = ResponseError::try_from_code(code);
    matches!(
        error,
        Some(CoordinatorLoadInProgress | CoordinatorNotAvailable | NotCoordinator)
    )
}

/// Nothing under these locks panics, so a poisoned one holds no half-done change.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
