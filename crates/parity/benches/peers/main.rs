//! Compares parity with its peers, on one core: `cargo bench -p parity` (or `make bench-parity`,
//! which installs the peer). Arguments: `--rounds N`, `--ms N` (per contender and round), and words
//! that select rows.
//!
//! Each round runs every contender of a row once, in turn, so that speed drift of the machine
//! affects all. The output is GB/s (10^9 bytes) of data, median and minimum–maximum over the
//! rounds, and for ratios the median and spread of the rounds' ratios.
//!
//! Peers: Debian's ISA-L (`libisal2`), loaded at run time so that nothing else links it; and
//! *touch*: a loop that only reads the sources and writes the results, the best of four variants
//! (with and without prefetching, with normal and streaming stores).

#![allow(clippy::disallowed_methods)] // A benchmark measures real time.

mod isal;
mod memory;
mod touch;

use isal::Isal;
use memory::Buffer;
use parity::{Change, Lost, Parity, Source, Strip};
use std::hint::black_box;
use std::time::{Duration, Instant};

const KIB: usize = 1024;
const SIZES: [usize; 4] = [4 * KIB, 64 * KIB, 256 * KIB, 64 * KIB * KIB];
const WIDTHS: [usize; 2] = [8, 14];

struct Options {
    rounds: usize,
    slice: Duration,
    words: Vec<String>,
}

fn options() -> Options {
    let mut options = Options { rounds: 15, slice: Duration::from_millis(4), words: Vec::new() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number =
            || arguments.next().and_then(|n| n.parse().ok()).expect("a number after the option");
        match argument.as_str() {
            "--bench" => {}
            "--rounds" => options.rounds = number(),
            "--ms" => options.slice = Duration::from_millis(number() as u64),
            _ => options.words.push(argument),
        }
    }
    options
}

/// A contender: its name, the bytes that count, and its work.
struct Contender<'a> {
    name: &'static str,
    bytes: usize,
    run: Box<dyn FnMut() + 'a>,
}

impl<'a> Contender<'a> {
    fn new(name: &'static str, bytes: usize, run: impl FnMut() + 'a) -> Contender<'a> {
        Contender { name, bytes, run: Box::new(run) }
    }

    /// The throughput in GB/s over at least `slice`.
    fn measure(&mut self, slice: Duration) -> f64 {
        memory::clear_upper_halves();
        let (mut calls, mut batch) = (0, 1);
        let start = Instant::now();
        loop {
            for _ in 0..batch {
                (self.run)();
            }
            calls += batch;
            let elapsed = start.elapsed();
            if elapsed >= slice {
                return (calls * self.bytes) as f64 / elapsed.as_secs_f64() / 1e9;
            }
            batch = batch.saturating_mul(2).min(1 << 10);
        }
    }
}

struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

fn spread(mut values: Vec<f64>) -> Spread {
    values.sort_by(f64::total_cmp);
    Spread { median: values[values.len() / 2], min: values[0], max: values[values.len() - 1] }
}

/// Runs a row: contenders in turn, then the ratio of the first to each other.
fn row(options: &Options, title: &str, mut contenders: Vec<Contender<'_>>) {
    if !options.words.iter().all(|word| title.contains(word.as_str())) {
        return;
    }
    let mut speeds = vec![Vec::new(); contenders.len()];
    for contender in &mut contenders {
        contender.measure(options.slice / 2); // warm
    }
    for _ in 0..options.rounds {
        for (contender, speeds) in contenders.iter_mut().zip(&mut speeds) {
            speeds.push(contender.measure(options.slice));
        }
    }
    // Variants of a contender share a name; the one with the best median represents it.
    let medians: Vec<f64> = speeds.iter().map(|speeds| spread(speeds.clone()).median).collect();
    let mut cells = Vec::new();
    for (i, contender) in contenders.iter().enumerate() {
        let beaten = contenders.iter().enumerate().any(|(j, other)| {
            other.name == contender.name && j != i && (medians[j], i) > (medians[i], j)
        });
        if beaten {
            continue;
        }
        let Spread { median, min, max } = spread(speeds[i].clone());
        let mut cell = format!("{} {median:.1} ({min:.1}–{max:.1})", contender.name);
        if i > 0 {
            let ratios =
                speeds[0].iter().zip(&speeds[i]).map(|(ours, theirs)| ours / theirs).collect();
            let Spread { median, min, max } = spread(ratios);
            cell += &format!(" × **{median:.2}** ({min:.2}–{max:.2})");
        }
        cells.push(cell);
    }
    println!("| {title} | {} |", cells.join(" | "));
}

