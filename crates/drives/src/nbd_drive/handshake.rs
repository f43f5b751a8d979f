//! The start and the end of an NBD session.

use nbd::{ClientHandshake, ClientOptions, ClientStream, Connected, NbdUri};
use platform::{Buf, Env, Error, ErrorKind, Result, Slices, Stream};
use smallvec::smallvec;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::ByteCount;

/// Negotiates within `limit`. Returns the agreed options, and the bytes received after the
/// handshake.
pub(crate) async fn shake_hands(
    env: &Env,
    stream: &Rc<dyn Stream>,
    uri: &NbdUri,
    limit: Duration,
) -> Result<(Connected, Vec<u8>)> {
    let over = Rc::new(Cell::new(false));
    let (watched, sleeper, is_over) = (Rc::downgrade(stream), env.clone(), over.clone());
    env.spawn("nbd handshake limit", async move {
        sleeper.sleep_running(limit).await;
        if let (false, Some(stream)) = (is_over.get(), watched.upgrade()) {
            stream.shutdown();
        }
    });
    let outcome = negotiate(stream, uri).await;
    over.set(true);
    outcome
}

async fn negotiate(stream: &Rc<dyn Stream>, uri: &NbdUri) -> Result<(Connected, Vec<u8>)> {
    let refused = |error: nbd::Error| {
        let kind = match error.kind {
            nbd::ErrorKind::UnknownExport => ErrorKind::NotFound,
            nbd::ErrorKind::TlsRequired => ErrorKind::Denied,
            nbd::ErrorKind::Usage => ErrorKind::BadName,
            _ => ErrorKind::Unreachable,
        };
        Error::new(kind, format!("{uri}: {error}"))
    };
    let mut handshake =
        ClientHandshake::new(ClientOptions::new(uri.export.as_str())).map_err(refused)?;
    let mut input: Vec<u8> = Vec::new();
    let mut buf = Buf::unpooled(ByteCount(4096));
    loop {
        let mut output = Vec::new();
        let step = handshake.receive(&input, &mut output);
        if !output.is_empty() {
            // The next receive detects a closed connection.
            let _ = stream.send(smallvec![Buf::copy_of(&output).freeze()]).await;
        }
        let step = step.map_err(refused)?;
        input.drain(..step.consumed);
        if let Some(connected) = step.event {
            return Ok((connected, input));
        }
        if step.consumed > 0 && !input.is_empty() {
            continue;
        }
        let mut outcome = stream.receive(buf).await;
        match (outcome.result, outcome.buffers.pop()) {
            (Ok(count @ 1..), Some(back)) => {
                input.extend_from_slice(&back.bytes()[..count as usize]);
                buf = back;
            }
            _ => return Err(refused(handshake.end_of_stream())),
        }
    }
}

/// Sends the disconnect request on a connection without outstanding requests.
pub(crate) async fn leave(stream: &Rc<dyn Stream>, connected: &Connected) {
    if let Ok(goodbye) = ClientStream::new(connected.clone(), 1).disconnect() {
        let slices: Slices = smallvec![Buf::copy_of(goodbye.as_ref()).freeze()];
        // An error does not matter: the connection ends anyway.
        let _ = stream.send(slices).await;
    }
    stream.shutdown();
}
