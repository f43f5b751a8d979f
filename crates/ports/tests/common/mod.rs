//! What the tests share: a machine that serves volumes in virtual time, and a client that speaks
//! NBD.
#![allow(dead_code, reason = "each test file uses its own part")]

use engine::{
    Attachment, Regions, Shard, ShardIndex, ShardMessage, ShardSeed, VolumeId, VolumeSpec,
    VolumeState,
};
use layout::{Geometry, Level};
use nbd::{
    ClientHandshake, ClientOptions, ClientStream, Command, CommandFlags, Cookie, Extent, Failure,
    ReplyEvent, ReplyStyle,
};
use platform::{Address, Buf, Env, Hosts, Slices, Stream, mailbox};
use platform_sim::{DriveOptions, ProcessId, Sim, SimOptions};
use ports::nbd::Nbd;
use ports::{
    PortMessage, Protocol, Server, ServerOptions, SessionOptions, port_mailbox, serve_shard,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use units::{ByteCount, ByteOffset, DriveCount, SectorSize, StripSize};

pub const STRIP: u64 = 16 << 10;
pub const MEMORY: ByteCount = ByteCount(4 << 20);

/// A volume to create.
pub struct Plan {
    pub name: &'static str,
    pub level: Level,
    pub drives: u16,
    pub drive_bytes: u64,
}

pub const RAID5: Plan = Plan { name: "five", level: Level::Raid5, drives: 4, drive_bytes: 1 << 20 };

/// A process with an engine and a server at `unix:port`, and another one for clients.
pub struct MachineOf<P> {
    pub sim: Sim,
    pub shards: Vec<Shard>,
    pub server: RefCell<Option<Server<P>>>,
    pub clients: ProcessId,
    pub hosts: Hosts,
    /// The mailbox of each shard's port.
    pub ports: Vec<mailbox::Sender<PortMessage>>,
    senders: Vec<mailbox::Sender<ShardMessage>>,
}

/// A machine that serves NBD.
pub type Machine = MachineOf<Nbd>;

pub fn address() -> Address {
    Address::Unix("port".to_owned())
}

pub fn options(seed: u64) -> SimOptions {
    SimOptions { memory: MEMORY, ..SimOptions::seeded(seed) }
}

impl<P: Protocol> MachineOf<P> {
    pub fn start(options: SimOptions, plans: &[Plan]) -> MachineOf<P> {
        MachineOf::start_with(options, plans, SessionOptions::default(), ServerOptions::default())
    }

    pub fn start_with(
        options: SimOptions,
        plans: &[Plan],
        session: SessionOptions,
        server: ServerOptions,
    ) -> MachineOf<P> {
        let shards = options.shards as u16;
        let mut sim = Sim::new(options);
        add_drives(&mut sim, plans);
        let clients = sim.add_process();
        let envs: Vec<Env> = (0..shards).map(|shard| sim.shard(shard.into())).collect();
        let seeds: Vec<ShardSeed> = envs.iter().map(|env| ShardSeed::new(env, shards)).collect();
        let senders: Vec<_> = seeds.iter().map(ShardSeed::sender).collect();
        let (reports, inbox) =
            mailbox::mailbox(&envs[0], usize::from(shards) * engine::REPORTS_OPEN);
        let started: Vec<Shard> = seeds
            .into_iter()
            .enumerate()
            .map(|(index, seed)| seed.start(ShardIndex(index as u16), shards, reports.clone()))
            .collect();
        for sender in &senders {
            assert!(sender.send(ShardMessage::Peers(senders.clone())).is_ok());
        }
        let env = envs[0].clone();
        let ids = (1..).map(VolumeId);
        let attachments: Vec<_> =
            plans.iter().zip(ids).map(|(plan, id)| attachment(&mut sim, plan, id)).collect();
        let states: BTreeMap<_, _> = attachments
            .iter()
            .map(|attachment| (attachment.spec.id, attachment.state.clone()))
            .collect();
        env.spawn("keeper", engine::unkept::keep(env.clone(), inbox, senders.clone(), states));
        for attachment in attachments {
            for (sender, env) in senders.iter().zip(&envs) {
                let (done, mut answer) = mailbox::mailbox(env, 1);
                let message = ShardMessage::Attach(Box::new(attachment.clone()), done);
                assert!(sender.send(message).is_ok());
                let attached = env.spawn("attach", async move { answer.receive().await });
                sim.finish(&attached).unwrap().unwrap().unwrap();
            }
        }
        let hosts = Hosts::default();
        let ports = started.iter().zip(&envs).map(|(shard, env)| {
            let (sender, receiver) = port_mailbox(env);
            env.spawn(
                "port",
                serve_shard::<P, _>(shard.clone(), hosts.clone(), receiver, session.clone()),
            );
            sender
        });
        let ports: Vec<_> = ports.collect();
        let own = ports.clone();
        let server = sim
            .run(async move { Server::<P>::start(&env, &[address()], ports, server).await })
            .unwrap()
            .unwrap();
        MachineOf {
            sim,
            shards: started,
            server: RefCell::new(Some(server)),
            clients,
            hosts,
            ports: own,
            senders,
        }
    }

    pub fn client_env(&self) -> Env {
        self.sim.env_of(self.clients, 0)
    }

    /// Runs a client in its own process.
    pub fn run<T: 'static, F: Future<Output = T> + 'static>(
        &mut self,
        client: impl FnOnce(Env) -> F,
    ) -> T {
        let env = self.client_env();
        let task = env.spawn("client", client(env.clone()));
        self.sim.finish(&task).unwrap()
    }

    /// Stops serving the first volume on every shard.
    pub fn detach(&mut self) -> platform::JoinHandle<()> {
        self.tell_all(|done| ShardMessage::Detach(VolumeId(1), Vec::new(), done))
    }

    /// Renames the first volume on every shard.
    pub fn rename(&mut self, name: &str) -> platform::JoinHandle<()> {
        self.tell_all(|done| ShardMessage::Rename(VolumeId(1), name.to_owned(), done))
    }

    fn tell_all(
        &mut self,
        message: impl Fn(engine::Done) -> ShardMessage,
    ) -> platform::JoinHandle<()> {
        let env = self.sim.env();
        let (done, mut answers) = mailbox::mailbox(&env, self.senders.len());
        for sender in &self.senders {
            assert!(sender.send(message(done.clone())).is_ok());
        }
        drop(done);
        env.spawn("tell all shards", async move { while answers.receive().await.is_some() {} })
    }

    /// Lets outstanding requests end, then checks that sessions have left nothing behind.
    pub fn assert_nothing_left(&mut self) {
        let soon = self.sim.now() + std::time::Duration::from_secs(60);
        self.sim.run_until(soon).unwrap();
        for shard in &self.shards {
            let tasks = shard.env().executor().unfinished_tasks();
            for name in ["port session", "port worker", "port writer", "port refusal"] {
                assert!(!tasks.contains(&name), "a task is left: {tasks:?}");
            }
            assert_eq!(shard.env().pool().used(), ByteCount::ZERO);
        }
        if let Some(server) = &*self.server.borrow() {
            assert_eq!(server.connections(), 0);
            assert_eq!(self.hosts.count(), 0, "a disconnected host is still listed");
        }
    }
}

fn add_drives(sim: &mut Sim, plans: &[Plan]) {
    for plan in plans {
        for drive in 0..plan.drives {
            let options = DriveOptions::sized(ByteCount(plan.drive_bytes));
            sim.add_drive(&format!("{}{drive}", plan.name), options);
        }
    }
}

fn attachment(sim: &mut Sim, plan: &Plan, id: VolumeId) -> Attachment {
    let strip = StripSize::new(ByteCount(STRIP)).unwrap();
    let count = DriveCount(plan.drives);
    let geometry = Geometry::new(plan.level, count, strip, ByteCount(plan.drive_bytes)).unwrap();
    let names: Vec<String> =
        (0..plan.drives).map(|drive| format!("{}{drive}", plan.name)).collect();
    let env = sim.env();
    let sources = sim
        .run(async move {
            let mut sources = Vec::new();
            for name in &names {
                sources.push(Some(env.world().open_drive(name).await.unwrap()));
            }
            sources
        })
        .unwrap();
    let spec = VolumeSpec {
        id,
        name: plan.name.to_owned(),
        geometry,
        sector: SectorSize::B512,
        data_start: ByteOffset(0),
        capacity: geometry.capacity(),
        policy: engine::FaultPolicy::default(),
    };
    Attachment::new(Arc::new(spec), sources, VolumeState::optimal(&Regions::of(&geometry)))
}

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    pub command: Command,
    pub flags: CommandFlags,
    pub offset: u64,
    pub length: u64,
    pub payload: Vec<u8>,
}

