//! TLS: the served certificate, its fingerprint, and how a client verifies the server.

use crate::files::Files;
use platform::{Error, ErrorKind, Result};
use rcgen::{CertificateParams, DnType, KeyPair, SanType, date_time_ymd};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, ring as provider, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The generated certificate in the state folder.
const CERTIFICATE: &str = "manage-certificate.pem";
const KEY: &str = "manage-key.pem";

/// The files of a certificate and its key.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The certificate and its chain, as PEM.
    pub certificate: PathBuf,
    /// The private key, as PEM.
    pub key: PathBuf,
}

/// The certificate and key of a server.
pub(crate) struct Identity {
    pub(crate) config: Arc<ServerConfig>,
    /// SHA-256 of the certificate.
    pub(crate) fingerprint: String,
    /// Whether the certificate was generated at this start.
    pub(crate) is_new: bool,
    /// Why the previous certificate is not used.
    pub(crate) damage: Option<Damage>,
}

/// An unusable file of the state folder, which was renamed.
pub(crate) struct Damage {
    /// Its name.
    pub(crate) file: &'static str,
    /// The reason: the end of a sentence.
    pub(crate) why: String,
    /// The result of the renaming.
    pub(crate) sentence: String,
}

impl Identity {
    /// The certificate of the given files, or that of the state folder. The latter is generated if
    /// it is missing or unusable, because it must not prevent the start of volumes. `names`: the
    /// server's names for a generated one.
    ///
    /// # Errors
    /// When given files are unusable, or no certificate can be generated.
    pub(crate) fn load(
        given: Option<&CertificateFiles>,
        state: &Path,
        names: &[String],
    ) -> Result<Identity> {
        if let Some(given) = given {
            return Identity::read(given).map_err(|Unusable { file, why }| {
                let sentence = format!(
                    "cannot use {} as PEM ({why}); give other files with --manage-certificate and \
                        --manage-key",
                    file.display()
                );
                Error::new(ErrorKind::WrongKind, sentence)
            });
        }
        let own = CertificateFiles { certificate: state.join(CERTIFICATE), key: state.join(KEY) };
        let mut damage = None;
        if own.certificate.exists() && own.key.exists() {
            match Identity::read(&own) {
                Ok(identity) => return Ok(identity),
                Err(unusable) => damage = Some(put_pair_aside(state, &own, unusable)?),
            }
        }
        make(state, names)?;
        let made = Identity::read(&own)
            .map_err(|Unusable { file, why }| failed(format!("{}: {why}", file.display())))?;
        Ok(Identity { is_new: true, damage, ..made })
    }

    fn read(files: &CertificateFiles) -> std::result::Result<Identity, Unusable> {
        let unusable = |file: &Path, why: String| Unusable { file: file.to_owned(), why };
        let chain = CertificateDer::pem_file_iter(&files.certificate)
            .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
            .map_err(|error| unusable(&files.certificate, error.to_string()))?;
        let first = chain
            .first()
            .ok_or_else(|| unusable(&files.certificate, "the file is empty".to_owned()))?;
        let fingerprint = fingerprint(first);
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .map_err(|error| unusable(&files.key, error.to_string()))?;
        let config = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| unusable(&files.certificate, error.to_string()))?;
        Ok(Identity { config: Arc::new(config), fingerprint, is_new: false, damage: None })
    }
}

/// An unusable certificate or key.
struct Unusable {
    file: PathBuf,
    /// The end of a sentence.
    why: String,
}

/// Renames a certificate and its key: one without the other is useless.
///
/// # Errors
/// When they cannot be renamed: then they are not replaced.
fn put_pair_aside(state: &Path, own: &CertificateFiles, unusable: Unusable) -> Result<Damage> {
    let Unusable { file, why } = unusable;
    let name = if file == own.key { KEY } else { CERTIFICATE };
    let files = Files::new(state);
    let sentence = files.set_aside(name, &why);
    let other = if name == KEY { CERTIFICATE } else { KEY };
    let other = files.set_aside(other, "its counterpart is unusable");
    if own.key.exists() || own.certificate.exists() {
        return Err(failed(format!("{sentence}; {other}")));
    }
    Ok(Damage { file: name, why, sentence })
}

fn failed(why: String) -> Error {
    let sentence = format!(
        "cannot generate a certificate ({why}); give one with --manage-certificate and --manage-key"
    );
    Error::new(ErrorKind::System, sentence)
}

/// Generates a self-signed certificate. Clients verify its fingerprint, so it does not expire.
fn make(state: &Path, names: &[String]) -> Result<()> {
    let mut params = CertificateParams::default();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(9999, 12, 31);
    params.distinguished_name.push(DnType::CommonName, "SoftROC");
    for name in names {
        let name = match name.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => match name.as_str().try_into() {
                Ok(name) => SanType::DnsName(name),
                // A host name that certificates cannot contain is left out.
                Err(_) => continue,
            },
        };
        params.subject_alt_names.push(name);
    }
    let key = KeyPair::generate().map_err(|error| failed(error.to_string()))?;
    let certificate = params.self_signed(&key).map_err(|error| failed(error.to_string()))?;
    let own = Files::new(state);
    own.store(KEY, key.serialize_pem().as_bytes())?;
    own.store(CERTIFICATE, certificate.pem().as_bytes())
}

/// SHA-256 of a certificate, in the format of browsers and openssl.
fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let bytes: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    bytes.join(":")
}

/// A client configuration that accepts any certificate: encrypted, but without protection against
/// an impostor.
pub(crate) fn anybody() -> std::result::Result<ClientConfig, String> {
    trusting(None, None)
}

/// Builds a client configuration from a file of trusted certificates.
pub(crate) type MakeConfig = fn(&str) -> std::result::Result<ClientConfig, String>;

