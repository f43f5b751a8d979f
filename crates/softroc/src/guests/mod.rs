//! Volumes as disks of virtual machines, by vhost-user: a socket for each volume, `DIR/NAME.sock`.
//!
//! ```text
//!  shard 0 ── served volumes ──▶ the thread "guests" ── makes and removes sockets
//!                                              │ a thread for each socket
//!  QEMU ◀── vhost-user: memory, rings, events ─┴─ GuestMessage ──▶ shards, which serve
//!                                                                  the queues (crate guests)
//! ```
//!
//! A socket serves one machine at a time; others wait until it disconnects. Its outstanding
//! requests complete before the next machine is accepted.

mod backend;
mod memory;

use crate::failure::{Failure, Outcome};
use backend::Backend;
use guests::{GuestMessage, Offered};
use platform::{Address, mailbox};
use platform_linux::SocketPermissions;
use rustix::net::Shutdown;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use vhost::vhost_user::{BackendReqHandler, Error as VhostError};

/// The retry interval for a socket that could not be created or renamed.
const AGAIN: Duration = Duration::from_secs(1);

/// A message to the thread.
enum Message {
    /// The served volumes.
    Offered(Vec<Offered>),
    /// Close all connections; the reply comes when outstanding requests are complete.
    Close(mailbox::Sender<()>),
}

/// The sender of served volumes to the thread. May be cloned for any shard.
#[derive(Clone)]
pub struct OfferSender(mpsc::Sender<Message>);

impl OfferSender {
    /// Reports the served volumes; false: the thread has ended.
    pub fn tell(&self, offered: Vec<Offered>) -> bool {
        self.0.send(Message::Offered(offered)).is_ok()
    }
}

/// The parameters of the thread, created before the shards.
pub struct Guests {
    folder: PathBuf,
    orders: mpsc::Sender<Message>,
    inbox: mpsc::Receiver<Message>,
}

/// The handle of the running thread.
pub struct Listening(mpsc::Sender<Message>);

impl Guests {
    /// Sockets will be in `folder`, which is created if necessary.
    pub fn new(folder: &Path) -> Outcome<Guests> {
        let made = std::fs::DirBuilder::new().mode(0o750).recursive(true).create(folder);
        let folder = made.and_then(|()| std::fs::canonicalize(folder)).map_err(|error| {
            Failure::refused(format!(
                "cannot create the folder {} for sockets: {error}",
                folder.display()
            ))
        })?;
        let (orders, inbox) = mpsc::channel();
        Ok(Guests { folder, orders, inbox })
    }

    /// The sender of served volumes.
    pub fn offers(&self) -> OfferSender {
        OfferSender(self.orders.clone())
    }

    /// Starts the thread. The shards serve the queues.
    pub fn start(self, shards: Vec<mailbox::Sender<GuestMessage>>) -> Outcome<Listening> {
        let Guests { folder, orders, inbox } = self;
        let mut keeper =
            SocketThread { folder, shards, sockets: BTreeMap::new(), told: BTreeMap::new() };
        let work = move || keeper.listen(&inbox);
        std::thread::Builder::new().name("guests".into()).spawn(work).map_err(|error| {
            Failure::failed(format!("cannot start the thread for guests: {error}"))
        })?;
        Ok(Listening(orders))
    }
}

impl Listening {
    /// Closes all sockets, after outstanding requests of guests are complete.
    pub async fn close(self, env: &platform::Env) {
        let (done, mut closed) = mailbox::mailbox(env, 1);
        if self.0.send(Message::Close(done)).is_ok() {
            closed.receive().await;
        }
    }
}

/// The state of the thread.
struct SocketThread {
    folder: PathBuf,
    shards: Vec<mailbox::Sender<GuestMessage>>,
    sockets: BTreeMap<u64, Socket>,
    /// The reported reasons of missing sockets, by volume.
    told: BTreeMap<u64, String>,
}

