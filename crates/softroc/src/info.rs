//! `softroc info`: what this is, what the machine offers, and what runs.

use crate::control::Control;
use crate::failure::Outcome;
use crate::{machine, output, render};
use controller::{Command, Reply};
use std::time::{Duration, Instant};

/// Runs the command.
pub fn run(control: &Control, json: bool) -> Outcome {
    let mut facts = machine::describe();
    let speed = xor_gb_per_s();
    facts.push((
        "xor".into(),
        format!("portable: {speed:.0} GB/s of sources, 8 × 64 KiB, one core, just now"),
    ));
    let running = match control.ask(&Command::Info {}) {
        Ok(Reply::Info { info }) => Some(info),
        _ => None,
    };
    if json {
        let facts: serde_json::Map<String, serde_json::Value> =
            facts.into_iter().map(|(name, value)| (name, value.into())).collect();
        return output::json(&serde_json::json!({ "machine": facts, "controller": running }));
    }
    let lines: Vec<(&str, String)> =
        facts.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    output::print(&render::facts(&lines))?;
    match running {
        Some(info) => output::print(&format!("\n{}", render::reply(&Reply::Info { info }))),
        None => output::print(&format!("\nNo controller answers at {}.", control.socket().display())),
    }
}

/// How fast XOR parity is computed from sources in the cache, in 10^9 bytes per second.
fn xor_gb_per_s() -> f64 {
    const STRIP: usize = 64 << 10;
    let sources: Vec<Vec<u8>> = (0..8u8).map(|i| vec![i; STRIP]).collect();
    let slices: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let mut parity = vec![0; STRIP];
    let mut best = 0f64;
    for _ in 0..20 {
        let start = Instant::now();
        let mut rounds = 0;
        while start.elapsed() < Duration::from_millis(2) {
            parity::xor_many(std::hint::black_box(&mut parity), std::hint::black_box(&slices));
            rounds += 1;
        }
        best = best.max((rounds * 8 * STRIP) as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    best
}
