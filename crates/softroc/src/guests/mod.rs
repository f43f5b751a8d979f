//! Volumes as disks of virtual machines, by vhost-user: a socket for each volume, `DIR/NAME.sock`.
//!
//! ```text
//!  shard 0 ── which volumes there are ──▶ the thread "guests" ── makes and removes sockets
//!                                              │ a thread for each socket
//!  QEMU ◀── vhost-user: memory, rings, events ─┴─ GuestMessage ──▶ shards, which serve the queues (crate guests)
//! ```
//!
//! A socket has one machine at a time; another one waits until that has left. When a machine leaves, what it had under way is
//! carried out before the next one is heard.
//!
//! | module | what it holds |
//! | --- | --- |
//! | here | the threads: which sockets there are, and who is heard |
//! | `backend` | what a machine asks for, and what becomes of it |
//! | `memory` | files of memory that a machine shares |

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

/// When a socket is tried again that could not be made, or be called as its volume is.
const AGAIN: Duration = Duration::from_secs(1);

/// What the thread is told.
enum Order {
    /// These volumes are served.
    Offered(Vec<Offered>),
    /// Hear nobody any more; told when what was under way is answered.
    Close(mailbox::Sender<()>),
}

/// Tells the thread which volumes are served. It may be cloned for any shard.
#[derive(Clone)]
pub struct OfferTo(mpsc::Sender<Order>);

impl OfferTo {
    /// These are served; false: nobody listens any more.
    pub fn tell(&self, offered: Vec<Offered>) -> bool {
        self.0.send(Order::Offered(offered)).is_ok()
    }
}

/// What is needed to start the thread: made before the shards are.
pub struct Guests {
    folder: PathBuf,
    orders: mpsc::Sender<Order>,
    inbox: mpsc::Receiver<Order>,
}

/// The running thread.
pub struct Listening(mpsc::Sender<Order>);

impl Guests {
    /// Sockets will be in `folder`, which is made if it is missing.
    pub fn new(folder: &Path) -> Outcome<Guests> {
        let made = std::fs::DirBuilder::new().mode(0o750).recursive(true).create(folder);
        let folder = made.and_then(|()| std::fs::canonicalize(folder)).map_err(|error| {
            Failure::refused(format!("cannot make the folder {} for sockets: {error}", folder.display()))
        })?;
        let (orders, inbox) = mpsc::channel();
        Ok(Guests { folder, orders, inbox })
    }

    /// Who tells which volumes there are.
    pub fn offers(&self) -> OfferTo {
        OfferTo(self.orders.clone())
    }

    /// Starts the thread. Queues are served by `shards`.
    pub fn start(self, shards: Vec<mailbox::Sender<GuestMessage>>) -> Outcome<Listening> {
        let Guests { folder, orders, inbox } = self;
        let mut keeper = Keeper { folder, shards, sockets: BTreeMap::new(), told: BTreeMap::new() };
        let work = move || keeper.listen(&inbox);
        std::thread::Builder::new()
            .name("guests".into())
            .spawn(work)
            .map_err(|error| Failure::failed(format!("cannot start the thread for guests: {error}")))?;
        Ok(Listening(orders))
    }
}

impl Listening {
    /// Closes all sockets. What guests have under way is answered before.
    pub async fn close(self, env: &platform::Env) {
        let (done, mut closed) = mailbox::mailbox(env, 1);
        if self.0.send(Order::Close(done)).is_ok() {
            closed.receive().await;
        }
    }
}

/// The thread's own.
struct Keeper {
    folder: PathBuf,
    shards: Vec<mailbox::Sender<GuestMessage>>,
    sockets: BTreeMap<u64, Socket>,
    /// Why there is no socket for a volume, as it was told.
    told: BTreeMap<u64, String>,
}

