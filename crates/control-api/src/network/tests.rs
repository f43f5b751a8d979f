//! Slow, silent and many clients in simulated time: connections are pipes within the process.

use super::*;
use axum::routing::{get, post};
use http_body_util::channel::Channel;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

const SHORT: Duration = Duration::from_secs(1);

/// The interval between two bytes of a slow client.
const DRIP: Duration = Duration::from_secs(5);

fn run<T>(test: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().expect("a runtime").block_on(test)
}

fn router() -> Router {
    let sign_in = |ConnectInfo(peer): ConnectInfo<Peer>| async move {
        let Peer::Network(client) = peer else { panic!("it is of the network") };
        client.link.sign_in();
        "signed in"
    };
    let take = |body: Bytes| async move { body.len().to_string() };
    let much = || async { "x".repeat(4 << 20) };
    let long = || async {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        "it took an hour"
    };
    Router::new()
        .route("/", get(|| async { "here" }))
        .route("/sign-in", get(sign_in))
        .route("/take", post(take))
        .route("/much", get(much))
        .route("/long", get(long))
        .route("/stream", get(stream))
}

/// A stream that sends something each minute for an hour.
async fn stream() -> axum::response::Response {
    let (mut sender, body) = Channel::<Bytes>::new(1);
    tokio::spawn(async move {
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_secs(60)).await;
            if sender.send_data(Bytes::from_static(b"tick\n")).await.is_err() {
                return;
            }
        }
    });
    axum::response::Response::new(axum::body::Body::new(body))
}

fn port(tls: Option<TlsAcceptor>) -> Port {
    Port {
        router: router(),
        tls,
        deadlines: Deadlines::MANAGEMENT,
        most: ConnectionLimits::MANAGEMENT,
    }
}

/// The client end of a served connection.
fn connect(port: Port) -> DuplexStream {
    let (ours, theirs) = tokio::io::duplex(16 << 10);
    let address: SocketAddr = "10.0.0.1:4000".parse().expect("an address");
    let link = Link::new(port.deadlines, port.tls.is_some());
    tokio::spawn(async move { attend(theirs, Client { address, link }, &port).await });
    ours
}

/// Sends a byte every five seconds until the connection is closed; returns the time.
async fn drip(stream: &mut DuplexStream, bytes: &[u8]) -> Duration {
    let begun = Instant::now();
    let (mut reads, mut writes) = tokio::io::split(stream);
    let dripping = async {
        for byte in bytes.iter().cycle() {
            if writes.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(DRIP).await;
        }
    };
    let closed = async {
        let mut rest = Vec::new();
        // A closed connection is an error or an end.
        let _ = reads.read_to_end(&mut rest).await;
        begun.elapsed()
    };
    tokio::select! {
        elapsed = closed => elapsed,
        () = dripping => begun.elapsed(),
    }
}

/// How long a silent connection stays open.
async fn silence(stream: &mut DuplexStream) -> Duration {
    let begun = Instant::now();
    let _ = stream.read_to_end(&mut Vec::new()).await;
    begun.elapsed()
}

async fn ask(stream: &mut DuplexStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it is open");
    let mut answer = Vec::new();
    loop {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).await.expect("it is open");
        answer.extend_from_slice(&bytes[..count]);
        let text = String::from_utf8_lossy(&answer).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert!(count > 0, "closed after {text}");
            continue;
        };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if length.is_none_or(|length| body.len() >= length.parse().expect("a length")) {
            return text;
        }
        assert!(count > 0, "closed after {text}");
    }
}

fn assert_about(found: Duration, expected: Duration) {
    assert!(found >= expected && found < expected + SHORT, "{found:?} instead of {expected:?}");
}

/// Regression: a client that sent a byte now and then kept its slot forever.
#[test]
fn headers_that_drip_are_cut_off_by_their_deadline() {
    run(async {
        let mut first = connect(port(None));
        let found = drip(&mut first, b"GET /v1/info HTTP/1.1\r\nX: ").await;
        assert_about(found, Deadlines::MANAGEMENT.headers);
        let mut second = connect(port(None));
        assert!(ask(&mut second, "/sign-in").await.ends_with("signed in"));
        tokio::time::sleep(Duration::from_secs(100)).await;
        let found = drip(&mut second, b"GET /v1/info HTTP/1.1\r\nX: ").await;
        assert_about(found, Deadlines::MANAGEMENT.headers);
    });
}

#[test]
fn a_handshake_that_drips_is_cut_off_by_its_deadline() {
    run(async {
        // The start of a ClientHello without its rest.
        let mut stream = connect(port(Some(acceptor())));
        let found = drip(&mut stream, &[0x16, 0x03, 0x01, 0x40, 0x00, 0x01, 0x00, 0x3F]).await;
        assert_about(found, Deadlines::MANAGEMENT.handshake);
        let mut silent = connect(port(Some(acceptor())));
        assert_about(silence(&mut silent).await, Deadlines::MANAGEMENT.handshake);
    });
}

#[test]
fn a_body_that_drips_is_cut_off_by_its_deadline() {
    run(async {
        let mut stream = connect(port(None));
        let head = b"POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n";
        stream.write_all(head).await.expect("it is open");
        assert_about(drip(&mut stream, b"x").await, Deadlines::MANAGEMENT.body);
    });
}

