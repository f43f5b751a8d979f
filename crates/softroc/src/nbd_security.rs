//! The access rules and certificates of the NBD port, read from files.

use crate::cli::{NbdSecurity, TlsMode};
use crate::failure::{Failure, Outcome};
use ports::{Access, Certificates, Encryption, SessionOptions, Unfit};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The session options from the command line.
pub fn sessions(security: &NbdSecurity) -> Outcome<SessionOptions> {
    let access = security.nbd_access.as_deref().map(access).transpose()?;
    Ok(SessionOptions { encryption: encryption(security)?, access, ..SessionOptions::default() })
}

fn encryption(security: &NbdSecurity) -> Outcome<Option<Encryption>> {
    let NbdSecurity { nbd_tls, nbd_certificate, nbd_key, nbd_clients, .. } = security;
    let (Some(mode), Some(certificate), Some(key)) = (nbd_tls, nbd_certificate, nbd_key) else {
        return Ok(None);
    };
    let clients = nbd_clients.as_deref().map(read).transpose()?;
    let (certificate_bytes, key_bytes) = (read(certificate)?, read(key)?);
    let certificates = Certificates {
        certificate: &certificate_bytes,
        key: &key_bytes,
        clients: clients.as_deref(),
    };
    let required = *mode == TlsMode::Required;
    Encryption::new(&certificates, required).map(Some).map_err(|unfit| match (unfit, nbd_clients) {
        (Unfit::Clients(why), Some(file)) => {
            unusable(file, &why, "give certificates as PEM with --nbd-clients")
        }
        (Unfit::Own(why) | Unfit::Clients(why), _) => {
            let advice = format!(
                "its key is {}; give valid ones with --nbd-certificate and --nbd-key",
                key.display()
            );
            unusable(certificate, &why, &advice)
        }
    })
}

fn access(file: &Path) -> Outcome<Arc<Access>> {
    let text = String::from_utf8(read(file)?)
        .map_err(|_| unusable(file, &"it is not text", "write the file again"))?;
    let advice = "an example of a line is 'data name:db1.example read-write'";
    Access::parse(&text).map(Arc::new).map_err(|why| unusable(file, &why, advice))
}

fn read(file: &Path) -> Outcome<Vec<u8>> {
    std::fs::read(file)
        .map_err(|error| Failure::refused(format!("cannot read {}: {error}", file.display())))
}

fn unusable(file: &Path, why: &dyn fmt::Display, advice: &str) -> Failure {
    Failure::refused(format!("cannot use {} ({why}): {advice}", file.display()))
}
