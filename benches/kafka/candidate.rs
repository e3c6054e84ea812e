//! The jobs `window` and `passthrough` of the comparison with other systems, on Cofferdam.
//!
//! Everything comes from the environment, as for every peer: `BOOTSTRAP`, `INPUT`, `OUTPUT`, `JOB`, `PARALLELISM`,
//! `CHECKPOINT_MS`, `EXPECT_END`, `STATE_DIR`, `RUN_ID`, `COMPRESSION`.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cofferdam::{
    DirectoryCheckpointStore, EventTime, NoEventTime, Pipeline, Timestamp, WindowResult, Windows,
    count, sum,
};
use cofferdam_kafka::{
    DecodeError, Decoder, EncodeError, Encoder, KafkaConnection, KafkaRecord, KafkaSink,
    KafkaSource, OutgoingRecord,
};

/// For librdkafka too, whose threads allocate what ours free: the allocator of glibc takes locks for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WINDOW: Duration = Duration::from_secs(10);
const LATENESS: Duration = Duration::from_secs(2);

/// Text of at most 31 bytes, in place: names of users are short, and there are millions of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
struct Name {
    length: u8,
    bytes: [u8; 31],
}

impl Name {
    fn new(text: &[u8]) -> Result<Self, DecodeError> {
        let mut bytes = [0; 31];
        bytes
            .get_mut(..text.len())
            .ok_or("a name is longer than 31 bytes")?
            .copy_from_slice(text);
        Ok(Self {
            length: text.len() as u8,
            bytes,
        })
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// What the window job reads of an event.
#[derive(Debug, Clone, Copy)]
struct Event {
    user: Name,
    cents: i64,
    at: i64,
}

/// Reads events by their known form, as the readers of the peers do; what has another form goes to serde.
#[derive(Debug)]
struct Events;

impl Decoder for Events {
    type Output = Event;

    fn decode(&self, record: KafkaRecord<'_>) -> Result<Option<Event>, DecodeError> {
        record.value().map(event).transpose()
    }
}

fn event(json: &[u8]) -> Result<Event, DecodeError> {
    #[derive(serde::Deserialize)]
    struct Whole<'a> {
        user: &'a str,
        amount_cents: i64,
        ts: i64,
    }
    if let Some(event) = known_form(json) {
        return Ok(event);
    }
    let Whole {
        user,
        amount_cents,
        ts,
    } = serde_json::from_slice(json)?;
    Ok(Event {
        user: Name::new(user.as_bytes())?,
        cents: amount_cents,
        at: ts,
    })
}

/// `{"user":"…","item":"…","amount_cents":n,"ts":n}`, without white space and escapes.
fn known_form(json: &[u8]) -> Option<Event> {
    let (user, rest) = text(json.strip_prefix(b"{\"user\":\"")?)?;
    let (_, rest) = text(rest.strip_prefix(b",\"item\":\"")?)?;
    let (cents, rest) = number(rest.strip_prefix(b",\"amount_cents\":")?)?;
    let (at, rest) = number(rest.strip_prefix(b",\"ts\":")?)?;
    (rest == b"}").then_some(())?;
    Some(Event {
        user: Name::new(user).ok()?,
        cents,
        at,
    })
}

/// Up to the closing quote.
fn text(json: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = json
        .iter()
        .position(|byte| *byte == b'"' || *byte == b'\\')?;
    (json[end] == b'"').then(|| (&json[..end], &json[end + 1..]))
}

fn number(json: &[u8]) -> Option<(i64, &[u8])> {
    let digits = json.iter().take_while(|byte| byte.is_ascii_digit()).count();
    // More than 18 digits may not fit.
    (1..=18).contains(&digits).then_some(())?;
    let value = json[..digits]
        .iter()
        .fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
    Some((value, &json[digits..]))
}

/// Writes results as `{"user":"u1","window_start":ms,"count":n,"sum_cents":n}`, with the user as key.
#[derive(Debug)]
struct Results;

impl Encoder<WindowResult<Name, (u64, i64)>> for Results {
    fn encode(
        &self,
        result: &WindowResult<Name, (u64, i64)>,
        record: &mut OutgoingRecord,
    ) -> Result<(), EncodeError> {
        use std::io::Write;
        let (user, (count, cents)) = (result.key.as_bytes(), result.value);
        record.key().extend_from_slice(user);
        let value = record.value();
        value.extend_from_slice(b"{\"user\":\"");
        value.extend_from_slice(user);
        let start = result.start.as_millis();
        write!(
            value,
            "\",\"window_start\":{start},\"count\":{count},\"sum_cents\":{cents}}}"
        )?;
        Ok(())
    }
}

/// A record as it is, in one piece.
#[derive(Debug)]
struct Whole {
    key_length: Option<usize>,
    bytes: Box<[u8]>,
}

#[derive(Debug)]
struct AsItIs;

impl Decoder for AsItIs {
    type Output = Whole;

