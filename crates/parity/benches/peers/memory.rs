//! Page-aligned buffers, and the core that the benchmark runs on.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

const PAGE: usize = 4096;

/// Page-aligned bytes.
pub struct Buffer {
    at: *mut u8,
    len: usize,
}

/// The bytes of a [`Buffer`], shared by contenders that run in turn.
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
    /// The bytes. Contenders run in turn and keep no reference between calls.
    #[allow(clippy::mut_from_ref)]
    pub fn bytes<'a>(self) -> &'a mut [u8] {
        // SAFETY: the buffer outlives all rows made of it. Only one contender runs at a time, and
        // it gets each buffer once per call.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }

    pub fn at(self) -> *mut u8 {
        self.at
    }
}

/// Pins this thread to the last allowed core (`taskset`), away from system work on the first.
pub fn pin_to_last_core() {
    // SAFETY: the sets are plain values, and their size is given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let mut pinned = libc::sched_getaffinity(0, size_of_val(&set), &mut set) == 0;
        if let Some(core) =
            (0..libc::CPU_SETSIZE as usize).rev().find(|core| libc::CPU_ISSET(*core, &set))
        {
            libc::CPU_ZERO(&mut set);
            libc::CPU_SET(core, &mut set);
            pinned &= libc::sched_setaffinity(0, size_of_val(&set), &set) == 0;
        }
        if !pinned {
            println!("not pinned to a core: {}", std::io::Error::last_os_error());
        }
    }
}

/// Clears the upper halves of the vector registers, which ISA-L's functions leave dirty. Otherwise
/// each instruction of a kernel with 16-byte registers waits for the previous content of its
/// register. On its target processors such a kernel never runs in that state.
pub fn clear_upper_halves() {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx") {
        // SAFETY: AVX is available, and no code keeps a value in an upper half across calls.
        unsafe { std::arch::x86_64::_mm256_zeroupper() }
    }
}

/// The processor's name and frequency.
pub fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split(": ").nth(1)).unwrap_or("?").to_owned()
    };
    format!("{} (model {}), {}", value("model name"), value("model\t"), value("cpu MHz") + " MHz")
}
