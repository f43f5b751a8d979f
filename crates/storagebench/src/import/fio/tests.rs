use super::*;
use crate::load::profile::Profile;
use std::time::Duration;

/// A host with two processors, a variable and a few files.
struct Host;

impl JobHost for Host {
    fn read(&self, path: &str) -> std::result::Result<Vec<u8>, String> {
        let text: &[u8] = match path {
            "lab/inc.fio" => b"\xEF\xBB\xBFbs=128k\r\nioengine=libaio\r\ninclude deep/more.fio\r\n",
            "lab/deep/more.fio" => b"iodepth=16 ; deep\nunknown=1\n",
            "lab/loop.fio" => b"include ./loop.fio\n",
            "lab/jobs.fio" => b"include jobs.fio\n",
            "lab/section.fio" => b"bs=8k\n[other]\nrw=write\n",
            _ => return Err("no such file".to_owned()),
        };
        Ok(text.to_vec())
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "BS").then(|| "64k".to_owned())
    }

    fn page_size(&self) -> u64 {
        4096
    }

    fn processors(&self) -> u64 {
        2
    }

    fn memory_mib(&self) -> u64 {
        24_105
    }
}

fn read(content: &[u8]) -> Result<(Vec<Profile>, Vec<String>)> {
    let (group, notes) = import_fio("lab/jobs.fio", content, &Host)?;
    Ok((group.entries.into_iter().flat_map(|entry| entry.profiles).collect(), notes))
}

