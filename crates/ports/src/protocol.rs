//! What a protocol has to say for itself; everything else is the session's.

use crate::access::{Access, Rights, Visitor};
use crate::encryption::Encryption;
use crate::session::{Inlet, Life, Session};
use crate::tls;
use platform::{BlockTarget, Buf, Peer, Slice, Slices, Stream, Targets, longest_payload};
use rustls::pki_types::CertificateDer;
use std::rc::Rc;
use std::sync::Arc;
use units::ByteCount;

pub use crate::session::Arrival;

/// A host's protocol over byte streams. The value is what a session knows after the greeting: how replies are framed.
pub trait Protocol: Sized + 'static {
    /// Its name in messages.
    const NAME: &'static str;

    /// The most bytes that the head of a reply has.
    const LONGEST_HEAD: usize;

    /// What takes requests off a stream; it has what is left over from one call to the next.
    type Decoder: 'static;

    /// A request, taken apart.
    type Request: 'static;

    /// The bytes of a reply in front of its data.
    type Head: AsRef<[u8]> + 'static;

    /// Speaks with a client until both know which target is meant. The session limits the time that this may take.
    /// `None`: the client left; an error: why it was left.
    fn greet<S: Targets>(
        wire: &mut Wire<'_>,
        offer: &Offer<S>,
    ) -> impl Future<Output = Result<Option<Greeted<Self, S::Target>>, String>>;

    /// What a greeting would come to where nothing is left to be said: who made the connection has told its other end all
    /// that a greeting tells. That end may only read if `read_only`.
    fn known<S: Targets>(
        offer: &Offer<S>,
        target: Rc<S::Target>,
        read_only: bool,
    ) -> Greeted<Self, S::Target>;

    /// Tells a client that there is no room for it, if the protocol has words for that. The server limits the time.
    fn turn_away(wire: &mut Wire<'_>) -> impl Future<Output = ()>;

    /// Takes the next request off what has arrived. A payload is not taken here: the session takes as many bytes as
    /// were announced before it calls again.
    ///
    /// # Errors
    /// Why what has arrived ends the connection.
    fn decode(&self, decoder: &mut Self::Decoder, bytes: &[u8]) -> Result<Step<Self>, String>;

    /// Carries out a request by calls of the session, and makes its reply.
    fn execute<T: BlockTarget>(
        session: &Session<Self, T>,
        request: Self::Request,
        payload: Option<Slice>,
    ) -> impl Future<Output = Reply<Self::Head>>;
}

/// What a greeting came to.
pub struct Greeted<P: Protocol, T> {
    /// The target that the client asked for.
    pub target: Rc<T>,
    /// How replies are framed.
    pub protocol: P,
    /// What takes requests off the stream from now on.
    pub decoder: P::Decoder,
    /// The client may change nothing.
    pub read_only: bool,
}

/// What a call of [`Protocol::decode`] came to.
pub struct Step<P: Protocol> {
    /// So many bytes were taken.
    pub consumed: usize,
    /// What they were; `None`: more bytes are needed.
    pub arrived: Option<Arrived<P>>,
}

/// What has arrived.
pub enum Arrived<P: Protocol> {
    /// A request.
    Request {
        /// The request.
        request: P::Request,
        /// Bytes of payload that follow it.
        payload: ByteCount,
        /// Payload memory that it needs, in either direction: at least `payload`, at most
        /// [`Offer::longest_transfer`].
        memory: ByteCount,
    },
    /// A request that breaks a rule, and what is said to that.
    Rejected(Reply<P::Head>),
    /// Nothing more comes, and why.
    End(String),
}

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

    /// A reply with data behind its head.
    pub fn data(head: H, data: Slice) -> Reply<H> {
        let data = (!data.is_empty()).then_some(data);
        Reply { head: Some(head), data, is_error: false }
    }

    /// A failure.
    pub fn error(head: H) -> Reply<H> {
        Reply { head: Some(head), data: None, is_error: true }
    }

    /// A reply that is complete in `bytes`.
    pub fn whole(bytes: &[u8]) -> Reply<H> {
        Reply { head: None, data: Some(Buf::copy_of(bytes).freeze()), is_error: false }
    }
}

/// What a port offers its clients: the targets of a shard, under the port's own terms.
pub struct Offer<S> {
    pub(crate) targets: S,
    pub(crate) read_only: bool,
    pub(crate) encryption: Option<Encryption>,
    pub(crate) access: Option<Arc<Access>>,
}

impl<S: Targets> Offer<S> {
    /// Every target that clients may use.
    pub fn targets(&self) -> Vec<Rc<S::Target>> {
        self.targets.targets()
    }

    /// The target of that name.
    pub fn find(&self, name: &str) -> Option<Rc<S::Target>> {
        self.targets.find(name)
    }

    /// The target of that number.
    pub(crate) fn numbered(&self, number: u64) -> Option<Rc<S::Target>> {
        self.targets().into_iter().find(|target| target.number() == number)
    }

    /// Whether clients may only read a target.
    pub fn is_read_only(&self, target: &S::Target) -> bool {
        self.read_only || target.is_read_only()
    }

    /// What `visitor` may do with `target`; `None`: it does not even hear of it.
    pub(crate) fn rights(&self, visitor: &Visitor, target: &S::Target) -> Option<Rights> {
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

/// A connection while its greeting is spoken.
pub struct Wire<'a> {
    pub(crate) stream: Rc<dyn Stream>,
    pub(crate) inlet: &'a mut Inlet,
    pub(crate) life: &'a Life,
}

impl Wire<'_> {
    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        &self.life.peer
    }

    /// What has arrived and was not consumed.
    pub fn received(&self) -> &[u8] {
        self.inlet.bytes()
    }

    /// Speaks TLS with the client from here on; what certificate it showed. Nothing may have been received that is not
    /// consumed: it would have come before there was TLS.
    ///
    /// # Errors
    /// Why that came to nothing.
    pub(crate) async fn encrypt(
        &mut self,
        encryption: &Encryption,
    ) -> Result<Option<CertificateDer<'static>>, String> {
        if !self.received().is_empty() {
            return Err("the client went on in the clear after it had asked for TLS".to_owned());
        }
        let tls = tls::accept(self.life.env(), self.life, encryption.config.clone()).await?;
        let certificate = tls.client_certificate();
        self.stream = Rc::new(tls);
        self.life.set_stream(self.stream.clone());
        self.inlet.set_stream(self.stream.clone());
        Ok(certificate)
    }

    /// The first `count` bytes of what has arrived are dealt with.
    pub fn consume(&mut self, count: usize) {
        self.inlet.consume(count);
    }

    /// Waits for more bytes; all earlier ones must have been consumed.
    pub async fn receive(&mut self) -> Arrival {
        self.inlet.receive().await
    }

    /// Sends `output` and empties it; false when the client is gone.
    pub async fn send(&mut self, output: &mut Vec<u8>) -> bool {
        if output.is_empty() {
            return true;
        }
        let slices: Slices = std::iter::once(Buf::copy_of(output).freeze()).collect();
        output.clear();
        self.stream.send(slices).await.result.is_ok()
    }
}
