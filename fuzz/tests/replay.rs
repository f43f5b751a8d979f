//! Runs every stored input, then mutations of them: always the same, from a fixed seed.
//!
//! `regressions/TARGET/` has the inputs that once broke a target, each named after its defect;
//! `corpus/TARGET/` has inputs that cover the decoders' branches.

#![expect(
    clippy::disallowed_methods,
    reason = "the test reads its inputs, and watches the clock for what hangs"
)]

use fuzz::mutate::{Numbers, input};
use fuzz::{TARGETS, Target, memory::Counting};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SEED: u64 = 0x50F7_0C05;
/// The largest total size of the corpus, which is in the repository.
const MOST_BYTES: u64 = 2 << 20;

fn folder(kind: &str, target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(kind).join(target.name)
}

/// The files of a folder, in the order of their names.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
}

/// Runs one input. A failure saves the input to a file, which the message names.
fn run(target: &Target, input: &[u8], name: &str, running: &Mutex<String>) {
    *running.lock().unwrap() = format!("{}, {name}", target.name);
    if catch_unwind(AssertUnwindSafe(|| target.check(input))).is_err() {
        let path = std::env::temp_dir().join(format!("fuzz-{}-failed", target.name));
        let kept = std::fs::write(&path, input);
        panic!("{}, {name}, broke a guarantee; input: {} ({kept:?})", target.name, path.display());
    }
}

fn replay_and_mutate(target: &Target, running: &Mutex<String>) {
    let mut inputs = Vec::new();
    for kind in ["corpus", "regressions"] {
        for (path, bytes) in files(&folder(kind, target)) {
            run(target, &bytes, &path.display().to_string(), running);
            inputs.push(bytes);
        }
    }
    assert!(!inputs.is_empty(), "{} has no corpus", target.name);
    let mut numbers = Numbers::of(SEED);
    for number in 0..target.test_runs {
        let bytes = input(target, &inputs, &mut numbers);
        run(target, &bytes, &format!("mutation {number}"), running);
    }
}

/// Names the running input if none has begun for minutes, and ends the process: the name of an
/// input that hangs is worth more than a test that never ends.
fn watch(running: Arc<[Mutex<String>]>, is_done: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    const PATIENCE: u32 = 300;
    std::thread::spawn(move || {
        let mut last: Vec<(String, u32)> = vec![(String::new(), 0); running.len()];
        while !is_done.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(200));
            for (now, (before, times)) in running.iter().zip(&mut last) {
                let now = now.lock().unwrap().clone();
                *times = if now == *before && !now.is_empty() { *times + 1 } else { 0 };
                assert!(
                    *times < 5 * PATIENCE || {
                        eprintln!("hangs: {now}");
                        std::process::abort()
                    }
                );
                *before = now;
            }
        }
    })
}

#[test]
fn every_kept_input_and_many_mutations_of_it_are_borne() {
    const THREADS: usize = 2;
    let next = AtomicUsize::new(0);
    let running: Arc<[Mutex<String>]> = (0..THREADS).map(|_| Mutex::default()).collect();
    let is_done = Arc::new(AtomicBool::new(false));
    let watcher = watch(running.clone(), is_done.clone());
    std::thread::scope(|scope| {
        for running in running.iter() {
            let next = &next;
            scope.spawn(move || {
                while let Some(target) = TARGETS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    replay_and_mutate(target, running);
                    running.lock().unwrap().clear();
                }
            });
        }
    });
    is_done.store(true, Ordering::Relaxed);
    watcher.join().unwrap();
}

#[test]
fn the_corpus_is_small_and_of_targets_that_there_are() {
    let mut bytes = 0;
    for kind in ["corpus", "regressions"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(kind);
        for entry in std::fs::read_dir(&root).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let target = fuzz::target(&name).unwrap_or_else(|| panic!("{kind}/{name}: no target"));
            bytes += files(&folder(kind, &target))
                .iter()
                .map(|(_, bytes)| bytes.len() as u64)
                .sum::<u64>();
        }
    }
    assert!(bytes <= MOST_BYTES, "{bytes} bytes: merge the corpus (docs/develop/fuzzing.md)");
}

/// Without working counters the memory limits would never fail.
#[test]
fn memory_that_a_target_may_not_take_is_noticed() {
    fn greedy(input: &[u8]) {
        std::hint::black_box(vec![1_u8; input.len() << 20]);
    }
    let target = Target { run: greedy, ..TARGETS[0] };
    target.check(&[0; 2]);
    let over = vec![0; (target.memory.0 >> 20) as usize + 1];
    assert!(catch_unwind(|| target.check(&over)).is_err());
}
