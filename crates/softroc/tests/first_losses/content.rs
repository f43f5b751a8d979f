//! The writes of hosts, and the expected content.

use crate::common::Controller;
use crate::common::host::Host;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const READ: usize = 1 << 20;

/// The content of a volume as known to its hosts: each sector is one of these.
pub struct Content {
    /// At the last flush.
    pub flushed: Vec<u8>,
    pub written: Vec<u8>,
}

impl Content {
    /// An unwritten volume.
    pub fn new(capacity: usize) -> Content {
        Content { flushed: vec![0; capacity], written: vec![0; capacity] }
    }

    pub fn write(&mut self, host: &mut Host, at: usize, bytes: &[u8]) {
        self.written[at..at + bytes.len()].copy_from_slice(bytes);
        host.write(at as u64, bytes).expect("it is written");
    }

    pub fn flush(&mut self, host: &mut Host) {
        host.flush().expect("it is flushed");
        self.flushed.copy_from_slice(&self.written);
    }

    /// Reads and checks the whole volume. Beyond its earlier end it has zeros.
    pub fn look(&self, controller: &Controller, why: &str) {
        let mut host = Host::connect(&controller.nbd_socket(), "v").expect("it is served");
        let size = usize::try_from(host.size).expect("it is small");
        assert!(size >= self.written.len(), "{why}: it is smaller than it was");
        let part = |of: &[u8], at: usize, len: usize| {
            let mut part = of.get(at..of.len().min(at + len)).unwrap_or_default().to_vec();
            part.resize(len, 0);
            part
        };
        for at in (0..size).step_by(READ) {
            let len = READ.min(size - at);
            let got =
                host.read(at as u64, len).unwrap_or_else(|error| panic!("{why}: at {at}: {error}"));
            let (flushed, written) = (part(&self.flushed, at, len), part(&self.written, at, len));
            if got == written {
                continue;
            }
            for (nth, sector) in got.chunks(512).enumerate() {
                let place = nth * 512..nth * 512 + sector.len();
                let is_fine =
                    *sector == written[place.clone()] || *sector == flushed[place.clone()];
                let [held, old, new] =
                    [&got, &flushed, &written].map(|of| &of[place.start..place.start + 16]);
                assert!(
                    is_fine,
                    "{why}: the sector at {} holds {held:?}, not {old:?} or {new:?}",
                    at + place.start
                );
            }
        }
    }
}

/// The writes of a host: pieces in several places. `large`: also whole stripes, the last of them at
/// the end.
pub fn pieces(capacity: usize, large: bool) -> [(usize, usize); 5] {
    let at = |at: usize| at / 512 * 512;
    let large = if large { 900 << 10 } else { 8192 };
    [
        (0, 4096),
        (70_144, 1024),
        (at(capacity / 2), 30_208),
        (at(capacity / 3), 65_536),
        (at(capacity - large - 1024), large),
    ]
}
/// A host that keeps reading: it slows down the background initialisation.
pub struct Reader(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Reader {
    pub fn start(controller: &Controller) -> Reader {
        let end = Arc::new(AtomicBool::new(false));
        let (socket, is_over) = (controller.nbd_socket(), end.clone());
        let thread = std::thread::spawn(move || {
            let mut host = Host::connect(&socket, "v").expect("it is served");
            // It also ends with the controller.
            while !is_over.load(Ordering::Relaxed) && host.read(0, 4096).is_ok() {
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Reader(end, Some(thread))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let ended = self.1.take().map(JoinHandle::join);
        assert!(
            ended.is_none_or(|ended| ended.is_ok()) || std::thread::panicking(),
            "a reader failed"
        );
    }
}
