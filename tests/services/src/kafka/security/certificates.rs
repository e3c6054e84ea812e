//! Certificates in PEM, made with `openssl` at each start: nothing that expires is kept anywhere.

use super::{CERTIFICATE_USER, KEY_PASSWORD};
use crate::{ServiceError, programs};
use std::fs;
use std::path::Path;
use std::process::Command;

pub(super) const AUTHORITY: &str = "authority.pem";
pub(super) const CLIENT: &str = "client.pem";
pub(super) const CLIENT_KEY: &str = "client.key";
pub(super) const ENCRYPTED_CLIENT_KEY: &str = "client-encrypted.key";
/// The server's key and certificate in one file, as Kafka wants them.
pub(super) const SERVER_STORE: &str = "server-store.pem";

const AUTHORITY_KEY: &str = "authority.key";
const SERVER: &str = "server.pem";
const SERVER_KEY: &str = "server.key";
/// In place of the machine's, which may add extensions of its own.
const CONFIGURATION: &str = "openssl.cnf";

/// Makes them all, in a new folder.
pub(super) fn write(folder: &Path) -> Result<(), ServiceError> {
    fs::create_dir(folder).map_err(ServiceError::io("create", folder))?;
    let write = |name: &str, text: String| {
        fs::write(folder.join(name), text).map_err(ServiceError::io("write", folder.join(name)))
    };
    let read = |name: &str| {
        fs::read_to_string(folder.join(name)).map_err(ServiceError::io("read", folder.join(name)))
    };
    write(
        CONFIGURATION,
        "[req]\ndistinguished_name = name\n[name]\n".to_owned(),
    )?;

    certificate(
        folder,
        "Cofferdam's tests",
        AUTHORITY,
        AUTHORITY_KEY,
        &[
            "basicConstraints=critical,CA:TRUE",
            "keyUsage=critical,keyCertSign,cRLSign",
        ],
        &[],
    )?;
    let signed = ["-CA", AUTHORITY, "-CAkey", AUTHORITY_KEY];
    certificate(
        folder,
        "localhost",
        SERVER,
        SERVER_KEY,
        &[
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "extendedKeyUsage=serverAuth,clientAuth",
        ],
        &signed,
    )?;
    certificate(
        folder,
        CERTIFICATE_USER,
        CLIENT,
        CLIENT_KEY,
        &["extendedKeyUsage=clientAuth"],
        &signed,
    )?;
    openssl(
        folder,
        [
            "pkcs8",
            "-topk8",
            "-v2",
            "aes-256-cbc",
            "-in",
            CLIENT_KEY,
            "-out",
            ENCRYPTED_CLIENT_KEY,
            "-passout",
            &format!("pass:{KEY_PASSWORD}"),
        ],
    )?;
    write(SERVER_STORE, read(SERVER_KEY)? + &read(SERVER)?)
}

fn certificate(
    folder: &Path,
    name: &str,
    file: &str,
    key: &str,
    extensions: &[&str],
    authority: &[&str],
) -> Result<(), ServiceError> {
    let subject = format!("/CN={name}");
    let fixed = [
        "req",
        "-x509",
        "-config",
        CONFIGURATION,
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "30",
    ];
    let named = ["-subj", &subject, "-out", file, "-keyout", key];
    let added = extensions
        .iter()
        .flat_map(|extension| ["-addext", extension]);
    openssl(
        folder,
        fixed
            .into_iter()
            .chain(named)
            .chain(authority.iter().copied())
            .chain(added),
    )
}

fn openssl<'a>(
    folder: &Path,
    arguments: impl IntoIterator<Item = &'a str>,
) -> Result<(), ServiceError> {
    programs::run(
        Command::new("openssl").args(arguments).current_dir(folder),
        "making certificates",
        "openssl",
        "openssl",
    )
    .map(drop)
}
