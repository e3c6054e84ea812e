//! Certificates, passwords and tokens.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rdkafka::ClientConfig;

use super::secret::Secret;

/// TLS: which authorities to trust, and whose certificate to show.
///
/// The broker's certificate is checked always, its name included. Both clients use OpenSSL, so that what one of them
/// accepts the other accepts too.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) client: Option<ClientCertificate>,
}

/// A certificate to show to brokers, with its key.
#[derive(Debug, Clone)]
pub(crate) struct ClientCertificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) password: Option<Secret>,
}

impl Tls {
    /// Trusts the authorities of the operating system, and shows no certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the authorities in this file (PEM) instead.
    #[must_use]
    pub fn ca_file(mut self, path: impl AsRef<Path>) -> Self {
        self.ca = Some(path.as_ref().to_owned());
        self
    }

    /// Shows this certificate, for brokers that ask for one (mutual TLS). Both files are PEM; the certificate may be
    /// followed by those of its issuers.
    #[must_use]
    pub fn client_certificate(
        mut self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Self {
        self.client = Some(ClientCertificate {
            certificate: certificate.as_ref().to_owned(),
            key: key.as_ref().to_owned(),
            password: None,
        });
        self
    }

    /// As [`client_certificate`](Self::client_certificate), with a key that is encrypted by a password.
    #[must_use]
    pub fn encrypted_client_certificate(
        mut self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
        password: impl Into<String>,
    ) -> Self {
        self.client = Some(ClientCertificate {
            certificate: certificate.as_ref().to_owned(),
            key: key.as_ref().to_owned(),
            password: Some(Secret::new(password)),
        });
        self
    }

    pub(super) fn configure(&self, config: &mut ClientConfig) {
        if let Some(ca) = &self.ca {
            config.set("ssl.ca.location", ca.to_string_lossy());
        }
        if let Some(client) = &self.client {
            config.set(
                "ssl.certificate.location",
                client.certificate.to_string_lossy(),
            );
            config.set("ssl.key.location", client.key.to_string_lossy());
            if let Some(password) = &client.password {
                config.set("ssl.key.password", password.reveal());
            }
        }
    }
}

/// How to sign in.
#[derive(Debug, Clone)]
pub struct Sasl {
    pub(crate) mechanism: Mechanism,
}

/// A way to prove who one is.
#[derive(Clone)]
pub(crate) enum Mechanism {
    Plain(Credentials),
    ScramSha256(Credentials),
    ScramSha512(Credentials),
    OauthBearer(Arc<dyn TokenSource>),
}

/// A name and a password.
#[derive(Debug, Clone)]
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: Secret,
}

impl Credentials {
    fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            password: Secret::new(password),
        }
    }
}

impl Mechanism {
    /// The name in the protocol (RFC 4422).
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Plain(_) => "PLAIN",
            Self::ScramSha256(_) => "SCRAM-SHA-256",
            Self::ScramSha512(_) => "SCRAM-SHA-512",
            Self::OauthBearer(_) => "OAUTHBEARER",
        }
    }
}

impl fmt::Debug for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(credentials)
            | Self::ScramSha256(credentials)
            | Self::ScramSha512(credentials) => {
                f.debug_tuple(self.name()).field(credentials).finish()
            }
            Self::OauthBearer(_) => f.write_str(self.name()),
        }
    }
}

impl Sasl {
    /// PLAIN: the password itself goes to the broker, so TLS should be on.
    pub fn plain(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            mechanism: Mechanism::Plain(Credentials::new(user, password)),
        }
    }

    /// SCRAM with SHA-256 (RFC 7677).
    pub fn scram_sha_256(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            mechanism: Mechanism::ScramSha256(Credentials::new(user, password)),
        }
    }

    /// SCRAM with SHA-512.
    pub fn scram_sha_512(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            mechanism: Mechanism::ScramSha512(Credentials::new(user, password)),
        }
    }

    /// OAUTHBEARER (RFC 7628, KIP-255): asks the source for a token whenever one is needed.
    pub fn oauth_bearer(tokens: impl TokenSource) -> Self {
        Self {
            mechanism: Mechanism::OauthBearer(Arc::new(tokens)),
        }
    }

    pub(super) fn configure(&self, config: &mut ClientConfig) {
        config.set("sasl.mechanisms", self.mechanism.name());
        match &self.mechanism {
            Mechanism::Plain(credentials)
            | Mechanism::ScramSha256(credentials)
            | Mechanism::ScramSha512(credentials) => {
                config.set("sasl.username", &credentials.user);
                config.set("sasl.password", credentials.password.reveal());
            }
            Mechanism::OauthBearer(_) => {}
        }
    }
}

/// A token for OAUTHBEARER.
#[derive(Debug, Clone)]
pub struct BearerToken {
    pub(crate) token: Secret,
    pub(crate) principal: String,
    pub(crate) expires: SystemTime,
}

impl BearerToken {
    /// A token of this principal (its subject), and when it ends.
    pub fn new(
        token: impl Into<String>,
        principal: impl Into<String>,
        expires: SystemTime,
    ) -> Self {
        Self {
            token: Secret::new(token),
            principal: principal.into(),
            expires,
        }
    }
}

/// Where tokens for OAUTHBEARER come from.
pub trait TokenSource: Send + Sync + 'static {
    /// A token that is valid now. May block for some seconds.
    ///
    /// # Errors
    /// What kept it from getting one; it is shown, so it must not hold secrets.
    fn token(&self) -> Result<BearerToken, Box<dyn Error + Send + Sync>>;
}
