//! Sockets: the journal, syslog, SNMP.

use ::notify::form::{self, Variables};
use ::notify::{Message, Sender, SyslogWay};
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket, UnixDatagram};
use tokio_rustls::TlsConnector;

/// Time limit of one attempt.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time limit of the response to an inform, and the interval of repetitions within an attempt.
const ANSWER: Duration = Duration::from_secs(2);
const INFORMS: u32 = 3;

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Runs the work within the time limit.
async fn within(work: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let late = |_| Err(format!("no response within {} s", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(late)
}

/// Sends a datagram to a socket of this machine.
pub(super) async fn datagram(socket: &str, bytes: &[u8]) -> Result<(), String> {
    within(async {
        let from = UnixDatagram::unbound().map_err(told)?;
        from.send_to(bytes, socket).await.map(|_| ()).map_err(|error| format!("{socket}: {error}"))
    })
    .await
}

/// A socket that exchanges datagrams with one host only.
async fn udp(host: &str, port: u16) -> Result<UdpSocket, String> {
    let address = tokio::net::lookup_host((host, port)).await.map_err(told)?.next();
    let address = address.ok_or_else(|| format!("{host} has no address"))?;
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).await.map_err(told)?;
    socket.connect(address).await.map_err(told)?;
    Ok(socket)
}

/// Sends a syslog record.
pub(super) async fn syslog(way: &SyslogWay, trust: &str, record: &[u8]) -> Result<(), String> {
    let work = async {
        match way {
            SyslogWay::Local(path) => datagram(path, record).await,
            SyslogWay::Udp(host, port) => {
                udp(host, *port).await?.send(record).await.map(|_| ()).map_err(told)
            }
            SyslogWay::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(told)?;
                handed_over(stream, record).await
            }
            SyslogWay::Tls(host, port) => {
                let config = crate::tls::vouched_for(trust)?;
                let name = ServerName::try_from(host.clone()).map_err(told)?;
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(told)?;
                let connector = TlsConnector::from(Arc::new(config));
                handed_over(connector.connect(name, stream).await.map_err(told)?, record).await
            }
        }
    };
    within(work).await
}

/// Sends a record, and waits until the receiver has read it: it closes the connection after the
/// end.
async fn handed_over(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    record: &[u8],
) -> Result<(), String> {
    stream.write_all(&form::octet_counted(record)).await.map_err(told)?;
    stream.shutdown().await.map_err(told)?;
    let mut nothing = [0; 256];
    loop {
        match stream.read(&mut nothing).await {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            // A TLS connection that was not closed properly has ended all the same.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(told(error)),
        }
    }
}

/// Sends a trap, or an inform until its response.
pub(super) async fn snmp(
    (host, port, is_inform): (&str, u16, bool),
    community: &str,
    message: &Message,
    sender: &Sender,
) -> Result<(), String> {
    let request = crate::keeper::random().map(u32::from_be_bytes).map_err(told)?;
    let variables = Variables { community, is_inform, request, now_s: super::super::post::now_s() };
    let datagram = form::snmp(message, sender, variables);
    within(async {
        let socket = udp(host, port).await?;
        if !is_inform {
            return socket.send(&datagram).await.map(|_| ()).map_err(told);
        }
        for _ in 0..INFORMS {
            socket.send(&datagram).await.map_err(told)?;
            match tokio::time::timeout(ANSWER, answered(&socket, request)).await {
                Ok(answer) => return answer,
                Err(_) => continue,
            }
        }
        Err("no response to informs; check the community of the receiver".to_owned())
    })
    .await
}

/// Waits for the response; other datagrams are ignored.
async fn answered(socket: &UdpSocket, request: u32) -> Result<(), String> {
    let mut datagram = [0; 4096];
    loop {
        let length = socket.recv(&mut datagram).await.map_err(told)?;
        if form::answers(&datagram[..length], request) {
            return Ok(());
        }
    }
}