impl SocketThread {
    /// Handles messages until the end.
    fn listen(&mut self, inbox: &mpsc::Receiver<Message>) {
        let mut last = Vec::new();
        loop {
            // After an error, retry periodically: the end of its cause is not reported.
            let order = match self.told.is_empty() {
                true => inbox.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
                false => inbox.recv_timeout(AGAIN),
            };
            match order {
                Ok(Message::Offered(offered)) => {
                    self.keep(&offered);
                    last = offered;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => self.keep(&last),
                Ok(Message::Close(done)) => {
                    self.keep(&[]);
                    if done.send(()).is_err() {
                        tracing::debug!("no receiver for the end of the guests' sockets");
                    }
                    return;
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Creates the sockets of these volumes, and removes all others.
    fn keep(&mut self, offered: &[Offered]) {
        let is_there = |socket: &Socket| {
            let mut same = offered.iter().filter(|offered| offered.target == socket.target);
            same.any(|offered| offered.disk.is_same(&socket.shared.offered().disk))
        };
        // Close all first, then wait for all.
        let gone: Vec<Socket> = self
            .sockets
            .extract_if(.., |_, socket| !is_there(socket))
            .map(|(_, socket)| socket)
            .collect();
        gone.iter().for_each(Socket::close);
        gone.into_iter().for_each(Socket::join);
        self.told.retain(|target, _| offered.iter().any(|offered| offered.target == *target));
        // Names may have been swapped: move sockets to temporary names first. No volume's name
        // begins with a dot.
        for offered in offered {
            let Some(socket) = self.sockets.get_mut(&offered.target) else { continue };
            if socket.path != path_of(&self.folder, &offered.name) {
                let aside = self.folder.join(format!(".{}.sock", offered.target));
                // The socket may be there since an earlier attempt.
                if socket.path != aside
                    && let Err(why) = socket.move_to(aside)
                {
                    // A lasting error is reported below.
                    tracing::debug!(volume = %offered.name, "{why}");
                }
            }
        }
        for offered in offered {
            let outcome = match self.sockets.get_mut(&offered.target) {
                Some(socket) => socket.follow(&self.folder, offered),
                None => Socket::open(&self.folder, offered, &self.shards).map(|socket| {
                    self.sockets.insert(offered.target, socket);
                }),
            };
            match outcome {
                Ok(()) => drop(self.told.remove(&offered.target)),
                Err(why) if self.told.get(&offered.target) == Some(&why) => {}
                Err(why) => {
                    tracing::error!(volume = %offered.name, "not available to guests: {why}");
                    self.told.insert(offered.target, why);
                }
            }
        }
    }
}

/// The socket of a volume.
struct Socket {
    target: u64,
    path: PathBuf,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

/// Data shared with the socket's thread.
struct Shared {
    listener: OwnedFd,
    /// The disk data for the next machine.
    offered: Mutex<Offered>,
    is_closing: AtomicBool,
    /// The connected machine.
    connection: Mutex<Option<UnixStream>>,
}

fn path_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.sock"))
}

impl Socket {
    fn open(
        folder: &Path,
        offered: &Offered,
        shards: &[mailbox::Sender<GuestMessage>],
    ) -> Result<Socket, String> {
        let path = path_of(folder, &offered.name);
        let text = path.to_str().ok_or("the path of its socket is not UTF-8")?;
        // The folder's permissions decide: with the set-group-ID bit, the socket has the folder's
        // group.
        let permissions = SocketPermissions { mode: 0o660, group: None };
        let listener = platform_linux::listen_unix(text, permissions)
            .map_err(|error| error.to_string())?
            .socket;
        let (is_closing, connection) = (AtomicBool::new(false), Mutex::new(None));
        let shared = Arc::new(Shared {
            listener,
            offered: Mutex::new(offered.clone()),
            is_closing,
            connection,
        });
        let (heard, address) = (shared.clone(), Address::Unix(text.to_owned()));
        let shards = shards.to_vec();
        let thread = std::thread::Builder::new()
            .name("guest".into())
            .spawn(move || heard.listen(&address, &shards))
            .map_err(|error| format!("cannot start a thread for its socket: {error}"))?;
        tracing::info!("guests can use '{}' at {text}", offered.name);
        Ok(Socket { target: offered.target, path, shared, thread })
    }

    /// Renames the socket, and updates the data for the next machine.
    fn follow(&mut self, folder: &Path, offered: &Offered) -> Result<(), String> {
        self.shared.offered().clone_from(offered);
        let path = path_of(folder, &offered.name);
        if self.path == path { Ok(()) } else { self.move_to(path) }
    }

    /// Does not replace an existing file.
    fn move_to(&mut self, path: PathBuf) -> Result<(), String> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        renameat_with(CWD, &self.path, CWD, &path, RenameFlags::NOREPLACE)
            .map_err(|error| format!("cannot rename its socket to {}: {error}", path.display()))?;
        self.path = path;
        Ok(())
    }

    fn close(&self) {
        self.shared.is_closing.store(true, Ordering::SeqCst);
        // Fails only if the peer has already closed it.
        let _ = rustix::net::shutdown(&self.shared.listener, Shutdown::Both);
        if let Some(connection) = &*self.shared.connection() {
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!("cannot remove {}: {error}", self.path.display());
        }
    }

    fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!(
                "the thread for guests of '{}' has panicked",
                self.shared.offered().name
            );
        }
    }
}

impl Shared {
    fn connection(&self) -> std::sync::MutexGuard<'_, Option<UnixStream>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offered(&self) -> std::sync::MutexGuard<'_, Offered> {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one machine after the other.
    fn listen(&self, address: &Address, shards: &[mailbox::Sender<GuestMessage>]) {
        loop {
            let accepted =
                rustix::net::accept_with(&self.listener, rustix::net::SocketFlags::CLOEXEC);
            if self.is_closing.load(Ordering::SeqCst) {
                return;
            }
            match accepted {
                Ok(socket) => {
                    // Clone first: the lock must not be held during a connection.
                    let offered = self.offered().clone();
                    self.hear(socket, &offered, address, shards);
                }
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
                Err(error) => {
                    tracing::warn!(%address, %error, "a guest was not accepted");
                    std::thread::sleep(std::time::Duration::from_secs(1));
                }
            }
        }
    }

    fn hear(
        &self,
        socket: OwnedFd,
        offered: &Offered,
        address: &Address,
        shards: &[mailbox::Sender<GuestMessage>],
    ) {
        let peer = platform_linux::unix_peer(&socket, address);
        let stream = UnixStream::from(socket);
        match stream.try_clone() {
            Ok(own) => *self.connection() = Some(own),
            Err(error) => return tracing::warn!(guest = %peer, %error, "a guest was not accepted"),
        }
        // The closing thread sets the flag and then takes the connection; here the order is
        // reversed.
        if !self.is_closing.load(Ordering::SeqCst) {
            tracing::info!(volume = %offered.name, guest = %peer, "guest connected");
            let backend = Arc::new(Mutex::new(Backend::new(offered, &peer, shards)));
            let mut handler = BackendReqHandler::from_stream(stream, backend.clone());
            let why = loop {
                if let Err(error) = handler.handle_request() {
                    break error;
                }
            };
            backend.lock().unwrap_or_else(PoisonError::into_inner).stop_all();
            match why {
                VhostError::Disconnected | VhostError::SocketBroken(_) => {
                    tracing::info!(volume = %offered.name, guest = %peer, "guest disconnected");
                }
                why => tracing::warn!(
                    volume = %offered.name, guest = %peer, "guest disconnected: {why}"
                ),
            }
        }
        *self.connection() = None;
    }
}
