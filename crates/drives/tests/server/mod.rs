//! An NBD server in virtual time with the faults of real ones: no replies, late writes,
//! disconnects, a lost cache, restarts.

use nbd::{
    BlockSizes, Command, CommandFlags, ExportEntry, ExportFlags, ExportInfo, Exports, Replies,
    Request, RequestEvent, RequestStream, ServerEvent, ServerHandshake,
};
use platform::{Buf, Env, Stream};
use smallvec::smallvec;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::ByteCount;

pub const SIZE: u64 = 1 << 20;
pub const ADDRESS: &str = "unix:/server";
pub const URI: &str = "nbd+unix:///disk?socket=/server";

/// How the server handles requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Serve,
    /// Performs requests without a reply.
    Swallow,
    /// Delays requests until [`Server::land_held`].
    Hold,
    /// Serves all requests except flushes, which get no reply.
    NoFlush,
    /// Fails every request with ENOMEM.
    NoMemory,
}

pub struct Server {
    env: Env,
    pub mode: Cell<Mode>,
    info: RefCell<ExportInfo>,
    durable: RefCell<Vec<u8>>,
    /// The content that a crash loses.
    cached: RefCell<Vec<u8>>,
    held: RefCell<Vec<(Request, Vec<u8>)>>,
    streams: RefCell<Vec<Rc<dyn Stream>>>,
    listener: RefCell<Option<Rc<dyn platform::Listener>>>,
    /// The number of connections, and of requests that write.
    pub connections: Cell<u32>,
    pub writes: Cell<u32>,
}

struct One(ExportInfo);

impl Exports for One {
    fn list(&self) -> Vec<ExportEntry> {
        Vec::new()
    }
    fn find(&self, _: &str) -> Option<ExportInfo> {
        Some(self.0.clone())
    }
}

pub fn all_flags() -> ExportFlags {
    ExportFlags {
        flush: true,
        fua: true,
        trim: true,
        write_zeroes: true,
        multi_conn: true,
        ..ExportFlags::default()
    }
}

impl Server {
    pub fn new(env: &Env, flags: ExportFlags) -> Rc<Server> {
        let info = ExportInfo {
            name: "disk".into(),
            description: String::new(),
            size_bytes: SIZE,
            flags,
            block_sizes: BlockSizes {
                minimum_bytes: 512,
                preferred_bytes: 4096,
                maximum_bytes: 64 << 10,
            },
            base_allocation: true,
        };
        Rc::new(Server {
            env: env.clone(),
            mode: Cell::new(Mode::Serve),
            info: RefCell::new(info),
            durable: RefCell::new(vec![0; SIZE as usize]),
            cached: RefCell::new(vec![0; SIZE as usize]),
            held: RefCell::default(),
            streams: RefCell::default(),
            listener: RefCell::default(),
            connections: Cell::default(),
            writes: Cell::default(),
        })
    }

    /// Starts to accept connections.
    pub async fn start(self: &Rc<Self>) {
        let listener = self.env.world().listen(&ADDRESS.parse().unwrap()).await.unwrap();
        *self.listener.borrow_mut() = Some(listener.clone());
        let server = self.clone();
        self.env.spawn("server", async move {
            while let Ok(source) = listener.accept().await {
                let stream = source.attach(&server.env).unwrap();
                server.connections.set(server.connections.get() + 1);
                server.streams.borrow_mut().push(stream.clone());
                let connection = server.clone();
                server.env.spawn("connection", async move { connection.serve(stream).await });
            }
        });
    }

    /// Disconnects all clients, as a network fault or a restart does; the server keeps listening.
    pub fn break_off(&self) {
        self.streams.borrow_mut().drain(..).for_each(|stream| stream.shutdown());
    }

    /// Stops listening until [`Server::start`].
    pub fn stop(&self) {
        if let Some(listener) = self.listener.take() {
            listener.close();
        }
        self.break_off();
    }

    /// A power cut of the server: unflushed writes are lost.
    pub fn lose_cache(&self) {
        self.cached.borrow_mut().copy_from_slice(&self.durable.borrow());
    }

    pub fn shrink(&self) {
        self.info.borrow_mut().size_bytes = SIZE / 2;
    }

    /// Performs the delayed requests, even if their connection is closed.
    pub fn land_held(&self) {
        let held = self.held.take();
        held.into_iter().for_each(|(request, payload)| self.change(&request, &payload));
    }

    pub fn content(&self, start: u64, len: u64) -> Vec<u8> {
        self.cached.borrow()[start as usize..(start + len) as usize].to_vec()
    }

    async fn send(&self, stream: &Rc<dyn Stream>, output: &mut Vec<u8>) {
        if !output.is_empty() {
            // The next receive detects a closed connection.
            let _ = stream.send(smallvec![Buf::copy_of(output).freeze()]).await;
            output.clear();
        }
    }

