//! The shards of a controller: shard 0 on the calling thread, each other on its own thread.

use crate::failure::{Failure, Outcome};
use crate::guests::OfferSender;
use crate::service::Pulse;
use engine::{Report, Shard, ShardIndex, ShardMessage, ShardSeed};
use guests::{GuestMessage, guest_mailbox, offer, serve_guests};
use platform::{Env, Hosts, mailbox};
use platform_linux::{Settings, ShardHandle, spawn_shard};
use ports::nbd::Nbd;
use ports::{PortMessage, SessionOptions, port_mailbox, serve_shard};
use std::sync::mpsc;
use units::ByteCount;

/// Options for the ports of each shard.
#[derive(Clone, Default)]
pub struct PortOptions {
    /// The rights of sessions.
    pub sessions: SessionOptions,
    /// The list of connected hosts.
    pub hosts: Hosts,
    /// The watchdog ticks.
    pub pulse: Pulse,
    /// The thread that creates sockets for guests, if vhost-user is enabled.
    pub offers: Option<OfferSender>,
}

/// The channels of a shard.
struct Contact {
    index: u16,
    engine: mailbox::Sender<ShardMessage>,
    port: mailbox::Sender<PortMessage>,
    guests: mailbox::Sender<GuestMessage>,
    stop: mailbox::Sender<()>,
}

/// All shards, as seen from shard 0.
pub struct Node {
    /// Messages to each shard's engine.
    pub engines: Vec<mailbox::Sender<ShardMessage>>,
    /// Messages to each shard's NBD port.
    pub ports: Vec<mailbox::Sender<PortMessage>>,
    /// Messages to each shard about guests' queues.
    pub guests: Vec<mailbox::Sender<GuestMessage>>,
    /// The reports of the shards, for the controller.
    pub reports: mailbox::Receiver<Report>,
    stops: Vec<mailbox::Sender<()>>,
    threads: Vec<ShardHandle<()>>,
}

impl Node {
    /// Starts `count` shards; the first runs on the thread of `env`. Each gets `memory`.
    pub fn start(env: &Env, count: u16, memory: ByteCount, port: PortOptions) -> Outcome<Node> {
        let (reports, receiver) = mailbox::mailbox(env, usize::from(count) * engine::REPORTS_OPEN);
        let (introduce, contacts) = mpsc::channel();
        let mut threads = Vec::new();
        for index in 1..count {
            let (introduce, reports, port) = (introduce.clone(), reports.clone(), port.clone());
            let thread = spawn_shard(
                &format!("shard {index}"),
                Settings::with_memory(memory),
                move |env| {
                    let stopped = start_shard(&env, index, count, reports, port, &introduce);
                    async move {
                        let (shard, mut stopped) = stopped;
                        stopped.receive().await;
                        shard.stop();
                    }
                },
            )?;
            threads.push(thread);
        }
        let (first, _) = start_shard(env, 0, count, reports, port, &introduce);
        drop((first, introduce));
        let mut contacts: Vec<Contact> = contacts.iter().take(usize::from(count)).collect();
        if contacts.len() < usize::from(count) {
            for thread in threads {
                thread.join()?;
            }
            return Err(Failure::failed("a shard did not start"));
        }
        contacts.sort_by_key(|contact| contact.index);
        let engines: Vec<_> = contacts.iter().map(|contact| contact.engine.clone()).collect();
        for contact in &contacts {
            if contact.engine.send(ShardMessage::Peers(engines.clone())).is_err() {
                return Err(Failure::failed(format!(
                    "shard {} exited at its start",
                    contact.index
                )));
            }
        }
        let ports = contacts.iter().map(|contact| contact.port.clone()).collect();
        let guests = contacts.iter().map(|contact| contact.guests.clone()).collect();
        let stops = contacts.into_iter().map(|contact| contact.stop).collect();
        Ok(Node { engines, ports, guests, reports: receiver, stops, threads })
    }
}

/// Stops every other shard and waits for its thread.
pub fn stop(stops: Vec<mailbox::Sender<()>>, threads: Vec<ShardHandle<()>>) -> Outcome {
    for stop in stops {
        if stop.send(()).is_err() {
            tracing::debug!("a shard has already exited");
        }
    }
    for thread in threads {
        thread.join()?;
    }
    Ok(())
}

impl Node {
    /// Takes the handles that stop the shards, for [`stop`] at the end.
    pub fn take_threads(&mut self) -> (Vec<mailbox::Sender<()>>, Vec<ShardHandle<()>>) {
        (std::mem::take(&mut self.stops), std::mem::take(&mut self.threads))
    }
}

/// Starts the engine and the port of one shard on its thread, and connects them.
fn start_shard(
    env: &Env,
    index: u16,
    count: u16,
    reports: mailbox::Sender<Report>,
    options: PortOptions,
    introduce: &mpsc::Sender<Contact>,
) -> (Shard, mailbox::Receiver<()>) {
    let seed = ShardSeed::new(env, count);
    let engine = seed.sender();
    let (port, port_messages) = port_mailbox(env);
    let (stop, stopped) = mailbox::mailbox(env, 1);
    let shard = seed.start(ShardIndex(index), count, reports);
    let PortOptions { sessions, hosts, pulse, offers } = options;
    let (guests, guest_messages) = guest_mailbox(env);
    env.spawn("pulse", pulse.beat(env.clone(), index));
    env.spawn("guests", serve_guests(shard.clone(), hosts.clone(), guest_messages));
    // All shards have the same volumes: only shard 0 announces them.
    if let Some(offers) = offers.filter(|_| index == 0) {
        env.spawn("guests' volumes", offer(shard.clone(), move |offered| offers.tell(offered)));
    }
    env.spawn("nbd port", serve_shard::<Nbd, _>(shard.clone(), hosts, port_messages, sessions));
    if introduce.send(Contact { index, engine, port, guests, stop }).is_err() {
        tracing::error!("the start of shard {index} was abandoned");
    }
    (shard, stopped)
}
