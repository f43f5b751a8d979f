//! Compares fio's own request log with the imported profile. Skipped without fio.

#![allow(clippy::disallowed_methods, reason = "fio is a program that reads and writes files")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use storagebench::{Profile, import_fio};

/// The requests of fio: (reads, offset, length) of each.
fn fio_does(dir: &Path, job: &str) -> Option<Vec<(bool, u64, u64)>> {
    let (file, log) = (dir.join("job.fio"), dir.join("log"));
    std::fs::write(&file, job).unwrap();
    // fio would append to the log of the last job.
    drop(std::fs::remove_file(&log));
    let done = Command::new("fio")
        .arg(&file)
        .args([
            "--ioengine=null",
            "--iodepth=1",
            "--randrepeat=0",
            "--number_ios=20000",
            "--output-format=terse",
        ])
        .arg(format!("--write_iolog={}", log.display()))
        .current_dir(dir)
        .output();
    let done = match done {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        done => done.unwrap(),
    };
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let log = std::fs::read_to_string(log).unwrap();
    let request = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Version 2: file, operation, offset, length; version 3 adds a time before them.
        let at = words.iter().position(|word| ["read", "write"].contains(word))?;
        Some((
            words[at] == "read",
            words.get(at + 1)?.parse().ok()?,
            words.get(at + 2)?.parse().ok()?,
        ))
    };
    Some(log.lines().filter_map(request).collect())
}

fn near(measured: f64, expected: f64, count: usize, what: &str) {
    let deviation = (expected * (1.0 - expected) / count as f64).sqrt();
    assert!(
        (measured - expected).abs() <= 5.0 * deviation + 1e-9,
        "{what}: fio {measured}, imported {expected}"
    );
}

fn agree(dir: &Path, options: &str) -> bool {
    let job = format!("[global]\nsize=256m\nnorandommap\n[job]\n{options}\n");
    let Some(requests) = fio_does(dir, &job) else { return false };
    let count = requests.len();
    assert!(count >= 4096, "{options}: {count} requests");
    let profile: Profile =
        import_fio("job.fio", job.as_bytes(), &()).unwrap().0.entries.remove(0).profiles.remove(0);
    let share = |of: usize| of as f64 / count as f64;
    let average = |value: &dyn Fn(&storagebench::RequestKind) -> f64| -> f64 {
        profile.kinds().iter().map(|(share, kind)| share * value(kind) / 100.0).sum()
    };
    let reads = requests.iter().filter(|request| request.0).count();
    near(share(reads), average(&|kind| kind.read_percent), count, &format!("{options}: reads"));
    let mut blocks = BTreeMap::<u64, usize>::new();
    requests.iter().for_each(|request| *blocks.entry(request.2).or_default() += 1);
    let expected = profile.blocks();
    assert_eq!(
        blocks.keys().copied().collect::<Vec<_>>(),
        expected.iter().map(|b| b.bytes).collect::<Vec<_>>()
    );
    for (block, seen) in expected.iter().zip(blocks.values()) {
        near(share(*seen), block.share, count, &format!("{options}: blocks of {}", block.bytes));
    }
    if reads == 0 || reads == count {
        let follows = requests.windows(2).filter(|pair| pair[1].1 == pair[0].1 + pair[0].2).count();
        let random = average(&|kind| kind.random_percent);
        // At the end of the area a stream wraps around, and a random request may follow by chance.
        assert!((share(follows) - (1.0 - random)).abs() < 0.02, "{options}: {follows} follow");
    }
    true
}

#[test]
fn imported_jobs_ask_for_what_fio_asks_for() {
    let dir = std::env::temp_dir().join(format!("storagebench-fio-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let there = [
        "rw=randread\nbs=4k",
        "rw=randrw\nrwmixread=67\nbs=8k",
        "rw=randrw\nrwmixwrite=20\nbs=8k",
        "rw=read\nbs=64k",
        "rw=randrw\nrwmixread=80\nbssplit=512/10:1k/5:2k/5:4k/60:8k/2:16k/4:32k/4:64k/10",
        "rw=randrw\nrwmixread=60\nbs=4k,16k",
        "rw=randwrite\nbssplit=4k/50:64k/:16k/\nba=4k",
        "rw=randread\nbs=4k\npercentage_random=80",
        "rw=randread\nbs=4k-64k",
        "rw=randwrite\nbsrange=4k-64k",
        "rw=randread\nbsrange=4k-18k",
        "rw=randrw\nbssplit=2k/50:4k/50,4k/90:8k/10",
        "rw=randread\nkb_base=1000\nbs=4KiB",
    ]
    .iter()
    .all(|options| agree(&dir, options));
    std::fs::remove_dir_all(&dir).unwrap();
    if !there {
        test_tools::not_installed("fio");
    }
}