#[test]
fn a_connection_between_two_requests_is_kept_longer_when_it_is_signed_in() {
    run(async {
        let mut stranger = connect(port(None));
        for _ in 0..3 {
            tokio::time::sleep(Deadlines::MANAGEMENT.headers - SHORT).await;
            assert!(ask(&mut stranger, "/").await.ends_with("here"));
        }
        assert_about(silence(&mut stranger).await, Deadlines::MANAGEMENT.idle);
        let mut signed_in = connect(port(None));
        ask(&mut signed_in, "/sign-in").await;
        for _ in 0..3 {
            tokio::time::sleep(Deadlines::MANAGEMENT.idle_signed_in - SHORT).await;
            assert!(ask(&mut signed_in, "/").await.ends_with("here"));
        }
        assert_about(silence(&mut signed_in).await, Deadlines::MANAGEMENT.idle_signed_in);
    });
}

#[test]
fn streams_and_long_answers_of_signed_in_clients_stay_and_those_of_strangers_end() {
    run(async {
        let hour = Duration::from_secs(3600);
        for (path, expected) in
            [("/stream", hour), ("/long", hour + Deadlines::MANAGEMENT.idle_signed_in)]
        {
            let mut signed_in = connect(port(None));
            ask(&mut signed_in, "/sign-in").await;
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
            signed_in.write_all(request.as_bytes()).await.expect("it is open");
            let begun = Instant::now();
            let mut text = String::new();
            let _ = signed_in.read_to_string(&mut text).await;
            let all = if path == "/long" { "it took an hour" } else { "tick\n" };
            assert!(
                text.contains(all) && begun.elapsed() >= expected,
                "{text} for {:?}",
                begun.elapsed()
            );
            let mut stranger = connect(port(None));
            stranger.write_all(request.as_bytes()).await.expect("it is open");
            assert_about(silence(&mut stranger).await, Deadlines::MANAGEMENT.answer);
        }
    });
}

#[test]
fn an_answer_that_is_not_taken_ends_the_connection() {
    run(async {
        for (path, expected) in
            [("/", Deadlines::MANAGEMENT.answer), ("/sign-in", Deadlines::MANAGEMENT.stalled)]
        {
            let mut stream = connect(port(None));
            ask(&mut stream, path).await;
            let begun = Instant::now();
            stream.write_all(b"GET /much HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("it is open");
            // Nothing is read until then: a failing write shows that the other end is closed.
            while stream.write_all(b" ").await.is_ok() {
                tokio::time::sleep(SHORT / 2).await;
            }
            assert_about(begun.elapsed(), expected);
        }
    });
}

#[test]
fn headers_that_are_too_long_are_refused() {
    run(async {
        let mut stream = connect(port(None));
        let head =
            format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(LONGEST_HEADERS));
        let (mut reads, mut writes) = tokio::io::split(&mut stream);
        let mut answer = String::new();
        let _ = tokio::join!(writes.write_all(head.as_bytes()), reads.read_to_string(&mut answer));
        assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    });
}

fn acceptor() -> TlsAcceptor {
    let made =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der())
        .expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a configuration");
    TlsAcceptor::from(Arc::new(config))
}

#[test]
fn browsers_are_told_to_use_tls_alone_where_there_is_tls() {
    run(async {
        assert!(!ask(&mut connect(port(None)), "/").await.contains("strict-transport-security"));
        let connector =
            tokio_rustls::TlsConnector::from(Arc::new(crate::tls::anybody().expect("a client")));
        let name = rustls::pki_types::ServerName::try_from("localhost").expect("a name");
        let mut stream =
            connector.connect(name, connect(port(Some(acceptor())))).await.expect("TLS");
        stream.write_all(b"GET /nowhere HTTP/1.0\r\n\r\n").await.expect("it is open");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.0 404"), "{answer}");
        assert!(answer.contains("strict-transport-security: max-age=31536000\r\n"), "{answer}");
    });
}

/// Real sockets; timing is not checked.
#[test]
fn three_thousand_silent_connections_keep_no_client_out_and_few_of_them_stay() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("it does not block");
        let address = listener.local_addr().expect("its address");
        tokio::spawn(serve(listener, port(None)));
        let connect =
            || async { tokio::net::TcpStream::connect(address).await.expect("it listens") };
        let mut signed_in = connect().await;
        tcp_ask(&mut signed_in, "/sign-in").await;
        let most = ConnectionLimits::MANAGEMENT.of_a_source;
        let mut kept = std::collections::VecDeque::new();
        for number in 0..3000 {
            kept.push_back(connect().await);
            if number % 500 == 499 {
                assert!(
                    tcp_ask(&mut signed_in, "/").await.ends_with("here"),
                    "its connection is kept"
                );
                assert!(
                    tcp_ask(&mut connect().await, "/").await.ends_with("here"),
                    "another one is served"
                );
            }
            // The oldest connections were closed.
            while kept.len() > most {
                let mut oldest = kept.pop_front().expect("there are some");
                let count = oldest.read(&mut [0; 1]).await.unwrap_or(0);
                assert_eq!(count, 0, "it was closed");
            }
        }
    });
}

async fn tcp_ask(stream: &mut tokio::net::TcpStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it is open");
    let mut answer = String::new();
    while !answer.ends_with("here") && !answer.ends_with("signed in") {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).await.expect("it is open");
        assert!(count > 0, "closed after {answer}");
        answer.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    answer
}
