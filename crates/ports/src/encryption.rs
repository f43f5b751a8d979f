//! TLS of a port: its own certificate, and the authorities that it accepts for clients.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, crypto::ring as provider};
use std::fmt;
use std::sync::Arc;

/// TLS settings of a port: certificates, and whether clients must use TLS.
#[derive(Clone)]
pub struct Encryption {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) required: bool,
    knows_clients: bool,
}

/// The files of [`Encryption::new`], as PEM.
pub struct Certificates<'a> {
    /// The port's certificate and its intermediate certificates.
    pub certificate: &'a [u8],
    /// The private key of that certificate.
    pub key: &'a [u8],
    /// The authorities that sign client certificates. `None`: clients present none.
    pub clients: Option<&'a [u8]>,
}

/// An unusable file of [`Certificates`], and the reason.
#[derive(Debug)]
pub enum Unfit {
    /// The certificate, or its key.
    Own(String),
    /// The authorities for client certificates.
    Clients(String),
}

impl Encryption {
    /// TLS 1.2 and 1.3 with these certificates. If TLS is `required`, a client without it can only
    /// disconnect, unless it uses a Unix socket.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn new(certificates: &Certificates<'_>, required: bool) -> Result<Encryption, Unfit> {
        let own = |error: &dyn fmt::Display| Unfit::Own(error.to_string());
        let clients = |error: &dyn fmt::Display| Unfit::Clients(error.to_string());
        let chain = read(certificates.certificate).map_err(Unfit::Own)?;
        let key = PrivateKeyDer::from_pem_slice(certificates.key).map_err(|error| own(&error))?;
        let provider = Arc::new(provider::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| own(&error))?;
        let builder = match certificates.clients {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                for certificate in read(pem).map_err(Unfit::Clients)? {
                    roots.add(certificate).map_err(|error| clients(&error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| clients(&error))?)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| own(&error))?;
        // Hosts stay connected, so session resumption has no use.
        config.send_tls13_tickets = 0;
        let knows_clients = certificates.clients.is_some();
        Ok(Encryption { config: Arc::new(config), required, knows_clients })
    }

    /// Whether every client of another machine must authenticate with a certificate.
    pub fn keeps_strangers_out(&self) -> bool {
        self.required && self.knows_clients
    }
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Encryption { required, knows_clients, .. } = self;
        write!(f, "Encryption {{ required: {required}, knows_clients: {knows_clients} }}")
    }
}

/// All certificates of a file; at least one.
fn read(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| error.to_string())?;
    if read.is_empty() { Err("there is no certificate in it".to_owned()) } else { Ok(read) }
}
