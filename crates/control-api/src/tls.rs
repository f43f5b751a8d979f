//! TLS: the certificate that is served, its fingerprint, and how a client knows the server by it.

use crate::files::Files;
use world::{Error, ErrorKind, Result};
use rcgen::{CertificateParams, DnType, KeyPair, SanType, date_time_ymd};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A certificate that was made here, and its key, in the state folder.
const CERTIFICATE: &str = "manage-certificate.pem";
const KEY: &str = "manage-key.pem";

/// Where a certificate and its key are.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The certificate, and those that vouch for it, as PEM.
    pub certificate: PathBuf,
    /// Its key, as PEM.
    pub key: PathBuf,
}

/// What a server proves itself with.
pub(crate) struct Identity {
    pub(crate) config: Arc<ServerConfig>,
    /// SHA-256 of the certificate.
    pub(crate) fingerprint: String,
    /// Whether the certificate was made just now.
    pub(crate) is_new: bool,
}

impl Identity {
    /// The certificate of the files that are given; otherwise that of the state folder, which is made if there is none.
    /// `names`: what the server is called, for one that is made.
    pub(crate) fn load(given: Option<&CertificateFiles>, state: &Path, names: &[String]) -> Result<Identity> {
        let own = CertificateFiles { certificate: state.join(CERTIFICATE), key: state.join(KEY) };
        let is_new = given.is_none() && !(own.certificate.exists() && own.key.exists());
        if is_new {
            make(state, names)?;
        }
        let files = given.unwrap_or(&own);
        let unreadable = |file: &Path, why: String| {
            let sentence = format!(
                "cannot read {} as PEM ({why}); give other files with --manage-certificate and --manage-key",
                file.display()
            );
            Error::new(ErrorKind::WrongKind, sentence)
        };
        let chain = CertificateDer::pem_file_iter(&files.certificate)
            .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
            .map_err(|error| unreadable(&files.certificate, error.to_string()))?;
        let first = chain.first().ok_or_else(|| unreadable(&files.certificate, "it is empty".to_owned()))?;
        let fingerprint = fingerprint(first);
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .map_err(|error| unreadable(&files.key, error.to_string()))?;
        let config = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| unreadable(&files.certificate, error.to_string()))?;
        Ok(Identity { config: Arc::new(config), fingerprint, is_new })
    }
}

/// Makes a certificate that vouches for itself. Its fingerprint is how clients know it, so that it does not end.
fn make(state: &Path, names: &[String]) -> Result<()> {
    let failed = |why: String| {
        let sentence =
            format!("cannot make a certificate ({why}); give one with --manage-certificate and --manage-key");
        Error::new(ErrorKind::System, sentence)
    };
    let mut params = CertificateParams::default();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(9999, 12, 31);
    params.distinguished_name.push(DnType::CommonName, "SoftROC");
    for name in names {
        let name = match name.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => match name.as_str().try_into() {
                Ok(name) => SanType::DnsName(name),
                // A host name that no certificate can have is no reason for having none.
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

/// SHA-256 of a certificate, as browsers and openssl write it.
fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let bytes: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    bytes.join(":")
}

/// What a client needs to talk to whoever answers: what is said is hidden from others, and not from an impostor.
pub(crate) fn anybody() -> std::result::Result<ClientConfig, String> {
    trusting(None, None)
}

/// Makes what a client needs, of the certificates that are trusted.
pub(crate) type Making = fn(&str) -> std::result::Result<ClientConfig, String>;

/// The authorities that this machine trusts: the file that `SSL_CERT_FILE` names, as other programs take it, or that of Debian and its
/// relatives.
pub(crate) fn authorities() -> String {
    std::env::var("SSL_CERT_FILE").unwrap_or_else(|_| "/etc/ssl/certs/ca-certificates.crt".to_owned())
}

/// What a client needs to talk to those for whom authorities of a file vouch, by the name under which they are asked for.
pub(crate) fn vouched_for(file: &str) -> std::result::Result<ClientConfig, String> {
    let unreadable = |why: String| format!("cannot read certificates from {file}: {why}");
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| unreadable(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    // A machine's store may have some that are no authorities, or odd.
    roots.add_parsable_certificates(certificates.filter_map(std::result::Result::ok));
    trusting(Some(Vec::new()), Some((roots, &unreadable)))
}

/// How a client knows the server.
#[derive(Clone, Debug)]
pub enum Trust {
    /// By the SHA-256 of its certificate, with colons or without.
    Fingerprint(String),
    /// By a certificate, or one that vouches for it: a file of PEM.
    File(PathBuf),
}

/// What a client needs to talk to a server that it trusts by that.
pub(crate) fn client(trust: &Trust) -> std::result::Result<ClientConfig, String> {
    match trust {
        Trust::Fingerprint(text) => {
            let digits: String = text.chars().filter(|c| *c != ':').collect::<String>().to_ascii_lowercase();
            if digits.len() != 64 || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
                return Err(format!(
                    "'{text}' is no fingerprint; expected the 64 digits that 'softroc serve --manage' prints"
                ));
            }
            trusting(Some(vec![digits]), None)
        }
        Trust::File(file) => {
            let unreadable = |why: String| format!("cannot read certificates from {}: {why}", file.display());
            let (mut roots, mut exact) = (RootCertStore::empty(), Vec::new());
            let certificates =
                CertificateDer::pem_file_iter(file).map_err(|error| unreadable(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
                exact.push(digits(&certificate));
                roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
            }
            trusting(Some(exact), Some((roots, &unreadable)))
        }
    }
}

/// Authorities, and the sentence that says why they are of no use.
type Authorities<'a> = (RootCertStore, &'a dyn Fn(String) -> String);

/// What a client needs that trusts these very certificates (`None`: any), and those for whom authorities vouch.
fn trusting(
    exact: Option<Vec<String>>,
    authorities: Option<Authorities<'_>>,
) -> std::result::Result<ClientConfig, String> {
    let provider = Arc::new(provider::default_provider());
    let also = authorities.map(|(roots, unreadable)| {
        if roots.is_empty() {
            return Err(unreadable("there are none".to_owned()));
        }
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| unreadable(error.to_string()))
    });
    let also = also.transpose()?;
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let verifier = Arc::new(Trusting { exact, also, provider });
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// The digits of a fingerprint, without what stands between them.
fn digits(certificate: &CertificateDer<'_>) -> String {
    fingerprint(certificate).replace(':', "").to_ascii_lowercase()
}

/// Trusts these very certificates, whatever they say of themselves, and what others vouch for.
#[derive(Debug)]
struct Trusting {
    /// `None`: any.
    exact: Option<Vec<String>>,
    also: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Trusting {
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
                "the server's certificate is another one: its fingerprint is {}",
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
