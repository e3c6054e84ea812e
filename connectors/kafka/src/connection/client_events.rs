//! What librdkafka tells besides records: its log, and that it needs a token.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;
use tracing::{debug, error, info, warn};

use super::security::{Mechanism, TokenSource};
use super::{BearerToken, KafkaConnection};

/// The context of a client of librdkafka: passes its log on, and gets tokens when it asks for one.
pub(crate) struct ClientEvents {
    tokens: Option<Arc<dyn TokenSource>>,
}

impl fmt::Debug for ClientEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientEvents").finish_non_exhaustive()
    }
}

impl ClientEvents {
    pub(crate) fn new(connection: &KafkaConnection) -> Self {
        let sasl = connection.settings.sasl.as_ref();
        let tokens = sasl.and_then(|sasl| match &sasl.mechanism {
            Mechanism::OauthBearer(tokens) => Some(Arc::clone(tokens)),
            _ => None,
        });
        Self { tokens }
    }
}

impl ClientContext for ClientEvents {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    /// What librdkafka calls an error is mostly a connection that it opens again, and no more than a warning here: what
    /// stops the job is told by an error of ours.
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        use RDKafkaLogLevel as Level;
        match level {
            Level::Emerg | Level::Alert | Level::Critical => {
                error!(target: "librdkafka", facility, "{message}");
            }
            Level::Error | Level::Warning => warn!(target: "librdkafka", facility, "{message}"),
            Level::Notice | Level::Info => info!(target: "librdkafka", facility, "{message}"),
            Level::Debug => debug!(target: "librdkafka", facility, "{message}"),
        }
    }

    /// The same is in the log, and reaches whoever polls.
    fn error(&self, error: KafkaError, reason: &str) {
        debug!(target: "librdkafka", %error, "{reason}");
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        let tokens = self.tokens.as_ref().ok_or("no source of tokens is set")?;
        // librdkafka takes the message as a C string.
        let token = tokens
            .token()
            .map_err(|error| error.to_string().replace('\0', " "))?;
        Ok(oauth_token(&token))
    }
}

impl ConsumerContext for ClientEvents {}

fn oauth_token(token: &BearerToken) -> OAuthToken {
    let expires = token.expires.duration_since(UNIX_EPOCH).unwrap_or_default();
    OAuthToken {
        token: token.token.reveal().to_owned(),
        principal_name: token.principal.clone(),
        lifetime_ms: i64::try_from(expires.as_millis()).unwrap_or(i64::MAX),
    }
}

/// How much librdkafka is to say: what a subscriber of `tracing` would hear, as it knows of the `log` crate only.
pub(super) fn log_level() -> RDKafkaLogLevel {
    if tracing::enabled!(target: "librdkafka", tracing::Level::DEBUG) {
        RDKafkaLogLevel::Debug
    } else if tracing::enabled!(target: "librdkafka", tracing::Level::INFO) {
        RDKafkaLogLevel::Info
    } else {
        RDKafkaLogLevel::Warning
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't go on panics")]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::connection::Sasl;

    struct Tokens(Result<(), &'static str>);

    impl TokenSource for Tokens {
        fn token(&self) -> Result<BearerToken, Box<dyn Error + Send + Sync>> {
            self.0?;
            let expires = UNIX_EPOCH + Duration::from_millis(1_234);
            Ok(BearerToken::new("secret", "orders", expires))
        }
    }

    fn events(tokens: Tokens) -> ClientEvents {
        ClientEvents::new(&KafkaConnection::new("nowhere:1").sasl(Sasl::oauth_bearer(tokens)))
    }

    #[test]
    fn a_token_is_handed_over_as_the_source_gave_it() {
        let token = events(Tokens(Ok(()))).generate_oauth_token(None).unwrap();
        assert_eq!(
            (&*token.token, &*token.principal_name, token.lifetime_ms),
            ("secret", "orders", 1_234)
        );
    }

    #[test]
    fn why_there_is_no_token_is_told_without_breaking_a_c_string() {
        let refused = events(Tokens(Err("down\0for now"))).generate_oauth_token(None);
        assert_eq!(refused.err().unwrap().to_string(), "down for now");
        let events = ClientEvents::new(&KafkaConnection::new("nowhere:1"));
        assert!(events.generate_oauth_token(None).is_err());
    }

    #[test]
    fn a_token_from_before_the_epoch_has_ended() {
        let expires = UNIX_EPOCH - Duration::from_secs(1);
        assert!(expires < SystemTime::now());
        assert_eq!(
            oauth_token(&BearerToken::new("t", "p", expires)).lifetime_ms,
            0
        );
    }
}
