//! The Linux implementation of [`platform::World`].

use crate::errno::system_error;
use crate::file_drive::FileDrive;
use crate::inherited::InheritedSocket;
use crate::kept::Mapped;
use crate::listener::SocketPermissions;
use crate::open::{self, Access};
use crate::ring::Ring;
use crate::shard::Settings;
use crate::worker::Worker;
use crate::{connect, kept, listener, other_kept};
use platform::{
    Address, DriveSource, Instant, KeptMemory, KeptSize, Listener, LocalFuture, OtherMemory,
    Result, StateStore, StreamSource, Work, World,
};
use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use units::ByteCount;

/// The monotonic clock, in nanoseconds since the first call in this process: the same on all
/// shards.
pub(crate) fn now() -> Instant {
    static BEGINNING_NS: OnceLock<u64> = OnceLock::new();
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // The time since boot: neither negative nor more than 584 years.
    let since_boot_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    // Another thread may have read the clock later and stored it first.
    Instant { ns: since_boot_ns.saturating_sub(*BEGINNING_NS.get_or_init(|| since_boot_ns)) }
}

pub(crate) struct RealWorld {
    ring: Rc<Ring>,
    state: Box<dyn StateStore>,
    random: Cell<u64>,
    kept: Option<PathBuf>,
    sockets: Vec<InheritedSocket>,
    permissions: SocketPermissions,
}

impl RealWorld {
    pub(crate) fn new(
        ring: Rc<Ring>,
        state: Box<dyn StateStore>,
        settings: &Settings,
    ) -> RealWorld {
        give_back_what_is_large();
        let (kept, sockets) = (settings.kept.clone(), settings.sockets.clone());
        let (random, permissions) = (Cell::new(unpredictable_seed()), settings.permissions);
        RealWorld { ring, state, random, kept, sockets, permissions }
    }
}

/// Allocates and frees each large block separately. The GNU C library does that only until the
/// first one is freed, and then keeps them: trimmed parts of a memory drive, and later blocks in
/// their place.
fn give_back_what_is_large() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it only affects later allocations.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
    }
}

/// From the kernel's generator; from address space randomisation and the clock if that fails.
fn unpredictable_seed() -> u64 {
    let mut seed = [0u8; 8];
    // SAFETY: the array has eight writable bytes.
    let got = unsafe { libc::getrandom(seed.as_mut_ptr().cast(), seed.len(), 0) };
    if got == 8 {
        return u64::from_ne_bytes(seed);
    }
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_u128(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos());
    hasher.finish()
}

impl World for RealWorld {
    fn now(&self) -> Instant {
        now()
    }

    fn unix_time(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    fn random(&self) -> u64 {
        let (state, value) = platform::sync::split_mix(self.random.get());
        self.random.set(state);
        value
    }

    fn charge(&self, _: Work) -> Duration {
        Duration::ZERO
    }

    fn open_drive<'a>(&'a self, name: &'a str) -> LocalFuture<'a, Result<Arc<dyn DriveSource>>> {
        let path = name.to_owned();
        Box::pin(async move {
            let open =
                Worker::run_alone(move || open::open_drive(&path, Access::Writing)).await??;
            Ok(Arc::new(FileDrive { open: Arc::new(open) }) as Arc<dyn DriveSource>)
        })
    }

    fn open_drive_for_reading<'a>(
        &'a self,
        name: &'a str,
    ) -> LocalFuture<'a, Result<Arc<dyn DriveSource>>> {
        let path = name.to_owned();
        Box::pin(async move {
            let open =
                Worker::run_alone(move || open::open_drive(&path, Access::Reading)).await??;
            Ok(Arc::new(FileDrive { open: Arc::new(open) }) as Arc<dyn DriveSource>)
        })
    }

    fn create_drive<'a>(&'a self, name: &'a str, size: ByteCount) -> LocalFuture<'a, Result<()>> {
        let path = name.to_owned();
        Box::pin(async move { Worker::run_alone(move || open::create_drive(&path, size)).await? })
    }

    fn listen<'a>(&'a self, address: &'a Address) -> LocalFuture<'a, Result<Rc<dyn Listener>>> {
        Box::pin(listener::listen(&self.ring, address.clone(), &self.sockets, self.permissions))
    }

    fn connect<'a>(
        &'a self,
        address: &'a Address,
    ) -> LocalFuture<'a, Result<Box<dyn StreamSource>>> {
        Box::pin(connect::connect(&self.ring, address.clone()))
    }

    fn kept_memory<'a>(
        &'a self,
        name: &'a str,
        size: Option<KeptSize>,
    ) -> LocalFuture<'a, Result<Option<KeptMemory>>> {
        let (folder, name) = (self.kept.clone(), name.to_owned());
        Box::pin(async move {
            let mapped = Worker::run_alone(move || kept::take(folder, &name, size)).await??;
            Ok(mapped.map(Mapped::views))
        })
    }

    fn forget_kept_memory<'a>(&'a self, name: &'a str) -> LocalFuture<'a, Result<()>> {
        let (folder, name) = (self.kept.clone(), name.to_owned());
        Box::pin(async move { Worker::run_alone(move || kept::forget(folder, &name)).await? })
    }

    fn other_memories<'a>(&'a self, name: &'a str) -> LocalFuture<'a, Result<Vec<OtherMemory>>> {
        let (folder, name) = (self.kept.clone(), name.to_owned());
        Box::pin(async move {
            Worker::run_alone(move || other_kept::list(folder.as_deref(), &name)).await?
        })
    }

    fn forget_other_memory<'a>(
        &'a self,
        name: &'a str,
        other: &'a str,
    ) -> LocalFuture<'a, Result<()>> {
        let (folder, name, other) = (self.kept.clone(), name.to_owned(), other.to_owned());
        Box::pin(async move {
            Worker::run_alone(move || other_kept::remove(folder.as_deref(), &name, &other)).await?
        })
    }

    fn enlarge_pages(&self, memory: &mut [u8]) {
        // SAFETY: the kernel moves the memory to other pages with the same content, invisibly for
        // its users. An error means that huge pages are not available: small ones do as well.
        unsafe { libc::madvise(memory.as_mut_ptr().cast(), memory.len(), libc::MADV_COLLAPSE) };
    }

    fn boot_id(&self) -> u128 {
        kept::boot_id(|| self.random())
    }

    fn state(&self) -> &dyn StateStore {
        &*self.state
    }

    fn trace(&self, _: &'static str, _: u64, _: u64) {}
}

/// The addresses of a host, in the order to try them.
pub(crate) async fn resolve(host: String, port: u16) -> Result<Vec<std::net::SocketAddr>> {
    use std::net::ToSocketAddrs;
    let sentence = format!("cannot find the host '{host}'");
    Worker::run_alone(move || (host.as_str(), port).to_socket_addrs().map(Iterator::collect))
        .await?
        .map_err(|error| match system_error(error, sentence) {
            error if error.kind == platform::ErrorKind::System => {
                platform::Error { kind: platform::ErrorKind::NotFound, ..error }
            }
            error => error,
        })
}
