//! The interface of a protocol. The session does everything else.

use crate::access::{Access, ClientIdentity, Rights};
use crate::encryption::Encryption;
use crate::session::{ConnectionState, Inlet, Refused, Session};
use crate::tls;
use platform::{
    BlockTarget, Buf, Durability, Peer, Slice, Slices, Stream, Targets, longest_payload,
};
use rustls::pki_types::CertificateDer;
use std::rc::Rc;
use std::sync::Arc;
use units::{ByteCount, ByteRange};

pub use crate::session::Arrival;

/// A host's protocol over byte streams. The value holds the result of the greeting: how replies are
/// framed.
pub trait Protocol: Sized + 'static {
    /// Its name in messages.
    const NAME: &'static str;

    /// The maximum length of a reply head, in bytes.
    const LONGEST_HEAD: usize;

    /// Parses requests from the stream; keeps incomplete input between calls.
    type Decoder: 'static;

    /// A parsed request.
    type Request: 'static;

    /// The bytes of a reply before its data.
    type Head: AsRef<[u8]> + 'static;

    /// Performs the greeting, in which the client selects a target. The session limits its time.
    /// `None`: the client left; an error: why the port closed the connection.
    fn greet<S: Targets>(
        wire: &mut Wire<'_>,
        offer: &Offer<S>,
    ) -> impl Future<Output = Result<Option<Greeted<Self, S::Target>>, String>>;

    /// The result of a greeting for a connection without one: both ends know the parameters. The
    /// client may only read if `read_only`.
    fn known<S: Targets>(
        offer: &Offer<S>,
        target: Rc<S::Target>,
        read_only: bool,
    ) -> Greeted<Self, S::Target>;

    /// Reports to a client that the connection limit is reached, if the protocol can. The server
    /// limits the time.
    fn turn_away(wire: &mut Wire<'_>) -> impl Future<Output = ()>;

    /// Parses the next request from the received bytes. The session receives the announced payload
    /// itself before it calls again.
    ///
    /// # Errors
    /// Why the received bytes end the connection.
    fn decode(&self, decoder: &mut Self::Decoder, bytes: &[u8]) -> Result<Step<Self>, String>;

    /// The data transfer that a request is, if it is nothing else: the session may carry it out
    /// without a task.
    fn transfer(&self, request: &Self::Request) -> Option<Transfer>;

    /// Builds the reply to a [transfer](Protocol::transfer).
    fn answer(&self, request: &Self::Request, result: Result<Data, Refused>) -> Reply<Self::Head>;

    /// Executes a request through calls of the session, and builds its reply.
    fn execute<T: BlockTarget>(
        session: &Session<Self, T>,
        request: Self::Request,
        payload: Option<Slice>,
    ) -> impl Future<Output = Reply<Self::Head>>;
}

/// The result of a greeting.
pub struct Greeted<P: Protocol, T> {
    /// The target that the client asked for.
    pub target: Rc<T>,
    /// How replies are framed.
    pub protocol: P,
    /// The parser of requests from here on.
    pub decoder: P::Decoder,
    /// The client may only read.
    pub read_only: bool,
}

/// The result of [`Protocol::decode`].
pub struct Step<P: Protocol> {
    /// The number of bytes parsed.
    pub consumed: usize,
    /// The parsed item; `None`: more bytes are needed.
    pub arrived: Option<Arrived<P>>,
}

/// A parsed item.
pub enum Arrived<P: Protocol> {
    /// A request.
    Request {
        /// The request.
        request: P::Request,
        /// Bytes of payload after the request.
        payload: ByteCount,
        /// Payload memory that the request needs, in either direction: at least `payload`, at most
        /// [`Offer::longest_transfer`].
        memory: ByteCount,
    },
    /// An invalid request, and its reply.
    Rejected(Reply<P::Head>),
    /// The connection ends, for this reason.
    End(String),
}

/// A read or write of a range, which is not empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// A read.
    Read(ByteRange),
    /// A write.
    Write(ByteRange, Durability),
}

/// What a read has read; `None`: nothing, or it is a write.
pub type Data = Option<Slice>;

/// The reply to one request.
pub struct Reply<H> {
    pub(crate) head: Option<H>,
    pub(crate) data: Option<Slice>,
    pub(crate) is_error: bool,
}

