//! One connection to one broker, with one request under way at a time.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiVersionsRequest, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{
    Decodable, Encodable, HeaderVersion, Request, StrBytes, VersionRange,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::error::WireError;
use super::sasl;
use super::stream::{self, Stream};
use crate::connection::Settings;

/// A longer answer than this is none. The largest real ones list all transactions of a broker.
const LONGEST_ANSWER: usize = 64 << 20;

/// A connection that has signed in.
pub(super) struct Connection {
    address: String,
    client_id: StrBytes,
    stream: Box<dyn Stream>,
    correlation: i32,
    versions: HashMap<i16, VersionRange>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects, learns what the broker speaks, and signs in.
    pub(super) async fn open(address: &str, settings: &Settings) -> Result<Self, WireError> {
        let stream = match stream::open(address, settings.tls.as_ref()).await {
            Err(
                error @ WireError::Tls {
                    broke_off: true, ..
                },
            ) => return Err(Self::without_tls(address, settings, error).await),
            opened => opened?,
        };
        let mut connection = Self::greet(address, settings, stream).await?;
        if let Some(sasl) = &settings.sasl {
            sasl::sign_in(&mut connection, &sasl.mechanism).await?;
        }
        Ok(connection)
    }

    /// A handshake breaks off if the broker dies, or if the listener knows nothing of TLS: then it answers without.
    async fn without_tls(address: &str, settings: &Settings, error: WireError) -> WireError {
        let Ok(stream) = stream::open(address, None).await else {
            return error;
        };
        match Self::greet(address, settings, stream).await {
            Err(_) => error,
            Ok(_) => WireError::Tls {
                address: address.to_owned(),
                reason: "that listener does not speak it".to_owned(),
                broke_off: false,
            },
        }
    }

    /// Learns what the broker speaks.
    async fn greet(
        address: &str,
        settings: &Settings,
        stream: Box<dyn Stream>,
    ) -> Result<Self, WireError> {
        let mut connection = Self {
            address: address.to_owned(),
            client_id: StrBytes::from_string(settings.client_id.clone()),
            stream,
            correlation: 0,
            versions: HashMap::new(),
        };
        let hello = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("cofferdam"))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        let answer = connection.call_at_version(&hello, 3).await;
        let answer = answer.map_err(not_kafka)?;
        let ranges = answer.api_keys.iter();
        connection.versions = ranges
            .map(|api| {
                (
                    api.api_key,
                    VersionRange {
                        min: api.min_version,
                        max: api.max_version,
                    },
                )
            })
            .collect();
        Ok(connection)
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The newest version of a request, out of `versions`, that both sides know.
    pub(super) fn version<R: Request>(
        &self,
        versions: &RangeInclusive<i16>,
    ) -> Result<i16, WireError> {
        let (ours, theirs) = (R::VERSIONS, self.versions.get(&R::KEY));
        let newest = theirs.map(|theirs| theirs.max.min(ours.max).min(*versions.end()));
        match (newest, theirs) {
            (Some(newest), Some(theirs))
                if newest >= theirs.min.max(ours.min).max(*versions.start()) =>
            {
                Ok(newest)
            }
            _ => Err(WireError::Unsupported {
                address: self.address.clone(),
                request: name::<R>(),
                versions: versions.clone(),
            }),
        }
    }

    /// Sends a request in the newest version that both sides know, and waits for the answer.
    ///
    /// Cancel safety: none. After a future was dropped the connection is of no use, as the answer may still come.
    pub(super) async fn call<R: Request>(&mut self, request: &R) -> Result<R::Response, WireError> {
        let version = self.version::<R>(&(0..=i16::MAX))?;
        self.call_at_version(request, version).await
    }

    /// As [`call`](Self::call), in this version.
    pub(super) async fn call_at_version<R: Request>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Result<R::Response, WireError> {
        self.correlation = self.correlation.wrapping_add(1);
        let garbled = |address: &str, reason: String| WireError::Garbled {
            address: address.to_owned(),
            request: name::<R>(),
            reason,
        };
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation)
            .with_client_id(Some(self.client_id.clone()));
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        header
            .encode(&mut frame, R::header_version(version))
            .and_then(|()| request.encode(&mut frame, version))
            .map_err(|error| garbled(&self.address, format!("it can't be encoded: {error}")))?;
        let length = i32::try_from(frame.len() - 4)
            .map_err(|_| garbled(&self.address, "it is too long to be sent".to_owned()))?;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        let mut answer = self.exchange(&frame).await.map_err(|cause| {
            stream::refusal(&self.address, &cause).unwrap_or(WireError::Broken {
                address: self.address.clone(),
                request: name::<R>(),
                cause,
            })
        })?;
        let header = ResponseHeader::decode(&mut answer, R::Response::header_version(version))
            .map_err(|error| garbled(&self.address, error.to_string()))?;
        if header.correlation_id != self.correlation {
            return Err(garbled(
                &self.address,
                "it belongs to another request".to_owned(),
            ));
        }
        R::Response::decode(&mut answer, version)
            .map_err(|error| garbled(&self.address, error.to_string()))
    }

    async fn exchange(&mut self, frame: &[u8]) -> io::Result<Bytes> {
        self.stream.write_all(frame).await?;
        self.stream.flush().await?;
        let length = self.stream.read_i32().await?;
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= LONGEST_ANSWER);
        let length = length.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the answer has an impossible length",
            )
        })?;
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).await?;
        Ok(Bytes::from(answer))
    }
}

/// An answer to the first request of a connection that makes no sense was not damaged on its way: it is of another
/// protocol.
fn not_kafka(error: WireError) -> WireError {
    match error {
        WireError::Garbled {
            address, reason, ..
        } => WireError::NotKafka { address, reason },
        WireError::Broken { address, cause, .. } if cause.kind() == io::ErrorKind::InvalidData => {
            WireError::NotKafka {
                address,
                reason: cause.to_string(),
            }
        }
        error => error,
    }
}

/// The request's name in the protocol.
pub(super) fn name<R: Request>() -> &'static str {
    let path = std::any::type_name::<R>();
    let name = path.rsplit("::").next().unwrap_or(path);
    name.strip_suffix("Request").unwrap_or(name)
}