    async fn serve(&self, stream: Rc<dyn Stream>) {
        let (mut input, mut output) = (Vec::new(), Vec::new());
        let info = One(self.info.borrow().clone());
        let mut handshake = ServerHandshake::start(&mut output);
        let negotiated = loop {
            let step = handshake.receive(&input, &info, &mut output).unwrap();
            input.drain(..step.consumed);
            match step.event {
                Some(ServerEvent::Enter(negotiated)) => break negotiated,
                Some(ServerEvent::Abort | ServerEvent::Encrypt) => return,
                None => {}
            }
            if step.consumed == 0 || input.is_empty() {
                self.send(&stream, &mut output).await;
                let Some(more) = receive(&stream).await else { return };
                input.extend(more);
            }
        };
        self.send(&stream, &mut output).await;
        let replies = Replies::new(&negotiated);
        let mut requests = RequestStream::new(*negotiated);
        let mut writing: Option<(Request, Vec<u8>)> = None;
        loop {
            let step = requests.receive(&input).unwrap();
            input.drain(..step.consumed);
            match step.event {
                None => {
                    self.send(&stream, &mut output).await;
                    let Some(more) = receive(&stream).await else { return };
                    input.extend(more);
                }
                Some(RequestEvent::Disconnect) => return,
                Some(RequestEvent::Rejected(rejected)) => {
                    let reply = replies.error(rejected.reply_to, rejected.errno, rejected.message);
                    output.extend_from_slice(reply.as_ref());
                }
                Some(RequestEvent::Request(request)) if request.payload_bytes() > 0 => {
                    writing = Some((request, Vec::new()));
                }
                Some(RequestEvent::Request(request)) => {
                    self.take(&replies, request, Vec::new(), &mut output)
                }
                Some(RequestEvent::Payload { left_bytes }) => {
                    let taken = input.len().min(left_bytes as usize);
                    let (request, mut payload) = writing.take().unwrap();
                    payload.extend(input.drain(..taken));
                    requests.payload_taken(taken).unwrap();
                    if requests.payload_left() > 0 {
                        writing = Some((request, payload));
                    } else {
                        self.take(&replies, request, payload, &mut output);
                    }
                }
            }
        }
    }

    fn take(&self, replies: &Replies, request: Request, payload: Vec<u8>, output: &mut Vec<u8>) {
        let is_flush = request.command == Command::Flush;
        match self.mode.get() {
            Mode::Hold => return self.held.borrow_mut().push((request, payload)),
            Mode::NoFlush if is_flush => return,
            Mode::NoMemory => {
                let reply = replies.error(request.reply_to(), nbd::Errno::NoMem, "no memory");
                return output.extend_from_slice(reply.as_ref());
            }
            _ => self.change(&request, &payload),
        }
        if self.mode.get() == Mode::Swallow {
            return;
        }
        let range =
            request.offset_bytes as usize..(request.offset_bytes + request.length_bytes) as usize;
        match request.command {
            Command::Read => {
                output.extend_from_slice(replies.read(&request).as_ref());
                output.extend_from_slice(&self.cached.borrow()[range]);
            }
            Command::BlockStatus => {
                // Alternating data and hole extents, one per reply: a status takes many requests.
                let block = request.length_bytes.min(4096);
                let is_hole = (request.offset_bytes / 4096) % 2 == 1;
                let extents =
                    [if is_hole { nbd::Extent::hole(block) } else { nbd::Extent::data(block) }];
                replies.chunks().unwrap().block_status(&request, &extents, output);
            }
            _ => output.extend_from_slice(replies.done(request.reply_to()).as_ref()),
        }
    }

    fn change(&self, request: &Request, payload: &[u8]) {
        let range =
            request.offset_bytes as usize..(request.offset_bytes + request.length_bytes) as usize;
        let mut cached = self.cached.borrow_mut();
        match request.command {
            Command::Write => cached[range.clone()].copy_from_slice(payload),
            Command::WriteZeroes | Command::Trim => cached[range.clone()].fill(0),
            Command::Flush => return self.durable.borrow_mut().copy_from_slice(&cached),
            _ => return,
        }
        self.writes.set(self.writes.get() + 1);
        if request.flags.contains(CommandFlags::FUA) {
            self.durable.borrow_mut()[range.clone()].copy_from_slice(&cached[range]);
        }
    }
}

async fn receive(stream: &Rc<dyn Stream>) -> Option<Vec<u8>> {
    let outcome = stream.receive(Buf::unpooled(ByteCount(4096))).await;
    match outcome.result {
        Ok(count @ 1..) => Some(outcome.buffers[0].bytes()[..count as usize].to_vec()),
        _ => None,
    }
}
