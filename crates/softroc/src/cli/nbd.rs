//! TLS and access control options of `softroc serve` for NBD.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// TLS and access of the NBD port.
#[derive(Args, Debug, Default)]
pub struct NbdSecurity {
    /// TLS for hosts: allowed makes TLS optional for hosts; required rejects hosts without TLS,
    /// except on Unix sockets.
    #[arg(long, value_name = "WHETHER", requires = "nbd_certificate")]
    pub nbd_tls: Option<TlsMode>,

    /// The certificate chain of the NBD port, as PEM.
    #[arg(long, value_name = "FILE", requires = "nbd_tls", requires = "nbd_key")]
    pub nbd_certificate: Option<PathBuf>,

    /// The key of that certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "nbd_certificate")]
    pub nbd_key: Option<PathBuf>,

    /// CA certificates for hosts, as PEM. A host with TLS must present a certificate that they
    /// verify.
    #[arg(long, value_name = "FILE", requires = "nbd_tls")]
    pub nbd_clients: Option<PathBuf>,

    /// The access rules of volumes over NBD: lines of VOLUME HOST RIGHTS, such as 'data
    /// name:db1.example read-write'. The first matching line counts; a host without a matching line
    /// has no access [default: every host may use every volume].
    #[arg(long, value_name = "FILE")]
    pub nbd_access: Option<PathBuf>,
}

/// Whether hosts use TLS.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsMode {
    /// Each host may choose.
    Allowed,
    /// All hosts.
    Required,
}
