//! TLS: the certificate that is served, its fingerprint, and how a client knows the server by it.

use crate::files::Files;
use platform::{Error, ErrorKind, Result};
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
    /// Why the one of before is not used.
    pub(crate) damage: Option<Damage>,
}

/// A file of the state folder that cannot be used, and was put aside.
pub(crate) struct Damage {
    /// Its name.
    pub(crate) file: &'static str,
    /// Why: the end of a sentence.
    pub(crate) why: String,
    /// What became of it.
    pub(crate) sentence: String,
}

impl Identity {
    /// The certificate of the files that are given; otherwise that of the state folder, which is made if there is none, and made anew if
    /// it cannot be used: it must not keep volumes from their hosts. `names`: what the server is called, for one that is made.
    ///
    /// # Errors
    /// When files that are given cannot be used, or none can be made.
    pub(crate) fn load(given: Option<&CertificateFiles>, state: &Path, names: &[String]) -> Result<Identity> {
        if let Some(given) = given {
            return Identity::read(given).map_err(|Unusable { file, why }| {
                let sentence = format!(
                    "cannot use {} ({why}); give other files with --manage-certificate and --manage-key",
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
        let first = chain.first().ok_or_else(|| unusable(&files.certificate, "it is empty".to_owned()))?;
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

/// A certificate or key that no server can prove itself with.
struct Unusable {
    file: PathBuf,
    /// The end of a sentence.
    why: String,
}

/// Keeps a certificate and its key aside: one without the other is of no use.
///
/// # Errors
/// When they cannot be moved: nothing replaces them then.
fn put_pair_aside(state: &Path, own: &CertificateFiles, unusable: Unusable) -> Result<Damage> {
    let Unusable { file, why } = unusable;
    let name = if file == own.key { KEY } else { CERTIFICATE };
    let files = Files::new(state);
    let sentence = files.set_aside(name, &why);
    let other = if name == KEY { CERTIFICATE } else { KEY };
    let other = files.set_aside(other, "its counterpart cannot be read");
    if own.key.exists() || own.certificate.exists() {
        return Err(failed(format!("{sentence}; {other}")));
    }
    Ok(Damage { file: name, why, sentence })
}

fn failed(why: String) -> Error {
    let sentence =
        format!("cannot make a certificate ({why}); give one with --manage-certificate and --manage-key");
    Error::new(ErrorKind::System, sentence)
}

/// Makes a certificate that vouches for itself. Its fingerprint is how clients know it, so that it does not end.
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

#[cfg(test)]
mod tests {
    use super::{CERTIFICATE, CertificateFiles, Identity, KEY};
    use std::path::PathBuf;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("softroc-tls-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    /// A key of which a power cut had left zeros kept the controller, and with it every volume, from being started.
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
            let aside = std::fs::read(state.join(format!("{file}.unreadable-1"))).expect("it is kept");
            assert_eq!(aside, damage);
            let third = Identity::load(None, &state, &names).expect("read");
            assert!(!third.is_new && third.fingerprint == second.fingerprint);
            std::fs::remove_dir_all(&state).expect("removed");
        }
    }

    /// Files that an operator names are the operator's: nothing replaces them.
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
