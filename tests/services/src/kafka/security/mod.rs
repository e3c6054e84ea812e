//! Listeners with TLS, passwords and certificates.

mod certificates;

use super::node::Ports;
use super::properties::Properties;
use crate::ServiceError;
use std::path::{Path, PathBuf};

/// What clients need to know of a cluster with guarded listeners.
///
/// Nobody but [`ADMINISTRATOR`] may do anything on them until [`Kafka::allow`](super::Kafka::allow) says so.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Security {
    /// The listeners for TLS with a name and password: `PLAIN`, `SCRAM-SHA-256` and `SCRAM-SHA-512` with any of
    /// [`USERS`], and `OAUTHBEARER` with unsigned tokens, whose subject is the user.
    pub sasl_ssl: String,
    /// The listeners for TLS with a client's certificate, whose common name is the user.
    pub mutual_tls: String,
    /// The certificate that all others are signed with.
    pub authority: PathBuf,
    /// The certificate of [`CERTIFICATE_USER`].
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Its key, encrypted with [`KEY_PASSWORD`].
    pub encrypted_key: PathBuf,
}

/// A name that authenticates with a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: &'static str,
    /// The password.
    pub password: &'static str,
}

/// May do everything.
pub const ADMINISTRATOR: User = User {
    name: "administrator",
    password: "administrator-password",
};
/// May do what a test allows.
pub const ALICE: User = User {
    name: "alice",
    password: "alice-password",
};
/// May do what a test allows, beside [`ALICE`].
pub const BOB: User = User {
    name: "bob",
    password: "bob-password",
};
/// Is known, and by custom never allowed anything.
pub const STRANGER: User = User {
    name: "stranger",
    password: "stranger-password",
};
/// All who have a password.
pub const USERS: [User; 4] = [ADMINISTRATOR, ALICE, BOB, STRANGER];
/// The user that the client's certificate names; without a password.
pub const CERTIFICATE_USER: &str = "certificate";
/// What the encrypted key is encrypted with.
pub const KEY_PASSWORD: &str = "key-password";

impl Security {
    /// Makes the certificates of a cluster in its folder.
    pub(super) fn prepare(cluster: &Path, ports: &[Ports]) -> Result<Self, ServiceError> {
        let folder = cluster.join("security");
        certificates::write(&folder)?;
        let listeners = |port: fn(&Ports) -> u16| {
            let addresses: Vec<String> = ports
                .iter()
                .map(|ports| format!("127.0.0.1:{}", port(ports)))
                .collect();
            addresses.join(",")
        };
        Ok(Self {
            sasl_ssl: listeners(|ports| ports.sasl_ssl),
            mutual_tls: listeners(|ports| ports.mutual_tls),
            authority: folder.join(certificates::AUTHORITY),
            certificate: folder.join(certificates::CLIENT),
            key: folder.join(certificates::CLIENT_KEY),
            encrypted_key: folder.join(certificates::ENCRYPTED_CLIENT_KEY),
        })
    }

    /// Adds the guarded listeners, and the rule that all is forbidden there. The plaintext listener's clients, among
    /// them the nodes themselves, stay above all rules.
    pub(super) fn extend(&self, properties: &mut Properties, ports: Ports) {
        const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
        let guarded = format!(
            ",SASL_SSL://127.0.0.1:{},SSL://127.0.0.1:{}",
            ports.sasl_ssl, ports.mutual_tls
        );
        for listeners in ["listeners", "advertised.listeners"] {
            properties
                .entry(listeners.to_owned())
                .or_default()
                .push_str(&guarded);
        }
        let folder = self.authority.parent().expect("it is a file");
        let plain: String = USERS
            .iter()
            .map(|user| format!(" user_{}=\"{}\"", user.name, user.password))
            .collect();
        let settings = [
            (
                "listener.security.protocol.map",
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL",
            ),
            ("ssl.keystore.type", "PEM"),
            (
                "ssl.keystore.location",
                &folder
                    .join(certificates::SERVER_STORE)
                    .display()
                    .to_string(),
            ),
            ("ssl.truststore.type", "PEM"),
            (
                "ssl.truststore.location",
                &self.authority.display().to_string(),
            ),
            ("listener.name.ssl.ssl.client.auth", "required"),
            ("ssl.principal.mapping.rules", "RULE:^CN=([^,]+).*$/$1/"),
            (
                "listener.name.sasl_ssl.sasl.enabled.mechanisms",
                "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            ),
            (
                "listener.name.sasl_ssl.plain.sasl.jaas.config",
                &format!(
                    "org.apache.kafka.common.security.plain.PlainLoginModule required{plain};"
                ),
            ),
            (
                "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config",
                SCRAM,
            ),
            (
                "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config",
                SCRAM,
            ),
            (
                "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config",
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"broker\";",
            ),
            (
                "authorizer.class.name",
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            ),
            ("allow.everyone.if.no.acl.found", "false"),
            (
                "super.users",
                &format!("User:ANONYMOUS;User:{}", ADMINISTRATOR.name),
            ),
        ];
        properties.extend(settings.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}

/// What the storage is formatted with, so that SCRAM's users are there from the first start.
pub(super) fn scram_users() -> impl Iterator<Item = String> {
    ["SCRAM-SHA-256", "SCRAM-SHA-512"]
        .into_iter()
        .flat_map(|mechanism| {
            USERS.into_iter().map(move |User { name, password }| {
                format!("{mechanism}=[name={name},password={password}]")
            })
        })
}
