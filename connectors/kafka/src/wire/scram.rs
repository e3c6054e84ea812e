//! The client's side of SCRAM (RFC 5802), without channel binding.

use openssl::base64::{decode_block, encode_block};
use openssl::hash::{MessageDigest, hash};
use openssl::memcmp;
use openssl::pkcs5::pbkdf2_hmac;
use openssl::pkey::PKey;
use openssl::rand::rand_bytes;
use openssl::sign::Signer;

/// Fewer rounds than this and the exchange gives the password away; Kafka's own minimum.
const LEAST_ITERATIONS: usize = 4096;

/// A conversation, between its first message and its last.
pub(super) struct Scram {
    digest: MessageDigest,
    password: String,
    nonce: String,
    first_bare: String,
}

impl Scram {
    /// Begins with a random nonce.
    pub(super) fn new(digest: MessageDigest, user: &str, password: &str) -> Result<Self, String> {
        let mut random = [0; 24];
        rand_bytes(&mut random).map_err(|error| error.to_string())?;
        Ok(Self::with_nonce(
            digest,
            user,
            password,
            encode_block(&random),
        ))
    }

    fn with_nonce(digest: MessageDigest, user: &str, password: &str, nonce: String) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Self {
            digest,
            password: password.to_owned(),
            first_bare: format!("n={user},r={nonce}"),
            nonce,
        }
    }

    /// The client's first message.
    pub(super) fn first(&self) -> String {
        format!("n,,{}", self.first_bare)
    }

    /// The client's last message, in answer to the server's first; and what proves the server, which has to be in
    /// its last.
    pub(super) fn last(&self, server_first: &str) -> Result<(String, String), String> {
        let nonce = attribute(server_first, 'r')?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err("the server's nonce does not go on from ours".to_owned());
        }
        let salt = decode_block(attribute(server_first, 's')?)
            .map_err(|_| "the server's salt is no base64".to_owned())?;
        let iterations: usize = attribute(server_first, 'i')?
            .parse()
            .map_err(|_| "the server's number of iterations is no number".to_owned())?;
        if iterations < LEAST_ITERATIONS {
            return Err(format!(
                "the server asks for {iterations} iterations, and {LEAST_ITERATIONS} are the least that is safe"
            ));
        }
        let bare = format!("c=biws,r={nonce}");
        let message = format!("{},{server_first},{bare}", self.first_bare);
        let proof = self.proofs(&salt, iterations, &message);
        let (client, server) = proof.map_err(|error| error.to_string())?;
        Ok((
            format!("{bare},p={}", encode_block(&client)),
            encode_block(&server),
        ))
    }

    /// Whether the server's last message proves that it knows the password too.
    pub(super) fn verify(server_last: &str, proof: &str) -> Result<(), String> {
        if let Ok(error) = attribute(server_last, 'e') {
            return Err(error.to_owned());
        }
        let given = attribute(server_last, 'v')?;
        match given.len() == proof.len() && memcmp::eq(given.as_bytes(), proof.as_bytes()) {
            true => Ok(()),
            false => Err("the server does not know the password".to_owned()),
        }
    }

    fn proofs(
        &self,
        salt: &[u8],
        iterations: usize,
        message: &str,
    ) -> Result<(Vec<u8>, Vec<u8>), openssl::error::ErrorStack> {
        let mut salted = vec![0; self.digest.size()];
        pbkdf2_hmac(
            self.password.as_bytes(),
            salt,
            iterations,
            self.digest,
            &mut salted,
        )?;
        let client_key = self.hmac(&salted, b"Client Key")?;
        let stored_key = hash(self.digest, &client_key)?;
        let signature = self.hmac(&stored_key, message.as_bytes())?;
        let client = client_key
            .iter()
            .zip(&signature)
            .map(|(key, signature)| key ^ signature);
        let server_key = self.hmac(&salted, b"Server Key")?;
        Ok((
            client.collect(),
            self.hmac(&server_key, message.as_bytes())?,
        ))
    }

    fn hmac(&self, key: &[u8], message: &[u8]) -> Result<Vec<u8>, openssl::error::ErrorStack> {
        Signer::new(self.digest, &*PKey::hmac(key)?)?.sign_oneshot_to_vec(message)
    }
}

/// The value of an attribute of a message.
fn attribute(message: &str, name: char) -> Result<&str, String> {
    message
        .split(',')
        .find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
        .ok_or_else(|| format!("the server's message has no {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677.
    #[test]
    fn the_example_of_the_rfc() {
        let scram = Scram::with_nonce(
            MessageDigest::sha256(),
            "user",
            "pencil",
            "rOprNGfwEbeRWgbNEkqO".to_owned(),
        );
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let server = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let (last, proof) = scram.last(server).expect("it goes on");
        assert_eq!(
            last,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        Scram::verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", &proof)
            .expect("it is proven");
    }

    #[test]
    fn a_server_that_can_not_be_trusted_is_refused() {
        let scram = Scram::with_nonce(MessageDigest::sha256(), "user", "pencil", "ours".to_owned());
        for server in [
            "",
            "r=ours,s=AAAA,i=4096",
            "r=theirs,s=AAAA,i=4096",
            "r=ours+theirs,s=AAAA,i=1",
            "r=ours+theirs,s=?,i=4096",
            "r=ours+theirs,s=AAAA,i=many",
            "r=ours+theirs,i=4096",
        ] {
            assert!(scram.last(server).is_err(), "{server}");
        }
        let (_, proof) = scram
            .last("r=ours+theirs,s=AAAA,i=4096")
            .expect("it goes on");
        for last in ["", "v=", "v=AAAA", "e=other-error"] {
            assert!(Scram::verify(last, &proof).is_err(), "{last}");
        }
    }
}
