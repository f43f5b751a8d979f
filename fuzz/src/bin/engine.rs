//! The targets for libFuzzer: `FUZZ_TARGET=NAME fuzz-engine [libFuzzer options] CORPUS...`. `make
//! fuzz` builds and starts it.

#![no_main]

use fuzz::{Target, memory::Counting, target};
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn chosen() -> Target {
    static CHOSEN: OnceLock<Target> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        target(&name).unwrap_or_else(|| {
            let names: Vec<&str> = fuzz::TARGETS.iter().map(|target| target.name).collect();
            panic!("FUZZ_TARGET is '{name}'; set it to one of {}", names.join(", "))
        })
    })
}

fuzz_target!(|input: &[u8]| {
    chosen().check(input);
});