/// The authorities that this machine trusts: the file from `SSL_CERT_FILE`, or Debian's default.
pub(crate) fn authorities() -> String {
    std::env::var("SSL_CERT_FILE")
        .unwrap_or_else(|_| "/etc/ssl/certs/ca-certificates.crt".to_owned())
}

/// A client configuration that verifies servers by the authorities of a file and their host name.
pub(crate) fn vouched_for(file: &str) -> std::result::Result<ClientConfig, String> {
    let unreadable = |why: String| format!("cannot read certificates from {file}: {why}");
    let certificates =
        CertificateDer::pem_file_iter(file).map_err(|error| unreadable(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    // A machine's store may have certificates that are not valid authorities.
    roots.add_parsable_certificates(certificates.filter_map(std::result::Result::ok));
    trusting(Some(Vec::new()), Some((roots, &unreadable)))
}

/// How a client verifies the server.
#[derive(Clone, Debug)]
pub enum Trust {
    /// By the SHA-256 of its certificate, with or without colons.
    Fingerprint(String),
    /// By a certificate or authority: a PEM file.
    File(PathBuf),
}

/// The client configuration for this trust.
pub(crate) fn client(trust: &Trust) -> std::result::Result<ClientConfig, String> {
    match trust {
        Trust::Fingerprint(text) => {
            let digits: String =
                text.chars().filter(|c| *c != ':').collect::<String>().to_ascii_lowercase();
            if digits.len() != 64 || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
                return Err(format!(
                    "'{text}' is not a fingerprint; expected the 64 digits from the output of \
                     'softroc serve --manage'"
                ));
            }
            trusting(Some(vec![digits]), None)
        }
        Trust::File(file) => {
            let unreadable =
                |why: String| format!("cannot read certificates from {}: {why}", file.display());
            let (mut roots, mut exact) = (RootCertStore::empty(), Vec::new());
            let certificates = CertificateDer::pem_file_iter(file)
                .map_err(|error| unreadable(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
                exact.push(digits(&certificate));
                roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
            }
            trusting(Some(exact), Some((roots, &unreadable)))
        }
    }
}

/// Authorities, and the text of an error about them.
type Authorities<'a> = (RootCertStore, &'a dyn Fn(String) -> String);

/// A client configuration that trusts exactly these certificates (`None`: any), and those signed by
/// the authorities.
fn trusting(
    exact: Option<Vec<String>>,
    authorities: Option<Authorities<'_>>,
) -> std::result::Result<ClientConfig, String> {
    let provider = Arc::new(provider::default_provider());
    let also = authorities.map(|(roots, unreadable)| {
        if roots.is_empty() {
            return Err(unreadable("no certificate found".to_owned()));
        }
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| unreadable(error.to_string()))
    });
    let also = also.transpose()?;
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let verifier = Arc::new(CertificateVerifier { exact, also, provider });
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// The digits of a fingerprint without separators.
fn digits(certificate: &CertificateDer<'_>) -> String {
    fingerprint(certificate).replace(':', "").to_ascii_lowercase()
}

/// Trusts exactly these certificates, whatever their content, and those signed by authorities.
#[derive(Debug)]
struct CertificateVerifier {
    /// `None`: any.
    exact: Option<Vec<String>>,
    also: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for CertificateVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        if self.exact.as_ref().is_none_or(|exact| exact.contains(&digits(certificate))) {
            return Ok(ServerCertVerified::assertion());
        }
        match &self.also {
            Some(also) => also.verify_server_cert(certificate, between, name, ocsp, now),
            None => Err(rustls::Error::General(format!(
                "the server has a different certificate: its fingerprint is {}",
                fingerprint(certificate)
            ))),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::{CERTIFICATE, CertificateFiles, Identity, KEY};
    use std::path::PathBuf;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("softroc-tls-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    /// Regression: a key that a power cut had filled with zeros prevented the start of the
    /// controller and all volumes.
    #[test]
    fn a_damaged_certificate_or_key_is_kept_aside_and_made_anew() {
        let names = ["localhost".to_owned()];
        for (file, damage) in
            [(KEY, &b"\0\0\0\0"[..]), (KEY, b""), (CERTIFICATE, b"no PEM"), (CERTIFICATE, b"")]
        {
            let state = folder("damaged");
            let first = Identity::load(None, &state, &names).expect("made");
            assert!(first.is_new && first.damage.is_none());
            std::fs::write(state.join(file), damage).expect("it can be written");
            let second = Identity::load(None, &state, &names).expect("made anew");
            assert!(second.is_new && second.fingerprint != first.fingerprint);
            let told = second.damage.expect("it says why");
            assert_eq!(told.file, file);
            assert!(
                told.sentence.contains(&format!("it is kept as {file}.unreadable-1")),
                "{}",
                told.sentence
            );
            let aside =
                std::fs::read(state.join(format!("{file}.unreadable-1"))).expect("it is kept");
            assert_eq!(aside, damage);
            let third = Identity::load(None, &state, &names).expect("read");
            assert!(!third.is_new && third.fingerprint == second.fingerprint);
            std::fs::remove_dir_all(&state).expect("removed");
        }
    }

    /// Files from the operator are never replaced.
    #[test]
    fn given_files_that_cannot_be_used_are_refused() {
        let state = folder("given");
        let file = state.join("mine.pem");
        std::fs::write(&file, b"no PEM").expect("it can be written");
        let given = CertificateFiles { certificate: file.clone(), key: file.clone() };
        let refused = Identity::load(Some(&given), &state, &[]).err().expect("refused");
        assert!(refused.to_string().contains("mine.pem"), "{refused}");
        assert!(!state.join(KEY).exists(), "none is made");
        std::fs::remove_dir_all(&state).expect("removed");
    }
}