fn size_name(size: usize) -> String {
    if size >= KIB * KIB {
        format!("{} MiB", size / KIB / KIB)
    } else {
        format!("{} KiB", size / KIB)
    }
}

/// The rows of one width and size.
fn rows(options: &Options, isal: Option<&Isal>, width: usize, size: usize) {
    let data: Vec<Buffer> = (0..width).map(|i| Buffer::filled(size, i as u8 + 1)).collect();
    let sources: Vec<Source<'_>> =
        data.iter().enumerate().map(|(i, data)| Source::new(i as u8, data.bytes())).collect();
    let slices: Vec<&[u8]> = data.iter().map(Buffer::bytes).collect();
    // Contenders share the result buffers, through pointers: all run for many calls, so that caches
    // are equally warm.
    let (mut p, mut q) = (Buffer::filled(size, 0), Buffer::filled(size, 0));
    let (p, q) = (p.shared(), q.shared());
    let total = width * size;
    let name = |what: &str| format!("{what}, {width} × {}", size_name(size));
    let beyond_l2 = total >= 2 * KIB * KIB;

    let mut p_row = vec![Contender::new("ours", total, || {
        parity::generate_p(p.bytes(), black_box(&sources)).expect("P");
    })];
    let mut pq_row = vec![Contender::new("ours", total, || {
        parity::generate_pq(p.bytes(), q.bytes(), black_box(&sources)).expect("P and Q");
    })];
    if let Some(isal) = isal {
        let one = isal.pointers(&slices, &[p.at()]);
        let two = isal.pointers(&slices, &[p.at(), q.at()]);
        let tables = isal.tables(width);
        p_row.push(Contender::new("ISA-L xor_gen", total, move || {
            isal.best.xor_gen(size, black_box(&one))
        }));
        let arrays = two.clone();
        pq_row.push(Contender::new("ISA-L pq_gen", total, move || {
            isal.best.pq_gen(size, black_box(&arrays))
        }));
        pq_row.push(Contender::new("ISA-L ec_encode_data", total, move || {
            isal.encode(size, black_box(&two), &tables);
        }));
    }
    if beyond_l2 {
        for form in touch::FORMS {
            let slices = &slices;
            p_row.push(Contender::new("touch", total, move || {
                touch::run(form, slices, &mut [p.bytes()])
            }));
            pq_row.push(Contender::new("touch", total, move || {
                touch::run(form, slices, &mut [p.bytes(), q.bytes()]);
            }));
        }
    }
    row(options, &name("P"), p_row);
    row(options, &name("P+Q"), pq_row);

    // Bytes touched: an XOR reads a source, reads and writes the result. An update reads old and
    // new, and reads and writes P and Q.
    let change = [Change::new(2, slices[0], slices[1])];
    let update =
        || parity::update(Some(p.bytes()), Some(q.bytes()), black_box(&change)).expect("an update");
    let in_place = || parity::xor_into(p.bytes(), black_box(slices[0]));
    let plain = || parity::xor_many(p.bytes(), black_box(&slices));
    row(
        options,
        &name("update P+Q (bytes touched)"),
        vec![
            Contender::new("ours", 6 * size, update),
            Contender::new("XOR into", 3 * size, in_place),
            Contender::new("XOR of all", (width + 1) * size, plain),
        ],
    );

    // Two data strips lost: as many strips are read as for generation.
    let recover = || {
        let parity = Parity { p: Some(slices[0].into()), q: Some(slices[width - 1].into()) };
        let mut lost = [
            Lost::new(Strip::Data(0), p.bytes()),
            Lost::new(Strip::Data(width as u8 - 1), q.bytes()),
        ];
        parity::recover(&mut lost, black_box(&sources[1..width - 1]), parity).expect("recovery");
    };
    let recover_q = || {
        let parity = Parity { p: None, q: Some(slices[0].into()) };
        let mut lost = [Lost::new(Strip::Data(0), p.bytes())];
        parity::recover(&mut lost, black_box(&sources[1..]), parity).expect("recovery");
    };
    let generate =
        || parity::generate_pq(p.bytes(), q.bytes(), black_box(&sources)).expect("P and Q");
    let generate_p = || parity::generate_p(p.bytes(), black_box(&sources)).expect("P");
    row(
        options,
        &name("recover two data"),
        vec![
            Contender::new("ours", total, recover),
            Contender::new("generate P+Q", total, generate),
        ],
    );
    row(
        options,
        &name("recover one data with Q"),
        vec![
            Contender::new("ours", total, recover_q),
            Contender::new("generate P", total, generate_p),
        ],
    );
    let check = || {
        black_box(parity::check_pq(p.bytes().as_ref().into(), q.bytes().as_ref().into(), &sources))
            .expect("a check");
    };
    parity::generate_pq(p.bytes(), q.bytes(), &sources).expect("P and Q");
    row(
        options,
        &name("check P+Q"),
        vec![Contender::new("ours", total, check), Contender::new("generate P+Q", total, generate)],
    );
}

