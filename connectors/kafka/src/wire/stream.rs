//! A connection to a broker: TCP, or TLS over it.

use std::io;
use std::pin::Pin;

use openssl::pkey::PKey;
use openssl::ssl::{SslConnector, SslMethod};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_openssl::SslStream;

use super::error::WireError;
use crate::connection::{Secret, Tls};

/// Bytes to and from a broker.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects, and comes to terms on encryption.
pub(super) async fn open(address: &str, tls: Option<&Tls>) -> Result<Box<dyn Stream>, WireError> {
    let refused = |cause| WireError::Connect {
        address: address.to_owned(),
        cause,
    };
    let stream = TcpStream::connect(address).await.map_err(refused)?;
    stream.set_nodelay(true).map_err(refused)?;
    let Some(tls) = tls else {
        return Ok(Box::new(stream));
    };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let session = connector(tls)?
        .configure()
        .and_then(|configuration| configuration.into_ssl(host))
        .map_err(|error| WireError::TlsSettings(error.to_string()))?;
    let mut stream = SslStream::new(session, stream)
        .map_err(|error| WireError::TlsSettings(error.to_string()))?;
    if let Err(error) = Pin::new(&mut stream).connect().await {
        let verified = stream.ssl().verify_result();
        let reason = match verified == openssl::x509::X509VerifyResult::OK {
            true => error.to_string(),
            false => format!("{}; {error}", verified.error_string()),
        };
        return Err(WireError::Tls {
            address: address.to_owned(),
            reason,
            broke_off: broke_off(&error),
        });
    }
    Ok(Box::new(stream))
}

/// Whether the other side went away without a word, rather than refused.
fn broke_off(error: &openssl::ssl::Error) -> bool {
    match error.ssl_error() {
        None => true,
        Some(stack) => (stack.errors().iter())
            .any(|error| error.reason() == Some("unexpected eof while reading")),
    }
}

/// The other side's refusal, if that is what broke a connection: in TLS 1.3 it judges our certificate after the
/// handshake.
pub(super) fn refusal(address: &str, cause: &io::Error) -> Option<WireError> {
    let error = cause.get_ref()?.downcast_ref::<openssl::ssl::Error>()?;
    (!broke_off(error)).then(|| WireError::Tls {
        address: address.to_owned(),
        reason: error.to_string(),
        broke_off: false,
    })
}

fn connector(tls: &Tls) -> Result<SslConnector, WireError> {
    let failed = |what: String| {
        move |error: openssl::error::ErrorStack| WireError::TlsSettings(format!("{what}: {error}"))
    };
    let mut builder =
        SslConnector::builder(SslMethod::tls_client()).map_err(failed("OpenSSL".to_owned()))?;
    if let Some(ca) = &tls.ca {
        builder
            .set_ca_file(ca)
            .map_err(failed(format!("authorities in {}", ca.display())))?;
    }
    if let Some(client) = &tls.client {
        builder
            .set_certificate_chain_file(&client.certificate)
            .map_err(failed(format!(
                "certificate in {}",
                client.certificate.display()
            )))?;
        let what = format!("key in {}", client.key.display());
        let pem = std::fs::read(&client.key)
            .map_err(|error| WireError::TlsSettings(format!("{what}: {error}")))?;
        let password = client.password.as_ref().map_or("", Secret::reveal);
        // Asked by a callback: without one OpenSSL would ask at the terminal.
        let key = PKey::private_key_from_pem_callback(&pem, |place| {
            let place = place.get_mut(..password.len());
            Ok(place.map_or(0, |place| {
                place.copy_from_slice(password.as_bytes());
                place.len()
            }))
        });
        let key = key.map_err(failed(what.clone()))?;
        builder.set_private_key(&key).map_err(failed(what))?;
    }
    Ok(builder.build())
}
