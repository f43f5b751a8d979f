//! An allocator that counts the memory of the calling thread, so that tests can detect unbounded
//! memory.
//!
//! A request that would take a thread past [`CEILING`] is refused, and the process ends with the
//! name of the running input: no input can exhaust the host computer's memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;

/// The most memory of a thread, whatever the target's limit.
pub const CEILING: u64 = 2 << 30;

thread_local! {
    static IN_USE: Cell<u64> = const { Cell::new(0) };
    static PEAK: Cell<u64> = const { Cell::new(0) };
}

/// The memory of this thread, in bytes: 0 where the binary has another allocator.
pub fn in_use() -> u64 {
    IN_USE.get()
}

/// The most memory since [`forget_peak`], in bytes.
pub fn peak() -> u64 {
    PEAK.get()
}

/// Resets the peak to the present use.
pub fn forget_peak() {
    PEAK.set(IN_USE.get());
}

/// The system's allocator, with a count for each thread. Memory that another thread frees stays in
/// the count.
pub struct Counting;

impl Counting {
    fn take(size: usize) -> bool {
        let now = IN_USE.get().saturating_add(size as u64);
        if now > CEILING {
            // No allocation is allowed here: the message is written directly.
            let _ = std::io::stderr().write_all(b"an input requests more memory than the limit\n");
            return false;
        }
        IN_USE.set(now);
        PEAK.set(PEAK.get().max(now));
        true
    }

    fn give(size: usize) {
        IN_USE.set(IN_USE.get().saturating_sub(size as u64));
    }
}

// SAFETY: every request goes to the system's allocator as it came, or is refused with a null
// pointer, which the contract allows; the counters are plain cells of the thread, which need
// neither allocation nor destruction.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !Counting::take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises about the layout are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !Counting::take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Counting::give(layout.size());
        // SAFETY: the pointer came from the system's allocator with this layout, by the caller's
        // promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // While it grows, the old place and the new one may both be held.
        if !Counting::take(size) {
            return std::ptr::null_mut();
        }
        Counting::give(layout.size());
        // SAFETY: as `dealloc` and `alloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
