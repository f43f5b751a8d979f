//! Byte streams in memory, and their listeners.
//!
//! A connection is two pipes. Sent bytes wait in a bounded buffer, move after a latency, and arrive
//! in random fragments. When an end shuts down (or is dropped, or its process ends), the other end
//! receives all bytes sent before, then the end of the stream; its later sends fail as gone.

use crate::core::{Action, Core, SimId};
use crate::options::NetworkOptions;
use crate::rng::Rng;
use crate::trace::TraceEvent;
use platform::{
    Address, Buf, Completion, Env, Error, ErrorKind, Io, IoError, IoErrorKind, IoOutcome, Listener,
    LocalFuture, Peer, Slices, Stream, StreamSource,
};
use smallvec::smallvec;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The maximum number of connections that wait to be accepted.
const BACKLOG: usize = 128;
/// The first port assigned to listeners on port 0.
const FIRST_FREE_PORT: u16 = 49152;

/// A receive in progress.
type Receiving = (Buf, Completion);

/// A send in progress: the bytes, the number already in the pipe, and the waiter.
struct Sending {
    bytes: Vec<u8>,
    moved: usize,
    completion: Completion,
}

/// One direction.
#[derive(Default)]
struct Pipe {
    buffer: VecDeque<u8>,
    receiving: Option<Receiving>,
    sending: Option<Sending>,
    /// The sender is closed: only buffered bytes are left.
    sender_closed: bool,
    /// The receiver is closed: sends fail.
    receiver_closed: bool,
    /// A step is scheduled.
    moving: bool,
}

/// Completions that a step of a pipe returns, without a borrow.
#[derive(Default)]
struct Returns {
    received: Option<(Receiving, usize)>,
    sent: Option<(Completion, Result<u64, IoError>)>,
}

impl Returns {
    fn deliver(self) {
        if let Some(((buf, completion), count)) = self.received {
            completion.complete(IoOutcome::done(count as u64).with_buffers(smallvec![buf]));
        }
        if let Some((completion, result)) = self.sent {
            completion.complete(match result {
                Ok(bytes) => IoOutcome::done(bytes),
                Err(error) => IoOutcome::failed(error),
            });
        }
    }
}

/// The error of the operating system after the other end has closed.
const BROKEN_PIPE: IoError = IoError { kind: IoErrorKind::Gone, errno: 32 };

impl Pipe {
    fn room(&self, options: &NetworkOptions) -> usize {
        options.buffer.as_usize().max(1).saturating_sub(self.buffer.len())
    }

    fn can_move(&self, options: &NetworkOptions) -> bool {
        let receive = self.receiving.is_some() && (!self.buffer.is_empty() || self.sender_closed);
        let send = self.sending.is_some() && (self.room(options) > 0 || self.receiver_closed);
        receive || send
    }

    /// Moves bytes once: from the sender into the buffer, and from the buffer to the receiver.
    fn step(&mut self, options: &NetworkOptions, rng: &mut Rng) -> Returns {
        let mut returns = Returns::default();
        let room = self.room(options);
        if let Some(mut sending) = self.sending.take() {
            let count = fragment(options, rng, room.min(sending.bytes.len() - sending.moved));
            if self.receiver_closed {
                returns.sent = Some((sending.completion, Err(BROKEN_PIPE)));
            } else {
                self.buffer.extend(&sending.bytes[sending.moved..sending.moved + count]);
                sending.moved += count;
                if sending.moved == sending.bytes.len() {
                    returns.sent = Some((sending.completion, Ok(sending.moved as u64)));
                } else {
                    self.sending = Some(sending);
                }
            }
        }
        if (!self.buffer.is_empty() || (self.sender_closed && self.sending.is_none()))
            && let Some((mut buf, completion)) = self.receiving.take()
        {
            let count = fragment(options, rng, self.buffer.len().min(buf.len().as_usize()));
            if !buf.is_hollow() {
                buf.bytes_mut()[..count].copy_from_slice(&self.buffer.make_contiguous()[..count]);
            }
            self.buffer.drain(..count);
            returns.received = Some(((buf, completion), count));
        }
        returns
    }
}

/// The length of the next fragment, at most `available`.
fn fragment(options: &NetworkOptions, rng: &mut Rng, available: usize) -> usize {
    match available {
        0 | 1 => available,
        _ if !options.fragments => available,
        _ => match rng.below(8) {
            0 => 1,
            1..=3 => rng.between(1, available as u64) as usize,
            _ => available,
        },
    }
}

/// Two pipes. End 0 connected, end 1 accepted. End `e` receives from pipe `e`, and sends into pipe
/// `1 - e`.
pub(crate) struct Connection {
    id: u64,
    pipes: [RefCell<Pipe>; 2],
    rng: RefCell<Rng>,
    /// The process of each end.
    processes: [Cell<u64>; 2],
    closed: [Cell<bool>; 2],
    peers: [String; 2],
}

