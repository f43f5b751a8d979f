//! An allocator that counts what the calling thread holds, so that *unbounded memory* is something that can fail.
//!
//! A request that would take a thread past [`CEILING`] is refused, and the process ends with the name of what ran:
//! no input may take the machine's memory before anybody looks at the count.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;

/// No thread gets more than this, whatever is allowed to a target.
pub const CEILING: u64 = 2 << 30;

thread_local! {
    static IN_USE: Cell<u64> = const { Cell::new(0) };
    static PEAK: Cell<u64> = const { Cell::new(0) };
}

/// What this thread holds, in bytes: 0 where the binary has another allocator.
pub fn in_use() -> u64 {
    IN_USE.get()
}

/// The most that it has held since [`forget_peak`], in bytes.
pub fn peak() -> u64 {
    PEAK.get()
}

/// Counts the most anew, from what is held now.
pub fn forget_peak() {
    PEAK.set(IN_USE.get());
}

/// The system's allocator, with a count per thread. What one thread frees of another's is not counted back.
pub struct Counting;

impl Counting {
    fn take(size: usize) -> bool {
        let now = IN_USE.get().saturating_add(size as u64);
        if now > CEILING {
            // Nothing may be allocated here: the words go out as they are.
            let _ = std::io::stderr().write_all(b"an input asks for more memory than any may have\n");
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

// SAFETY: every request goes to the system's allocator as it came, or is refused with a null pointer, which the
// contract allows; the counters are plain cells of the thread, which need neither allocation nor destruction.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises about the layout are passed on.
        if Counting::take(layout.size()) { unsafe { System.alloc(layout) } } else { std::ptr::null_mut() }
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
        // SAFETY: the pointer came from the system's allocator with this layout, by the caller's promise.
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