fn kernel_rows(options: &Options) {
    let data: Vec<Buffer> = (0..8).map(|i| Buffer::filled(64 * KIB, i as u8 + 1)).collect();
    let sources: Vec<Source<'_>> =
        data.iter().enumerate().map(|(i, data)| Source::new(i as u8, data.bytes())).collect();
    let (mut p, mut q) = (Buffer::filled(64 * KIB, 0), Buffer::filled(64 * KIB, 0));
    let (p, q) = (p.shared(), q.shared());
    let total = 8 * 64 * KIB;
    let each = |run: fn(&parity::Kernel, &mut [u8], &mut [u8], &[Source<'_>])| {
        let sources = &sources;
        parity::kernels()
            .map(move |kernel| {
                Contender::new(kernel.name(), total, move || {
                    run(kernel, p.bytes(), q.bytes(), sources)
                })
            })
            .collect()
    };
    row(
        options,
        "kernels: P, 8 × 64 KiB",
        each(|kernel, p, _, s| kernel.generate_p(p, s).expect("P")),
    );
    row(
        options,
        "kernels: P+Q, 8 × 64 KiB",
        each(|kernel, p, q, s| {
            kernel.generate_pq(p, q, s).expect("P and Q");
        }),
    );
    row(
        options,
        "kernels: one data with Q, 8 × 64 KiB",
        each(|kernel, p, _, s| {
            let parity = Parity { p: None, q: Some(s[0].data) };
            kernel.recover(&mut [Lost::new(Strip::Data(0), p)], &s[1..], parity).expect("recovery");
        }),
    );
}

/// Compares each kernel with ISA-L's functions of the same instruction set.
fn peer_rows(options: &Options, isal: &Isal, width: usize, size: usize) {
    let data: Vec<Buffer> = (0..width).map(|i| Buffer::filled(size, i as u8 + 1)).collect();
    let sources: Vec<Source<'_>> =
        data.iter().enumerate().map(|(i, data)| Source::new(i as u8, data.bytes())).collect();
    let slices: Vec<&[u8]> = data.iter().map(Buffer::bytes).collect();
    let (mut p, mut q) = (Buffer::filled(size, 0), Buffer::filled(size, 0));
    let (p, q) = (p.shared(), q.shared());
    let (total, sources) = (width * size, &sources);
    for kernel in parity::kernels() {
        let Some((name, forms)) = isal.forms.iter().find(|(name, _)| *name == kernel.name()) else {
            continue;
        };
        let (one, two) =
            (isal.pointers(&slices, &[p.at()]), isal.pointers(&slices, &[p.at(), q.at()]));
        row(
            options,
            &format!("same instructions, {name}: P, {width} × {}", size_name(size)),
            vec![
                Contender::new("ours", total, move || {
                    kernel.generate_p(p.bytes(), black_box(sources)).expect("P");
                }),
                Contender::new("ISA-L", total, move || forms.xor_gen(size, black_box(&one))),
            ],
        );
        row(
            options,
            &format!("same instructions, {name}: P+Q, {width} × {}", size_name(size)),
            vec![
                Contender::new("ours", total, move || {
                    kernel.generate_pq(p.bytes(), q.bytes(), black_box(sources)).expect("P and Q");
                }),
                Contender::new("ISA-L", total, move || forms.pq_gen(size, black_box(&two))),
            ],
        );
    }
}

fn main() {
    let options = options();
    memory::pin_to_last_core();
    if let Some(name) = parity::refused_kernel() {
        eprintln!("{}={name}: no such kernel here", parity::KERNEL_VARIABLE);
        std::process::exit(2);
    }
    let isal = match Isal::load() {
        Ok(isal) => Some(isal),
        Err(reason) => {
            println!("SKIPPED the peer: {reason}");
            None
        }
    };
    println!("{}; kernel {}", memory::machine(), parity::kernel_name());
    println!("GB/s of data, median (min–max); × ratio of ours to it, {} rounds", options.rounds);
    for width in WIDTHS {
        for size in SIZES {
            rows(&options, isal.as_ref(), width, size);
        }
    }
    kernel_rows(&options);
    for (width, size) in WIDTHS.into_iter().flat_map(|width| SIZES.map(|size| (width, size))) {
        isal.iter().for_each(|isal| peer_rows(&options, isal, width, size));
    }
}