fn import(text: &str) -> (Vec<Profile>, Vec<String>) {
    read(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The description of the only job with these options.
fn described(options: &str) -> String {
    let (profiles, notes) = import(&format!("[j]\n{options}\n"));
    assert_eq!(profiles.len(), 1, "{options}: {notes:?}");
    profiles[0].description()
}

fn blocks(options: &str) -> Vec<(u64, f64)> {
    let (profiles, _) = import(&format!("[j]\n{options}\n"));
    profiles[0]
        .blocks()
        .iter()
        .map(|block| (block.bytes, (block.share * 1e4).round() / 1e4))
        .collect()
}

#[test]
fn jobs_become_profiles_and_what_is_left_out_is_said_line_by_line() {
    let (profiles, notes) = import(
        "; a database\n[global]\nioengine=io_uring\ndirect=1\nruntime=60\ntime_based\n\
         norandommap\nbs=8k\n\n\
         [OLTP data]\nrw=randrw\nrwmixread=67\niodepth=32\nnumjobs=4\nfilename=/dev/sdz\n\n\
         [log]\nstonewall\nrw=write\nbs=64k\nunified_rw_reporting=1\nramp_time=2m\n",
    );
    let lines: Vec<String> =
        profiles.iter().map(|p| format!("{}: {}", p.name(), p.description())).collect();
    assert_eq!(
        lines,
        [
            "oltp-data: random, 67% read, 8 KiB, 128 outstanding, for 60s",
            "log: sequential, write, 64 KiB, 1 outstanding, for 60s after a ramp of 120s"
        ]
    );
    assert_eq!(
        notes,
        [
            "lab/jobs.fio:4: 'direct=1' is left out: targets are always accessed directly where \
                they can be",
            "lab/jobs.fio:15: 'filename=/dev/sdz' is left out: name the target when measuring",
            "lab/jobs.fio:21: 'unified_rw_reporting=1' is left out: load profiles have no such \
             option",
            "lab/jobs.fio:10: 'OLTP data' becomes the load profile 'oltp-data'",
        ]
    );
}

#[test]
fn the_iometer_file_server_of_fios_examples_is_the_catalogs() {
    let (profiles, _) = import(
        "[global]\ndescription=Emulation of Intel IOmeter File Server Access Pattern\n\n[iometer]\n\
         bssplit=512/10:1k/5:2k/5:4k/60:8k/2:16k/4:32k/4:64k/10\nrw=randrw\nrwmixread=80\n\
         direct=1\nsize=4g\n\
         ioengine=libaio\niodepth=64\nblockalign=512\n",
    );
    let classic: Profile = "iometer-file-server".parse().unwrap();
    assert_eq!(profiles[0].blocks().len(), classic.blocks().len());
    for (block, other) in profiles[0].blocks().iter().zip(classic.blocks()) {
        assert!(block.bytes == other.bytes && (block.share - other.share).abs() < 1e-9);
    }
    assert_eq!((profiles[0].read_percent(), profiles[0].access()), (80, crate::Access::Random));
    assert_eq!(profiles[0].load().area.to_string(), "0..4G");
}

#[test]
fn every_option_that_is_taken_does_something() {
    for (options, description) in [
        ("rw=randread\nbs=4k,8k", "random, read, 4 KiB, 1 outstanding"),
        ("rw=randrw\nbs=4k,8k\nrwmixwrite=30", "random, 70% read, 4 KiB to 8 KiB, 1 outstanding"),
        ("rw=randwrite\nbssplit=4k/50:64k/:16k/", "random, write, 4 KiB to 64 KiB, 1 outstanding"),
        ("rw=randwrite\nbsrange=4k-16k", "random, write, 4 KiB to 16 KiB, 1 outstanding"),
        ("rw=randrw\npercentage_random=80", "80% random, 50% read, 4 KiB, 1 outstanding"),
        (
            "rw=randread\nrandom_distribution=zipf:1.2",
            "random, read, 4 KiB, Zipf 1.2, 1 outstanding",
        ),
        (
            "rw=randread\nrandom_distribution=zoned:60/10:30/20:10/70",
            "random, read, 4 KiB, in 3 zones, 1 outstanding",
        ),
        (
            "rw=read\nnumjobs=8\noffset_increment=2g",
            "sequential, read, 4 KiB, 8 streams 2 GiB apart, 8 outstanding",
        ),
        (
            "rw=read\nthinktime=500\nthinktime_blocks=4",
            "sequential, read, 4 KiB, 500us pause after 4, 1 outstanding",
        ),
        (
            "rw=read\nrate_iops=100\nrate_process=poisson\nnumjobs=2",
            "sequential, read, 4 KiB, 200/s (poisson), 2 outstanding",
        ),
        (
            "rw=write\nbuffer_compress_percentage=50",
            "sequential, write, 4 KiB, 50% compressible, 1 outstanding",
        ),
        ("rw=write\nzero_buffers", "sequential, write, 4 KiB, 100% compressible, 1 outstanding"),
        ("rw=write\noffset=1g\nsize=1g", "sequential, write, 4 KiB, in 1G..2G, 1 outstanding"),
        ("rw=write\noffset=10%\nsize=25%", "sequential, write, 4 KiB, in 10%..35%, 1 outstanding"),
        (
            "readwrite=rw\nblocksize=1m\nioengine=libaio\niodepth=8",
            "sequential, 50% read, 1 MiB, 8 outstanding",
        ),
        (
            "rw=randread\nbs=64k ; large\nioengine=psync\niodepth=8",
            "random, read, 64 KiB, 1 outstanding",
        ),
        ("rw=read\nruntime=1m", "sequential, read, 4 KiB, 1 outstanding, for 60s"),
        (
            "rw=read\nramp_time=1500ms",
            "sequential, read, 4 KiB, 1 outstanding after a ramp of 1.5s",
        ),
        ("rw=read\nruntime=0", "sequential, read, 4 KiB, 1 outstanding"),
    ] {
        assert_eq!(described(options), description, "{options}");
    }
}

/// Constructs of real job files; `fio --parse-only --debug=parse` and fio's logs show their
/// meaning.
#[test]
fn values_mean_what_they_mean_to_fio() {
    expect_described(&[
        ("rw=read\ninclude inc.fio", "sequential, read, 128 KiB, 16 outstanding"),
        ("rw=read\nbs=${BS}", "sequential, read, 64 KiB, 1 outstanding"),
        ("rw=read\nbs=$BS", "sequential, read, 64 KiB, 1 outstanding"),
        ("rw=read\nbs=$pagesize", "sequential, read, 4 KiB, 1 outstanding"),
        ("rw=read\nsize=$mb_memory*1", "sequential, read, 4 KiB, in 0..24105, 1 outstanding"),
        ("rw=randread\nnumjobs=$ncpus", "random, read, 4 KiB, 2 outstanding"),
        ("rw=randread\nnumjobs=$ncpus*2", "random, read, 4 KiB, 4 outstanding"),
        ("rw=read\nfilename=$jobname.$jobnum", "sequential, read, 4 KiB, 1 outstanding"),
        // Without a comma, a dash separates reads from writes.
        ("rw=randread\nbs=4k-512k", "random, read, 4 KiB, 1 outstanding"),
        ("rw=randwrite\nbs=4k-512k", "random, write, 512 KiB, 1 outstanding"),
        ("rw=read\nioengine=sg\niodepth=8", "sequential, read, 4 KiB, 8 outstanding"),
        (
            "rw=read\nioengine=external:/opt/x.so\niodepth=8",
            "sequential, read, 4 KiB, 8 outstanding",
        ),
        ("rw=read\nioengine=mmap\niodepth=8", "sequential, read, 4 KiB, 1 outstanding"),
        (
            "rw=randwrite\nbs=8k\nrate=1250k",
            "random, write, 8 KiB, 156.25/s (fixed), 1 outstanding",
        ),
        (
            "rw=randrw\nrwmixread=70\nrate_iops=700,300",
            "random, 70% read, 4 KiB, 1000/s (fixed), 1 outstanding",
        ),
        // A single rate applies to reads and to writes, for any mix.
        (
            "rw=randrw\nrwmixread=70\nrate_iops=700",
            "random, 50% read, 4 KiB, 1400/s (fixed), 1 outstanding",
        ),
        ("rw=randread\nrate_iops=1k,", "random, read, 4 KiB, 1024/s (fixed), 1 outstanding"),
        ("rw=randread\nsize=50%\nio_size=10g", "random, read, 4 KiB, in 0..50%, 1 outstanding"),
        // A size in percent refers to the whole target.
        ("rw=randread\noffset=1g\nsize=20%", "random, read, 4 KiB, in 1G..1G+20%, 1 outstanding"),
        ("rw=randread\noffset=20%\nsize=1g", "random, read, 4 KiB, in 20%..1G+20%, 1 outstanding"),
    ]);
}

#[test]
fn spellings_and_distributions_mean_what_they_mean_to_fio() {
    expect_described(&[
        (
            "rw=randread\nbs=4k ; small\niodepth=4 # deep\nioengine=libaio",
            "random, read, 4 KiB, 4 outstanding",
        ),
        (
            "rw=randread\nthinktime=2ms\nthinktime_spin=1ms",
            "random, read, 4 KiB, 2ms pause, 1 outstanding",
        ),
        ("rw=randread\nbs=(4*1024)", "random, read, 4 KiB, 1 outstanding"),
        ("rw=randread\nbs=4kb\nsize=1gb", "random, read, 4 KiB, in 0..1G, 1 outstanding"),
        (
            "rw=randread\nkb_base=1000\nbs=4KiB\nsize=1GiB",
            "random, read, 4 KiB, in 0..1G, 1 outstanding",
        ),
        (
            "readwrite=randrw\nrwmixwrite=30\npercentage_random=80,20",
            "62% random, 70% read, 4 KiB, 1 outstanding",
        ),
        (
            "rw = randread\nBS = 4k\nIoDepth=8\nioengine=libaio",
            "random, read, 4 KiB, 8 outstanding",
        ),
        (
            "rw=randread\nnumjobs=4\niodepth=32\nioengine=libaio\nrandom_distribution=pareto:0.9",
            "random, read, 4 KiB, Pareto 0.9, 128 outstanding",
        ),
        (
            "rw=randread\nrandom_distribution=pareto",
            "random, read, 4 KiB, Pareto 0.2, 1 outstanding",
        ),
        (
            "rw=randread\nrandom_distribution=normal:10",
            "random, read, 4 KiB, normal 10%, 1 outstanding",
        ),
        (
            "rw=randread\nrandom_distribution=zoned_abs:60/1g:40/9g",
            "random, read, 4 KiB, in 2 zones, in 0..10G, 1 outstanding",
        ),
        (
            "rw=randread\noffset=1g\nrandom_distribution=zoned_abs:60/1g:40/",
            "random, read, 4 KiB, in 2 zones, in 1G..3G, 1 outstanding",
        ),
    ]);
}

/// Each job with these options has this description.
fn expect_described(cases: &[(&str, &str)]) {
    for (options, description) in cases {
        // A last zone without a size is the rest of the job's.
        let options = if options.ends_with("40/") {
            format!("{options}\nsize=2g")
        } else {
            (*options).to_owned()
        };
        assert_eq!(described(&options), *description, "{options}");
    }
}

#[test]
fn sizes_of_requests_are_drawn_as_fio_draws_them() {
    let even = |sizes: &[u64]| -> Vec<(u64, f64)> {
        let share = (1e4 / sizes.len() as f64).round() / 1e4;
        sizes.iter().map(|size| (*size, share)).collect()
    };
    for (options, expected) in [
        ("rw=randread\nbssplit=4k/10:64k/50:32k/", vec![(4096, 0.1), (32_768, 0.4), (65_536, 0.5)]),
        ("rw=randread\nbssplit=4k:8k:16k", even(&[4096, 8192, 16_384])),
        (
            "rw=randrw\nbssplit=2k/50:4k/50,4k/90:8k/10",
            vec![(2048, 0.25), (4096, 0.7), (8192, 0.05)],
        ),
        ("rw=randread\nbsrange=4k-16k", even(&[4096, 8192, 12_288, 16_384])),
        ("rw=randread\nbsrange=4k:16k", even(&[4096, 8192, 12_288, 16_384])),
        (
            "rw=randread\nbsrange=4k-18k",
            vec![
                (4096, 0.2222),
                (8192, 0.2222),
                (12_288, 0.2222),
                (16_384, 0.2222),
                (18_432, 0.1111),
            ],
        ),
        ("rw=randrw\nbsrange=4k-8k,8k-16k", vec![(4096, 0.25), (8192, 0.5), (16_384, 0.25)]),
        // `bssplit` overrides the other options.
        ("rw=read\nbssplit=8k/100\nbs=4k", vec![(8192, 1.0)]),
        ("rw=randwrite\nbs=,8k", vec![(8192, 1.0)]),
        ("rw=randread\nbs=,8k", vec![(4096, 1.0)]),
        ("rw=randrw\nbs=8k,", vec![(4096, 0.5), (8192, 0.5)]),
        ("rw=randrw\nbsrange=8k-16k,", vec![(4096, 0.5), (8192, 0.25), (16_384, 0.25)]),
    ] {
        assert_eq!(blocks(options), expected, "{options}");
    }
    let many = blocks("rw=randread\nbsrange=512:1M");
    let mean: f64 = many.iter().map(|(size, share)| *size as f64 * share).sum();
    assert_eq!((many.len(), many[0].0, many[63].0), (64, 512, 1 << 20));
    // The mean of all 2048 lengths equals that of the first and the last.
    assert!((mean / (f64::from(512 + (1 << 20)) / 2.0) - 1.0).abs() < 0.01, "{mean}");
}

#[test]
fn zones_without_a_size_have_the_rest() {
    let zones = |distribution: &str| {
        let (profiles, _) =
            import(&format!("[j]\nrw=randrw\nrandom_distribution={distribution}\n"));
        let zones = |component: &crate::Component| match &component.skew {
            crate::Skew::Zones(zones) => {
                zones.iter().map(|zone| (zone.access_percent, zone.span_percent)).collect()
            }
            other => panic!("{other:?}"),
        };
        let components = &profiles[0].load().components;
        let shares: Vec<f64> = components.iter().map(|component| component.share).collect();
        (shares, components.iter().map(zones).collect::<Vec<Vec<(f64, f64)>>>())
    };
    let first = vec![(60.0, 10.0), (40.0, 90.0)];
    let even = vec![(50.0, 50.0), (50.0, 50.0)];
    assert_eq!(zones("zoned:50/5:30/15:20/").1, [vec![(50.0, 5.0), (30.0, 15.0), (20.0, 80.0)]]);
    assert_eq!(zones("zoned:60/:40/").1, [vec![(60.0, 50.0), (40.0, 50.0)]]);
    for spelling in ["zoned:60/10:40/90,zoned:50/50:50/50", "zoned:60/10:40/90,50/50:50/50"] {
        assert_eq!(
            zones(spelling),
            (vec![0.5, 0.5], vec![first.clone(), even.clone()]),
            "{spelling}"
        );
    }
    assert_eq!(zones("zoned_abs:60/1g:40/9g").1, [first]);
}

#[test]
fn each_of_several_jobs_has_its_part() {
    let areas = |options: &str| -> Vec<String> {
        let (profiles, _) = import(&format!("[j]\n{options}\n"));
        let load = profiles[0].load();
        load.components.iter().map(|part| part.area.to_string()).collect()
    };
    let streams = "sequential, write, 1 MiB, 4 streams 1 GiB apart, in 0..19G, 4 outstanding";
    assert_eq!(described("rw=write\nbs=1m\nsize=16g\noffset_increment=1g\nnumjobs=4"), streams);
    assert_eq!(
        areas("rw=write\nbs=1m\nsize=16g\noffset_increment=25%\nnumjobs=4"),
        ["0..16G", "25%..16G+25%", "50%..16G+50%", "75%..16G+75%"]
    );
    assert_eq!(
        areas("rw=randread\noffset=1g\nsize=1g\noffset_increment=2g\nnumjobs=2"),
        ["1G..2G", "3G..4G"]
    );
    assert_eq!(areas("rw=randread\noffset_increment=2g"), ["all"]);
}

#[test]
fn sections_are_read_as_fio_reads_them() {
    let (profiles, _) = import("[global]\nbs=4k\n[a]\nrw=read\n[global2]\nbs=64k\n[b]\nrw=read\n");
    let sizes: Vec<u64> = profiles.iter().map(|profile| profile.largest_block().0).collect();
    assert_eq!(sizes, [4096, 65_536]);
    let (profiles, notes) = import("[r]\nrw=read\n[t]\nrw=trim\nfilename=/dev/vda\n");
    assert_eq!(profiles.len(), 1);
    let refusal = "lab/jobs.fio:4: the job 't' is not imported: 'rw=trim' trims, and SoftROC \
                   generates reads and writes only; give rw=write, or omit the job";
    assert!(notes.iter().any(|note| note == refusal), "{notes:?}");
}

#[test]
fn files_of_any_encoding_are_read() {
    let utf16: Vec<u8> = "\u{FEFF}[j]\r\nrw=randread\r\nbs=8k\r\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    for content in [
        &b"\xEF\xBB\xBF[j]\nrw=randread\nbs=8k\n"[..],
        b"[j]\r\nrw=randread\r\nbs=8k\r\n",
        b"# Pr\xFCfung\n[j]\nrw=randread\nbs=8k\n",
        &utf16,
    ] {
        let (profiles, _) = read(content).unwrap();
        assert_eq!(profiles[0].description(), "random, read, 8 KiB, 1 outstanding", "{content:?}");
    }
}

#[test]
fn a_run_time_is_part_of_the_file_that_is_written() {
    let (group, _) = import_fio(
        "j.fio",
        b"[j]\nrw=read\nruntime=3\ntime_based\n[k]\nrw=read\noffset=1g\nsize=20%",
        &(),
    )
    .unwrap();
    let mut catalog = crate::Catalog::builtin().clone();
    catalog.read("j.toml", &group.to_toml()).unwrap();
    let load = catalog.select("k").unwrap()[0].load().clone();
    assert_eq!((load.area.to_string().as_str(), load.runtime), ("1G..1G+20%", None));
    let load = catalog.select("j-2").unwrap()[0].load().clone();
    assert_eq!((load.runtime, load.ramp), (Some(Duration::from_secs(3)), Some(Duration::ZERO)));
}

#[test]
fn what_is_read_differently_is_said() {
    for (options, note) in [
        ("rw=randread", "lab/jobs.fio:1: fio visits every block once before repeating any"),
        ("rw=rw", "lab/jobs.fio:1: fio keeps separate positions"),
        ("rw=randread:8\nnorandommap", "lab/jobs.fio:2: ':8' after 'randread' is left out"),
        (
            "rw=read\nnumjobs=4",
            "lab/jobs.fio:3: fio starts its 4 sequential jobs at the same offset",
        ),
        (
            "rw=read\niodepth=4",
            "lab/jobs.fio:3: fio's engine 'psync' keeps one request outstanding",
        ),
        ("rw=read\nrate_iops=4", "lab/jobs.fio:3: fio limits the rate of a closed loop"),
        (
            "rw=read\nbsrange=512-8m",
            "lab/jobs.fio:3: 'bsrange=512-8m' has 16384 lengths; 64 of them",
        ),
        (
            "rw=read\nbsrange=3k-9k",
            "lab/jobs.fio:3: fio requests lengths of 'bsrange=3k-9k' that are no whole",
        ),
        ("rw=read\nruntime=5", "lab/jobs.fio:3: fio ends the job before 'runtime=5' is over"),
        (
            "rw=read\nio_size=10g",
            "lab/jobs.fio:3: 'io_size=10g' is left out: a measurement ends with its run time",
        ),
        ("rw=randread\nrandom_distribution=zipf:1.2:0.5", "lab/jobs.fio:3: the centre '0.5' of"),
        ("rw=read\nthinktime_spin=1ms", "lab/jobs.fio:3: 'thinktime_spin=1ms' is left out"),
        ("rw=read\ninclude inc.fio", "lab/deep/more.fio:2: 'unknown=1' is left out"),
        ("rw=read\n[k]\nrw=read", "lab/jobs.fio:3: fio runs the jobs j, k at the same time"),
    ] {
        let (_, notes) = import(&format!("[j]\n{options}\n"));
        assert!(notes.iter().any(|said| said.starts_with(note)), "{options}: {notes:?}");
    }
}

#[test]
fn a_wrong_file_is_named_with_its_line() {
    for (text, part) in [
        (
            "[global]\nrw=read\n",
            "lab/jobs.fio:1: there is no job in this file; add a section such as [job1]",
        ),
        ("rw=read\n", "lab/jobs.fio:1: 'rw=read' is outside of any section; put it below [global]"),
    ] {
        let error = read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

/// Every refusal has the line, the value, the expected form and the remedy; other jobs are
/// imported. Wrong options, each with a part of its refusal.
const WRONG: &[(&str, &str)] = &[
    (
        "rw=sideways",
        "2: the job 'j' is not imported: 'rw=sideways' is not understood; give read, write",
    ),
    ("bs=big", "2: the job 'j' is not imported: 'bs=big' is not understood; give sizes such as 4k"),
    (
        "bs=100",
        "2: the job 'j' is not imported: 'bs=100' requests 100 bytes; give a multiple of 512 bytes",
    ),
    ("bs=4KiB", "'bs=4KiB' requests 4000 bytes (fio reads Ki as 1000, unless kb_base=1000 is set)"),
    ("bs=1.5k", "'bs=1.5k' is not understood; give sizes such as 4k"),
    ("bs=32m", "1: the job 'j' is not imported: a block of 32 MiB cannot be requested"),
    ("bs=${NONE}", "the environment variable NONE of 'bs=${NONE}' is not set; set it"),
    ("bs=$BS$BS", "'bs=$BS$BS' (that is 'bs=64k64k') is not understood; give sizes"),
    (
        "rw=randrw\nrwmixread=120",
        "3: the job 'j' is not imported: 'rwmixread=120' is not understood; give a whole",
    ),
    (
        "bssplit=4k/60:8k/60",
        "'bssplit=4k/60:8k/60' is not understood; give shares that add up to 100 %",
    ),
    ("bsrange=8k-4k", "'bsrange=8k-4k' is not understood; give a range from the smaller"),
    ("iodepth=0", "'iodepth=0' is not understood; give a whole number of at least 1"),
    ("numjobs=0", "'numjobs=0' is not understood; give a whole number of at least 1"),
    ("iodepth=9999\nnumjobs=9999\nioengine=libaio", "outstanding I/Os is not between 1 and 65536"),
    ("offset=100%", "'offset=100%' leaves nothing of the target; give less than 100%"),
    ("size=many", "'size=many' is not understood; give a size such as 10g, or a percentage"),
    ("offset=99p", "'offset=99p' is more than any target has; give at most 64p"),
    (
        "rw=randread\nrandom_distribution=gauss",
        "'random_distribution=gauss' is not understood; give random, zipf, pareto",
    ),
    (
        "rw=randread\nrandom_distribution=pareto:80",
        "a share from 0.0001 to 0.9999, such as pareto:0.2",
    ),
    (
        "rw=randread\nrandom_distribution=normal:wide",
        "a percentage from 0 to 100, such as normal:10",
    ),
    (
        "rw=randread\nrandom_distribution=zoned:60/10:30/90",
        "zones whose shares add up to 100 % each, such as",
    ),
    ("rw=randread\nrandom_distribution=zoned:60/0:40/100", "zones with a size above 0"),
    (
        "rw=randread\nsize=1g\nrandom_distribution=zoned_abs:60/1g:40/9g",
        "has zones beyond the size of the job, which fio refuses too",
    ),
    (
        "rw=randread\nrandom_distribution=zoned_abs:60/1g:40/",
        "leaves the rest to a zone, but the job has no size; add",
    ),
    ("rw=randread\nrandom_distribution=zipf:steep", "an exponent from 0 to 10, such as zipf:1.1"),
    ("rw=randrw\nrate_iops=700,", "give both rates"),
    (
        "rw=read\nrate_iops=700\nrate=1m",
        "conflicts with rate=, and fio accepts only one of them; omit one",
    ),
    (
        "rate_iops=1\nrate_process=even",
        "'rate_process=even' is not understood; give linear or poisson",
    ),
    ("runtime=soon", "'runtime=soon' is not understood; give a time such as 60 (seconds) or 5m"),
    ("runtime=400d", "a time above 30 days cannot be measured; give one such as 60s"),
    (
        "thinktime=long",
        "'thinktime=long' is not understood; give a time such as 500 (microseconds)",
    ),
    (
        "blockalign=100",
        "'blockalign=100' is not a multiple of a sector; give a multiple of 512 bytes",
    ),
    ("kb_base=512", "'kb_base=512' is not understood; give 1000 or 1024"),
    (
        "rw=randread\nnumjobs=65\noffset_increment=1%",
        "gives each of 65 jobs a separate part; give numjobs= at most 64",
    ),
    (
        "rw=randread\nnumjobs=5\noffset_increment=25%",
        "starts some of the 5 jobs at the end of the target; give less",
    ),
    (
        "include none.fio",
        "2: the job 'j' is not imported: the file of 'include none.fio' cannot be read (no such \
            file); correct its path",
    ),
    (
        "include loop.fio",
        "lab/loop.fio:1: the job 'j' is not imported: 'include ./loop.fio' includes a file that \
            includes this one",
    ),
    (
        "include jobs.fio",
        "'include jobs.fio' includes a file that includes this one, or is more than 16 files deep; \
            remove the line",
    ),
    (
        "include section.fio",
        "lab/section.fio:2: the job 'j' is not imported: '[other]' begins a section in an included \
            file",
    ),
];

#[test]
fn a_wrong_job_is_refused_alone() {
    for (options, part) in WRONG {
        let (profiles, notes) = import(&format!("[j]\n{options}\n[good]\nrw=read\n"));
        let names: Vec<&str> = profiles.iter().map(Profile::name).collect();
        assert_eq!(names, ["good"], "{options}");
        assert!(notes.iter().any(|note| note.contains(part)), "{options}: {notes:?}");
        let error = read(format!("[j]\n{options}\n").as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part), "{options}: {error}");
    }
}

#[test]
fn what_the_global_section_breaks_no_job_inherits_silently() {
    let (profiles, notes) = import(
        "[a]\nrw=read\n[global]\ninclude none.fio\nbs=odd\n[b]\nrw=read\n[c]\nrw=read\nbs=4k\n",
    );
    assert_eq!(profiles.len(), 1);
    assert_eq!(
        notes.iter().filter(|note| note.contains("is not imported")).count(),
        2,
        "{notes:?}"
    );
}