impl Ask {
    pub fn new(command: Command, offset: u64, length: u64) -> Ask {
        Ask { command, flags: CommandFlags::NONE, offset, length, payload: Vec::new() }
    }

    pub fn read(offset: u64, length: u64) -> Ask {
        Ask::new(Command::Read, offset, length)
    }

    pub fn write(offset: u64, payload: Vec<u8>) -> Ask {
        Ask { payload: payload.clone(), ..Ask::new(Command::Write, offset, payload.len() as u64) }
    }

    pub fn with(self, flags: CommandFlags) -> Ask {
        Ask { flags, ..self }
    }
}

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub result: Result<(), Failure>,
    pub data: Vec<u8>,
    pub extents: Vec<Extent>,
}

/// A client's connection.
pub struct Client {
    pub stream: Rc<dyn Stream>,
    pub protocol: ClientStream,
    pub env: Env,
}

/// Why a reply is missing.
#[derive(Debug)]
pub enum Lost {
    /// The server closed the connection.
    Closed,
    /// The protocol's own error.
    Protocol(nbd::Error),
}

pub fn client_options(export: &str, style: ReplyStyle) -> ClientOptions {
    ClientOptions {
        extended: style == ReplyStyle::Extended,
        structured: style != ReplyStyle::Simple,
        ..ClientOptions::new(export)
    }
}