impl Keeper {
    /// Does what it is told, to the end.
    fn listen(&mut self, inbox: &mpsc::Receiver<Order>) {
        let mut last = Vec::new();
        loop {
            // Whatever was in the way of a socket may be gone by then: of that nobody tells.
            let order = match self.told.is_empty() {
                true => inbox.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
                false => inbox.recv_timeout(AGAIN),
            };
            match order {
                Ok(Order::Offered(offered)) => {
                    self.keep(&offered);
                    last = offered;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => self.keep(&last),
                Ok(Order::Close(done)) => {
                    self.keep(&[]);
                    if done.send(()).is_err() {
                        tracing::debug!("nobody waits for guests' sockets any more");
                    }
                    return;
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// There are sockets for these, and no others.
    fn keep(&mut self, offered: &[Offered]) {
        let is_there = |socket: &Socket| {
            let mut same = offered.iter().filter(|offered| offered.target == socket.target);
            same.any(|offered| offered.disk.is_same(&socket.shared.offered().disk))
        };
        // All are told first, then waited for.
        let gone: Vec<Socket> =
            self.sockets.extract_if(.., |_, socket| !is_there(socket)).map(|(_, socket)| socket).collect();
        gone.iter().for_each(Socket::close);
        gone.into_iter().for_each(Socket::join);
        self.told.retain(|target, _| offered.iter().any(|offered| offered.target == *target));
        // Names may have gone from one to the other: none is in another one's way. No volume's name begins with a dot.
        for offered in offered {
            let Some(socket) = self.sockets.get_mut(&offered.target) else { continue };
            if socket.path != path_of(&self.folder, &offered.name) {
                let aside = self.folder.join(format!(".{}.sock", offered.target));
                // It may be there since it was tried before.
                if socket.path != aside
                    && let Err(why) = socket.move_to(aside)
                {
                    // Whether that matters is told below.
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
                    tracing::error!(volume = %offered.name, "no guest can use it: {why}");
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

/// What a socket's thread has, too.
struct Shared {
    listener: OwnedFd,
    /// What the next machine is told.
    offered: Mutex<Offered>,
    is_closing: AtomicBool,
    /// The machine that is heard.
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
        let text = path.to_str().ok_or("the path of its socket is not text")?;
        // Who may enter the folder decides: the group of a folder with the set-group-ID bit is the socket's, too.
        let permissions = SocketPermissions { mode: 0o660, group: None };
        let listener =
            platform_linux::listen_unix(text, permissions).map_err(|error| error.to_string())?.socket;
        let (is_closing, connection) = (AtomicBool::new(false), Mutex::new(None));
        let shared =
            Arc::new(Shared { listener, offered: Mutex::new(offered.clone()), is_closing, connection });
        let (heard, address) = (shared.clone(), Address::Unix(text.to_owned()));
        let shards = shards.to_vec();
        let thread = std::thread::Builder::new()
            .name("guest".into())
            .spawn(move || heard.listen(&address, &shards))
            .map_err(|error| format!("no thread can be started for its socket: {error}"))?;
        tracing::info!("guests can use '{}' at {text}", offered.name);
        Ok(Socket { target: offered.target, path, shared, thread })
    }

    /// It is called so, and the next machine is told so.
    fn follow(&mut self, folder: &Path, offered: &Offered) -> Result<(), String> {
        self.shared.offered().clone_from(offered);
        let path = path_of(folder, &offered.name);
        if self.path == path { Ok(()) } else { self.move_to(path) }
    }

    /// Replaces nothing that is there.
    fn move_to(&mut self, path: PathBuf) -> Result<(), String> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        renameat_with(CWD, &self.path, CWD, &path, RenameFlags::NOREPLACE)
            .map_err(|error| format!("its socket cannot be renamed to {}: {error}", path.display()))?;
        self.path = path;
        Ok(())
    }

    fn close(&self) {
        self.shared.is_closing.store(true, Ordering::SeqCst);
        // They fail only where the other side has ended it already.
        let _ = rustix::net::shutdown(&self.shared.listener, Shutdown::Both);
        if let Some(connection) = &*self.shared.connection() {
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!("{} cannot be removed: {error}", self.path.display());
        }
    }

    fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("the thread for guests of '{}' has panicked", self.shared.offered().name);
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

    /// Hears one machine after the other.
    fn listen(&self, address: &Address, shards: &[mailbox::Sender<GuestMessage>]) {
        loop {
            let accepted = rustix::net::accept_with(&self.listener, rustix::net::SocketFlags::CLOEXEC);
            if self.is_closing.load(Ordering::SeqCst) {
                return;
            }
            match accepted {
                Ok(socket) => {
                    // Not held while it is heard.
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
        // Whoever closes sets the one, then looks for the other; here it is the other way round.
        if !self.is_closing.load(Ordering::SeqCst) {
            tracing::info!(volume = %offered.name, guest = %peer, "a guest's machine is connected");
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
                    tracing::info!(volume = %offered.name, guest = %peer, "a guest's machine has left");
                }
                why => {
                    tracing::warn!(volume = %offered.name, guest = %peer, "a guest's machine is cut off: {why}")
                }
            }
        }
        *self.connection() = None;
    }
}
