//! Signing in (KIP-152, KIP-255).

use bytes::Bytes;
use kafka_protocol::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};
use kafka_protocol::protocol::StrBytes;
use openssl::hash::MessageDigest;

use super::connection::Connection;
use super::error::{WireError, name_of};
use super::scram::Scram;
use crate::connection::{BearerToken, Credentials, Mechanism};

/// Signs in on a new connection.
pub(super) async fn sign_in(
    connection: &mut Connection,
    mechanism: &Mechanism,
) -> Result<(), WireError> {
    let refused = |connection: &Connection, reason: String| WireError::Authentication {
        address: connection.address().to_owned(),
        mechanism: mechanism.name(),
        reason,
    };
    let handshake =
        SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str(mechanism.name()));
    let answer = connection.call_at_version(&handshake, 1).await?;
    if answer.error_code != 0 {
        let offered: Vec<&str> = answer.mechanisms.iter().map(StrBytes::as_str).collect();
        let reason = format!(
            "{}; it offers {}",
            name_of(answer.error_code),
            offered.join(", ")
        );
        return Err(refused(connection, reason));
    }
    let outcome = match mechanism {
        Mechanism::Plain(Credentials { user, password }) => {
            exchange(connection, format!("\0{user}\0{}", password.reveal()))
                .await
                .map(drop)
        }
        Mechanism::ScramSha256(credentials) => {
            scram(connection, MessageDigest::sha256(), credentials).await
        }
        Mechanism::ScramSha512(credentials) => {
            scram(connection, MessageDigest::sha512(), credentials).await
        }
        Mechanism::OauthBearer(tokens) => match tokens.token() {
            Err(error) => Err(Failure::Refused(format!("no token: {error}"))),
            Ok(token) => bearer(connection, &token).await,
        },
    };
    outcome.map_err(|failure| match failure {
        Failure::Wire(error) => error,
        Failure::Refused(reason) => refused(connection, reason),
    })
}

/// Why it did not work.
enum Failure {
    Wire(WireError),
    Refused(String),
}

/// Sends a message of the mechanism and returns the server's.
async fn exchange(connection: &mut Connection, message: String) -> Result<Bytes, Failure> {
    let request = SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from(message));
    let answer = connection.call(&request).await.map_err(Failure::Wire)?;
    match answer.error_code {
        0 => Ok(answer.auth_bytes),
        code => {
            let said = answer.error_message.as_ref().map_or("", StrBytes::as_str);
            Err(Failure::Refused(format!("{}: {said}", name_of(code))))
        }
    }
}

async fn scram(
    connection: &mut Connection,
    digest: MessageDigest,
    Credentials { user, password }: &Credentials,
) -> Result<(), Failure> {
    let scram = Scram::new(digest, user, password.reveal()).map_err(Failure::Refused)?;
    let first = text(&exchange(connection, scram.first()).await?)?;
    let (last, proof) = scram.last(&first).map_err(Failure::Refused)?;
    let last = text(&exchange(connection, last).await?)?;
    Scram::verify(&last, &proof).map_err(Failure::Refused)
}

async fn bearer(connection: &mut Connection, token: &BearerToken) -> Result<(), Failure> {
    let message = format!("n,,\u{1}auth=Bearer {}\u{1}\u{1}", token.token.reveal());
    let answer = exchange(connection, message).await?;
    // An error comes as JSON in an answer that is no error yet (RFC 7628, 3.2.2); success is empty.
    match answer.is_empty() {
        true => Ok(()),
        false => Err(Failure::Refused(text(&answer)?)),
    }
}

fn text(bytes: &Bytes) -> Result<String, Failure> {
    String::from_utf8(bytes.to_vec())
        .map_err(|_| Failure::Refused("the server's message is no text".to_owned()))
}
