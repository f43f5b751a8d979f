//! Page-aligned buffers, and where the benchmark runs.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

const PAGE: usize = 4096;

/// Page-aligned bytes.
pub struct Buffer {
    at: *mut u8,
    len: usize,
}

/// The bytes of a [`Buffer`], for contenders that take turns with it.
#[derive(Clone, Copy)]
pub struct Shared {
    at: *mut u8,
    len: usize,
}

impl Buffer {
    pub fn filled(len: usize, seed: u8) -> Buffer {
        let layout = Layout::from_size_align(len, PAGE).expect("a layout");
        // SAFETY: the layout is not empty.
        let at = unsafe { alloc_zeroed(layout) };
        if at.is_null() {
            handle_alloc_error(layout);
        }
        let mut buffer = Buffer { at, len };
        for (i, byte) in buffer.shared().bytes().iter_mut().enumerate() {
            *byte = (i as u8).wrapping_mul(seed | 1) ^ seed ^ (i >> 8) as u8;
        }
        buffer
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the buffer owns `len` initialised bytes.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }
    }

    pub fn shared(&mut self) -> Shared {
        Shared { at: self.at, len: self.len }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.at, Layout::from_size_align(self.len, PAGE).expect("a layout")) }
    }
}

impl Shared {
    /// The bytes. Contenders run one after the other and keep no reference between calls.
    #[allow(clippy::mut_from_ref)]
    pub fn bytes<'a>(self) -> &'a mut [u8] {
        // SAFETY: the buffer outlives all rows made of it, and only one contender runs at a time, which asks
        // for each buffer once per call.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }

    pub fn at(self) -> *mut u8 {
        self.at
    }
}

/// Keeps this thread on the last core, away from what the system does on the first.
pub fn pin_to_last_core() {
    // SAFETY: the set is a plain value, and its size is given.
    unsafe {
        let cores = libc::sysconf(libc::_SC_NPROCESSORS_ONLN).max(1) as usize;
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cores - 1, &mut set);
        if libc::sched_setaffinity(0, size_of_val(&set), &set) != 0 {
            println!("not pinned to a core: {}", std::io::Error::last_os_error());
        }
    }
}

/// The processor's name, as the kernel tells it.
pub fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split(": ").nth(1)).unwrap_or("?").to_owned()
    };
    format!("{} (model {}), {}", value("model name"), value("model\t"), value("cpu MHz") + " MHz")
}
