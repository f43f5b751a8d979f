//! `softroc info`: the version, the capabilities of the machine, and the running controller.

use crate::control::Control;
use crate::failure::{Failure, Outcome};
use crate::{machine, output, render};
use controller::{Command, Reply};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Runs the command. Without a controller the facts of the machine are printed, then the failure.
pub fn run(control: &Control, json: bool) -> Outcome {
    let mut facts = machine::describe();
    facts.extend(parity_facts());
    let running = match control.ask(&Command::Info {}) {
        Ok(Reply::Info { info }) => Ok(info),
        Ok(_) => Err(Failure::failed("the controller's answer has no information about it")),
        Err(failure) => Err(failure),
    };
    if json {
        let facts: serde_json::Map<String, serde_json::Value> =
            facts.into_iter().map(|(name, value)| (name, value.into())).collect();
        output::json(
            &serde_json::json!({ "machine": facts, "controller": running.as_ref().ok() }),
        )?;
        return running.map(drop);
    }
    let lines: Vec<(&str, String)> =
        facts.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    output::print(&render::facts(&lines))?;
    output::print(&format!("\n{}", render::reply(&Reply::Info { info: running? })))
}

/// The parity kernel in use and its speed.
fn parity_facts() -> Vec<(String, String)> {
    const STRIP: usize = 64 << 10;
    const STRIPS: u8 = 8;
    const PAGE: usize = 4096;
    // Page-aligned, like the engine's buffers.
    let room = || vec![0u8; STRIP + PAGE];
    let at = |room: &[u8]| room.as_ptr().align_offset(PAGE).min(PAGE);
    let strips: Vec<Vec<u8>> = (0..STRIPS).map(|_| room()).collect();
    let sources: Vec<parity::Source> = (0..)
        .zip(&strips)
        .map(|(exponent, strip)| parity::Source::new(exponent, &strip[at(strip)..][..STRIP]))
        .collect();
    let (mut p, mut q) = (room(), room());
    let (p_at, q_at) = (at(&p), at(&q));
    let (p, q) = (&mut p[p_at..][..STRIP], &mut q[q_at..][..STRIP]);
    let bytes = usize::from(STRIPS) * STRIP;
    let xor = gb_per_s(bytes, || parity::generate_p(black_box(p), black_box(&sources)));
    let both =
        gb_per_s(bytes, || parity::generate_pq(black_box(p), black_box(q), black_box(&sources)));
    let mut kernel = parity::kernel_name().to_owned();
    let others: Vec<&str> =
        parity::kernels().map(|other| other.name()).filter(|name| *name != kernel).collect();
    if let Some(refused) = parity::refused_kernel() {
        kernel += &format!(
            " ({} is {refused:?}, which this machine does not support)",
            parity::KERNEL_VARIABLE
        );
    }
    if !others.is_empty() {
        kernel += &format!("; also here: {}", others.join(", "));
    }
    let shown = |speed: f64| format!("{speed:.0} GB/s of data, 8 × 64 KiB, one core, just now");
    vec![
        ("parity kernel".into(), kernel),
        ("parity P (XOR)".into(), shown(xor)),
        ("parity P+Q".into(), shown(both)),
    ]
}

/// The best rate of a call that processes `bytes` bytes, in 10^9 bytes per second.
fn gb_per_s(bytes: usize, mut call: impl FnMut() -> Result<(), parity::Error>) -> f64 {
    let mut best = 0f64;
    for _ in 0..20 {
        let start = Instant::now();
        let mut rounds = 0;
        while start.elapsed() < Duration::from_millis(2) {
            if call().is_err() {
                return 0.0; // Unreachable: strips of equal length are valid.
            }
            rounds += 1;
        }
        best = best.max((rounds * bytes) as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    best
}