pub fn slices(bytes: &[u8]) -> Slices {
    std::iter::once(Buf::copy_of(bytes).freeze()).collect()
}

pub async fn dial(env: &Env) -> Rc<dyn Stream> {
    env.world().connect(&address()).await.unwrap().attach(env).unwrap()
}

/// Some bytes; empty at the end of the stream.
pub async fn hear(stream: &dyn Stream) -> Vec<u8> {
    let outcome = stream.receive(Buf::unpooled(ByteCount(8192))).await;
    outcome.buffers[0].bytes()[..outcome.result.unwrap_or(0) as usize].to_vec()
}

impl Client {
    pub async fn connect(env: &Env, options: ClientOptions) -> Result<Client, Lost> {
        let stream = dial(env).await;
        let mut handshake = ClientHandshake::new(options).map_err(Lost::Protocol)?;
        let mut output = Vec::new();
        loop {
            let input = hear(&*stream).await;
            if input.is_empty() {
                return Err(Lost::Closed);
            }
            let mut rest = &input[..];
            while !rest.is_empty() {
                let step = handshake.receive(rest, &mut output);
                if !output.is_empty() && stream.send(slices(&output)).await.result.is_err() {
                    return Err(Lost::Closed);
                }
                output.clear();
                let step = step.map_err(Lost::Protocol)?;
                rest = &rest[step.consumed..];
                if let Some(connected) = step.event {
                    assert!(rest.is_empty(), "the server spoke unasked");
                    return Ok(Client {
                        stream,
                        protocol: ClientStream::new(connected, 64),
                        env: env.clone(),
                    });
                }
            }
        }
    }

    /// The bytes of new requests.
    pub fn begin(&mut self, asks: &[Ask]) -> (Vec<Cookie>, Vec<u8>) {
        let mut bytes = Vec::new();
        let mut cookies = Vec::new();
        for ask in asks {
            let begun = self.protocol.begin(ask.command, ask.flags, ask.offset, ask.length);
            let (cookie, header) = begun.unwrap();
            bytes.extend_from_slice(header.as_ref());
            bytes.extend_from_slice(&ask.payload);
            cookies.push(cookie);
        }
        (cookies, bytes)
    }

    /// Sends all requests at once, and receives all replies, in the order of the requests.
    pub async fn ask_all(&mut self, asks: &[Ask]) -> Result<Vec<Answer>, Lost> {
        let (cookies, bytes) = self.begin(asks);
        let sending = self.stream.send(slices(&bytes));
        let answers = self.answers(asks, &cookies).await;
        match answers {
            Ok(_) => assert!(sending.await.result.is_ok()),
            Err(_) => sending.abandon(),
        }
        answers
    }

    pub async fn ask(&mut self, ask: Ask) -> Answer {
        self.ask_all(&[ask]).await.unwrap().remove(0)
    }

    pub async fn answers(&mut self, asks: &[Ask], cookies: &[Cookie]) -> Result<Vec<Answer>, Lost> {
        let mut answers: Vec<Answer> = asks
            .iter()
            .map(|ask| {
                let length = if ask.command == Command::Read { ask.length } else { 0 };
                Answer { result: Ok(()), data: vec![0xee; length as usize], extents: Vec::new() }
            })
            .collect();
        let mut open = asks.len();
        while open > 0 {
            let input = hear(&*self.stream).await;
            if input.is_empty() {
                return Err(Lost::Closed);
            }
            let mut rest = &input[..];
            loop {
                let step = self.protocol.receive(rest).map_err(Lost::Protocol)?;
                rest = &rest[step.consumed..];
                let place = |cookie| cookies.iter().position(|known| *known == cookie).unwrap();
                match step.event {
                    None => break,
                    Some(ReplyEvent::Payload(run)) => {
                        let count = rest.len().min(run.left_bytes as usize);
                        let at = run.position_bytes as usize;
                        answers[place(run.cookie)].data[at..at + count]
                            .copy_from_slice(&rest[..count]);
                        self.protocol.payload_taken(count).unwrap();
                        rest = &rest[count..];
                    }
                    Some(ReplyEvent::Zeroes { cookie, position_bytes, length_bytes }) => {
                        let at = position_bytes as usize;
                        answers[place(cookie)].data[at..at + length_bytes as usize].fill(0);
                    }
                    Some(ReplyEvent::Extents { cookie, extents }) => {
                        answers[place(cookie)].extents = extents
                    }
                    Some(ReplyEvent::Done { cookie, result }) => {
                        answers[place(cookie)].result = result;
                        open -= 1;
                    }
                }
            }
        }
        Ok(answers)
    }

    /// Disconnects as the protocol requires.
    pub async fn leave(self) {
        let farewell = self.protocol.disconnect().unwrap();
        assert!(self.stream.send(slices(farewell.as_ref())).await.result.is_ok());
        assert!(hear(&*self.stream).await.is_empty(), "nothing is said after the farewell");
    }
}