impl Connection {
    fn kick(self: &Rc<Self>, core: &Rc<Core>, pipe: usize) {
        let mut state = self.pipes[pipe].borrow_mut();
        if state.moving || !state.can_move(&core.options.network) {
            return;
        }
        state.moving = true;
        let delay = core.options.network.latency.draw(&mut self.rng.borrow_mut());
        let (connection, sim) = (self.clone(), core.id());
        core.schedule(
            delay,
            Action::Call(Box::new(move || {
                if let Some(core) = sim.core() {
                    connection.step(&core, pipe);
                }
            })),
        );
    }

    fn step(self: &Rc<Self>, core: &Rc<Core>, pipe: usize) {
        let returns = {
            let mut state = self.pipes[pipe].borrow_mut();
            state.moving = false;
            state.step(&core.options.network, &mut self.rng.borrow_mut())
        };
        if let Some((_, count)) = &returns.received {
            core.trace(TraceEvent::Delivered { connection: self.id, bytes: *count as u64 });
        }
        returns.deliver();
        self.kick(core, pipe);
    }

    /// Shuts down both directions of an end.
    fn close(self: &Rc<Self>, core: &Rc<Core>, end: usize) {
        if self.closed[end].replace(true) {
            return;
        }
        let mut returns = [Returns::default(), Returns::default()];
        {
            let mut inward = self.pipes[end].borrow_mut();
            inward.receiver_closed = true;
            inward.buffer.clear();
            returns[0].received = inward.receiving.take().map(|receiving| (receiving, 0));
            let mut outward = self.pipes[1 - end].borrow_mut();
            outward.sender_closed = true;
            returns[1].sent =
                outward.sending.take().map(|sending| (sending.completion, Err(BROKEN_PIPE)));
        }
        returns.into_iter().for_each(Returns::deliver);
        self.kick(core, end);
        self.kick(core, 1 - end);
        if self.closed.iter().all(Cell::get) {
            core.network.borrow_mut().connections.remove(&self.id);
        }
    }
}

/// A stream that is not yet attached: holds its connection, and closes its end if it is dropped.
struct Source {
    sim: SimId,
    connection: u64,
    end: usize,
    peer: String,
    attached: bool,
}

impl Source {
    fn connection(&self) -> Option<(Rc<Core>, Rc<Connection>)> {
        let core = self.sim.core()?;
        let connection = core.network.borrow().connections.get(&self.connection).cloned()?;
        Some((core, connection))
    }
}

impl StreamSource for Source {
    fn attach(mut self: Box<Self>, env: &Env) -> platform::Result<Rc<dyn Stream>> {
        let (core, connection) = self.connection().ok_or_else(|| {
            Error::new(ErrorKind::Unreachable, format!("the stream to {} has ended", self.peer))
        })?;
        self.attached = true;
        Ok(Rc::new(Attached { core, connection, end: self.end, env: env.clone() }))
    }

    fn peer(&self) -> Peer {
        Peer::at(self.peer.clone())
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if !self.attached
            && let Some((core, connection)) = self.connection()
        {
            connection.close(&core, self.end);
        }
    }
}

struct Attached {
    core: Rc<Core>,
    connection: Rc<Connection>,
    end: usize,
    env: Env,
}

impl Stream for Attached {
    fn receive(&self, buf: Buf) -> Io {
        let (io, completion) = self.env.start_operation(None);
        let mut pipe = self.connection.pipes[self.end].borrow_mut();
        if pipe.receiver_closed {
            completion.complete(IoOutcome::done(0).with_buffers(smallvec![buf]));
        } else if pipe.receiving.is_some() || buf.is_empty() {
            let invalid = IoOutcome::failed(IoError::new(IoErrorKind::Invalid));
            completion.complete(invalid.with_buffers(smallvec![buf]));
        } else {
            pipe.receiving = Some((buf, completion));
        }
        drop(pipe);
        self.connection.kick(&self.core, self.end);
        io
    }

    fn send(&self, slices: Slices) -> Io {
        let (io, completion) = self.env.start_operation(None);
        let mut pipe = self.connection.pipes[1 - self.end].borrow_mut();
        if pipe.sender_closed {
            completion.complete(IoOutcome::failed(BROKEN_PIPE));
        } else if pipe.sending.is_some() {
            completion.complete(IoOutcome::failed(IoError::new(IoErrorKind::Invalid)));
        } else {
            let mut bytes = vec![0; platform::buffers::total_len(&slices).as_usize()];
            let mut rest = bytes.as_mut_slice();
            for slice in &slices {
                let (target, after) = rest.split_at_mut(slice.len().as_usize());
                slice.copy_to(target);
                rest = after;
            }
            pipe.sending = Some(Sending { bytes, moved: 0, completion });
        }
        drop(pipe);
        self.connection.kick(&self.core, 1 - self.end);
        io
    }

    fn shutdown(&self) {
        self.connection.close(&self.core, self.end);
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.connection.close(&self.core, self.end);
    }
}

struct Listening {
    process: u64,
    waiting: VecDeque<Source>,
    acceptor: Option<Waker>,
}

