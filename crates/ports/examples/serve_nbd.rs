//! Serves one volume over NBD until standard input ends, without a controller: for benchmarks and
//! for manual tests with other programs.
//!
//! ```text
//! serve_nbd unix:/tmp/nbd.sock raid5 4xmem:64M [--strip 64K] [--shards N] [--memory 256M]
//! ```
//!
//! Only data is durable: file drives have no labels here, and a crash causes no resync.
#![allow(clippy::disallowed_methods, reason = "a binary joins a world to the engine")]

use engine::{
    Attachment, Regions, Shard, ShardIndex, ShardMessage, ShardSeed, VolumeId, VolumeSpec,
    VolumeState,
};
use layout::{Geometry, Level};
use platform::{Address, DriveSource, Env, mailbox};
use ports::nbd::Nbd;
use ports::{PortMessage, Server, ServerOptions, SessionOptions, port_mailbox, serve_shard};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Read;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use units::{ByteCount, ByteOffset, DriveCount, SectorSize, StripSize};

struct Arguments {
    address: Address,
    level: Level,
    drives: Vec<String>,
    strip: StripSize,
    shards: u16,
    memory: ByteCount,
}

fn parse() -> Result<Arguments, Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let mut next = |what: &str| words.next().ok_or(format!("{what} is missing"));
    let address = next("the address")?.parse()?;
    let level = next("the level")?.parse()?;
    let mut arguments = Arguments {
        address,
        level,
        drives: Vec::new(),
        strip: StripSize::KIB_64,
        shards: 1,
        memory: ByteCount(256 << 20),
    };
    while let Ok(word) = next("") {
        match word.as_str() {
            "--strip" => arguments.strip = StripSize::new(next("the strip")?.parse()?)?,
            "--shards" => arguments.shards = next("the number of shards")?.parse()?,
            "--memory" => arguments.memory = next("the memory")?.parse()?,
            drive => match drive.split_once('x') {
                Some((count, spec)) if count.parse::<u16>().is_ok() => {
                    for _ in 0..count.parse::<u16>()? {
                        arguments.drives.push(spec.to_owned());
                    }
                }
                _ => arguments.drives.push(drive.to_owned()),
            },
        }
    }
    Ok(arguments)
}

/// The message of a ready shard: the mailboxes of its engine and its port.
type Ready = (mailbox::Sender<ShardMessage>, mailbox::Sender<PortMessage>);

fn start_shard(
    env: &Env,
    index: u16,
    count: u16,
    reports: mailbox::Sender<engine::Report>,
) -> (Ready, impl Future<Output = ()> + use<>) {
    let seed = ShardSeed::new(env, count);
    let (port, messages) = port_mailbox(env);
    let ready = (seed.sender(), port);
    let shard: Shard = seed.start(ShardIndex(index), count, reports);
    (
        ready,
        serve_shard::<Nbd, _>(
            shard,
            platform::Hosts::default(),
            messages,
            SessionOptions::default(),
        ),
    )
}

async fn attach(
    env: &Env,
    arguments: &Arguments,
    shards: &[mailbox::Sender<ShardMessage>],
) -> Result<VolumeSpec, Box<dyn Error>> {
    let mut sources: Vec<Option<Arc<dyn DriveSource>>> = Vec::new();
    for spec in &arguments.drives {
        sources.push(Some(drives::open(env, spec).await?));
    }
    let infos = || sources.iter().flatten().map(|source| source.info());
    let size = infos().map(|info| info.size).min().unwrap_or(ByteCount::ZERO);
    let sector = infos().map(|info| info.logical_sector).max().unwrap_or(SectorSize::B512);
    let count = DriveCount(sources.len() as u16);
    let geometry = Geometry::new(arguments.level, count, arguments.strip, size)?;
    let spec = VolumeSpec {
        id: VolumeId(1),
        name: "v".to_owned(),
        geometry,
        sector,
        data_start: ByteOffset(0),
        capacity: geometry.capacity(),
        policy: engine::FaultPolicy::default(),
    };
    let state = VolumeState::optimal(&Regions::of(&spec.geometry));
    let attachment = Attachment::new(Arc::new(spec.clone()), sources, state);
    let (done, mut answers) = mailbox::mailbox(env, shards.len());
    for shard in shards {
        let message = ShardMessage::Attach(Box::new(attachment.clone()), done.clone());
        shard.send(message).map_err(|_| "a shard is gone")?;
    }
    drop(done);
    while let Some(answer) = answers.receive().await {
        answer?;
    }
    Ok(spec)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = parse()?;
    let settings = platform_linux::Settings::with_memory(arguments.memory);
    let first = platform_linux::Shard::new(&settings)?;
    let env = first.env().clone();
    let count = arguments.shards.max(1);
    let (reports, inbox) = mailbox::mailbox(&env, usize::from(count) * engine::REPORTS_OPEN);
    let (ready, port) = start_shard(&env, 0, count, reports.clone());
    env.spawn("nbd port", port);
    let mut shards = vec![ready];
    let mut threads = Vec::new();
    for index in 1..count {
        let (tell, hear) = mpsc::channel();
        let reports = reports.clone();
        let thread =
            platform_linux::spawn_shard(&format!("shard {index}"), settings.clone(), move |env| {
                let (ready, port) = start_shard(&env, index, count, reports);
                tell.send(ready).expect("the first shard waits for this");
                port
            })?;
        threads.push(thread);
        shards.push(hear.recv()?);
    }
    drop(reports);
    let (engines, ports): (Vec<_>, Vec<_>) = shards.into_iter().unzip();
    for engine in &engines {
        engine.send(ShardMessage::Peers(engines.clone())).map_err(|_| "a shard is gone")?;
    }
    let (input, mut ended) = mailbox::mailbox::<()>(&env, 1);
    std::thread::spawn(move || {
        let input = input;
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(input);
    });
    first.run(async move {
        let spec = attach(&env, &arguments, &engines).await?;
        let states =
            BTreeMap::from([(spec.id, VolumeState::optimal(&Regions::of(&spec.geometry)))]);
        env.spawn("keeper", engine::unkept::keep(env.clone(), inbox, engines, states));
        let options = ServerOptions::default();
        let server =
            Server::<Nbd>::start(&env, std::slice::from_ref(&arguments.address), ports, options)
                .await?;
        println!("'{}' of {} at {}", spec.name, spec.capacity, server.addresses()[0]);
        while ended.receive().await.is_some() {}
        server.shut_down(Duration::from_secs(5)).await;
        Ok::<(), Box<dyn Error>>(())
    })?;
    for thread in threads {
        thread.join()?;
    }
    Ok(())
}