    fn decode(&self, record: KafkaRecord<'_>) -> Result<Option<Whole>, DecodeError> {
        let (key, value) = (record.key(), record.value().ok_or("a record has no value")?);
        let mut bytes = Vec::with_capacity(key.map_or(0, <[u8]>::len) + value.len());
        bytes.extend_from_slice(key.unwrap_or_default());
        bytes.extend_from_slice(value);
        Ok(Some(Whole {
            key_length: key.map(<[u8]>::len),
            bytes: bytes.into(),
        }))
    }
}

impl Encoder<Whole> for AsItIs {
    fn encode(&self, whole: &Whole, record: &mut OutgoingRecord) -> Result<(), EncodeError> {
        let length = whole.key_length.unwrap_or(0);
        if whole.key_length.is_some() {
            record.key().extend_from_slice(&whole.bytes[..length]);
        }
        record.value().extend_from_slice(&whole.bytes[length..]);
        Ok(())
    }
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|_| format!("{name} is not set"))
}

async fn run() -> Result<(), Box<dyn Error>> {
    let kafka = KafkaConnection::new(variable("BOOTSTRAP")?);
    let (input, output) = (variable("INPUT")?, variable("OUTPUT")?);
    let name = format!("job-{}", variable("RUN_ID")?);
    let bounded = variable("EXPECT_END")? == "1";
    let compression = variable("COMPRESSION").unwrap_or_else(|_| "none".to_owned());
    let pipeline = Pipeline::new(name);
    let pipeline = match variable("JOB")?.as_str() {
        "window" => {
            let source = KafkaSource::with(&kafka, [input], Events);
            let source = if bounded { source.bounded() } else { source };
            let sink =
                KafkaSink::with(&kafka, output, Results).option("compression.type", compression);
            pipeline
                .source(
                    "events",
                    source,
                    EventTime::of(|event: &Event| Timestamp::from_millis(event.at))
                        .out_of_order_by(LATENESS),
                )
                .key_by(|event| event.user)
                .window(Windows::tumbling(WINDOW))
                .aggregate("totals", (count(), sum(|event: &Event| event.cents)))
                .filter(|result| result.key.as_bytes() != b"__end__")
                .sink("results", sink)
        }
        "passthrough" => {
            let source = KafkaSource::with(&kafka, [input], AsItIs);
            let source = if bounded { source.bounded() } else { source };
            let sink =
                KafkaSink::with(&kafka, output, AsItIs).option("compression.type", compression);
            pipeline
                .source("events", source, NoEventTime)
                .sink("records", sink)
        }
        other => return Err(format!("there is no job {other}").into()),
    };
    let checkpoints =
        DirectoryCheckpointStore::open(PathBuf::from(variable("STATE_DIR")?).join("checkpoints"))?;
    pipeline
        .job(checkpoints)
        .parallelism(variable("PARALLELISM")?.parse()?)
        .checkpoint_interval(Duration::from_millis(variable("CHECKPOINT_MS")?.parse()?))
        .stop_on_ctrl_c()
        .run()
        .await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  caused by: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}
