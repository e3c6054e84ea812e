//! A job from topic to topic, the rights that it needs, and who runs it.

use std::error::Error;
use std::time::{Duration, SystemTime};

use cofferdam::memory::{MemorySink, MemorySource};
use cofferdam::{
    Fence, Job, JobError, JobReport, MemoryCheckpointStore, NoEventTime, Pipeline, RestartStrategy,
};
use cofferdam_kafka::{
    BearerToken, KafkaConnection, KafkaSink, KafkaSource, PreparedTransaction, Sasl, TokenSource,
};
use openssl::base64::encode_block;

use crate::broker::{sasl_ssl, unique};
use crate::rules::{Kind, Operation, Pattern, Right};

/// Unsigned tokens of one user, made by hand.
#[derive(Debug, Clone)]
pub struct Tokens {
    pub user: String,
}

impl Tokens {
    pub fn text(&self) -> String {
        let part = |text: &str| {
            let text = encode_block(text.as_bytes());
            text.trim_end_matches('=')
                .replace('+', "-")
                .replace('/', "_")
        };
        // Ends in 2100.
        let claims = format!(
            "{{\"sub\":\"{}\",\"iat\":1600000000,\"exp\":4102444800}}",
            self.user
        );
        format!("{}.{}.", part("{\"alg\":\"none\"}"), part(&claims))
    }
}

impl TokenSource for Tokens {
    fn token(&self) -> Result<BearerToken, Box<dyn Error + Send + Sync>> {
        let expires = SystemTime::now() + Duration::from_secs(3600);
        Ok(BearerToken::new(self.text(), &*self.user, expires))
    }
}

/// A user of a test's own, who is allowed nothing yet.
pub fn user() -> (String, KafkaConnection) {
    let user = unique("user");
    let tokens = Tokens { user: user.clone() };
    (user, sasl_ssl().sasl(Sasl::oauth_bearer(tokens)))
}

/// What a job reads and writes, under which names.
#[derive(Debug, Clone)]
pub struct Work {
    pub name: String,
    pub input: String,
    pub output: String,
    pub group: String,
    pub checkpoints: MemoryCheckpointStore,
}

impl Work {
    pub fn new(input: &str, output: &str) -> Self {
        Self {
            name: unique("job"),
            input: input.to_owned(),
            output: output.to_owned(),
            group: unique("group"),
            checkpoints: MemoryCheckpointStore::new(),
        }
    }

    /// The table of `docs/operations.md`: what the sink needs.
    pub fn rights_of_sink(&self) -> Vec<Right> {
        let own = format!("cofferdam.{}.", self.name);
        vec![
            right(
                Operation::Write,
                Kind::TransactionalId,
                Pattern::Prefix,
                &own,
            ),
            right(
                Operation::Write,
                Kind::Topic,
                Pattern::Literal,
                &self.output,
            ),
            right(Operation::Read, Kind::Topic, Pattern::Literal, &self.output),
            right(Operation::Read, Kind::Group, Pattern::Prefix, &own),
        ]
    }

    /// What the source needs.
    pub fn rights_of_source(&self) -> Vec<Right> {
        vec![
            right(Operation::Read, Kind::Topic, Pattern::Literal, &self.input),
            right(Operation::Read, Kind::Group, Pattern::Literal, &self.group),
        ]
    }

    pub fn rights(&self) -> Vec<Right> {
        [self.rights_of_sink(), self.rights_of_source()].concat()
    }

    /// From topic to topic. The first failure ends it.
    pub fn job(&self, kafka: &KafkaConnection, bounded: bool) -> Job {
        let source = KafkaSource::utf8(kafka, [&*self.input]).group(&*self.group);
        let source = match bounded {
            true => source.bounded(),
            false => source,
        };
        Pipeline::new(&*self.name)
            .source("from", source, NoEventTime)
            .sink("to", KafkaSink::bytes(kafka, &*self.output))
            .job(self.checkpoints.clone())
            .checkpoint_interval(Duration::from_millis(100))
            .restart(RestartStrategy::Never)
    }

    /// From memory to the output.
    pub async fn write(
        &self,
        kafka: &KafkaConnection,
        texts: Vec<String>,
    ) -> Result<JobReport, JobError> {
        Pipeline::new(&*self.name)
            .source("from", MemorySource::new([texts]), NoEventTime)
            .sink("to", KafkaSink::bytes(kafka, &*self.output))
            .job(self.checkpoints.clone())
            .restart(RestartStrategy::Never)
            .run()
            .await
    }

    /// From the input into memory.
    pub async fn read(&self, kafka: &KafkaConnection) -> Result<Vec<String>, JobError> {
        let sink = MemorySink::new();
        let source = KafkaSource::utf8(kafka, [&*self.input]).group(&*self.group);
        Pipeline::new(unique("read"))
            .source("from", source.bounded(), NoEventTime)
            .sink("to", sink.clone())
            .job(MemoryCheckpointStore::new())
            .restart(RestartStrategy::Never)
            .run()
            .await?;
        let mut texts: Vec<String> = sink.visible();
        texts.sort();
        Ok(texts)
    }
}

fn right(operation: Operation, kind: Kind, pattern: Pattern, name: &str) -> Right {
    Right {
        operation,
        kind,
        pattern,
        name: name.to_owned(),
    }
}

/// The line that the first run of a job draws.
pub fn fence(job: &str) -> Fence<PreparedTransaction> {
    let job = cofferdam::JobId::new(job).expect("a name");
    let sink = cofferdam::SinkId::new("to").expect("a name");
    Fence::new(job, sink, cofferdam::Epoch(1))
}

/// An error with all that is behind it, as a log would have it.
pub fn told(error: &(dyn Error + 'static)) -> String {
    match error.source() {
        None => error.to_string(),
        Some(cause) => format!("{error}: {}", told(cause)),
    }
}