/// All connections and listeners of a simulation.
#[derive(Default)]
pub(crate) struct Network {
    connections: BTreeMap<u64, Rc<Connection>>,
    listeners: BTreeMap<Address, Listening>,
    next_connection: u64,
}

/// Starts a listener of a process.
pub(crate) fn listen(
    core: &Rc<Core>,
    address: &Address,
    process: u64,
) -> platform::Result<Rc<dyn Listener>> {
    let mut network = core.network.borrow_mut();
    let mut address = address.clone();
    if let Address::Tcp { host, port: port @ 0 } = &mut address {
        let taken =
            |port| network.listeners.contains_key(&Address::Tcp { host: host.clone(), port });
        *port = (FIRST_FREE_PORT..=u16::MAX)
            .find(|port| !taken(*port))
            .ok_or_else(|| Error::new(ErrorKind::InUse, format!("no port of {host} is free")))?;
    }
    if network.listeners.contains_key(&address) {
        return Err(Error::new(
            ErrorKind::InUse,
            format!("{address} is in use by another server; stop it or listen elsewhere"),
        ));
    }
    let listening = Listening { process, waiting: VecDeque::new(), acceptor: None };
    network.listeners.insert(address.clone(), listening);
    Ok(Rc::new(SimListener { core: core.clone(), address, process }))
}

/// Connects a process.
pub(crate) async fn connect(
    core: &Rc<Core>,
    address: &Address,
    process: u64,
) -> platform::Result<Box<dyn StreamSource>> {
    let delay = {
        let network = core.network.borrow();
        core.options
            .network
            .latency
            .draw(&mut core.rng("connect", &network.next_connection.to_string()))
    };
    core.wait(delay).await;
    let mut network = core.network.borrow_mut();
    let network = &mut *network;
    let refused = || {
        Error::new(
            ErrorKind::Unreachable,
            format!("no server listens on {address}; check that it runs"),
        )
    };
    let listening = network.listeners.get_mut(address).ok_or_else(refused)?;
    if listening.waiting.len() >= BACKLOG {
        return Err(refused());
    }
    let id = network.next_connection;
    network.next_connection += 1;
    let peers = [address.to_string(), format!("client {id}")];
    let connection = Rc::new(Connection {
        id,
        pipes: Default::default(),
        rng: RefCell::new(core.rng("network", &id.to_string())),
        processes: [Cell::new(process), Cell::new(listening.process)],
        closed: Default::default(),
        peers,
    });
    let source = |end: usize| Source {
        sim: core.id(),
        connection: id,
        end,
        peer: connection.peers[end].clone(),
        attached: false,
    };
    listening.waiting.push_back(source(1));
    if let Some(acceptor) = listening.acceptor.take() {
        acceptor.wake();
    }
    let connected = source(0);
    network.connections.insert(id, connection);
    Ok(Box::new(connected))
}

/// Ends the streams and listeners of a process that has ended.
pub(crate) fn process_died(core: &Rc<Core>, process: u64) {
    let (connections, refused): (Vec<_>, Vec<_>) = {
        let mut network = core.network.borrow_mut();
        let addresses: Vec<Address> = network
            .listeners
            .iter()
            .filter(|(_, listening)| listening.process == process)
            .map(|(address, _)| address.clone())
            .collect();
        let refused =
            addresses.iter().filter_map(|address| network.listeners.remove(address)).collect();
        (network.connections.values().cloned().collect(), refused)
    };
    // Dropped without a borrow: unaccepted streams close themselves.
    drop(refused);
    for connection in connections {
        for end in 0..2 {
            if connection.processes[end].get() == process {
                connection.close(core, end);
            }
        }
    }
}

struct SimListener {
    core: Rc<Core>,
    address: Address,
    process: u64,
}

impl Listener for SimListener {
    fn accept(&self) -> LocalFuture<'_, platform::Result<Box<dyn StreamSource>>> {
        Box::pin(poll_fn(|context| {
            let mut network = self.core.network.borrow_mut();
            match network.listeners.get_mut(&self.address) {
                Some(listening) if listening.process == self.process => {
                    match listening.waiting.pop_front() {
                        Some(source) => Poll::Ready(Ok(Box::new(source) as Box<dyn StreamSource>)),
                        None => {
                            listening.acceptor = Some(context.waker().clone());
                            Poll::Pending
                        }
                    }
                }
                _ => Poll::Ready(Err(Error::new(
                    ErrorKind::System,
                    format!("the listener on {} was closed", self.address),
                ))),
            }
        }))
    }

    fn address(&self) -> Address {
        self.address.clone()
    }

    fn close(&self) {
        let closed = {
            let mut network = self.core.network.borrow_mut();
            match network.listeners.get(&self.address) {
                Some(listening) if listening.process == self.process => {
                    network.listeners.remove(&self.address)
                }
                _ => None,
            }
        };
        if let Some(mut listening) = closed
            && let Some(acceptor) = listening.acceptor.take()
        {
            acceptor.wake();
        }
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        self.close();
    }
}
