//! `softroc serve`: who may use volumes over NBD, and how that is known.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// TLS and access of the NBD port.
#[derive(Args, Debug, Default)]
pub struct NbdSecurity {
    /// TLS for hosts: allowed lets each host choose, required refuses those without at every address of NBD but Unix sockets.
    #[arg(long, value_name = "WHETHER", requires = "nbd_certificate")]
    pub nbd_tls: Option<TlsMode>,

    /// The certificate that hosts are shown, and those that vouch for it, as PEM.
    #[arg(long, value_name = "FILE", requires = "nbd_tls", requires = "nbd_key")]
    pub nbd_certificate: Option<PathBuf>,

    /// The key of that certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "nbd_certificate")]
    pub nbd_key: Option<PathBuf>,

    /// Certificates that vouch for hosts, as PEM: a host with TLS has to show one that descends from them.
    #[arg(long, value_name = "FILE", requires = "nbd_tls")]
    pub nbd_clients: Option<PathBuf>,

    /// Who may use which volume over NBD: lines of VOLUME WHO RIGHTS, such as 'data name:db1.example read-write'; the first that
    /// fits counts, and who is in none may use nothing [default: everybody may use everything].
    #[arg(long, value_name = "FILE")]
    pub nbd_access: Option<PathBuf>,
}

/// Whether hosts speak TLS.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsMode {
    /// Who wants it.
    Allowed,
    /// All.
    Required,
}