impl<H> Reply<H> {
    /// A reply without data.
    pub fn head(head: H) -> Reply<H> {
        Reply { head: Some(head), data: None, is_error: false }
    }

    /// A reply with data after its head.
    pub fn data(head: H, data: Slice) -> Reply<H> {
        let data = (!data.is_empty()).then_some(data);
        Reply { head: Some(head), data, is_error: false }
    }

    /// An error reply.
    pub fn error(head: H) -> Reply<H> {
        Reply { head: Some(head), data: None, is_error: true }
    }

    /// A reply that consists of `bytes`.
    pub fn whole(bytes: &[u8]) -> Reply<H> {
        Reply { head: None, data: Some(Buf::copy_of(bytes).freeze()), is_error: false }
    }
}

/// The targets of a shard that a port offers, with the port's own restrictions.
pub struct Offer<S> {
    pub(crate) targets: S,
    pub(crate) read_only: bool,
    pub(crate) encryption: Option<Encryption>,
    pub(crate) access: Option<Arc<Access>>,
}

impl<S: Targets> Offer<S> {
    /// All targets that the client may use.
    pub fn targets(&self) -> Vec<Rc<S::Target>> {
        self.targets.targets()
    }

    /// The target with that name.
    pub fn find(&self, name: &str) -> Option<Rc<S::Target>> {
        self.targets.find(name)
    }

    /// The target with that number.
    pub(crate) fn numbered(&self, number: u64) -> Option<Rc<S::Target>> {
        self.targets().into_iter().find(|target| target.number() == number)
    }

    /// Whether clients may only read a target.
    pub fn is_read_only(&self, target: &S::Target) -> bool {
        self.read_only || target.is_read_only()
    }

    /// The rights of `visitor` on `target`; `None`: the target is hidden from it.
    pub(crate) fn rights(&self, visitor: &ClientIdentity, target: &S::Target) -> Option<Rights> {
        let given = match &self.access {
            None => Rights { read_only: false },
            Some(access) => access.rights(visitor, &target.name())?,
        };
        Some(Rights { read_only: given.read_only || self.is_read_only(target) })
    }

    /// The longest payload of a request.
    pub fn longest_transfer(&self) -> ByteCount {
        longest_payload(self.targets.env().pool())
    }
}

/// A connection during its greeting.
pub struct Wire<'a> {
    pub(crate) stream: Rc<dyn Stream>,
    pub(crate) inlet: &'a mut Inlet,
    pub(crate) life: &'a ConnectionState,
}

impl Wire<'_> {
    /// The address of the client.
    pub fn peer(&self) -> &Peer {
        &self.life.peer
    }

    /// Received bytes that are not consumed yet.
    pub fn received(&self) -> &[u8] {
        self.inlet.bytes()
    }

    /// Starts TLS with the client; returns the certificate of the client. The received bytes must
    /// all be consumed: later ones would be plaintext from before TLS.
    ///
    /// # Errors
    /// Why TLS could not be established.
    pub(crate) async fn encrypt(
        &mut self,
        encryption: &Encryption,
    ) -> Result<Option<CertificateDer<'static>>, String> {
        if !self.received().is_empty() {
            return Err(
                "the client continued without encryption after it had requested TLS".to_owned()
            );
        }
        let tls = tls::accept(self.life.env(), self.life, encryption.config.clone()).await?;
        let certificate = tls.client_certificate();
        self.stream = Rc::new(tls);
        self.life.set_stream(self.stream.clone());
        self.inlet.set_stream(self.stream.clone());
        Ok(certificate)
    }

    /// Discards the first `count` received bytes.
    pub fn consume(&mut self, count: usize) {
        self.inlet.consume(count);
    }

    /// Waits for more bytes. All earlier bytes must be consumed.
    pub async fn receive(&mut self) -> Arrival {
        self.inlet.receive().await
    }

    /// Sends and empties `output`; false when the client has disconnected.
    pub async fn send(&mut self, output: &mut Vec<u8>) -> bool {
        if output.is_empty() {
            return true;
        }
        let slices: Slices = std::iter::once(Buf::copy_of(output).freeze()).collect();
        output.clear();
        self.stream.send(slices).await.result.is_ok()
    }
}
